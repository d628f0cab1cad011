! Twenty broadcasts; with an argument MPI_COMM_WORLD has the info key collforge=native.
program broadcasts
   implicit none
   include 'mpif.h'
   integer :: ierror, rank, i, info, data(1000), wrong, total
   call MPI_Init(ierror)
   call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
   if (command_argument_count() > 0) then
      call MPI_Info_create(info, ierror)
      call MPI_Info_set(info, 'collforge', 'native', ierror)
      call MPI_Comm_set_info(MPI_COMM_WORLD, info, ierror)
   end if
   wrong = 0
   do i = 1, 20
      data = merge(i, 0, rank == 0)
      call MPI_Bcast(data, 1000, MPI_INTEGER, 0, MPI_COMM_WORLD, ierror)
      if (any(data /= i)) wrong = wrong + 1
   end do
   call MPI_Reduce(wrong, total, 1, MPI_INTEGER, MPI_SUM, 0, MPI_COMM_WORLD, ierror)
   if (rank == 0 .and. total == 0) write (*, '(a)') 'passed'
   call MPI_Finalize(ierror)
end program broadcasts
