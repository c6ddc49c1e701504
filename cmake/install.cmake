# Install rules: headers, library, CMake package, pkg-config file.
if(NOT WARPTAPE_INSTALL)
  return()
endif()
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(wt_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/warptape")

set_target_properties(wt_features PROPERTIES EXPORT_NAME features)
install(TARGETS warptape wt_features EXPORT warptape-targets
  FILE_SET HEADERS DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  FILE_SET moved_headers DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT warptape-targets NAMESPACE warptape:: DESTINATION "${wt_package_dir}")
if(TARGET wt)
  install(TARGETS wt)
endif()
# Where a message says tools/convert_pt.py.
install(PROGRAMS tools/convert_pt.py DESTINATION "${CMAKE_INSTALL_DATADIR}/warptape/tools")

configure_package_config_file(cmake/warptapeConfig.cmake.in
  "${PROJECT_BINARY_DIR}/package/warptapeConfig.cmake" INSTALL_DESTINATION "${wt_package_dir}")
# Before 1.0 a minor version may break what an older one promised.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/package/warptapeConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/package/warptapeConfig.cmake"
  "${PROJECT_BINARY_DIR}/package/warptapeConfigVersion.cmake"
  cmake/cuda20.cmake cmake/find_mpi.cmake cmake/find_plain.cmake cmake/FindJPEG.cmake cmake/FindLMDB.cmake
  cmake/FindOpenBLAS.cmake cmake/FindSPNG.cmake cmake/FindWebP.cmake
  DESTINATION "${wt_package_dir}")

# pkg-config knows flags, not targets: the static library's own dependencies go to Libs.private.
string(PREPEND WT_PC_PRIVATE "-lstdc++ -lm -lpthread")
file(RELATIVE_PATH WT_PC_UP "/p/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/p")
configure_file(cmake/warptape.pc.in "${PROJECT_BINARY_DIR}/package/warptape.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/package/warptape.pc"
  DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
