# cuDNN: CUDNN::cudnn. Accepts the Python wheel's layout, which has no unversioned link.
# Hint: CUDNN_ROOT.
include("${CMAKE_CURRENT_LIST_DIR}/python_wheel.cmake")
if(NOT CUDNN_LIBRARY)
  wt_python_wheel(nvidia.cudnn wt_wheel)
endif()
find_path(CUDNN_INCLUDE_DIR NAMES cudnn_version.h HINTS ${CUDAToolkit_INCLUDE_DIRS}
  PATHS ${wt_wheel} PATH_SUFFIXES include)
find_library(CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 HINTS "${CUDAToolkit_LIBRARY_DIR}"
  PATHS ${wt_wheel} PATH_SUFFIXES lib)
mark_as_advanced(CUDNN_INCLUDE_DIR CUDNN_LIBRARY)
if(CUDNN_INCLUDE_DIR)
  file(STRINGS "${CUDNN_INCLUDE_DIR}/cudnn_version.h" wt_lines
    REGEX "define CUDNN_(MAJOR|MINOR|PATCHLEVEL) ")
  string(REGEX MATCHALL " [0-9]+" wt_numbers "${wt_lines}")
  string(REPLACE " " "" wt_numbers "${wt_numbers}")
  string(REPLACE ";" "." CUDNN_VERSION "${wt_numbers}")
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CUDNN REQUIRED_VARS CUDNN_LIBRARY CUDNN_INCLUDE_DIR
  VERSION_VAR CUDNN_VERSION)
if(CUDNN_FOUND AND NOT TARGET CUDNN::cudnn)
  add_library(CUDNN::cudnn UNKNOWN IMPORTED)
  set_target_properties(CUDNN::cudnn PROPERTIES IMPORTED_LOCATION "${CUDNN_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${CUDNN_INCLUDE_DIR}")
endif()
