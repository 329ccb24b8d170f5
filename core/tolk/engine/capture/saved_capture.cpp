// Sections: meta (device, inputs, variables), graph (print() of a SINK over everything that is a node),
// programs, targets, buffers, result.
#include "tolk/engine/capture/saved_capture.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "tolk/base/clock.h"
#include "tolk/base/config.h"
#include "tolk/base/error.h"
#include "tolk/base/log.h"
#include "tolk/device/registry.h"
#include "tolk/engine/capture/bounded_kernel.h"
#include "tolk/engine/capture/saved_check.h"
#include "tolk/engine/capture/saved_program.h"
#include "tolk/engine/compile/lower_linear.h"
#include "tolk/engine/compile/program_table.h"
#include "tolk/engine/run/node_storage.h"
#include "tolk/uop/build.h"
#include "tolk/uop/print.h"
#include "tolk/uop/traverse.h"

namespace tolk::engine {
namespace {

constexpr const char* kWhat = "saved capture";

// ---- writing

// Programs stand in the file by their position in its table.
UOp numbered(const UOp& program, size_t position) {
  return make(Op::PROGRAM, DType::Void, {program.src(0)}, Arg(uint64_t(position)));
}

struct Contents {
  UOp node;
  StorageRole role;
  bool keep; // contents go into the file
};

void write_storage(PackWriter& out, Replay& replay, const Contents& c) {
  out.number(slot_of(c.node))
      .text(name(c.node.dtype()))
      .number(elements_of(c.node))
      .text(device_text(c.node));
  out.number(int64_t(c.role));
  std::vector<BufferRef> parts;
  if (c.keep) {
    AnyBuffer buffer = replay.binding().buffer_of_node(c.node);
    std::ranges::copy_if(shards(buffer), std::back_inserter(parts), &Buffer::is_allocated);
  }
  out.list(parts, [](PackWriter& w, const BufferRef& b) {
    std::string bytes(b->bytes(), '\0');
    if (!bytes.empty()) b->copy_out(std::as_writable_bytes(std::span(bytes)));
    w.text(bytes);
  });
}

// Loading takes code from the cache and not from the file, so a save fills the cache.
void cache_for_loads(const Capture& capture, const UOp& kernels) {
  try {
    ScopedConfig scope(settings_for_saved(capture.settings()));
    cache_kernels(device(capture.device()), kernels);
  } catch (const Error& e) { // kernels of another to_program
    log::debug(1, std::string("kernels of a saved capture are not kept in the cache: ") + e.what());
  }
}

} // namespace

std::string save_capture(Replay& replay, const SaveOptions& options) {
  const Capture& capture = replay.capture();
  const UOp& planned = capture.planned_linear();
  std::vector<UOp> programs;
  UOpMap positions, graphs;
  for (const UOp& u : toposort(planned)) {
    if (u.is(Op::CUSTOM_FUNCTION))
      throw FormatError("a capture that calls a function of the host cannot be saved: " + print_line(u));
    if (!u.is(Op::PROGRAM)) continue;
    positions.emplace(u, numbered(u, programs.size()));
    programs.push_back(u);
    graphs.emplace(u, bounded_kernel(u.src(0)));
  }
  cache_for_loads(capture, substitute(planned, graphs));
  // Everything that is a node, under one root; elsewhere it is named by its position there, -1 for none.
  std::vector<UOp> nodes{substitute(planned, positions)};
  auto place = [&](const UOp& u) {
    if (!u) return int64_t(-1);
    nodes.push_back(u);
    return int64_t(nodes.size()) - 1;
  };
  PackWriter meta, result, code, targets, buffers;
  meta.text(capture.device());
  meta.list(capture.names(), [](PackWriter& w, const JitName& n) {
    const int* position = std::get_if<int>(&n);
    w.number(position ? *position : -1).text(position ? "" : std::get<std::string>(n));
  });
  meta.list(capture.expected(), [&](PackWriter& w, const InputInfo& i) {
    w.number(place(i.view)).number(i.size).text(name(i.dtype)).text(i.device);
    w.list(i.vars, [](PackWriter& v, const std::string& text) { v.text(text); });
  });
  meta.list(capture.variables(),
            [](PackWriter& w, const JitVariable& v) { w.text(v.name).number(v.min).number(v.max); });
  meta.text(capture.settings());
  result.list(options.results, [&](PackWriter& w, const UOp& u) { w.number(place(u)); });
  result.text(options.note);

  SavedTargets compiled_for;
  code.list(programs,
            [&](PackWriter& w, const UOp& u) { write_program(w, program_entry(u), compiled_for, place); });
  write_targets(targets, compiled_for);

  std::vector<Contents> storage;
  std::unordered_set<UOp, UOpHash> listed;
  for (const JitStorage& s : capture.storage()) {
    bool keep = s.role == StorageRole::State || (s.role == StorageRole::Weight && options.weights);
    storage.push_back({s.node, s.role, keep});
    listed.insert(s.node);
  }
  // What a result names and replays do not touch: an input of the captured call, a constant.
  for (const UOp& root : options.results)
    for (const UOp& u : toposort(root))
      if (u.is(Op::BUFFER) && listed.insert(u).second) storage.push_back({u, StorageRole::State, true});
  buffers.list(storage, [&](PackWriter& w, const Contents& c) { write_storage(w, replay, c); });

  std::vector<Section> sections = {{"meta", meta.bytes()},       {"graph", print(sink(nodes))},
                                   {"programs", code.bytes()},   {"targets", targets.bytes()},
                                   {"buffers", buffers.bytes()}, {"result", result.bytes()}};
  return pack(kCaptureMagic, kCaptureVersion, sections);
}

// ---- reading

namespace {

DType dtype_from(PackReader& in) {
  std::string text = in.text();
  auto dtype = parse_dtype(text);
  if (!dtype) in.damaged("there is no dtype " + text);
  return *dtype;
}

class Reader {
public:
  Reader(std::string_view file, const LoadOptions& options)
      : sections_(unpack(kCaptureMagic, kCaptureVersion, file, kWhat)), devices_(options.devices),
        ambient_(options.device) {
    if (uint32_t version = packed_version(file); version < kCaptureVersion)
      throw FormatError("the saved capture has version " + std::to_string(version) +
                        ", this library reads version " + std::to_string(kCaptureVersion) +
                        "; save it again");
    out_.with_code = options.trust_code;
  }

  SavedContents run() {
    read_graph();
    read_meta();
    SavedTargets targets = read_targets(reader("targets"));
    PackReader code = reader("programs");
    out_.programs = code.list<ProgramEntry>([&](PackReader& r) {
      return read_program(r, targets, [&](PackReader& in) { return node(in); }, out_.with_code);
    });
    code.end();
    for (ProgramEntry& e : out_.programs) e.device = remapped(e.device);
    read_buffers();
    read_result();
    check_saved(out_, [this](const std::string& device) { return remapped(device); });
    return std::move(out_);
  }

  std::string remapped(const std::string& device) const {
    if (device.empty()) return device;
    std::vector<std::string> all = split_devices(device);
    for (std::string& one : all)
      if (auto it = devices_.find(one); it != devices_.end()) one = canonical_device_name(it->second);
    return join_devices(all);
  }

private:
  PackReader reader(std::string_view name) const {
    return {"section " + std::string(name), section(sections_, name)};
  }

  // A node by its position; null for -1.
  UOp node(PackReader& in) const {
    int64_t at = in.number(-1, int64_t(out_.nodes.size()) - 1);
    return at < 0 ? UOp() : out_.nodes[size_t(at)];
  }

  void read_graph() {
    out_.root = parse_graph(section(sections_, "graph"));
    if (!out_.root.is(Op::SINK) || out_.root.nsrc() == 0 || !out_.root.src(0).is(Op::LINEAR))
      throw FormatError("section graph is damaged: it does not begin with a list of calls");
    out_.nodes.assign(out_.root.src().begin(), out_.root.src().end());
  }

  void read_meta() {
    PackReader in = reader("meta");
    std::string ambient = in.text();
    if (!ambient_.empty()) devices_.emplace(ambient, ambient_);
    out_.device = remapped(ambient);
    out_.names = in.list<JitName>([](PackReader& r) {
      auto position = int(r.number(-1, INT32_MAX));
      std::string text = r.text();
      return position < 0 ? JitName(text) : JitName(position);
    });
    out_.expected = in.list<InputInfo>([&](PackReader& r) {
      InputInfo info;
      info.view = node(r);
      info.size = r.number(0);
      info.dtype = dtype_from(r);
      info.device = remapped(r.text());
      info.vars = r.list<std::string>([](PackReader& v) { return v.text(); });
      return info;
    });
    out_.variables = in.list<JitVariable>([](PackReader& r) {
      JitVariable v;
      v.name = r.text();
      v.min = r.number();
      v.max = r.number();
      return v;
    });
    out_.settings = in.text();
    in.end();
    try {
      (void)with_codegen({}, out_.settings);
    } catch (const FormatError& e) {
      in.damaged(e.what());
    }
  }

  void read_buffers() {
    PackReader in = reader("buffers");
    out_.buffers = in.list<StoredBuffer>([&](PackReader& r) {
      StoredBuffer b;
      b.facts.slot = r.number();
      b.facts.dtype = dtype_from(r);
      b.facts.elements = r.number(0);
      b.facts.device = remapped(r.text());
      b.facts.role = StorageRole(r.number(0, int64_t(StorageRole::Weight)));
      b.contents = r.list<std::string>([](PackReader& w) { return w.text(); });
      return b;
    });
    in.end();
  }

  void read_result() {
    PackReader in = reader("result");
    out_.results = in.list<UOp>([&](PackReader& r) { return node(r); });
    out_.note = in.text();
    in.end();
  }

  std::vector<Section> sections_;
  std::map<std::string, std::string> devices_;
  std::string ambient_; // the device that takes the place of the file's own
  SavedContents out_;
};

// The graph with this process's slots, devices and programs in one substitution, so that a new slot that
// equals an old one of another buffer does no harm.
class Renumber {
public:
  Renumber(const Reader& reader, const SavedContents& plain) : reader_(reader) {
    for (const StoredBuffer& b : plain.buffers) {
      int64_t slot = b.facts.slot < 0 ? fresh_internal_slot() : fresh_user_slot();
      buffers_[b.facts.slot] = buffer_node(slot, b.facts.dtype, b.facts.elements, b.facts.device);
    }
  }
  const UOp& buffer(int64_t old_slot) const { return buffers_.at(old_slot); }
  const std::map<int64_t, UOp>& buffers() const { return buffers_; }
  void set_program(size_t position, UOp body) { programs_[position] = std::move(body); }

  UOp operator()(const UOp& root) {
    if (!root) return root;
    for (const UOp& u : toposort(root, [&](const UOp& n) { return !done_.contains(n); }))
      if (!done_.contains(u)) done_[u] = renumbered(u);
    return done_.at(root);
  }

private:
  UOp renumbered(const UOp& u) {
    if (u.is(Op::BUFFER)) return buffer(slot_of(u));
    if (u.is(Op::PROGRAM))
      if (auto it = programs_.find(u.arg().word); it != programs_.end()) return it->second;
    std::vector<UOp> src;
    for (const UOp& s : u.src()) src.push_back(done_.at(s));
    if (u.is(OpSet(Op::PARAM, Op::COPY))) {
      std::vector<int64_t> ints(u.arg().ints().begin(), u.arg().ints().end());
      std::vector<std::string> texts(u.arg().texts().begin(), u.arg().texts().end());
      for (std::string& device : texts) device = reader_.remapped(device);
      return make(u.op(), u.dtype(), src, Arg(std::move(ints), std::move(texts)), u.lanes());
    }
    return with_sources(u, src);
  }

  const Reader& reader_;
  std::map<int64_t, UOp> buffers_;
  std::unordered_map<uint64_t, UOp> programs_;
  std::unordered_map<UOp, UOp, UOpHash> done_;
};

AnyBuffer filled(const UOp& node, const std::vector<std::string>& contents) {
  AnyBuffer buffer = slot_of(node) < 0 ? make_storage(node) : any_buffer_of(node);
  std::span<const BufferRef> parts = shards(buffer);
  for (size_t i = 0; i < contents.size(); ++i) {
    parts[i]->allocate();
    if (!contents[i].empty()) parts[i]->copy_in(std::as_bytes(std::span(contents[i])));
  }
  return buffer;
}

// The caller's storage for a node that the file has no contents of.
AnyBuffer provided(const UOp& node, const SavedStorage& wanted, const LoadOptions& options) {
  std::optional<AnyBuffer> found = options.storage ? options.storage(wanted) : std::nullopt;
  if (!found || !has_value(*found))
    throw FormatError("buffer slot " + std::to_string(wanted.slot) + " unresolved: the capture reads " +
                      std::to_string(wanted.elements) + " " + name(wanted.dtype) + " on " + wanted.device +
                      " that the file does not hold; save it with its weights, or give LoadOptions::storage");
  std::span<const BufferRef> parts = shards(*found);
  std::vector<std::string> devices = split_devices(wanted.device);
  bool fits = parts.size() == devices.size();
  for (size_t i = 0; fits && i < parts.size(); ++i)
    fits = parts[i]->dtype() == wanted.dtype && parts[i]->count() == uint64_t(wanted.elements) &&
           parts[i]->device().name() == devices[i];
  if (!fits)
    throw FormatError("the storage given for buffer slot " + std::to_string(wanted.slot) + " is not " +
                      std::to_string(wanted.elements) + " " + name(wanted.dtype) + " on " + wanted.device);
  if (slot_of(node) >= 0) set_buffer(node, *found);
  return *found;
}

// As settings_for_saved, without a target that the device does not have: the file may come from another kind.
Config settings_on(Device& on, const std::string& saved) {
  Config config = settings_for_saved(saved);
  if (config.target == Config::current().target) return config;
  try {
    ScopedConfig scope(config);
    (void)on.target_index();
  } catch (const DeviceError&) {
    config.target.clear();
  }
  return config;
}

// Whether the code of a file is what these settings ask for. Which target it is for, its kernels know.
bool has_settings(Config settings, const std::string& saved) {
  Config then = with_codegen({}, saved);
  settings.target = then.target;
  return settings.codegen_text() == then.codegen_text();
}

} // namespace

LoadedCapture load_capture(std::string_view file, const LoadOptions& options) {
  Reader reader(file, options);
  SavedContents plain = reader.run();
  Renumber renumber(reader, plain);
  LoadedCapture out;
  CaptureParts& parts = out.parts;
  parts.device = plain.device;
  Config settings = settings_on(device(parts.device), plain.settings);
  ScopedConfig scope(settings);
  parts.settings = settings.codegen_text();
  // Kernels are their graphs from here on, and `programs` only what a trusting user gets in their place.
  bool trusted = options.trust_code && has_settings(settings, plain.settings);
  for (size_t i = 0; i < plain.programs.size(); ++i) {
    ProgramEntry& e = plain.programs[i];
    e.sink = renumber(e.sink);
    for (auto* sizes : {&e.global, &e.local})
      for (UOp& size : *sizes) size = renumber(size);
    UOp loaded = trusted ? trusted_program(e) : UOp();
    renumber.set_program(i, loaded ? loaded : bounded_kernel(e.sink));
  }
  parts.planned = renumber(plain.nodes[0]);
  const uint64_t begin = now_ns();
  Lowered lowered =
      lower_linear(device(parts.device), parts.planned, {.compiled = &out.compiled, .batch = true});
  parts.planned = std::move(lowered.planned), parts.linear = std::move(lowered.linear);
  if (out.compiled > 0) out.compile_ms = ms_since(begin);
  out.reused = plain.programs.size() - std::min(plain.programs.size(), out.compiled);
  for (InputInfo& info : plain.expected) info.view = renumber(info.view);
  parts.expected = std::move(plain.expected);
  parts.names = std::move(plain.names);
  parts.variables = std::move(plain.variables);
  for (const StoredBuffer& b : plain.buffers) {
    if (b.facts.role == StorageRole::Arena) continue;
    const UOp& node = renumber.buffer(b.facts.slot);
    bool absent = b.facts.role == StorageRole::Weight && b.contents.empty();
    parts.bound.emplace_back(node, absent ? provided(node, b.facts, options) : filled(node, b.contents));
    if (b.facts.role == StorageRole::State) parts.once.push_back(node);
  }
  for (const UOp& u : plain.results) {
    out.results.push_back(renumber(u));
    UOp below = u ? storage_of(u) : UOp();
    if (below && below.is(Op::PARAM)) parts.returned.push_back(size_t(slot_of(below)));
  }
  out.note = std::move(plain.note);
  out.storage = renumber.buffers();
  return out;
}

} // namespace tolk::engine
