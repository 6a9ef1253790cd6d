# SPDX-License-Identifier: MIT OR Apache-2.0
#
# cmake -DCODE=n -DREGEX=text -P expect.cmake -- command...
# ctest alone knows "zero or not", and a wrong result (1) is not a usage error (2).
cmake_policy(VERSION 3.25)
set(command)
set(found FALSE)
math(EXPR last "${CMAKE_ARGC} - 1")
foreach(i RANGE ${last})
  if(found)
    list(APPEND command "${CMAKE_ARGV${i}}")
  elseif(CMAKE_ARGV${i} STREQUAL "--")
    set(found TRUE)
  endif()
endforeach()
execute_process(COMMAND ${command} RESULT_VARIABLE code OUTPUT_VARIABLE text ERROR_VARIABLE errors)
string(APPEND text "${errors}")
message("${text}")
if(NOT code STREQUAL CODE)
  message(FATAL_ERROR "exit code ${code}, expected ${CODE}")
endif()
if(NOT text MATCHES "${REGEX}")
  message(FATAL_ERROR "the output does not match: ${REGEX}")
endif()
