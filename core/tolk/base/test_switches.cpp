#include "tolk/base/test_switches.h"

#include <cstdlib>
#include <string>

#include "tolk/base/config.h"

namespace tolk {

TestSwitches& test_switches() {
  static TestSwitches* all = [] {
    auto* out = new TestSwitches; // leaked: the last blocks are freed after static destructors
    out->poison = environment("TOLK_TEST_POISON") == "1";
    std::string scatter = environment("TOLK_TEST_SCATTER");
    out->scatter = !scatter.empty() && scatter != "0";
    out->shuffle = std::strtoull(environment("TOLK_TEST_SHUFFLE").c_str(), nullptr, 10);
    return out;
  }();
  return *all;
}

} // namespace tolk
