# Optional parts. Each has WARPTAPE_WITH_X = AUTO | ON | OFF: AUTO uses it if found, ON stops with
# words if not, OFF never looks. Nothing is ever downloaded. The rows are printed at
# the end and compiled in for `wt info` and wt::build_info().

set(WT_FEATURE_INITIALISERS "")
set(WT_TABLE "")       # what configure ends with
set(WT_DEVICES "cpu, simt")
set(WT_PC_PRIVATE "")  # what pkg-config is told to link

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
  set(WARPTAPE_HAS_${name} 0)
  if(NOT WT_LOOK_${name})
    wt_feature_row(${name} off "" "configure with -DWARPTAPE_WITH_${name}=AUTO")
  elseif(${found})
    set(WARPTAPE_HAS_${name} 1)
    wt_feature_row(${name} on "${version}" "")
  elseif(WT_WITH_${name} STREQUAL "AUTO")
    wt_feature_row(${name} missing "" "${how}")
  else()
    message(FATAL_ERROR "WARPTAPE_WITH_${name}=ON, but it was not found.\n"
      "  How to get it: ${how}\n"
      "  Or build without it: -DWARPTAPE_WITH_${name}=AUTO")
  endif()
endmacro()

# A row of build_info.cpp and one of the table that configure prints.
macro(wt_feature_row name state version how)
  string(TOLOWER "${name}" wt_lower)
  string(APPEND WT_FEATURE_INITIALISERS
    "    {\"${wt_lower}\", \"${state}\", \"${version}\",\n     \"${how}\"},\n")
  string(SUBSTRING "${wt_lower}          " 0 10 wt_lower)
  if("${state}" STREQUAL "on")
    string(APPEND WT_TABLE "\n--   [x] ${wt_lower} ${version}")
  else()
    string(APPEND WT_TABLE "\n--   [ ] ${wt_lower} ${state}: ${how}")
  endif()
endmacro()

# wt_package(NAME Package version what package-of-Debian [PART...]): a part that is one library, of use
# only with these other parts.
macro(wt_package name package version what apt)
  wt_feature_option(${name} "${what}")
  if(WT_LOOK_${name})
    find_package(${package} ${version} MODULE QUIET)
  endif()
  set(wt_version "${${package}_VERSION}")
  if(NOT wt_version)  # ZLIB before CMake 3.26, LibLZMA
    string(TOUPPER "${package}" wt_upper)
    set(wt_version "${${wt_upper}_VERSION_STRING}")
  endif()
  set(wt_how "apt-get install ${apt}; -D${package}_ROOT=DIR says where it is")
  foreach(part IN ITEMS ${ARGN})
    if(NOT WARPTAPE_HAS_${part})
      set(${package}_FOUND FALSE)
      set(wt_how "it needs ${part}, which this build lacks")
    endif()
  endforeach()
  wt_feature_found(${name} ${package}_FOUND "${wt_version}" "${wt_how}")
  if(WARPTAPE_HAS_${name})
    target_link_libraries(wt_features INTERFACE ${package}::${package})
    get_target_property(wt_library_file ${package}::${package} IMPORTED_LOCATION)
    if(NOT wt_library_file)  # a library for each configuration
      get_target_property(wt_library_file ${package}::${package} IMPORTED_LOCATION_RELEASE)
    endif()
    string(APPEND WT_PC_PRIVATE " ${wt_library_file}")
  endif()
endmacro()

# A project that adds warptape as a subdirectory links what is found here.
set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL TRUE)

# What the library links. Only the sources that use a part are compiled with its headers
# (wt_uses), so that the other objects are the same with and without it.
find_package(Threads REQUIRED)
add_library(wt_features INTERFACE)
target_link_libraries(wt_features INTERFACE Threads::Threads ${CMAKE_DL_LIBS})
# The kernels of the simt device are a fifth of all compiling.
wt_feature_option(SIMT "the kernels of the simt device")
set(WARPTAPE_HAS_SIMT 1)
if(NOT WT_LOOK_SIMT)
  set(WARPTAPE_HAS_SIMT 0)
  set(WT_DEVICES "cpu")
  wt_feature_row(SIMT off "" "configure with -DWARPTAPE_WITH_SIMT=AUTO")
  if(WARPTAPE_BUILD_TESTS)
    message(FATAL_ERROR "The tests need the simt device: -DWARPTAPE_WITH_SIMT=ON or -DWARPTAPE_BUILD_TESTS=OFF")
  endif()
endif()
include(cmake/cuda.cmake)
wt_package(OPENBLAS OpenBLAS "" "OpenBLAS for matrix products on the cpu device"
  libopenblas-pthread-dev)
wt_package(ZLIB ZLIB "" "zlib for gzip files" zlib1g-dev)
wt_package(LZMA LibLZMA "" "liblzma for xz files" liblzma-dev)
wt_package(LMDB LMDB "" "LMDB for its databases" liblmdb-dev)
wt_package(SPNG SPNG 0.7 "libspng for PNG images" libspng-dev ZLIB)
wt_package(JPEG JPEG "" "libjpeg-turbo for JPEG images" libjpeg-dev)
wt_package(WEBP WebP "" "libwebp for WebP images" libwebp-dev)

# The C interface alone: its wrapper, asked by FindMPI in the name of C++, as no C is enabled here.
wt_feature_option(MPI "MPI for ranks in several processes")
if(WT_LOOK_MPI)
  include(cmake/find_mpi.cmake)
endif()
wt_feature_found(MPI MPI_CXX_FOUND "${MPI_CXX_VERSION}"
  "apt-get install libopenmpi-dev openmpi-bin; -DMPI_HOME=DIR says where it is")
if(WARPTAPE_HAS_MPI)
  target_link_libraries(wt_features INTERFACE MPI::MPI_CXX)
  list(JOIN MPI_CXX_LIBRARIES " " wt_libraries)
  string(APPEND WT_PC_PRIVATE " ${wt_libraries}")
endif()

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
execute_process(COMMAND git -C "${PROJECT_SOURCE_DIR}" rev-parse --short=12 HEAD
  OUTPUT_VARIABLE WARPTAPE_GIT_COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
# Configured again whenever another commit is checked out: results name the commit they are of.
execute_process(COMMAND git -C "${PROJECT_SOURCE_DIR}" rev-parse --path-format=absolute --git-path
  logs/HEAD OUTPUT_VARIABLE wt_log OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(wt_log AND EXISTS "${wt_log}")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${wt_log}")
endif()
configure_file(cmake/version.h.in "${WARPTAPE_GENERATED_DIR}/warptape/version.h" @ONLY)
configure_file(cmake/warptape.h "${WARPTAPE_GENERATED_DIR}/warptape/warptape.h" COPYONLY)
configure_file(cmake/config.h.in "${WARPTAPE_GENERATED_DIR}/warptape/config.h" @ONLY)
configure_file(cmake/build_info.cpp.in "${WARPTAPE_GENERATED_DIR}/build_info.cpp" @ONLY)
