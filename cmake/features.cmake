# Optional parts. Each has WARPTAPE_WITH_X = AUTO | ON | OFF: AUTO uses it if found, ON stops with
# words if not, OFF never looks. Nothing is ever downloaded. The rows are printed by
# wt_feature_table() and compiled in for `wt info` and wt::build_info().

set(WT_FEATURE_ROWS "")  # names, in order; WT_FEATURE_<name>_{STATE,VERSION,HOW}

# Declares the option and sets WT_WITH_<name> and WT_LOOK_<name>.
macro(wt_feature_option name what)
  set(WARPTAPE_WITH_${name} AUTO CACHE STRING "${what}: AUTO, ON or OFF")
  set_property(CACHE WARPTAPE_WITH_${name} PROPERTY STRINGS AUTO ON OFF)
  string(TOUPPER "${WARPTAPE_WITH_${name}}" WT_WITH_${name})
  set(WT_LOOK_${name} TRUE)
  if(WT_WITH_${name} MATCHES "^(OFF|NO|FALSE|0)$")
    set(WT_LOOK_${name} FALSE)
  elseif(NOT WT_WITH_${name} MATCHES "^(AUTO|ON|YES|TRUE|1)$")
    message(FATAL_ERROR
      "WARPTAPE_WITH_${name} is '${WARPTAPE_WITH_${name}}': say AUTO, ON or OFF")
  endif()
endmacro()

# Records what the search found and sets WARPTAPE_HAS_<name> (0 or 1). how: how to get it.
macro(wt_feature_found name found version how)
  list(APPEND WT_FEATURE_ROWS ${name})
  set(WT_FEATURE_${name}_HOW "${how}")
  set(WT_FEATURE_${name}_VERSION "")
  set(WARPTAPE_HAS_${name} 0)
  if(NOT WT_LOOK_${name})
    set(WT_FEATURE_${name}_STATE "off")
    set(WT_FEATURE_${name}_HOW "configure with -DWARPTAPE_WITH_${name}=AUTO")
  elseif(${found})
    set(WT_FEATURE_${name}_STATE "on")
    set(WT_FEATURE_${name}_VERSION "${version}")
    set(WT_FEATURE_${name}_HOW "")
    set(WARPTAPE_HAS_${name} 1)
  elseif(WT_WITH_${name} STREQUAL "AUTO")
    set(WT_FEATURE_${name}_STATE "missing")
  else()
    message(FATAL_ERROR "WARPTAPE_WITH_${name}=ON, but it was not found.\n"
      "  How to get it: ${how}\n"
      "  Or build without it: -DWARPTAPE_WITH_${name}=AUTO")
  endif()
endmacro()

# wt_package(NAME Package version what package-of-Debian): a part that is one library.
macro(wt_package name package version what apt)
  wt_feature_option(${name} "${what}")
  if(WT_LOOK_${name})
    find_package(${package} ${version} MODULE QUIET)
  endif()
  set(wt_version "${${package}_VERSION}")
  if(NOT wt_version)  # ZLIB before CMake 3.26
    set(wt_version "${${package}_VERSION_STRING}")
  endif()
  wt_feature_found(${name} ${package}_FOUND "${wt_version}"
    "apt-get install ${apt}; -D${package}_ROOT=DIR says where it is")
  if(WARPTAPE_HAS_${name})
    target_link_libraries(wt_features INTERFACE ${package}::${package})
  endif()
endmacro()

# A project that adds warptape as a subdirectory links what is found here.
set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL TRUE)

# What the library links. Only the sources that use a part are compiled with its headers
# (wt_uses), so that the other objects are the same with and without it.
find_package(Threads REQUIRED)
add_library(wt_features INTERFACE)
target_link_libraries(wt_features INTERFACE Threads::Threads ${CMAKE_DL_LIBS})
include(cmake/cuda.cmake)
wt_package(OPENBLAS OpenBLAS "" "OpenBLAS for matrix products on the cpu device"
  libopenblas-pthread-dev)
wt_package(SPNG SPNG 0.7 "libspng for PNG images" libspng-dev)
wt_package(ZLIB ZLIB "" "zlib for gzip files" zlib1g-dev)

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
