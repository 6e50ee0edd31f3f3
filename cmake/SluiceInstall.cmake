# `cmake --install build/release` puts down the headers, sluice::compiled, and what find_package(sluice) reads.
include(CMakePackageConfigHelpers)
set_target_properties(sluice_compiled PROPERTIES EXCLUDE_FROM_ALL OFF) # what is installed is built

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/sluice)
install(TARGETS sluice sluice_compiled EXPORT sluiceTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT sluiceTargets NAMESPACE sluice:: DESTINATION ${package_folder})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.hpp")
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/sluice)

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/sluiceConfig.cmake.in ${PROJECT_BINARY_DIR}/sluiceConfig.cmake
                              INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/sluiceConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/sluiceConfig.cmake ${PROJECT_BINARY_DIR}/sluiceConfigVersion.cmake DESTINATION ${package_folder})
