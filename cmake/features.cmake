# Optional parts. Each has WARPTAPE_WITH_X = AUTO | ON | OFF: AUTO uses it if found, ON stops with
# words if not, OFF never looks. Nothing is ever downloaded. The rows are printed by
# wt_feature_table() and compiled in for `wt info` and wt::build_info().

set(WT_FEATURE_ROWS "")  # names, in order; WT_FEATURE_<name>_{STATE,VERSION,HOW}

# Declares the option and sets WT_LOOK_<name>.
macro(wt_feature_option name what)
  set(WARPTAPE_WITH_${name} AUTO CACHE STRING "${what}: AUTO, ON or OFF")
  set_property(CACHE WARPTAPE_WITH_${name} PROPERTY STRINGS AUTO ON OFF)
  string(TOUPPER "${WARPTAPE_WITH_${name}}" wt_with)
  if(wt_with STREQUAL "AUTO")
    set(WT_LOOK_${name} TRUE)
  elseif(wt_with MATCHES "^(ON|YES|TRUE|1)$")
    set(WT_LOOK_${name} TRUE)
    set(wt_with ON)
  elseif(wt_with MATCHES "^(OFF|NO|FALSE|0)$")
    set(WT_LOOK_${name} FALSE)
    set(wt_with OFF)
  else()
    message(FATAL_ERROR
      "WARPTAPE_WITH_${name} is '${WARPTAPE_WITH_${name}}': say AUTO, ON or OFF")
  endif()
  set(WT_WITH_${name} ${wt_with})
endmacro()

# Records what the search found and sets WARPTAPE_HAS_<name> (0 or 1). how: how to get it.
macro(wt_feature_found name found version how)
  list(APPEND WT_FEATURE_ROWS ${name})
  set(WT_FEATURE_${name}_HOW "${how}")
  set(WT_FEATURE_${name}_VERSION "")
  set(WARPTAPE_HAS_${name} 0)
  if(WT_WITH_${name} STREQUAL "OFF")
    set(WT_FEATURE_${name}_STATE "off")
    set(WT_FEATURE_${name}_HOW "configure with -DWARPTAPE_WITH_${name}=AUTO")
  elseif(${found})
    set(WT_FEATURE_${name}_STATE "on")
    set(WT_FEATURE_${name}_VERSION "${version}")
    set(WT_FEATURE_${name}_HOW "")
    set(WARPTAPE_HAS_${name} 1)
  elseif(WT_WITH_${name} STREQUAL "ON")
    message(FATAL_ERROR "WARPTAPE_WITH_${name}=ON, but it was not found.\n"
      "  How to get it: ${how}\n"
      "  Or build without it: -DWARPTAPE_WITH_${name}=AUTO")
  else()
    set(WT_FEATURE_${name}_STATE "missing")
  endif()
endmacro()

# A project that adds warptape as a subdirectory links what is found here.
set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL TRUE)

include(cmake/cuda.cmake)

wt_feature_option(CUDNN "cuDNN vendor kernels")
if(WT_LOOK_CUDNN AND WARPTAPE_HAS_CUDA)
  find_package(CUDNN 9 MODULE QUIET)
endif()
wt_feature_found(CUDNN CUDNN_FOUND "${CUDNN_VERSION}"
  "needs cuda; apt-get install libcudnn9-dev-cuda-13 (NVIDIA's repository) or pip install nvidia-cudnn-cu13; -DCUDNN_ROOT=DIR says where it is")

wt_feature_option(NCCL "NCCL collectives between GPUs")
if(WT_LOOK_NCCL AND WARPTAPE_HAS_CUDA)
  find_package(NCCL 2 MODULE QUIET)
endif()
wt_feature_found(NCCL NCCL_FOUND "${NCCL_VERSION}"
  "needs cuda; apt-get install libnccl-dev (NVIDIA's repository) or pip install nvidia-nccl-cu13; -DNCCL_ROOT=DIR says where it is")

wt_feature_option(OPENBLAS "OpenBLAS for matrix products on the cpu device")
if(WT_LOOK_OPENBLAS)
  find_package(OpenBLAS MODULE QUIET)
endif()
wt_feature_found(OPENBLAS OpenBLAS_FOUND "${OpenBLAS_VERSION}"
  "apt-get install libopenblas-pthread-dev; -DOpenBLAS_ROOT=DIR says where it is")

wt_feature_option(SPNG "libspng for PNG images")
if(WT_LOOK_SPNG)
  find_package(SPNG 0.7 MODULE QUIET)
endif()
wt_feature_found(SPNG SPNG_FOUND "${SPNG_VERSION}"
  "apt-get install libspng-dev; -DSPNG_ROOT=DIR says where it is")

wt_feature_option(ZLIB "zlib for gzip files")
if(WT_LOOK_ZLIB)
  find_package(ZLIB QUIET)
endif()
wt_feature_found(ZLIB ZLIB_FOUND "${ZLIB_VERSION_STRING}"
  "apt-get install zlib1g-dev; -DZLIB_ROOT=DIR says where it is")

# What the library links. Only the sources that use a part are compiled with its headers
# (wt_uses), so that the other objects are the same with and without it.
add_library(wt_features INTERFACE)
if(WARPTAPE_HAS_CUDA)
  target_link_libraries(wt_features INTERFACE CUDA::cudart CUDA::cublas CUDA::cublasLt)
endif()
if(WARPTAPE_HAS_OPENBLAS)
  target_link_libraries(wt_features INTERFACE OpenBLAS::OpenBLAS)
endif()
if(WARPTAPE_HAS_SPNG)
  target_link_libraries(wt_features INTERFACE SPNG::SPNG)
endif()
if(WARPTAPE_HAS_ZLIB)
  target_link_libraries(wt_features INTERFACE ZLIB::ZLIB)
endif()
find_package(Threads REQUIRED)
target_link_libraries(wt_features INTERFACE Threads::Threads ${CMAKE_DL_LIBS})

# wt_uses(target names...): compiles the target with the headers of these imported targets.
function(wt_uses target)
  foreach(part IN LISTS ARGN)
    if(TARGET ${part})
      target_include_directories(${target} SYSTEM PRIVATE
        "$<TARGET_PROPERTY:${part},INTERFACE_INCLUDE_DIRECTORIES>")
    endif()
  endforeach()
endfunction()

# Generated headers and the compiled-in table.
find_package(Git QUIET)
set(WARPTAPE_GIT_COMMIT "")
if(GIT_FOUND)
  execute_process(COMMAND ${GIT_EXECUTABLE} -C "${PROJECT_SOURCE_DIR}" rev-parse --short=12 HEAD
    OUTPUT_VARIABLE WARPTAPE_GIT_COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  # Configured again whenever another commit is checked out: results name the commit they are of.
  execute_process(COMMAND ${GIT_EXECUTABLE} -C "${PROJECT_SOURCE_DIR}"
    rev-parse --path-format=absolute --git-path logs/HEAD
    OUTPUT_VARIABLE wt_log OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(wt_log AND EXISTS "${wt_log}")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${wt_log}")
  endif()
endif()
set(WT_FEATURE_INITIALISERS "")
foreach(name IN LISTS WT_FEATURE_ROWS)
  string(TOLOWER "${name}" lower)
  string(APPEND WT_FEATURE_INITIALISERS "    {\"${lower}\", \"${WT_FEATURE_${name}_STATE}\", "
    "\"${WT_FEATURE_${name}_VERSION}\",\n     \"${WT_FEATURE_${name}_HOW}\"},\n")
endforeach()
configure_file(cmake/version.h.in "${WARPTAPE_GENERATED_DIR}/warptape/version.h" @ONLY)
configure_file(cmake/warptape.h "${WARPTAPE_GENERATED_DIR}/warptape/warptape.h" COPYONLY)
configure_file(cmake/config.h.in "${WARPTAPE_GENERATED_DIR}/warptape/config.h" @ONLY)
configure_file(cmake/build_info.cpp.in "${WARPTAPE_GENERATED_DIR}/build_info.cpp" @ONLY)

function(wt_feature_table)
  set(devices "cpu, simt")
  if(WARPTAPE_HAS_CUDA)
    string(APPEND devices ", cuda (${CMAKE_CUDA_ARCHITECTURES})")
  endif()
  message(STATUS "warptape ${PROJECT_VERSION}, ${CMAKE_BUILD_TYPE}, devices: ${devices}")
  foreach(name IN LISTS WT_FEATURE_ROWS)
    string(TOLOWER "${name}" lower)
    set(row "${lower}          ")
    string(SUBSTRING "${row}" 0 10 row)
    if(WT_FEATURE_${name}_STATE STREQUAL "on")
      message(STATUS "  [x] ${row} ${WT_FEATURE_${name}_VERSION}")
    else()
      message(STATUS "  [ ] ${row} ${WT_FEATURE_${name}_STATE}: ${WT_FEATURE_${name}_HOW}")
    endif()
  endforeach()
  foreach(row IN LISTS WT_LEFT_OUT)
    message(STATUS "  [ ] ${row}")
  endforeach()
endfunction()
