# find_package(tolk): the imported target tolk::tolk.
include(CMakeFindDependencyMacro)
find_dependency(tolk_plugin_api CONFIG HINTS "${CMAKE_CURRENT_LIST_DIR}/..")
include("${CMAKE_CURRENT_LIST_DIR}/tolk-targets.cmake")
