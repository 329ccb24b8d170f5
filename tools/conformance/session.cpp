// A plugin under test: loaded directly, without the device layer, with one open device and the helpers that cases share.
#include "session.h"

#include <filesystem>
#include <fmt/format.h>
#include <random>
#include <stdexcept>

#include "case.h"
#include "tolk/loader/clamp.h"
#include "tolk/loader/status.h"
#include "tolk/render/renderer.h"

namespace conformance {

Session::Session(const std::string& path, std::string oracle_path, uint64_t seed)
    : path_(path), oracle_path_(std::move(oracle_path)), seed_(seed) {
  tolk::PluginCandidate candidate = tolk::inspect_plugin_file(path, tolk::PluginOrigin::File);
  if (candidate.state == tolk::CandidateState::Found) {
    tolk::Interposer interposer;
    interposer.after_load = [this](tolk::Plugin&, const tolk_plugin* table) { table_ = table; };
    plugin_ = tolk::load_plugin(candidate, interposer);
  }
  if (!plugin_)
    throw std::runtime_error(fmt::format("{}: {}", tolk::state_name(candidate.state), candidate.reason));
  if (std::string problem = tolk::copy_tables(table_, raw_); !problem.empty())
    throw std::runtime_error(problem);
}

Session::~Session() { close(); }

void Session::open() {
  if (device_) return;
  const tolk::Plugin& p = plugin();
  uint32_t count = 0;
  ok(p.table.device_count(p.self, &count), "device_count");
  if (count == 0) throw Skipped{"a device"};
  ok(p.table.device_open(p.self, 0, &device_), "device_open");
  const tolk_caps* caps = nullptr;
  ok(p.device.caps(device_, &caps), "caps");
  expect(caps != nullptr, "capabilities from device.caps", "NULL");
  caps_ = tolk::clamp_copy(caps);
  expect(caps_.target_count > 0 && caps_.targets, "at least one target", "none");
  for (uint32_t i = 0; i < caps_.target_count; i++)
    targets_.push_back(tolk::clamp_copy(tolk::strided(caps_.targets, i)));
  target_ = tolk::first_renderable(targets_);
}

void Session::close() {
  if (!device_) return;
  if (stream_) plugin().stream.synchronize(stream_, TOLK_FOREVER), plugin().stream.destroy(stream_);
  plugin().device.close(device_);
  stream_ = nullptr, device_ = nullptr;
}

tolk_device_info Session::info() const {
  const tolk_device_info* info = nullptr;
  ok(plugin().table.device_info(plugin().self, 0, &info), "device_info");
  expect(info != nullptr, "a record from device_info", "NULL");
  return tolk::clamp_copy(info);
}

std::string Session::missing(uint32_t needs) const {
  const tolk::PluginTables& t = raw_;
  const bool update = t.graph.update && (caps_.graph & TOLK_GRAPH_UPDATE_BUFFERS);
  uint32_t peer = 0;
  if ((needs & kPeerCopy) && t.device.peer) t.device.peer(device_, device_, &peer);
  const struct {
    uint32_t need;
    bool there;
    const char* name;
  } rows[] = {
      {kValues, !device_ || computes(), "computed values"},
      {kMap, t.buffer.map != nullptr, "map"},
      {kImport, t.buffer.import_handle && caps_.import_align, "import of host memory"},
      {kCopy, t.stream.copy != nullptr, "copy"},
      {kFill, t.stream.fill != nullptr, "fill"},
      {kMemory, t.device.memory != nullptr, "memory"},
      {kStreams, t.stream.create != nullptr, "streams"},
      {kClock, t.device.clock != nullptr, "clock"},
      {kElapsed, t.stream.event_elapsed && (caps_.flags & TOLK_CAP_EVENT_TIMING), "event timing"},
      {kGraph, t.graph.create && (caps_.graph & TOLK_GRAPH_KERNELS), "graphs"},
      {kUpdate, update, "updates of graphs"},
      {kGraphCopy, t.graph.add_copy && (caps_.graph & TOLK_GRAPH_COPIES), "copies in graphs"},
      {kGraphFill, t.graph.add_fill && (caps_.graph & TOLK_GRAPH_FILLS), "fills in graphs"},
      {kCompile, t.program.compile != nullptr, "compile"},
      {kInfo, t.program.kernel_info != nullptr, "kernel_info"},
      {kPeerCopy, (peer & TOLK_PEER_COPY) != 0, "copies between devices"},
      {kGroups, caps_.local_product_max > 1 && caps_.shared_bytes > 0, "work-groups with storage"},
  };
  for (const auto& row : rows)
    if ((needs & row.need) && !row.there) return row.name;
  return {};
}

Session& Session::oracle() {
  if (!oracle_) {
    if (oracle_path_.empty()) throw Skipped{"the reference interpreter (build or install the plugin INTERP)"};
    oracle_ = std::make_unique<Session>(oracle_path_, "", seed_);
    oracle_->open();
  }
  return *oracle_;
}

uint64_t Session::guard() const {
  if (caps_.flags & TOLK_CAP_NO_OFFSET_VIEWS) return 0;
  return std::max<uint64_t>(64, std::max(caps_.offset_align, caps_.copy_align));
}

tolk_stream* Session::stream() {
  if (!stream_) ok(plugin().stream.create(device_, TOLK_STREAM_COMPUTE, &stream_), "stream.create");
  return stream_;
}

Owned<tolk_stream> Session::new_stream(uint32_t flags) {
  tolk_stream* made = nullptr;
  ok(plugin().stream.create(device_, flags, &made), "stream.create");
  return {made, [this](tolk_stream* s) {
            plugin().stream.synchronize(s, TOLK_FOREVER), plugin().stream.destroy(s);
          }};
}

Owned<tolk_event> Session::new_event(uint32_t flags) {
  tolk_event* made = nullptr;
  ok(plugin().stream.event_create(device_, flags, &made), "event_create");
  return {made, [this](tolk_event* e) { plugin().stream.event_destroy(e); }};
}

tolk_status Session::create(uint64_t size, uint32_t flags, uint32_t kind, uint64_t align, tolk_buffer** out) {
  tolk_buffer_desc desc{};
  desc.struct_size = sizeof desc;
  desc.kind = kind;
  desc.usage =
      TOLK_USAGE_KERNEL_READ | TOLK_USAGE_KERNEL_WRITE | TOLK_USAGE_COPY_SOURCE | TOLK_USAGE_COPY_DESTINATION;
  desc.flags = flags;
  desc.size = size;
  desc.align = align;
  return plugin().buffer.create(device_, &desc, out);
}

Owned<tolk_buffer> Session::buffer(uint64_t size, uint32_t flags, uint32_t kind) {
  tolk_buffer* made = nullptr;
  ok(create(size, flags, kind, 0, &made), "buffer.create");
  expect(made != nullptr, "a buffer from buffer.create", "NULL");
  return {made, [this](tolk_buffer* b) {
            if (stream_) plugin().stream.synchronize(stream_, TOLK_FOREVER);
            plugin().buffer.destroy(b);
          }};
}

void Session::write(tolk_ref to, const void* bytes, tolk_stream* on) {
  ok(plugin().stream.copy_in(on ? on : stream(), to, bytes, 0), "copy_in");
}

Bytes Session::read(tolk_ref from, tolk_stream* on) {
  Bytes bytes(from.size, 0xcd);
  ok(plugin().stream.copy_out(on ? on : stream(), bytes.data(), from, 0), "copy_out");
  return bytes;
}

void Session::sync(tolk_stream* on) {
  ok(plugin().stream.synchronize(on ? on : stream(), TOLK_FOREVER), "synchronize");
}

namespace {
// A kernel's source for a target, with what it points to.
struct Source {
  tolk_kernel_ir view;
  std::string text;
  tolk_source source{};
};

std::unique_ptr<Source> source_of(const tolk::KernelIR& kernel, const tolk_target& target, uint32_t index) {
  auto made = std::make_unique<Source>();
  made->view = kernel.view();
  const tolk::Renderer* renderer = tolk::find_renderer(target);
  if (!renderer) throw Skipped{fmt::format("a renderer for {}", target.dialect)};
  made->text = renderer->render(
      kernel, {.may_alias = true, .features = target.arch_features ? target.arch_features : ""});
  tolk_source& s = made->source;
  s.struct_size = sizeof s;
  s.target_index = index;
  s.text = {made->text.data(), made->text.size()};
  if (target.kind == TOLK_TARGET_KERNEL_IR) s.text = {&made->view, made->view.struct_size};
  s.entry = kernel.name.c_str();
  s.options = "";
  s.params = kernel.params.data();
  s.param_count = static_cast<uint32_t>(kernel.params.size());
  s.flags = TOLK_SOURCE_ARGS_MAY_ALIAS;
  s.local[0] = s.local[1] = s.local[2] = 1;
  s.shared_bytes = tolk::local_storage_offset(kernel, static_cast<uint32_t>(kernel.ops.size()));
  return made;
}
} // namespace

tolk_status Session::compile(const tolk::KernelIR& kernel, std::string& binary) {
  tolk::verify(kernel);
  auto made = source_of(kernel, target(), target_);
  if (target().flags & TOLK_TARGET_LOAD_DIRECT) {
    binary = made->text;
    return TOLK_OK;
  }
  tolk_blob *blob = nullptr, *log = nullptr;
  const tolk_status status = plugin().program.compile(plugin().self, &target(), &made->source, &blob, &log);
  tolk::take_blob(log);
  binary = tolk::take_blob(blob);
  return status;
}

tolk_status Session::load(const tolk::KernelIR& kernel, const std::string& binary, tolk_program** out) {
  auto made = source_of(kernel, target(), target_);
  tolk_bytes bytes{binary.data(), binary.size()};
  const bool direct = target().flags & TOLK_TARGET_LOAD_DIRECT;
  if (direct && target().kind == TOLK_TARGET_KERNEL_IR) bytes = made->source.text;
  if (!direct) made->source.text = {};
  return plugin().program.load(device_, bytes, &made->source, out);
}

Loaded Session::kernel(const tolk::KernelIR& kernel) {
  std::string binary;
  ok(compile(kernel, binary), "compile");
  tolk_program* program = nullptr;
  ok(load(kernel, binary, &program), "load");
  expect(program != nullptr, "a program from load", "NULL");
  Loaded loaded;
  loaded.program = {program, [this](tolk_program* p) {
                      if (stream_) plugin().stream.synchronize(stream_, TOLK_FOREVER);
                      plugin().program.unload(p);
                    }};
  ok(plugin().program.get_kernel(program, kernel.name.c_str(), &loaded.kernel), "get_kernel");
  return loaded;
}

void Session::launch(tolk_kernel* kernel, std::vector<tolk_ref> refs, std::vector<uint64_t> values,
                     uint32_t groups, tolk_stream* on) {
  tolk_launch l{};
  l.struct_size = sizeof l;
  l.grid[0] = groups;
  l.grid[1] = l.grid[2] = l.local[0] = l.local[1] = l.local[2] = 1;
  l.buffer_count = static_cast<uint32_t>(refs.size());
  l.value_count = static_cast<uint32_t>(values.size());
  l.buffers = refs.data();
  l.values = values.data();
  ok(plugin().program.launch(on ? on : stream(), kernel, &l), "launch");
  if (caps_.flags & TOLK_CAP_RETAINS_ARGS) return sync(on);
  std::fill(refs.begin(), refs.end(), tolk_ref{}); // nothing of the launch is kept
  std::fill(values.begin(), values.end(), 0xdeadbeefdeadbeef);
}

Bytes Session::run(const tolk::KernelIR& ir, uint64_t out_size, const std::vector<Bytes>& inputs,
                   uint32_t groups, const std::vector<uint64_t>& values) {
  Loaded loaded = kernel(ir);
  const uint64_t edge = guard();
  std::vector<Owned<tolk_buffer>> buffers;
  std::vector<tolk_ref> refs;
  auto add = [&](uint64_t size, const uint8_t* bytes) {
    Bytes all(size + 2 * edge, 0xa5);
    if (bytes) std::copy_n(bytes, size, all.begin() + static_cast<ptrdiff_t>(edge));
    buffers.push_back(buffer(all.size()));
    write({buffers.back().get(), 0, all.size()}, all.data());
    refs.push_back({buffers.back().get(), edge, size});
  };
  add(out_size, nullptr);
  for (const Bytes& input : inputs) add(input.size(), input.data());
  launch(loaded.kernel, refs, values, groups);
  sync();
  for (size_t i = 0; i < refs.size(); i++) {
    Bytes all = read(refs[i].buffer, refs[i].size + 2 * edge);
    if (i > 0)
      expect_bytes(
          inputs[i - 1],
          Bytes(all.begin() + static_cast<ptrdiff_t>(edge), all.end() - static_cast<ptrdiff_t>(edge)),
          "an input after the launch");
    for (uint64_t k = 0; k < edge; k++)
      expect(all[k] == 0xa5 && all[all.size() - 1 - k] == 0xa5, "untouched bytes around a buffer argument",
             fmt::format("a write {} bytes outside of argument {}", k + 1, i));
  }
  return read(refs[0]);
}

std::string difference(const Bytes& wanted, const Bytes& found) {
  if (wanted.size() != found.size())
    return fmt::format("{} bytes instead of {}", found.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); i++)
    if (wanted[i] != found[i])
      return fmt::format("byte {} of {} is {:#04x} instead of {:#04x}", i, wanted.size(), found[i],
                         wanted[i]);
  return {};
}

void expect_bytes(const Bytes& wanted, const Bytes& found, const std::string& what) {
  if (std::string text = difference(wanted, found); !text.empty()) fail(what + " as written", text);
}

Bytes random_bytes(uint64_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes bytes(size);
  for (uint8_t& b : bytes) b = static_cast<uint8_t>(random());
  return bytes;
}

std::string find_plugin(const std::string& name) {
  for (const tolk::PluginCandidate& c : tolk::search_plugins({}).candidates)
    if (c.name == name && c.state == tolk::CandidateState::Found) return c.path;
  std::string file = name;
  for (char& c : file) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const std::filesystem::path installed = std::filesystem::path(tolk::library_path()).parent_path() /
                                          TOLK_CONFORMANCE_PLUGINS / ("libtolk-backend-" + file + ".so");
  return std::filesystem::exists(installed) ? installed.lexically_normal().string() : std::string();
}

} // namespace conformance
