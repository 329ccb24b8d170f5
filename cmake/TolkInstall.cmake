# cmake --install: libtolk with the public headers, the plugins, the tools, and two packages, tolk and tolk_plugin_api.
# Everything finds everything else by relative paths, so the installed tree may be moved.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# The C interface for plugins, which needs nothing else of Tolk.
set(api_package "${CMAKE_INSTALL_LIBDIR}/cmake/tolk_plugin_api")
install(DIRECTORY plugin_api/include/tolk DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT plugin_api)
install(TARGETS tolk_plugin_api EXPORT tolk_plugin_api)
install(EXPORT tolk_plugin_api NAMESPACE tolk:: DESTINATION "${api_package}" FILE tolk_plugin_api-config.cmake COMPONENT plugin_api)
write_basic_package_version_file("${CMAKE_BINARY_DIR}/tolk_plugin_api-config-version.cmake" COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES "${CMAKE_BINARY_DIR}/tolk_plugin_api-config-version.cmake" DESTINATION "${api_package}" COMPONENT plugin_api)

# The library for programs.
set(package "${CMAKE_INSTALL_LIBDIR}/cmake/tolk")
set(from "${PROJECT_SOURCE_DIR}/core" "${PROJECT_BINARY_DIR}/core")
install(CODE "set(FROM \"${from}\")
  set(TO \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_INCLUDEDIR}\")
  include(\"${PROJECT_SOURCE_DIR}/cmake/InstallHeaders.cmake\")" COMPONENT core)
install(TARGETS tolk EXPORT tolk LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT core NAMELINK_COMPONENT core)
install(EXPORT tolk NAMESPACE tolk:: DESTINATION "${package}" FILE tolk-targets.cmake COMPONENT core)
write_basic_package_version_file("${CMAKE_BINARY_DIR}/tolk-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(FILES cmake/tolk-config.cmake "${CMAKE_BINARY_DIR}/tolk-config-version.cmake" DESTINATION "${package}" COMPONENT core)

# Plugins lie where libtolk looks for them: tolk/plugins beside it.
set(plugin_folder "${CMAKE_INSTALL_LIBDIR}/tolk/plugins")
foreach(plugin null interp cpu)
  if(TARGET tolk_plugin_${plugin})
    install(TARGETS tolk_plugin_${plugin} LIBRARY DESTINATION "${plugin_folder}" COMPONENT plugins)
  endif()
endforeach()
if(TARGET tolk_cpu_compiler)
  install(TARGETS tolk_cpu_compiler LIBRARY DESTINATION "${plugin_folder}/cpu" COMPONENT plugins)
endif()

if(TARGET tolk-run)
  file(RELATIVE_PATH bin_to_lib "/${CMAKE_INSTALL_BINDIR}" "/${CMAKE_INSTALL_LIBDIR}")
  set_target_properties(tolk-run PROPERTIES INSTALL_RPATH "$ORIGIN/${bin_to_lib}")
  install(TARGETS tolk-run RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT tools)
endif()
if(TARGET tolk-conformance)
  install(TARGETS tolk-conformance RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT tools)
endif()
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT core)
