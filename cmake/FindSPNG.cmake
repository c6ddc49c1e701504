# libspng: SPNG::SPNG. Debian's package has a pkg-config file only. Hint: SPNG_ROOT.
find_path(SPNG_INCLUDE_DIR NAMES spng.h)
find_library(SPNG_LIBRARY NAMES spng)
mark_as_advanced(SPNG_INCLUDE_DIR SPNG_LIBRARY)
if(SPNG_INCLUDE_DIR)
  file(STRINGS "${SPNG_INCLUDE_DIR}/spng.h" wt_lines REGEX "define SPNG_VERSION_(MAJOR|MINOR|PATCH) ")
  string(REGEX MATCHALL "[0-9]+" wt_lines "${wt_lines}")
  list(JOIN wt_lines "." SPNG_VERSION)
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(SPNG REQUIRED_VARS SPNG_LIBRARY SPNG_INCLUDE_DIR
  VERSION_VAR SPNG_VERSION)
if(SPNG_FOUND AND NOT TARGET SPNG::SPNG)
  add_library(SPNG::SPNG UNKNOWN IMPORTED)
  set_target_properties(SPNG::SPNG PROPERTIES IMPORTED_LOCATION "${SPNG_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${SPNG_INCLUDE_DIR}")
endif()
