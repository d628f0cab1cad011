! Every collective through one of Fortran's three interfaces to MPI (interface.h). Checks every result; rank 0 prints how often
! it called which collective, and `done` at the end. With LIBRARY it is not a program but a C function, for a program that
! knows nothing of Fortran. An argument asks for MPI_Init_thread. LARGE_COUNTS: the interface has counts of kind
! MPI_COUNT_KIND.
#include "interface.h"

module parts
    use checks
    implicit none
    integer, parameter :: n = 5

contains

    ! Element i of what a rank contributes to block b.
    pure integer function value(source, b, i)
        integer, intent(in) :: source, b, i
        value = 10000 * (source + 1) + 100 * b + i
    end function

    pure function block(source, b, length) result(values)
        integer, intent(in) :: source, b, length
        integer :: values(length), i
        values = [(value(source, b, i), i=1, length)]
    end function

    pure function blocks_to(source) result(values)
        integer, intent(in) :: source
        integer :: values(n * ranks), b
        values = [(block(source, b, n), b=0, ranks - 1)]
    end function

    pure function blocks_from(target) result(values)
        integer, intent(in) :: target
        integer :: values(n * ranks), s
        values = [(block(s, target, n), s=0, ranks - 1)]
    end function

    ! Element by element over the ranks from first to last.
    pure function total(first, last, b, length) result(values)
        integer, intent(in) :: first, last, b, length
        integer :: values(length), s
        values = 0
        do s = first, last
            values = values + block(s, b, length)
        end do
    end function

    subroutine broadcasts(comm)
        COMMUNICATOR, intent(in) :: comm
        integer :: vector(n), matrix(3, n), shorter(2)
        character(len=7) :: word
        integer(MPI_ADDRESS_KIND) :: address(1)
        integer, target :: hidden(n)
        DATATYPE :: absolute, strided

        vector = merge(block(1, 0, n), 0, rank == 1)
        call counted('bcast')
        call MPI_Bcast(vector, n, MPI_INTEGER, 1, comm IERR)
        call expect('bcast', all(vector == block(1, 0, n)))

#ifdef LARGE_COUNTS
        vector = merge(block(2, 0, n), 0, rank == 2)
        call counted('bcast')
        call MPI_Bcast(vector, int(n, MPI_COUNT_KIND), MPI_INTEGER, 2, comm IERR)
        call expect('bcast of a large count', all(vector == block(2, 0, n)))
#endif

        matrix = merge(7, 0, rank == 0)
        call counted('bcast')
        call MPI_Bcast(matrix(2, :), n, MPI_INTEGER, 0, comm IERR)
        call expect('bcast of a section', all(matrix(2, :) == 7) .and. all(matrix(1::2, :) == merge(7, 0, rank == 0)))

        word = merge('aloha !', '       ', rank == 2)
        call counted('bcast')
        call MPI_Bcast(word, len(word), MPI_CHARACTER, 2, comm IERR)
        call expect('bcast of characters', word == 'aloha !')

        hidden = merge(block(3, 0, n), 0, rank == 3)
        call MPI_Get_address(hidden, address(1) IERR)
        call MPI_Type_create_hindexed(1, [n], address, MPI_INTEGER, absolute IERR)
        call MPI_Type_commit(absolute IERR)
        call counted('bcast')
        call MPI_Bcast(MPI_BOTTOM, 1, absolute, 3, comm IERR)
        call touch(hidden)
        call expect('bcast from MPI_BOTTOM', all(hidden == block(3, 0, n)))
        call MPI_Type_free(absolute IERR)

        ! One signature, two types.
        call MPI_Type_vector(2, 1, 3, MPI_INTEGER, strided IERR)
        call MPI_Type_commit(strided IERR)
        vector = 1
        shorter = [8, 9]
        call counted('bcast')
        if (rank == 0) then
            call MPI_Bcast(shorter, 2, MPI_INTEGER, 0, comm IERR)
        else
            call MPI_Bcast(vector, 1, strided, 0, comm IERR)
            call expect('bcast into a vector', all(vector == [8, 1, 1, 9, 1]))
        end if
        call MPI_Type_free(strided IERR)

        call counted('barrier')
        call MPI_Barrier(comm IERR)
    end subroutine

    ! Keeps the compiler from remembering what memory held before a call that it was not handed to.
    subroutine touch(memory)
        integer, intent(inout) :: memory(n)
        if (ranks < 0) memory = 0
    end subroutine

    subroutine gathers(comm)
        COMMUNICATOR, intent(in) :: comm
        integer :: everything(n * ranks), own(n), lengths(ranks), begins(ranks), r

        own = block(rank, 0, n)
        everything = 0
        call counted('gather')
        call MPI_Gather(own, n, MPI_INTEGER, everything, n, MPI_INTEGER, 2, comm IERR)
        if (rank == 2) call expect('gather', all(everything == blocks_from(0)))

        everything = 0
        everything(1:n) = own
        call counted('gather')
        if (rank == 0) then
            call MPI_Gather(MPI_IN_PLACE, 0, MPI_INTEGER, everything, n, MPI_INTEGER, 0, comm IERR)
            call expect('gather in place', all(everything == blocks_from(0)))
        else
            call MPI_Gather(own, n, MPI_INTEGER, everything, -1, MPI_DATATYPE_NULL, 0, comm IERR)
        end if

        lengths = [(mod(r, n), r=1, ranks)]
        begins = [((r - 1) * n, r=1, ranks)]
        everything = -1
        call counted('gatherv')
        call MPI_Gatherv(own, lengths(rank + 1), MPI_INTEGER, everything, lengths, begins, MPI_INTEGER, 1, comm IERR)
        if (rank == 1) call expect('gatherv', all(everything == spread_out(lengths)))

        everything = -1
        everything(1:lengths(1)) = own(1:lengths(1))
        call counted('gatherv')
        if (rank == 0) then
            call MPI_Gatherv(MPI_IN_PLACE, 0, MPI_INTEGER, everything, lengths, begins, MPI_INTEGER, 0, comm IERR)
            call expect('gatherv in place', all(everything == spread_out(lengths)))
        else
            call MPI_Gatherv(own, lengths(rank + 1), MPI_INTEGER, everything, lengths, begins, MPI_INTEGER, 0, comm IERR)
        end if
    end subroutine

    subroutine allgathers(comm)
        COMMUNICATOR, intent(in) :: comm
        integer :: everything(n * ranks), own(n), lengths(ranks), begins(ranks), r

        own = block(rank, 0, n)
        lengths = [(mod(r, n), r=1, ranks)]
        begins = [((r - 1) * n, r=1, ranks)]
        everything = 0
        call counted('allgather')
        call MPI_Allgather(own, n, MPI_INTEGER, everything, n, MPI_INTEGER, comm IERR)
        call expect('allgather', all(everything == blocks_from(0)))

        everything = 0
        everything(rank * n + 1:rank * n + n) = own
        call counted('allgather')
        call MPI_Allgather(MPI_IN_PLACE, 0, MPI_INTEGER, everything, n, MPI_INTEGER, comm IERR)
        call expect('allgather in place', all(everything == blocks_from(0)))

        everything = -1
        call counted('allgatherv')
        call MPI_Allgatherv(own, lengths(rank + 1), MPI_INTEGER, everything, lengths, begins, MPI_INTEGER, comm IERR)
        call expect('allgatherv', all(everything == spread_out(lengths)))

        everything = -1
        everything(rank * n + 1:rank * n + lengths(rank + 1)) = own(1:lengths(rank + 1))
        call counted('allgatherv')
        call MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_INTEGER, everything, lengths, begins, MPI_INTEGER, comm IERR)
        call expect('allgatherv in place', all(everything == spread_out(lengths)))
    end subroutine

    ! The first elements of each rank's block, n apart.
    pure function spread_out(lengths) result(values)
        integer, intent(in) :: lengths(ranks)
        integer :: values(n * ranks), s
        values = -1
        do s = 0, ranks - 1
            values(s * n + 1:s * n + lengths(s + 1)) = block(s, 0, lengths(s + 1))
        end do
    end function

    subroutine scatters(comm)
        COMMUNICATOR, intent(in) :: comm
        integer :: everything(n * ranks), own(n), lengths(ranks), begins(ranks), r, mine

        everything = blocks_to(rank)
        own = 0
        call counted('scatter')
        call MPI_Scatter(everything, n, MPI_INTEGER, own, n, MPI_INTEGER, 1, comm IERR)
        call expect('scatter', all(own == block(1, rank, n)))

        own = 0
        call counted('scatter')
        if (rank == 3) then
            call MPI_Scatter(everything, n, MPI_INTEGER, MPI_IN_PLACE, 0, MPI_INTEGER, 3, comm IERR)
        else
            call MPI_Scatter(everything, -1, MPI_DATATYPE_NULL, own, n, MPI_INTEGER, 3, comm IERR)
            call expect('scatter in place', all(own == block(3, rank, n)))
        end if

        lengths = [(mod(r, n), r=1, ranks)]
        begins = [((r - 1) * n, r=1, ranks)]
        mine = lengths(rank + 1)
        own = 0
        call counted('scatterv')
        call MPI_Scatterv(everything, lengths, begins, MPI_INTEGER, own, mine, MPI_INTEGER, 2, comm IERR)
        call expect('scatterv', all(own(1:mine) == block(2, rank, mine)) .and. all(own(mine + 1:) == 0))

        own = 0
        call counted('scatterv')
        if (rank == 0) then
            call MPI_Scatterv(everything, lengths, begins, MPI_INTEGER, MPI_IN_PLACE, 0, MPI_INTEGER, 0, comm IERR)
        else
            call MPI_Scatterv(everything, lengths, begins, MPI_INTEGER, own, mine, MPI_INTEGER, 0, comm IERR)
            call expect('scatterv in place', all(own(1:mine) == block(0, rank, mine)) .and. all(own(mine + 1:) == 0))
        end if
    end subroutine

    subroutine exchanges(comm)
        COMMUNICATOR, intent(in) :: comm
        integer :: departing(n * ranks), arriving(n * ranks), lengths(ranks), begins(ranks), expected(n * ranks), r

        departing = blocks_to(rank)
        arriving = 0
        call counted('alltoall')
        call MPI_Alltoall(departing, n, MPI_INTEGER, arriving, n, MPI_INTEGER, comm IERR)
        call expect('alltoall', all(arriving == blocks_from(rank)))

        arriving = departing
        call counted('alltoall')
        call MPI_Alltoall(MPI_IN_PLACE, 0, MPI_INTEGER, arriving, n, MPI_INTEGER, comm IERR)
        call expect('alltoall in place', all(arriving == blocks_from(rank)))

        lengths = [(mod(r + rank, n), r=0, ranks - 1)]
        begins = [((r - 1) * n, r=1, ranks)]
        expected = -1
        do r = 0, ranks - 1
            expected(r * n + 1:r * n + lengths(r + 1)) = block(r, rank, lengths(r + 1))
        end do
        arriving = -1
        call counted('alltoallv')
        call MPI_Alltoallv(departing, lengths, begins, MPI_INTEGER, arriving, lengths, begins, MPI_INTEGER, comm IERR)
        call expect('alltoallv', all(arriving == expected))

        arriving = merge(departing, -1, expected /= -1)
        call counted('alltoallv')
        call MPI_Alltoallv(MPI_IN_PLACE, lengths, begins, MPI_INTEGER, arriving, lengths, begins, MPI_INTEGER, comm IERR)
        call expect('alltoallv in place', all(arriving == expected))
    end subroutine

    subroutine reductions(comm)
        COMMUNICATOR, intent(in) :: comm
        integer :: own(n), got(n)

        own = block(rank, 0, n)
        got = 0
        call counted('reduce')
        call MPI_Reduce(own, got, n, MPI_INTEGER, MPI_SUM, 2, comm IERR)
        if (rank == 2) call expect('reduce', all(got == total(0, ranks - 1, 0, n)))

        got = own
        call counted('reduce')
        if (rank == 0) then
            call MPI_Reduce(MPI_IN_PLACE, got, n, MPI_INTEGER, MPI_SUM, 0, comm IERR)
            call expect('reduce in place', all(got == total(0, ranks - 1, 0, n)))
        else
            call MPI_Reduce(own, got, n, MPI_INTEGER, MPI_SUM, 0, comm IERR)
        end if

        call counted('allreduce')
        call MPI_Allreduce(own, got, n, MPI_INTEGER, MPI_MAX, comm IERR)
        call expect('allreduce', all(got == block(ranks - 1, 0, n)))

        got = own
        call counted('allreduce')
        call MPI_Allreduce(MPI_IN_PLACE, got, n, MPI_INTEGER, MPI_SUM, comm IERR)
        call expect('allreduce in place', all(got == total(0, ranks - 1, 0, n)))
    end subroutine

    subroutine reductions_of_blocks(comm)
        COMMUNICATOR, intent(in) :: comm
        integer :: got(n), everything(n * ranks), expected(n * ranks), lengths(ranks), b, mine, begin

        everything = blocks_to(rank)
        got = 0
        call counted('reduce_scatter_block')
        call MPI_Reduce_scatter_block(everything, got, n, MPI_INTEGER, MPI_SUM, comm IERR)
        call expect('reduce_scatter_block', all(got == total(0, ranks - 1, rank, n)))

        call counted('reduce_scatter_block')
        call MPI_Reduce_scatter_block(MPI_IN_PLACE, everything, n, MPI_INTEGER, MPI_SUM, comm IERR)
        call expect('reduce_scatter_block in place', all(everything(1:n) == total(0, ranks - 1, rank, n)))

        lengths = [(b, b=1, ranks)]
        mine = lengths(rank + 1)
        begin = sum(lengths(1:rank))
        expected = [(total(0, ranks - 1, b, n), b=0, ranks - 1)]
        everything = blocks_to(rank)
        got = 0
        call counted('reduce_scatter')
        call MPI_Reduce_scatter(everything, got, lengths, MPI_INTEGER, MPI_SUM, comm IERR)
        call expect('reduce_scatter', all(got(1:mine) == expected(begin + 1:begin + mine)))

        call counted('reduce_scatter')
        call MPI_Reduce_scatter(MPI_IN_PLACE, everything, lengths, MPI_INTEGER, MPI_SUM, comm IERR)
        call expect('reduce_scatter in place', all(everything(1:mine) == expected(begin + 1:begin + mine)))
    end subroutine

    subroutine scans(comm)
        COMMUNICATOR, intent(in) :: comm
        integer :: own(n), got(n)

        own = block(rank, 0, n)
        call counted('scan')
        call MPI_Scan(own, got, n, MPI_INTEGER, MPI_SUM, comm IERR)
        call expect('scan', all(got == total(0, rank, 0, n)))

        got = own
        call counted('scan')
        call MPI_Scan(MPI_IN_PLACE, got, n, MPI_INTEGER, MPI_SUM, comm IERR)
        call expect('scan in place', all(got == total(0, rank, 0, n)))

        call counted('exscan')
        call MPI_Exscan(own, got, n, MPI_INTEGER, MPI_SUM, comm IERR)
        if (rank > 0) call expect('exscan', all(got == total(0, rank - 1, 0, n)))

        got = own
        call counted('exscan')
        call MPI_Exscan(MPI_IN_PLACE, got, n, MPI_INTEGER, MPI_SUM, comm IERR)
        if (rank > 0) call expect('exscan in place', all(got == total(0, rank - 1, 0, n)))
    end subroutine

    ! A function of the program's own, and a type of its own.
    subroutine user_functions(comm)
        COMMUNICATOR, intent(in) :: comm
        OPERATION :: op
        integer :: own(2, n), got(2, n), expected(2, n), map(2, n), r

        call MPI_Type_contiguous(2, MPI_INTEGER, pair IERR)
        call MPI_Type_commit(pair IERR)
        call MPI_Op_create(combine, .false., op IERR)
        expected = map_of(0)
        do r = 1, ranks - 1
            map = map_of(r)
            call compose(expected, map, n)
            expected = map
        end do

        own = map_of(rank)
        call counted('allreduce')
        call MPI_Allreduce(own, got, n, pair, op, comm IERR)
        call expect('allreduce with a user function', all(got == expected))

        call counted('reduce')
        call MPI_Reduce(own, got, n, pair, op, 1, comm IERR)
        if (rank == 1) call expect('reduce with a user function', all(got == expected))
        call MPI_Op_free(op IERR)
        call MPI_Type_free(pair IERR)
    end subroutine

    pure function map_of(source) result(map)
        integer, intent(in) :: source
        integer :: map(2, n), i
        map = reshape([(source + 2, value(source, 0, i), i=1, n)], [2, n])
    end function

    ! An illegal call meets the handler that the program has set, on every rank.
    subroutine error_handlers(comm)
        COMMUNICATOR, intent(in) :: comm
        HANDLER :: handler
        integer :: nothing(1), code

        nothing = 0
        call MPI_Comm_create_errhandler(on_error, handler IERR)
        call MPI_Comm_set_errhandler(comm, handler IERR)
        code = MPI_SUCCESS
        call MPI_Bcast(nothing, -1, MPI_INTEGER, 0, comm, code)
        call expect('an error is returned', code /= MPI_SUCCESS)
        call expect('an error meets the handler', errors == 1)
        call MPI_Errhandler_free(handler IERR)
    end subroutine

end module

#ifdef LIBRARY
subroutine check_collectives() bind(C)
#else
program collectives
#endif
    use parts
    implicit none
    COMMUNICATOR :: comm
    integer :: i, provided

    if (command_argument_count() > 0) then
        call MPI_Init_thread(MPI_THREAD_MULTIPLE, provided IERR)
        call expect('the level of threads', provided == MPI_THREAD_MULTIPLE)
    else
        call MPI_Init(IERR_ALONE)
    end if
    call MPI_Comm_rank(MPI_COMM_WORLD, rank IERR)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks IERR)
    call MPI_Comm_split(MPI_COMM_WORLD, 0, rank, comm IERR)

    call broadcasts(MPI_COMM_WORLD)
    call gathers(comm)
    call allgathers(comm)
    call scatters(MPI_COMM_WORLD)
    call exchanges(comm)
    call reductions(MPI_COMM_WORLD)
    call reductions_of_blocks(MPI_COMM_WORLD)
    call scans(comm)
    call user_functions(comm)
    call error_handlers(comm)

    call MPI_Comm_free(comm IERR)
    if (failures > 0) call MPI_Abort(MPI_COMM_WORLD, 1 IERR)
    do i = 1, known
        if (rank == 0) print '(a,1x,i0)', trim(names(i)), counts(i)
    end do
    if (rank == 0) print '(a)', 'done'
    call MPI_Finalize(IERR_ALONE)
#ifdef LIBRARY
end subroutine
#else
end program
#endif
