# The test programs wt_tests, wt_tests_asan and wt_tests_race, and what ctest runs of them.

if(WARPTAPE_BUILD_TESTS)
  enable_testing()
endif()

# wt_command_test(name label command args...): a ctest entry that is no Catch2 program: one case, passed
# if the exit code is 0, skipped if it is 77. The command is a script of this tree or a program.
function(wt_command_test name label command)
  if(NOT WARPTAPE_BUILD_TESTS)
    return()
  endif()
  if(EXISTS "${PROJECT_SOURCE_DIR}/${command}")
    set(command "${PROJECT_SOURCE_DIR}/${command}")
  endif()
  add_test(NAME ${name}
    COMMAND "${PROJECT_SOURCE_DIR}/tests/support/run_case.sh" --one "${command}" ${ARGN})
  set_tests_properties(${name} PROPERTIES LABELS "plain;${label}" TIMEOUT 300 SKIP_RETURN_CODE 77)
endfunction()

# ctest has one entry for each file and flavour, found by Catch2's file-name tag: a test cannot be
# left out by a forgotten tag. SHARDS n makes n entries that get WT_SHARD=i/n. GPU makes two more: the
# plain program on cuda (flavour "gpu"), and on the emulated cuda device (flavour "ptx"). The plain
# program has an eager simt, as users have; the others' work runs late, so that what reads, frees or
# blames too early shows where most is watched.
function(wt_add_test file flavour program)
  cmake_parse_arguments(PARSE_ARGV 3 T "RACE;GPU;PLAIN" "SHARDS" "")
  get_filename_component(name "${file}" NAME_WE)
  string(REGEX REPLACE "_test[.]cpp$" "" label "${file}")
  # Labels: the folders that it is in (kernels, kernels/softmax), for --only.
  set(labels ${flavour})
  set(folder "${file}")
  while(folder MATCHES "/")
    get_filename_component(folder "${folder}" DIRECTORY)
    list(APPEND labels ${folder})
  endwhile()
  set(script run_case.sh)
  if(flavour STREQUAL "gpu")
    set(script run_gpu_case.sh)
  elseif(flavour STREQUAL "ptx")
    set(script run_ptx_case.sh "${PROJECT_BINARY_DIR}")
  endif()
  list(POP_FRONT script name_of_script)
  set(streams eager)
  if(flavour MATCHES "^(asan|race)$")
    set(streams lazy:1)
  endif()
  set(environment "")
  if(flavour STREQUAL "race")  # the cpu's kernels are those of the plain program
    set(environment "WT_TEST_DEVICES=simt;")
  endif()
  set(limit 300)
  if(NOT T_SHARDS)
    set(T_SHARDS 1)
  else()
    set(limit 600)  # one row, attention, is most of its shard
  endif()
  foreach(shard RANGE 1 ${T_SHARDS})
    set(test "${label}.${flavour}")
    if(T_SHARDS GREATER 1)
      string(APPEND test ".${shard}of${T_SHARDS}")
    endif()
    add_test(NAME ${test} COMMAND "${PROJECT_SOURCE_DIR}/tests/support/${name_of_script}" ${script}
      "$<TARGET_FILE:${program}>" "-#" "[#${name}]")
    set_tests_properties(${test} PROPERTIES LABELS "${labels}" TIMEOUT ${limit}
      SKIP_RETURN_CODE 77
      ENVIRONMENT "${environment}WT_FIRST_USE=off;WT_MACHINE=off;WT_SHARD=${shard}/${T_SHARDS};WT_SIMT_STREAMS=${streams};OPENBLAS_NUM_THREADS=1;ASAN_OPTIONS=protect_shadow_gap=0:detect_leaks=1;LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/support/lsan.supp:print_suppressions=0")
    if(flavour STREQUAL "gpu")  # for tools/gpu_gate.sh, which must do without ctest
      file(APPEND "${PROJECT_BINARY_DIR}/gpu_tests.txt" "${name} ${shard}/${T_SHARDS}\n")
    endif()
  endforeach()
endfunction()

# wt_fuzz_targets(formats...): fuzz_<format>, a libFuzzer program for each reader of tests/fuzz.
function(wt_fuzz_targets)
  if(NOT WT_PLAIN STREQUAL "fuzz")
    return()
  endif()
  foreach(format ${ARGN})
    add_executable(fuzz_${format} tests/fuzz/target.cpp tests/fuzz/readers.cpp)
    target_link_libraries(fuzz_${format} PRIVATE warptape::warptape)
    target_compile_definitions(fuzz_${format} PRIVATE WT_FUZZ_READER=takes_${format})
    target_compile_options(fuzz_${format} PRIVATE ${WT_LIBRARY_plain})
    target_link_options(fuzz_${format} PRIVATE -fsanitize=fuzzer)
    list(APPEND programs fuzz_${format})
  endforeach()
  add_custom_target(fuzz_targets DEPENDS ${programs})
endfunction()

# Catch2_FOUND and its targets, of either version.
macro(wt_find_catch2)
  find_package(Catch2 3 CONFIG QUIET)
  if(NOT Catch2_FOUND)
    find_package(Catch2 2.13 CONFIG QUIET)
  endif()
endmacro()

# wt_tests(name options name options ...): all of tests/, with the options of the files NAME_test.cpp
# that have some: RACE, GPU, PLAIN, SHARDS n. Test files are compiled once, -O0 and uninstrumented, and linked with
# each flavour of the library: 2.6 instead of 17 s a file. A file that is not called *_test.cpp
# holds helpers: it is linked but has no ctest entry.
function(wt_tests)
  if(NOT WARPTAPE_BUILD_TESTS)
    return()
  endif()
  wt_find_catch2()
  if(NOT Catch2_FOUND)
    set(WT_TABLE "${WT_TABLE}\n--   [ ] tests      left out: apt-get install catch2, or -DCatch2_ROOT=DIR says where it is" PARENT_SCOPE)
    return()
  endif()
  # Kernels that only tests run; nvcc compiles them to show that it can.
  wt_files(cu RECURSE tests/*.cu EXCEPT "^tests/(emulator|grade)/")
  wt_device_part(test FLAVOURS plain asan race FILES ${cu})

  wt_files(files RECURSE tests/*.cpp EXCEPT "^tests/(compile_fail/|consumers/|emulator/|fuzz/target|support/fake_(nvml|cupti)/)")
  list(TRANSFORM files REPLACE "^tests/" "")
  set(stems ${files})
  list(FILTER stems INCLUDE REGEX "_test[.]cpp$")
  list(TRANSFORM stems REPLACE "^(.*/)?([^/]+)_test[.]cpp$" "\\2")
  cmake_parse_arguments(PARSE_ARGV 0 options "" "" "${stems}")
  if(options_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "wt_tests(): no such test file: ${options_UNPARSED_ARGUMENTS}")
  endif()
  # No unity batches: at -O0 a file is 1 s, and tests may call their helpers what they like.
  set(names "")
  foreach(file IN LISTS files)
    get_filename_component(name "${file}" NAME_WE)
    if(name IN_LIST names)
      message(FATAL_ERROR "Two test files are called ${name}.cpp: ctest tells them by name")
    endif()
    list(APPEND names ${name})
  endforeach()
  # Those that walk cuda, and what they share, are linked into wt_gpu too (gate.cmake).
  set(test_files "")
  set(gpu_test_files "")
  foreach(file IN LISTS files)
    string(REGEX REPLACE "^(.*/)?([^/]+)_test[.]cpp$" "\\2" stem "${file}")
    if(file MATCHES "_test[.]cpp$" AND NOT "GPU" IN_LIST options_${stem})
      list(APPEND test_files tests/${file})
    else()
      list(APPEND gpu_test_files tests/${file})
    endif()
  endforeach()
  foreach(part IN ITEMS test_files gpu_test_files)
    add_library(wt_${part} OBJECT ${${part}})
    target_link_libraries(wt_${part} PRIVATE wt_common Catch2::Catch2)
    target_compile_options(wt_${part} PRIVATE ${WT_TESTS})
  endforeach()
  # Libraries that WT_NVML and WT_CUPTI name: no driver is needed to see what is said of GPUs.
  foreach(library fake_nvml fake_cupti)
    add_library(${library} MODULE tests/support/${library}/${library}.cpp)
    target_link_libraries(${library} PRIVATE wt_common)
  endforeach()
  set_property(SOURCE tests/core/cupti/cupti_test.cpp APPEND PROPERTY COMPILE_DEFINITIONS
    "WT_FAKE_CUPTI=\"$<TARGET_FILE:fake_cupti>\"")
  set_property(SOURCE tests/core/machine/machine_state_test.cpp APPEND PROPERTY COMPILE_DEFINITIONS
    "WT_FAKE_NVML=\"$<TARGET_FILE:fake_nvml>\"")
  # What every oracle counts with, an element at a time: without optimisation a third of the matrix's time.
  set_source_files_properties(tests/op_cases/op_case.cpp PROPERTIES COMPILE_OPTIONS -O2)

  file(REMOVE "${PROJECT_BINARY_DIR}/gpu_tests.txt")
  list(FILTER files INCLUDE REGEX "_test[.]cpp$")
  foreach(flavour IN LISTS WT_FLAVOURS)
    set(program wt_tests${WT_SUFFIX_${flavour}})
    wt_objects(objects ${flavour} test_simt ${WT_BENCH_PARTS} ${WT_PARTS} tool_parts)
    add_executable(${program} ${objects} $<TARGET_OBJECTS:wt_test_files>
      $<TARGET_OBJECTS:wt_gpu_test_files>)
    set_target_properties(${program} PROPERTIES LINKER_LANGUAGE CXX)
    add_dependencies(${program} fake_nvml fake_cupti)
    target_link_libraries(${program} PRIVATE wt_features Catch2::Catch2WithMain)
    target_link_options(${program} PRIVATE ${WT_LINK_${flavour}} ${WT_LINK_QUICK})
    foreach(file IN LISTS files)
      string(REGEX REPLACE "^(.*/)?([^/]+)_test[.]cpp$" "\\2" stem "${file}")
      if(flavour STREQUAL "plain" OR
         (flavour STREQUAL "asan" AND NOT "PLAIN" IN_LIST options_${stem}) OR
         (flavour STREQUAL "race" AND "RACE" IN_LIST options_${stem}))
        wt_add_test(${file} ${flavour} ${program} ${options_${stem}})
      endif()
      if(flavour STREQUAL "plain" AND "GPU" IN_LIST options_${stem} AND WARPTAPE_HAS_CUDA)
        wt_add_test(${file} gpu ${program} ${options_${stem}})
        if(TARGET wt_emulated_cudart)
          wt_add_test(${file} ptx ${program} ${options_${stem}})
        endif()
      endif()
    endforeach()
  endforeach()
endfunction()

# wt_test_costs(): ctest begins with the tests that took longest, so that no core waits at the end.
function(wt_test_costs)
  set(figures "${PROJECT_SOURCE_DIR}/bench/results/test_cost.txt")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${figures}")
  file(STRINGS "${figures}" entries REGEX "^entry ")
  foreach(entry IN LISTS entries)
    string(REPLACE " " ";" entry "${entry}")
    list(GET entry 1 seconds)
    list(GET entry 2 name)
    if(TEST "${name}")
      set_tests_properties("${name}" PROPERTIES COST ${seconds})
    endif()
  endforeach()
endfunction()

# wt_thread_tests(): thread_tests, the tests of ranks that are threads as a program under
# ThreadSanitizer (tools/tsan.sh): instrumented themselves, as what several threads do is in them.
# Not those of processes (pulse, mpi) and of NCCL, whose fake is part of the CUDA build.
function(wt_thread_tests)
  if(NOT WT_PLAIN STREQUAL "thread")
    return()
  endif()
  wt_find_catch2()
  if(NOT Catch2_FOUND)
    return()
  endif()
  wt_files(files tests/dist/*_test.cpp tests/dist/*/*_test.cpp EXCEPT "/(nccl|pulse)_")
  add_executable(thread_tests EXCLUDE_FROM_ALL ${files})
  target_link_libraries(thread_tests PRIVATE wt_common warptape::warptape Catch2::Catch2WithMain)
  target_compile_options(thread_tests PRIVATE ${WT_LIBRARY_plain})
  target_link_options(thread_tests PRIVATE ${WT_LINK_QUICK})
endfunction()
