# The emulator of CUDA devices (docs/emulator.md): stand-ins of libcudart and libcublasLt, whose
# kernels are nvcc's PTX, interpreted. They need CUDA's headers and zstd, which fat binaries are
# packed with; the interpreter and its tests need neither.

# wt_emulator(): wt_emulator (objects), and in emulator/ of the build tree the two libraries.
function(wt_emulator)
  if(NOT WARPTAPE_BUILD_TESTS OR NOT CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64" OR
     NOT WT_PLAIN STREQUAL "plain")
    return()
  endif()
  wt_files(sources tools/emulator/ptx/*.cpp tools/emulator/exec/*.cpp)
  add_library(wt_emulator OBJECT ${sources})
  # A lane is an element of a vector: AVX2 is what makes it fast. Rounding modes are switched.
  set(options ${WT_WARNINGS} -O2 -g1 -march=x86-64-v3 -fno-math-errno -fno-trapping-math
    -frounding-math -ffp-contract=off)
  target_compile_features(wt_emulator PUBLIC cxx_std_20)
  target_compile_options(wt_emulator PRIVATE ${options})
  target_include_directories(wt_emulator PUBLIC "${PROJECT_SOURCE_DIR}/tools/emulator")
  set_target_properties(wt_emulator PROPERTIES POSITION_INDEPENDENT_CODE ON
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)

  find_path(WT_ZSTD_INCLUDE zstd.h)
  find_library(WT_ZSTD_LIBRARY zstd)
  mark_as_advanced(WT_ZSTD_INCLUDE WT_ZSTD_LIBRARY)
  if(NOT WARPTAPE_HAS_CUDA OR NOT WT_ZSTD_INCLUDE OR NOT WT_ZSTD_LIBRARY)
    set(WT_TABLE "${WT_TABLE}\n--   [ ] emulator   left out: needs a CUDA toolkit and apt-get install libzstd-dev" PARENT_SCOPE)
    return()
  endif()
  wt_files(runtime tools/emulator/*.cpp tools/emulator/device/*.cpp tools/emulator/api/*.cpp
    EXCEPT "/cublaslt")
  wt_files(blas tools/emulator/api/cublaslt*.cpp)
  add_library(wt_emulated_cudart SHARED ${runtime} $<TARGET_OBJECTS:wt_emulator>)
  target_include_directories(wt_emulated_cudart SYSTEM PRIVATE "${WT_ZSTD_INCLUDE}")
  target_link_libraries(wt_emulated_cudart PRIVATE "${WT_ZSTD_LIBRARY}" ${CMAKE_DL_LIBS})
  add_library(wt_emulated_cublaslt SHARED ${blas})
  target_link_libraries(wt_emulated_cublaslt PRIVATE wt_emulated_cudart)
  foreach(name cudart cublaslt)
    set(library wt_emulated_${name})
    target_compile_features(${library} PRIVATE cxx_std_20)
    target_compile_options(${library} PRIVATE ${options})
    target_include_directories(${library} PRIVATE "${PROJECT_SOURCE_DIR}/tools/emulator")
    target_include_directories(${library} SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
    target_link_options(${library} PRIVATE
      "-Wl,--version-script=${PROJECT_SOURCE_DIR}/tools/emulator/exports.map")
    set_target_properties(${library} PROPERTIES
      OUTPUT_NAME $<IF:$<STREQUAL:${name},cudart>,cudart,cublasLt>
      SOVERSION ${CUDAToolkit_VERSION_MAJOR} LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/emulator"
      VISIBILITY_INLINES_HIDDEN ON BUILD_RPATH "\$ORIGIN" LINK_DEPENDS "${PROJECT_SOURCE_DIR}/tools/emulator/exports.map")
  endforeach()
endfunction()

# A program as a student compiles it, but for the runtime, which must be a library to be stood in for.
function(wt_cuda_program name)
  add_executable(${name} ${ARGN})
  set_target_properties(${name} PROPERTIES CUDA_RUNTIME_LIBRARY Shared CUDA_STANDARD 20
    CUDA_ARCHITECTURES 80-virtual RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/textbook")
  target_compile_options(${name} PRIVATE -lineinfo -UNDEBUG)  # asserts are part of what runs
endfunction()

# Of the interpreter (label emulator), and with the libraries, under the label ptx, CUDA programs of
# textbooks' kind; wt_tests() adds its files that have the option GPU.
function(wt_emulator_tests)
  if(NOT TARGET wt_emulator OR NOT TARGET wt_test_files)
    return()
  endif()
  wt_files(sources tests/emulator/*.cpp)
  add_executable(emulator_tests ${sources} $<TARGET_OBJECTS:wt_emulator>)
  target_link_libraries(emulator_tests PRIVATE wt_common Catch2::Catch2WithMain)
  target_include_directories(emulator_tests PRIVATE "${PROJECT_SOURCE_DIR}/tools/emulator")
  target_compile_options(emulator_tests PRIVATE ${WT_TESTS})
  list(FILTER sources INCLUDE REGEX "_test[.]cpp$")
  foreach(file IN LISTS sources)
    get_filename_component(name "${file}" NAME_WE)
    add_test(NAME emulator/${name} COMMAND "${PROJECT_SOURCE_DIR}/tests/support/run_case.sh"
      "$<TARGET_FILE:emulator_tests>" "-#" "[#${name}]")
    set_tests_properties(emulator/${name} PROPERTIES LABELS "plain;emulator" TIMEOUT 300)
  endforeach()
  if(NOT TARGET wt_emulated_cudart)
    return()
  endif()
  # The runtime by itself: a program of the libraries, as any other is.
  wt_files(sources tests/emulator/runtime/*.cpp)
  add_executable(emulator_runtime_tests ${sources})
  target_link_libraries(emulator_runtime_tests PRIVATE wt_common wt_emulated_cudart
    Catch2::Catch2WithMain)
  target_include_directories(emulator_runtime_tests PRIVATE "${PROJECT_SOURCE_DIR}/tools/emulator")
  target_include_directories(emulator_runtime_tests SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
  target_compile_options(emulator_runtime_tests PRIVATE ${WT_TESTS})
  list(FILTER sources INCLUDE REGEX "_test[.]cpp$")
  foreach(file IN LISTS sources)
    string(REGEX REPLACE "^tests/" "" file "${file}")
    wt_add_test(${file} ptx emulator_runtime_tests)
  endforeach()
  if(TARGET wt)
    wt_command_test(tools/train_emulated ptx tests/tools/wt/wt_train_test.sh "$<TARGET_FILE:wt>" emulated
      "${PROJECT_BINARY_DIR}")
  endif()
  wt_files(programs tests/emulator/textbook/*.cu)
  foreach(file IN LISTS programs)
    get_filename_component(name "${file}" NAME_WE)
    wt_cuda_program(textbook_${name} ${file})
    wt_command_test(emulator/textbook_${name} ptx tests/emulator/textbook.sh
      "${PROJECT_BINARY_DIR}" "$<TARGET_FILE:textbook_${name}>")
  endforeach()
  wt_cuda_program(emulator_bench bench/simt_bench.cu)
  set_target_properties(emulator_bench PROPERTIES EXCLUDE_FROM_ALL TRUE)
  target_link_libraries(emulator_bench PRIVATE wt_common warptape::warptape)
  target_compile_options(emulator_bench PRIVATE --expt-relaxed-constexpr)
  wt_files(planted tests/emulator/planted/*.cu)
  wt_cuda_program(planted_faults ${planted})
  wt_command_test(emulator/planted_faults ptx tests/emulator/planted.sh "${PROJECT_BINARY_DIR}"
    "$<TARGET_FILE:planted_faults>")
endfunction()
