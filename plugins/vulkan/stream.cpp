// Streams, events, copies.
#include <algorithm>
#include <cstring>
#include <utility>

#include <tolk/plugin/helpers.h>

#include "state.h"

namespace tolk_vulkan {
namespace {

constexpr uint32_t kBatchCommands = 64; // commands after which a batch is handed over
constexpr uint64_t kStagingBytes = uint64_t{16} << 20;
constexpr uint64_t kArgumentBytes = uint64_t{1} << 20;

} // namespace

Timeline::Timeline(tolk_device* on) : device(on) {
  VkSemaphoreTypeCreateInfo type{};
  type.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO;
  type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
  VkSemaphoreCreateInfo create{};
  create.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO;
  create.pNext = &type;
  on->check(on->vk.vkCreateSemaphore(on->handle, &create, nullptr, &semaphore), "making a semaphore");
}

Timeline::~Timeline() { device->vk.vkDestroySemaphore(device->handle, semaphore, nullptr); }

bool Timeline::is_done(uint64_t position) {
  if (reached.load(std::memory_order_acquire) >= position) return true;
  uint64_t value = 0;
  device->check(device->vk.vkGetSemaphoreCounterValue(device->handle, semaphore, &value),
                "asking a semaphore");
  uint64_t before = reached.load(std::memory_order_relaxed);
  while (before < value && !reached.compare_exchange_weak(before, value, std::memory_order_acq_rel)) {
  }
  return value >= position;
}

bool Timeline::wait(uint64_t position, uint64_t timeout_ns) {
  if (is_done(position)) return true;
  if (timeout_ns == 0) return false;
  VkSemaphoreWaitInfo wait{};
  wait.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO;
  wait.semaphoreCount = 1;
  wait.pSemaphores = &semaphore;
  wait.pValues = &position;
  VkResult result = device->vk.vkWaitSemaphores(device->handle, &wait, timeout_ns);
  if (result == VK_TIMEOUT) return false;
  device->check(result, "waiting for the device");
  return is_done(position);
}

void barrier(tolk_device& device, VkCommandBuffer commands, bool to_host) {
  constexpr VkPipelineStageFlags kWork =
      VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
  VkMemoryBarrier memory{};
  memory.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
  memory.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
  memory.dstAccessMask = to_host ? VkAccessFlags(VK_ACCESS_HOST_READ_BIT | VK_ACCESS_HOST_WRITE_BIT)
                                 : VkAccessFlags(VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT |
                                                 VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT);
  device.vk.vkCmdPipelineBarrier(commands, kWork,
                                 to_host ? VkPipelineStageFlags(VK_PIPELINE_STAGE_HOST_BIT) : kWork, 0, 1,
                                 &memory, 0, nullptr, 0, nullptr);
}

} // namespace tolk_vulkan

using namespace tolk_vulkan;

tolk_stream::tolk_stream(tolk_device* on)
    : device(on), timeline(std::make_shared<Timeline>(on)), staging(*this, kStagingBytes),
      readback(*this, kStagingBytes), arguments(*this, kArgumentBytes) {
  VkCommandPoolCreateInfo create{};
  create.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
  create.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT | VK_COMMAND_POOL_CREATE_TRANSIENT_BIT;
  create.queueFamilyIndex = on->adapter.queue_family;
  on->check(on->vk.vkCreateCommandPool(on->handle, &create, nullptr, &pool_), "making a command pool");
}

// The stream is idle, or the device is lost.
tolk_stream::~tolk_stream() {
  if (pool_) device->vk.vkDestroyCommandPool(device->handle, pool_, nullptr);
}

VkCommandBuffer tolk_stream::next_command() {
  if (!recording_) {
    while (!in_flight_.empty() && timeline->is_done(in_flight_.front().position)) {
      idle_.push_back(in_flight_.front().commands);
      in_flight_.pop_front();
    }
    if (idle_.empty()) {
      VkCommandBufferAllocateInfo allocate{};
      allocate.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
      allocate.commandPool = pool_;
      allocate.commandBufferCount = 1;
      VkCommandBuffer commands = VK_NULL_HANDLE;
      device->check(device->vk.vkAllocateCommandBuffers(device->handle, &allocate, &commands),
                    "making a command buffer");
      idle_.push_back(commands);
    }
    VkCommandBufferBeginInfo begin{};
    begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
    begin.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
    device->check(device->vk.vkBeginCommandBuffer(idle_.back(), &begin), "recording commands");
    recording_ = idle_.back();
    idle_.pop_back();
    recorded_ = 0;
  }
  barrier(*device, recording_);
  return recording_;
}

void tolk_stream::command_recorded() {
  if (++recorded_ >= kBatchCommands || timeline->is_done(submitted_)) flush();
}

void tolk_stream::submit_now(VkCommandBuffer commands) {
  std::vector<VkSemaphore> semaphores;
  std::vector<uint64_t> values;
  for (const Wait& wait : waits_) {
    semaphores.push_back(wait.timeline->semaphore);
    values.push_back(wait.position);
  }
  const std::vector<VkPipelineStageFlags> stages(waits_.size(), VK_PIPELINE_STAGE_ALL_COMMANDS_BIT);
  const uint64_t next = submitted_ + 1;
  VkTimelineSemaphoreSubmitInfo positions{};
  positions.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO;
  positions.waitSemaphoreValueCount = static_cast<uint32_t>(values.size());
  positions.pWaitSemaphoreValues = values.data();
  positions.signalSemaphoreValueCount = 1;
  positions.pSignalSemaphoreValues = &next;
  VkSubmitInfo submit{};
  submit.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
  submit.pNext = &positions;
  submit.waitSemaphoreCount = static_cast<uint32_t>(semaphores.size());
  submit.pWaitSemaphores = semaphores.data();
  submit.pWaitDstStageMask = stages.data();
  submit.commandBufferCount = commands ? 1 : 0;
  submit.pCommandBuffers = &commands;
  submit.signalSemaphoreCount = 1;
  submit.pSignalSemaphores = &timeline->semaphore;
  {
    std::lock_guard lock(device->queue_mutex);
    device->check(device->vk.vkQueueSubmit(device->queue, 1, &submit, VK_NULL_HANDLE), "submitting work");
  }
  submitted_ = next;
  waits_.clear();
}

void tolk_stream::flush() {
  if (!recording_) return;
  VkCommandBuffer commands = std::exchange(recording_, VK_NULL_HANDLE);
  barrier(*device, commands, true);
  device->check(device->vk.vkEndCommandBuffer(commands), "recording commands");
  submit_now(commands);
  in_flight_.push_back({commands, submitted_});
}

void tolk_stream::submit(VkCommandBuffer commands) {
  flush();
  submit_now(commands);
}

bool tolk_stream::finish(uint64_t timeout_ns) {
  flush();
  return timeline->wait(submitted_, timeout_ns);
}

void tolk_stream::wait_for(std::shared_ptr<Timeline> other, uint64_t position) {
  if (other == timeline || other->is_done(position)) return;
  if (other->device != device) { // semaphores are of one device
    other->wait(position, TOLK_FOREVER);
    return;
  }
  flush(); // what was recorded before does not wait
  waits_.push_back({std::move(other), position});
}

namespace tolk_vulkan {
namespace {

constexpr const char* kOutside = "a range is not inside its buffer";

// For each piece of a range that staging memory holds.
template <class Each> void in_pieces(uint64_t size, uint64_t piece, Each each) {
  for (uint64_t at = 0; at < size; at += piece) each(at, std::min(piece, size - at));
}

void copy_command(tolk_stream& stream, VkBuffer from, uint64_t from_offset, VkBuffer to, uint64_t to_offset,
                  uint64_t size) {
  VkCommandBuffer commands = stream.next_command();
  const VkBufferCopy region = {from_offset, to_offset, size};
  stream.device->vk.vkCmdCopyBuffer(commands, from, to, 1, &region);
  stream.command_recorded();
}

tolk_status copy_in(tolk_stream* stream, tolk_ref dst, const void* src, uint32_t flags) {
  return guarded([&]() -> tolk_status {
    if (!is_inside(dst)) return fail(TOLK_E_INVALID, kOutside);
    if (dst.size == 0) return TOLK_OK;
    const bool wait = !(flags & TOLK_COPY_ASYNC);
    if (dst.buffer->mapped() && (wait || stream->idle())) {
      stream->finish();
      std::memcpy(dst.buffer->mapped() + dst.offset, src, dst.size);
      return TOLK_OK;
    }
    in_pieces(dst.size, stream->staging.max_piece(), [&](uint64_t at, uint64_t size) {
      Ring::Piece piece = stream->staging.take(size);
      std::memcpy(piece.pointer, static_cast<const uint8_t*>(src) + at, size);
      copy_command(*stream, stream->staging.buffer(), piece.offset, dst.buffer->block->buffer,
                   dst.buffer->offset + dst.offset + at, size);
    });
    if (wait) stream->finish();
    return TOLK_OK;
  });
}

// Always complete at return: the bytes pass through memory of the plugin.
tolk_status copy_out(tolk_stream* stream, void* dst, tolk_ref src, uint32_t) {
  return guarded([&]() -> tolk_status {
    if (!is_inside(src)) return fail(TOLK_E_INVALID, kOutside);
    if (src.size == 0) return TOLK_OK;
    if (src.buffer->mapped()) {
      stream->finish();
      std::memcpy(dst, src.buffer->mapped() + src.offset, src.size);
      return TOLK_OK;
    }
    in_pieces(src.size, stream->readback.max_piece(), [&](uint64_t at, uint64_t size) {
      Ring::Piece piece = stream->readback.take(size);
      copy_command(*stream, src.buffer->block->buffer, src.buffer->offset + src.offset + at,
                   stream->readback.buffer(), piece.offset, size);
      stream->finish();
      std::memcpy(static_cast<uint8_t*>(dst) + at, piece.pointer, size);
    });
    return TOLK_OK;
  });
}

tolk_status copy(tolk_stream* stream, tolk_ref dst, tolk_ref src) {
  return guarded([&]() -> tolk_status {
    if (!is_inside(dst) || !is_inside(src) || dst.size != src.size || tolk_overlap(dst, src))
      return fail(TOLK_E_INVALID,
                  "the ranges of a copy overlap, differ in size or are outside their buffers");
    if (dst.buffer->device != stream->device || src.buffer->device != stream->device)
      return fail(TOLK_E_UNSUPPORTED, "Vulkan devices do not reach each other's memory");
    if (dst.size == 0) return TOLK_OK;
    copy_command(*stream, src.buffer->block->buffer, src.buffer->offset + src.offset,
                 dst.buffer->block->buffer, dst.buffer->offset + dst.offset, dst.size);
    return TOLK_OK;
  });
}

tolk_status fill(tolk_stream* stream, tolk_ref dst, uint64_t pattern, uint32_t pattern_bytes) {
  return guarded([&]() -> tolk_status {
    if (!is_inside(dst)) return fail(TOLK_E_INVALID, kOutside);
    if (!tolk_fill_fits(dst, pattern_bytes))
      return fail(TOLK_E_INVALID, "a fill's pattern has 1, 2, 4 or 8 bytes that divide offset and size");
    if (dst.size == 0) return TOLK_OK;
    const uint64_t offset = dst.buffer->offset + dst.offset;
    uint8_t bytes[8];
    tolk_fill_bytes(bytes, sizeof bytes, pattern, pattern_bytes);
    uint32_t words[2];
    std::memcpy(words, bytes, sizeof words);
    if (words[0] == words[1] && offset % 4 == 0 && dst.size % 4 == 0) {
      VkCommandBuffer commands = stream->next_command();
      stream->device->vk.vkCmdFillBuffer(commands, dst.buffer->block->buffer, offset, dst.size, words[0]);
      stream->command_recorded();
      return TOLK_OK;
    }
    in_pieces(dst.size, stream->staging.max_piece(), [&](uint64_t at, uint64_t size) {
      Ring::Piece piece = stream->staging.take(size);
      tolk_fill_bytes(piece.pointer, size, pattern, pattern_bytes);
      copy_command(*stream, stream->staging.buffer(), piece.offset, dst.buffer->block->buffer, offset + at,
                   size);
    });
    return TOLK_OK;
  });
}

tolk_status create(tolk_device* device, uint32_t, tolk_stream** out) {
  return guarded([&]() -> tolk_status {
    *out = std::make_unique<tolk_stream>(device).release();
    return TOLK_OK;
  });
}

void destroy(tolk_stream* stream) { delete stream; }

tolk_status synchronize(tolk_stream* stream, uint64_t timeout_ns) {
  return guarded([&]() -> tolk_status { return stream->finish(timeout_ns) ? TOLK_OK : TOLK_TIMEOUT; });
}

tolk_status wait(tolk_stream* stream, tolk_event* event) {
  return guarded([&]() -> tolk_status {
    if (event->timeline) stream->wait_for(event->timeline, event->position);
    return TOLK_OK;
  });
}

tolk_status flush(tolk_stream* stream) {
  return guarded([&]() -> tolk_status {
    stream->flush();
    return TOLK_OK;
  });
}

tolk_status event_create(tolk_device*, uint32_t, tolk_event** out) {
  return guarded([&]() -> tolk_status {
    *out = new tolk_event;
    return TOLK_OK;
  });
}

// Hands the batch over, so that whoever polls the event need not.
tolk_status event_record(tolk_event* event, tolk_stream* stream) {
  return guarded([&]() -> tolk_status {
    if (event->timeline && !event->timeline->is_done(event->position))
      return fail(TOLK_E_INVALID, "the event is recorded again before it is done");
    stream->flush();
    event->timeline = stream->timeline;
    event->position = stream->last_submitted();
    return TOLK_OK;
  });
}

tolk_status event_query(tolk_event* event) {
  return guarded([&]() -> tolk_status {
    return !event->timeline || event->timeline->is_done(event->position) ? TOLK_OK : TOLK_NOT_READY;
  });
}

tolk_status event_sync(tolk_event* event, uint64_t timeout_ns) {
  return guarded([&]() -> tolk_status {
    return !event->timeline || event->timeline->wait(event->position, timeout_ns) ? TOLK_OK : TOLK_TIMEOUT;
  });
}

void event_destroy(tolk_event* event) { delete event; }

} // namespace

const tolk_stream_vt stream_table = [] {
  tolk_stream_vt table{};
  table.struct_size = sizeof table;
  table.copy_in = copy_in;
  table.copy_out = copy_out;
  table.copy = copy;
  table.fill = fill;
  table.create = create;
  table.destroy = destroy;
  table.synchronize = synchronize;
  table.wait = wait;
  table.flush = flush;
  table.event_create = event_create;
  table.event_record = event_record;
  table.event_query = event_query;
  table.event_sync = event_sync;
  table.event_destroy = event_destroy;
  return table;
}();

} // namespace tolk_vulkan
