# Installation: libraries, the tool, public headers, documents and examples, a CMake package (Sinter::sinter, Sinter::rt) and
# sinter.pc and sinter-rt.pc.
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

# Laid out as in the source tree, so that links between them lead somewhere.
set(doc_folder ${CMAKE_INSTALL_DATAROOTDIR}/doc/sinter)
install(FILES README.md LICENSE DESTINATION ${doc_folder})
install(DIRECTORY docs DESTINATION ${doc_folder} FILES_MATCHING PATTERN "*.md")
install(FILES codegen-llvm/lowering.def DESTINATION ${doc_folder}/codegen-llvm)
file(GLOB example_files CONFIGURE_DEPENDS examples/*.c examples/*.cpp examples/*.sn examples/*.onnx)
install(FILES ${example_files} DESTINATION ${doc_folder}/examples)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/Sinter)
install(EXPORT SinterTargets NAMESPACE Sinter:: DESTINATION ${package_folder})
configure_package_config_file(cmake/SinterConfig.cmake.in ${CMAKE_BINARY_DIR}/cmake/SinterConfig.cmake
                              INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/cmake/SinterConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/cmake/SinterConfig.cmake ${CMAKE_BINARY_DIR}/cmake/SinterConfigVersion.cmake
        DESTINATION ${package_folder})

# They find everything from where they lie, so that an installed tree can be moved.
file(RELATIVE_PATH pc_to_prefix /p/${CMAKE_INSTALL_LIBDIR}/pkgconfig /p)
foreach(pc_name sinter sinter-rt)
  configure_file(cmake/sinter.pc.in ${CMAKE_BINARY_DIR}/cmake/${pc_name}.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/cmake/${pc_name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
