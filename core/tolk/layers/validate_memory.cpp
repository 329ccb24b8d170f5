// The layer `validate`: buffers and refs.
#include <algorithm>

#include "tolk/layers/validate.h"
#include "tolk/loader/plugin_host.h"

namespace tolk::validating {
namespace {

constexpr auto kDescSize = sizeof(tolk_buffer_desc);

std::string range_text(uint64_t offset, uint64_t size, uint64_t whole) {
  return "bytes " + std::to_string(offset) + " to " + std::to_string(offset + size) + " of " +
         std::to_string(whole);
}

bool inside(uint64_t offset, uint64_t size, uint64_t whole) {
  return offset <= whole && size <= whole - offset;
}

void on_release(void* arg) {
  auto& release = *static_cast<Release*>(arg);
  const bool first = release.calls.fetch_add(1) == 0;
  // During a failed import the memory stays the caller's; a second call would free it twice.
  if (first && !release.importing && release.function) release.function(release.arg);
}

} // namespace

ValidateLayer::BufferRef ValidateLayer::check_ref(Call& call, tolk_ref ref, const char* what) {
  BufferRef buffer = call.find(buffers_, ref.buffer, what);
  if (buffer)
    call.need(inside(ref.offset, ref.size, buffer->size), Rule::ref_range,
              std::string(what) + " is " + range_text(ref.offset, ref.size, buffer->size));
  return buffer;
}

void ValidateLayer::check_desc(Call& call, const Device& device, const tolk_buffer_desc* desc,
                               const void* out) {
  if (!call.need(desc && out, Rule::pointer_null)) return;
  call.need(desc->struct_size >= kDescSize, Rule::struct_size, std::to_string(desc->struct_size) + " bytes");
  call.need((desc->align & (desc->align - 1)) == 0, Rule::buffer_align, std::to_string(desc->align));
  if (!device.caps_known) return;
  const tolk_caps& c = device.caps;
  const uint32_t kinds = c.buffer_kinds | 1u << TOLK_BUFFER_DEVICE;
  call.need(desc->kind < 32 && (kinds >> desc->kind & 1), Rule::buffer_kind,
            "kind " + std::to_string(desc->kind));
  call.need(c.max_buffer_bytes == 0 || desc->size <= c.max_buffer_bytes, Rule::buffer_limit,
            std::to_string(desc->size) + " bytes, at most " + std::to_string(c.max_buffer_bytes));
}

tolk_status ValidateLayer::adopt_buffer(Call& call, tolk_status status, BufferRef buffer,
                                        tolk_buffer* const* out) {
  if (status != TOLK_OK || !call.need(*out, Rule::result_null, "no buffer")) return call.result(status);
  buffer->handle = *out;
  DeviceRef device = buffer->device;
  if (call.need(buffers_.add(*out, std::move(buffer)), Rule::handle_twice, "buffer " + Call::address(*out)))
    device->children++;
  return call.result(status);
}

tolk_status ValidateLayer::buffer_create(tolk_device* handle, const tolk_buffer_desc* desc,
                                         tolk_buffer** out) {
  Call call(*this, "buffer.create");
  DeviceRef device = call.find(devices_, handle, "the device");
  if (device) check_desc(call, *device, desc, out);
  if (!call.ok()) return call.refuse();
  *out = nullptr;
  tolk_status status =
      call.forward(device.get(), Mandatory, [&] { return next->buffer_create(handle, desc, out); });
  auto buffer = std::make_shared<Buffer>();
  buffer->device = device;
  buffer->size = desc->size;
  buffer->kind = desc->kind;
  return adopt_buffer(call, status, std::move(buffer), out);
}

void ValidateLayer::buffer_destroy(tolk_buffer* handle) {
  Call call(*this, "buffer.destroy");
  BufferRef buffer = call.find(buffers_, handle, "the buffer");
  if (!buffer) return;
  call.need(!buffer->uses.pending(), Rule::buffer_pending);
  call.need(buffer->graphs == 0, Rule::buffer_in_graph, std::to_string(buffer->graphs) + " nodes hold it");
  call.need(buffer->peers == 0, Rule::buffer_peer_order, std::to_string(buffer->peers) + " are left");
  if (!call.ok()) return;
  buffers_.remove(handle);
  buffer->device->children--;
  if (buffer->origin) buffer->origin->peers--;
  call.forward_void([&] { next->buffer_destroy(handle); });
  if (Release* r = buffer->release) {
    call.need(r->calls == 1, Rule::release_count, "it was called " + std::to_string(r->calls) + " times");
    if (r->calls == 0) on_release(r); // the owner waits for it; a later call by the plugin does nothing
  }
}

tolk_status ValidateLayer::buffer_map(tolk_buffer* handle, uint64_t offset, uint64_t size, uint32_t access,
                                      void** out) {
  Call call(*this, "buffer.map");
  BufferRef buffer = call.find(buffers_, handle, "the buffer");
  call.need(out, Rule::pointer_null);
  if (buffer)
    call.need(inside(offset, size, buffer->size), Rule::map_range, range_text(offset, size, buffer->size));
  call.need(access & (TOLK_MAP_READ | TOLK_MAP_WRITE), Rule::map_access);
  if (!call.ok()) return call.refuse();
  *out = nullptr;
  tolk_status status = call.forward(buffer->device.get(), 0,
                                    [&] { return next->buffer_map(handle, offset, size, access, out); });
  if (status != TOLK_OK) return call.result(status);
  call.need(*out || size == 0, Rule::result_null, "no pointer");
  const tolk_caps& c = buffer->device->caps;
  const uint64_t align = buffer->release ? 1 : std::max<uint64_t>(c.map_align, 1);
  const auto address = reinterpret_cast<uintptr_t>(*out);
  if (size != 0)
    call.need((address - offset) % align == 0, Rule::map_pointer,
              Call::address(*out) + " for offset " + std::to_string(offset) + ", map_align " +
                  std::to_string(align));
  if (call.ok()) buffer->maps.insert(*out);
  return call.result(status);
}

tolk_status ValidateLayer::buffer_unmap(tolk_buffer* handle, void* pointer) {
  Call call(*this, "buffer.unmap");
  BufferRef buffer = call.find(buffers_, handle, "the buffer");
  if (buffer) call.need(buffer->maps.contains(pointer), Rule::unmap_pointer, Call::address(pointer));
  if (!call.ok()) return call.refuse();
  buffer->maps.erase(buffer->maps.find(pointer));
  return call.result(
      call.forward(buffer->device.get(), 0, [&] { return next->buffer_unmap(handle, pointer); }));
}

tolk_status ValidateLayer::buffer_import_handle(tolk_device* handle, const tolk_buffer_desc* desc,
                                                uint32_t type, uint64_t value, tolk_release_fn release,
                                                void* arg, tolk_buffer** out) {
  Call call(*this, "buffer.import_handle");
  DeviceRef device = call.find(devices_, handle, "the device");
  if (device) check_desc(call, *device, desc, out);
  const uint64_t align = device ? device->caps.import_align : 0;
  if (type == TOLK_HANDLE_HOST_POINTER && align > 1)
    call.need(value % align == 0 && desc && desc->size % align == 0, Rule::import_align,
              "address and size are no multiples of " + std::to_string(align));
  if (!call.ok()) return call.refuse();
  *out = nullptr;
  Release* watched = &releases_.emplace_back();
  watched->function = release;
  watched->arg = arg;
  tolk_status status = call.forward(device.get(), 0, [&] {
    return next->buffer_import_handle(handle, desc, type, value, on_release, watched, out);
  });
  call.need(watched->calls == 0, Rule::release_count, "import_handle itself called it");
  watched->importing = false;
  auto buffer = std::make_shared<Buffer>();
  buffer->device = device;
  buffer->size = desc->size;
  buffer->kind = desc->kind;
  buffer->kernel_writes = desc->usage & TOLK_USAGE_KERNEL_WRITE;
  buffer->copies_write = desc->usage & (TOLK_USAGE_KERNEL_WRITE | TOLK_USAGE_COPY_DESTINATION);
  buffer->release = watched;
  return adopt_buffer(call, status, std::move(buffer), out);
}

tolk_status ValidateLayer::buffer_export_handle(tolk_buffer* handle, uint32_t type, uint64_t* value) {
  Call call(*this, "buffer.export_handle");
  BufferRef buffer = call.find(buffers_, handle, "the buffer");
  if (!call.need(value, Rule::pointer_null)) return call.refuse();
  return call.result(
      call.forward(buffer->device.get(), 0, [&] { return next->buffer_export_handle(handle, type, value); }));
}

tolk_status ValidateLayer::buffer_peer_map(tolk_buffer* handle, tolk_device* other, tolk_buffer** out) {
  Call call(*this, "buffer.peer_map");
  BufferRef buffer = call.find(buffers_, handle, "the buffer");
  DeviceRef device = call.find(devices_, other, "the other device");
  if (!call.need(out, Rule::pointer_null)) return call.refuse();
  *out = nullptr;
  tolk_status status =
      call.forward(device.get(), 0, [&] { return next->buffer_peer_map(handle, other, out); });
  auto mapped = std::make_shared<Buffer>();
  mapped->device = device;
  mapped->size = buffer->size;
  mapped->kind = buffer->kind;
  mapped->kernel_writes = buffer->kernel_writes;
  mapped->copies_write = buffer->copies_write;
  mapped->origin = buffer;
  if (status == TOLK_OK && *out && !buffers_.live.contains(*out)) buffer->peers++;
  return adopt_buffer(call, status, std::move(mapped), out);
}

tolk_status ValidateLayer::buffer_advise(tolk_buffer* handle, uint64_t offset, uint64_t size, uint32_t hint) {
  Call call(*this, "buffer.advise");
  BufferRef buffer = call.find(buffers_, handle, "the buffer");
  if (buffer)
    call.need(inside(offset, size, buffer->size), Rule::map_range, range_text(offset, size, buffer->size));
  if (!call.ok()) return call.refuse();
  return call.result(
      call.forward(buffer->device.get(), 0, [&] { return next->buffer_advise(handle, offset, size, hint); }));
}

} // namespace tolk::validating
