! What the program checks with: counters, and the functions that it hands to MPI.
#include "interface.h"

module checks
    use iso_c_binding
    USE_MPI
    implicit none
    INCLUDE_MPI
    integer, parameter :: most = 64
    character(len=24) :: names(most)
    integer :: counts(most) = 0, known = 0, failures = 0, errors = 0, rank, ranks, ierr
    DATATYPE :: pair

contains

    ! The call that follows is one of this collective's.
    subroutine counted(name)
        character(len=*), intent(in) :: name
        integer :: i
        do i = 1, known
            if (names(i) == name) exit
        end do
        if (i > known) known = i
        names(i) = name
        counts(i) = counts(i) + 1
    end subroutine

    subroutine expect(what, holds)
        character(len=*), intent(in) :: what
        logical, intent(in) :: holds
        if (holds) return
        failures = failures + 1
        print '(a,i0,2a)', 'rank ', rank, ': wrong: ', what
    end subroutine

    ! Maps x -> a x + b one after the other: associative, but the order matters.
    subroutine compose(first, second, n)
        integer, intent(in) :: n, first(2, n)
        integer, intent(inout) :: second(2, n)
        second(2, :) = second(1, :) * first(2, :) + second(2, :)
        second(1, :) = second(1, :) * first(1, :)
    end subroutine

#if INTERFACE == 3
    subroutine combine(first, second, n, type)
        type(c_ptr), value :: first, second
        integer :: n
        DATATYPE :: type
        integer, pointer :: a(:, :), b(:, :)
        call c_f_pointer(first, a, [2, n])
        call c_f_pointer(second, b, [2, n])
        call expect('the type that a user function sees', type == pair)
        call compose(a, b, n)
    end subroutine
#else
    subroutine combine(first, second, n, type)
        integer :: n, first(2, n), second(2, n), type
        call expect('the type that a user function sees', type == pair)
        call compose(first, second, n)
    end subroutine
#endif

    subroutine on_error(comm, code)
        COMMUNICATOR :: comm
        integer :: code
        if (code /= MPI_SUCCESS) errors = errors + 1
    end subroutine

end module
