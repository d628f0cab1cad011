/* Makes a call with guarded buffers and compares every byte of them with what should be there. */
#include "conformance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    GUARD = 64,    /* bytes before and behind what a buffer spans */
    PATTERN = 0xa5 /* of guards, holes and results that are not there yet */
};

static int no_counts[1] = {-9};

/* ---- images --------------------------------------------------------------------------------- */

static MPI_Aint lowest(const struct type *type) {
    MPI_Aint low = type->lb < 0 ? type->lb : 0;
    for (int w = 0; w < type->words; w++)
        low = type->offsets[w] < low ? type->offsets[w] : low;
    return low;
}

static MPI_Aint highest(const struct type *type) {
    MPI_Aint high = type->lb + type->extent;
    for (int w = 0; w < type->words; w++) {
        const MPI_Aint end = type->offsets[w] + (MPI_Aint)word_bytes(type->kinds[w]);
        high = end > high ? end : high;
    }
    return high;
}

static void image_prepare(struct image *image, const struct side *side) {
    const struct type *type = side->type;
    const size_t below = ((size_t)-lowest(type) + 15) / 16 * 16;
    const size_t above = side->elements == 0 ? 0
                                             : (size_t)(side->elements - 1) * (size_t)type->extent +
                                                   (size_t)highest(type);

    image->base = GUARD + below;
    image->bytes = image->base + above + GUARD;
    if (image->bytes > image->capacity) {
        free(image->work);
        free(image->expected);
        image->work = xmalloc(image->bytes);
        image->expected = xmalloc(image->bytes);
        image->capacity = image->bytes;
    }
    memset(image->work, PATTERN, image->bytes);
}

/* Word w of element number index of the side's region, as a place in the image. */
static size_t word_place(const struct image *image, const struct side *side, int index, int w) {
    return (size_t)((MPI_Aint)image->base + index * side->type->extent + side->type->offsets[w]);
}

/* ---- what stands where ---------------------------------------------------------------------- */

/* Words first ... of a block of a rank's input: width of them. */
static void input_words(const struct call *call, int rank, int block, int first, int width,
                        int64_t *words) {
    const struct type *type = call->shape->types[0];
    const uint64_t key = mix(mix(mix(call->seed + 1ULL) + (unsigned)rank) + (unsigned)block);
    for (int k = 0; k < width; k++) {
        const int place = type->words == 0 ? 0 : (first + k) % type->words;
        words[k] = word_from(call->op, type->kinds[place], place, mix(key + (unsigned)(first + k)));
    }
}

static void result_words(const struct call *call, int block, int first, int width, int64_t *words) {
    const struct collective *collective = call->collective;
    const struct place *at = call->place;
    const int from = collective->first(at->rank, block, call->root, at->size);
    const int to = collective->last(at->rank, block, call->root, at->size);
    const int source = collective->source_block(at->rank, block, call->root, at->size);
    const struct type *type = call->shape->types[0];

    input_words(call, from, source, first, width, words);
    for (int rank = from + 1; rank < to; rank++) {
        int64_t other[MAX_WIDTH];
        input_words(call, rank, source, first, width, other);
        combine(call->op, type->kinds[first % type->words], words, other);
    }
}

static bool is_defined(const struct call *call, int block) {
    const struct place *at = call->place;
    return call->collective->first(at->rank, block, call->root, at->size) <
           call->collective->last(at->rank, block, call->root, at->size);
}

/* Writes a block, of this rank's input or of its result, to where it belongs. */
static void put_block(const struct call *call, const struct side *side, const struct image *image,
                      char *bytes, int block, bool result) {
    const struct type *type = side->type;
    const int nwords = side->counts[block] * type->words;
    const int width = call->op == NULL ? 1 : call->op->width;

    for (int n = 0; n < nwords; n += width) {
        int64_t words[MAX_WIDTH];
        if (result)
            result_words(call, block, n, width, words);
        else
            input_words(call, call->place->rank, block, n, width, words);
        for (int k = 0; k < width; k++) {
            const int index = side->positions[block] + (n + k) / type->words;
            const int w = (n + k) % type->words;
            word_put(type->kinds[w], words[k], bytes + word_place(image, side, index, w));
        }
    }
}

/* What the standard leaves open becomes what is expected. */
static void excuse(const struct side *side, const struct image *image, int from, int to) {
    for (int index = from; index < to; index++) {
        for (int w = 0; w < side->type->words; w++) {
            const size_t at = word_place(image, side, index, w);
            memcpy(image->expected + at, image->work + at, word_bytes(side->type->kinds[w]));
        }
    }
}

/* The padding of predefined types. */
static void excuse_padding(const struct side *side, const struct image *image) {
    const struct type *type = side->type;
    const MPI_Aint used = type->offsets[1] + (MPI_Aint)word_bytes(type->kinds[1]);
    for (int index = 0; index < side->elements; index++) {
        const size_t at = image->base + (size_t)(index * type->extent + used);
        memcpy(image->expected + at, image->work + at, (size_t)(type->extent - used));
    }
}

/* ---- arguments ------------------------------------------------------------------------------ */

static void *wild_pointer(const struct call *call, void *sane) {
    return call->garbage == GARBAGE_SANE ? sane : call->garbage == GARBAGE_NULL ? NULL : (void *)8;
}

static MPI_Datatype wild_type(const struct call *call, MPI_Datatype sane) {
    return call->garbage == GARBAGE_SANE ? sane : MPI_DATATYPE_NULL;
}

static int wild_count(const struct call *call) {
    return call->garbage == GARBAGE_SANE   ? call->count
           : call->garbage == GARBAGE_NULL ? -1
                                           : -77777;
}

static int *wild_counts(const struct call *call) {
    return wild_pointer(call, no_counts);
}

static void *buffer_of(const struct call *call, const struct side *side,
                       const struct image *image) {
    if (side->elements == 0 && call->garbage == GARBAGE_NULL)
        return NULL;
    return image->work + image->base + side->origin * side->type->extent;
}

static void send_arguments(const struct call *call, const struct engine *engine,
                           struct cf_args *arguments) {
    const struct side *side = &engine->send;
    arguments->sendbuf = buffer_of(call, side, &engine->send_image);
    arguments->sendcount = side->counts[0];
    arguments->sendcounts = side->counts;
    arguments->sdispls = side->displs;
    arguments->sendtype = side->type->handle;
}

static void recv_arguments(const struct call *call, const struct engine *engine,
                           struct cf_args *arguments) {
    const struct side *side = &engine->recv;
    arguments->recvbuf = buffer_of(call, side, &engine->recv_image);
    arguments->recvcount = side->counts[0];
    arguments->recvcounts = side->counts;
    arguments->rdispls = side->displs;
    arguments->recvtype = side->type->handle;
}

/* Whether any block of the result on this rank is defined: exscan on rank 0 has none. */
static bool has_result(const struct call *call, const struct side *recv) {
    bool defined = false;
    for (int b = 0; b < recv->blocks; b++)
        defined = defined || is_defined(call, b);
    return defined;
}

static struct cf_args arguments_of(const struct call *call, const struct engine *engine) {
    const struct collective *collective = call->collective;
    const bool in_place = call_is_in_place(call);
    const bool no_result = in_place && collective->in_place == IN_PLACE_RECV_ROOT;
    const bool shared = collective->single_buffer || (in_place && !no_result);
    struct cf_args arguments = plain_values;
    arguments.sendbuf = wild_pointer(call, engine->send_image.work);
    arguments.recvbuf = wild_pointer(call, engine->recv_image.work);
    arguments.sendcount = arguments.recvcount = wild_count(call);
    arguments.sendcounts = arguments.recvcounts = wild_counts(call);
    arguments.sdispls = arguments.rdispls = wild_counts(call);
    arguments.sendtype = wild_type(call, engine->send.type->handle);
    arguments.recvtype = wild_type(call, engine->recv.type->handle);
    arguments.op = call->op == NULL ? MPI_OP_NULL : call->op->handle;
    arguments.root = call->root;
    arguments.comm = call->place->comm;
    if (engine->send.blocks > 0 && !shared)
        send_arguments(call, engine, &arguments);
    if (engine->recv.blocks > 0 && (shared || has_result(call, &engine->recv)))
        recv_arguments(call, engine, &arguments);
    if (collective->single_type) {
        /* Significant wherever the buffers are not, too. */
        const struct side *side = engine->send.blocks > 0 ? &engine->send : &engine->recv;
        arguments.recvtype = engine->recv.type->handle;
        arguments.recvcount = side->blocks > 0 ? side->counts[0] : 0;
        arguments.recvcounts = side->counts;
    }
    if (in_place && no_result)
        arguments.recvbuf = MPI_IN_PLACE;
    else if (in_place)
        arguments.sendbuf = MPI_IN_PLACE;
    return arguments;
}

/* ---- verifying ------------------------------------------------------------------------------ */

static void prepare(const struct call *call, struct engine *engine) {
    const bool shared = engine->send.elements == 0;
    struct image *const input = shared ? &engine->recv_image : &engine->send_image;
    const struct side place = {.type = engine->send.type,
                               .blocks = engine->send.blocks,
                               .counts = engine->send.counts,
                               .positions = engine->send.positions};

    image_prepare(&engine->send_image, &engine->send);
    image_prepare(&engine->recv_image, &engine->recv);
    for (int b = 0; b < engine->send.blocks; b++)
        put_block(call, &place, input, input->work, b, false);
    memcpy(engine->send_image.expected, engine->send_image.work, engine->send_image.bytes);
    memcpy(engine->recv_image.expected, engine->recv_image.work, engine->recv_image.bytes);
    for (int b = 0; b < engine->recv.blocks; b++)
        if (is_defined(call, b))
            put_block(call, &engine->recv, &engine->recv_image, engine->recv_image.expected, b,
                      true);
}

static void excuse_undefined(const struct call *call, const struct engine *engine) {
    const struct side *recv = &engine->recv;
    int end = 0;
    for (int b = 0; b < recv->blocks; b++) {
        const int from = recv->positions[b];
        if (!is_defined(call, b))
            excuse(recv, &engine->recv_image, from, from + recv->counts[b]);
        end = from + recv->counts[b];
    }
    /* An input that was longer than the result (reduce_scatter in place) may be used up. */
    if (call->collective->reduces)
        excuse(recv, &engine->recv_image, end, recv->elements);
    if (recv->type->padded)
        excuse_padding(recv, &engine->recv_image);
}

static bool compare(const struct engine *engine, const char *name, const struct side *side,
                    const struct image *image) {
    size_t at = 0;
    if (memcmp(image->work, image->expected, image->bytes) == 0)
        return true;
    while (image->work[at] == image->expected[at])
        at++;
    const ptrdiff_t offset = (ptrdiff_t)at - (ptrdiff_t)image->base;
    const ptrdiff_t extent = side->type->extent > 0 ? side->type->extent : 1;
    fail(engine->text,
         "%s buffer of %d elements (%s): byte %td, of element %td, is 0x%02x, not 0x%02x", name,
         side->elements, side->type->name, offset, offset / extent, (unsigned char)image->work[at],
         (unsigned char)image->expected[at]);
    return false;
}

static void fail_error(const char *text, int err) {
    char message[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    (void)PMPI_Error_string(err, message, &length);
    for (char *end = message; *end != '\0'; end++)
        *end = *end == '\n' ? ' ' : *end;
    fail(text, "it returned error %d: %.80s", err, message);
}

bool verify(struct engine *engine, const struct call *call) {
    if (!call_lay_out(call, &engine->send, &engine->recv))
        return true;
    if (is_hit_by_defect(call)) {
        atomic_fetch_add(&program_skipped, 1);
        return true;
    }
    call_describe(call, engine->text, sizeof engine->text);
    prepare(call, engine);
    const struct cf_args arguments = arguments_of(call, engine);
    operations_expect(call->shape->types[0], call->strict);
    watch(engine, engine->text);
    const int err = make_call(call, &arguments);
    const char *complaint = operations_complaint();
    operations_expect(NULL, false);
    atomic_fetch_add(&program_calls, 1);
    bool good = err == MPI_SUCCESS && complaint == NULL;
    if (err != MPI_SUCCESS)
        fail_error(engine->text, err);
    if (complaint != NULL)
        fail(engine->text, "%s", complaint);
    excuse_undefined(call, engine);
    good = good && compare(engine, "send", &engine->send, &engine->send_image);
    good = good && compare(engine, "receive", &engine->recv, &engine->recv_image);
    engine->text[0] = '\0';
    return good;
}

struct engine *engine_create(void) {
    struct engine *engine = xmalloc(sizeof *engine);
    *engine = (struct engine){0};
    engine_register(engine);
    return engine;
}

static void side_free(struct side *side) {
    free(side->counts);
    free(side->positions);
    free(side->displs);
}

void engine_free(struct engine *engine) {
    engine_forget(engine);
    side_free(&engine->send);
    side_free(&engine->recv);
    free(engine->send_image.work);
    free(engine->send_image.expected);
    free(engine->recv_image.work);
    free(engine->recv_image.expected);
    free(engine);
}
