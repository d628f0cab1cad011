/*
 * The parts of the runtime that need no MPI_Init, from the command line:
 *   choice COLLECTIVE TEXT     its canonical form
 *   force TEXT                 what it forces on each collective
 *   map SIZE TEXT              the node of each rank, and the layout's name
 *   sizes                      checks the buckets of sizes
 *   lanes SIZE TEXT            the orders in which the lanes see the ranks
 *   rules LAYOUT:BYTES:CHOICE  what bcast runs on layout 2x2 at several sizes
 *   serving STORED SIZE...     what bcast, or if STORED has two parts, ibcast runs at these sizes;
 *                              STORED as in tests/data/serving.txt
 *   layout PLACEMENT THREADS LAYOUT...  which of them serves processes with so many threads
 *   learnt THREADS STORED...   what bcast runs on 2x3 and 3x2
 *   learn KEPT:NATIVE:OWN...   writes a file of COLLFORGE_LEARN, of trials of these seconds
 *   database PATH...           the number of winners in each
 *   sha256 BYTES...            the digest of so many bytes 0, 1, 2, ...
 *   memory POINTS SIZES MADE   bytes that a map takes, and the rules of so many communicators
 * Prints "error: ..." for what is malformed.
 */
#include <limits.h>
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cf.h"
#include "base/sha256.h"
#include "collectives.h"
#include "comm/learn.h"
#include "data/sizes.h"
#include "place/topology.h"
#include "winners/choice.h"
#include "winners/rules.h"
#include "winners/winners.h"

static int print_choice(const char *collective, const char *text) {
    char line[256];
    char why[256] = "";
    struct cf_choice choice;
    const int index = cf_collective_find(collective, strlen(collective));
    if (index < 0)
        puts("error: collective");
    else if (!cf_choice_parse(text, strlen(text), index, &choice, why, sizeof why))
        printf("error: %s\n", why);
    else {
        cf_choice_format(&choice, line, sizeof line);
        puts(line);
    }
    return 0;
}

static int print_force(const char *text) {
    char line[256];
    char why[256] = "";
    struct cf_winners winners = {0};
    if (!cf_force_parse(text, &winners, why, sizeof why))
        printf("error: %s\n", why);
    for (int i = 0; i < winners.count; i++) {
        const struct cf_winner *winner = &winners.items[i];
        struct cf_choice choice = {.variant =
                                       winner->variant < 0 ? NULL : cf_variants[winner->variant]};
        memcpy(choice.parameter, winner->parameter, sizeof choice.parameter);
        cf_choice_format(&choice, line, sizeof line);
        printf("%s %s\n", cf_collectives[winner->collective].name, line);
    }
    cf_winners_free(&winners);
    return 0;
}

static void print_ints(const char *title, const int *values, int count) {
    printf("%s", title);
    for (int i = 0; i < count; i++)
        printf(" %d", values[i]);
    puts("");
}

static void print_lanes(const char *title, const struct cf_lanes *lanes,
                        const struct cf_layout *layout) {
    printf("%s: k %d identity %d\n", title, lanes->k, lanes->identity);
    print_ints("  order", lanes->order, layout->size);
    print_ints("  lane_size", lanes->lane_size, lanes->k);
    print_ints("  share_size", lanes->share_size, lanes->k * layout->nodes);
}

/* ranks: the socket of each rank, such as "0011-" (-: bound to none), or NULL. */
static bool add_sockets(struct cf_layout *layout, const char *ranks) {
    int sockets[64];
    for (int i = 0; ranks != NULL && i < layout->size; i++)
        sockets[i] = ranks[i] == '-' ? -1 : ranks[i] - '0';
    return ranks == NULL || cf_layout_add_sockets(layout, sockets);
}

static int print_map(int size, const char *text, int with_lanes, const char *sockets) {
    char name[CF_LAYOUT_NAME_SIZE];
    struct cf_layout layout;
    int *node_of = calloc((size_t)size, sizeof *node_of);
    if (!cf_node_map_parse(text, size, node_of)) {
        puts("error: map");
        free(node_of);
        return 0;
    }
    if (!cf_layout_from_nodes(&layout, size, 0, node_of, size) || !cf_layout_add_lanes(&layout) ||
        !add_sockets(&layout, sockets))
        return 1;
    cf_layout_name(&layout, name, sizeof name);
    puts(name);
    if (with_lanes) {
        print_lanes("full", &layout.full, &layout);
        print_lanes("single", &layout.single, &layout);
    }
    cf_layout_free(&layout);
    free(node_of);
    return 0;
}

/* The integer arithmetic against the definition in floating point, away from the borders. */
static int check_sizes(void) {
    for (uint64_t n = 1; n < 100000; n++)
        if (cf_bucket(n) != (int)floor(4 * log2((double)n) + 1e-12))
            return 1;
    for (int bucket = 9; bucket < 248; bucket++) {
        const uint64_t begin = cf_bucket_begin(bucket);
        if (cf_bucket(begin) != bucket || cf_bucket(begin - 1) != bucket - 1)
            return 1;
    }
    if (cf_bucket(INT_MAX) != CF_BUCKETS - 1)
        return 1;
    puts("passed");
    return 0;
}

/* The rules of a layout by its placement's name alone, for which the map has no point. */
static const struct cf_rules *rules_of(const char *placement, int threads,
                                       enum cf_sockets sockets) {
    const struct cf_layout layout = {.size = 1,
                                     .nodes = 1,
                                     .max_node_size = 1,
                                     .min_node_size = 1,
                                     .threads = threads,
                                     .sockets = sockets};
    const struct cf_rules *rules = NULL;
    if (!cf_rules_find(placement, &layout, &rules))
        puts("error: memory");
    return rules;
}

/* What the winners named by the arguments make of the layout 2x2 with this many threads. */
static int print_rules(int argc, char **argv) {
    enum { THREADS = 4 };
    static const int sizes[] = {1,    500,  511,  512,   723,   724,   1000,  1024,    1448,
                                1449, 4095, 4096, 11585, 11586, 16384, 65536, 1 << 20, INT_MAX};
    char why[256];
    char line[256];
    struct cf_winners winners = {0};
    for (int i = 2; i < argc; i++) {
        struct cf_choice choice;
        char *bytes = strchr(argv[i], ':');
        char *text = bytes == NULL ? NULL : strchr(bytes + 1, ':');
        if (text == NULL)
            return 1;
        *bytes++ = *text++ = '\0';
        if (!cf_choice_parse(text, strlen(text), 0, &choice, why, sizeof why) ||
            !cf_winners_add(&winners, argv[i], 0, atoi(bytes), &choice))
            return 1;
    }
    if (!cf_rules_start(&winners))
        return 1;
    cf_winners_free(&winners);
    const struct cf_rules *rules = rules_of("2x2", THREADS, CF_SOCKETS_ANY);
    for (size_t i = 0; rules != NULL && i < sizeof sizes / sizeof sizes[0]; i++) {
        const struct cf_choice *choice = rules->by_size[cf_bucket((uint64_t)sizes[i])];
        if (choice != NULL)
            cf_choice_format(choice, line, sizeof line);
        printf("%d %s\n", sizes[i], choice == NULL ? "native" : line);
    }
    if (rules == NULL)
        puts("none");
    cf_rules_stop();
    return 0;
}

/* The communicators, by their ranks, that a layout's winner may serve. */
static int print_ranks(char *layout) {
    enum { MOST_RANKS = 99 };
    char why[256];
    struct cf_winners winners = {0};
    struct cf_choice choice;
    if (!cf_choice_parse("full_lane", strlen("full_lane"), 0, &choice, why, sizeof why) ||
        !cf_winners_add(&winners, layout, 0, 1024, &choice) || !cf_rules_start(&winners))
        return 1;
    cf_winners_free(&winners);
    for (int ranks = 1; ranks <= MOST_RANKS; ranks++)
        if (cf_rules_any_for(ranks))
            printf("%d\n", ranks);
    cf_rules_stop();
    return 0;
}

/* The winner that "BYTES=CHOICE" stands for. */
static int add_stored(struct cf_winners *winners, const char *layout, int collective, char *text) {
    char why[256];
    struct cf_choice choice;
    char *name = strchr(text, '=');
    if (name == NULL)
        return 1;
    *name++ = '\0';
    const int tie = strcmp(name, "tie") == 0;
    if (tie)
        name = (char[]){"native"};
    if (!cf_choice_parse(name, strlen(name), collective, &choice, why, sizeof why) ||
        !cf_winners_add(winners, layout, collective, atoi(text), &choice))
        return 1;
    if (tie)
        winners->items[winners->count - 1].variant = CF_NATIVE_TIES;
    return 0;
}

static int print_serving(int argc, char **argv) {
    struct cf_winners winners = {0};
    const int asked = strchr(argv[2], '/') != NULL ? CF_IBCAST : CF_BCAST;
    int stored = asked;
    for (char *text = strtok(argv[2], " "); text != NULL; text = strtok(NULL, " "))
        if (strcmp(text, "/") == 0)
            stored = CF_BCAST;
        else if (add_stored(&winners, "2x2", stored, text) != 0)
            return 1;
    if (!cf_rules_start(&winners))
        return 1;
    cf_winners_free(&winners);
    const struct cf_rules *rules = rules_of("2x2", 1, CF_SOCKETS_ANY);
    for (int i = 3; i < argc; i++) {
        const struct cf_choice *choice =
            rules == NULL
                ? NULL
                : rules->by_size[asked * CF_BUCKETS + cf_bucket((uint64_t)atoi(argv[i]))];
        printf("%s %s\n", argv[i], choice == NULL ? "native" : choice->variant->family);
    }
    cf_rules_stop();
    return 0;
}

/* PLACEMENT THREADS[-packed|-cyclic] LAYOUT...: the stored layout that serves it. */
static int print_layout(int argc, char **argv) {
    enum cf_sockets sockets = CF_SOCKETS_CYCLIC;
    while (sockets != CF_SOCKETS_ANY && strstr(argv[3], cf_sockets_suffix(sockets)) == NULL)
        sockets--;
    struct cf_winners winners = {0};
    for (int i = 4; i < argc; i++)
        if (add_stored(&winners, argv[i], CF_BCAST, (char[]){"1024=full_lane"}) != 0)
            return 1;
    if (!cf_rules_start(&winners))
        return 1;
    cf_winners_free(&winners);
    const struct cf_rules *rules = rules_of(argv[2], atoi(argv[3]), sockets);
    puts(rules == NULL ? "none" : rules->layout);
    cf_rules_stop();
    return 0;
}

/* PLACEMENT RANKS NODES MOST_RANKS_OF_A_NODE COLLECTIVE LAYOUT...: the stored layout that serves
 * it, and the smallest size with a variant, of those stored at 1024 bytes. */
static int print_near(int argc, char **argv) {
    struct cf_winners winners = {0};
    const struct cf_rules *rules = NULL;
    const int collective = cf_collective_find(argv[7], strlen(argv[7]));
    const struct cf_layout layout = {.size = atoi(argv[3]),
                                     .nodes = atoi(argv[4]),
                                     .min_node_size = atoi(argv[5]),
                                     .max_node_size = atoi(argv[6]),
                                     .threads = 1};
    struct cf_choice choice = {0};
    for (int v = 0; v < cf_nvariants; v++)
        if (cf_variants[v]->collective == collective)
            choice.variant = cf_variants[v];
    for (int i = 8; i < argc; i++)
        if (!cf_winners_add(&winners, argv[i], collective, 1024, &choice))
            return 1;
    if (!cf_rules_start(&winners) || !cf_rules_find(argv[2], &layout, &rules))
        return 1;
    cf_winners_free(&winners);
    int bucket = 0;
    while (rules != NULL && rules->by_size[collective * CF_BUCKETS + bucket] == NULL)
        bucket++;
    if (rules == NULL)
        puts("none");
    else
        printf("%s %llu %d\n", rules->layout, (unsigned long long)cf_bucket_begin(bucket),
               rules->by_size[collective * CF_BUCKETS + bucket]->evidence == CF_EXPECTED);
    cf_rules_stop();
    return 0;
}

/* STORED...: what serves 1 KiB of bcast on 2x3, then on 3x2, of what is stored at 1024 bytes. */
/* Into $COLLFORGE_LEARN: of one problem, on so many communicators. */
static int note_lessons(int argc, char **argv) {
    struct cf_lesson lesson = {.layout = "3x2", .bytes = 1024, .pairs = 6};
    int kept = 0;
    lesson.choice.variant = cf_variants[0];
    cf_learn_begin("here");
    for (int i = 2; i < argc; i++) {
        sscanf(argv[i], "%d:%lf:%lf", &kept, &lesson.seconds[0], &lesson.seconds[1]);
        lesson.kept = kept != 0;
        cf_learn_note(&lesson);
    }
    cf_learn_end();
    return 0;
}

static int print_learnt(int argc, char **argv) {
    static const char *const words[] = {"forced", "measured", "learnt", "expected"};
    struct cf_winners winners = {0};
    const int collective = cf_collective_find("bcast", 5);
    struct cf_choice choice = {0};
    for (int v = 0; v < cf_nvariants; v++) {
        if (cf_variants[v]->collective == collective) {
            choice.variant = cf_variants[v];
        }
    }
    for (int i = 3; i < argc; i++) {
        if (!cf_winners_add(&winners, argv[i], collective, 1024, &choice)) {
            return 1;
        }
    }
    if (!cf_rules_start(&winners)) {
        return 1;
    }
    cf_winners_free(&winners);
    for (int nodes = 2; nodes <= 3; nodes++) {
        char name[8];
        const struct cf_rules *rules = NULL;
        const int ranks = 6 / nodes;
        const struct cf_layout layout = {.size = 6,
                                         .nodes = nodes,
                                         .min_node_size = ranks,
                                         .max_node_size = ranks,
                                         .consecutive = true,
                                         .threads = atoi(argv[2])};
        snprintf(name, sizeof name, "%dx%d", nodes, ranks);
        if (!cf_rules_find(name, &layout, &rules)) {
            return 1;
        }
        const struct cf_choice *found =
            rules == NULL ? NULL : rules->by_size[collective * CF_BUCKETS + cf_bucket(1024)];
        puts(found == NULL ? "native" : words[found->evidence]);
    }
    cf_rules_stop();
    return 0;
}

/* What a damaged file makes SQLite say, on one line. */
static void print_printable(const char *why) {
    printf("error: ");
    for (; *why != '\0'; why++)
        putchar((unsigned char)*why < ' ' ? ' ' : *why);
    puts("");
}

static int print_databases(int argc, char **argv) {
    for (int i = 2; i < argc; i++) {
        char why[512] = "";
        struct cf_winners winners = {0};
        if (cf_winners_load(argv[i], NULL, NULL, &winners, why, sizeof why))
            printf("%d\n", winners.count);
        else
            print_printable(why);
        cf_winners_free(&winners);
    }
    return 0;
}

static int print_digests(int argc, char **argv) {
    unsigned char bytes[1024];
    char digest[CF_SHA256_TEXT];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)i;
    for (int i = 2; i < argc; i++) {
        cf_sha256(bytes, (size_t)atoi(argv[i]), digest);
        puts(digest);
    }
    return 0;
}

/* Of all blocking collectives of MPI, each point and size with the next variant. */
static bool add_map(struct cf_winners *winners, int points, int sizes) {
    int turn = 0;
    for (int point = 0; point < points; point++) {
        char name[CF_LAYOUT_NAME_SIZE] = "";
        snprintf(name, sizeof name, "~%dx%d", 2 + point / 10, 2 + point % 10);
        for (int c = 0; c < cf_ncollectives; c++) {
            for (int size = 0; size < sizes && cf_collectives[c].native != NULL; size++) {
                struct cf_choice choice = {0};
                do {
                    choice.variant = cf_variants[turn++ % cf_nvariants];
                } while (choice.variant->collective != c);
                if (!cf_winners_add(winners, name, c, 64 << 2 * size, &choice))
                    return false;
            }
        }
    }
    return true;
}

static int print_memory(int points, int sizes, int made) {
    struct cf_winners winners = {0};
    const size_t before = mallinfo2().uordblks;
    if (!add_map(&winners, points, sizes) || !cf_rules_start(&winners))
        return 1;
    cf_winners_free(&winners);
    printf("%zu", mallinfo2().uordblks - before);
    for (int i = 0; i < made; i++) {
        const struct cf_rules *rules = NULL;
        const struct cf_layout layout = {
            .size = 4 * (2 + i), .nodes = 2 + i, .max_node_size = 4, .threads = 1};
        char name[CF_LAYOUT_NAME_SIZE] = "";
        snprintf(name, sizeof name, "%dx4", 2 + i);
        if (!cf_rules_find(name, &layout, &rules) || rules == NULL)
            return 1;
    }
    printf(" %zu\n", mallinfo2().uordblks - before);
    cf_rules_stop();
    return 0;
}

int main(int argc, char **argv) {
    const char *command = argc > 1 ? argv[1] : "";
    if (strcmp(command, "choice") == 0 && argc == 4)
        return print_choice(argv[2], argv[3]);
    if (strcmp(command, "force") == 0 && argc == 3)
        return print_force(argv[2]);
    if (strcmp(command, "map") == 0 && (argc == 4 || argc == 5))
        return print_map(atoi(argv[2]), argv[3], 0, argv[4]);
    if (strcmp(command, "lanes") == 0 && argc == 4)
        return print_map(atoi(argv[2]), argv[3], 1, NULL);
    if (strcmp(command, "sizes") == 0)
        return check_sizes();
    if (strcmp(command, "serving") == 0 && argc > 3)
        return print_serving(argc, argv);
    if (strcmp(command, "layout") == 0 && argc > 4)
        return print_layout(argc, argv);
    if (strcmp(command, "ranks") == 0 && argc == 3)
        return print_ranks(argv[2]);
    if (strcmp(command, "learnt") == 0 && argc > 2)
        return print_learnt(argc, argv);
    if (strcmp(command, "learn") == 0)
        return note_lessons(argc, argv);
    if (strcmp(command, "near") == 0 && argc > 8)
        return print_near(argc, argv);
    if (strcmp(command, "rules") == 0)
        return print_rules(argc, argv);
    if (strcmp(command, "database") == 0)
        return print_databases(argc, argv);
    if (strcmp(command, "sha256") == 0)
        return print_digests(argc, argv);
    if (strcmp(command, "memory") == 0 && argc == 5)
        return print_memory(atoi(argv[2]), atoi(argv[3]), atoi(argv[4]));
    fprintf(stderr, "unknown command\n");
    return 2;
}
