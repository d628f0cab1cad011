/*
 * Preloaded into SMPI's process (launch.py): what SimGrid 3.32 lacks as a stand-in for a native MPI
 * library.
 *
 * - The functions NAME__ompi below, which its selector `ompi` calls, decide as the coll/tuned
 * component of Open MPI 4.0.2 (fixed decisions, tuned for up to 64 nodes), whose broadcast is the
 * paper's hole at 11520 ints. SimGrid has those of 4.1, which remain for allgatherv. The algorithms
 * are SimGrid's.
 * - Scan and exscan: a linear chain, as in Open MPI; else MPICH's recursive doubling. SimGrid sends
 * all vectors to all.
 * - Alltoall by Bruck: SimGrid's moves each block by a message of a rank to itself, which at a
 * thousand ranks takes the simulation minutes.
 * - Set-up of a communicator (Comm::init_smp, by the rules of MPICH, MVAPICH2 and Intel): SimGrid's
 * sends a rank's number around a ring of all ranks, p^2 messages.
 * - An operator takes the time of its bytes: SMPI's cost nothing. SMPI_OP_NS: ns of a byte.
 */
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <vector>

#include <smpi/smpi.h>

#define VECTOR_OP const void *in, void *out, int n, MPI_Datatype type, MPI_Op op
#define BLOCKS                                                                                     \
    const void *in, int sent, MPI_Datatype sendtype, void *out, int got, MPI_Datatype recvtype
#define IRREGULAR                                                                                  \
    const void *in, const int *counts, const int *places, MPI_Datatype sendtype, void *out,        \
        const int *got_counts, const int *got_places, MPI_Datatype recvtype
#define BLOCK_ARGS in, sent, sendtype, out, got, recvtype

namespace simgrid::smpi {

class Op {
  public:
    void apply(const void *in, void *inout, const int *len, MPI_Datatype type) const;
};

class Request {
  public:
    static int recv(void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Status *);
    static void send(const void *, int, MPI_Datatype, int, int, MPI_Comm);
    static Request *irecv(void *, int, MPI_Datatype, int, int, MPI_Comm);
    static Request *isend(const void *, int, MPI_Datatype, int, int, MPI_Comm);
    static int wait(Request **, MPI_Status *);
    static void sendrecv(const void *, int, MPI_Datatype, int, int, void *, int, MPI_Datatype, int,
                         int, MPI_Comm, MPI_Status *);
};

namespace colls {
int scan(VECTOR_OP, MPI_Comm comm);
int exscan(VECTOR_OP, MPI_Comm comm);
} // namespace colls

using Bcast = int(void *, int, MPI_Datatype, int, MPI_Comm);
using Reduction = int(VECTOR_OP, MPI_Comm);
using Reduce = int(VECTOR_OP, int, MPI_Comm);
using ReduceScatter = int(const void *, void *, const int *, MPI_Datatype, MPI_Op, MPI_Comm);
using Exchange = int(BLOCKS, MPI_Comm);
using Irregular = int(IRREGULAR, MPI_Comm);
using Rooted = int(BLOCKS, int, MPI_Comm);
Bcast bcast__binomial_tree, bcast__ompi_split_bintree;
Reduction allreduce__rdb, allreduce__lr, allreduce__ompi_ring_segmented, allreduce__redbcast;
Reduce reduce__ompi_basic_linear, reduce__ompi_in_order_binary, reduce__ompi_binomial,
    reduce__ompi_pipeline, reduce__ompi_binary;
ReduceScatter reduce_scatter__default, reduce_scatter__ompi_basic_recursivehalving,
    reduce_scatter__ompi_ring;
Exchange alltoall__bruck, alltoall__pair, alltoall__basic_linear, alltoall__ring;
Irregular alltoallv__ring;
Exchange allgather__pair, allgather__rdb, allgather__bruck, allgather__ring,
    allgather__ompi_neighborexchange;
Rooted gather__ompi_linear_sync, gather__ompi_binomial, gather__ompi_basic_linear;
Rooted scatter__ompi_binomial, scatter__ompi_basic_linear;

namespace {

int size_of(MPI_Comm comm) {
    int size = 0;
    MPI_Comm_size(comm, &size);
    return size;
}

int rank_of(MPI_Comm comm) {
    int rank = 0;
    MPI_Comm_rank(comm, &rank);
    return rank;
}

double bytes_of(MPI_Datatype type, int n) {
    int size = 0;
    MPI_Type_size(type, &size);
    return static_cast<double>(size) * n;
}

bool commutes(MPI_Op op) {
    int commutes = 1;
    MPI_Op_commutative(op, &commutes);
    return commutes != 0;
}

bool is_power_of_two(int n) {
    return (n & (n - 1)) == 0;
}

/* n elements, at the address that MPI takes for them. */
class Temporary {
    std::vector<char> memory;
    MPI_Aint low = 0;

  public:
    Temporary(MPI_Datatype type, int n) {
        MPI_Aint extent = 0;
        MPI_Aint span = 0;
        MPI_Aint begin = 0;
        MPI_Type_get_extent(type, &begin, &extent);
        MPI_Type_get_true_extent(type, &low, &span);
        memory.resize(static_cast<size_t>(std::max<MPI_Aint>(n - 1, 0) * std::abs(extent) + span));
    }
    void *data() {
        return memory.data() - low;
    }
};

void copy(const void *from, void *to, MPI_Datatype type, int n) {
    MPI_Aint low = 0;
    MPI_Aint span = 0;
    MPI_Aint begin = 0;
    MPI_Aint extent = 0;
    MPI_Type_get_extent(type, &begin, &extent);
    MPI_Type_get_true_extent(type, &low, &span);
    for (int i = 0; i < n; i++) {
        memcpy(static_cast<char *>(to) + low + i * extent,
               static_cast<const char *>(from) + low + i * extent, static_cast<size_t>(span));
    }
}

const int tag = -888;

/* Each rank receives the prefix of the rank before, and sends its own to the next. */
int chain(VECTOR_OP, MPI_Comm comm, bool inclusive) {
    const int rank = rank_of(comm);
    Temporary before(type, n);
    Temporary sum(type, n);

    copy(in, sum.data(), type, n);
    if (rank > 0) {
        Request::recv(before.data(), n, type, rank - 1, tag, comm, MPI_STATUS_IGNORE);
        op->apply(before.data(), sum.data(), &n, type);
    }
    if (rank + 1 < size_of(comm)) {
        Request::send(sum.data(), n, type, rank + 1, tag, comm);
    }
    if (inclusive || rank > 0) {
        copy(inclusive ? sum.data() : before.data(), out, type, n);
    }
    return MPI_SUCCESS;
}

/* After step s, `sum` has the contributions of the 2^s ranks that agree with this one but in the
 * last s digits. */
int doubling(VECTOR_OP, MPI_Comm comm, bool inclusive) {
    const int rank = rank_of(comm);
    Temporary sum(type, n);
    Temporary come(type, n);
    bool has_prefix = inclusive;

    copy(in, sum.data(), type, n);
    if (inclusive) {
        copy(in, out, type, n);
    }
    for (int far = 1; far < size_of(comm); far *= 2) {
        const int other = rank ^ far;
        if (other >= size_of(comm)) {
            continue;
        }
        Request::sendrecv(sum.data(), n, type, other, tag, come.data(), n, type, other, tag, comm,
                          MPI_STATUS_IGNORE);
        if (other < rank) {
            if (has_prefix) {
                op->apply(come.data(), out, &n, type);
            } else {
                copy(come.data(), out, type, n);
            }
            has_prefix = true;
            op->apply(come.data(), sum.data(), &n, type);
        } else {
            op->apply(sum.data(), come.data(), &n, type);
            copy(come.data(), sum.data(), type, n);
        }
    }
    return MPI_SUCCESS;
}

int prefix(VECTOR_OP, MPI_Comm comm, bool inclusive) {
    const char *rules = std::getenv("SMPI_RULES");
    const bool is_chain = rules != nullptr && strcmp(rules, "ompi") == 0;
    return (is_chain ? chain : doubling)(in, out, n, type, op, comm, inclusive);
}

} // namespace

int colls::scan(VECTOR_OP, MPI_Comm comm) {
    return prefix(in, out, n, type, op, comm, true);
}

int colls::exscan(VECTOR_OP, MPI_Comm comm) {
    return prefix(in, out, n, type, op, comm, false);
}

void Op::apply(const void *in, void *inout, const int *len, MPI_Datatype type) const {
    using Apply = void (*)(const Op *, const void *, void *, const int *, MPI_Datatype);
    static const Apply original = reinterpret_cast<Apply>(
        dlsym(RTLD_NEXT, "_ZNK7simgrid4smpi2Op5applyEPKvPvPKiPNS0_8DatatypeE"));
    static const char *const text = std::getenv("SMPI_OP_NS");
    static const double ns_of_byte = text == nullptr ? 0 : std::atof(text);
    const double flops = ns_of_byte * bytes_of(type, *len); /* at 1 Gflop/s */

    original(this, in, inout, len, type);
    if (flops >= 1) {
        smpi_execute_flops(flops);
    }
}

namespace {

/* A chain of ranks, as SimGrid's, which has no segments below 16 KiB. */
int pipeline(void *data, int n, MPI_Datatype type, int root, MPI_Comm comm, double segment_bytes) {
    const int size = size_of(comm);
    const int place = (rank_of(comm) - root + size) % size;
    const int before = (place - 1 + root + size) % size;
    const int after = (place + 1 + root) % size;
    const int most = std::max(1, static_cast<int>(segment_bytes / bytes_of(type, 1)));
    MPI_Aint begin = 0;
    MPI_Aint extent = 0;
    MPI_Type_get_extent(type, &begin, &extent);
    auto part = [&](int first) { return static_cast<char *>(data) + first * extent; };
    auto count = [&](int first) { return std::min(most, n - first); };
    Request *coming = nullptr;
    Request *going = nullptr;

    for (int first = 0; first < n; first += most) {
        if (place > 0) {
            if (first == 0) {
                coming = Request::irecv(part(0), count(0), type, before, tag, comm);
            }
            Request::wait(&coming, MPI_STATUS_IGNORE);
            if (first + most < n) {
                coming = Request::irecv(part(first + most), count(first + most), type, before, tag,
                                        comm);
            }
        }
        if (place + 1 < size) {
            if (going != nullptr) {
                Request::wait(&going, MPI_STATUS_IGNORE);
            }
            going = Request::isend(part(first), count(first), type, after, tag, comm);
        }
    }
    if (going != nullptr) {
        Request::wait(&going, MPI_STATUS_IGNORE);
    }
    return MPI_SUCCESS;
}

} // namespace

/* The decisions of Open MPI 4.0.2 (ompi/mca/coll/tuned/coll_tuned_decision_fixed.c). */

int allreduce__ompi(VECTOR_OP, MPI_Comm comm) {
    const double bytes = bytes_of(type, n);
    if (bytes < 10000) {
        return allreduce__rdb(in, out, n, type, op, comm);
    }
    if (!commutes(op) || n <= size_of(comm)) {
        return allreduce__redbcast(in, out, n, type, op, comm);
    }
    return (size_of(comm) * 1048576.0 >= bytes ? allreduce__lr : allreduce__ompi_ring_segmented)(
        in, out, n, type, op, comm);
}

int bcast__ompi(void *data, int n, MPI_Datatype type, int root, MPI_Comm comm) {
    const double bytes = bytes_of(type, n);
    const int size = size_of(comm);
    if (bytes < 2048 || n <= 1) {
        return bcast__binomial_tree(data, n, type, root, comm);
    }
    if (bytes < 370728 || (size < 13 && size >= 1.6134e-6 * bytes + 2.1102)) {
        return bcast__ompi_split_bintree(data, n, type, root, comm);
    }
    const int kib = size < 1.6134e-6 * bytes + 2.1102   ? 128
                    : size < 2.3679e-6 * bytes + 1.1787 ? 64
                    : size < 3.2118e-6 * bytes + 8.7936 ? 16
                                                        : 8;
    return pipeline(data, n, type, root, comm, kib * 1024.0);
}

int reduce__ompi(VECTOR_OP, int root, MPI_Comm comm) {
    const double bytes = bytes_of(type, n);
    const int size = size_of(comm);
    if (n == 0) {
        return MPI_SUCCESS; // SimGrid divides by it
    }
    if (!commutes(op)) {
        return (size < 12 && bytes < 2048
                    ? reduce__ompi_basic_linear
                    : reduce__ompi_in_order_binary)(in, out, n, type, op, root, comm);
    }
    if (size < 8 && bytes < 512) {
        return reduce__ompi_basic_linear(in, out, n, type, op, root, comm);
    }
    if ((size < 8 && bytes < 20480) || bytes < 2048 || n <= 1 ||
        size > 0.6016 / 1024 * bytes + 1.3496) {
        return reduce__ompi_binomial(in, out, n, type, op, root, comm);
    }
    const bool is_binary =
        size <= 0.0410 / 1024 * bytes + 9.7128 && size > 0.0422 / 1024 * bytes + 1.1614;
    return (is_binary ? reduce__ompi_binary : reduce__ompi_pipeline)(in, out, n, type, op, root,
                                                                     comm);
}

int reduce_scatter__ompi(const void *in, void *out, const int *counts, MPI_Datatype type, MPI_Op op,
                         MPI_Comm comm) {
    const int size = size_of(comm);
    double bytes = 0;
    for (int i = 0; i < size; i++) {
        bytes += bytes_of(type, counts[i]);
    }
    if (!commutes(op) || std::count(counts, counts + size, 0) > 0) {
        return reduce_scatter__default(in, out, counts, type, op, comm);
    }
    const bool halves = bytes <= 12 * 1024 || (bytes <= 256 * 1024 && is_power_of_two(size)) ||
                        size >= 0.0012 * bytes + 8;
    return (halves ? reduce_scatter__ompi_basic_recursivehalving
                   : reduce_scatter__ompi_ring)(in, out, counts, type, op, comm);
}

int alltoall__bruck(BLOCKS, MPI_Comm comm) {
    const int size = size_of(comm);
    const int rank = rank_of(comm);
    const auto block = static_cast<size_t>(bytes_of(recvtype, got));
    std::vector<char> blocks(block * static_cast<size_t>(size));
    const int all = static_cast<int>(blocks.size());
    std::vector<char> going;
    std::vector<char> coming;
    auto at = [&](int number) { return blocks.begin() + static_cast<long>(block) * number; };
    int position = 0;

    MPI_Pack(in, sent * size, sendtype, blocks.data(), all, &position, comm);
    std::rotate(at(0), at(rank), blocks.end()); /* block i: to rank + i */
    for (int far = 1; far < size; far *= 2) {
        going.clear();
        for (int i = far; i < size; i++) {
            if ((i & far) != 0) {
                going.insert(going.end(), at(i), at(i + 1));
            }
        }
        coming.resize(going.size());
        const int bytes = static_cast<int>(going.size());
        Request::sendrecv(going.data(), bytes, MPI_BYTE, (rank + far) % size, tag, coming.data(),
                          bytes, MPI_BYTE, (rank - far + size) % size, tag, comm,
                          MPI_STATUS_IGNORE);
        auto next = coming.cbegin();
        for (int i = far; i < size; i++) {
            if ((i & far) != 0) {
                std::copy_n(next, block, at(i));
                next += static_cast<long>(block);
            }
        }
    }
    std::vector<char> result(blocks.size()); /* block i came from rank - i */
    for (int i = 0; i < size; i++) {
        const int from = (rank - i + size) % size;
        std::copy_n(at(i), block, result.begin() + static_cast<long>(block) * from);
    }
    position = 0;
    MPI_Unpack(result.data(), all, &position, out, got * size, recvtype, comm);
    return MPI_SUCCESS;
}

static Exchange *of_simgrid(const char *symbol) {
    return reinterpret_cast<Exchange *>(dlsym(RTLD_NEXT, symbol));
}

/* Of more than two and fewer than 20480 ranks, only Comm::init_smp sends so few bytes so. */
int allgather__ring(BLOCKS, MPI_Comm comm) {
    static auto *const original =
        of_simgrid("_ZN7simgrid4smpi15allgather__ringEPKviPNS0_8DatatypeEPviS4_PNS0_4CommE");
    const bool is_setup = bytes_of(recvtype, got) <= sizeof(int);
    return (is_setup ? allgather__bruck : original)(BLOCK_ARGS, comm);
}

/* SimGrid's rules for MPICH take it for an odd number of ranks, which it refuses. MPICH takes a
 * ring. */
int alltoall__pair(BLOCKS, MPI_Comm comm) {
    static auto *const original =
        of_simgrid("_ZN7simgrid4smpi14alltoall__pairEPKviPNS0_8DatatypeEPviS4_PNS0_4CommE");
    return (is_power_of_two(size_of(comm)) ? original : alltoall__ring)(BLOCK_ARGS, comm);
}

int alltoall__ompi(BLOCKS, MPI_Comm comm) {
    const double block = bytes_of(recvtype, got);
    const bool is_bruck = block < 200 && size_of(comm) > 12;
    return (is_bruck       ? alltoall__bruck
            : block < 3000 ? alltoall__basic_linear
                           : alltoall__ring)(BLOCK_ARGS, comm);
}

/* Pairwise, too, but of 2^k ranks SimGrid pairs rank r with r xor step. */
int alltoallv__ompi(IRREGULAR, MPI_Comm comm) {
    return alltoallv__ring(in, counts, places, sendtype, out, got_counts, got_places, recvtype,
                           comm);
}

int allgather__ompi(BLOCKS, MPI_Comm comm) {
    const int size = size_of(comm);
    if (size == 2) {
        return allgather__pair(BLOCK_ARGS, comm);
    }
    if (bytes_of(recvtype, got) * size < 50000) {
        return (is_power_of_two(size) ? allgather__rdb : allgather__bruck)(BLOCK_ARGS, comm);
    }
    return (size % 2 != 0 ? allgather__ring : allgather__ompi_neighborexchange)(BLOCK_ARGS, comm);
}

int gather__ompi(BLOCKS, int root, MPI_Comm comm) {
    const double block = rank_of(comm) == root ? bytes_of(recvtype, got) : bytes_of(sendtype, sent);
    const int size = size_of(comm);
    if (block > 6000) {
        return gather__ompi_linear_sync(BLOCK_ARGS, root, comm);
    }
    const bool is_tree = size > 60 || (size > 10 && block < 1024);
    return (is_tree ? gather__ompi_binomial : gather__ompi_basic_linear)(BLOCK_ARGS, root, comm);
}

int scatter__ompi(BLOCKS, int root, MPI_Comm comm) {
    const bool is_root = rank_of(comm) == root;
    const double block = is_root ? bytes_of(sendtype, sent) : bytes_of(recvtype, got);
    if (size_of(comm) <= 10 || block >= 300) {
        return scatter__ompi_basic_linear(BLOCK_ARGS, root, comm);
    }
    if (is_root) {
        return scatter__ompi_binomial(BLOCK_ARGS, root, comm);
    }
    /* SimGrid's takes the send arguments of every rank for the size of a block. */
    Temporary unread(recvtype, got);
    return scatter__ompi_binomial(unread.data(), got, recvtype, out, got, recvtype, root, comm);
}

} // namespace simgrid::smpi
