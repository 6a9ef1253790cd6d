! A field in columns, a part on each rank, whose borders go to the neighbours.
program halo
  use mpi
  implicit none
  integer, parameter :: n = 200, steps = 20
  real(8) :: field(n, 0:n+1), next(n, n), own, all
  integer :: rank, ranks, left, right, step, j, status(MPI_STATUS_SIZE), error
  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  left = merge(rank - 1, MPI_PROC_NULL, rank > 0)
  right = merge(rank + 1, MPI_PROC_NULL, rank + 1 < ranks)
  field = rank + 1
  do step = 1, steps
     call MPI_Sendrecv(field(1, n), n, MPI_REAL8, right, 1, field(1, 0), n, MPI_REAL8, left, 1, &
          MPI_COMM_WORLD, status, error)
     call MPI_Sendrecv(field(1, 1), n, MPI_REAL8, left, 2, field(1, n + 1), n, MPI_REAL8, right, 2, &
          MPI_COMM_WORLD, status, error)
     do j = 1, n
        next(:, j) = 0.25d0 * field(:, j - 1) + 0.5d0 * field(:, j) + 0.25d0 * field(:, j + 1)
     end do
     field(:, 1:n) = next
  end do
  own = sum(field(:, 1:n))
  call MPI_Reduce(own, all, 1, MPI_REAL8, MPI_SUM, 0, MPI_COMM_WORLD, error)
  if (rank == 0) print '(a, es24.16)', 'sum ', all
  call MPI_Finalize(error)
end program
