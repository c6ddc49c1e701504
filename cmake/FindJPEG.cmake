# libjpeg-turbo, or another library of libjpeg's interface: JPEG::JPEG.
include("${CMAKE_CURRENT_LIST_DIR}/find_plain.cmake")
wt_find_plain(JPEG jpeglib.h jpeg jconfig.h "LIBJPEG_TURBO_VERSION ")
