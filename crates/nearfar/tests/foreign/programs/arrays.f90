! Two arrays that one line allocates: `a` is initialised in parallel, `b` by one thread.
! arrays ELEMENTS ITERATIONS
program arrays
  implicit none
  real(8), allocatable :: a(:), b(:)
  integer :: i, turn, n, turns
  character(20) :: word
  call get_command_argument(1, word)
  read (word, *) n
  call get_command_argument(2, word)
  read (word, *) turns
  allocate(a(n), b(n))
  !$omp parallel do schedule(static)
  do i = 1, n
    a(i) = i
  end do
  do i = 1, n
    b(i) = i ! placed
  end do
  do turn = 1, turns
    !$omp parallel do schedule(static)
    do i = 1, n
      b(i) = b(i) * 0.5d0 + a(i) ! used
    end do
  end do
  if (b(7) < 0) stop 1
end program
