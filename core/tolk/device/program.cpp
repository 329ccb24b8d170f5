#include "tolk/device/program.h"

#include "tolk/base/clock.h"
#include "tolk/base/error.h"
#include "tolk/device/stream.h"
#include "tolk/loader/plugin_loader.h"
#include "tolk/loader/status.h"

namespace tolk {
namespace {

constexpr size_t kInline = 32; // arguments that need no heap

// For plugins that go on reading them after the launch.
struct Arguments {
  std::vector<tolk_ref> refs;
  std::vector<uint64_t> slots;
};

} // namespace

Program::~Program() { unload(); }

void Program::unload() {
  if (!program_) return;
  if (device_.alive()) {
    SubmitLock lock(device_);
    Stream& stream = device_.compute();
    if (!stream.is_complete(stream.submitted())) stream.settle();
    auto serial = device_.plugin().serialize();
    device_.plugin().program.unload(program_);
  }
  program_ = nullptr;
  kernel_ = nullptr;
}

void Program::check_counts(size_t buffers, size_t values) const {
  if (buffers == buffer_count() && values == value_count()) return;
  throw InvalidArgument("kernel " + name_ + " takes " + std::to_string(buffer_count()) + " buffers and " +
                        std::to_string(value_count()) + " values, got " + std::to_string(buffers) + " and " +
                        std::to_string(values));
}

void Program::refuse_buffer(size_t index, const Buffer& buffer) const {
  std::string where = "kernel " + name_ + ", buffer " + std::to_string(index) + ": ";
  if (&buffer.device() != &device_)
    throw InvalidArgument(where + "it is on " + buffer.device().name() + ", the kernel on " + device_.name());
  if (buffer.bytes() < min_bytes_[index])
    throw InvalidArgument(where + "it has " + std::to_string(buffer.bytes()) + " bytes, the kernel needs " +
                          std::to_string(min_bytes_[index]));
  if ((params_[index].access & TOLK_ACCESS_WRITE) && !buffer.writable())
    throw InvalidArgument(where + "it is imported read-only memory, the kernel writes it");
  throw InvalidArgument(where + "it is a view at byte " + std::to_string(buffer.offset()) + ", " +
                        device_.name() + " takes multiples of " + std::to_string(offset_mask_ + 1) +
                        "; copy it first");
}

void Program::refuse_value(size_t index, int64_t value) const {
  const tolk_param& p = params_[min_bytes_.size() + index];
  throw InvalidArgument("kernel " + name_ + ", value " + std::to_string(index) + ": " +
                        std::to_string(value) + " is not in " + std::to_string(p.min) + ".." +
                        std::to_string(p.max));
}

void Program::launch(std::span<Buffer* const> buffers, std::span<const int64_t> values,
                     std::array<uint32_t, 3> grid, std::array<uint32_t, 3> local, uint64_t* device_ns) {
  device_.require_usable();
  check_counts(buffers.size(), values.size());
  if (device_ns) *device_ns = 0;
  for (uint32_t n : grid)
    if (n == 0) return;

  tolk_ref inline_refs[kInline];
  Use inline_uses[kInline];
  uint64_t inline_slots[kInline];
  std::vector<tolk_ref> more_refs(buffers.size() > kInline ? buffers.size() : 0);
  std::vector<Use> more_uses(more_refs.size());
  std::vector<uint64_t> more_slots(values.size() > kInline ? values.size() : 0);
  tolk_ref* refs = more_refs.empty() ? inline_refs : more_refs.data();
  Use* uses = more_uses.empty() ? inline_uses : more_uses.data();
  uint64_t* slots = more_slots.empty() ? inline_slots : more_slots.data();
  for (size_t i = 0; i < buffers.size(); i++) {
    check_buffer(i, *buffers[i]);
    Storage& storage = buffers[i]->storage();
    refs[i] = storage.ref(buffers[i]->offset(), buffers[i]->bytes());
    uses[i] = {&storage, (params_[i].access & TOLK_ACCESS_WRITE) != 0};
  }
  for (size_t i = 0; i < values.size(); i++) {
    check_value(i, values[i]);
    slots[i] = static_cast<uint64_t>(values[i]);
  }

  tolk_launch launch{};
  launch.struct_size = sizeof launch;
  launch.flags = TOLK_LAUNCH_CHECKED;
  for (int i = 0; i < 3; i++) launch.grid[i] = grid[i], launch.local[i] = local[i] ? local[i] : 1;
  launch.buffer_count = static_cast<uint32_t>(buffers.size());
  launch.value_count = static_cast<uint32_t>(values.size());
  launch.buffers = refs;
  launch.values = slots;
  launch.device_ns = device_ns;

  Plugin& plugin = device_.plugin();
  Stream& stream = device_.compute();
  const std::span<const Use> used(uses, buffers.size());
  std::shared_ptr<const Arguments> kept;
  if (!stream.synchronous() && (device_.caps().flags & TOLK_CAP_RETAINS_ARGS)) {
    kept = std::make_shared<const Arguments>(
        Arguments{{refs, refs + buffers.size()}, {slots, slots + values.size()}});
    launch.buffers = kept->refs.data();
    launch.values = kept->slots.data();
  }
  SubmitLock lock(device_);
  stream.before(used);
  auto serial = plugin.serialize();
  if (!device_ns) {
    stream.check(plugin.program.launch(stream.handle(), kernel_, &launch), "launch of " + name_);
    stream.after(used);
    if (kept) stream.retain(std::move(kept));
    return;
  }
  // A plugin that does not measure leaves the mark; then the host's clock around launch and wait has to do.
  constexpr uint64_t kMark = UINT64_MAX;
  *device_ns = kMark;
  uint64_t begin = now_ns();
  tolk_status status = plugin.program.launch(stream.handle(), kernel_, &launch);
  stream.check(status, "launch of " + name_);
  stream.after(used);
  status = plugin.stream.synchronize(stream.handle(), TOLK_FOREVER);
  uint64_t elapsed = now_ns() - begin;
  if (*device_ns == kMark || status < 0) *device_ns = elapsed;
  stream.check_wait(status, "launch of " + name_);
}

tolk_kernel_info Program::info() const {
  tolk_kernel_info out{};
  out.struct_size = sizeof out;
  if (!device_.alive()) return out;
  auto serial = device_.plugin().serialize();
  device_.check(device_.plugin().program.kernel_info(kernel_, &out), "kernel information of " + name_);
  return out;
}

} // namespace tolk
