#include "tolk/loader/host_fallbacks.h"

#include <chrono>

namespace tolk {
namespace {

// Any non-null address does for an event that is always done.
tolk_event* done_event() {
  static char place;
  return reinterpret_cast<tolk_event*>(&place);
}

template <typename Entry, typename Fallback> void fill(Entry& entry, Fallback fallback) {
  if (!entry) entry = fallback;
}

} // namespace

void fill_plugin_table(tolk_plugin& t) {
  fill(t.shutdown, [](void*) {});
  fill(t.rescan, [](void*) -> tolk_status { return TOLK_OK; });
  fill(t.get_extension,
       [](void*, const char*, uint32_t, const void**) -> tolk_status { return TOLK_E_NOT_FOUND; });
}

void fill_device_table(tolk_device_vt& t) {
  fill(t.memory, [](tolk_device*, tolk_memory*) -> tolk_status { return TOLK_OK; });
  fill(t.trim, [](tolk_device*) -> tolk_status { return TOLK_OK; });
  // Device::synchronize waits for the stream first, so nothing is left to wait for.
  fill(t.synchronize, [](tolk_device*, uint64_t) -> tolk_status { return TOLK_OK; });
  fill(t.peer, [](tolk_device*, tolk_device*, uint32_t* flags) -> tolk_status {
    *flags = 0;
    return TOLK_OK;
  });
  fill(t.clock, [](tolk_device*, uint64_t*, uint64_t*) -> tolk_status { return TOLK_E_UNSUPPORTED; });
  fill(t.flush_caches, [](tolk_device*) -> tolk_status { return TOLK_OK; });
  fill(t.lost_reason, [](tolk_device*) -> const char* { return ""; });
}

void fill_buffer_table(tolk_buffer_vt& t) {
  fill(t.map,
       [](tolk_buffer*, uint64_t, uint64_t, uint32_t, void**) -> tolk_status { return TOLK_E_UNSUPPORTED; });
  fill(t.unmap, [](tolk_buffer*, void*) -> tolk_status { return TOLK_OK; });
  fill(t.import_handle,
       [](tolk_device*, const tolk_buffer_desc*, uint32_t, uint64_t, tolk_release_fn, void*,
          tolk_buffer**) -> tolk_status { return TOLK_E_UNSUPPORTED; });
  fill(t.export_handle, [](tolk_buffer*, uint32_t, uint64_t*) -> tolk_status { return TOLK_E_UNSUPPORTED; });
  fill(t.peer_map,
       [](tolk_buffer*, tolk_device*, tolk_buffer**) -> tolk_status { return TOLK_E_UNSUPPORTED; });
  fill(t.advise, [](tolk_buffer*, uint64_t, uint64_t, uint32_t) -> tolk_status { return TOLK_OK; });
}

void fill_stream_table(tolk_stream_vt& t) {
  fill(t.copy, [](tolk_stream*, tolk_ref, tolk_ref) -> tolk_status { return TOLK_E_UNSUPPORTED; });
  fill(t.fill, [](tolk_stream*, tolk_ref, uint64_t, uint32_t) -> tolk_status { return TOLK_E_UNSUPPORTED; });
  fill(t.flush, [](tolk_stream*) -> tolk_status { return TOLK_OK; });
  fill(t.event_elapsed,
       [](tolk_event*, tolk_event*, uint64_t*) -> tolk_status { return TOLK_E_UNSUPPORTED; });
  if (t.create) return;
  t.create = [](tolk_device*, uint32_t, tolk_stream** out) -> tolk_status {
    *out = nullptr;
    return TOLK_OK;
  };
  t.destroy = [](tolk_stream*) {};
  t.synchronize = [](tolk_stream*, uint64_t) -> tolk_status { return TOLK_OK; };
  t.wait = [](tolk_stream*, tolk_event*) -> tolk_status { return TOLK_OK; };
  t.event_create = [](tolk_device*, uint32_t, tolk_event** out) -> tolk_status {
    *out = done_event();
    return TOLK_OK;
  };
  t.event_record = [](tolk_event*, tolk_stream*) -> tolk_status { return TOLK_OK; };
  t.event_query = [](tolk_event*) -> tolk_status { return TOLK_OK; };
  t.event_sync = [](tolk_event*, uint64_t) -> tolk_status { return TOLK_OK; };
  t.event_destroy = [](tolk_event*) {};
}

void fill_program_table(tolk_program_vt& t) {
  fill(t.compile, [](void*, const tolk_target*, const tolk_source*, tolk_blob**, tolk_blob**) -> tolk_status {
    return TOLK_E_UNSUPPORTED;
  });
  fill(t.kernel_info, [](tolk_kernel*, tolk_kernel_info*) -> tolk_status { return TOLK_OK; });
  fill(t.disassemble, [](void*, tolk_bytes, tolk_blob**) -> tolk_status { return TOLK_E_UNSUPPORTED; });
}

void fill_graph_table(tolk_graph_vt& t) {
  fill(t.create, [](tolk_device* const*, uint32_t, uint32_t, tolk_graph**) -> tolk_status {
    return TOLK_E_UNSUPPORTED;
  });
  fill(t.add_kernel,
       [](tolk_graph*, uint32_t, tolk_kernel*, const tolk_launch*, const uint32_t*, uint32_t) -> tolk_status {
         return TOLK_E_UNSUPPORTED;
       });
  fill(t.add_copy, [](tolk_graph*, uint32_t, tolk_ref, tolk_ref, const uint32_t*, uint32_t) -> tolk_status {
    return TOLK_E_UNSUPPORTED;
  });
  fill(t.add_fill,
       [](tolk_graph*, uint32_t, tolk_ref, uint64_t, uint32_t, const uint32_t*, uint32_t) -> tolk_status {
         return TOLK_E_UNSUPPORTED;
       });
  fill(t.commit, [](tolk_graph*) -> tolk_status { return TOLK_E_UNSUPPORTED; });
  fill(t.update, [](tolk_graph*, const tolk_patch*, uint32_t) -> tolk_status { return TOLK_E_UNSUPPORTED; });
  fill(t.launch,
       [](tolk_graph*, tolk_stream* const*, uint64_t*) -> tolk_status { return TOLK_E_UNSUPPORTED; });
  fill(t.node_times, [](tolk_graph*, uint64_t*, uint64_t*) -> tolk_status { return TOLK_E_UNSUPPORTED; });
  fill(t.destroy, [](tolk_graph*) {});
}

} // namespace tolk
