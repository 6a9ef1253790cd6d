! SPDX-License-Identifier: MIT OR Apache-2.0
!
! Phases from Fortran: gfortran -g -O2 ../../include/nearfar.f90 solve.F90 -o solve && nearfar record -- ./solve
program solve
  use nearfar
  implicit none
  integer, parameter :: n = 200000
  real(8) :: x(n), residual
  character(16) :: name
  integer :: step, i

  call nearfar_phase_begin('initialise', __FILE__, __LINE__)
  do i = 1, n
    x(i) = 1.0d0 / i
  end do
  call nearfar_phase_end('initialise')

  call nearfar_phase_begin('solve', __FILE__, __LINE__)
  do step = 1, 4
    write (name, '("step ", i0)') step
    call nearfar_phase_begin(name, __FILE__, __LINE__)
    residual = 0
    do i = 2, n - 1
      x(i) = (x(i - 1) + x(i + 1)) / 2
      residual = residual + abs(x(i))
    end do
    call nearfar_metric('residual', residual)
    call nearfar_phase_end(name)
  end do
  call nearfar_phase_end('solve')
  print '(a, l1)', 'verify: ok ', residual > 0
end program
