# For libraries whose packages bring no CMake configuration (Debian's have pkg-config files only):
# wt_find_plain(Package header library [header-with-version define-of-numbers]) sets Package_FOUND,
# _INCLUDE_DIR, _LIBRARY and _VERSION and makes the target Package::Package. Hint: Package_ROOT.
include(FindPackageHandleStandardArgs)

macro(wt_find_plain package header library)
  find_path(${package}_INCLUDE_DIR NAMES ${header})
  find_library(${package}_LIBRARY NAMES ${library})
  mark_as_advanced(${package}_INCLUDE_DIR ${package}_LIBRARY)
  if(${package}_INCLUDE_DIR AND ${ARGC} GREATER 3)
    find_file(${package}_VERSION_HEADER NAMES ${ARGV3} HINTS "${${package}_INCLUDE_DIR}")
    mark_as_advanced(${package}_VERSION_HEADER)
    if(${package}_VERSION_HEADER)
      file(STRINGS "${${package}_VERSION_HEADER}" wt_lines REGEX "define[ \t]+${ARGV4}")
      string(REGEX MATCHALL "[0-9]+" wt_lines "${wt_lines}")
      list(JOIN wt_lines "." ${package}_VERSION)
    endif()
  endif()
  find_package_handle_standard_args(${package} REQUIRED_VARS ${package}_LIBRARY
    ${package}_INCLUDE_DIR VERSION_VAR ${package}_VERSION)
  if(${package}_FOUND AND NOT TARGET ${package}::${package})
    add_library(${package}::${package} UNKNOWN IMPORTED)
    set_target_properties(${package}::${package} PROPERTIES
      IMPORTED_LOCATION "${${package}_LIBRARY}"
      INTERFACE_INCLUDE_DIRECTORIES "${${package}_INCLUDE_DIR}")
  endif()
endmacro()
