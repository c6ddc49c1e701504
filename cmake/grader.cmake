# What `wt grade` compiles and links a student's kernel with (docs/grading.md): two small archives and
# a file that names them, the compiler and its options. In the build tree they lie in grade/ beside wt,
# installed in share/warptape/grade, with the headers that kernels need beside the public ones.

# In half of the time, or less.
check_linker_flag(CXX -fuse-ld=gold WARPTAPE_LINKS_GOLD)
if(WARPTAPE_LINKS_GOLD)
  set(WT_FAST_LINKER -fuse-ld=gold)
endif()

# wt_prelude(FOLDER HEADER OUT FLAVOUR [OPTION...]): the header as prelude.h in a folder that files are
# compiled with, and what g++ makes of it for these options. OUT: the option by which it is found. Other
# options or another compiler take the header.
function(wt_prelude folder header out flavour)
  configure_file("${header}" "${folder}/prelude.h" COPYONLY)
  set(${out} "" PARENT_SCOPE)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    return()
  endif()
  set(made "${folder}/precompiled/prelude.h.gch/${flavour}")
  file(MAKE_DIRECTORY "${folder}/precompiled/prelude.h.gch")
  add_custom_command(OUTPUT "${made}"
    COMMAND "${CMAKE_CXX_COMPILER}" ${ARGN} "-I${WARPTAPE_INCLUDE_DIR}" "-I${WARPTAPE_GENERATED_DIR}"
      -MD -MT "${made}" -MF "${folder}/precompiled/${flavour}.d"
      -w -x c++-header "${folder}/prelude.h" -o "${made}"
    DEPENDS "${folder}/prelude.h" DEPFILE "${folder}/precompiled/${flavour}.d" VERBATIM)
  file(RELATIVE_PATH name "${PROJECT_BINARY_DIR}" "${folder}")
  string(MAKE_C_IDENTIFIER "wt_prelude_${name}_${flavour}" name)
  add_custom_target(${name} DEPENDS "${made}")
  add_dependencies(wt ${name})
  set(${out} "-I${folder}/precompiled" PARENT_SCOPE)
endfunction()

# Options of each compilation, with those of a flavour, if it has a name.
function(wt_grade_options out flavour)
  # As the simt device's kernels are compiled (setup.cmake), but sooner: a student waits.
  set(options -std=c++20 -fstack-clash-protection ${WT_SIMT_LINES})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    list(APPEND options -fmax-errors=20)
  endif()
  if(flavour STREQUAL "plain")
    list(APPEND options -O1)
  elseif(flavour)
    list(APPEND options ${WT_SIMT_${flavour}})
  endif()
  set(${out} "${options}" PARENT_SCOPE)
endfunction()

# wt_grade_conf(FILE PRECOMPILED library=... include=...): the file, of generator expressions.
function(wt_grade_conf out precompiled)
  set(text "# Made by cmake/grader.cmake for `wt grade`: see tools/wt/grade/support.h.\n")
  string(APPEND text "compiler ${CMAKE_CXX_COMPILER}\n")
  wt_grade_options(options "")
  foreach(option ${options} ${precompiled} -include prelude.h)
    string(APPEND text "option ${option}\n")
  endforeach()
  string(APPEND text "option_plain -O1\n")
  foreach(flavour asan race)
    foreach(option ${WT_SIMT_${flavour}})
      string(APPEND text "option_${flavour} ${option}\n")
    endforeach()
  endforeach()
  string(APPEND text "link_asan ${WT_LINK_asan}\n")
  foreach(option ${WT_GRADE_NVCC})
    string(APPEND text "option_nvcc ${option}\n")
  endforeach()
  if(precompiled)  # a build tree: where it is installed another linker may be the only one
    foreach(option ${WT_FAST_LINKER})
      string(APPEND text "link_plain ${option}\nlink_asan ${option}\nlink_race ${option}\n")
    endforeach()
  endif()
  foreach(line ${ARGN})
    string(REGEX REPLACE "^([a-z]+)=" "\\1 " line "${line}")
    string(APPEND text "${line}\n")
  endforeach()
  # Whole: a file that defines what the runner has is one definition too many, not the runner's.
  string(REGEX REPLACE "\n(library|race|cuda) ([^-][^\n]*)"
    "\n\\1 -Wl,--whole-archive\n\\1 \\2\n\\1 -Wl,--no-whole-archive" text "${text}")
  foreach(library pthread dl m)
    string(APPEND text "library -l${library}\n")
  endforeach()
  file(GENERATE OUTPUT "${out}" CONTENT "${text}")
endfunction()

# Where CUDA and the emulator of its devices are built: what nvcc's object of the same file is linked with,
# and in WT_GRADE_CUDA lines for grade.conf, in WT_GRADE_CUDA_INSTALLED for that of an installation.
function(wt_grader_cuda)
  if(NOT TARGET wt_emulated_cudart)
    return()
  endif()
  wt_files(sources tools/grade/cuda/*.cpp)
  wt_object_library(wt_grade_cuda_runner ${sources} tools/grade/launchers.cpp tools/grade/runner_main.cpp
    core/str.cpp)
  target_compile_definitions(wt_grade_cuda_runner PRIVATE WT_GRADE_CUDA)
  target_compile_options(wt_grade_cuda_runner PRIVATE ${WT_WARNINGS} -O1)
  target_include_directories(wt_grade_cuda_runner SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
  add_library(wt_grade_cuda STATIC $<TARGET_OBJECTS:wt_grade_cuda_runner>)
  set_target_properties(wt_grade_cuda PROPERTIES LINKER_LANGUAGE CXX
    ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/grade")
  add_dependencies(wt wt_grade_cuda wt_emulated_cudart)
  # The newest that the emulated device runs PTX of.
  set(arch 80)
  foreach(one IN LISTS CMAKE_CUDA_ARCHITECTURES)
    string(REGEX REPLACE "-.*" "" one "${one}")
    if(one MATCHES "^(80|86|87|89|90|90a)$")
      set(arch ${one})
    endif()
  endforeach()
  set(nvcc -std=c++20 -arch=sm_${arch} -lineinfo --expt-relaxed-constexpr -Xptxas=-v
    -Werror=cross-execution-space-call)
  if(CMAKE_CUDA_HOST_COMPILER)
    list(APPEND nvcc -ccbin=${CMAKE_CUDA_HOST_COMPILER})
  endif()
  set(WT_GRADE_NVCC ${nvcc} PARENT_SCOPE)
  set(WT_GRADE_CUDA nvcc=${CMAKE_CUDA_COMPILER} cuda=$<TARGET_FILE:wt_grade_cuda>
    cuda=$<TARGET_FILE:wt_emulated_cudart> cuda=-Wl,-rpath,$<TARGET_FILE_DIR:wt_emulated_cudart>
    PARENT_SCOPE)
  set(WT_GRADE_CUDA_INSTALLED nvcc=${CMAKE_CUDA_COMPILER} cuda=$<TARGET_FILE_NAME:wt_grade_cuda>
    cuda=emulator/$<TARGET_FILE_NAME:wt_emulated_cudart> cuda=-Wl,-rpath,emulator PARENT_SCOPE)
endfunction()

# The program has the executor, a few files of the core and stand-ins for the rest: no other kernels.
function(wt_grader)
  if(NOT TARGET wt OR NOT WARPTAPE_HAS_SIMT OR NOT WT_PLAIN STREQUAL "plain")
    return()
  endif()
  wt_files(runner tools/grade/*.cpp kernels/simt/*.cpp EXCEPT "^kernels/simt/(race_.*|device|graph)[.]cpp$")
  wt_files(race kernels/simt/race_*.cpp)
  wt_part(grade_runner EXECUTOR ${runner} core/frame.cpp core/str.cpp core/files/crc32c.cpp
    kernels/device/tensor_map.cpp FLAVOURS plain)
  wt_part(grade_race_checker EXECUTOR ${race} FLAVOURS plain)
  set(folder "${PROJECT_BINARY_DIR}/grade")
  add_library(wt_grade STATIC $<TARGET_OBJECTS:wt_grade_runner>)
  add_library(wt_grade_race STATIC $<TARGET_OBJECTS:wt_grade_race_checker>)
  set_target_properties(wt_grade wt_grade_race PROPERTIES LINKER_LANGUAGE CXX
    ARCHIVE_OUTPUT_DIRECTORY "${folder}")
  add_dependencies(wt wt_grade wt_grade_race)
  wt_grader_cuda()
  # Kernels that have to pass (good), ones that must not (bad), and files with some of both.
  foreach(file IN ITEMS add_good:add channel_norm:batch_norm_backward cheats_bad:add copy:copy cross_entropy:cross_entropy_forward
      gelu:gelu layer_norm:layer_norm_forward matmul_bad:matmul matmul_gelu:matmul_gelu
      matmul_good:matmul max_bad:max max_good:max sandbox_bad:add softmax_backward:softmax_backward
      softmax_bad:softmax_forward softmax_good:softmax_forward sum:sum sum_all_bad:sum_all
      sum_all_good:sum_all transpose_bad:transpose transpose_good:transpose)
    string(REGEX REPLACE ":.*" "" name "${file}")
    string(REGEX REPLACE ".*:" "" op "${file}")
    wt_command_test(grade/${name} tools tests/grade/grade_test.py "$<TARGET_FILE:wt>"
      "${PROJECT_SOURCE_DIR}/tests/grade/${name}.cu" ${op})
  endforeach()
  if(TARGET wt_grade_cuda)  # and what only nvcc and the emulated device see
    foreach(name IN ITEMS nvcc_bad device_bad)
      wt_command_test(grade/${name} tools tests/grade/grade_test.py "$<TARGET_FILE:wt>"
        "${PROJECT_SOURCE_DIR}/tests/grade/${name}.cu" add --nvcc yes)
    endforeach()
    wt_command_test(grade/device_good tools tests/grade/grade_test.py "$<TARGET_FILE:wt>"
      "${PROJECT_SOURCE_DIR}/tests/grade/softmax_good.cu" softmax_forward --nvcc yes
      --only warp_a_row,cached_row,any_strides)
  endif()
  wt_command_test(wt_grade tools tests/tools/wt/grade/wt_grade_test.sh "$<TARGET_FILE:wt>")
  foreach(flavour plain asan race)
    wt_grade_options(options ${flavour})
    wt_prelude("${folder}" tools/grade/prelude.h precompiled ${flavour} ${options})
  endforeach()
  wt_grade_conf("${folder}/grade.conf" "${precompiled}" include=${folder}
    include=${WARPTAPE_INCLUDE_DIR} include=${WARPTAPE_GENERATED_DIR}
    library=$<TARGET_FILE:wt_grade> race=$<TARGET_FILE:wt_grade_race> ${WT_GRADE_CUDA})
  if(NOT WARPTAPE_INSTALL)
    return()
  endif()
  include(GNUInstallDirs)
  set(there "${CMAKE_INSTALL_DATADIR}/warptape/grade")
  file(RELATIVE_PATH headers "/p/${there}" "/p/${CMAKE_INSTALL_INCLUDEDIR}")
  wt_grade_conf("${PROJECT_BINARY_DIR}/package/grade.conf" "" include=. include=include include=${headers}
    library=$<TARGET_FILE_NAME:wt_grade> race=$<TARGET_FILE_NAME:wt_grade_race> ${WT_GRADE_CUDA_INSTALLED})
  if(TARGET wt_grade_cuda)
    install(FILES "$<TARGET_FILE:wt_grade_cuda>" DESTINATION "${there}")
    install(FILES "$<TARGET_FILE:wt_emulated_cudart>" DESTINATION "${there}/emulator")
  endif()
  install(FILES "${PROJECT_BINARY_DIR}/package/grade.conf" "$<TARGET_FILE:wt_grade>"
    "$<TARGET_FILE:wt_grade_race>" tools/grade/prelude.h DESTINATION "${there}")
  foreach(room core/numbers kernels/common kernels/device kernels/simt)
    install(DIRECTORY ${room}/ DESTINATION "${there}/include/warptape/${room}"
      FILES_MATCHING PATTERN "*.h" PATTERN "*.cuh")
  endforeach()
endfunction()
