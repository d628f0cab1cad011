#define _GNU_SOURCE /* dl_iterate_phdr */
#include "comm/being_freed.h"

#include <stddef.h>
#include <unwind.h>

#include "base/object.h"

/* A function that has been called and has not returned. */
struct frame {
    uintptr_t address; /* of its stack frame; 0: none */
    const void *function;
};

/* Deeper nests are cut off at the outer end. */
enum { MOST = 16 };

/*
 * within: the MPI library's function that deletes the attributes, or one that has called it. None
 * between begin and end, where `begun` is the frame of begin: an error handler may have left its
 * callers by a jump.
 */
static _Thread_local struct {
    MPI_Comm comm;
    struct frame within;
    uintptr_t begun;
} entries[MOST];
static _Thread_local int used;

/* ---- the stack ------------------------------------------------------------------------------- */

struct object {
    uintptr_t address;
    uintptr_t base;
};

static int find_object(struct dl_phdr_info *info, size_t size, void *data) {
    struct object *object = data;
    (void)size;
    if (!cf_object_has(info, object->address)) {
        return 0;
    }
    object->base = (uintptr_t)info->dlpi_addr;
    return 1;
}

/* Not dladdr, which takes the loader's lock. */
static uintptr_t object_of(uintptr_t address) {
    struct object object = {.address = address, .base = UINTPTR_MAX};
    (void)dl_iterate_phdr(find_object, &object);
    return object.base;
}

static struct frame frame_of(struct _Unwind_Context *context) {
    const uintptr_t at = (uintptr_t)_Unwind_GetIP(context) - 1; /* in the call, not behind it */
    return (struct frame){(uintptr_t)_Unwind_GetCFA(context),
                          _Unwind_FindEnclosingFunction((void *)at)};
}

/* The callback is called by one function, which may be called for each attribute anew, by another,
 * by another. Four frames are enough, and do not reach main in a program linked with all of MPI. */
enum { FRAMES = 4 };

struct walk {
    uintptr_t own;     /* this library */
    uintptr_t library; /* the first other object on the way */
    int frames;        /* of that */
    struct frame last; /* the last of these */
};

static _Unwind_Reason_Code go_up(struct _Unwind_Context *context, void *data) {
    struct walk *walk = data;
    const uintptr_t object = object_of((uintptr_t)_Unwind_GetIP(context) - 1);
    if (walk->frames == 0 && object == walk->own) {
        return _URC_NO_REASON;
    }
    walk->library = walk->frames == 0 ? object : walk->library;
    if (object != walk->library || walk->frames == FRAMES) {
        return _URC_NORMAL_STOP;
    }
    walk->frames++;
    walk->last = frame_of(context);
    return _URC_NO_REASON;
}

/* The outermost of the frames by which another object has called this library. */
static struct frame caller(void) {
    struct walk walk = {.own = object_of((uintptr_t)&cf_runtime)};
    (void)_Unwind_Backtrace(go_up, &walk);
    return walk.last;
}

static _Unwind_Reason_Code look_for(struct _Unwind_Context *context, void *data) {
    struct frame *wanted = data;
    const struct frame here = frame_of(context);
    if (here.address != wanted->address || here.function != wanted->function) {
        return _URC_NO_REASON;
    }
    wanted->address = 0;
    return _URC_NORMAL_STOP;
}

static bool is_running(struct frame frame) {
    (void)_Unwind_Backtrace(look_for, &frame);
    return frame.address == 0;
}

/* ---- entries --------------------------------------------------------------------------------- */

#define FRAME ((uintptr_t)__builtin_frame_address(0))

static void push(MPI_Comm comm, struct frame within, uintptr_t begun) {
    if (used == MOST) {
        for (int i = 1; i < used; i++) {
            entries[i - 1] = entries[i];
        }
        used--;
    }
    entries[used].comm = comm;
    entries[used].within = within;
    entries[used].begun = begun;
    used++;
}

/* Between begin and end. */
static bool is_begun(MPI_Comm comm) {
    for (int i = used - 1; i >= 0; i--) {
        if (entries[i].comm == comm && entries[i].within.address == 0) {
            return true;
        }
    }
    return false;
}

/* Stacks grow downwards: what has begun in a frame that is not above this one has been left. */
CF_APART void cf_freeing_begin(MPI_Comm comm) {
    while (used > 0 && entries[used - 1].within.address == 0 && entries[used - 1].begun <= FRAME) {
        used--;
    }
    push(comm, (struct frame){0, NULL}, FRAME);
}

void cf_freeing_end(MPI_Comm comm) {
    bool last = false;
    while (used > 0 && !last) {
        used--;
        last = entries[used].comm == comm && entries[used].within.address == 0;
    }
}

void cf_freeing_deferred(MPI_Comm comm) {
    if (!is_begun(comm)) {
        push(comm, caller(), 0);
    }
}

bool cf_is_being_freed(MPI_Comm comm) {
    if (is_begun(comm)) {
        return true;
    }
    while (used > 0 && entries[used - 1].within.address != 0 &&
           !is_running(entries[used - 1].within)) {
        used--;
    }
    for (int i = used - 1; i >= 0; i--) {
        if (entries[i].comm == comm) {
            return is_running(entries[i].within);
        }
    }
    return false;
}
