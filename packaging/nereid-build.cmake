# nereid_build(NAME TARGETS T,T... KERNEL FILE.py[:KERNEL] ARG=TYPE ... [--grid G ...] [KERNEL ...] [OPTIONS ...])
#
# A library of kernels that are compiled ahead of time: link it, and include NAME.h. Words behind KERNEL are those of
# `nereid build`; OPTIONS are its options for all kernels (--cc ...).
function(nereid_build NAME)
  cmake_parse_arguments(PARSE_ARGV 1 _nereid "" "TARGETS" "OPTIONS")
  set(_words) # cmake_parse_arguments would join the kernels
  set(_files)
  set(_in "")
  foreach(_word IN LISTS ARGN)
    if(_word STREQUAL "KERNEL")
      if(_words)
        list(APPEND _words --then)
      endif()
      set(_in first)
    elseif(_word STREQUAL "TARGETS" OR _word STREQUAL "OPTIONS")
      set(_in "")
    elseif(_in STREQUAL "first")
      list(APPEND _words "${_word}")
      string(REGEX REPLACE ":[A-Za-z_0-9]+$" "" _file "${_word}")
      list(APPEND _files "${_file}")
      set(_in rest)
    elseif(_in STREQUAL "rest")
      list(APPEND _words "${_word}")
    endif()
  endforeach()
  set(_base "${CMAKE_CURRENT_BINARY_DIR}/${NAME}")
  add_custom_command(OUTPUT "${_base}.c" "${_base}.h"
    COMMAND nereid::compiler build ${_words} --target "${_nereid_TARGETS}" -o "${_base}" ${_nereid_OPTIONS}
    DEPENDS ${_files} nereid::compiler WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}"
    COMMENT "Compiling kernels ahead of time: ${NAME}" VERBATIM)
  add_library(${NAME} STATIC "${_base}.c" "${_base}.h")
  target_include_directories(${NAME} PUBLIC "${CMAKE_CURRENT_BINARY_DIR}")
  target_link_libraries(${NAME} PUBLIC nereid::rt)
endfunction()
