/*
 * The runtime's reader of databases and of settings, alone with what may be wrong with either. It
 * has a registry of its own and never starts MPI.
 *   load SYSTEM PATH...      the number of winners and a hash of what follows from them, or
 *                            "error: ..."
 *   cut PATH COPY            COPY is PATH cut at every 512th byte, in turn
 *   flip PATH COPY FROM N    COPY is PATH changed by the seeds FROM .. FROM + N - 1, in turn
 *   race PATH COPY N         N loads of COPY while a thread writes PATH to it again and again
 *   text FROM N              random settings by these seeds
 * Every winner that is loaded must fit the registry. Prints what was found; exits 1 at the first
 * that is wrong, and leaves the COPY that showed it.
 */
#define _GNU_SOURCE /* pread64 */
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cf.h"
#include "base/hash.h"
#include "place/topology.h"
#include "winners/choice.h"
#include "winners/rules.h"
#include "winners/winners.h"

enum { SECONDS_OF_A_LOAD = 60 }; /* then it hangs */

/* ---- the registry ---------------------------------------------------------------------------- */

static const char *const algorithms[] = {"native", "chain", "ring"};
static const int segments[] = {4096, 16384};
static const struct cf_parameter parameters[] = {
    {.name = "lane_algorithm", .symbols = algorithms, .nvalues = 3},
    {.name = "segment_bytes", .values = segments, .nvalues = 2, .minimum = 64, .maximum = INT_MAX},
};

const struct cf_collective_info cf_collectives[] = {
    {.name = "bcast", .rooted = true},
    {.name = "allreduce", .collective = 1, .has_op = true},
    {.name = "gather", .collective = 2}};
const int cf_ncollectives = 3;
const int cf_map_needs[] = {0, 0, CF_NEEDS_EVEN};
const char cf_fingerprint[] = "faults";

static const struct cf_variant bcast_lane = {.collective = 0,
                                             .family = "full_lane",
                                             .fingerprint = "b1b1",
                                             .parameters = parameters,
                                             .nparameters = 2};
static const struct cf_variant bcast_leader = {
    .collective = 0, .family = "hierarchical", .fingerprint = "b2b2"};
static const struct cf_variant allreduce_lane = {.collective = 1,
                                                 .family = "full_lane",
                                                 .fingerprint = "a1a1",
                                                 .parameters = parameters,
                                                 .nparameters = 2};
static const struct cf_variant gather_leader = {
    .collective = 2, .family = "hierarchical", .fingerprint = "c2c2"};
const struct cf_variant *const cf_variants[] = {&bcast_lane, &bcast_leader, &allreduce_lane,
                                                &gather_leader};
const int cf_nvariants = 4;

/* ---- a file system that is slow -------------------------------------------------------------- */

/* SQLite's reads come here first. LOADER_SLOW: milliseconds of each. */
ssize_t pread64(int file, void *buffer, size_t bytes, off64_t offset);
ssize_t pread64(int file, void *buffer, size_t bytes, off64_t offset) {
    const char *slow = getenv("LOADER_SLOW");
    const long pause = slow == NULL ? 0 : atol(slow);
    const struct timespec time = {.tv_sec = pause / 1000, .tv_nsec = pause % 1000 * 1000000};
    if (pause > 0) {
        (void)nanosleep(&time, NULL);
    }
    if (lseek(file, offset, SEEK_SET) < 0) {
        return -1;
    }
    return read(file, buffer, bytes);
}

/* ---- what may be loaded ---------------------------------------------------------------------- */

_Noreturn static void give_up(const char *what, uint64_t seed, const char *detail) {
    printf("seed %llu: %s: %s\n", (unsigned long long)seed, what, detail);
    exit(1);
}

static bool is_legal(const struct cf_parameter *parameter, int value) {
    if (parameter->symbols != NULL) {
        return value >= 0 && value < parameter->nvalues;
    }
    return value == 0 || (value >= parameter->minimum && value <= parameter->maximum);
}

/* What a winner lacks to be one; NULL when nothing. */
static const char *flaw(const struct cf_winners *winners, int at, bool forced) {
    const struct cf_winner *winner = &winners->items[at];
    if (winner->layout < 0 || winner->layout >= winners->nlayouts) {
        return "layout";
    }
    const char *name = winners->layouts[winner->layout];
    if (memchr(name, '\0', CF_LAYOUT_NAME_SIZE) == NULL) {
        return "layout without end";
    }
    if ((strcmp(name, CF_ANY_LAYOUT) == 0) != forced) {
        return "layout of a forced choice";
    }
    if (winner->collective < 0 || winner->collective >= cf_ncollectives || winner->bytes < 1) {
        return "collective or bytes";
    }
    if (winner->variant == CF_NATIVE_WINS || winner->variant == CF_NATIVE_TIES) {
        return NULL;
    }
    if (winner->variant < 0 || winner->variant >= cf_nvariants ||
        cf_variants[winner->variant]->collective != winner->collective) {
        return "variant";
    }
    const struct cf_variant *variant = cf_variants[winner->variant];
    if (!(winner->saving.least <= winner->saving.estimate) ||
        !(winner->saving.estimate <= winner->saving.most) || !(winner->saving.most <= 3600)) {
        return "saving";
    }
    for (int i = 0; i < variant->nparameters; i++) {
        if (!is_legal(&variant->parameters[i], winner->parameter[i])) {
            return variant->parameters[i].name;
        }
    }
    return NULL;
}

static void add_to_hash(uint64_t *hash, int value) {
    *hash = cf_hash(*hash, &value, sizeof value);
}

/* A hash of what runs for each size on each layout, and of what it saves. */
static uint64_t check_rules(struct cf_winners *winners, uint64_t seed) {
    uint64_t hash = CF_HASH_BEGIN;
    cf_runtime.counts = true;
    const struct cf_layout layout = {.size = 4, .nodes = 2, .max_node_size = 2, .threads = 1};
    if (!cf_rules_start(winners)) {
        give_up("cf_rules_start", seed, "failed");
    }
    for (int i = 0; i < winners->count; i++) {
        const struct cf_rules *rules = NULL;
        const char *name = winners->layouts[winners->items[i].layout];
        if (!cf_rules_find(name, &layout, &rules)) {
            give_up("cf_rules_find", seed, "failed");
        }
        for (const char *c = name; *c != '\0'; c++) {
            add_to_hash(&hash, *c);
        }
        for (int at = 0; rules != NULL && at < cf_ncollectives * CF_BUCKETS; at++) {
            const struct cf_choice *choice = rules->by_size[at];
            if (choice != NULL && choice->variant->collective != at / CF_BUCKETS) {
                give_up("rules", seed, name);
            }
            for (int v = 0; choice != NULL && v < cf_nvariants; v++) {
                add_to_hash(&hash, v * (choice->variant == cf_variants[v]));
            }
            for (int v = 0; choice != NULL && v < CF_MAX_PARAMETERS; v++) {
                add_to_hash(&hash, choice->parameter[v]);
            }
            if (choice != NULL) {
                hash = cf_hash(hash, &choice->saving, sizeof choice->saving);
            }
        }
    }
    cf_rules_stop();
    return hash;
}

/* Loads and checks. False: nothing was loaded, with one reason in why. */
static bool load(const char *path, const char *system, struct cf_winners *winners, char *why,
                 size_t whysize, uint64_t seed) {
    const int before = winners->count;
    why[0] = '\0';
    (void)alarm(SECONDS_OF_A_LOAD);
    const bool loaded = cf_winners_load(path, NULL, system, winners, why, whysize);
    (void)alarm(0);
    if (loaded == (why[0] != '\0') || (!loaded && winners->count != before)) {
        give_up("neither winners nor a reason", seed, why);
    }
    for (int i = before; i < winners->count; i++) {
        if (flaw(winners, i, false) != NULL) {
            give_up("winner", seed, flaw(winners, i, false));
        }
    }
    if (loaded) {
        check_rules(winners, seed);
    }
    return loaded;
}

/* ---- files ----------------------------------------------------------------------------------- */

struct file {
    unsigned char *data;
    size_t size;
};

static struct file read_file(const char *path) {
    struct file file = {.data = malloc(1 << 24)};
    const int number = open(path, O_RDONLY);
    const ssize_t size = number < 0 ? -1 : read(number, file.data, 1 << 24);
    if (size <= 0) {
        give_up("cannot read", 0, path);
    }
    file.size = (size_t)size;
    (void)close(number);
    return file;
}

static void write_file(const char *path, const unsigned char *data, size_t size) {
    const int number = open(path, O_WRONLY | O_CREAT, 0600);
    if (number < 0 || write(number, data, size) != (ssize_t)size ||
        ftruncate(number, (off_t)size) != 0 || close(number) != 0) {
        give_up("cannot write", 0, path);
    }
}

/* ---- chance ---------------------------------------------------------------------------------- */

/* SplitMix64. */
static uint64_t draw(uint64_t *state) {
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static size_t below(uint64_t *state, size_t limit) {
    return (size_t)(draw(state) % limit);
}

/* Most of a database is empty: damage there shows nothing. */
static size_t used_byte(const struct file *file, uint64_t *state) {
    size_t at = below(state, file->size);
    for (int tries = 0; tries < 64 && file->data[at] == 0; tries++) {
        at = below(state, file->size);
    }
    return at;
}

/* Damages a copy in one of several ways; the new size. */
static size_t damage(const struct file *file, unsigned char *copy, uint64_t seed) {
    static const unsigned char extremes[] = {0, 1, 0x7f, 0x80, 0xff};
    uint64_t state = seed;
    const size_t kind = below(&state, 8);
    const size_t changes = 1 + below(&state, 8);
    const size_t blocks = file->size / 512;
    memcpy(copy, file->data, file->size);
    for (size_t i = 0; i < changes; i++) {
        const size_t at = kind == 0 ? below(&state, file->size) : used_byte(file, &state);
        if (kind <= 2) {
            copy[at] ^= (unsigned char)(1u << below(&state, 8));
        } else if (kind <= 4) {
            copy[at] = (unsigned char)draw(&state);
        } else if (kind == 5) {
            copy[at] = extremes[below(&state, sizeof extremes)];
        } else if (kind == 6) {
            memset(copy + 512 * below(&state, blocks), (int)below(&state, 2) * 0xff, 512);
        } else {
            memmove(copy + 512 * below(&state, blocks), copy + 512 * below(&state, blocks), 512);
        }
    }
    return below(&state, 8) == 0 ? 1 + below(&state, file->size) : file->size;
}

/* ---- commands -------------------------------------------------------------------------------- */

static bool same(const struct cf_winners *a, const struct cf_winners *b) {
    return a->count == b->count &&
           memcmp(a->items, b->items, (size_t)a->count * sizeof *a->items) == 0;
}

struct tally {
    int stored, others, none;
};

static void count(struct tally *tally, const char *path, const struct cf_winners *stored,
                  uint64_t seed) {
    char why[512];
    struct cf_winners winners = {0};
    if (!load(path, NULL, &winners, why, sizeof why, seed)) {
        tally->none++;
    } else if (same(&winners, stored)) {
        tally->stored++;
    } else {
        tally->others++;
    }
    cf_winners_free(&winners);
}

/* VmHWM, because getrusage's maximum begins with that of the process that started this one. */
static void print_peak(void) {
    char line[256];
    long peak = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status != NULL && fgets(line, sizeof line, status) != NULL) {
        (void)sscanf(line, "VmHWM: %ld kB", &peak);
    }
    if (status != NULL) {
        (void)fclose(status);
    }
    printf("peak MiB: %ld\n", peak / 1024);
}

static void print_tally(const char *what, const struct tally *tally) {
    printf("%s %d: as stored %d, other winners %d, refused %d\n", what,
           tally->stored + tally->others + tally->none, tally->stored, tally->others, tally->none);
    print_peak();
}

/* On one line, whatever a damaged file made SQLite say. */
static void print_reason(const char *why) {
    printf("error: ");
    for (; *why != '\0'; why++) {
        putchar((unsigned char)*why < ' ' ? ' ' : *why);
    }
    puts("");
}

static int run_load(const char *system, int npaths, char **paths) {
    for (int i = 0; i < npaths; i++) {
        char why[512];
        struct cf_winners winners = {0};
        if (load(paths[i], *system == '\0' ? NULL : system, &winners, why, sizeof why, 0)) {
            printf("%d %016llx\n", winners.count, (unsigned long long)check_rules(&winners, 0));
        } else {
            print_reason(why);
        }
        cf_winners_free(&winners);
    }
    print_peak();
    return 0;
}

/* FROM and N < 0: cuts instead of seeds. */
static int run_damage(const char *path, const char *copy_path, uint64_t from, long n) {
    char why[512];
    struct tally tally = {0};
    struct cf_winners stored = {0};
    const struct file file = read_file(path);
    unsigned char *copy = malloc(file.size);
    if (copy == NULL || !load(path, NULL, &stored, why, sizeof why, 0)) {
        give_up("the undamaged database", 0, why);
    }
    for (size_t size = 0; n < 0 && size <= file.size; size += 512) {
        write_file(copy_path, file.data, size);
        count(&tally, copy_path, &stored, size);
    }
    for (uint64_t seed = from; n >= 0 && seed < from + (uint64_t)n; seed++) {
        const size_t size = damage(&file, copy, seed);
        write_file(copy_path, copy, size);
        count(&tally, copy_path, &stored, seed);
    }
    print_tally(n < 0 ? "cuts" : "seeds", &tally);
    free(file.data);
    free(copy);
    cf_winners_free(&stored);
    return 0;
}

static struct {
    struct file file;
    const char *path;
    atomic_bool over;
} writing;

/* In pieces, as a copy over a slow line arrives. */
static void *write_on(void *unused) {
    (void)unused;
    while (!atomic_load(&writing.over)) {
        const int number = open(writing.path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        for (size_t at = 0; at < writing.file.size; at += 4096) {
            const size_t rest = writing.file.size - at;
            if (write(number, writing.file.data + at, rest < 4096 ? rest : 4096) < 0) {
                give_up("cannot write", 0, writing.path);
            }
        }
        (void)close(number);
    }
    return NULL;
}

static int run_race(const char *path, const char *copy_path, long n) {
    char why[512];
    pthread_t thread;
    struct tally tally = {0};
    struct cf_winners stored = {0};
    writing.file = read_file(path);
    writing.path = copy_path;
    write_file(copy_path, writing.file.data, writing.file.size);
    if (!load(path, NULL, &stored, why, sizeof why, 0) ||
        pthread_create(&thread, NULL, write_on, NULL) != 0) {
        give_up("the undamaged database", 0, why);
    }
    for (long i = 0; i < n; i++) {
        count(&tally, copy_path, &stored, (uint64_t)i);
    }
    atomic_store(&writing.over, true);
    (void)pthread_join(thread, NULL);
    print_tally("loads", &tally);
    free(writing.file.data);
    cf_winners_free(&stored);
    return 0;
}

static void check_texts(const char *text, size_t length, uint64_t *state, struct tally *tally) {
    char why[256] = "";
    int nodes[64];
    struct cf_choice choice;
    struct cf_winners winners = {0};
    const int ranks = 1 + (int)below(state, 64);
    bool good = cf_choice_parse(text, length, (int)below(state, 3), &choice, why, sizeof why);
    char *ended = strndup(text, length); /* of exactly its length, for the sanitizer to watch */
    const bool forced = cf_force_parse(ended, &winners, why, sizeof why);
    for (int i = 0; i < winners.count; i++) {
        if (flaw(&winners, i, true) != NULL) {
            give_up("forced", *state, ended);
        }
    }
    check_rules(&winners, *state);
    const bool mapped = cf_node_map_parse(ended, ranks, nodes);
    for (int rank = 0; mapped && rank < ranks; rank++) {
        if (nodes[rank] < 0 || nodes[rank] >= ranks) {
            give_up("node map", *state, ended);
        }
    }
    good = good || (forced && winners.count > 0) || mapped;
    tally->stored += good;
    tally->none += !good;
    cf_winners_free(&winners);
    free(ended);
}

/* Words of the settings' languages and stray bytes; room for length below 512. */
static size_t draw_text(char *text, uint64_t *state) {
    static const char words[][24] = {"*",
                                     "=",
                                     ";",
                                     ",",
                                     "[",
                                     "]",
                                     "map:",
                                     "bcast",
                                     "allreduce",
                                     "gather",
                                     "2",
                                     "1",
                                     "0",
                                     "4096",
                                     "63",
                                     "-1",
                                     "native",
                                     "chain",
                                     "ring",
                                     "full_lane",
                                     "hierarchical",
                                     "segment_bytes",
                                     "lane_algorithm",
                                     "99999999999999999999",
                                     "4294967296",
                                     "*=hierarchical",
                                     "bcast=full_lane",
                                     "map:0,1,0,1",
                                     "3,1"};
    static const char *const heads[] = {
        "full_lane[segment_bytes=", "bcast=full_lane[segment_bytes=",
        "*=full_lane[lane_algorithm="};
    size_t length = 0;
    const size_t head = below(state, 6); /* half of the texts begin like right ones */
    if (head < 3) {
        length = (size_t)sprintf(text, "%s", heads[head]);
    }
    for (size_t left = 1 + below(state, head < 3 ? 2 : 12); left > 0; left--) {
        if (below(state, 16) == 0) {
            text[length++] = (char)(1 + below(state, 255));
        } else {
            length += (size_t)sprintf(text + length, "%.24s",
                                      words[below(state, sizeof words / sizeof words[0])]);
        }
    }
    if (head < 3) {
        text[length++] = ']';
    }
    return length;
}

static int run_texts(uint64_t from, long n) {
    struct tally tally = {0};
    for (uint64_t seed = from; seed < from + (uint64_t)n; seed++) {
        uint64_t state = seed;
        char text[512];
        const size_t length = draw_text(text, &state);
        char *exact = malloc(length); /* for the sanitizer to watch its end */
        if (exact == NULL) {
            give_up("memory is out", seed, "");
        }
        memcpy(exact, text, length);
        check_texts(exact, length, &state, &tally);
        free(exact);
    }
    print_tally("texts", &tally);
    return 0;
}

int main(int argc, char **argv) {
    const char *command = argc > 1 ? argv[1] : "";
    if (strcmp(command, "load") == 0 && argc >= 4) {
        return run_load(argv[2], argc - 3, argv + 3);
    }
    if (strcmp(command, "cut") == 0 && argc == 4) {
        return run_damage(argv[2], argv[3], 0, -1);
    }
    if (strcmp(command, "flip") == 0 && argc == 6) {
        return run_damage(argv[2], argv[3], strtoull(argv[4], NULL, 10), atol(argv[5]));
    }
    if (strcmp(command, "race") == 0 && argc == 5) {
        return run_race(argv[2], argv[3], atol(argv[4]));
    }
    if (strcmp(command, "text") == 0 && argc == 4) {
        return run_texts(strtoull(argv[2], NULL, 10), atol(argv[3]));
    }
    fprintf(stderr, "unknown command\n");
    return 2;
}
