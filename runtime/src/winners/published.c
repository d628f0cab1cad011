/*
 * Reads the file that `collforge publish` writes: winners alone, as text that is read without
 * SQLite (db/published.py writes it). Lines of fields that are separated by tabs:
 *
 *   collforge winners 1                               the format's version
 *   system   NAME  PATTERN                            every system first, with its host pattern
 *   variant  COLLECTIVE  VARIANT  FINGERPRINT         they are numbered from 0
 *   winners  SYSTEM  MPI LIBRARY                      what follows is for these two; the first line
 *                                                     of the library's version
 *   layout   NAME                                     "~4x2" is a point of the map, "~~64x2" an
 *                                                     extrapolated one; "=3x2" and "!3x2" are
 *                                                     of what jobs learnt; in this order, after
 *                                                     the measured ones
 *   BYTES  NUMBER OF THE VARIANT [tie]                a winner
 *   BYTES  NUMBER OF THE VARIANT  TIME  NATIVE  LOW  HIGH
 *                                                     a variant, with times (CF_TIMES)
 *   end  NUMBER OF WINNERS                            the last line
 *
 * All variants are verified: else the file is not written.
 */
#include "winners/load.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/sha256.h"
#include "base/span.h"

static const char magic[] = "collforge winners ";
static const char version[] = "1";

/* 65536 winners take 1 MiB. */
enum { MOST_SIZE = 1 << 24, MOST_VARIANTS = 1 << 16, CHUNK = 1 << 16 };

struct file {
    struct cf_load *load;
    char *text; /* ends in '\0' */
    size_t size;
    struct cf_load_choice *variants;
    int nvariants, capacity;
    struct cf_systems systems;
    const char *layout;
    bool wanted; /* whether the lines are for the wanted system and MPI library */
    bool ended;
    int rows;
};

static bool fail_as_damaged(struct file *file, const char *what) {
    return cf_load_fail(file->load, "it is damaged (%s); publish it anew", what);
}

bool cf_published_is(const char *path) {
    char first[sizeof magic - 1] = "";
    struct stat status;
    FILE *file = cf_load_open(path, &status);
    if (file == NULL) {
        return false;
    }
    const bool whole = fread(first, sizeof first, 1, file) == 1;
    (void)fclose(file);
    return whole && memcmp(first, magic, sizeof first) == 0;
}

static bool read_stream(struct file *file, FILE *stream) {
    struct stat status;
    size_t got = 1;
    if (fstat(fileno(stream), &status) != 0 || status.st_size > MOST_SIZE) {
        return cf_load_fail(file->load, "it is larger than %d bytes", MOST_SIZE);
    }
    const size_t size = (size_t)status.st_size;
    file->text = malloc(size + 1);
    if (file->text == NULL) {
        return cf_load_fail(file->load, "out of memory");
    }
    while (got > 0 && file->size < size) {
        const size_t rest = size - file->size;
        got = fread(file->text + file->size, 1, rest < CHUNK ? rest : CHUNK, stream);
        file->size += got;
        if (cf_load_is_late(file->load)) {
            return cf_load_fail(file->load, "reading takes too long; use a faster file system");
        }
    }
    file->text[file->size] = '\0';
    return !ferror(stream) ||
           cf_load_fail(file->load, "%s; check the file and its permissions", strerror(errno));
}

static bool read_file(struct file *file) {
    if (!cf_load_is_file(file->load)) {
        return false;
    }
    FILE *stream = fopen(file->load->path, "rb");
    if (stream == NULL) {
        return cf_load_fail(file->load, "%s; check the file and its permissions", strerror(errno));
    }
    const bool good = read_stream(file, stream);
    (void)fclose(stream);
    return good;
}

static bool check_digest(struct file *file, const char *sha256) {
    char found[CF_SHA256_TEXT];
    cf_sha256(file->text, file->size, found);
    return strcmp(found, sha256) == 0 ||
           cf_load_fail(
               file->load,
               "its SHA-256 is %.12s..., not COLLFORGE_DB_SHA256=%.12s...; load the module "
               "anew, or unset the variable to use another file",
               found, sha256);
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* Cuts the text before the next tab off rest, all of it if there is none. */
static const char *cut(char **rest) {
    char *field = *rest;
    char *tab = strchr(field, '\t');
    *rest = tab == NULL ? field + strlen(field) : tab + 1;
    if (tab != NULL) {
        *tab = '\0';
    }
    return field;
}

static bool read_number(const char *text, int64_t most, int64_t *number) {
    return cf_span_number((struct cf_span){text, strlen(text)}, 0, most, number);
}

static bool add_variant(struct file *file, char *rest) {
    if (file->nvariants == MOST_VARIANTS) {
        return cf_load_fail(file->load, "it has more than %d variants", MOST_VARIANTS);
    }
    if (file->nvariants == file->capacity) {
        const int capacity = file->capacity == 0 ? 64 : 2 * file->capacity;
        void *more = realloc(file->variants, (size_t)capacity * sizeof *file->variants);
        if (more == NULL) {
            return cf_load_fail(file->load, "out of memory");
        }
        file->variants = more;
        file->capacity = capacity;
    }
    struct cf_load_choice *variant = &file->variants[file->nvariants++];
    memset(variant, 0, sizeof *variant);
    variant->collective = cut(&rest);
    variant->variant = cut(&rest);
    variant->fingerprint = cut(&rest);
    variant->proven = true;
    return true;
}

/* All systems are known by now. */
static bool know_system(struct file *file) {
    return file->load->system[0] != '\0' || cf_systems_choose(&file->systems, file->load);
}

static bool begin_winners(struct file *file, char *rest) {
    if (!know_system(file)) {
        return false;
    }
    const char *system = cut(&rest);
    file->wanted =
        strcmp(system, file->load->system) == 0 && strcmp(rest, file->load->first_line) == 0;
    file->layout = NULL;
    return true;
}

static bool add_winner(struct file *file, const char *bytes, char *rest) {
    int64_t size = 0;
    int64_t variant = 0;
    int64_t times[CF_TIMES] = {0};
    file->rows++;
    if (file->layout == NULL || !read_number(bytes, INT64_MAX, &size) ||
        !read_number(cut(&rest), file->nvariants - 1, &variant)) {
        return fail_as_damaged(file, "a line that cannot be");
    }
    const bool tie = strcmp(rest, "tie") == 0;
    for (int i = 0; i < CF_TIMES && !tie && *rest != '\0'; i++) {
        if (!read_number(cut(&rest), INT64_MAX, &times[i])) {
            memset(times, 0, sizeof times); /* not known */
            break;
        }
    }
    return !file->wanted ||
           cf_load_add(file->load, file->layout, size, &file->variants[variant], tie, times);
}

static bool read_line(struct file *file, char *rest) {
    int64_t rows = 0;
    const char *kind = cut(&rest);
    if (file->ended) {
        return fail_as_damaged(file, "a line after the last one");
    }
    if (strcmp(kind, "variant") == 0) {
        return add_variant(file, rest);
    }
    if (strcmp(kind, "winners") == 0) {
        return begin_winners(file, rest);
    }
    if (strcmp(kind, "system") == 0) {
        const char *name = cut(&rest);
        if (file->load->wanted == NULL) {
            cf_systems_add(&file->systems, name, rest);
        }
    } else if (strcmp(kind, "layout") == 0) {
        file->layout = rest;
    } else if (strcmp(kind, "end") == 0) {
        file->ended = read_number(rest, INT32_MAX, &rows) && rows == file->rows;
        return file->ended || fail_as_damaged(file, "winners are missing");
    } else {
        return add_winner(file, kind, rest);
    }
    return true;
}

static bool read_lines(struct file *file) {
    if (file->size < sizeof magic || memcmp(file->text, magic, sizeof magic - 1) != 0) {
        return cf_load_fail(file->load,
                            "it is no file of 'collforge publish', which "
                            "COLLFORGE_DB_SHA256 demands; unset that");
    }
    char *line = file->text + sizeof magic - 1;
    char *end = strchr(line, '\n');
    if (end == NULL || strlen(file->text) != file->size) {
        return fail_as_damaged(file, "it is no text");
    }
    *end = '\0';
    if (strcmp(line, version) != 0) {
        return cf_load_fail(file->load,
                            "its format '%.20s' is newer than this library's; use the library that "
                            "it was published with",
                            line);
    }
    cf_systems_begin(&file->systems);
    for (line = end + 1; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        *end = '\0';
        if (!read_line(file, line)) {
            return false;
        }
    }
    if (!file->ended || *line != '\0') {
        return fail_as_damaged(file, "its end is missing");
    }
    return know_system(file);
}

bool cf_published_load(struct cf_load *load, const char *sha256) {
    struct file file = {.load = load};
    const bool good = read_file(&file) && (sha256 == NULL || check_digest(&file, sha256)) &&
                      read_lines(&file) && cf_load_end(load);
    if (!good) {
        cf_load_undo(load);
    }
    free(file.variants);
    free(file.text);
    return good;
}
