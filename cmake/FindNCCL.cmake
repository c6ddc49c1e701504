# NCCL: NCCL::nccl. Accepts the Python wheel's layout, which has no unversioned link.
# Hint: NCCL_ROOT.
include("${CMAKE_CURRENT_LIST_DIR}/python_wheel.cmake")
if(NOT NCCL_LIBRARY)
  wt_python_wheel(nvidia.nccl wt_wheel)
endif()
find_path(NCCL_INCLUDE_DIR NAMES nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS}
  PATHS ${wt_wheel} PATH_SUFFIXES include)
find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS "${CUDAToolkit_LIBRARY_DIR}"
  PATHS ${wt_wheel} PATH_SUFFIXES lib)
mark_as_advanced(NCCL_INCLUDE_DIR NCCL_LIBRARY)
if(NCCL_INCLUDE_DIR)
  file(STRINGS "${NCCL_INCLUDE_DIR}/nccl.h" wt_lines
    REGEX "define NCCL_(MAJOR|MINOR|PATCH) ")
  string(REGEX MATCHALL " [0-9]+" wt_numbers "${wt_lines}")
  string(REPLACE " " "" wt_numbers "${wt_numbers}")
  string(REPLACE ";" "." NCCL_VERSION "${wt_numbers}")
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(NCCL REQUIRED_VARS NCCL_LIBRARY NCCL_INCLUDE_DIR
  VERSION_VAR NCCL_VERSION)
if(NCCL_FOUND AND NOT TARGET NCCL::nccl)
  add_library(NCCL::nccl UNKNOWN IMPORTED)
  set_target_properties(NCCL::nccl PROPERTIES IMPORTED_LOCATION "${NCCL_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${NCCL_INCLUDE_DIR}")
endif()
