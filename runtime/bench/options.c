#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/environment.h"
#include "base/span.h"

static const char help[] =
    "collforge-driver: verifies and times MPI collectives and their Collforge variants\n"
    "\n"
    "  mpirun -n 8 collforge-driver --cases FILE --output FILE [options]\n"
    "\n"
    "  --cases FILE      one case string a line; consecutive lines that differ only in the variant "
    "are\n"
    "                    timed against each other, and native with them\n"
    "  --output FILE     JSON lines; - is standard output\n"
    "  --samples N       of each case (7)\n"
    "  --warmup W        rounds before the samples, at least 1 (1)\n"
    "  --in-a-row N      calls in each window, at least, where every rank waits for all (1)\n"
    "  --seed S          of inputs and order (7)\n"
    "  --verify-only     no timing, and no native but where it is named\n"
    "  --drop-in         native of a hybrid collective is what applications get by COLLFORGE_DB\n"
    "  --prune           cases that are clearly behind the fastest get fewer samples\n"
    "  --costs           processor time of a call and memory of the temporaries, too\n"
    "  --max-seconds S   stop sampling a group after S seconds once it has 2 samples (no limit)\n"
    "  --timeout S       a call that takes longer has hung (60)\n"
    "  --parts NxR       the job is divided into communicators of N nodes with R ranks on each, "
    "which "
    "all call\n"
    "                    at once; their layout is that of the job, /, and NxR\n"
    "  --sockets         the layout's name tells how the ranks lie on the sockets of the nodes\n"
    "  --own-clocks      believe that no two ranks share a clock\n"
    "  --memory KIND     device: buffers in CUDA memory; mixed: some of them; with --verify-only "
    "(host)\n"
    "\n"
    "A case: "
    "allreduce:full_lane[segment_bytes=65536]@4x2,bytes=262144,type=double,op=sum,in_place\n"
    "  type: int, double, pair, strided, neglb, mixed, whole, chars;  op: sum, max, affine;  "
    "root=R;  "
    "seed=S\n"
    "  in_place;  uneven: blocks of different sizes with gaps, where a collective has such\n"
    "\n"
    "Exit: 0 all right, 1 a wrong result, 2 bad options or cases, 3 a call hung, 4 other "
    "trouble.\n";

void options_help(FILE *file) {
    fputs(help, file);
    fputs("\nThe environment of the runtime, in programs and here:\n\n", file);
    cf_variables_print(file);
}

static bool read_int(const char *text, int low, int *value) {
    int64_t number = 0;
    const bool good = cf_span_number((struct cf_span){text, strlen(text)}, low, INT_MAX, &number);
    *value = (int)number;
    return good;
}

static bool read_seconds(const char *text, double *value) {
    char *end = NULL;
    errno = 0;
    *value = strtod(text, &end);
    return end != text && *end == '\0' && errno == 0 && *value > 0;
}

static bool read_seed(const char *text, unsigned *value) {
    int64_t number = 0;
    const bool good = cf_span_number((struct cf_span){text, strlen(text)}, 0, UINT_MAX, &number);
    *value = (unsigned)number;
    return good;
}

static bool read_device_use(const char *text, enum device_use *use) {
    const bool mixed = strcmp(text, "mixed") == 0;
    *use = mixed                         ? DEVICE_SOMEWHERE
           : strcmp(text, "device") == 0 ? DEVICE_EVERYWHERE
                                         : DEVICE_NOWHERE;
    return *use != DEVICE_NOWHERE || strcmp(text, "host") == 0;
}

static bool read_option(int option, struct options *options) {
    switch (option) {
    case 'c':
        options->cases = optarg;
        return true;
    case 'o':
        options->output = optarg;
        return true;
    case 'n':
        return read_int(optarg, 1, &options->samples);
    case 'w':
        return read_int(optarg, 1, &options->warmup);
    case 'r':
        return read_int(optarg, 1, &options->in_a_row);
    case 's':
        return read_seed(optarg, &options->seed);
    case 'v':
        options->verify_only = true;
        return true;
    case 'x':
        options->prune = true;
        return true;
    case 'p':
        options->costs = true;
        return true;
    case 'l':
        options->drop_in = true;
        return true;
    case 'm':
        return read_seconds(optarg, &options->max_seconds);
    case 't':
        return read_int(optarg, 1, &options->timeout);
    case 'k':
        options->own_clocks = true;
        return true;
    case 'a':
        options->parts = optarg;
        return true;
    case 'q':
        options->sockets = true;
        return true;
    case 'd':
        return read_device_use(optarg, &options->device);
    default:
        options->help = true;
        return true;
    }
}

bool options_read(int argc, char **argv, struct options *options, char *why, size_t size) {
    static const struct option table[] = {
        {"cases", required_argument, NULL, 'c'},    {"output", required_argument, NULL, 'o'},
        {"samples", required_argument, NULL, 'n'},  {"warmup", required_argument, NULL, 'w'},
        {"in-a-row", required_argument, NULL, 'r'}, {"seed", required_argument, NULL, 's'},
        {"verify-only", no_argument, NULL, 'v'},    {"costs", no_argument, NULL, 'p'},
        {"drop-in", no_argument, NULL, 'l'},        {"max-seconds", required_argument, NULL, 'm'},
        {"timeout", required_argument, NULL, 't'},  {"own-clocks", no_argument, NULL, 'k'},
        {"memory", required_argument, NULL, 'd'},   {"prune", no_argument, NULL, 'x'},
        {"parts", required_argument, NULL, 'a'},    {"sockets", no_argument, NULL, 'q'},
        {"help", no_argument, NULL, 'h'},           {NULL, 0, NULL, 0},
    };
    int option = 0;

    *options = (struct options){.samples = 7, .warmup = 1, .timeout = 60, .seed = 7, .in_a_row = 1};
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":", table, NULL)) != -1) {
        if (option == '?' || option == ':') {
            snprintf(why, size, "%s %s", argv[optind - 1],
                     option == '?' ? "is no option" : "needs a value");
            return false;
        }
        if (!read_option(option, options)) {
            snprintf(why, size, "'%s' is no value for its option", optarg);
            return false;
        }
    }
    if (optind < argc) {
        snprintf(why, size, "'%s' is no option", argv[optind]);
    } else if (!options->help && (options->cases == NULL || options->output == NULL)) {
        snprintf(why, size, "--cases and --output are needed");
    } else if (options->device != DEVICE_NOWHERE && !options->verify_only) {
        snprintf(why, size, "--memory needs --verify-only: native may crash on device memory");
    } else {
        return true;
    }
    return false;
}
