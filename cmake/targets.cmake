# Turns the lists of CMakeLists.txt into targets. Each folder is one OBJECT library a flavour:
# wt_core, wt_core_asan, ...; the library and every test program are linked from these objects.

set(WT_OBJECTS_PLAIN "")
set(WT_OBJECTS_ASAN "")
set(WT_OBJECTS_RACE "")  # only what is compiled anew for the race checker

function(wt_prefixed out folder)
  list(TRANSFORM ARGN PREPEND "${PROJECT_SOURCE_DIR}/${folder}/")
  set(${out} ${ARGN} PARENT_SCOPE)
endfunction()

# wt_compile(name sources...): the objects of a part of the library, in the flavours that need it.
macro(wt_compile name)
  wt_object_library(wt_${name} ${ARGN})
  target_compile_options(wt_${name} PRIVATE ${WT_FLAGS_PLAIN})
  wt_unity(wt_${name})
  list(APPEND WT_OBJECTS_PLAIN wt_${name})
  if("asan" IN_LIST WARPTAPE_FLAVOURS)
    wt_object_library(wt_${name}_asan ${ARGN})
    target_compile_options(wt_${name}_asan PRIVATE ${WT_FLAGS_ASAN})
    wt_unity(wt_${name}_asan)
    list(APPEND WT_OBJECTS_ASAN wt_${name}_asan)
  endif()
endmacro()

# wt_library(folder files...)
macro(wt_library folder)
  wt_prefixed(wt_sources ${folder} ${ARGN})
  string(REPLACE "/" "_" wt_name ${folder})
  if("${folder}" STREQUAL "core")
    list(APPEND wt_sources "${WARPTAPE_GENERATED_DIR}/build_info.cpp")
    set_source_files_properties("${WARPTAPE_GENERATED_DIR}/build_info.cpp" PROPERTIES
      SKIP_UNITY_BUILD_INCLUSION ON)  # it changes with every commit
  endif()
  if("${folder}" STREQUAL "autograd/ops")
    # What autograd/op_list.cpp lists: the family of every file but those of internal/.
    set(wt_families ${ARGN})
    list(FILTER wt_families EXCLUDE REGEX "/")
    list(TRANSFORM wt_families REPLACE "^(.+)[.]cpp$" "WT_OP_FAMILY(\\1)\n")
    list(JOIN wt_families "" wt_families)
    file(CONFIGURE OUTPUT "${WARPTAPE_GENERATED_DIR}/warptape/op_families.inc"
      CONTENT "${wt_families}" @ONLY)
  endif()
  if(wt_sources)
    wt_compile(${wt_name} ${wt_sources})
    if("${folder}" STREQUAL "data")
      foreach(target wt_data wt_data_asan)
        if(TARGET ${target})
          wt_uses(${target} SPNG::SPNG ZLIB::ZLIB)
        endif()
      endforeach()
    endif()
  endif()
endmacro()

# wt_cuda_library(files...): host code of any folder that includes CUDA headers; only in a build with
# CUDA. Uninstrumented in every flavour: no sanitizer can follow it into the driver.
macro(wt_cuda_library)
  set(wt_sources ${ARGN})
  list(TRANSFORM wt_sources PREPEND "${PROJECT_SOURCE_DIR}/")
  if(WARPTAPE_HAS_CUDA AND wt_sources)
    wt_object_library(wt_cuda_host ${wt_sources})
    target_compile_options(wt_cuda_host PRIVATE ${WT_FLAGS_PLAIN})
    wt_uses(wt_cuda_host CUDA::cudart NCCL::nccl)
    list(APPEND WT_OBJECTS_CUDA wt_cuda_host)
  endif()
endmacro()

# wt_kernel_library(files...): .cpp of kernels/ and its rooms that belong to no family.
macro(wt_kernel_library)
  set(WT_KERNEL_LIBRARY ${ARGN})
endmacro()

# wt_simt(files...): kernels/simt/*.cpp, the executor. Uninstrumented in every flavour: its fiber
# switches tell the sanitizers where they are, and instrumentation would only slow it down.
macro(wt_simt)
  wt_prefixed(wt_sources kernels/simt ${ARGN})
  if(wt_sources)
    wt_object_library(wt_simt ${wt_sources})
    target_compile_options(wt_simt PRIVATE -O2 -g1 ${WT_SIMT_FLAGS})
    list(APPEND WT_OBJECTS_PLAIN wt_simt)
    list(APPEND WT_OBJECTS_ASAN wt_simt)
  endif()
endmacro()

macro(wt_simt_race)
  wt_prefixed(wt_sources kernels/simt ${ARGN})
  if(wt_sources AND "race" IN_LIST WARPTAPE_FLAVOURS)
    wt_object_library(wt_simt_race ${wt_sources})
    target_compile_options(wt_simt_race PRIVATE -O2 -g1 ${WT_SIMT_FLAGS})
    list(APPEND WT_OBJECTS_RACE wt_simt_race)
  endif()
endmacro()

# A source's LANGUAGE is a property of the file, so the .cu that nvcc compiles cannot be a C++ source
# too: the simt device compiles a one-line file that includes it.
function(wt_host_sources out)
  set(files "")
  foreach(cu IN LISTS ARGN)
    get_filename_component(name "${cu}" NAME_WE)
    set(file "${PROJECT_BINARY_DIR}/simt/${name}.host.cpp")
    file(CONFIGURE OUTPUT "${file}" CONTENT "#include \"warptape/${cu}\"\n" @ONLY)
    list(APPEND files "${file}")
  endforeach()
  set(${out} ${files} PARENT_SCOPE)
endfunction()

# wt_kernels(families...)
macro(wt_kernels)
  # Looked for again at every build, so that adding x.cu to a family needs no edit here.
  file(GLOB wt_present RELATIVE "${PROJECT_SOURCE_DIR}" CONFIGURE_DEPENDS
    kernels/*.h kernels/*.cu kernels/*.cpp)
  set(wt_headers "")
  set(wt_cpu "")
  set(wt_cu "")
  set(wt_vendor "")
  foreach(family ${ARGN})
    if("kernels/${family}.cpp" IN_LIST wt_present)
      list(APPEND wt_cpu ${family}.cpp)
    endif()
    set(wt_has_cu 0)
    if("kernels/${family}.cu" IN_LIST wt_present)
      list(APPEND wt_cu kernels/${family}.cu)
      set(wt_has_cu 1)
    endif()
    if("kernels/${family}.h" IN_LIST wt_present)
      string(APPEND wt_headers "#undef WT_HAS_CU\n#define WT_HAS_CU ${wt_has_cu}\n"
        "#include \"warptape/kernels/${family}.h\"\n")
    endif()
    if(WARPTAPE_HAS_CUDA AND "kernels/${family}_cublas.cpp" IN_LIST wt_present)
      list(APPEND wt_vendor ${family}_cublas.cpp)
    endif()
    if(WARPTAPE_HAS_CUDNN AND "kernels/${family}_cudnn.cpp" IN_LIST wt_present)
      list(APPEND wt_vendor ${family}_cudnn.cpp)
    endif()
  endforeach()
  # What kernels/all.cpp lists.
  file(CONFIGURE OUTPUT "${WARPTAPE_GENERATED_DIR}/warptape/kernel_headers.inc"
    CONTENT "${wt_headers}" @ONLY)
  wt_kernel_objects(cpu "kernels" ${WT_KERNEL_LIBRARY} ${wt_cpu})
  if(wt_cu)
    wt_host_sources(wt_host ${wt_cu})
    wt_kernel_objects(simt "" ${wt_host})
    foreach(target wt_kernels_simt wt_kernels_simt_asan)
      if(TARGET ${target})
        target_compile_options(${target} PRIVATE ${WT_SIMT_FLAGS})
      endif()
    endforeach()
    if("race" IN_LIST WARPTAPE_FLAVOURS)
      wt_object_library(wt_kernels_simt_race ${wt_host})
      target_compile_options(wt_kernels_simt_race PRIVATE ${WT_KERNEL_FLAGS_RACE} ${WT_SIMT_FLAGS})
      list(PREPEND WT_OBJECTS_RACE wt_kernels_simt_race)
    endif()
  endif()
  if(WARPTAPE_HAS_CUDA AND wt_cu)
    wt_cuda_objects(${wt_cu})
    wt_command_test(kernels/shared_symbols LABELS kernels
      COMMAND "${PROJECT_SOURCE_DIR}/tests/kernels/shared_symbols_test.sh"
      "${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/wt_kernels_simt.dir"
      "${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/wt_kernels_cuda.dir")
  endif()
  if(wt_vendor)
    wt_prefixed(wt_vendor kernels ${wt_vendor})
    wt_object_library(wt_kernels_vendor ${wt_vendor})
    target_compile_options(wt_kernels_vendor PRIVATE ${WT_FLAGS_PLAIN})
    wt_uses(wt_kernels_vendor CUDA::cudart CUDNN::cudnn)
    list(APPEND WT_OBJECTS_CUDA wt_kernels_vendor)
  endif()
endmacro()

macro(wt_kernel_objects device folder)
  set(wt_sources ${ARGN})
  if(NOT "${folder}" STREQUAL "")
    wt_prefixed(wt_sources ${folder} ${ARGN})
  endif()
  if(wt_sources)
    wt_object_library(wt_kernels_${device} ${wt_sources})
    target_compile_options(wt_kernels_${device} PRIVATE ${WT_KERNEL_FLAGS_PLAIN})
    if(WARPTAPE_COVERAGE AND "${device}" STREQUAL "cpu")
      target_compile_options(wt_kernels_${device} PRIVATE ${WT_COVERAGE_FLAGS})
    endif()
    if("${device}" STREQUAL "cpu")
      wt_uses(wt_kernels_cpu OpenBLAS::OpenBLAS)
    endif()
    list(APPEND WT_OBJECTS_PLAIN wt_kernels_${device})
    if("asan" IN_LIST WARPTAPE_FLAVOURS)
      wt_object_library(wt_kernels_${device}_asan ${wt_sources})
      target_compile_options(wt_kernels_${device}_asan PRIVATE ${WT_KERNEL_FLAGS_ASAN})
      if("${device}" STREQUAL "cpu")
        wt_uses(wt_kernels_cpu_asan OpenBLAS::OpenBLAS)
      endif()
      list(PREPEND WT_OBJECTS_ASAN wt_kernels_${device}_asan)
    endif()
  endif()
endmacro()

# The same .cu by nvcc. No relocatable device code: a plain C++ user of the static library could not
# link it. ptxas -v is free and survives the compiler cache.
function(wt_nvcc_objects name)
  set(files ${ARGN})
  list(TRANSFORM files PREPEND "${PROJECT_SOURCE_DIR}/")
  wt_object_library(${name} ${files})
  target_compile_features(${name} PRIVATE cuda_std_20)
  set_target_properties(${name} PROPERTIES CUDA_SEPARABLE_COMPILATION OFF)
  target_compile_options(${name} PRIVATE -lineinfo --expt-relaxed-constexpr
    "SHELL:-Xptxas -v,-warn-spills" "SHELL:-Werror cross-execution-space-call"
    "SHELL:-Xcompiler -Wall,-Wextra,-ftls-model=initial-exec")
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.8)
    target_compile_options(${name} PRIVATE --compress-mode=size)
  endif()
endfunction()

macro(wt_cuda_objects)
  wt_nvcc_objects(wt_kernels_cuda ${ARGN})
  list(APPEND WT_OBJECTS_CUDA wt_kernels_cuda)
endmacro()

# All lists are known: the library itself, and for the test programs wt_linked_<flavour>, an interface
# that brings the objects of a flavour. Instrumented objects come first on the link line, so that
# the linker keeps their copies of inline functions.
macro(wt_link_library)
  set(wt_type STATIC)
  if(WARPTAPE_SHARED)
    set(wt_type SHARED)
  endif()
  set(WT_FLAVOUR_plain ${WT_OBJECTS_PLAIN} ${WT_OBJECTS_CUDA})
  set(WT_FLAVOUR_asan ${WT_OBJECTS_ASAN} ${WT_OBJECTS_CUDA})
  set(WT_FLAVOUR_race ${WT_OBJECTS_RACE} ${WT_OBJECTS_PLAIN} ${WT_OBJECTS_CUDA})
  list(REMOVE_ITEM WT_FLAVOUR_race wt_kernels_simt)
  foreach(flavour plain asan race)
    list(TRANSFORM WT_FLAVOUR_${flavour} REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>"
      OUTPUT_VARIABLE WT_FLAVOUR_OBJECTS_${flavour})
  endforeach()
  add_library(warptape ${wt_type} ${WT_FLAVOUR_OBJECTS_plain})
  add_library(warptape::warptape ALIAS warptape)
  set_target_properties(warptape PROPERTIES LINKER_LANGUAGE CXX EXPORT_NAME warptape
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  target_compile_features(warptape PUBLIC cxx_std_20)
  target_link_libraries(warptape PRIVATE wt_features)
  target_link_options(warptape INTERFACE ${WT_LINK_PLAIN})
  # Public headers: all of the library's folders, and of kernels/ the contracts. Each is compiled
  # alone by the target all_verify_interface_header_sets.
  set(wt_globs "")
  foreach(folder core kernels kernels/common autograd autograd/ops nn nn/models optim data dist)
    list(APPEND wt_globs "${WARPTAPE_INCLUDE_DIR}/warptape/${folder}/*.h")
  endforeach()
  file(GLOB wt_headers CONFIGURE_DEPENDS ${wt_globs})
  set_target_properties(warptape PROPERTIES VERIFY_INTERFACE_HEADER_SETS ${PROJECT_IS_TOP_LEVEL})
  target_sources(warptape PUBLIC FILE_SET HEADERS
    BASE_DIRS "${WARPTAPE_INCLUDE_DIR}" "${WARPTAPE_GENERATED_DIR}"
    FILES ${wt_headers} "${WARPTAPE_GENERATED_DIR}/warptape/version.h"
      "${WARPTAPE_GENERATED_DIR}/warptape/warptape.h")
endmacro()

# wt_tool_library(files...): tools/*.cpp that the wt command and the tests share; they need none of the
# command's packages. In every flavour, like the library.
macro(wt_tool_library)
  set(WT_TOOL_OBJECTS_plain "")
  set(WT_TOOL_OBJECTS_asan "")
  if(WARPTAPE_BUILD_TOOLS OR WARPTAPE_BUILD_TESTS)
    wt_prefixed(wt_sources tools ${ARGN})
    wt_object_library(wt_tool_parts ${wt_sources})
    target_compile_options(wt_tool_parts PRIVATE ${WT_FLAGS_PLAIN})
    wt_unity(wt_tool_parts)
    set(WT_TOOL_OBJECTS_plain "$<TARGET_OBJECTS:wt_tool_parts>")
    if(WARPTAPE_BUILD_TESTS AND "asan" IN_LIST WARPTAPE_FLAVOURS)
      wt_object_library(wt_tool_parts_asan ${wt_sources})
      target_compile_options(wt_tool_parts_asan PRIVATE ${WT_FLAGS_ASAN})
      wt_unity(wt_tool_parts_asan)
      set(WT_TOOL_OBJECTS_asan "$<TARGET_OBJECTS:wt_tool_parts_asan>")
    endif()
  endif()
  set(WT_TOOL_OBJECTS_race ${WT_TOOL_OBJECTS_plain})
endmacro()

# wt_bench(files...): bench/*.cpp, the measuring code behind `wt bench`; part of the wt command.
macro(wt_bench)
  set(WT_BENCH_SOURCES "")
  if(WARPTAPE_BUILD_BENCH)
    wt_prefixed(WT_BENCH_SOURCES bench ${ARGN})
  endif()
endmacro()

# wt_kernel_bench(files...): more of it, of contracts: compiled once for the wt command, unless the
# library is shared, which does not export contracts, and for wt_device_program().
macro(wt_kernel_bench)
  set(WT_KERNEL_BENCH_OBJECTS "")
  if(WARPTAPE_BUILD_BENCH)
    wt_prefixed(wt_sources bench ${ARGN})
    wt_object_library(wt_kernel_bench ${wt_sources})
    target_compile_options(wt_kernel_bench PRIVATE ${WT_FLAGS_PLAIN})
    set(WT_KERNEL_BENCH_OBJECTS "$<TARGET_OBJECTS:wt_kernel_bench>")
  endif()
endmacro()

# wt_kernel_program(name file.cu): a program of one .cu file with main(), on simt. Built when named:
# ninja NAME.
function(wt_kernel_program name file)
  wt_host_sources(source ${file})
  add_executable(${name} EXCLUDE_FROM_ALL ${source})
  target_link_libraries(${name} PRIVATE wt_common warptape::warptape)
  target_compile_options(${name} PRIVATE ${WT_KERNEL_FLAGS_PLAIN} ${WT_SIMT_FLAGS}
    -ftls-model=initial-exec)
endfunction()

# wt_device_program(name files...): a program that measures devices, of .cpp and .cu files; the latter
# for simt and, with a CUDA toolkit, once more by nvcc. *_cublas.cpp is left out without one.
function(wt_device_program name)
  if(NOT WARPTAPE_BUILD_BENCH)
    return()
  endif()
  set(files ${ARGN})
  set(cu ${ARGN})
  list(FILTER files EXCLUDE REGEX "[.]cu$")
  list(FILTER cu INCLUDE REGEX "[.]cu$")
  if(NOT WARPTAPE_HAS_CUDA)
    list(FILTER files EXCLUDE REGEX "_cublas[.]cpp$")
  endif()
  list(TRANSFORM files PREPEND "${PROJECT_SOURCE_DIR}/")
  wt_host_sources(host ${cu})
  wt_object_library(${name}_simt ${host})
  target_compile_options(${name}_simt PRIVATE ${WT_KERNEL_FLAGS_PLAIN} ${WT_SIMT_FLAGS})
  set(objects "$<TARGET_OBJECTS:${name}_simt>")
  if(WARPTAPE_HAS_CUDA)
    wt_nvcc_objects(${name}_cuda ${cu})
    list(APPEND objects "$<TARGET_OBJECTS:${name}_cuda>")
  endif()
  # The library's objects, not the library: what is measured is not part of its interface.
  set(library ${WT_FLAVOUR_OBJECTS_plain})
  list(FILTER library EXCLUDE REGEX "wt_test_kernels")
  add_executable(${name} ${files} ${objects} ${WT_KERNEL_BENCH_OBJECTS} ${library})
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(${name} PRIVATE wt_common wt_features)
  target_link_options(${name} PRIVATE ${WT_LINK_PLAIN})
  target_compile_options(${name} PRIVATE ${WT_WARNINGS} ${WT_FLAGS_PLAIN})
  wt_uses(${name} CUDA::cudart)
endfunction()

# wt_tool(files...): the wt command, tools/wt.cpp and one file a subcommand.
macro(wt_tool)
  set(wt_sources ${ARGN})
  set(wt_found ${WARPTAPE_BUILD_TOOLS})
  if(WARPTAPE_BUILD_TOOLS)
    foreach(package CLI11 nlohmann_json fmt)
      find_package(${package} CONFIG QUIET)
      if(NOT ${package}_FOUND)
        set(wt_found FALSE)
      endif()
    endforeach()
    if(NOT wt_found)
      list(APPEND WT_LEFT_OUT
        "wt         left out: apt-get install libcli11-dev nlohmann-json3-dev libfmt-dev")
    endif()
  endif()
  if(wt_found AND wt_sources)
    wt_prefixed(wt_sources tools ${wt_sources})
    set(wt_kernel_bench ${WT_KERNEL_BENCH_OBJECTS})
    if(WARPTAPE_SHARED)
      set(wt_kernel_bench "")
    endif()
    add_executable(wt ${wt_sources} ${WT_BENCH_SOURCES} ${wt_kernel_bench} ${WT_TOOL_OBJECTS_plain})
    target_link_libraries(wt PRIVATE wt_common warptape::warptape CLI11::CLI11
      nlohmann_json::nlohmann_json fmt::fmt-header-only)
    target_compile_options(wt PRIVATE ${WT_FLAGS_PLAIN})
    target_compile_definitions(wt PRIVATE WARPTAPE_HAS_BENCH=$<BOOL:${WT_BENCH_SOURCES}>
      WARPTAPE_HAS_KERNEL_BENCH=$<NOT:$<STREQUAL:"${wt_kernel_bench}","">>)
    wt_unity(wt)
  endif()
endmacro()

# wt_examples(file [BELOW x] ...): complete user programs, tools/examples/*.cpp, one executable each, with
# nothing but the public library. ctest runs each with --steps 3, and where BELOW is given once more as
# it is: the number at the end of its last line must be below x.
macro(wt_examples)
  if(WARPTAPE_BUILD_EXAMPLES)
    set(wt_bound_next FALSE)
    foreach(arg ${ARGN})
      if(arg STREQUAL "BELOW")
        set(wt_bound_next TRUE)
      elseif(wt_bound_next)
        set(wt_bound_next FALSE)
        wt_command_test(examples/${name}_result LABELS examples
          COMMAND "${PROJECT_SOURCE_DIR}/tests/tools/example_test.sh"
          "$<TARGET_FILE:example_${name}>" ${arg})
      else()
        get_filename_component(name "${arg}" NAME_WE)
        add_executable(example_${name} "${PROJECT_SOURCE_DIR}/tools/examples/${arg}")
        target_link_libraries(example_${name} PRIVATE warptape::warptape)
        target_compile_options(example_${name} PRIVATE ${WT_WARNINGS} ${WT_FLAGS_PLAIN})
        wt_command_test(examples/${name} LABELS examples
          COMMAND "$<TARGET_FILE:example_${name}>" --steps 3)
      endif()
    endforeach()
  endif()
endmacro()

# wt_doc_pages(pages...): the ```cpp blocks of a page as one program that is compiled and run
# (tests/docs/snippets.py); ```c++ blocks of all pages are compared with the files they are of.
macro(wt_doc_pages)
  find_program(WARPTAPE_PYTHON3 NAMES python3)
  if(WARPTAPE_BUILD_EXAMPLES AND WARPTAPE_BUILD_TESTS AND WARPTAPE_PYTHON3)
    foreach(page ${ARGN})
      get_filename_component(name "${page}" NAME_WE)
      set(source "${PROJECT_BINARY_DIR}/docs/${name}.cpp")
      add_custom_command(OUTPUT "${source}"
        COMMAND "${CMAKE_COMMAND}" -E make_directory "${PROJECT_BINARY_DIR}/docs"
        COMMAND "${WARPTAPE_PYTHON3}" "${PROJECT_SOURCE_DIR}/tests/docs/snippets.py"
                "${PROJECT_SOURCE_DIR}/${page}" "${source}"
        DEPENDS "${PROJECT_SOURCE_DIR}/${page}" "${PROJECT_SOURCE_DIR}/tests/docs/snippets.py")
      add_executable(doc_${name} "${source}")
      target_link_libraries(doc_${name} PRIVATE warptape::warptape)
      target_compile_options(doc_${name} PRIVATE ${WT_WARNINGS} -O0)
      wt_command_test(docs/${name} LABELS examples COMMAND "$<TARGET_FILE:doc_${name}>")
    endforeach()
    wt_command_test(docs/excerpts LABELS examples
      COMMAND "${WARPTAPE_PYTHON3}" "${PROJECT_SOURCE_DIR}/tests/docs/excerpts.py")
  endif()
endmacro()

# A source file that nobody listed would be dead code that looks alive.
macro(wt_check_lists)
  file(GLOB_RECURSE wt_all RELATIVE "${PROJECT_SOURCE_DIR}" CONFIGURE_DEPENDS
    core/*.cpp kernels/*.cpp kernels/*.cu autograd/*.cpp nn/*.cpp optim/*.cpp data/*.cpp dist/*.cpp
    tests/*.cpp tools/*.cpp bench/*.cpp)
  file(READ CMakeLists.txt wt_text)
  set(wt_unlisted "")
  foreach(file IN LISTS wt_all)
    get_filename_component(name "${file}" NAME)
    string(REGEX REPLACE "(_cublas|_cudnn)?[.](cpp|cu)$" "" family "${name}")
    if(NOT wt_text MATCHES "[ /\n]${name}[ \n)]" AND
       NOT (file MATCHES "^kernels/[^/]+$" AND wt_text MATCHES "\n  ${family}[ \n)]") AND
       NOT file MATCHES "^(tests/(fuzz|compile_fail|consumers)|bench/peers)/")
      list(APPEND wt_unlisted ${file})
    endif()
  endforeach()
  if(wt_unlisted)
    list(JOIN wt_unlisted "\n  " wt_unlisted)
    message(WARNING "In no list of CMakeLists.txt, so not built:\n  ${wt_unlisted}")
  endif()
endmacro()
