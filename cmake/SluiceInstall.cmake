# `cmake --install build/release` installs the headers, the compiled libraries, and the files that find_package(sluice)
# reads.
include(CMakePackageConfigHelpers)
set(compiled "")
foreach(library IN ITEMS compiled report readers model server)
  if(TARGET sluice_${library})
    set_target_properties(sluice_${library} PROPERTIES EXCLUDE_FROM_ALL OFF) # an installed library must be built
    list(APPEND compiled sluice_${library})
  endif()
endforeach()

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/sluice)
install(TARGETS sluice ${compiled} EXPORT sluiceTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT sluiceTargets NAMESPACE sluice:: DESTINATION ${package_folder})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.hpp")
install(DIRECTORY ${sluice_written}/sluice DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
# The kernels' headers are in a separate folder that only their target adds: "kernels/" is too common a name for every
# user's include path.
set(kernels_folder ${CMAKE_INSTALL_INCLUDEDIR}/sluice-kernels)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/kernels DESTINATION ${kernels_folder} FILES_MATCHING PATTERN "*.hpp" PATTERN "*.cuh")
get_target_property(written sluice_kernel_families SLUICE_FOLDER)
install(FILES ${written}/kernels/families.hpp DESTINATION ${kernels_folder}/kernels)
target_include_directories(sluice_kernel_families INTERFACE $<INSTALL_INTERFACE:${kernels_folder}>)
set_target_properties(sluice_kernel_families PROPERTIES EXPORT_NAME kernel_families)
install(TARGETS sluice_kernel_families EXPORT sluiceTargets)
if(TARGET sluice_kernels)
  set_target_properties(sluice_kernels PROPERTIES EXPORT_NAME kernels)
  set_target_properties(sluice_cudart PROPERTIES EXPORT_NAME cudart)
  set_target_properties(sluice_cuda PROPERTIES EXPORT_NAME cuda EXCLUDE_FROM_ALL OFF)
  install(TARGETS sluice_kernels sluice_cudart sluice_cuda EXPORT sluiceKernelsTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT sluiceKernelsTargets NAMESPACE sluice:: DESTINATION ${package_folder})
endif()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/sluice)

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/sluiceConfig.cmake.in ${PROJECT_BINARY_DIR}/sluiceConfig.cmake
                              INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/sluiceConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/sluiceConfig.cmake ${PROJECT_BINARY_DIR}/sluiceConfigVersion.cmake DESTINATION ${package_folder})
