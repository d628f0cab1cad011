! Run by tests/test_hybrid_calls.py: the generated module collforge_hybrid.
program hybrid_program
  use mpi
  use, intrinsic :: iso_c_binding
  use collforge_hybrid
  implicit none
  type(c_ptr) :: hybrid, address, request
  integer(c_int) :: ierror, node_comm, bridge_comm, nodes, node, node_size, node_rank
  integer :: rank, ranks, error, members
  double precision, pointer :: all(:)
  double precision, target :: own(2)

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  call collforge_hybrid_create(MPI_COMM_WORLD, hybrid, ierror)
  call expect(ierror == MPI_SUCCESS, 1)
  call collforge_hybrid_get(hybrid, node_comm, bridge_comm, nodes, node, node_size, node_rank)
  call MPI_Comm_size(node_comm, members, error)
  call expect(members == node_size .and. node_rank < node_size .and. node < nodes, 2)
  call expect((bridge_comm == MPI_COMM_NULL) .eqv. (node_rank > 0), 3)
  call collforge_hybrid_alloc(hybrid, 16_c_intptr_t * ranks, address, ierror)
  call expect(ierror == MPI_SUCCESS, 4)
  call c_f_pointer(address, all, [2 * ranks])
  all(2 * rank + 1) = rank
  all(2 * rank + 2) = -rank
  call collforge_hybrid_allgather(address, 2_c_int, MPI_DOUBLE_PRECISION, hybrid, ierror)
  call expect(ierror == MPI_SUCCESS .and. all(2 * ranks - 1) == ranks - 1 .and. all(2 * ranks) == 1 - ranks, 5)
  own = [1d0, 2d0]
  call collforge_hybrid_allreduce_init &
      (c_loc(own), address, 2_c_int, MPI_DOUBLE_PRECISION, MPI_SUM, hybrid, request, ierror)
  call expect(ierror == MPI_SUCCESS, 6)
  call collforge_hybrid_start(request, ierror)
  call expect(ierror == MPI_SUCCESS .and. all(1) == ranks .and. all(2) == 2 * ranks, 7)
  call collforge_hybrid_request_free(request, ierror)
  call expect(ierror == MPI_SUCCESS .and. .not. c_associated(request), 8)
  call collforge_hybrid_sync(hybrid, ierror)
  if (rank == ranks - 1) all(1:2) = [5d0, 6d0]
  call collforge_hybrid_bcast(address, 2_c_int, MPI_DOUBLE_PRECISION, int(ranks - 1, c_int), hybrid, ierror)
  call expect(ierror == MPI_SUCCESS .and. all(1) == 5 .and. all(2) == 6, 9)
  call collforge_hybrid_release(hybrid, address, ierror)
  call expect(ierror == MPI_SUCCESS, 10)
  call collforge_hybrid_free(hybrid, ierror)
  call expect(ierror == MPI_SUCCESS .and. .not. c_associated(hybrid), 11)
  if (rank == 0) print '(a)', 'passed'
  call MPI_Finalize(error)

contains

  subroutine expect(holds, number)
    logical, intent(in) :: holds
    integer, intent(in) :: number
    integer :: code
    if (.not. holds) then
      print '(a, i0)', 'not so: ', number
      call MPI_Abort(MPI_COMM_WORLD, number, code)
    end if
  end subroutine
end program
