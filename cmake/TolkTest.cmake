# tolk_add_unit_test(NAME SOURCES ... LAYERS layer... [LIBS ...] [LABELS ...] [TIMEOUT s]): one Boost.Test executable.
# Tests link the static layers, and find plugins of the build tree through TOLK_PLUGIN_PATH. Each writes a JUnit log, from
# which tests/features makes docs/generated/features.md.
set(TOLK_TEST_RESULTS "${CMAKE_BINARY_DIR}/test-results")
file(MAKE_DIRECTORY "${TOLK_TEST_RESULTS}")
# The main that all of them share, compiled once.
add_library(tolk_test_main OBJECT "${PROJECT_SOURCE_DIR}/tests/support/test_main.cpp"
  "${PROJECT_SOURCE_DIR}/tests/support/precompiled.cpp")
target_compile_definitions(tolk_test_main PUBLIC BOOST_TEST_DYN_LINK)
target_link_libraries(tolk_test_main PUBLIC tolk_flags Boost::unit_test_framework)
# Boost.Test's macros expand to much code that runs once: half of the time that -O2 takes to compile them buys nothing.
target_compile_options(tolk_test_main PUBLIC $<$<NOT:$<CONFIG:Debug>>:-O1>)
# A precompiled header fits only code of the same kind; CMake would compile the object library as -fPIC, the programs as -fPIE.
set_target_properties(tolk_test_main PROPERTIES POSITION_INDEPENDENT_CODE OFF)
target_compile_options(tolk_test_main PUBLIC -fPIE)
set_source_files_properties("${PROJECT_SOURCE_DIR}/tests/support/test_main.cpp" PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
target_precompile_headers(tolk_test_main PRIVATE <boost/test/unit_test.hpp> <algorithm> <cmath> <cstdint> <cstring> <filesystem>
  <functional> <map> <memory> <mutex> <random> <set> <span> <string> <thread> <vector>)
# Kernels from text, for tests of the layers above dtype.
add_library(tolk_test_kernel STATIC "${PROJECT_SOURCE_DIR}/tests/support/parse_kernel.cpp")
target_include_directories(tolk_test_kernel PUBLIC "${PROJECT_SOURCE_DIR}/tests/support")
target_link_libraries(tolk_test_kernel PUBLIC tolk_kernel PRIVATE tolk_flags fmt::fmt)
function(tolk_add_unit_test name)
  cmake_parse_arguments(A "" "TIMEOUT" "SOURCES;LAYERS;LIBS;LABELS;DEPENDS" ${ARGN})
  add_executable(${name} ${A_SOURCES})
  foreach(layer IN LISTS A_LAYERS)
    target_link_libraries(${name} PRIVATE tolk_${layer})
  endforeach()
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests/support")
  if(NOT A_LAYERS MATCHES "^(base|dtype|io)$")
    target_link_libraries(${name} PRIVATE tolk_test_kernel)
  endif()
  target_link_libraries(${name} PRIVATE tolk_test_main tolk_flags ${A_LIBS})
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_precompile_headers(${name} REUSE_FROM tolk_test_main)
  if(A_DEPENDS)
    add_dependencies(${name} ${A_DEPENDS})
  endif()
  if(NOT A_LABELS)
    set(A_LABELS unit)
  endif()
  if(NOT A_TIMEOUT)
    set(A_TIMEOUT 120)
  endif()
  add_test(NAME ${name} COMMAND ${name} --color_output=no
    "--logger=HRF,error,stdout:JUNIT,error,${TOLK_TEST_RESULTS}/${name}.xml")
  set_property(GLOBAL APPEND PROPERTY TOLK_UNIT_TESTS ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${A_LABELS}" TIMEOUT ${A_TIMEOUT}
    ENVIRONMENT "TOLK_PLUGIN_PATH=${TOLK_PLUGIN_OUTPUT_DIRECTORY};TOLK_SHARED_DIR=${TOLK_SHARED_DIR};TOLK_CACHE_DIR=${CMAKE_BINARY_DIR}/test-cache")
endfunction()
