# libwebp: WebP::WebP.
include("${CMAKE_CURRENT_LIST_DIR}/find_plain.cmake")
wt_find_plain(WebP webp/decode.h webp)
