# tolk_add_layer(NAME SOURCES ... DEPS layer... LIBS target...): one layer of core as a static library tolk_NAME.
add_library(tolk_flags INTERFACE)
target_compile_options(tolk_flags INTERFACE -Wall -Wextra
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Woverloaded-virtual>
  $<$<BOOL:${TOLK_WERROR}>:-Werror>)
# GCC 12 reports these for its own inlined vectors, without cause; Clang's checks of the same kinds stay on.
target_compile_options(tolk_flags INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-free-nonheap-object;-Wno-maybe-uninitialized;-Wno-array-bounds;-Wno-stringop-overflow;-Wno-stringop-overread;-Wno-restrict>)
# Clang over libstdc++ 12 reports what the library's own stable_sort calls.
target_compile_options(tolk_flags INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wno-deprecated-declarations>)
if(TOLK_SANITIZE)
  target_compile_options(tolk_flags INTERFACE -fsanitize=${TOLK_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(tolk_flags INTERFACE -fsanitize=${TOLK_SANITIZE})
endif()
target_compile_options(tolk_flags INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>)
# The headers that most sources include, compiled once for all layers; the presets clang and lint do without, so that each
# source keeps including what it uses.
set(TOLK_PRECOMPILED <algorithm> <array> <atomic> <cmath> <cstdint> <cstring> <filesystem> <functional> <limits> <map> <memory>
  <mutex> <optional> <set> <span> <string> <string_view> <unordered_map> <utility> <variant> <vector> <fmt/format.h>)
# A sum must not change with the compiler's mood: no contraction, no fast math anywhere.
target_compile_options(tolk_flags INTERFACE -ffp-contract=off)
target_compile_definitions(tolk_flags INTERFACE $<$<BOOL:${TOLK_VERIFY}>:TOLK_VERIFY=1>)

function(tolk_add_layer name)
  cmake_parse_arguments(A "" "" "SOURCES;DEPS;LIBS;PUBLIC_LIBS" ${ARGN})
  foreach(source IN LISTS A_SOURCES)
    if(NOT EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/${source}")
      message(WARNING "layer ${name}: ${source} is listed but does not exist")
      list(REMOVE_ITEM A_SOURCES "${source}")
    endif()
  endforeach()
  add_library(tolk_${name} STATIC ${A_SOURCES})
  target_include_directories(tolk_${name} PUBLIC "${PROJECT_SOURCE_DIR}/core" "${PROJECT_BINARY_DIR}/core")
  target_compile_definitions(tolk_${name} PRIVATE TOLK_BUILDING=1)
  foreach(dep IN LISTS A_DEPS)
    target_link_libraries(tolk_${name} PUBLIC tolk_${dep})
  endforeach()
  target_link_libraries(tolk_${name} PRIVATE tolk_flags fmt::fmt ${A_LIBS} PUBLIC ${A_PUBLIC_LIBS})
  if(name STREQUAL base)
    target_precompile_headers(tolk_base PRIVATE ${TOLK_PRECOMPILED})
  else()
    target_precompile_headers(tolk_${name} REUSE_FROM tolk_base)
  endif()
  set_property(GLOBAL APPEND PROPERTY TOLK_LAYERS tolk_${name})
endfunction()

# tolk_add_plugin(NAME SOURCES ... LIBS ...): libtolk-backend-NAME.so, exporting only its entry point.
set(TOLK_PLUGIN_VERSION_SCRIPT "${PROJECT_SOURCE_DIR}/cmake/plugin.map")
function(tolk_add_plugin name)
  cmake_parse_arguments(A "" "" "SOURCES;LIBS" ${ARGN})
  add_library(tolk_plugin_${name} MODULE ${A_SOURCES})
  set_target_properties(tolk_plugin_${name} PROPERTIES
    PREFIX "" OUTPUT_NAME "libtolk-backend-${name}"
    LIBRARY_OUTPUT_DIRECTORY "${TOLK_PLUGIN_OUTPUT_DIRECTORY}")
  target_link_libraries(tolk_plugin_${name} PRIVATE tolk_flags tolk_plugin_api ${A_LIBS})
  target_link_options(tolk_plugin_${name} PRIVATE
    "-Wl,--version-script=${TOLK_PLUGIN_VERSION_SCRIPT}" -Wl,--exclude-libs,ALL -Wl,--no-undefined)
  # The loader refuses files that others can write, which a umask of 002 would leave.
  add_custom_command(TARGET tolk_plugin_${name} POST_BUILD
    COMMAND chmod go-w "$<TARGET_FILE:tolk_plugin_${name}>" "${TOLK_PLUGIN_OUTPUT_DIRECTORY}" VERBATIM)
endfunction()
