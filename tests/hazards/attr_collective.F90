! attr_collective.c through one of Fortran's three interfaces to MPI (../fortran/interface.h): a delete callback makes
! collective calls on the communicator that MPI_COMM_FREE or MPI_COMM_DISCONNECT is freeing.
#include "interface.h"

module callbacks
    USE_MPI
    implicit none
    INCLUDE_MPI
    integer, parameter :: words = 64
    integer :: bad = 0, called = 0, ierr
    COMMUNICATOR :: freed

contains

    subroutine sum_up(comm)
        COMMUNICATOR, intent(in) :: comm
        integer :: ranks, one(words), total(words)
        call MPI_Comm_size(comm, ranks, ierr)
        one = 1
        call MPI_Allreduce(one, total, words, MPI_INTEGER, MPI_SUM, comm, ierr)
        bad = bad + count(total /= ranks)
    end subroutine

    ! Open MPI 4.1.4 always names MPI_COMM_WORLD here.
    subroutine on_delete(comm, key, value, extra, error)
        COMMUNICATOR :: comm
        integer :: key, error
        integer(MPI_ADDRESS_KIND) :: value, extra
        called = called + 1
        call sum_up(freed)
        call MPI_Barrier(freed, error)
    end subroutine
end module

program attr_collective
    use callbacks
    implicit none
    integer, parameter :: rounds = 120
    integer(MPI_ADDRESS_KIND), parameter :: nothing = 0
    integer :: rank, key, i, all_bad
    COMMUNICATOR :: comm

    call MPI_Init(ierr)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
    call MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_delete, key, nothing, ierr)
    do i = 1, rounds
        if (mod(i, 3) == 0) then
            call MPI_Comm_split(MPI_COMM_WORLD, merge(1, 0, rank < 3), rank, comm, ierr)
        else if (mod(i, 3) == 1) then
            call MPI_Comm_dup(MPI_COMM_WORLD, comm, ierr)
        else
            call MPI_Comm_split(MPI_COMM_WORLD, mod(rank, 2), -rank, comm, ierr)
        end if
        ! Attributes are deleted in any order: on either side of the library's own.
        if (mod(i, 2) == 0) call MPI_Comm_set_attr(comm, key, nothing, ierr)
        ! Later the callback's call is the first on the communicator.
        if (i <= rounds / 2) call sum_up(comm)
        if (mod(i, 2) == 1) call MPI_Comm_set_attr(comm, key, nothing, ierr)
        freed = comm
        if (mod(i, 4) < 2) then
            call MPI_Comm_free(comm, ierr)
        else
            call MPI_Comm_disconnect(comm, ierr)
        end if
        if (comm /= MPI_COMM_NULL) bad = bad + 1
    end do
    if (called /= rounds) bad = bad + 1
    call MPI_Allreduce(bad, all_bad, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
    if (rank == 0) print '(a)', merge('passed', 'FAILED', all_bad == 0)
    call MPI_Finalize(ierr)
end program
