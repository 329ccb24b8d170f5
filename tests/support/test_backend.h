// The instrumented backend for C++ tests: tests/plugins/instrumented/control.h says what it can do.
//
//   TestBackend& x = tb();                                // XDEV; tb("YDEV") is the other
//   x.reset();
//   Device& d = x.open([](tb_options& o) { o.streams = 1; });   // a device that nobody used before
//   ... run something on d ...
//   BOOST_TEST(x.counters(d).launches == 3u);
//   BOOST_TEST(x.launches().back().kernel == "e_4");
//
// Link tolk_test_backend (tests/plugins/CMakeLists.txt).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "control.h"
#include "tolk/base/error.h"
#include "tolk/device/device.h"
#include "tolk/device/registry.h"

namespace tolk::test {

class TestBackend {
public:
  // Loads the plugin on first use; "XDEV" or "YDEV".
  explicit TestBackend(const std::string& name) : name_(name) {
    std::string file = name == "XDEV" ? "xdev" : "ydev";
    load_plugin_file(std::string(TOLK_INSTRUMENTED_PLUGINS) + "/" + file + "/libtolk-backend-" + file +
                     ".so");
    control_ = static_cast<const tb_control*>(plugin_extension(name, TB_EXTENSION, 1));
    if (!control_) throw InternalError("the test plugin " + name + " does not offer " TB_EXTENSION);
  }

  const std::string& name() const { return name_; }
  const tb_control& control() const { return *control_; }
  void reset() const { control_->reset(); }

  // The name of a device that was never opened before, now open with these options.
  std::string open_name(const std::function<void(tb_options&)>& set = {}) {
    tb_options before = *control_->options;
    if (set) set(*control_->options);
    std::string device_name = name_ + ":" + std::to_string(next_++);
    device(device_name);
    *control_->options = before;
    return device_name;
  }
  Device& open(const std::function<void(tb_options&)>& set = {}) { return device(open_name(set)); }
  Device& open_streams() {
    return open([](tb_options& o) { o.streams = 1; });
  }

  tb_counters counters() const { return counters_of(TB_ALL); }
  tb_counters counters(const Device& device) const { return counters_of(device.index()); }

  std::vector<tb_record> records() const {
    std::vector<tb_record> all(control_->record_count());
    for (size_t i = 0; i < all.size(); i++) control_->record(i, &all[i]);
    return all;
  }
  // Kernels only, those inside of graphs included.
  std::vector<tb_record> launches() const {
    std::vector<tb_record> kernels = records();
    std::erase_if(kernels, [](const tb_record& r) { return r.kind != TB_KERNEL; });
    return kernels;
  }

  // `count` 0: all that follow. Without a status: out of memory for buffers, a trapped kernel for TB_ASYNC,
  // which stays with the stream, and for the rest a refusal (TOLK_E_LIMIT), which is that of one call.
  void fail(const Device& device, uint32_t place, const std::string& text, uint64_t nth = 1,
            uint64_t count = 1, tolk_status status = TOLK_OK) const {
    if (status == TOLK_OK)
      status = place == TB_BUFFER_CREATE ? TOLK_E_DEVICE_OOM
               : place == TB_ASYNC       ? TOLK_E_KERNEL_FAULT
                                         : TOLK_E_LIMIT;
    control_->fail(device.index(), place, nth, count, status, text.c_str());
  }
  void fail_compile(const std::string& text, uint64_t nth = 1, uint64_t count = 0) const {
    control_->fail(TB_ALL, TB_COMPILE, nth, count, TOLK_E_COMPILE, text.c_str());
  }
  // Keeps the device's workers at these kinds of operations until the object goes or releases them: a kernel or copy is
  // pending for as long as a test needs it to be. Release before anything waits for the device.
  class Held {
  public:
    Held(const tb_control& control, uint32_t ordinal, uint32_t kinds) : control_(control), ordinal_(ordinal) {
      control_.hold(ordinal_, kinds);
    }
    ~Held() { release(); }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    void release() const { control_.hold(ordinal_, 0); }

  private:
    const tb_control& control_;
    uint32_t ordinal_;
  };
  Held hold_kernels(const Device& device) const { return {*control_, device.index(), TB_HOLD_KERNELS}; }
  Held hold_copies(const Device& device) const { return {*control_, device.index(), TB_HOLD_COPIES}; }
  Held hold(const Device& device) const {
    return {*control_, device.index(), TB_HOLD_KERNELS | TB_HOLD_COPIES};
  }
  void delay(const Device& device, uint64_t kernel_us, uint64_t copy_us = 0) const {
    control_->delay(device.index(), kernel_us, copy_us);
  }

private:
  tb_counters counters_of(uint32_t ordinal) const {
    tb_counters c{};
    control_->counters(ordinal, &c);
    return c;
  }
  std::string name_;
  const tb_control* control_ = nullptr;
  uint32_t next_ = 1; // ordinal 0 stays for tests that want XDEV itself
};

inline TestBackend& tb(const std::string& name = "XDEV") {
  static TestBackend x("XDEV"), y("YDEV");
  return name == "YDEV" ? y : x;
}

// Gives workers time to do what they may do already, so that a missing wait shows. Tests pass however short it is.
inline void let_workers_run() {
  for (int i = 0; i < 1000; i++) std::this_thread::yield();
}

// What a timed launch reports, for the life of the object.
class LaunchTimes {
public:
  LaunchTimes(TestBackend& backend, std::function<uint64_t(const tb_record&)> time_of)
      : backend_(backend), time_of_(std::move(time_of)) {
    backend_.control().times(
        [](void* arg, const tb_record* launch) { return static_cast<LaunchTimes*>(arg)->time_of_(*launch); },
        this);
  }
  ~LaunchTimes() { backend_.control().times(nullptr, nullptr); }
  LaunchTimes(const LaunchTimes&) = delete;
  LaunchTimes& operator=(const LaunchTimes&) = delete;

private:
  TestBackend& backend_;
  std::function<uint64_t(const tb_record&)> time_of_;
};

} // namespace tolk::test
