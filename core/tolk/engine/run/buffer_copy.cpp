#include "tolk/engine/run/buffer_copy.h"

#include <cstdio>

#include "tolk/base/clock.h"
#include "tolk/base/error.h"

namespace tolk::engine {
namespace {

// "copy <size>, <destination> <- <source>" with names cut to 7 characters.
std::string copy_name(int64_t total_bytes, const std::string& dest_device, const std::string& src_device) {
  char text[64];
  int at = total_bytes >= 1000000
               ? std::snprintf(text, sizeof text, "copy %7.2fM", double(total_bytes) / 1e6)
               : std::snprintf(text, sizeof text, "copy %8lld", static_cast<long long>(total_bytes));
  std::snprintf(text + at, sizeof text - size_t(at), ", %7.7s <- %-7.7s", dest_device.c_str(),
                src_device.c_str());
  return text;
}

} // namespace

void check_copy(std::span<const BufferRef> buffers) {
  if (buffers.size() != 2)
    throw InvalidArgument("buffer copy: expected exactly two buffers, got " + std::to_string(buffers.size()));
  const Buffer &to = *buffers[0], &from = *buffers[1];
  if (to.count() != from.count() || to.dtype() != from.dtype())
    throw InvalidArgument("buffer copy: size or dtype mismatch: the destination has " +
                          std::to_string(to.count()) + " x " + name(to.dtype()) + ", the source " +
                          std::to_string(from.count()) + " x " + name(from.dtype()));
}

Runner buffer_copy(Device& device, int64_t total_bytes, const std::string& dest_device,
                   const std::string& src_device) {
  Runner runner;
  runner.display_name = copy_name(total_bytes, dest_device, src_device);
  runner.device = &device;
  runner.estimates = {0, double(total_bytes), double(total_bytes)};
  runner.call = [](std::span<const BufferRef> buffers, const VarVals&, bool wait,
                   std::optional<int>) -> std::optional<double> {
    check_copy(buffers);
    const uint64_t begin = wait ? now_ns() : 0;
    Buffer &to = *buffers[0], &from = *buffers[1];
    from.allocate();
    copy_buffer(to, from);
    if (!wait) return {};
    to.device().synchronize();
    return ms_since(begin) * 1e-3;
  };
  return runner;
}

} // namespace tolk::engine
