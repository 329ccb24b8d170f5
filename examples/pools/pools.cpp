// Device memory without tensors, for programs that plan it themselves: pools, locations in them, and contexts that own them.
// Two layers of a network get their values one after the other in one pool.
#include <cstdio>
#include <numeric>
#include <span>
#include <vector>

#include "tolk/device/buffer.h"
#include "tolk/device/context.h"
#include "tolk/device/device.h"
#include "tolk/device/pools.h"
#include "tolk/device/registry.h"
#include "tolk/device/stream.h"

using namespace tolk;

namespace {

constexpr NodeId kImage = 1, kHidden = 2; // names that this program gives its values
constexpr uint64_t kCount = 256;

double sum(Buffer& buffer) {
  std::vector<float> values(buffer.count());
  buffer.copy_out(std::as_writable_bytes(std::span(values)));
  return std::accumulate(values.begin(), values.end(), 0.0);
}

} // namespace

int main() {
  Device& on = device(default_device());
  PoolTable& pools = on.pools();
  const uint64_t before = on.memory().live_bytes;

  // A pool is a number; a location is a pool and an offset.
  const int32_t pool = pools.next_pool_id();
  pools.alloc_pool(pool, 2 * kCount * sizeof(float), 64);
  pools.memset_zero(pool, 0, pools.size_of(pool));
  DeviceContextRef network =
      make_context(on, {{kImage, {pool, 0}}, {kHidden, {pool, kCount * sizeof(float)}}});
  std::printf("%s\n", describe(*network).c_str());

  // A buffer at a location is used as any other. The program's own array becomes one without a copy, where the device can
  // reach it.
  BufferRef image = pool_buffer(on, network->buffers().at(kImage), DType::F32, kCount);
  BufferRef hidden = pool_buffer(on, network->buffers().at(kHidden), DType::F32, kCount);
  alignas(4096) static float pixels[1024];
  for (uint64_t i = 0; i < kCount; ++i) pixels[i] = 0.5f;
  BufferRef mine = wrap_external(host_device(), DType::F32, kCount, pixels);
  copy_buffer(*image, *mine);
  copy_buffer(*hidden, *image);
  // A stream of another device could wait for the copies like this; the host goes on.
  const Event copied = on.compute().all_work();
  on.compute().will_wait_for(copied);
  on.compute().await(); // now it does
  const double image_sum = sum(*image), hidden_sum = sum(*hidden);
  std::printf("image %g, hidden %g\n", image_sum, hidden_sum);

  // Where the host can see the memory, it is there without a copy; kernels get handle and offset.
  const tolk_ref ref = pools.resolve_pool(hidden->loc());
  const std::byte* bytes = pools.host_data(pool);
  std::printf("hidden has %llu bytes from there to the pool's end, %s\n",
              static_cast<unsigned long long>(ref.size),
              bytes ? "in reach of the host" : "out of reach of the host");

  // Scratch memory for values of other devices is pool 0.
  const BufferLoc merged = pools.merge_in(*mine);
  std::printf("merged at %s\n", describe(merged).c_str());
  pools.free_pool(merged.pool_id);

  // A child adds a value in a pool of its own, which goes with the child; the parent stays as it is.
  const int32_t scratch = pools.next_pool_id();
  pools.alloc_pool(scratch, 1024, 64);
  CtxBuffers more = network->buffers();
  more[3] = {scratch, 0};
  DeviceContextRef step = network->make_child({.buffers = more});
  step.reset();
  std::printf("scratch pool %d %s\n", scratch, pools.has(scratch) ? "is still there" : "is gone");

  // What buffers lie in is freed with the last of them.
  network.reset();
  image.reset();
  hidden.reset();
  const uint64_t left = on.memory().live_bytes - before;
  std::printf("%llu bytes are left\n", static_cast<unsigned long long>(left));
  const bool well = image_sum == 128 && hidden_sum == 128 && !pools.has(scratch) && left == 0;
  mine.reset();
  shutdown_devices();
  return well ? 0 : 1;
}
