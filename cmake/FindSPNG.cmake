# libspng: SPNG::SPNG.
include("${CMAKE_CURRENT_LIST_DIR}/find_plain.cmake")
wt_find_plain(SPNG spng.h spng spng.h "SPNG_VERSION_(MAJOR|MINOR|PATCH) ")
