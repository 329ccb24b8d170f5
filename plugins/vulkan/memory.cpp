// Buffers, cut from blocks of device memory. Small ones share a block, since drivers allow few allocations.
#include <algorithm>
#include <cstring>

#include <tolk/plugin/helpers.h>

#include "state.h"

namespace tolk_vulkan {
namespace {

constexpr uint64_t kBlockBytes = uint64_t{64} << 20;
constexpr uint64_t kSharedMax = uint64_t{8} << 20; // larger buffers have a block of their own
constexpr uint64_t kAlign = 256;

// Properties that a memory type must have for a kind, and those that are nice to have, the most wanted first.
struct Wanted {
  VkMemoryPropertyFlags needed;
  std::array<VkMemoryPropertyFlags, 2> preferred;
};

Wanted wanted(uint32_t kind) {
  constexpr VkMemoryPropertyFlags kLocal = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
  constexpr VkMemoryPropertyFlags kHost =
      VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  constexpr VkMemoryPropertyFlags kCached = VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
  switch (kind) {
  case TOLK_BUFFER_STAGING:
    return {kHost, {kCached, 0}};
  case TOLK_BUFFER_UNIFIED:
    return {kHost | kLocal, {kCached, 0}};
  default:
    return {kLocal, {0, 0}};
  }
}

std::optional<uint32_t> memory_type(const Adapter& adapter, uint32_t kind, uint32_t allowed = UINT32_MAX) {
  const Wanted want = wanted(kind);
  for (VkMemoryPropertyFlags more : want.preferred)
    for (uint32_t i = 0; i < adapter.memory.memoryTypeCount; ++i) {
      const VkMemoryPropertyFlags flags = adapter.memory.memoryTypes[i].propertyFlags;
      const VkMemoryPropertyFlags all = want.needed | more;
      if ((allowed >> i & 1) && (flags & all) == all) return i;
    }
  return {};
}

std::unique_ptr<Block> make_block(tolk_device& device, uint64_t size, uint32_t kind) {
  auto block = std::make_unique<Block>();
  VkBufferCreateInfo create{};
  create.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
  create.size = size;
  create.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT |
                 VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT |
                 VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT;
  const std::string doing = "allocating " + std::to_string(size) + " bytes";
  device.check(device.vk.vkCreateBuffer(device.handle, &create, nullptr, &block->buffer), doing);
  VkMemoryRequirements needs{};
  device.vk.vkGetBufferMemoryRequirements(device.handle, block->buffer, &needs);
  std::optional<uint32_t> type = memory_type(device.adapter, kind, needs.memoryTypeBits);
  VkMemoryAllocateFlagsInfo flags{};
  flags.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO;
  flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
  VkMemoryAllocateInfo allocate{};
  allocate.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
  allocate.pNext = &flags;
  allocate.allocationSize = needs.size;
  allocate.memoryTypeIndex = type.value_or(0);
  const uint32_t heap = device.adapter.memory.memoryTypes[allocate.memoryTypeIndex].heapIndex;
  const bool too_large = needs.size > device.adapter.properties11.maxMemoryAllocationSize ||
                         needs.size > device.adapter.memory.memoryHeaps[heap].size;
  VkResult result = !type || too_large
                        ? VK_ERROR_OUT_OF_DEVICE_MEMORY
                        : device.vk.vkAllocateMemory(device.handle, &allocate, nullptr, &block->memory);
  if (result == VK_SUCCESS)
    result = device.vk.vkBindBufferMemory(device.handle, block->buffer, block->memory, 0);
  if (result == VK_SUCCESS && (device.adapter.memory.memoryTypes[*type].propertyFlags &
                               wanted(TOLK_BUFFER_STAGING).needed) == wanted(TOLK_BUFFER_STAGING).needed) {
    void* pointer = nullptr;
    result = device.vk.vkMapMemory(device.handle, block->memory, 0, VK_WHOLE_SIZE, 0, &pointer);
    block->mapped = static_cast<uint8_t*>(pointer);
  }
  if (result != VK_SUCCESS) {
    device.vk.vkDestroyBuffer(device.handle, block->buffer, nullptr);
    if (block->memory) device.vk.vkFreeMemory(device.handle, block->memory, nullptr);
    device.check(result, doing);
  }
  VkBufferDeviceAddressInfo address{};
  address.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO;
  address.buffer = block->buffer;
  block->address = device.vk.vkGetBufferDeviceAddress(device.handle, &address);
  block->size = size;
  block->memory_type = *type;
  return block;
}

// First fit. `memory_mutex` is held.
bool cut(Block& block, uint64_t bytes, uint64_t& offset) {
  for (auto piece = block.free.begin(); piece != block.free.end(); ++piece) {
    if (piece->second < bytes) continue;
    offset = piece->first;
    const uint64_t rest = piece->second - bytes;
    block.free.erase(piece);
    if (rest) block.free.emplace(offset + bytes, rest);
    return true;
  }
  return false;
}

void give_back(Block& block, uint64_t offset, uint64_t bytes) {
  auto next = block.free.lower_bound(offset);
  if (next != block.free.end() && next->first == offset + bytes) {
    bytes += next->second;
    next = block.free.erase(next);
  }
  if (next != block.free.begin()) {
    auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += bytes;
      return;
    }
  }
  block.free.emplace(offset, bytes);
}

tolk_status create(tolk_device* device, const tolk_buffer_desc* desc, tolk_buffer** out) {
  return guarded([&]() -> tolk_status {
    if (desc->align & (desc->align - 1))
      return fail(TOLK_E_INVALID, "a buffer's alignment must be a power of two");
    const uint32_t kind = desc->kind == 0 ? uint32_t{TOLK_BUFFER_DEVICE} : desc->kind;
    if (!(device->caps.buffer_kinds >> kind & 1))
      return fail(TOLK_E_UNSUPPORTED, "the device has no memory of kind " + std::to_string(kind));
    std::unique_ptr<tolk_buffer> buffer = make_buffer(*device, desc->size, kind, desc->align);
    if (desc->flags & TOLK_BUFFER_ZEROED) {
      if (buffer->mapped()) {
        std::memset(buffer->mapped(), 0, desc->size);
      } else {
        tolk_stream stream(device);
        VkCommandBuffer commands = stream.next_command();
        device->vk.vkCmdFillBuffer(commands, buffer->block->buffer, buffer->offset, buffer->taken, 0);
        stream.finish();
      }
    }
    *out = buffer.release();
    return TOLK_OK;
  });
}

void destroy(tolk_buffer* buffer) {
  free_buffer(*buffer);
  delete buffer;
}

tolk_status map(tolk_buffer* buffer, uint64_t offset, uint64_t size, uint32_t, void** out) {
  return guarded([&]() -> tolk_status {
    if (!tolk_inside(offset, size, buffer->size))
      return fail(TOLK_E_INVALID, "the range to map is not in the buffer");
    if (!buffer->mapped()) return fail(TOLK_E_UNSUPPORTED, "the CPU cannot reach this memory");
    *out = buffer->mapped() + offset;
    return TOLK_OK;
  });
}

tolk_status unmap(tolk_buffer*, void*) { return TOLK_OK; } // the memory is coherent and stays mapped

} // namespace

bool has_kind(const Adapter& adapter, uint32_t kind) { return memory_type(adapter, kind).has_value(); }

std::unique_ptr<tolk_buffer> make_buffer(tolk_device& device, uint64_t size, uint32_t kind, uint64_t align) {
  auto buffer = std::make_unique<tolk_buffer>();
  buffer->device = &device;
  buffer->size = size;
  // A block of its own has room to begin at any alignment.
  const uint64_t room = align > kAlign ? align : 0;
  if (size > UINT64_MAX - kAlign || size + kAlign > UINT64_MAX - room)
    throw Failure{TOLK_E_DEVICE_OOM, "no memory for a buffer of " + std::to_string(size) + " bytes"};
  buffer->taken = std::max<uint64_t>(kAlign, (size + kAlign - 1) / kAlign * kAlign);
  const uint32_t type = memory_type(device.adapter, kind).value_or(0);
  const bool shared = buffer->taken <= kSharedMax && room == 0;
  std::lock_guard lock(device.memory_mutex);
  for (const auto& block : device.blocks)
    if (shared && block->shared && block->memory_type == type && cut(*block, buffer->taken, buffer->offset)) {
      buffer->block = block.get();
      break;
    }
  if (!buffer->block) {
    std::unique_ptr<Block> block = make_block(device, shared ? kBlockBytes : buffer->taken + room, kind);
    block->shared = shared;
    if (shared) {
      block->free.emplace(0, block->size);
      cut(*block, buffer->taken, buffer->offset);
    } else if (room != 0) {
      buffer->offset = -block->address & (align - 1);
    }
    buffer->block = block.get();
    device.blocks.push_back(std::move(block));
  }
  const uint64_t now = device.used_bytes += size;
  device.peak_bytes = std::max<uint64_t>(device.peak_bytes, now);
  ++device.buffer_count;
  return buffer;
}

void free_buffer(tolk_buffer& buffer) {
  tolk_device& device = *buffer.device;
  std::lock_guard lock(device.memory_mutex);
  device.used_bytes -= buffer.size;
  --device.buffer_count;
  Block& block = *buffer.block;
  if (block.shared) {
    give_back(block, buffer.offset, buffer.taken);
    if (block.free.size() != 1 || block.free.begin()->second != block.size) return;
  }
  device.vk.vkDestroyBuffer(device.handle, block.buffer, nullptr);
  device.vk.vkFreeMemory(device.handle, block.memory, nullptr);
  std::erase_if(device.blocks, [&](const auto& b) { return b.get() == &block; });
}

const tolk_buffer_vt buffer_table = [] {
  tolk_buffer_vt table{};
  table.struct_size = sizeof table;
  table.create = create;
  table.destroy = destroy;
  table.map = map;
  table.unmap = unmap;
  return table;
}();

} // namespace tolk_vulkan
