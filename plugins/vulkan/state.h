// What the plugin's files share: the objects behind the handles, and the functions of the tables.
//
// A stream records commands into a batch, a command buffer, and submits it to the device's queue. Each
// submission raises the stream's timeline semaphore by one; that number is the position of everything in the
// batch. Whoever waits compares positions with the semaphore, so waiting needs no lock.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#define VK_NO_PROTOTYPES
#include <volk.h>

#include <tolk/plugin/tolk_plugin.h>

namespace tolk_vulkan {

extern const tolk_host* host;

// Records the sentence with the host and gives the code back.
tolk_status fail(tolk_status code, const std::string& text);

// A failed call of Vulkan, or another failure with its status.
struct Failure {
  tolk_status status;
  std::string text;
};

// No exception leaves the plugin. `body` returns a tolk_status.
template <class Body> tolk_status guarded(Body body) {
  try {
    return body();
  } catch (const Failure& failure) {
    return fail(failure.status, failure.text);
  } catch (const std::bad_alloc&) {
    return fail(TOLK_E_HOST_OOM, "host memory is exhausted");
  } catch (const std::exception& error) {
    return fail(TOLK_E_INTERNAL, error.what());
  }
}

// An option of the user that is not 0.
bool option(const char* name);

// A physical device that the plugin can use, and what it found out about it.
struct Adapter {
  VkPhysicalDevice handle = VK_NULL_HANDLE;
  std::string name, driver, lacks; // `lacks`: why it cannot be used; empty when it can
  VkPhysicalDeviceProperties properties{};
  VkPhysicalDeviceVulkan11Properties properties11{};
  VkPhysicalDeviceVulkan12Properties properties12{};
  VkPhysicalDeviceMemoryProperties memory{};
  bool has_f64 = false;
  uint32_t queue_family = 0;
  uint32_t timestamp_bits = 0;
  std::string features; // tolk_target.arch_features
  tolk_device_info info{};
};

// Device memory with one VkBuffer over all of it, from which buffers are cut.
struct Block {
  VkDeviceMemory memory = VK_NULL_HANDLE;
  VkBuffer buffer = VK_NULL_HANDLE;
  VkDeviceAddress address = 0;
  uint8_t* mapped = nullptr; // the whole block, when the CPU can reach it
  uint64_t size = 0;
  uint32_t memory_type = 0;
  bool shared = false;               // of several buffers
  std::map<uint64_t, uint64_t> free; // offset to size
};

} // namespace tolk_vulkan

struct tolk_buffer {
  tolk_device* device = nullptr;
  tolk_vulkan::Block* block = nullptr;
  uint64_t offset = 0, size = 0, taken = 0; // `taken`: bytes of the block

  VkDeviceAddress address() const { return block->address + offset; }
  uint8_t* mapped() const { return block->mapped ? block->mapped + offset : nullptr; }
};

namespace tolk_vulkan {

// Memory that the CPU writes and the device reads, or the other way round, handed out in circles. A piece is
// free again when the position that was noted for it is done. Of one stream.
class Ring {
public:
  struct Piece {
    uint64_t offset;
    uint8_t* pointer;
    VkDeviceAddress address;
  };
  Ring(tolk_stream& stream, uint64_t size) : stream_(stream), size_(size) {}
  ~Ring();
  // At most max_piece() bytes, aligned to 64, until what is recorded at this moment is done. May wait.
  Piece take(uint64_t bytes);
  uint64_t max_piece() const { return size_ / 4; }
  VkBuffer buffer() const { return storage_->block->buffer; }

private:
  struct Used {
    uint64_t end;      // counts on through all circles
    uint64_t position; // of the stream
  };
  tolk_stream& stream_;
  uint64_t size_, head_ = 0, tail_ = 0; // count on through all circles
  std::deque<Used> used_;
  std::unique_ptr<tolk_buffer> storage_; // made at first use
};

// A timeline. Events hold it, so it outlives the stream; it is destroyed with its last holder, before the device.
struct Timeline {
  tolk_device* device;
  VkSemaphore semaphore = VK_NULL_HANDLE;
  std::atomic<uint64_t> reached{0}; // the semaphore was seen here

  explicit Timeline(tolk_device* on);
  ~Timeline();
  bool is_done(uint64_t position); // throws Failure when the device is lost
  bool wait(uint64_t position, uint64_t timeout_ns);
};

} // namespace tolk_vulkan

struct tolk_device {
  const tolk_vulkan::Adapter& adapter;
  VkDevice handle = VK_NULL_HANDLE;
  VolkDeviceTable vk{};
  VkQueue queue = VK_NULL_HANDLE;
  std::mutex queue_mutex; // queue
  VkPipelineLayout layout = VK_NULL_HANDLE;
  VkPipelineCache pipeline_cache = VK_NULL_HANDLE;
  std::string cache_key;
  size_t cache_size = 0; // of the data that the cache was made from
  tolk_target target{};
  tolk_caps caps{};
  std::atomic<bool> lost{false};
  std::string lost_reason; // set once, before `lost`

  std::mutex memory_mutex; // blocks and what is free in them
  std::vector<std::unique_ptr<tolk_vulkan::Block>> blocks;
  std::atomic<uint64_t> used_bytes{0}, peak_bytes{0}, buffer_count{0};

  explicit tolk_device(const tolk_vulkan::Adapter& on) : adapter(on) {}
  ~tolk_device();
  // Throws Failure for everything but success.
  void check(VkResult result, std::string_view doing);
};

struct tolk_event {
  std::shared_ptr<tolk_vulkan::Timeline> timeline; // null: never recorded
  uint64_t position = 0;
};

struct tolk_stream {
  tolk_device* const device;
  const std::shared_ptr<tolk_vulkan::Timeline> timeline;

  explicit tolk_stream(tolk_device* on);
  ~tolk_stream();

  // The batch's command buffer, with everything recorded before done and visible to the next command.
  VkCommandBuffer next_command();
  // After each command: hands the batch over when it is long, or when the device has nothing to do.
  void command_recorded();
  void flush();
  // The position of what is recorded now.
  uint64_t position() const { return submitted_ + 1; }
  uint64_t last_submitted() const { return submitted_; }
  bool idle() { return !recording_ && timeline->is_done(submitted_); }
  bool finish(uint64_t timeout_ns = TOLK_FOREVER); // flushes and waits; false when the time is over
  void wait_for(std::shared_ptr<tolk_vulkan::Timeline> other, uint64_t position);
  // Work that another object recorded: in order with this stream's.
  void submit(VkCommandBuffer commands);

  tolk_vulkan::Ring staging, readback, arguments;

private:
  struct Batch {
    VkCommandBuffer commands;
    uint64_t position;
  };
  struct Wait {
    std::shared_ptr<tolk_vulkan::Timeline> timeline;
    uint64_t position;
  };
  void submit_now(VkCommandBuffer commands);

  VkCommandPool pool_ = VK_NULL_HANDLE;
  VkCommandBuffer recording_ = VK_NULL_HANDLE;
  uint32_t recorded_ = 0; // commands in the batch
  uint64_t submitted_ = 0;
  std::deque<Batch> in_flight_;
  std::vector<VkCommandBuffer> idle_;
  std::vector<Wait> waits_;
};

struct tolk_kernel {
  tolk_program* program = nullptr;
  std::string name;
};

struct tolk_program {
  tolk_device* device = nullptr;
  VkShaderModule module = VK_NULL_HANDLE;
  tolk_kernel kernel;
  uint32_t buffer_count = 0, value_count = 0;
  std::mutex mutex;                                        // pipelines
  std::map<std::array<uint32_t, 3>, VkPipeline> pipelines; // by work-group size

  ~tolk_program();
  VkPipeline pipeline(const uint32_t local[3]);
  // The argument block of a launch.
  void write_arguments(const tolk_launch& launch, uint64_t* to) const;
  uint64_t argument_bytes() const { return 8 * (uint64_t{buffer_count} + value_count); }
};

namespace tolk_vulkan {

// In memory.cpp.
std::unique_ptr<tolk_buffer> make_buffer(tolk_device& device, uint64_t size, uint32_t kind,
                                         uint64_t align = 0);
void free_buffer(tolk_buffer& buffer);
bool has_kind(const Adapter& adapter, uint32_t kind);

// In program.cpp: why a launch of these sizes is refused; empty when it is not.
std::string broken_limit(const tolk_device& device, const uint32_t grid[3], const uint32_t local[3]);

inline bool is_inside(tolk_ref ref) {
  return ref.offset <= ref.buffer->size && ref.size <= ref.buffer->size - ref.offset;
}

// Everything recorded before is done, and visible to the commands behind it and, with `to_host`, to the CPU.
void barrier(tolk_device& device, VkCommandBuffer commands, bool to_host = false);

void make_caps(tolk_device& device); // device.cpp

extern const tolk_device_vt device_table;
extern const tolk_buffer_vt buffer_table;
extern const tolk_stream_vt stream_table;
extern const tolk_program_vt program_table;
extern const tolk_graph_vt graph_table;

const std::vector<Adapter>& adapters();
tolk_status open_device(void* self, uint32_t index, tolk_device** out); // device.cpp

} // namespace tolk_vulkan
