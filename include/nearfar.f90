! SPDX-License-Identifier: MIT OR Apache-2.0
!
! nearfar.f90 - phases, metrics, names and the region of interest from Fortran.
!
!     use nearfar
!     call nearfar_phase_begin('solve')
!     call nearfar_metric('residual', r)
!     call nearfar_phase_end('solve')
!
! Compile this file with the program; there is nothing to link. Preprocessed code can give its place, which the report
! then names where calls do not pair: call nearfar_phase_begin('solve', __FILE__, __LINE__).
!
! The functions of nearfar's agent are looked up by dlsym at the first call. (The C library has it since glibc 2.34 and
! in musl; with an older glibc link -ldl.) Without the agent a call is a load and a branch.
module nearfar
  use, intrinsic :: iso_c_binding
  implicit none
  private
  public :: nearfar_begin, nearfar_end, nearfar_phase_begin, nearfar_phase_end, nearfar_metric, nearfar_name
  public :: nearfar_active

  interface
    function dlsym(handle, symbol) bind(c, name='dlsym') result(address)
      import :: c_ptr, c_funptr, c_char
      type(c_ptr), value :: handle
      character(kind=c_char), intent(in) :: symbol(*)
      type(c_funptr) :: address
    end function
  end interface

  abstract interface
    subroutine plain() bind(c)
    end subroutine
    subroutine named_at(name, place) bind(c)
      import :: c_char, c_ptr
      character(kind=c_char), intent(in) :: name(*)
      type(c_ptr), value :: place
    end subroutine
    subroutine valued(name, value) bind(c)
      import :: c_char, c_double
      character(kind=c_char), intent(in) :: name(*)
      real(c_double), value :: value
    end subroutine
    subroutine object(address, bytes, name) bind(c)
      import :: c_char, c_ptr, c_size_t
      type(c_ptr), value :: address
      integer(c_size_t), value :: bytes
      character(kind=c_char), intent(in) :: name(*)
    end subroutine
  end interface

  interface nearfar_metric
    module procedure metric_double, metric_single, metric_integer
  end interface

  ! 0: not looked for yet, 1: there is no agent, 2: there is one. Threads that look at the same time find the same.
  integer, volatile, save :: state = 0
  procedure(plain), pointer, save :: agent_begin => null(), agent_end => null()
  procedure(named_at), pointer, save :: agent_phase_begin => null(), agent_phase_end => null()
  procedure(valued), pointer, save :: agent_metric => null()
  procedure(object), pointer, save :: agent_name => null()

  ! The agent reads so many characters of a name.
  integer, parameter :: longest = 255

contains

  function symbol_of(name) result(address)
    character(*), intent(in) :: name
    type(c_funptr) :: address
    address = dlsym(c_null_ptr, 'nearfar_agent_'//name//c_null_char)
  end function

  subroutine find()
    type(c_funptr) :: at
    integer :: found
    found = 1
    at = symbol_of('phase_begin_at')
    if (c_associated(at)) then
      call c_f_procpointer(at, agent_phase_begin)
      call c_f_procpointer(symbol_of('phase_end_at'), agent_phase_end)
      call c_f_procpointer(symbol_of('begin'), agent_begin)
      call c_f_procpointer(symbol_of('end'), agent_end)
      call c_f_procpointer(symbol_of('metric'), agent_metric)
      call c_f_procpointer(symbol_of('name'), agent_name)
      found = 2
    end if
    state = found
  end subroutine

  ! Whether an agent is there.
  logical function nearfar_active()
    if (state == 0) call find()
    nearfar_active = state == 2
  end function

  ! Without blanks at the end, and with the zero that C wants.
  pure function c_text(text) result(chars)
    character(*), intent(in) :: text
    character(kind=c_char) :: chars(longest + 1)
    integer :: i, n
    n = min(len_trim(text), longest)
    do i = 1, n
      chars(i) = text(i:i)
    end do
    chars(n + 1) = c_null_char
  end function

  subroutine phase_call(agent, name, file, line)
    procedure(named_at), pointer, intent(in) :: agent
    character(*), intent(in) :: name
    character(*), intent(in), optional :: file
    integer, intent(in), optional :: line
    character(kind=c_char), target :: place(longest + 1)
    character(12) :: number
    if (present(file)) then
      number = ''
      if (present(line)) write (number, '(":", i0)') line
      place = c_text(trim(file(index(file, '/', back=.true.) + 1:))//number)
      call agent(c_text(name), c_loc(place))
    else
      call agent(c_text(name), c_null_ptr)
    end if
  end subroutine

  ! A phase begins in this thread; phases nest.
  subroutine nearfar_phase_begin(name, file, line)
    character(*), intent(in) :: name
    character(*), intent(in), optional :: file
    integer, intent(in), optional :: line
    if (state == 1) return
    if (.not. nearfar_active()) return
    call phase_call(agent_phase_begin, name, file, line)
  end subroutine

  subroutine nearfar_phase_end(name, file, line)
    character(*), intent(in) :: name
    character(*), intent(in), optional :: file
    integer, intent(in), optional :: line
    if (state == 1) return
    if (.not. nearfar_active()) return
    call phase_call(agent_phase_end, name, file, line)
  end subroutine

  subroutine metric_double(name, value)
    character(*), intent(in) :: name
    real(c_double), intent(in) :: value
    if (state == 1) return
    if (nearfar_active()) call agent_metric(c_text(name), value)
  end subroutine

  subroutine metric_single(name, value)
    character(*), intent(in) :: name
    real(c_float), intent(in) :: value
    call metric_double(name, real(value, c_double))
  end subroutine

  subroutine metric_integer(name, value)
    character(*), intent(in) :: name
    integer, intent(in) :: value
    call metric_double(name, real(value, c_double))
  end subroutine

  ! The region of interest: what the report is about.
  subroutine nearfar_begin()
    if (state == 1) return
    if (nearfar_active()) call agent_begin()
  end subroutine

  subroutine nearfar_end()
    if (state == 1) return
    if (nearfar_active()) call agent_end()
  end subroutine

  ! Names memory: call nearfar_name(c_loc(a), storage_size(a)/8_c_size_t*size(a), 'a').
  subroutine nearfar_name(address, bytes, name)
    type(c_ptr), intent(in) :: address
    integer(c_size_t), intent(in) :: bytes
    character(*), intent(in) :: name
    if (state == 1) return
    if (nearfar_active()) call agent_name(address, bytes, c_text(name))
  end subroutine
end module
