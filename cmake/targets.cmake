# Turns folders into targets. A part of the library is an OBJECT library for each flavour that needs
# one of its own: wt_core, wt_core_asan, ...; the library and every test program are linked from these.

set(WT_PARTS build_info)  # of the library, in the order in which they are linked

# wt_files(out PATTERN... [EXCEPT REGEX]): the files there, sorted, so that unity batches are the same
# everywhere. Looked for again at every build: a new file needs no line anywhere. Hidden files are
# an editor's.
function(wt_files out)
  cmake_parse_arguments(PARSE_ARGV 1 F "RECURSE" "EXCEPT" "")
  set(glob GLOB)
  if(F_RECURSE)
    set(glob GLOB_RECURSE)
  endif()
  file(${glob} files RELATIVE "${PROJECT_SOURCE_DIR}" CONFIGURE_DEPENDS ${F_UNPARSED_ARGUMENTS})
  list(FILTER files EXCLUDE REGEX "(^|/)[.][^/]*$")
  if(F_EXCEPT)
    list(FILTER files EXCLUDE REGEX "${F_EXCEPT}")
  endif()
  set(${out} ${files} PARENT_SCOPE)
endfunction()

# wt_unity(TARGET): in batches of sixteen files, if at all: most of a small file's seconds are its headers.
function(wt_unity target)
  set_target_properties(${target} PROPERTIES
    UNITY_BUILD ${WARPTAPE_UNITY} UNITY_BUILD_BATCH_SIZE 16)
endfunction()

# wt_part(NAME KIND sources... [FLAVOURS f...] [USES targets...]): wt_NAME, and wt_NAME_f for each flavour
# f that is built, with the compile options WT_KIND_f (setup.cmake).
function(wt_part name kind)
  cmake_parse_arguments(PARSE_ARGV 2 P "" "" "FLAVOURS;USES")
  if(NOT P_UNPARSED_ARGUMENTS)
    return()
  endif()
  foreach(flavour IN LISTS P_FLAVOURS)
    if(NOT flavour IN_LIST WT_FLAVOURS)
      continue()
    endif()
    set(target wt_${name}${WT_SUFFIX_${flavour}})
    wt_object_library(${target} ${P_UNPARSED_ARGUMENTS})
    target_compile_options(${target} PRIVATE ${WT_${kind}_${flavour}})
    wt_uses(${target} ${P_USES})
    if(kind MATCHES "^(LIBRARY|CPU|EXECUTOR)$")
      wt_unity(${target})
    endif()
  endforeach()
endfunction()

# wt_objects(out FLAVOUR parts...): what a program of this flavour is linked from. A part that the
# flavour does not compile anew is the plain one; instrumented objects come first, so that the
# linker keeps their copies of inline functions.
function(wt_objects out flavour)
  set(own "")
  set(plain "")
  foreach(part IN LISTS ARGN)
    if(TARGET wt_${part}_${flavour})
      list(APPEND own "$<TARGET_OBJECTS:wt_${part}_${flavour}>")
    elseif(TARGET wt_${part})
      list(APPEND plain "$<TARGET_OBJECTS:wt_${part}>")
    endif()
  endforeach()
  set(${out} ${own} ${plain} PARENT_SCOPE)
endfunction()

# Not of core's unity batches: it changes with every commit.
wt_part(build_info HOST "${WARPTAPE_GENERATED_DIR}/build_info.cpp" FLAVOURS plain)

# wt_library(FOLDER [EXCEPT ROOM] [USES targets...]): a part of the library, FOLDER/*.cpp and its rooms.
function(wt_library folder)
  cmake_parse_arguments(PARSE_ARGV 1 L "" "EXCEPT" "USES")
  set(except "")
  if(L_EXCEPT)
    set(except EXCEPT "^${L_EXCEPT}")
  endif()
  wt_files(sources ${folder}/*.cpp ${folder}/*/*.cpp ${except})
  string(REPLACE "/" "_" name ${folder})
  wt_part(${name} LIBRARY ${sources} FLAVOURS plain asan USES ${L_USES})
  set(WT_PARTS ${WT_PARTS} ${name} PARENT_SCOPE)
endfunction()

# What autograd/op_list.cpp lists: a family for every file of autograd/ops.
function(wt_op_families)
  wt_files(files autograd/ops/*.cpp)
  list(TRANSFORM files REPLACE "^.*/(.+)[.]cpp$" "WT_OP_FAMILY(\\1)\n")
  list(JOIN files "" lines)
  file(CONFIGURE OUTPUT "${WARPTAPE_GENERATED_DIR}/warptape/op_families.inc" CONTENT "${lines}" @ONLY)
endfunction()

# What core/print.cpp has in it for gdb: the text of tools/gdb_printers.py as the assembler takes it.
function(wt_gdb_printers)
  set(script tools/gdb_printers.py)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${script})
  file(READ ${script} text)
  string(REPLACE "\\" "\\\\" text "${text}")
  string(REPLACE "\"" "\\\"" text "${text}")
  string(REGEX REPLACE "([^\n]*)\n" "  .ascii \"\\1\\\\n\"\n" text "${text}")
  file(CONFIGURE OUTPUT "${WARPTAPE_GENERATED_DIR}/warptape/gdb_printers.inc" @ONLY
    CONTENT "asm(R\"asm(
  .pushsection \".debug_gdb_scripts\", \"MS\", %progbits, 1
  .byte 4
  .ascii \"warptape\\n\"
${text}  .byte 0
  .popsection
)asm\");
")
endfunction()

# wt_kernel_units(family cu|cpp header code parts...): a generated source file for each part of a family
# whose contracts are a list: they compile side by side, each within the budget. % in the code is
# the part.
function(wt_kernel_units family suffix header code)
  foreach(part IN LISTS ARGN)
    string(TOLOWER "${family}_${part}.${suffix}" name)
    string(REPLACE "%" ${part} line "${code}")
    set(file "${WARPTAPE_GENERATED_DIR}/warptape/kernels/${name}")
    file(CONFIGURE OUTPUT "${file}" @ONLY CONTENT
      "#include \"warptape/kernels/${header}\"\n\nnamespace wt {\n${line}\n}  // namespace wt\n")
    list(APPEND WT_UNITS_${suffix} "${file}")
  endforeach()
  set(WT_UNITS_${suffix} ${WT_UNITS_${suffix}} PARENT_SCOPE)
  set(WT_FAMILIES_${suffix} ${WT_FAMILIES_${suffix}} ${family} PARENT_SCOPE)
endfunction()

# What kernels/dispatch/all.cpp lists: the contracts of every kernels/x.h with an x.cpp in a room, and
# whether there is an x.cu.
function(wt_contracts)
  wt_files(present kernels/*.h)
  wt_files(sources kernels/*/*.cpp kernels/*/*.cu EXCEPT "^kernels/(dispatch|cpu|common|device|cuda|simt)/")
  list(TRANSFORM sources REPLACE "^.*/" "")
  set(lines "")
  foreach(header IN LISTS present)
    get_filename_component(family "${header}" NAME_WE)
    if("${family}.cpp" IN_LIST sources)
      set(has_cu 0)
      if("${family}.cu" IN_LIST sources OR family IN_LIST WT_FAMILIES_cu)
        set(has_cu 1)
      endif()
      string(APPEND lines
        "#undef WT_HAS_CU\n#define WT_HAS_CU ${has_cu}\n#include \"warptape/${header}\"\n")
    endif()
  endforeach()
  file(CONFIGURE OUTPUT "${WARPTAPE_GENERATED_DIR}/warptape/kernel_headers.inc"
    CONTENT "${lines}" @ONLY)
endfunction()

# A source's LANGUAGE is a property of the file, so the .cu that nvcc compiles cannot be a C++ source
# too: the simt device compiles a one-line file that includes it.
function(wt_host_sources out)
  set(files "")
  foreach(cu IN LISTS ARGN)
    get_filename_component(name "${cu}" NAME_WE)
    string(REPLACE "${WARPTAPE_GENERATED_DIR}/warptape/" "" cu "${cu}")
    set(file "${PROJECT_BINARY_DIR}/simt/${name}.host.cpp")
    file(CONFIGURE OUTPUT "${file}" CONTENT "#include \"warptape/${cu}\"\n" @ONLY)
    list(APPEND files "${file}")
  endforeach()
  set(${out} ${files} PARENT_SCOPE)
endfunction()

# wt_device_part(NAME FLAVOURS f... FILES x.cu...): wt_NAME_simt in these flavours and, with a CUDA
# toolkit, wt_NAME_cuda by nvcc. No relocatable device code: a plain C++ user of the static library
# could not link it. ptxas -v is free and survives the compiler cache; ptxas.sh keeps what it says.
function(wt_device_part name)
  cmake_parse_arguments(PARSE_ARGV 1 D "" "" "FLAVOURS;FILES")
  wt_host_sources(host ${D_FILES})
  if(WARPTAPE_HAS_SIMT)
    wt_part(${name}_simt SIMT ${host} FLAVOURS ${D_FLAVOURS})
  endif()
  if(NOT WARPTAPE_HAS_CUDA)
    return()
  endif()
  wt_object_library(wt_${name}_cuda ${D_FILES})
  target_compile_features(wt_${name}_cuda PRIVATE cuda_std_20)
  set_target_properties(wt_${name}_cuda PROPERTIES CUDA_SEPARABLE_COMPILATION OFF)
  target_compile_options(wt_${name}_cuda PRIVATE -lineinfo --expt-relaxed-constexpr
    "SHELL:-Xptxas -v,-warn-spills" "SHELL:-Werror cross-execution-space-call"
    "SHELL:-Xcompiler -Wall,-Wextra,-ftls-model=initial-exec")
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.8)
    target_compile_options(wt_${name}_cuda PRIVATE --compress-mode=size)
  endif()
endfunction()

# wt_kernels(HOST files...): kernels/ and its rooms. HOST: those that include CUDA headers, only built
# with CUDA and in no flavour instrumented: no sanitizer can follow them into the driver.
function(wt_kernels)
  cmake_parse_arguments(PARSE_ARGV 0 K "" "" "HOST")
  wt_contracts()
  wt_files(cpp kernels/*/*.cpp EXCEPT "^kernels/simt/")
  wt_files(cu kernels/*/*.cu)
  # Hopper's own instructions are in machine code for 90a alone, and a GPU's properties do not say what
  # it was built for.
  if(CMAKE_CUDA_ARCHITECTURES MATCHES "90a")
    set_property(SOURCE kernels/matmul/matmul_hopper.cu APPEND PROPERTY
      COMPILE_DEFINITIONS WARPTAPE_BUILT_FOR_90A)
  endif()
  # The only divisions in these kernels are those of the activations in their epilogues. Exact ones
  # are calls, and what lives across a call does not fit beside 128 sums; two units in the last place
  # of f32 are below what the result's rounding or the sum's order makes.
  set_property(SOURCE kernels/matmul/matmul.cu kernels/matmul/matmul_pipelined.cu kernels/matmul/matmul_small_tiles.cu
    kernels/matmul/matmul_tensor_core.cu APPEND PROPERTY
    COMPILE_OPTIONS $<$<COMPILE_LANGUAGE:CUDA>:-prec-div=false>)
  wt_files(vendor kernels/*/*_cublas.cpp)
  list(REMOVE_ITEM cpp ${K_HOST} ${vendor})
  # Contracts and references are batched; a fast variant is a world of its own, its names too.
  set(alone ${cpp})
  list(FILTER alone INCLUDE REGEX "(_cpu|_cudnn|/all)[.]cpp$")
  set_source_files_properties(${alone} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  wt_files(executor kernels/simt/*.cpp EXCEPT "/race_")
  wt_files(race kernels/simt/race_*.cpp)  # takes the place of libtsan
  wt_part(kernels_cpu CPU ${cpp} ${WT_UNITS_cpp} FLAVOURS plain asan USES OpenBLAS::OpenBLAS)
  wt_device_part(kernels FLAVOURS plain asan race FILES ${cu} ${WT_UNITS_cu})
  # Never instrumented: its fiber switches tell the sanitizers where they are, and instrumentation
  # would only slow it down.
  wt_part(simt EXECUTOR ${executor} FLAVOURS plain)
  # What several threads of the host share; no lane's stack reaches it. ThreadSanitizer must see the
  # counts of shared_ptr on both sides.
  if(WT_PLAIN STREQUAL "thread")
    set_source_files_properties(kernels/simt/device.cpp kernels/simt/graph.cpp kernels/simt/queued_work.cpp
      kernels/simt/queues.cpp PROPERTIES COMPILE_OPTIONS -fsanitize=thread)
  endif()
  wt_part(race_checker EXECUTOR ${race} FLAVOURS race)
  if(WARPTAPE_HAS_CUDA)
    wt_part(cuda_host HOST ${K_HOST} FLAVOURS plain USES CUDA::cudart)
    wt_part(kernels_vendor HOST ${vendor} FLAVOURS plain USES CUDA::cudart)
    wt_command_test(kernels/shared_symbols kernels tests/kernels/shared_symbols_test.sh
      "${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/wt_kernels_simt.dir"
      "${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/wt_kernels_cuda.dir")
  endif()
  set(WT_PARTS ${WT_PARTS} kernels_simt kernels_cpu race_checker simt cuda_host kernels_cuda
    kernels_vendor PARENT_SCOPE)
endfunction()

# The library itself: all of its parts are known.
function(wt_link_library)
  set(BUILD_SHARED_LIBS ${WARPTAPE_SHARED})
  wt_objects(objects plain ${WT_PARTS})
  add_library(warptape ${objects})
  add_library(warptape::warptape ALIAS warptape)
  set_target_properties(warptape PROPERTIES LINKER_LANGUAGE CXX EXPORT_NAME warptape
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  target_compile_features(warptape PUBLIC cxx_std_20)
  target_link_libraries(warptape PRIVATE wt_features)
  target_link_options(warptape INTERFACE ${WT_LINK_plain})
  if(WARPTAPE_SHARED)
    target_link_options(warptape PRIVATE ${WT_LINK_SMALL})
  else()  # a user's program too: half of it would be lines of simt's kernels
    target_link_options(warptape INTERFACE ${WT_LINK_SMALL})
  endif()
  # Public headers: of kernels/ the contracts and what these include, of the other folders all but those
  # that call themselves internal in the comment at their head. Each is compiled alone by the target
  # all_verify_interface_header_sets.
  wt_files(present core/*.h autograd/*.h autograd/ops/*.h nn/*.h optim/*.h data/*.h dist/*.h kernels/*.h
    kernels/common/float_math.h kernels/common/normal_math.h kernels/common/strided.h)
  set(headers "")
  foreach(header IN LISTS present WT_MOVED_HEADERS)
    file(READ "${PROJECT_SOURCE_DIR}/${header}" text LIMIT 4000)
    string(REGEX REPLACE "#pragma once.*" "" text "${text}")
    if(NOT text MATCHES "Internal[^A-Za-z]")
      list(APPEND headers "${WARPTAPE_INCLUDE_DIR}/warptape/${header}")
    endif()
  endforeach()
  set_target_properties(warptape PROPERTIES VERIFY_INTERFACE_HEADER_SETS ${PROJECT_IS_TOP_LEVEL}
    INTERFACE_HEADER_SETS_TO_VERIFY HEADERS)
  target_sources(warptape PUBLIC FILE_SET HEADERS
    BASE_DIRS "${WARPTAPE_INCLUDE_DIR}" "${WARPTAPE_GENERATED_DIR}"
    FILES ${headers} "${WARPTAPE_GENERATED_DIR}/warptape/version.h"
      "${WARPTAPE_GENERATED_DIR}/warptape/warptape.h")
  target_sources(warptape PUBLIC FILE_SET moved_headers TYPE HEADERS
    BASE_DIRS "${WARPTAPE_GENERATED_DIR}" FILES ${WT_FORWARDING_HEADERS})
endfunction()

# What the wt command and the tests share.
function(wt_tool_library)
  if(WARPTAPE_BUILD_TOOLS OR WARPTAPE_BUILD_TESTS)
    wt_files(sources tools/wt/*.cpp tools/wt/*/*.cpp EXCEPT "/(wt|wt_.*|model_options|command_line)[.]cpp$")
    wt_part(tool_parts LIBRARY ${sources} FLAVOURS plain asan)
  endif()
endfunction()

# The wt command: tools/wt/wt.cpp, one file a subcommand, and bench/, the measuring code of `wt bench`.
# Beside a shared library it has the library's objects: what is measured and inspected is not exported.
function(wt_tool)
  find_package(CLI11 CONFIG QUIET)
  if(NOT CLI11_FOUND)
    set(WT_TABLE "${WT_TABLE}\n--   [ ] wt         left out: apt-get install libcli11-dev" PARENT_SCOPE)
    return()
  endif()
  wt_files(sources tools/wt/wt.cpp tools/wt/wt_*.cpp tools/wt/grade/wt_*.cpp tools/wt/lab/wt_*.cpp tools/wt/look/wt_*.cpp
    tools/wt/measure/wt_*.cpp tools/wt/recipes/wt_*.cpp tools/wt/tape/wt_*.cpp tools/wt/command_line.cpp
    tools/wt/model_options.cpp bench/*.cpp bench/machine/*.cpp EXCEPT "^bench/kernels_cpu|/disk_file[.]cpp$|_main[.]cpp$")
  # The table of machine code goes into the program, which may be installed anywhere.
  set(table "${PROJECT_BINARY_DIR}/sass_table_sm_90a.cpp")
  set(from "${PROJECT_SOURCE_DIR}/bench/sass/sm_90a.txt")
  add_custom_command(OUTPUT "${table}"
    COMMAND "${CMAKE_COMMAND}" "-DIN=${from}" "-DOUT=${table}" -DNAME=sass_table_sm_90a
      -P "${PROJECT_SOURCE_DIR}/cmake/embed.cmake"
    DEPENDS "${from}" "${PROJECT_SOURCE_DIR}/cmake/embed.cmake")
  list(APPEND sources "${table}")
  set(parts tool_parts measure kernel_bench)
  set(library warptape::warptape)
  if(WARPTAPE_SHARED)
    list(APPEND parts ${WT_PARTS})
    set(library wt_features)
  endif()
  wt_objects(objects plain ${parts})
  add_library(wt_command OBJECT ${sources})
  target_link_libraries(wt_command PRIVATE wt_common ${library} CLI11::CLI11)
  target_compile_options(wt_command PRIVATE ${WT_LIBRARY_plain})
  wt_unity(wt_command)
  add_executable(wt tools/wt/wt_main.cpp $<TARGET_OBJECTS:wt_command> ${objects})
  set_target_properties(wt PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(wt PRIVATE wt_common ${library})
  target_link_options(wt PRIVATE ${WT_LINK_plain} ${WT_LINK_SMALL})
  if(WARPTAPE_HAS_SIMT)  # kernels that it loads call its executor (WT_KERNEL_FILE)
    target_link_options(wt PRIVATE "-Wl,--dynamic-list=${PROJECT_SOURCE_DIR}/cmake/kernel_file.list")
  endif()
  # The same command over kernels that say what they access, which `wt bench counters` goes on as.
  if("race" IN_LIST WT_FLAVOURS)
    wt_objects(objects race tool_parts measure kernel_bench ${WT_PARTS})
    add_executable(wt_race tools/wt/wt_main.cpp $<TARGET_OBJECTS:wt_command> ${objects})
    set_target_properties(wt_race PROPERTIES LINKER_LANGUAGE CXX)
    target_link_libraries(wt_race PRIVATE wt_common wt_features)
    target_link_options(wt_race PRIVATE ${WT_LINK_race} ${WT_LINK_SMALL} ${WT_LINK_QUICK})
  endif()
endfunction()

# What measures: bench/gpu, of .cpp and .cu files, the latter for simt and, with a CUDA toolkit, once more by
# nvcc. Tests are linked with it too.
function(wt_bench_parts)
  if(NOT WARPTAPE_BUILD_TOOLS AND NOT WARPTAPE_BUILD_TESTS)
    return()
  endif()
  wt_files(problems bench/gpu/problems*.cpp bench/kernels_cpu.cpp)
  wt_part(kernel_bench LIBRARY ${problems} FLAVOURS plain)
  wt_files(steps bench/steps/*.cpp)
  wt_part(measure HOST bench/gpu/measure.cpp bench/gpu/ceilings_file.cpp bench/machine/disk_file.cpp ${steps} FLAVOURS plain)
  wt_files(cu bench/gpu/*.cu)
  wt_device_part(bench FLAVOURS plain FILES ${cu})
  set(left_out "/problems|/(measure|ceilings_file)[.]cpp$|_main[.]cpp$")
  if(NOT WARPTAPE_HAS_CUDA)
    string(APPEND left_out "|_cublas[.]cpp$")
  endif()
  wt_files(sources bench/gpu/*.cpp EXCEPT "${left_out}")
  wt_part(device_bench HOST ${sources} FLAVOURS plain USES CUDA::cudart)
  set(WT_BENCH_PARTS device_bench measure kernel_bench bench_simt bench_cuda PARENT_SCOPE)
endfunction()

# Programs that measure: wt_gpu_bench (ceilings, kernels and steps on one device), and simt_bench, what the
# executor costs, built when named.
function(wt_bench)
  # The library's objects, not the library: what is measured is not part of its interface.
  wt_objects(objects plain ${WT_BENCH_PARTS} ${WT_PARTS})
  add_executable(wt_gpu_bench bench/gpu/gpu_bench_main.cpp ${objects})
  set_target_properties(wt_gpu_bench PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(wt_gpu_bench PRIVATE wt_common wt_features)
  target_link_options(wt_gpu_bench PRIVATE ${WT_LINK_plain} ${WT_LINK_SMALL})
  # Every variant against the cpu, and the harness itself, on simt.
  set(program "$<TARGET_FILE:wt_gpu_bench>")
  wt_command_test(bench/gpu_check kernels ${program} check --device simt)
  wt_command_test(bench/gpu_kernels kernels ${program} kernels --device simt --scale small
    --seconds 0.001)
  wt_command_test(bench/gpu_bench kernels tests/bench/gpu_bench_test.sh ${program})

  wt_host_sources(host bench/simt_bench.cu)
  add_executable(simt_bench EXCLUDE_FROM_ALL ${host})
  target_link_libraries(simt_bench PRIVATE wt_common warptape::warptape)
  target_compile_options(simt_bench PRIVATE ${WT_SIMT_plain} -ftls-model=initial-exec)
endfunction()

# wt_examples([NAME BOUND]...): complete user programs, tools/examples/*.cpp, with nothing but the public
# library. ctest runs each with --steps 3, and one with a bound once more as it is: the number at
# the end of its last line must be below that.
function(wt_examples)
  wt_files(names tools/examples/*.cpp)
  list(TRANSFORM names REPLACE "^.*/(.+)[.]cpp$" "\\1")
  cmake_parse_arguments(PARSE_ARGV 0 bound "" "${names}" "")
  foreach(name IN LISTS names)
    add_executable(example_${name} tools/examples/${name}.cpp)
    target_link_libraries(example_${name} PRIVATE warptape::warptape)
    target_compile_options(example_${name} PRIVATE ${WT_WARNINGS} ${WT_LIBRARY_plain})
    target_link_options(example_${name} PRIVATE ${WT_LINK_QUICK})
    wt_command_test(examples/${name} examples "$<TARGET_FILE:example_${name}>" --steps 3)
    if(bound_${name})
      wt_command_test(examples/${name}_result examples tests/tools/example_test.sh
        "$<TARGET_FILE:example_${name}>" ${bound_${name}})
    endif()
  endforeach()
endfunction()

# wt_doc_pages(pages...): the ```cpp blocks of a page as one program that is compiled and run
# (tests/docs/snippets.py); ```c++ blocks of all pages are compared with the files they are of.
function(wt_doc_pages)
  find_program(WARPTAPE_PYTHON3 NAMES python3)
  mark_as_advanced(WARPTAPE_PYTHON3)
  if(NOT WARPTAPE_BUILD_TESTS OR NOT WARPTAPE_PYTHON3)
    return()
  endif()
  file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/docs")
  foreach(page ${ARGN})
    get_filename_component(name "${page}" NAME_WE)
    set(source "${PROJECT_BINARY_DIR}/docs/${name}.cpp")
    set(script "${PROJECT_SOURCE_DIR}/tests/docs/snippets.py")
    add_custom_command(OUTPUT "${source}"
      COMMAND "${WARPTAPE_PYTHON3}" "${script}" "${PROJECT_SOURCE_DIR}/${page}" "${source}"
      DEPENDS "${PROJECT_SOURCE_DIR}/${page}" "${script}")
    add_executable(doc_${name} "${source}")
    target_link_libraries(doc_${name} PRIVATE warptape::warptape)
    target_compile_options(doc_${name} PRIVATE ${WT_WARNINGS} -O0)
    target_link_options(doc_${name} PRIVATE ${WT_LINK_QUICK})
    wt_command_test(docs/${name} examples "$<TARGET_FILE:doc_${name}>")
  endforeach()
  set(python "${WARPTAPE_PYTHON3}" "${PROJECT_SOURCE_DIR}/tests/docs")
  wt_command_test(docs/excerpts examples ${python}/excerpts.py)
  wt_command_test(docs/articles_rows examples ${python}/articles.py)
  wt_command_test(docs/paths examples ${python}/paths.py)
  wt_command_test(docs/reference examples ${python}/reference_test.py)
  wt_command_test(docs/course examples ${python}/course.py)
  wt_command_test(docs/course_faults examples ${python}/course_test.py)
  set(generator "${WARPTAPE_PYTHON3}" "${PROJECT_SOURCE_DIR}/tools/generators/course")
  wt_command_test(docs/course_figures examples ${generator}_figures.py --check)
  wt_command_test(docs/course_listings examples ${generator}_listings.py --check)
  if(TARGET wt)
    wt_command_test(docs/built examples ${python}/built.py "$<TARGET_FILE:wt>")
    wt_command_test(docs/course_runs examples ${generator}_runs.py --check "$<TARGET_FILE:wt>")
  endif()
endfunction()
