/* The user's buffers of a call, turned into units and back. */
#include "variant.h"

/*
 * A collective without an op moves the packed stream. On this rank its two sides may have different
 * types, and only the sides that are significant here are looked at.
 */
static int stage(struct cf_comm *comm, int slot, void *buffer, MPI_Aint count, MPI_Datatype type,
                 bool fill, void **staged, bool *packed) {
    struct cf_unit unit;
    int position = 0;
    int err = cf_unit_of(type, &unit);

    if (err != MPI_SUCCESS) {
        return err;
    }
    *staged = buffer;
    *packed = !unit.dense;
    if (unit.dense) {
        return MPI_SUCCESS;
    }
    const int bytes = (int)(count * unit.size);
    *staged = cf_tmpbuf(&comm->tmpbufs, slot, (size_t)bytes);
    if (*staged == NULL) {
        return MPI_ERR_NO_MEM;
    }
    if (fill) {
        err =
            PMPI_Pack(buffer, (int)count, type, *staged, bytes, &position, comm->layout.node_comm);
    }
    return err;
}

static int begin_movement(struct cf_operands *operands, const struct cf_roles *roles,
                          const struct cf_args *args, struct cf_comm *comm) {
    const bool in_place = roles->send_in_place && args->sendbuf == MPI_IN_PLACE;
    const bool stays = roles->recv_in_place && args->recvbuf == MPI_IN_PLACE;
    const bool from_recv = in_place || roles->single_buffer;
    const bool use_send = (roles->send_side && !in_place) || stays;
    const int count = use_send ? args->sendcount : args->recvcount;
    const MPI_Datatype type = use_send ? args->sendtype : args->recvtype;
    int size = 0;
    bool packed = false;
    void *staged = NULL;
    int err = PMPI_Type_size(type, &size);

    operands->unit = (struct cf_unit){MPI_BYTE, 1, 0, 1, 1, true};
    operands->block = count * size;
    if (err == MPI_SUCCESS && roles->in_blocks > 0) {
        void *buffer = from_recv ? args->recvbuf : (void *)args->sendbuf;
        const MPI_Aint elements = from_recv ? args->recvcount : args->sendcount;
        const MPI_Datatype in_type = from_recv ? args->recvtype : args->sendtype;
        MPI_Aint lb = 0;
        MPI_Aint extent = 0;
        if (in_place) {
            err = PMPI_Type_get_extent(in_type, &lb, &extent);
            buffer = (char *)buffer + roles->in_place_block * elements * extent;
        }
        if (err == MPI_SUCCESS) {
            err = stage(comm, CF_SLOT_INPUT, buffer, roles->in_blocks * elements, in_type, true,
                        &staged, &packed);
        }
        operands->input = staged;
    }
    if (err != MPI_SUCCESS || roles->out_blocks == 0) {
        return err;
    }
    if (roles->single_buffer && roles->in_blocks > 0) {
        operands->output = staged; /* what this rank gets is what it has */
        return MPI_SUCCESS;
    }
    if (stays) {
        operands->output = cf_tmpbuf(&comm->tmpbufs, CF_SLOT_OUTPUT, (size_t)operands->block);
        return operands->output == NULL ? MPI_ERR_NO_MEM : MPI_SUCCESS;
    }
    return stage(comm, CF_SLOT_OUTPUT, args->recvbuf, (MPI_Aint)roles->out_blocks * args->recvcount,
                 args->recvtype, false, &operands->output, &operands->unpack);
}

int cf_operands_begin(struct cf_operands *operands, const struct cf_roles *roles,
                      const struct cf_args *args, struct cf_comm *comm) {
    *operands = (struct cf_operands){0};
    if (!roles->reduces) {
        return begin_movement(operands, roles, args, comm);
    }
    const bool in_place = roles->send_in_place && args->sendbuf == MPI_IN_PLACE;
    operands->block = args->recvcount;
    operands->input = in_place ? args->recvbuf : args->sendbuf;
    operands->output = roles->out_blocks > 0 ? args->recvbuf : NULL;
    return cf_unit_of(args->recvtype, &operands->unit);
}

int cf_operands_end(const struct cf_operands *operands, const struct cf_roles *roles,
                    const struct cf_args *args, struct cf_comm *comm) {
    int position = 0;

    if (!operands->unpack) {
        return MPI_SUCCESS;
    }
    return PMPI_Unpack(operands->output, roles->out_blocks * operands->block, &position,
                       args->recvbuf, roles->out_blocks * args->recvcount, args->recvtype,
                       comm->layout.node_comm);
}
