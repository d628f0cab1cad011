#include "data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oracle.h"
#include "report.h"

enum {
    GUARD = 64,    /* bytes before and behind the elements */
    HEAD = 16,     /* room for negative bounds; keeps the alignment */
    PATTERN = 0xa5 /* of guards, holes and results not yet there */
};

/* ---- words ---------------------------------------------------------------------------------- */

static uint32_t mix(uint32_t x) {
    x = (x ^ (x >> 16)) * 0x85ebca6bU;
    x = (x ^ (x >> 13)) * 0xc2b2ae35U;
    return x ^ (x >> 16);
}

static size_t words_of_block(const struct problem *problem) {
    return (size_t)problem->count * (size_t)problem->element->lanes;
}

/*
 * An input block of a rank. Sums stay exact in any order: small integers. Slopes of the affine op
 * are odd, so that no product of them vanishes.
 */
static void input_block(const struct problem *problem, int rank, int block, uint32_t *words) {
    const size_t nwords = words_of_block(problem);
    const uint32_t key = mix(mix(mix(problem->seed + 1) + (uint32_t)rank) + (uint32_t)block);

    for (size_t i = 0; i < nwords; i++)
        words[i] = mix(key + (uint32_t)i * 0x9e3779b9U);
    if (problem->op == OP_SUM || problem->op == OP_MAX) {
        for (size_t i = 0; i < nwords; i++)
            words[i] = (words[i] & 0x3ff) - 512;
    } else if (problem->op == OP_AFFINE) {
        for (size_t i = 0; i < nwords; i += 2)
            words[i] |= 1;
    }
}

/* Block of the result on rank, in words[0]; false where the standard leaves it undefined. */
static bool result_block(struct data *data, int rank, int block, int size) {
    const struct problem *problem = data->problem;
    const struct cf_oracle *oracle = &cf_oracles[problem->collective];
    const int first = oracle->first(rank, block, problem->root, size);
    const int last = oracle->last(rank, block, problem->root, size);

    if (first >= last)
        return false;
    const int source = oracle->source_block(rank, block, problem->root, size);
    input_block(problem, first, source, data->words[0]);
    for (int other = first + 1; other < last; other++) {
        input_block(problem, other, source, data->words[1]);
        types_combine(problem->element, problem->op, data->words[0], data->words[1],
                      (size_t)problem->count);
    }
    return true;
}

/* ---- images --------------------------------------------------------------------------------- */

static char *base(const struct memory *memory) {
    return memory->data + GUARD + HEAD;
}

static size_t block_bytes(const struct problem *problem) {
    return (size_t)problem->count * (size_t)problem->element->extent;
}

static void reserve(struct memory *memory, size_t bytes) {
    if (bytes <= memory->capacity)
        return;
    free(memory->data);
    memory->data = xmalloc(bytes);
    memory->capacity = bytes;
}

static void put_block(const struct problem *problem, struct memory *memory, int block,
                      const uint32_t *words) {
    const struct element *element = problem->element;
    char *at = base(memory) + (size_t)block * block_bytes(problem);

    for (int i = 0; i < problem->count; i++, at += element->extent) {
        for (int lane = 0; lane < element->lanes; lane++, words++) {
            const double number = (int32_t)*words;
            const unsigned char byte = (unsigned char)*words;
            const void *word = element->kind == WORD_DOUBLE ? (const void *)&number
                               : element->kind == WORD_BYTE ? (const void *)&byte
                                                            : (const void *)words;
            memcpy(at + element->offset[lane], word, (size_t)element->word_bytes);
        }
    }
}

static void image_create(struct image *image, const struct problem *problem, const char *name,
                         int blocks, int checked) {
    image->name = name;
    image->blocks = blocks;
    image->checked = checked;
    image->bytes = (size_t)blocks * block_bytes(problem) + 2 * GUARD + HEAD;
    reserve(&image->work, image->bytes);
    reserve(&image->before, image->bytes);
    reserve(&image->after, image->bytes);
    memset(image->before.data, PATTERN, image->bytes);
}

/* ---- preparing ------------------------------------------------------------------------------ */

/* A buffer that is not significant on this rank must not be looked at. */
static void *garbage(unsigned seed) {
    return seed % 2 == 0 ? NULL : (void *)8;
}

static void fill_args(struct data *data, int rank, bool send_in_place, bool recv_in_place) {
    const struct problem *problem = data->problem;
    const bool single = cf_oracles[problem->collective].single_buffer;
    /* With one count and datatype for both sides they are significant on every rank. */
    const bool one_type = single || cf_collectives[problem->collective].has_op;
    const struct element *element = problem->element;
    const MPI_Datatype type = rank % 2 == 0 ? element->type : element->odd_type;
    const int count = rank % 2 == 0 ? problem->count : problem->count * element->odd_types;
    const bool sends = data->send.blocks > 0;
    const bool receives = data->recv.blocks > 0;

    data->args = (struct cf_args){
        .sendbuf = sends ? base(&data->send.work) : garbage(problem->seed),
        .sendcount = one_type || sends ? count : -77,
        .sendtype = one_type || sends ? type : MPI_DATATYPE_NULL,
        .recvbuf = receives ? base(&data->recv.work) : garbage(problem->seed + 1),
        .recvcount = one_type || receives ? count : -77,
        .recvtype = one_type || receives ? type : MPI_DATATYPE_NULL,
        .op = types_op_handle(problem->op),
        .root = problem->root,
        .comm = MPI_COMM_WORLD,
    };
    if (send_in_place)
        data->args.sendbuf = MPI_IN_PLACE;
    if (recv_in_place)
        data->args.recvbuf = MPI_IN_PLACE;
}

/* This rank's inputs go into input from block at on; the results follow from everybody's. */
static void fill_images(struct data *data, struct image *input, int at, int rank, int size) {
    const int inputs =
        cf_oracles[data->problem->collective].in_blocks(rank, data->problem->root, size);

    for (int block = 0; block < inputs; block++) {
        input_block(data->problem, rank, block, data->words[0]);
        put_block(data->problem, &input->before, at + block, data->words[0]);
    }
    memcpy(data->send.after.data, data->send.before.data, data->send.bytes);
    memcpy(data->recv.after.data, data->recv.before.data, data->recv.bytes);
    for (int block = 0; block < data->recv.checked; block++) {
        if (result_block(data, rank, block, size))
            put_block(data->problem, &data->recv.after, block, data->words[0]);
    }
    memcpy(data->send.work.data, data->send.before.data, data->send.bytes);
    data_reset(data);
}

void data_prepare(struct data *data, const struct problem *problem, int rank, int size) {
    const struct cf_oracle *oracle = &cf_oracles[problem->collective];
    const int inputs = oracle->in_blocks(rank, problem->root, size);
    const int results = oracle->out_blocks(rank, problem->root, size);
    const bool in_place =
        problem->in_place && (oracle->in_place == CF_IN_PLACE_SEND_ALL || rank == problem->root);
    const bool recv_in_place = in_place && oracle->in_place == CF_IN_PLACE_RECV_ROOT;
    const bool send_in_place = in_place && !recv_in_place;
    const bool shared = send_in_place || oracle->single_buffer;
    const int at = send_in_place ? oracle->in_place_block(rank, problem->root, size) : 0;
    const int needed = shared && at + inputs > results ? at + inputs : results;
    const size_t nwords = words_of_block(problem);

    data->problem = problem;
    if (nwords > data->words_capacity) {
        for (int i = 0; i < 2; i++)
            data->words[i] = xrealloc(data->words[i], nwords * sizeof *data->words[i]);
        data->words_capacity = nwords;
    }
    image_create(&data->send, problem, "send buffer", shared ? 0 : inputs, shared ? 0 : inputs);
    image_create(&data->recv, problem, oracle->single_buffer ? "buffer" : "receive buffer",
                 recv_in_place ? 0 : needed, recv_in_place ? 0 : results);
    fill_images(data, shared ? &data->recv : &data->send, at, rank, size);
    fill_args(data, rank, send_in_place, recv_in_place);
    types_expect(problem->element);
}

void data_reset(struct data *data) {
    /* The send buffer is as it was: data_check repairs it. */
    memcpy(data->recv.work.data, data->recv.before.data, data->recv.bytes);
}

/* ---- checking ------------------------------------------------------------------------------- */

/* Finds the first difference between what is and what should be in [from, to). */
static bool differs(const struct image *image, size_t from, size_t to, size_t *at) {
    const char *is = image->work.data;
    const char *should = image->after.data;

    if (memcmp(is + from, should + from, to - from) == 0)
        return false;
    for (*at = from; is[*at] == should[*at]; ++*at)
        ;
    return true;
}

/* Blocks behind the checked ones are open: reduce_scatter_block in place may use its buffer up. */
static bool is_right(const struct problem *problem, const struct image *image, size_t *at) {
    const size_t start = (size_t)(GUARD + HEAD + problem->element->lb);
    const size_t defined = start + (size_t)image->checked * block_bytes(problem);
    const size_t end = start + (size_t)image->blocks * block_bytes(problem);

    return !differs(image, 0, defined, at) && !differs(image, end, image->bytes, at);
}

static double word_at(const struct element *element, const char *at) {
    double number = 0;
    int32_t integer = 0;

    switch (element->kind) {
    case WORD_DOUBLE:
        memcpy(&number, at, sizeof number);
        return number;
    case WORD_BYTE:
        return *(const unsigned char *)at;
    default:
        memcpy(&integer, at, sizeof integer);
        return integer;
    }
}

/* Says what the byte at this place of the image belongs to, and what is wrong with it. */
static void describe(const struct problem *problem, const struct image *image, size_t place,
                     char *text, size_t size) {
    const struct element *element = problem->element;
    const ptrdiff_t at = (ptrdiff_t)place - (GUARD + HEAD + element->lb);
    const ptrdiff_t length = (ptrdiff_t)((size_t)image->blocks * block_bytes(problem));

    if (at < 0 || at >= length) {
        snprintf(text, size, "%s: overwritten %td bytes %s it", image->name,
                 at < 0 ? -at : at - length + 1, at < 0 ? "before" : "behind");
        return;
    }
    const int index = (int)(at / element->extent);
    const int within = (int)(at % element->extent) + element->lb;
    const int used = snprintf(text, size, "%s: block %d, element %d", image->name,
                              index / problem->count, index % problem->count);
    for (int lane = 0; lane < element->lanes; lane++) {
        const int offset = element->offset[lane];
        if (within < offset || within >= offset + element->word_bytes)
            continue;
        const ptrdiff_t word = (ptrdiff_t)index * element->extent + offset;
        snprintf(text + used, size - (size_t)used, ", lane %d: expected %.17g, got %.17g", lane,
                 word_at(element, base(&image->after) + word),
                 word_at(element, base(&image->work) + word));
        return;
    }
    snprintf(text + used, size - (size_t)used, ": the hole in it is overwritten");
}

bool data_check(struct data *data, int err, int rank, char *detail, size_t size) {
    const struct image *const images[] = {&data->send, &data->recv};
    char what[DETAIL_SIZE - 32] = "";
    size_t at = 0;

    if (err != MPI_SUCCESS) {
        char text[MPI_MAX_ERROR_STRING] = "";
        int length = 0;
        if (PMPI_Error_string(err, text, &length) != MPI_SUCCESS)
            text[0] = '\0';
        snprintf(what, sizeof what, "the call returned error %d, %.200s", err, text);
    } else if (types_complaint() != NULL) {
        snprintf(what, sizeof what, "%s", types_complaint());
    }
    for (int i = 0; i < 2 && what[0] == '\0'; i++) {
        if (!is_right(data->problem, images[i], &at))
            describe(data->problem, images[i], at, what, sizeof what);
    }
    if (what[0] == '\0')
        return true;
    snprintf(detail, size, "rank %d: %s", rank, what);
    /* The next variant must not pay for this one. */
    types_expect(data->problem->element);
    memcpy(data->send.work.data, data->send.before.data, data->send.bytes);
    return false;
}

void data_free(struct data *data) {
    struct image *const images[] = {&data->send, &data->recv};

    for (int i = 0; i < 2; i++) {
        free(images[i]->work.data);
        free(images[i]->before.data);
        free(images[i]->after.data);
        free(data->words[i]);
    }
    *data = (struct data){0};
}
