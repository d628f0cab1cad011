#include "data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "expected.h"
#include "oracle.h"
#include "report.h"

/* ---- hybrid pieces --------------------------------------------------------------------------- */

static bool is_hybrid(const struct data *data) {
    return cf_collectives[data->problem->collective].hybrid;
}

/* The largest node's ranks. */
static size_t most_on_a_node(const struct collforge_hybrid *hybrid) {
    int most = 0;

    for (int rank = 0; rank < hybrid->size; rank++) {
        most = hybrid->node_rank_of[rank] > most ? hybrid->node_rank_of[rank] : most;
    }
    return (size_t)most + 1;
}

/* Memory for the node's result, then for the input of each of its ranks. Equal on all ranks,
 * because images of a hybrid piece have the same size. */
static void reserve_piece(struct data *data) {
    enum { LINE = 128 };
    if (data->hybrid == NULL) {
        must(collforge_hybrid_create(data->comm, &data->hybrid), "collforge_hybrid_create");
    }
    const size_t result = (data->recv.bytes + LINE - 1) / LINE * LINE;
    const size_t input = (data->send.bytes + LINE - 1) / LINE * LINE;
    const size_t bytes = result + input * most_on_a_node(data->hybrid);
    data->input_at = result + input * (size_t)data->hybrid->node_rank;
    if (bytes <= data->piece.capacity) {
        return;
    }
    if (data->piece.data != NULL) {
        must(collforge_hybrid_release(data->hybrid, data->piece.data), "collforge_hybrid_release");
    }
    must(collforge_hybrid_alloc(data->hybrid, (MPI_Aint)bytes, &data->piece.data),
         "collforge_hybrid_alloc");
    data->piece.capacity = bytes;
}

/* ---- arguments ------------------------------------------------------------------------------ */

/* For arguments not significant on this rank, which must not be read. */
static void *garbage(unsigned seed) {
    return seed % 2 == 0 ? NULL : (void *)8;
}

/* Odd ranks may describe the same data by more elements of another type. Collectives with blocks of
 * one size have no arrays, and their displacements may exceed an int. */
static void fill_arrays(struct data *data, int rank) {
    const bool odd = rank % 2 != 0 && !is_hybrid(data);
    const int scale = odd ? data->problem->element->odd_types : 1;
    const struct placing *const placings[] = {&data->input, &data->output};
    struct arrays *const arrays[] = {&data->send_arrays, &data->recv_arrays};

    if (cf_collectives[data->problem->collective].varies == CF_VARIES_NO) {
        return;
    }
    for (int side = 0; side < 2; side++) {
        const struct placing *placing = placings[side];
        const size_t bytes = (size_t)placing->blocks * sizeof(int);
        arrays[side]->counts = xrealloc(arrays[side]->counts, bytes);
        arrays[side]->displs = xrealloc(arrays[side]->displs, bytes);
        for (int block = 0; block < placing->blocks; block++) {
            arrays[side]->counts[block] = placing->count[block] * scale;
            arrays[side]->displs[block] = (int)placing->at[block] * scale;
        }
    }
}

/* ---- preparing ------------------------------------------------------------------------------ */

/* How this rank uses its buffers. */
struct form {
    bool sends;         /* its send buffer is significant */
    bool receives;      /* its receive buffer is significant */
    bool send_in_place; /* its input is in the receive buffer */
    bool recv_in_place; /* its result stays in the send buffer */
    bool shared;        /* input and result are in the receive buffer */
};

static struct form form_of(const struct data *data, int rank) {
    const struct problem *problem = data->problem;
    const struct cf_oracle *oracle = &cf_oracles[problem->collective];
    const bool in_place =
        problem->in_place && (oracle->in_place == CF_IN_PLACE_SEND_ALL || rank == problem->root);
    const bool recv_in_place = in_place && oracle->in_place == CF_IN_PLACE_RECV_ROOT;
    const bool shared = (in_place && !recv_in_place) || oracle->single_buffer;

    return (struct form){
        .sends = !shared && data->input.blocks > 0,
        .receives = !recv_in_place && (data->output.blocks > 0 || shared),
        .send_in_place = in_place && !recv_in_place,
        .recv_in_place = recv_in_place,
        .shared = shared,
    };
}

/* Sets the sizes of this rank's blocks, and their positions for separate input and output. */
static void lay_out(struct data *data, int rank, int size) {
    const struct problem *problem = data->problem;
    const struct cf_oracle *oracle = &cf_oracles[problem->collective];
    struct placing *const input = &data->input;
    struct placing *const output = &data->output;

    placing_create(input, oracle->moves_nothing ? 0 : oracle->in_blocks(rank, problem->root, size));
    placing_create(output,
                   oracle->moves_nothing ? 0 : oracle->out_blocks(rank, problem->root, size));
    for (int block = 0; block < input->blocks; block++) {
        input->count[block] = sizes_between(&data->sizes, rank, block);
    }
    for (int block = 0; block < output->blocks; block++) {
        output->count[block] = sizes_of_result(&data->sizes, rank, block);
    }
    placing_lay(input, problem, problem->uneven && oracle->sdispls ? 1 : 0);
    placing_lay(output, problem, problem->uneven && oracle->rdispls ? 2 : 0);
}

/* Moves the input to the result's blocks if it fits among them. Otherwise (reduce_scatter) its
 * blocks stay contiguous. */
static void share_buffer(struct data *data, int at) {
    if (at + data->input.blocks > data->output.blocks) {
        return;
    }
    for (int block = 0; block < data->input.blocks; block++) {
        data->input.at[block] = data->output.at[at + block];
    }
    data->input.elements = data->output.elements;
}

static int count_of(bool in_array, bool significant, int count) {
    return in_array ? 0 : significant ? count : -77;
}

/* The type that this rank passes. The counts become numbers of it. */
static MPI_Datatype describe(const struct data *data, int rank, int *sent, int *received) {
    const struct element *element = data->problem->element;
    const bool odd = rank % 2 != 0 && !is_hybrid(data);

    if (element->whole && !odd && data->problem->count > 0) {
        *sent = *received = 1; /* all blocks have one size */
        return types_block(element, data->problem->count);
    }
    *sent *= odd ? element->odd_types : 1;
    *received *= odd ? element->odd_types : 1;
    return odd ? element->odd_type : element->type;
}

static void fill_args(struct data *data, int rank, const struct form *form) {
    const struct problem *problem = data->problem;
    const struct cf_oracle *oracle = &cf_oracles[problem->collective];
    /* If both sides have one type, it is significant on every rank, and so are the counts. */
    const bool has_op = cf_collectives[problem->collective].has_op;
    const bool one_type = oracle->single_buffer || has_op;
    const bool sends = one_type || form->sends;
    const bool receives = one_type || form->receives;
    int sent = sizes_between(&data->sizes, rank, 0);
    int received = sizes_between(&data->sizes, problem->root, rank);
    const MPI_Datatype type = describe(data, rank, &sent, &received);
    const struct arrays *out = &data->send_arrays;
    const struct arrays *in = has_op ? &data->send_arrays : &data->recv_arrays;
    int *const nothing = garbage(problem->seed);

    struct cf_args args = cf_plain_args();
    args.sendbuf = form->sends ? image_address(&data->send) : garbage(problem->seed);
    args.sendcount = count_of(oracle->sendcounts || (one_type && oracle->recvcounts), sends, sent);
    if (oracle->sendcounts) {
        args.sendcounts = sends ? out->counts : nothing;
    }
    if (oracle->sdispls) {
        args.sdispls = sends ? out->displs : nothing;
    }
    args.sendtype = sends ? type : MPI_DATATYPE_NULL;
    args.recvbuf = form->receives ? image_address(&data->recv) : garbage(problem->seed + 1);
    args.recvcount = count_of(oracle->recvcounts, receives, received);
    if (oracle->recvcounts) {
        args.recvcounts = receives ? in->counts : nothing;
    }
    if (oracle->rdispls) {
        args.rdispls = receives ? in->displs : nothing;
    }
    args.recvtype = receives ? type : MPI_DATATYPE_NULL;
    args.op = types_op_handle(problem->op);
    args.root = problem->root;
    args.comm = data->comm;
    if (form->send_in_place) {
        args.sendbuf = MPI_IN_PLACE;
    }
    if (form->recv_in_place) {
        args.recvbuf = MPI_IN_PLACE;
    }
    data->args = args;
}

/* Stores this rank's input, and computes the expected results from all ranks' inputs. */
static void fill_images(struct data *data, struct image *input, int rank, int size) {
    for (int block = 0; block < data->input.blocks; block++) {
        expected_input(data, rank, block, data->words[0]);
        image_put(data->problem, &input->before, data->input.at[block], data->input.count[block],
                  data->words[0]);
    }
    memcpy(data->send.after.data, data->send.before.data, data->send.bytes);
    memcpy(data->recv.after.data, data->recv.before.data, data->recv.bytes);
    for (int block = 0; data->recv.elements > 0 && block < data->output.blocks; block++) {
        if (expected_result(data, rank, block, size)) {
            image_put(data->problem, &data->recv.after, data->output.at[block],
                      data->output.count[block], data->words[0]);
        }
    }
    memcpy(data->send.work.data, data->send.before.data, data->send.bytes);
    device_upload(&data->send.device, data->send.work.data, data->send.bytes);
    if (is_hybrid(data)) {
        memcpy(data->piece.data + data->input_at, data->send.before.data, data->send.bytes);
    }
}

void data_prepare(struct data *data, const struct problem *problem, MPI_Comm comm) {
    const struct cf_oracle *oracle = &cf_oracles[problem->collective];
    int rank = 0;
    int size = 0;

    must(PMPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
    must(PMPI_Comm_size(comm, &size), "MPI_Comm_size");
    data->problem = problem;
    data->comm = comm;
    sizes_draw(&data->sizes, problem, size);
    lay_out(data, rank, size);
    const struct form form = form_of(data, rank);
    if (form.shared) {
        share_buffer(data, oracle->in_place_block(rank, problem->root, size));
    }
    const size_t nwords = (size_t)data->sizes.largest * (size_t)problem->element->lanes;
    for (int i = 0; i < 2; i++) {
        data->words[i] = xrealloc(data->words[i], nwords * sizeof *data->words[i]);
    }
    const size_t in_recv = form.shared ? data->input.elements : 0;
    const size_t results = data->output.elements;
    const unsigned turn = (unsigned)(rank + problem->count) + problem->seed;
    data->send.device.used = !is_hybrid(data) && device_takes(data->device, turn);
    data->recv.device.used = !is_hybrid(data) && device_takes(data->device, turn / 2);
    image_create(&data->send, problem, "send buffer", &data->input,
                 form.shared ? 0 : data->input.elements);
    image_create(&data->recv, problem, oracle->single_buffer ? "buffer" : "receive buffer",
                 &data->output,
                 form.recv_in_place  ? 0
                 : in_recv > results ? in_recv
                                     : results);
    if (is_hybrid(data)) {
        reserve_piece(data);
    }
    fill_images(data, form.shared ? &data->recv : &data->send, rank, size);
    fill_arrays(data, rank);
    fill_args(data, rank, &form);
    types_expect(problem->element);
}

/* One rank fills the hybrid piece with the pattern. Then each rank stores its input, if that is in
 * the piece. */
static void reset_piece(struct data *data) {
    const struct image *image = &data->recv;

    must(collforge_hybrid_sync(data->hybrid), "collforge_hybrid_sync");
    if (data->hybrid->node_rank == 0) {
        memset(image->work.data, IMAGE_PATTERN, image->bytes);
    }
    must(collforge_hybrid_sync(data->hybrid), "collforge_hybrid_sync");
    for (int block = 0; data->send.elements == 0 && block < data->input.blocks; block++) {
        const size_t at = image_bytes_of(data->problem, data->input.at[block]);
        memcpy(image_base(&image->work) + at, image_base(&image->before) + at,
               image_bytes_of(data->problem, (size_t)data->input.count[block]));
    }
    must(collforge_hybrid_sync(data->hybrid), "collforge_hybrid_sync");
}

bool data_survives(const struct data *data) {
    return !data->problem->in_place && !is_hybrid(data);
}

void data_reset(struct data *data, bool native) {
    /* The send buffer needs no reset: data_check restores it. */
    if (is_hybrid(data)) {
        const struct memory input = {data->piece.data + data->input_at, data->send.bytes};
        data->recv.work = native ? data->recv.own : data->piece;
        data->args.recvbuf = image_base(&data->recv.work);
        data->send.work = native ? data->send.own : input;
    }
    if (is_hybrid(data) && data->send.elements > 0) {
        data->args.sendbuf = image_base(&data->send.work);
    }
    if (is_hybrid(data) && !native) {
        reset_piece(data);
    } else {
        memcpy(data->recv.work.data, data->recv.before.data, data->recv.bytes);
    }
    device_upload(&data->recv.device, data->recv.work.data, data->recv.bytes);
}

/* ---- checking ------------------------------------------------------------------------------- */

/* Checks this rank's blocks only: in a hybrid piece other ranks' results lie between them. */
static bool is_right_in_piece(const struct data *data, const struct image *image, int rank,
                              size_t *at) {
    const struct cf_oracle *oracle = &cf_oracles[data->problem->collective];
    const int root = data->problem->root;
    const int size = data->sizes.ranks;
    const size_t start = IMAGE_HEAD;
    const size_t end = start + image_bytes_of(data->problem, image->elements);
    bool right = !image_differs(image, &image->after, 0, start, at) &&
                 !image_differs(image, &image->after, end, image->bytes, at);

    for (int block = 0; block < data->output.blocks && right; block++) {
        const size_t begin = start + image_bytes_of(data->problem, data->output.at[block]);
        const size_t bytes = image_bytes_of(data->problem, (size_t)data->output.count[block]);
        const bool defined =
            oracle->first(rank, block, root, size) < oracle->last(rank, block, root, size);
        right = !defined || !image_differs(image, &image->after, begin, begin + bytes, at);
    }
    return right;
}

bool data_check(struct data *data, int err, int rank, char *detail, size_t size) {
    const struct image *const images[] = {&data->send, &data->recv};
    char what[DETAIL_SIZE - 32] = "";
    size_t at = 0;

    if (err != MPI_SUCCESS && err != CF_DECLINED) {
        char text[MPI_MAX_ERROR_STRING] = "";
        int length = 0;
        if (PMPI_Error_string(err, text, &length) != MPI_SUCCESS) {
            text[0] = '\0';
        }
        snprintf(what, sizeof what, "the call returned error %d, %.200s", err, text);
    } else if (types_complaint() != NULL) {
        snprintf(what, sizeof what, "%s", types_complaint());
    }
    for (int i = 0; i < 2; i++) {
        device_download(&images[i]->device, images[i]->work.data, images[i]->bytes);
    }
    for (int i = 0; i < 2 && what[0] == '\0'; i++) {
        const struct memory *should = err == CF_DECLINED ? &images[i]->before : &images[i]->after;
        const bool in_piece = images[i]->work.data == data->piece.data;
        if (in_piece ? !is_right_in_piece(data, images[i], rank, &at)
                     : !image_is_right(data->problem, images[i], should, &at)) {
            image_describe(data->problem, images[i], should, at, what, sizeof what);
        }
    }
    if (what[0] == '\0') {
        return true;
    }
    snprintf(detail, size, "rank %d: %s", rank, what);
    /* The next variant must start with intact buffers. */
    types_expect(data->problem->element);
    memcpy(data->send.work.data, data->send.before.data, data->send.bytes);
    device_upload(&data->send.device, data->send.work.data, data->send.bytes);
    return false;
}

void data_free(struct data *data) {
    struct image *const images[] = {&data->send, &data->recv};
    struct arrays *const arrays[] = {&data->send_arrays, &data->recv_arrays};

    for (int i = 0; i < 2; i++) {
        image_free(images[i]);
        free(arrays[i]->counts);
        free(arrays[i]->displs);
        free(data->words[i]);
    }
    placing_free(&data->input);
    placing_free(&data->output);
    sizes_free(&data->sizes);
    if (data->hybrid != NULL) {
        must(collforge_hybrid_free(&data->hybrid), "collforge_hybrid_free");
    }
    *data = (struct data){0};
}
