# What find_package(sluice COMPONENTS comparison) finds: the library, the headers that an engine's translation unit
# includes, the templates of such units, and the trials that every engine must pass. It is also a separate component for
# `cmake --install`.
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/sluice)
set(folder ${CMAKE_INSTALL_DATADIR}/sluice/comparison)
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME comparison)
install(TARGETS sluice_comparison EXPORT sluiceComparisonTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT sluiceComparisonTargets NAMESPACE sluice:: DESTINATION ${package_folder})
file(GLOB headers CONFIGURE_DEPENDS *.hpp)
install(FILES ${headers} DESTINATION ${folder}/compare)
file(GLOB headers CONFIGURE_DEPENDS ../engines/*.hpp)
install(FILES ${headers} DESTINATION ${folder}/engines)
file(GLOB headers CONFIGURE_DEPENDS ../shared/*.hpp)
install(FILES ${headers} DESTINATION ${folder}/shared)
# The systems' names, for sluice_add_comparison's error message about an unknown one.
set(names "")
set(only_real 0) # rows that no comparison can name
file(GLOB families CONFIGURE_DEPENDS ../engines/families/*.cpp)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${families})
foreach(family IN LISTS families)
  file(READ ${family} text)
  string(REGEX MATCHALL "entry<[^\n;]*>\\([ \n]*\"[A-Za-z0-9]+\"" entries "${text}")
  list(TRANSFORM entries REPLACE ".*\"([A-Za-z0-9]+)\"$" "\\1")
  list(APPEND names ${entries})
  string(REGEX MATCHALL "System system{[.]name" entries "${text}")
  list(LENGTH entries entries)
  math(EXPR only_real "${only_real} + ${entries}")
endforeach()
file(STRINGS ../engines/published.hpp rows REGEX "^  ROW")
string(REGEX MATCHALL "ROW[(]" rows "${rows}")
list(LENGTH rows rows)
list(LENGTH names count)
math(EXPR count "${count} + ${only_real}")
if(NOT count EQUAL rows)
  message(FATAL_ERROR "engines/published.hpp lists ${rows} systems, but engines/families/ names ${count}: ${names}; expected one "
                      "entry<Type>(\"Name\", ...) per system")
endif()
set(tests ${PROJECT_SOURCE_DIR}/tests)
install(FILES ${tests}/engine/trials.hpp ${tests}/engine/audit.hpp ${tests}/engine/reckoning.hpp
              ${tests}/engine/time_audit.hpp DESTINATION ${folder}/engine)
install(FILES ${PROJECT_SOURCE_DIR}/cmake/SluiceComparison.cmake DESTINATION ${package_folder})
file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/sluiceComparisonRules.cmake @ONLY
     CONTENT "set(sluice_published_systems \"${names}\")
# rules ${SLUICE_COMPARE_RULES}
set(sluice_comparison_mpi \"${MPI_CXX_FOUND}\") # whether --mpi works
")
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/sluiceComparisonRules.cmake DESTINATION ${package_folder})
unset(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME)
