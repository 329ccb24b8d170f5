#include <boost/test/unit_test.hpp>

#include "tolk/base/check.h"
#include "tolk/base/error.h"
#include "tolk/base/rethrow.h"

using namespace tolk;

BOOST_AUTO_TEST_CASE(a_failed_check_names_the_expression_and_the_place) {
  try {
    TOLK_CHECK(1 + 1 == 3, "sums are wrong");
    BOOST_FAIL("no exception");
  } catch (const InternalError& error) {
    std::string text = error.what();
    BOOST_TEST(text.find("sums are wrong") == 0u);
    BOOST_TEST(text.find("1 + 1 == 3") != std::string::npos);
    BOOST_TEST(text.find("error_test.cpp:") != std::string::npos);
    BOOST_TEST(text.find('/') == std::string::npos);
  }
}

BOOST_AUTO_TEST_CASE(every_leaf_is_an_error) {
  auto check = []<class T>(T*) { BOOST_CHECK_THROW(throw T("x"), Error); };
  check(static_cast<InvalidArgument*>(nullptr));
  check(static_cast<JitError*>(nullptr));
  check(static_cast<DeviceError*>(nullptr));
  check(static_cast<OutOfMemory*>(nullptr));
  check(static_cast<CompileError*>(nullptr));
  check(static_cast<GraphError*>(nullptr));
  check(static_cast<FormatError*>(nullptr));
  check(static_cast<PluginError*>(nullptr));
  check(static_cast<ImportError*>(nullptr));
  check(static_cast<InternalError*>(nullptr));
}

BOOST_AUTO_TEST_CASE(context_keeps_the_leaf) {
  auto text = []<class T>(T*) {
    try {
      try {
        throw T("reason");
      } catch (const Error&) {
        rethrow_with("file: ", "\nnote");
      }
    } catch (const T& e) {
      return std::string(e.what());
    }
  };
  for (const std::string& t :
       {text(static_cast<InvalidArgument*>(nullptr)), text(static_cast<JitError*>(nullptr)),
        text(static_cast<DeviceError*>(nullptr)), text(static_cast<OutOfMemory*>(nullptr)),
        text(static_cast<CompileError*>(nullptr)), text(static_cast<GraphError*>(nullptr)),
        text(static_cast<FormatError*>(nullptr)), text(static_cast<PluginError*>(nullptr)),
        text(static_cast<ImportError*>(nullptr)), text(static_cast<InternalError*>(nullptr))})
    BOOST_TEST(t == "file: reason\nnote");
}
