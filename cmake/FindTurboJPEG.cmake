# libjpeg-turbo's own interface: TurboJPEG::TurboJPEG.
include("${CMAKE_CURRENT_LIST_DIR}/find_plain.cmake")
wt_find_plain(TurboJPEG turbojpeg.h turbojpeg jconfig.h "LIBJPEG_TURBO_VERSION ")
