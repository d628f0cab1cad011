#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "report.h"

enum { FORMAT = 1 }; /* version of the records, which collforge/records.py reads */

/* Bytes outside ASCII can only come from strings of an MPI library. They are written as Latin-1, so
 * that the line is valid JSON. */
static void put_string(FILE *file, const char *text) {
    fputc('"', file);
    for (const unsigned char *c = (const unsigned char *)text; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\') {
            fprintf(file, "\\%c", *c);
        } else if (*c < 0x20 || *c >= 0x7f) {
            fprintf(file, "\\u%04x", *c);
        } else {
            fputc(*c, file);
        }
    }
    fputc('"', file);
}

static void put_field(FILE *file, const char *name, const char *text) {
    fprintf(file, ",\"%s\":", name);
    put_string(file, text);
}

static void put_seconds(FILE *file, const char *name, const double *values, int n, int digits) {
    fprintf(file, ",\"%s\":[", name);
    for (int i = 0; i < n; i++) {
        fprintf(file, "%s%.*g", i > 0 ? "," : "", digits, values[i]);
    }
    fputc(']', file);
}

/* Ends the job if the line was not written: the measurement would be lost. */
static void end_line(FILE *file) {
    fputs("}\n", file);
    if (fflush(file) != 0 || ferror(file)) {
        fail(EXIT_TROUBLE, "cannot write the output: %s", strerror(errno));
    }
}

/* The first line of the library's version, without surrounding blanks. */
static void library_version(char version[MPI_MAX_LIBRARY_VERSION_STRING]) {
    int length = 0;

    must(PMPI_Get_library_version(version, &length), "MPI_Get_library_version");
    const size_t blanks = strspn(version, " \t\n");
    memmove(version, version + blanks, strlen(version + blanks) + 1);
    version[strcspn(version, "\r\n")] = '\0';
    for (size_t end = strlen(version); end > 0 && strchr(" \t", version[end - 1]) != NULL; end--) {
        version[end - 1] = '\0';
    }
}

enum { PLACE_SIZE = 256 };
_Static_assert(MPI_MAX_PROCESSOR_NAME <= PLACE_SIZE, "a host's name is a place");

/* Gathers a text of every rank and puts that of each node's lowest rank. Collective; file: NULL but
 * on rank 0. */
static void put_places(FILE *file, const struct bench *bench, const char *name,
                       const char own[PLACE_SIZE]) {
    const struct cf_layout *layout = &bench->world->layout;
    char *all = bench->rank == 0 ? xmalloc((size_t)bench->size * PLACE_SIZE) : NULL;
    int node = 0;

    must(PMPI_Gather(own, PLACE_SIZE, MPI_CHAR, all, PLACE_SIZE, MPI_CHAR, 0, bench->comm),
         "MPI_Gather");
    if (file != NULL) {
        fprintf(file, ",\"%s\":[", name);
        for (int rank = 0; rank < layout->size && node < layout->nodes; rank++) {
            if (layout->node_of[rank] != node) {
                continue;
            }
            if (node++ > 0) {
                fputc(',', file);
            }
            put_string(file, all + (size_t)rank * PLACE_SIZE);
        }
        fputc(']', file);
    }
    free(all);
}

/* The length of what comes before .NODE; 0 if the address does not end so. */
static size_t length_before(const char *address, const char *node, size_t length) {
    const size_t all = strlen(address);
    if (length == 0 || all <= length + 1 || strncmp(address + all - length, node, length) != 0) {
        return 0;
    }
    return address[all - length - 1] == '.' ? all - length - 1 : 0;
}

/* The switches between the network's root and this node, `s0.s3`, by Slurm's plugin for the
 * topology. Empty without, and if the variable is another node's: mpirun of MPICH passes on that of
 * the first one. */
static void find_switches(const char *host, char switches[PLACE_SIZE]) {
    const char *address = getenv("SLURM_TOPOLOGY_ADDR");
    if (address == NULL) {
        return;
    }
    size_t length = length_before(address, host, strlen(host));
    if (length == 0) {
        length = length_before(address, host, strcspn(host, "."));
    }
    if (length < PLACE_SIZE) {
        memcpy(switches, address, length);
    }
}

/* How the ranks were started, as far as their environment tells. MPICH's mpirun may start its
 * daemons by srun and PMIx, which the ranks see, too. */
static const char *pmi(void) {
    if (getenv("PMI_FD") != NULL) {
        return "pmi";
    }
    return getenv("PMIX_NAMESPACE") != NULL ? "pmix" : "";
}

void record_job(FILE *file, const struct bench *bench) {
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    char host[PLACE_SIZE] = "";
    char switches[PLACE_SIZE] = "";
    int length = 0;
    const double error = clock_error(&bench->clock);

    must(PMPI_Get_processor_name(host, &length), "MPI_Get_processor_name");
    find_switches(host, switches);
    if (file != NULL) {
        library_version(version);
        fprintf(file, "{\"record\":\"job\",\"driver\":%d", FORMAT);
        put_field(file, "version", collforge_version());
        put_field(file, "library_version", version);
        put_field(file, "fingerprint", cf_fingerprint);
        fprintf(file, ",\"ranks\":%d", bench->size);
        put_field(file, "layout", bench->layout);
        put_field(file, "pmi", pmi());
    }
    put_places(file, bench, "hosts", host);
    put_places(file, bench, "switches", switches);
    if (file != NULL) {
        fprintf(file, ",\"seed\":%u,\"samples\":%d", bench->options.seed,
                bench->options.verify_only ? 0 : bench->options.samples);
        fprintf(file, ",\"clock_domains\":%d,\"clock_error\":%.3g", bench->clock.ndomains, error);
        end_line(file);
    }
}

static void record_result(FILE *file, const struct bench *bench, const struct group *group,
                          const struct candidate *candidate, const struct timing *timing) {
    const struct cf_variant *variant = candidate->choice.variant;

    fputs("{\"record\":\"result\"", file);
    put_field(file, "case", candidate->text);
    const struct problem *problem = &group->problem;
    const struct cf_collective_info *info = &cf_collectives[problem->collective];
    const int named = problem->nonblocking ? info->form : problem->collective;
    put_field(file, "collective", cf_collectives[named].name);
    put_field(file, "variant", candidate->variant);
    put_field(file, "fingerprint", variant == NULL ? "" : variant->fingerprint);
    fprintf(file, ",\"applicable\":%s", candidate->applicable ? "true" : "false");
    fprintf(file, ",\"verified\":%s", candidate->verified ? "true" : "false");
    put_field(file, "detail", candidate->detail);
    put_seconds(file, "samples", candidate->samples, candidate->nsamples, 9);
    put_seconds(file, "start_errors", candidate->start_errors, candidate->nsamples, 3);
    fprintf(file, ",\"late\":%d,\"repeats\":%d,\"start_error\":%.3g", timing->late, timing->repeats,
            timing->start_error);
    if (bench->options.costs) {
        fprintf(file, ",\"cpu\":%.6g,\"memory\":%" PRId64 ",\"memory_estimate\":%" PRId64,
                candidate->cpu, candidate->memory, candidate->memory_estimate);
    }
    end_line(file);
}

void record_group(FILE *file, const struct bench *bench, const struct group *group,
                  const struct timing *timing) {
    for (int i = 0; file != NULL && i < group->ncandidates; i++) {
        record_result(file, bench, group, &group->candidates[i], timing);
    }
}

void record_end(FILE *file, int cases, int failed, const struct spent *spent) {
    if (file == NULL) {
        return;
    }
    fprintf(file, "{\"record\":\"end\",\"cases\":%d,\"failed\":%d", cases, failed);
    fprintf(file, ",\"seconds\":{\"verifying\":%.3f,\"timing\":%.3f}", spent->verifying,
            spent->timing);
    end_line(file);
}
