# Installation: libraries, the tool, public headers, a CMake package (Sinter::sinter, Sinter::rt) and sinter.pc.
include(CMakePackageConfigHelpers)

set_target_properties(sinter PROPERTIES EXPORT_NAME sinter)
set_target_properties(sinter-rt PROPERTIES EXPORT_NAME rt)
add_library(Sinter::sinter ALIAS sinter)
add_library(Sinter::rt ALIAS sinter-rt)

install(TARGETS sinter sinter-rt EXPORT SinterTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET sinter-tool)
  install(TARGETS sinter-tool RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(DIRECTORY include/sinter DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h" PATTERN "*.def")

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/Sinter)
install(EXPORT SinterTargets NAMESPACE Sinter:: DESTINATION ${package_folder})
configure_package_config_file(cmake/SinterConfig.cmake.in ${CMAKE_BINARY_DIR}/cmake/SinterConfig.cmake
                              INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/cmake/SinterConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/cmake/SinterConfig.cmake ${CMAKE_BINARY_DIR}/cmake/SinterConfigVersion.cmake
        DESTINATION ${package_folder})

# sinter.pc finds everything from where it lies, so that an installed tree can be moved.
file(RELATIVE_PATH pc_to_prefix /p/${CMAKE_INSTALL_LIBDIR}/pkgconfig /p)
configure_file(cmake/sinter.pc.in ${CMAKE_BINARY_DIR}/cmake/sinter.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/cmake/sinter.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
