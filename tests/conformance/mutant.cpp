// A plugin that hands everything to a good one and does one thing wrong: the fault that TOLK_MUTANT names, over the library
// that TOLK_MUTANT_BASE names. mutants.txt lists the faults with the case that finds each.
#include <cfenv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include <tolk/plugin/helpers.h>
#include <tolk/plugin/tolk_plugin.h>

// The good plugin's name, so that its options reach it.
TOLK_PLUGIN_STAMP("CPU", TOLK_ABI_MAJOR, TOLK_ABI_MINOR);

namespace {

const tolk_host* H;
tolk_plugin base, plugin;          // the good plugin's table, and ours
tolk_device_vt device_b, device_m; // _b: of the good plugin, _m: with the fault
tolk_buffer_vt buffer_b, buffer_m;
tolk_stream_vt stream_b, stream_m;
tolk_program_vt program_b, program_m;
tolk_graph_vt graph_b, graph_m;

tolk_caps caps; // a copy for faults of capabilities
tolk_kernel* last_kernel;
int calls;

// A graph launch that waits for the update after it.
struct Pending {
  tolk_graph* graph = nullptr;
  tolk_stream* stream = nullptr;
} pending;

void run_pending() {
  if (pending.graph) graph_b.launch(pending.graph, &pending.stream, nullptr);
  pending = {};
}

std::mutex recorded_mutex;
std::set<tolk_event*> recorded;

// One fault per process, so each kind of change has one place.
void (*change_caps)(tolk_caps&);
void spoil_caps(void (*change)(tolk_caps&)) {
  change_caps = change;
  device_m.caps = [](tolk_device* d, const tolk_caps** out) {
    const tolk_caps* good = nullptr;
    const tolk_status status = device_b.caps(d, &good);
    if (status == TOLK_OK) caps = *good, change_caps(caps), *out = &caps;
    return status;
  };
}

void (*change_launch)(tolk_launch&);
void spoil_launch(void (*change)(tolk_launch&)) {
  change_launch = change;
  program_m.launch = [](tolk_stream* s, tolk_kernel* k, const tolk_launch* l) {
    tolk_launch copy = *l;
    std::vector<tolk_ref> refs(l->buffers, l->buffers + l->buffer_count);
    std::vector<uint64_t> values(l->values, l->values + l->value_count);
    copy.buffers = refs.data(), copy.values = values.data();
    change_launch(copy);
    return program_b.launch(s, k, &copy);
  };
}

void (*act_first)();
void act_at_open(void (*act)()) {
  act_first = act;
  plugin.device_open = [](void* self, uint32_t index, tolk_device** out) {
    act_first();
    return base.device_open(self, index, out);
  };
}

// Other words in the source of a kernel: the compiler's faults.
std::string from_text, to_text;
void spoil_source(const char* from, const char* to) {
  from_text = from, to_text = to;
  program_m.compile = [](void* self, const tolk_target* target, const tolk_source* source, tolk_blob** binary,
                         tolk_blob** log) {
    tolk_source copy = *source;
    std::string text(static_cast<const char*>(source->text.data), source->text.size);
    for (size_t at = 0; (at = text.find(from_text, at)) != std::string::npos; at += to_text.size())
      text.replace(at, from_text.size(), to_text);
    copy.text = {text.data(), text.size()};
    return program_b.compile(self, target, &copy, binary, log);
  };
}

tolk_ref* refs_of(tolk_launch& l) { return const_cast<tolk_ref*>(l.buffers); }
uint64_t* values_of(tolk_launch& l) { return const_cast<uint64_t*>(l.values); }

struct Fault {
  const char* name;
  void (*plant)();
};

const Fault kLoadFaults[] = {
    {"none", [] {}},
    {"empty_vendor", [] { plugin.vendor = ""; }},
    {"long_table", [] { stream_m.struct_size = 4000; }},
    {"odd_table", [] { program_m.struct_size -= 4; }},
    {"extension_found",
     [] {
       plugin.get_extension = [](void*, const char*, uint32_t, const void**) { return tolk_status{TOLK_OK}; };
     }},
    {"table_changes", [] { act_at_open([] { device_m.trim = nullptr, device_m.reserved = 7; }); }},
};

const Fault kDeviceFaults[] = {
    {"count_changes",
     [] {
       plugin.device_count = [](void*, uint32_t* out) {
         *out = 1 + static_cast<uint32_t>(calls++ % 50 == 49);
         return tolk_status{TOLK_OK};
       };
     }},
    {"open_leaks_file", [] { act_at_open([] { fcntl(0, F_DUPFD_CLOEXEC, 0); }); }},
    {"open_leaks_memory", [] { act_at_open([] { H->mem_alloc(H->ctx, 64, 8); }); }},
    {"open_leaves_thread",
     [] {
       act_at_open([] {
         std::thread([] {
           for (;;) pause();
         }).detach();
       });
     }},
    {"open_inherited_file", [] { act_at_open([] { (void)!open("/dev/null", O_RDONLY); }); }},
    {"open_takes_signal", [] { act_at_open([] { std::signal(SIGUSR1, [](int) {}); }); }},
    {"open_sets_variable", [] { act_at_open([] { setenv("TOLK_MUTANT_WAS_HERE", "1", 1); }); }},
    {"open_changes_folder", [] { act_at_open([] { (void)!chdir("/"); }); }},
    {"caps_no_items", [] { spoil_caps([](tolk_caps& c) { c.local_product_max = 0; }); }},
    {"caps_no_grid", [] { spoil_caps([](tolk_caps& c) { c.grid_max[1] = 0; }); }},
    {"caps_align", [] { spoil_caps([](tolk_caps& c) { c.offset_align = 3; }); }},
    {"caps_no_streams", [] { spoil_caps([](tolk_caps& c) { c.streams_max = 0; }); }},
    {"caps_unknown_dtype", [] { spoil_caps([](tolk_caps& c) { c.dtype_alu |= uint64_t{1} << 40; }); }},
    {"caps_change", [] { spoil_caps([](tolk_caps& c) { c.cores += static_cast<uint32_t>(calls++); }); }},
    {"clock_microseconds",
     [] {
       device_m.clock = [](tolk_device* d, uint64_t* device, uint64_t* host) {
         const tolk_status s = device_b.clock(d, device, host);
         *device /= 1000;
         return s;
       };
     }},
    {"clock_backwards",
     [] {
       device_m.clock = [](tolk_device* d, uint64_t* device, uint64_t* host) {
         const tolk_status s = device_b.clock(d, device, host);
         if (++calls % 1000 == 0) *device -= 5000000;
         return s;
       };
     }},
    {"shutdown_crash", [] { plugin.shutdown = [](void*) { std::raise(SIGSEGV); }; }},
    {"shutdown_leaks", [] { H->mem_alloc(H->ctx, 100, 8); }},
};

void (*change_desc)(tolk_buffer_desc&);
void spoil_create(void (*change)(tolk_buffer_desc&)) {
  change_desc = change;
  buffer_m.create = [](tolk_device* d, const tolk_buffer_desc* desc, tolk_buffer** out) {
    tolk_buffer_desc copy = *desc;
    copy.struct_size = sizeof copy;
    change_desc(copy);
    return buffer_b.create(d, &copy, out);
  };
}

const Fault kBufferFaults[] = {
    {"zeroed_ignored",
     [] {
       buffer_m.create = [](tolk_device* d, const tolk_buffer_desc* desc, tolk_buffer** out) {
         const tolk_status s = buffer_b.create(d, desc, out);
         void* bytes = nullptr;
         if (s == TOLK_OK && buffer_b.map(*out, 0, desc->size, TOLK_MAP_WRITE, &bytes) == TOLK_OK)
           std::memset(bytes, 0x77, desc->size), buffer_b.unmap(*out, bytes);
         return s;
       };
     }},
    {"align_ignored", [] { spoil_create([](tolk_buffer_desc& d) { d.align = 0; }); }},
    {"oom_is_invalid",
     [] {
       buffer_m.create = [](tolk_device* d, const tolk_buffer_desc* desc, tolk_buffer** out) {
         const tolk_status s = buffer_b.create(d, desc, out);
         return s == TOLK_E_DEVICE_OOM ? H->set_error(H->ctx, TOLK_E_INVALID, "no memory") : s;
       };
     }},
    {"oom_without_words",
     [] {
       buffer_m.create = [](tolk_device* d, const tolk_buffer_desc* desc, tolk_buffer** out) {
         return desc->size > uint64_t{1} << 50 ? tolk_status{TOLK_E_DEVICE_OOM}
                                               : buffer_b.create(d, desc, out);
       };
     }},
    {"huge_wraps", [] { spoil_create([](tolk_buffer_desc& d) { d.size &= 0xffffffff; }); }},
    {"kind_refused",
     [] {
       buffer_m.create = [](tolk_device* d, const tolk_buffer_desc* desc, tolk_buffer** out) {
         return desc->kind == TOLK_BUFFER_STAGING ? H->set_error(H->ctx, TOLK_E_UNSUPPORTED, "no such kind")
                                                  : buffer_b.create(d, desc, out);
       };
     }},
    {"size_equality",
     [] {
       buffer_m.create = [](tolk_device* d, const tolk_buffer_desc* desc, tolk_buffer** out) {
         return desc->struct_size != sizeof *desc ? H->set_error(H->ctx, TOLK_E_INVALID, "another version")
                                                  : buffer_b.create(d, desc, out);
       };
     }},
    {"create_leaks",
     [] {
       buffer_m.create = [](tolk_device* d, const tolk_buffer_desc* desc, tolk_buffer** out) {
         H->mem_alloc(H->ctx, 16, 8);
         return buffer_b.create(d, desc, out);
       };
     }},
    {"destroy_nothing", [] { buffer_m.destroy = [](tolk_buffer*) {}; }},
    {"zero_size_refused",
     [] {
       buffer_m.create = [](tolk_device* d, const tolk_buffer_desc* desc, tolk_buffer** out) {
         return desc->size == 0 ? H->set_error(H->ctx, TOLK_E_INVALID, "no bytes")
                                : buffer_b.create(d, desc, out);
       };
     }},
    {"few_buffers",
     [] {
       buffer_m.create = [](tolk_device* d, const tolk_buffer_desc* desc, tolk_buffer** out) {
         return ++calls > 40 ? H->set_error(H->ctx, TOLK_E_DEVICE_OOM, "40 buffers at most")
                             : buffer_b.create(d, desc, out);
       };
     }},
    {"map_ignores_offset",
     [] {
       buffer_m.map = [](tolk_buffer* b, uint64_t, uint64_t size, uint32_t access, void** out) {
         return buffer_b.map(b, 0, size, access, out);
       };
     }},
    {"release_never",
     [] {
       buffer_m.import_handle = [](tolk_device* d, const tolk_buffer_desc* desc, uint32_t type,
                                   uint64_t value, tolk_release_fn, void*, tolk_buffer** out) {
         return buffer_b.import_handle(d, desc, type, value, nullptr, nullptr, out);
       };
     }},
    {"release_early",
     [] {
       buffer_m.import_handle = [](tolk_device* d, const tolk_buffer_desc* desc, uint32_t type,
                                   uint64_t value, tolk_release_fn release, void* arg, tolk_buffer** out) {
         release(arg);
         return buffer_b.import_handle(d, desc, type, value, nullptr, nullptr, out);
       };
     }},
    {"release_on_failure",
     [] {
       buffer_m.import_handle = [](tolk_device* d, const tolk_buffer_desc* desc, uint32_t type,
                                   uint64_t value, tolk_release_fn release, void* arg, tolk_buffer** out) {
         const tolk_status s = buffer_b.import_handle(d, desc, type, value, release, arg, out);
         if (s < 0) release(arg);
         return s;
       };
     }},
    {"memory_overrun",
     [] {
       device_m.memory = [](tolk_device* d, tolk_memory* out) {
         const tolk_status s = device_b.memory(d, out);
         std::memset(reinterpret_cast<char*>(out) + out->struct_size, 0, 8);
         return s;
       };
     }},
    {"memory_constant",
     [] {
       device_m.memory = [](tolk_device* d, tolk_memory* out) {
         const tolk_status s = device_b.memory(d, out);
         if (out->struct_size >= sizeof *out) out->used_bytes = 4096;
         return s;
       };
     }},
    {"memory_free_above_total",
     [] {
       device_m.memory = [](tolk_device* d, tolk_memory* out) {
         const tolk_status s = device_b.memory(d, out);
         if (out->struct_size >= sizeof *out)
           out->free_bytes = out->total_bytes + 1, out->total_bytes += !out->total_bytes;
         out->free_bytes += 2;
         return s;
       };
     }},
};

const Fault kCopyFaults[] = {
    {"copy_in_rounds",
     [] {
       stream_m.copy_in = [](tolk_stream* s, tolk_ref dst, const void* src, uint32_t flags) {
         dst.size &= ~uint64_t{63};
         return stream_b.copy_in(s, dst, src, flags);
       };
     }},
    {"copy_in_ignores_offset",
     [] {
       stream_m.copy_in = [](tolk_stream* s, tolk_ref dst, const void* src, uint32_t flags) {
         dst.offset = 0;
         return stream_b.copy_in(s, dst, src, flags);
       };
     }},
    {"copy_out_off_by_one",
     [] {
       stream_m.copy_out = [](tolk_stream* s, void* dst, tolk_ref src, uint32_t flags) {
         src.offset -= src.offset != 0;
         return stream_b.copy_out(s, dst, src, flags);
       };
     }},
    {"copy_out_overruns",
     [] {
       stream_m.copy_out = [](tolk_stream* s, void* dst, tolk_ref src, uint32_t flags) {
         const tolk_status status = stream_b.copy_out(s, dst, src, flags);
         if (src.size == 4096) static_cast<char*>(dst)[4096] = 0;
         return status;
       };
     }},
    {"copy_in_throws",
     [] {
       stream_m.copy_in = [](tolk_stream*, tolk_ref, const void*, uint32_t) -> tolk_status {
         throw std::runtime_error("no");
       };
     }},
    {"async_out_lost",
     [] {
       stream_m.copy_out = [](tolk_stream* s, void* dst, tolk_ref src, uint32_t flags) {
         return flags & TOLK_COPY_ASYNC ? tolk_status{TOLK_OK} : stream_b.copy_out(s, dst, src, flags);
       };
     }},
    {"copy_swapped",
     [] {
       stream_m.copy = [](tolk_stream* s, tolk_ref dst, tolk_ref src) { return stream_b.copy(s, src, dst); };
     }},
    {"copy_overlap_taken",
     [] {
       stream_m.copy = [](tolk_stream* s, tolk_ref dst, tolk_ref src) {
         return tolk_overlap(dst, src) ? tolk_status{TOLK_OK} : stream_b.copy(s, dst, src);
       };
     }},
    {"fill_one_byte",
     [] {
       stream_m.fill = [](tolk_stream* s, tolk_ref dst, uint64_t pattern, uint32_t) {
         return stream_b.fill(s, dst, pattern, 1);
       };
     }},
    {"fill_short",
     [] {
       stream_m.fill = [](tolk_stream* s, tolk_ref dst, uint64_t pattern, uint32_t width) {
         dst.size -= dst.size >= 64 ? 8 : 0;
         return stream_b.fill(s, dst, pattern, width);
       };
     }},
};

const Fault kProgramFaults[] = {
    {"launch_not_ready",
     [] {
       program_m.launch = [](tolk_stream*, tolk_kernel*, const tolk_launch*) {
         return tolk_status{TOLK_NOT_READY};
       };
     }},
    {"launch_unknown_status",
     [] {
       program_m.launch = [](tolk_stream*, tolk_kernel*, const tolk_launch*) { return tolk_status{-77}; };
     }},
    {"launch_aborts",
     [] {
       program_m.launch = [](tolk_stream*, tolk_kernel*, const tolk_launch*) -> tolk_status { std::abort(); };
     }},
    {"launch_prints", [] { spoil_launch([](tolk_launch&) { std::puts("launching"); }); }},
    {"launch_rounds_up", [] { spoil_launch([](tolk_launch&) { std::fesetround(FE_DOWNWARD); }); }},
    {"launch_ignores_offset",
     [] {
       spoil_launch([](tolk_launch& l) {
         for (uint32_t i = 0; i < l.buffer_count; i++) refs_of(l)[i].offset = 0;
       });
     }},
    {"launch_off_by_one",
     [] {
       spoil_launch([](tolk_launch& l) {
         if (l.buffer_count > 1 && l.buffers[1].offset) refs_of(l)[1].offset -= 4;
       });
     }},
    {"launch_short", [] { spoil_launch([](tolk_launch& l) { l.grid[0] -= l.grid[0] > 32; }); }},
    {"launch_twice",
     [] {
       program_m.launch = [](tolk_stream* s, tolk_kernel* k, const tolk_launch* l) {
         program_b.launch(s, k, l);
         return program_b.launch(s, k, l);
       };
     }},
    {"values_32_bits",
     [] {
       spoil_launch([](tolk_launch& l) {
         for (uint32_t i = 0; i < l.value_count; i++) values_of(l)[i] &= 0xffffffff;
       });
     }},
    {"values_swapped",
     [] {
       spoil_launch([](tolk_launch& l) {
         if (l.value_count > 1) std::swap(values_of(l)[0], values_of(l)[1]);
       });
     }},
    {"buffers_swapped",
     [] {
       spoil_launch([](tolk_launch& l) {
         if (l.buffer_count > 2) std::swap(refs_of(l)[1], refs_of(l)[2]);
       });
     }},
    {"no_time", [] { spoil_launch([](tolk_launch& l) { l.device_ns = nullptr; }); }},
    {"time_too_long",
     [] {
       program_m.launch = [](tolk_stream* s, tolk_kernel* k, const tolk_launch* l) {
         const tolk_status status = program_b.launch(s, k, l);
         if (l->device_ns) *l->device_ns += 5000000000;
         return status;
       };
     }},
    {"any_name_found",
     [] {
       program_m.get_kernel = [](tolk_program* p, const char* name, tolk_kernel** out) {
         if (program_b.get_kernel(p, name, out) == TOLK_OK) last_kernel = *out;
         *out = last_kernel;
         return tolk_status{TOLK_OK};
       };
     }},
    {"bad_binary_is_internal",
     [] {
       program_m.load = [](tolk_device* d, tolk_bytes b, const tolk_source* s, tolk_program** out) {
         const tolk_status status = program_b.load(d, b, s, out);
         return status == TOLK_E_BAD_BINARY ? H->set_error(H->ctx, TOLK_E_INTERNAL, "bad") : status;
       };
     }},
    {"load_leaks",
     [] {
       program_m.load = [](tolk_device* d, tolk_bytes b, const tolk_source* s, tolk_program** out) {
         H->mem_alloc(H->ctx, 32, 8);
         return program_b.load(d, b, s, out);
       };
     }},
    {"info_overrun",
     [] {
       program_m.kernel_info = [](tolk_kernel* k, tolk_kernel_info* out) {
         const tolk_status s = program_b.kernel_info(k, out);
         std::memset(reinterpret_cast<char*>(out) + out->struct_size, 0, 8);
         return s;
       };
     }},
    {"wrong_source_compiles",
     [] {
       program_m.compile = [](void* self, const tolk_target* t, const tolk_source* s, tolk_blob** b,
                              tolk_blob** l) {
         const tolk_status status = program_b.compile(self, t, s, b, l);
         if (status == TOLK_E_COMPILE) *b = tolk_blob_of(H, "x", 1);
         return tolk_status{TOLK_OK};
       };
     }},
    {"fadd_is_fsub", [] { spoil_source(" fadd ", " fsub "); }},
    {"fdiv_is_fmul", [] { spoil_source(" fdiv ", " fmul "); }},
    {"slt_is_sle", [] { spoil_source("icmp slt", "icmp sle"); }},
    {"ashr_is_lshr", [] { spoil_source("ashr ", "lshr "); }},
    {"une_is_one", [] { spoil_source("fcmp une", "fcmp one"); }},
    {"xor_is_or", [] { spoil_source(" xor i", " or i"); }},
};

const Fault kStreamFaults[] = {
    {"event_always_done", [] { stream_m.event_query = [](tolk_event*) { return tolk_status{TOLK_OK}; }; }},
    {"event_sync_at_once",
     [] { stream_m.event_sync = [](tolk_event*, uint64_t) { return tolk_status{TOLK_OK}; }; }},
    {"event_fresh_pending",
     [] {
       stream_m.event_record = [](tolk_event* e, tolk_stream* s) {
         {
           std::lock_guard lock(recorded_mutex);
           recorded.insert(e);
         }
         return stream_b.event_record(e, s);
       };
       stream_m.event_query = [](tolk_event* e) {
         std::lock_guard lock(recorded_mutex);
         return recorded.contains(e) ? stream_b.event_query(e) : tolk_status{TOLK_NOT_READY};
       };
     }},
    {"event_never_done",
     [] { stream_m.event_query = [](tolk_event*) { return tolk_status{TOLK_NOT_READY}; }; }},
    {"wait_ignored", [] { stream_m.wait = [](tolk_stream*, tolk_event*) { return tolk_status{TOLK_OK}; }; }},
    {"wait_fails_when_done",
     [] {
       stream_m.wait = [](tolk_stream* s, tolk_event* e) {
         return stream_b.event_query(e) == TOLK_OK ? H->set_error(H->ctx, TOLK_E_INVALID, "done")
                                                   : stream_b.wait(s, e);
       };
     }},
    {"limit_ignored",
     [] {
       stream_m.synchronize = [](tolk_stream* s, uint64_t) { return stream_b.synchronize(s, TOLK_FOREVER); };
     }},
    {"synchronize_at_once",
     [] { stream_m.synchronize = [](tolk_stream*, uint64_t) { return tolk_status{TOLK_OK}; }; }},
    {"synchronize_hangs",
     [] {
       stream_m.synchronize = [](tolk_stream*, uint64_t) -> tolk_status {
         for (;;) pause();
       };
     }},
};

const Fault kGraphFaults[] = {
    {"update_lost",
     [] { graph_m.update = [](tolk_graph*, const tolk_patch*, uint32_t) { return tolk_status{TOLK_OK}; }; }},
    {"update_partial",
     [] {
       graph_m.update = [](tolk_graph* g, const tolk_patch* p, uint32_t n) {
         tolk_status s = TOLK_OK;
         for (uint32_t i = 0; i < n && s == TOLK_OK; i++) s = graph_b.update(g, p + i, 1);
         return s;
       };
     }},
    {"update_sometimes_lost",
     [] {
       graph_m.update = [](tolk_graph* g, const tolk_patch* p, uint32_t n) {
         return ++calls % 64 == 0 ? tolk_status{TOLK_OK} : graph_b.update(g, p, n);
       };
     }},
    {"update_retroactive",
     [] {
       graph_m.launch = [](tolk_graph* g, tolk_stream* const* s, uint64_t*) {
         run_pending();
         pending = {g, s[0]};
         return tolk_status{TOLK_OK};
       };
       graph_m.update = [](tolk_graph* g, const tolk_patch* p, uint32_t n) {
         const tolk_status s = graph_b.update(g, p, n);
         run_pending();
         return s;
       };
       stream_m.synchronize = [](tolk_stream* s, uint64_t ns) {
         run_pending();
         return stream_b.synchronize(s, ns);
       };
     }},
    {"update_offset_lost",
     [] {
       graph_m.update = [](tolk_graph* g, const tolk_patch* p, uint32_t n) {
         std::vector<tolk_patch> copy(p, p + n);
         for (tolk_patch& c : copy)
           if (c.kind == TOLK_PATCH_BUFFER) c.to.buffer.offset = 0;
         return graph_b.update(g, copy.data(), n);
       };
     }},
    {"update_sizes_lost",
     [] {
       graph_m.update = [](tolk_graph* g, const tolk_patch* p, uint32_t n) {
         return p[0].kind == TOLK_PATCH_SIZES ? tolk_status{TOLK_OK} : graph_b.update(g, p, n);
       };
     }},
    {"second_commit_taken",
     [] {
       graph_m.commit = [](tolk_graph* g) {
         graph_b.commit(g);
         return tolk_status{TOLK_OK};
       };
     }},
    {"graph_copy_swapped",
     [] {
       graph_m.add_copy = [](tolk_graph* g, uint32_t d, tolk_ref dst, tolk_ref src, const uint32_t* a,
                             uint32_t n) { return graph_b.add_copy(g, d, src, dst, a, n); };
     }},
    {"graph_fill_lost",
     [] {
       graph_m.add_fill = [](tolk_graph* g, uint32_t d, tolk_ref dst, uint64_t, uint32_t w, const uint32_t* a,
                             uint32_t n) { return graph_b.add_fill(g, d, dst, 0, w, a, n); };
     }},
    {"graph_launch_lost",
     [] {
       graph_m.launch = [](tolk_graph* g, tolk_stream* const* s, uint64_t* ns) {
         return ++calls % 3 == 0 ? tolk_status{TOLK_OK} : graph_b.launch(g, s, ns);
       };
     }},
    {"graph_launch_leaks",
     [] {
       graph_m.launch = [](tolk_graph* g, tolk_stream* const* s, uint64_t* ns) {
         H->mem_alloc(H->ctx, 8, 8);
         return graph_b.launch(g, s, ns);
       };
     }},
};

bool plant(const char* name) {
  auto among = [&](const auto& faults) {
    for (const Fault& fault : faults)
      if (std::strcmp(fault.name, name) == 0) return fault.plant(), true;
    return false;
  };
  return among(kLoadFaults) || among(kDeviceFaults) || among(kBufferFaults) || among(kCopyFaults) ||
         among(kProgramFaults) || among(kStreamFaults) || among(kGraphFaults);
}

tolk_status load_base(const tolk_host* host) {
  const char* path = std::getenv("TOLK_MUTANT_BASE"); // NOLINT(concurrency-mt-unsafe)
  void* library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (!library) return host->set_error(host->ctx, TOLK_E_SYSTEM, "TOLK_MUTANT_BASE names no library");
  auto entry = reinterpret_cast<decltype(&tolk_plugin_entry_v1)>(dlsym(library, "tolk_plugin_entry_v1"));
  const tolk_plugin* good = nullptr;
  if (const tolk_status status = entry(host, &good)) return status;
  base = plugin = *good;
  device_b = device_m = *good->device, buffer_b = buffer_m = *good->buffer,
  stream_b = stream_m = *good->stream;
  program_b = program_m = *good->program, graph_b = graph_m = *good->graph;
  plugin.device = &device_m, plugin.buffer = &buffer_m, plugin.stream = &stream_m;
  plugin.program = &program_m, plugin.graph = &graph_m;
  return TOLK_OK;
}

} // namespace

TOLK_PLUGIN_EXPORT tolk_status tolk_plugin_entry_v1(const tolk_host* host, const tolk_plugin** out) {
  H = host;
  if (const tolk_status status = load_base(host)) return status;
  const char* name = std::getenv("TOLK_MUTANT"); // NOLINT(concurrency-mt-unsafe)
  if (!name || !plant(name)) return host->set_error(host->ctx, TOLK_E_SYSTEM, "TOLK_MUTANT names no fault");
  *out = &plugin;
  return TOLK_OK;
}
