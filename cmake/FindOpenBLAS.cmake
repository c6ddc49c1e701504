# OpenBLAS with its C interface: OpenBLAS::OpenBLAS. Debian's own CMake file lies off the search path
# and defines only variables. Hint: OpenBLAS_ROOT.
find_path(OpenBLAS_INCLUDE_DIR NAMES cblas.h
  PATH_SUFFIXES openblas openblas-pthread ${CMAKE_LIBRARY_ARCHITECTURE}/openblas-pthread
  ${CMAKE_LIBRARY_ARCHITECTURE})
find_library(OpenBLAS_LIBRARY NAMES openblas
  PATH_SUFFIXES openblas-pthread openblas-serial openblas-openmp)
find_file(OpenBLAS_CONFIG_H NAMES openblas_config.h HINTS "${OpenBLAS_INCLUDE_DIR}"
  PATH_SUFFIXES openblas openblas-pthread ${CMAKE_LIBRARY_ARCHITECTURE}/openblas-pthread)
mark_as_advanced(OpenBLAS_INCLUDE_DIR OpenBLAS_LIBRARY OpenBLAS_CONFIG_H)
if(OpenBLAS_CONFIG_H)
  file(STRINGS "${OpenBLAS_CONFIG_H}" wt_line REGEX "define OPENBLAS_VERSION")
  string(REGEX MATCH "[0-9]+[.][0-9]+[.][0-9]+" OpenBLAS_VERSION "${wt_line}")
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OpenBLAS REQUIRED_VARS OpenBLAS_LIBRARY OpenBLAS_INCLUDE_DIR
  VERSION_VAR OpenBLAS_VERSION)
if(OpenBLAS_FOUND AND NOT TARGET OpenBLAS::OpenBLAS)
  add_library(OpenBLAS::OpenBLAS UNKNOWN IMPORTED)
  set_target_properties(OpenBLAS::OpenBLAS PROPERTIES IMPORTED_LOCATION "${OpenBLAS_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${OpenBLAS_INCLUDE_DIR}")
endif()
