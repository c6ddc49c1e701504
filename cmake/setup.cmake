# Build type, compiler cache, the include root, and the flags every target of ours shares.

if(PROJECT_IS_TOP_LEVEL)
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
  endif()
endif()

# "warptape/core/tensor.h" is one spelling for contributors and users: a link in the build tree
# stands for the source root; generated headers lie beside it.
set(WARPTAPE_INCLUDE_DIR "${PROJECT_BINARY_DIR}/include")
set(WARPTAPE_GENERATED_DIR "${PROJECT_BINARY_DIR}/generated")
file(MAKE_DIRECTORY "${WARPTAPE_INCLUDE_DIR}" "${WARPTAPE_GENERATED_DIR}/warptape")
file(CREATE_LINK "${PROJECT_SOURCE_DIR}" "${WARPTAPE_INCLUDE_DIR}/warptape" SYMBOLIC)

# Directory scope, so a project that adds warptape as a subdirectory keeps its own launcher.
# base_dir and no hash_dir let build trees and checkouts in other folders share their results.
find_program(WARPTAPE_CCACHE ccache DOC "Compiler cache; empty: none")
mark_as_advanced(WARPTAPE_CCACHE)
if(WARPTAPE_CCACHE)
  foreach(lang CXX CUDA)
    if(NOT DEFINED CMAKE_${lang}_COMPILER_LAUNCHER)
      set(CMAKE_${lang}_COMPILER_LAUNCHER
          ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
          ${WARPTAPE_CCACHE})
    endif()
  endforeach()
endif()

# What ptxas -v says of each .cu goes to ptxas/x.cu.txt in the build tree. With WARPTAPE_TIME_COMPILES
# what each compilation costs is appended to compile_times.log, which tools/test.sh holds against
# the budget.
list(PREPEND CMAKE_CUDA_COMPILER_LAUNCHER "${PROJECT_SOURCE_DIR}/cmake/ptxas.sh"
  "${PROJECT_BINARY_DIR}/ptxas")
if(WARPTAPE_TIME_COMPILES)
  foreach(lang CXX CUDA)
    list(PREPEND CMAKE_${lang}_COMPILER_LAUNCHER "${PROJECT_SOURCE_DIR}/cmake/timed.sh"
      "${PROJECT_BINARY_DIR}/compile_times.log")
  endforeach()
endif()

set(WT_WARNINGS -Wall -Wextra)
if(WARPTAPE_WERROR)
  list(APPEND WT_WARNINGS -Werror)
endif()
# Flavours that lie in one build tree, beside the plain one; or one of the last five, which is then how
# all that is plain is compiled.
set(WT_FLAVOURS plain)
set(WT_PLAIN plain)
foreach(flavour IN LISTS WARPTAPE_FLAVOURS)
  if(flavour MATCHES "^(asan|race)$")
    list(APPEND WT_FLAVOURS ${flavour})
    set(WT_SUFFIX_${flavour} _${flavour})  # of targets; plain ones have none
  elseif(flavour MATCHES "^(plain|sanitize|ubsan|thread|coverage|fuzz)$")
    set(WT_PLAIN ${flavour})
  else()
    message(FATAL_ERROR "WARPTAPE_FLAVOURS has '${flavour}': there are plain, asan, race, and "
      "sanitize, ubsan, thread, coverage and fuzz")
  endif()
endforeach()
# A named subset: 25-45 % cheaper to compile than all of UBSan, and every fault of the broken-kernel
# set is still caught.
set(WT_ASAN_FLAGS -g1 -fno-omit-frame-pointer -fno-sanitize-recover=all
    -fsanitize=address,signed-integer-overflow,shift,bounds,alignment
    -fsanitize=integer-divide-by-zero,float-cast-overflow)
if(WT_PLAIN STREQUAL "ubsan")
  list(APPEND WT_ASAN_FLAGS -fsanitize=undefined)
endif()

# What every object of ours gets, whatever its flavour.
add_library(wt_common INTERFACE)
target_compile_features(wt_common INTERFACE cxx_std_20)
target_include_directories(wt_common INTERFACE
  "$<BUILD_INTERFACE:${WARPTAPE_INCLUDE_DIR}>" "$<BUILD_INTERFACE:${WARPTAPE_GENERATED_DIR}>")
target_compile_options(wt_common INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:${WT_WARNINGS}>"
  "$<$<COMPILE_LANGUAGE:CXX>:-fstack-clash-protection>")
# __FILE__ reads "warptape/core/x.cpp" wherever the checkout lies. The relative forms are what ccache
# makes of the absolute ones.
file(RELATIVE_PATH wt_up "${CMAKE_BINARY_DIR}" "${PROJECT_SOURCE_DIR}")
file(RELATIVE_PATH wt_include "${CMAKE_BINARY_DIR}" "${WARPTAPE_INCLUDE_DIR}")
foreach(map "${PROJECT_SOURCE_DIR}/=warptape/" "${wt_up}=warptape/"
    "${WARPTAPE_INCLUDE_DIR}/=" "${wt_include}/=")
  target_compile_options(wt_common INTERFACE
    "$<$<COMPILE_LANGUAGE:CXX>:-fmacro-prefix-map=${map}>")
endforeach()

# The compile options of each kind of code (wt_part) in each flavour, and the programs' link options.
# Race: instrumented like ThreadSanitizer code but linked with our own runtime, never with libtsan.
foreach(kind LIBRARY CPU SIMT)
  set(WT_${kind}_plain "$<IF:$<CONFIG:Debug>,-Og,-O2>")
endforeach()
# What calls kernels: with eight of -O2's passes it runs 1 to 2 % more instructions than with all of them
# (bench/instructions.txt), for a third of its compile time less.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(WT_LIBRARY_plain "$<IF:$<CONFIG:Debug>,-Og,-O1>")
  foreach(pass caller-saves inline-small-functions ipa-ra ipa-sra optimize-sibling-calls partial-inlining
      peephole2 store-merging)
    list(APPEND WT_LIBRARY_plain "$<$<NOT:$<CONFIG:Debug>>:-f${pass}>")
  endforeach()
endif()
set(WT_LIBRARY_asan -Og ${WT_ASAN_FLAGS})
set(WT_CPU_asan -O1 ${WT_ASAN_FLAGS})
set(WT_SIMT_asan -O1 ${WT_ASAN_FLAGS})
set(WT_LINK_asan -fsanitize=address,undefined)
set(WT_SIMT_race -O1 -g1 -fno-tree-vectorize -fno-unroll-loops -fsanitize=thread)
set(WT_TESTS -O0 -g1)
if(WT_PLAIN MATCHES "^(sanitize|ubsan)$")
  set(WT_SANITIZERS "address,undefined")  # for wt::build_info()
  foreach(kind LIBRARY CPU SIMT LINK)
    set(WT_${kind}_plain ${WT_${kind}_asan})
  endforeach()
  if(WT_PLAIN STREQUAL "ubsan")
    list(APPEND WT_TESTS ${WT_ASAN_FLAGS})
  endif()
elseif(WT_PLAIN STREQUAL "thread")
  set(WT_SANITIZERS "thread")
  set(WT_LIBRARY_plain -O1 -g1 -fsanitize=thread)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    list(APPEND WT_LIBRARY_plain -Wno-maybe-uninitialized)  # of instrumented code g++ warns for nothing
  endif()
  set(WT_CPU_plain ${WT_LIBRARY_plain})
  # The simt device's stay as they are: ThreadSanitizer does not follow stacks of one's own.
  set(WT_LINK_plain -fsanitize=thread)
elseif(WT_PLAIN STREQUAL "fuzz")
  set(WT_LIBRARY_plain -O1 ${WT_ASAN_FLAGS} -fsanitize=fuzzer-no-link)
  set(WT_CPU_plain -O1)
  set(WT_SIMT_plain -O1)
  set(WT_LINK_plain ${WT_LINK_asan})
elseif(WT_PLAIN STREQUAL "coverage")
  # Atomic, or threads make counts negative, which gcovr refuses. The simt device's kernels are not
  # counted: each of their lines runs once a thread of the device.
  set(WT_LIBRARY_plain -O1 --coverage -fprofile-update=atomic)
  set(WT_CPU_plain ${WT_LIBRARY_plain})
  set(WT_SIMT_plain -O1)
  set(WT_LINK_plain --coverage)
endif()
# What compiling CUDA source as C++ needs; the executor's stack overflow report needs the probes of
# -fstack-clash-protection above. Line numbers are part of the executor's messages, those of the
# calls that were inlined too, which -g1 has not; where variables live, which is half of it, nobody
# asks. DWARF 4, because addr2line up to binutils 2.40 names x.host.cpp instead of x.cu when it reads
# DWARF 5.
set(WT_SIMT_LINES -g -gdwarf-4 -fno-var-tracking -fno-strict-aliasing -Wno-unknown-pragmas)
foreach(flavour plain asan race)
  list(APPEND WT_SIMT_${flavour} ${WT_SIMT_LINES})
  set(WT_EXECUTOR_${flavour} -O2 -g1 ${WT_SIMT_LINES})
  set(WT_HOST_${flavour} ${WT_LIBRARY_${flavour}})  # as the library, but no unity batches
endforeach()

# Half of a program with simt's kernels is its lines. Not zstd: of a program that has it valgrind up to
# 3.19 reads nothing.
include(CheckLinkerFlag)
check_linker_flag(CXX "LINKER:--compress-debug-sections=zlib" WARPTAPE_COMPRESSES_LINES)
if(WARPTAPE_COMPRESSES_LINES)
  set(WT_LINK_SMALL "LINKER:--compress-debug-sections=zlib")
endif()
# Programs that only tests run: lld links them in a fifth to a third of the CPU seconds. What is installed or
# packed has the compiler's own linker.
if(PROJECT_IS_TOP_LEVEL)
  check_linker_flag(CXX "-fuse-ld=lld" WARPTAPE_HAS_LLD)
  if(WARPTAPE_HAS_LLD)
    set(WT_LINK_QUICK -fuse-ld=lld)
  endif()
endif()

# Objects of one kind: visibility, thread-local model and position independence in one place.
function(wt_object_library name)
  add_library(${name} OBJECT ${ARGN})
  target_link_libraries(${name} PRIVATE wt_common)
  set_target_properties(${name} PROPERTIES CXX_VISIBILITY_PRESET hidden
    CUDA_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON CXX_EXTENSIONS OFF
    POSITION_INDEPENDENT_CODE ${WARPTAPE_SHARED})
  target_compile_options(${name} PRIVATE
    "$<$<COMPILE_LANGUAGE:CXX>:-ftls-model=initial-exec>")
endfunction()
