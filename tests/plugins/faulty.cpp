// A plugin with streams, events and graphs over host memory that does one thing wrong when a test says so.
// Without a fault it is correct: work is done at once, and `pending` only says that it is not. Kernels are
// texts: "add N" adds N to every byte of buffer 0 and value 0 as well.
#include "faulty.h"

#include <cfenv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <tolk/plugin/helpers.h>

TOLK_PLUGIN_STAMP("FAULTY", TOLK_ABI_MAJOR, TOLK_ABI_MINOR);

struct tolk_device {
  uint32_t index;
  uint64_t clock;
  tolk_caps caps;
};
struct tolk_buffer {
  unsigned char* bytes;
  uint64_t size;
  bool owned;
  tolk_release_fn release;
  void* arg;
};
struct tolk_kernel {
  tolk_device* device;
  unsigned add;
};
struct tolk_program {
  std::string entry;
  tolk_kernel kernel;
};
struct tolk_stream {
  tolk_device* device;
};
struct tolk_event {
  int recorded;
};
struct tolk_graph {
  struct Node {
    int kind; // 0 kernel, 1 copy, 2 fill
    tolk_kernel* kernel;
    std::vector<tolk_ref> refs;
    std::vector<uint64_t> values;
    uint32_t width;
  };
  std::vector<Node> nodes;
};

namespace {

const tolk_host* H;
faulty_control control;
tolk_buffer* last_buffer;
tolk_stream* last_stream;
tolk_event* last_event;
tolk_program* last_program;
tolk_graph* last_graph;
tolk_device* last_device;
tolk_kernel other_kernel;
bool lost;
uint32_t devices = 2;

bool is(const char* fault) { return std::strcmp(control.fault, fault) == 0; }

tolk_status fail(tolk_status code, const char* text) { return H->set_error(H->ctx, code, text); }

// What the test wants this place to answer, or OK.
tolk_status at(const char* place) {
  if (std::strcmp(control.place, place) != 0) return TOLK_OK;
  if (is("throw")) throw std::runtime_error("out of the plugin");
  if (is("rounding")) std::fesetround(FE_UPWARD);
  if (!is("answer") || control.answer == TOLK_OK) return TOLK_OK;
  return control.answer < 0 ? fail(control.answer, "as the test wants it") : control.answer;
}

#define ANSWER(place)                                                                                        \
  if (tolk_status wanted = at(place); wanted != TOLK_OK) return wanted

// A new object, or with the fault "null" none, or with "twice" the one before.
template <typename T> tolk_status give(T* made, T*& last, T** out) {
  *out = is("null") ? nullptr : is("twice") && last ? last : made;
  if (*out != made) delete made;
  last = *out ? *out : last;
  return TOLK_OK;
}

tolk_status device_count(void*, uint32_t* out) {
  ANSWER("device_count");
  *out = is("count") ? ++devices : devices;
  return TOLK_OK;
}

tolk_status device_info(void*, uint32_t, const tolk_device_info** out) {
  static tolk_device_info info{};
  info.struct_size = sizeof info;
  info.kind = TOLK_KIND_ACCELERATOR;
  info.numa_node = -1;
  info.name = info.description = info.arch = info.driver_version = "faulty";
  *out = is("null") ? nullptr : &info;
  return TOLK_OK;
}

tolk_status device_open(void*, uint32_t index, tolk_device** out) {
  ANSWER("device_open");
  return give(new tolk_device{index, 1000, {}}, last_device, out);
}

void device_close(tolk_device* d) {
  if (d == last_device) last_device = nullptr;
  delete d;
}

tolk_status device_caps(tolk_device* d, const tolk_caps** out) {
  ANSWER("caps");
  static tolk_target targets[2];
  for (tolk_target& t : targets) {
    t.struct_size = sizeof t;
    t.kind = TOLK_TARGET_SOURCE;
    t.dialect = "test";
    t.arch = t.arch_features = t.data_layout = "";
  }
  targets[0].flags = TOLK_TARGET_LOAD_DIRECT;
  targets[1].dialect = "compiled";
  tolk_caps& c = d->caps;
  const uint32_t kinds = 1u << TOLK_BUFFER_DEVICE | 1u << TOLK_BUFFER_STAGING;
  c.struct_size = sizeof c;
  c.targets = targets;
  c.target_count = 2;
  c.dtype_storage = c.dtype_alu = UINT64_C(1) << TOLK_DTYPE_U8;
  c.grid_max[0] = 64, c.grid_max[1] = c.grid_max[2] = 8;
  c.local_max[0] = c.local_max[1] = c.local_max[2] = 8;
  c.grid_product_max = 128;
  c.local_product_max = 16;
  c.max_buffer_args = 2;
  c.max_scalar_bytes = 16;
  c.buffer_align = c.map_align = c.import_align = 64;
  c.offset_align = 16;
  c.offset_max = 4096;
  c.copy_align = 4;
  c.max_buffer_bytes = 1 << 20;
  c.buffer_kinds = c.kernel_kinds = kinds;
  c.streams_max = 4;
  c.graph = TOLK_GRAPH_KERNELS | TOLK_GRAPH_COPIES | TOLK_GRAPH_UPDATE_BUFFERS | TOLK_GRAPH_UPDATE_VALUES;
  c.graph_nodes_max = 3;
  if (is("align")) c.buffer_align = 48;
  if (is("no targets")) c.target_count = 0;
  if (is("dtypes")) c.dtype_alu = UINT64_C(1) << 60;
  if (is("kinds")) c.kernel_kinds |= 1u << TOLK_BUFFER_UNIFIED;
  if (is("subgroups")) c.subgroup_min = 8, c.subgroup_max = 4;
  if (is("local")) c.local_product_max = 1024;
  if (is("bytes")) c.max_total_bytes = 4096;
  *out = is("null") ? nullptr : &c;
  return TOLK_OK;
}

tolk_status device_memory(tolk_device*, tolk_memory* out) {
  tolk_memory m{};
  m.struct_size = sizeof m;
  m.total_bytes = 1 << 20;
  m.free_bytes = is("free") ? 1 << 21 : 1 << 19;
  if (is("overrun")) std::memset(static_cast<void*>(out), 0, sizeof *out + 8);
  tolk_write_out(out, &m, sizeof m);
  if (is("struct_size")) out->struct_size = 7;
  return TOLK_OK;
}

tolk_status device_synchronize(tolk_device*, uint64_t) {
  ANSWER("device.synchronize");
  return TOLK_OK;
}

tolk_status device_peer(tolk_device*, tolk_device*, uint32_t* flags) {
  *flags = control.peer;
  return TOLK_OK;
}

tolk_status device_clock(tolk_device* d, uint64_t* device_ns, uint64_t* host_ns) {
  *device_ns = is("clock") ? d->clock - 10 : ++d->clock;
  *host_ns = H->clock_ns(H->ctx);
  return TOLK_OK;
}

const char* lost_reason(tolk_device*) { return "the test took it"; }

tolk_status buffer_create(tolk_device*, const tolk_buffer_desc* desc, tolk_buffer** out) {
  ANSWER("buffer.create");
  if (is("silent")) return TOLK_E_LIMIT;
  auto* b = new tolk_buffer{};
  b->size = desc->size;
  b->bytes = static_cast<unsigned char*>(std::aligned_alloc(64, (desc->size + 64) / 64 * 64));
  b->owned = true;
  std::memset(b->bytes, 0, desc->size);
  return give(b, last_buffer, out);
}

void buffer_destroy(tolk_buffer* b) {
  control.destroyed++;
  if (b == last_buffer) last_buffer = nullptr;
  if (b->owned) std::free(b->bytes);
  if (b->release && !is("no release")) b->release(b->arg);
  if (b->release && is("two releases")) b->release(b->arg);
  delete b;
}

tolk_status buffer_map(tolk_buffer* b, uint64_t offset, uint64_t, uint32_t, void** out) {
  *out = is("null") ? nullptr : b->bytes + offset + (is("pointer") ? 8 : 0);
  return TOLK_OK;
}

tolk_status buffer_unmap(tolk_buffer*, void*) { return TOLK_OK; }

tolk_status buffer_import(tolk_device*, const tolk_buffer_desc* desc, uint32_t, uint64_t value,
                          tolk_release_fn release, void* arg, tolk_buffer** out) {
  if (is("early release")) {
    release(arg);
    return fail(TOLK_E_IO, "the import failed");
  }
  auto* b = new tolk_buffer{};
  std::memcpy(static_cast<void*>(&b->bytes), &value, sizeof value);
  b->size = desc->size;
  b->release = release;
  b->arg = arg;
  return give(b, last_buffer, out);
}

tolk_status buffer_peer_map(tolk_buffer* b, tolk_device*, tolk_buffer** out) {
  auto* mapped = new tolk_buffer{b->bytes, b->size, false, nullptr, nullptr};
  *out = mapped;
  return TOLK_OK;
}

tolk_status copy_in(tolk_stream*, tolk_ref dst, const void* src, uint32_t) {
  ANSWER("copy_in");
  std::memcpy(dst.buffer->bytes + dst.offset, src, dst.size);
  return TOLK_OK;
}

tolk_status copy_out(tolk_stream*, void* dst, tolk_ref src, uint32_t) {
  ANSWER("copy_out");
  std::memcpy(dst, src.buffer->bytes + src.offset, src.size);
  return TOLK_OK;
}

tolk_status copy(tolk_stream*, tolk_ref dst, tolk_ref src) {
  std::memcpy(dst.buffer->bytes + dst.offset, src.buffer->bytes + src.offset, src.size);
  return TOLK_OK;
}

tolk_status fill(tolk_stream*, tolk_ref dst, uint64_t pattern, uint32_t bytes) {
  for (uint64_t i = 0; i < dst.size; i += bytes)
    std::memcpy(dst.buffer->bytes + dst.offset + i, &pattern, bytes);
  return TOLK_OK;
}

tolk_status stream_create(tolk_device* d, uint32_t, tolk_stream** out) {
  return give(new tolk_stream{d}, last_stream, out);
}
void stream_destroy(tolk_stream* s) {
  if (s == last_stream) last_stream = nullptr;
  delete s;
}
tolk_status stream_synchronize(tolk_stream*, uint64_t timeout_ns) {
  ANSWER("synchronize");
  return control.pending && timeout_ns != TOLK_FOREVER ? TOLK_TIMEOUT : TOLK_OK;
}
tolk_status stream_wait(tolk_stream*, tolk_event*) { return TOLK_OK; }
tolk_status event_create(tolk_device*, uint32_t, tolk_event** out) {
  return give(new tolk_event{0}, last_event, out);
}
tolk_status event_record(tolk_event* e, tolk_stream*) {
  e->recorded = 1;
  return TOLK_OK;
}
tolk_status event_query(tolk_event* e) { return e->recorded && control.pending ? TOLK_NOT_READY : TOLK_OK; }
tolk_status event_sync(tolk_event*, uint64_t timeout_ns) {
  return control.pending && timeout_ns != TOLK_FOREVER ? TOLK_TIMEOUT : TOLK_OK;
}
tolk_status event_elapsed(tolk_event*, tolk_event*, uint64_t* ns) {
  *ns = 1;
  return TOLK_OK;
}
void event_destroy(tolk_event* e) {
  if (e == last_event) last_event = nullptr;
  delete e;
}

tolk_status compile(void*, const tolk_target*, const tolk_source* source, tolk_blob** binary,
                    tolk_blob** log) {
  static uint64_t place[2];
  ANSWER("compile");
  if (is("no binary")) return TOLK_OK;
  *binary = is("blob") ? reinterpret_cast<tolk_blob*>(place)
                       : tolk_blob_of(H, source->text.data, source->text.size);
  if (is("blob twice")) *log = *binary;
  if (is("failed binary")) return fail(TOLK_E_COMPILE, "no");
  return TOLK_OK;
}

tolk_status disassemble(void*, tolk_bytes binary, tolk_blob** text) {
  *text = is("null") ? nullptr : tolk_blob_of(H, binary.data, binary.size);
  return TOLK_OK;
}

tolk_status load(tolk_device* d, tolk_bytes binary, const tolk_source* source, tolk_program** out) {
  ANSWER("load");
  const std::string text(static_cast<const char*>(binary.data), binary.size);
  unsigned add = 0;
  if (std::sscanf(text.c_str(), "add %u", &add) != 1)
    return fail(TOLK_E_BAD_BINARY, "not made by this plugin");
  return give(new tolk_program{source->entry, {d, add}}, last_program, out);
}

void unload(tolk_program* p) {
  if (p == last_program) last_program = nullptr;
  delete p;
}

tolk_status get_kernel(tolk_program* p, const char* name, tolk_kernel** out) {
  ANSWER("get_kernel");
  if (p->entry != name) return fail(TOLK_E_NOT_FOUND, "no such kernel");
  *out = is("null") ? nullptr : is("other kernel") ? &other_kernel : &p->kernel;
  return TOLK_OK;
}

tolk_status kernel_info(tolk_kernel*, tolk_kernel_info* out) {
  tolk_kernel_info info{};
  info.struct_size = sizeof info;
  info.code_bytes = 5;
  tolk_write_out(out, &info, sizeof info);
  if (is("overrun")) std::memset(static_cast<void*>(out + 1), 0, 4);
  return TOLK_OK;
}

void run(const tolk_kernel* kernel, const tolk_ref* refs, uint64_t value) {
  __atomic_fetch_add(&control.inside, 1, __ATOMIC_SEQ_CST);
  while (__atomic_load_n(&control.block, __ATOMIC_SEQ_CST)) {
  }
  __atomic_fetch_sub(&control.inside, 1, __ATOMIC_SEQ_CST);
  for (uint64_t i = 0; i < refs[0].size; i++)
    refs[0].buffer->bytes[refs[0].offset + i] += static_cast<unsigned char>(kernel->add + value);
}

tolk_status launch(tolk_stream*, tolk_kernel* kernel, const tolk_launch* l) {
  ANSWER("launch");
  if (lost && !is("forgotten")) return fail(TOLK_E_DEVICE_LOST, "lost");
  if (is("lose")) {
    lost = true;
    return fail(TOLK_E_DEVICE_LOST, "lost now");
  }
  if (l->buffer_count) run(kernel, l->buffers, l->value_count ? l->values[0] : 0);
  if (l->device_ns) *l->device_ns = 1;
  return TOLK_OK;
}

tolk_status graph_create(tolk_device* const*, uint32_t, uint32_t, tolk_graph** out) {
  return give(new tolk_graph, last_graph, out);
}
tolk_status add_kernel(tolk_graph* g, uint32_t, tolk_kernel* k, const tolk_launch* l, const uint32_t*,
                       uint32_t) {
  g->nodes.push_back(
      {0, k, {l->buffers, l->buffers + l->buffer_count}, {l->values, l->values + l->value_count}, 0});
  return TOLK_OK;
}
tolk_status add_copy(tolk_graph* g, uint32_t, tolk_ref dst, tolk_ref src, const uint32_t*, uint32_t) {
  g->nodes.push_back({1, nullptr, {dst, src}, {}, 0});
  return TOLK_OK;
}
tolk_status add_fill(tolk_graph* g, uint32_t, tolk_ref dst, uint64_t pattern, uint32_t bytes, const uint32_t*,
                     uint32_t) {
  g->nodes.push_back({2, nullptr, {dst}, {pattern}, bytes});
  return TOLK_OK;
}
tolk_status commit(tolk_graph*) { return TOLK_OK; }
tolk_status update(tolk_graph* g, const tolk_patch* patches, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    tolk_graph::Node& node = g->nodes[patches[i].node];
    if (patches[i].kind == TOLK_PATCH_BUFFER)
      node.refs[patches[i].index] = patches[i].to.buffer;
    else if (patches[i].kind == TOLK_PATCH_VALUE)
      node.values[patches[i].index] = patches[i].to.value;
  }
  return TOLK_OK;
}
tolk_status graph_launch(tolk_graph* g, tolk_stream* const*, uint64_t*) {
  for (const auto& node : g->nodes)
    if (node.kind == 0)
      run(node.kernel, node.refs.data(), node.values.empty() ? 0 : node.values[0]);
    else if (node.kind == 1)
      copy(nullptr, node.refs[0], node.refs[1]);
    else
      fill(nullptr, node.refs[0], node.values[0], node.width);
  return TOLK_OK;
}
tolk_status node_times(tolk_graph*, uint64_t*, uint64_t*) { return TOLK_OK; }
void graph_destroy(tolk_graph* g) {
  if (g == last_graph) last_graph = nullptr;
  delete g;
}

void shutdown_plugin(void*) {
  if (is("leak")) H->mem_alloc(H->ctx, 100, 8);
}

tolk_status get_extension(void*, const char* name, uint32_t version, const void** table) {
  if (std::strcmp(name, "x.faulty.null") == 0) return TOLK_OK;
  if (std::strcmp(name, "x.faulty.control") != 0 || version != 1) return TOLK_E_NOT_FOUND;
  lost = false; // a test begins
  *table = &control;
  return TOLK_OK;
}

template <typename T> T sized() {
  T t{};
  t.struct_size = sizeof t;
  return t;
}

const tolk_plugin* table() {
  static auto device = sized<tolk_device_vt>();
  device.close = device_close, device.caps = device_caps, device.memory = device_memory;
  device.synchronize = device_synchronize, device.peer = device_peer, device.clock = device_clock;
  device.lost_reason = lost_reason;
  static auto buffer = sized<tolk_buffer_vt>();
  buffer.create = buffer_create, buffer.destroy = buffer_destroy, buffer.map = buffer_map;
  buffer.unmap = buffer_unmap, buffer.import_handle = buffer_import, buffer.peer_map = buffer_peer_map;
  static auto stream = sized<tolk_stream_vt>();
  stream.copy_in = copy_in, stream.copy_out = copy_out, stream.copy = copy, stream.fill = fill;
  stream.create = stream_create, stream.destroy = stream_destroy, stream.synchronize = stream_synchronize;
  stream.wait = stream_wait, stream.event_create = event_create, stream.event_record = event_record;
  stream.event_query = event_query, stream.event_sync = event_sync, stream.event_elapsed = event_elapsed;
  stream.event_destroy = event_destroy;
  static auto program = sized<tolk_program_vt>();
  program.compile = compile, program.load = load, program.unload = unload, program.get_kernel = get_kernel;
  program.kernel_info = kernel_info, program.launch = launch, program.disassemble = disassemble;
  static auto graph = sized<tolk_graph_vt>();
  graph.create = graph_create, graph.add_kernel = add_kernel, graph.add_copy = add_copy,
  graph.add_fill = add_fill;
  graph.commit = commit, graph.update = update, graph.launch = graph_launch, graph.node_times = node_times;
  graph.destroy = graph_destroy;
  static auto plugin = sized<tolk_plugin>();
  plugin.abi_major = TOLK_ABI_MAJOR;
  plugin.abi_minor = TOLK_ABI_MINOR;
  plugin.name = "FAULTY";
  plugin.display_name = "faulty";
  plugin.vendor = "tests";
  plugin.version = plugin.compiler_id = "1";
  plugin.flags = TOLK_PLUGIN_TEST_ONLY;
  plugin.device = &device, plugin.buffer = &buffer, plugin.stream = &stream, plugin.program = &program;
  plugin.graph = &graph;
  plugin.device_count = device_count, plugin.device_info = device_info, plugin.device_open = device_open;
  plugin.shutdown = shutdown_plugin, plugin.get_extension = get_extension;
  return &plugin;
}

} // namespace

tolk_status tolk_plugin_entry_v1(const tolk_host* host, const tolk_plugin** out) {
  H = host;
  *out = table();
  return TOLK_OK;
}
