#include "tolk/device/replay.h"

#include <algorithm>
#include <fstream>
#include <map>

#include "tolk/base/error.h"
#include "tolk/device/device.h"
#include "tolk/device/registry.h"
#include "tolk/kernel/kernel_ir.h"
#include "tolk/layers/recording.h"
#include "tolk/loader/plugin_loader.h"
#include "tolk/loader/status.h"

namespace tolk {
namespace recording {
namespace {

// The payload of a record.
class Reader : public PackReader {
public:
  Reader(std::string_view bytes, std::string where)
      : PackReader(std::move(where), bytes, PackNumbers::Varint) {}

  uint64_t number() { return static_cast<uint64_t>(PackReader::number()); }
  uint32_t small() { return static_cast<uint32_t>(PackReader::number(0, UINT32_MAX)); }
  Ref ref() {
    Ref r;
    r.buffer = number();
    r.offset = number();
    r.size = number();
    return r;
  }
  ContentKey key() {
    ContentKey k;
    k.high = number();
    k.low = number();
    return k;
  }
  void sizes(uint32_t n[3]) {
    for (int i = 0; i < 3; i++) n[i] = small();
  }
  template <typename T> std::vector<T> table() {
    const std::string t = text();
    if (t.size() % sizeof(T) != 0) damaged("a table has half an element");
    std::vector<T> all(t.size() / sizeof(T));
    std::memcpy(static_cast<void*>(all.data()), t.data(), t.size());
    return all;
  }
};

KernelIR read_kernel(std::string_view bytes, const std::string& where) {
  Reader r(bytes, where);
  KernelIR kernel;
  if (const uint32_t version = r.small(); version != TOLK_KERNEL_IR_VERSION)
    r.damaged("its kernel has version " + std::to_string(version) + " of the flat form, this Tolk has " +
              std::to_string(TOLK_KERNEL_IR_VERSION));
  kernel.ops = r.table<tolk_ir_op>();
  kernel.sources = r.table<uint32_t>();
  kernel.attrs = r.table<uint64_t>();
  kernel.params = r.table<tolk_param>();
  kernel.name = r.text();
  r.end();
  return kernel;
}

class File {
public:
  explicit File(const std::string& path) : path_(path), file_(path, std::ios::binary) {
    if (!file_) throw FormatError(path + ": the recording cannot be opened");
    std::string head(kHead.size(), '\0');
    file_.read(head.data(), static_cast<std::streamsize>(head.size()));
    if (!file_ || head != kHead)
      throw FormatError(path + ": not a recording of TOLK_LAYERS=record, or of another version");
  }

  std::string where() const { return path_ + ", record " + std::to_string(records_); }
  uint64_t records() const { return records_; }

  enum class Read { Record, End, CutOff };
  Read read(Kind& kind, std::string& payload) {
    records_++;
    char head[5];
    file_.read(head, sizeof head);
    if (file_.gcount() == 0) return Read::End;
    uint32_t length = 0, check = 0;
    std::memcpy(&length, head, 4);
    if (file_.gcount() < 5) return Read::CutOff;
    kind = static_cast<Kind>(head[4]);
    // Read by pieces: a damaged length must not ask for gigabytes that are not there.
    payload.clear();
    while (payload.size() < length) {
      const size_t have = payload.size(), piece = std::min<size_t>(length - have, 1 << 20);
      payload.resize(have + piece);
      file_.read(payload.data() + have, static_cast<std::streamsize>(piece));
      if (static_cast<size_t>(file_.gcount()) < piece) return Read::CutOff;
    }
    file_.read(reinterpret_cast<char*>(&check), 4);
    if (file_.gcount() < 4) return Read::CutOff;
    if (check != check_of(kind, payload))
      throw FormatError(where() + ": its check does not fit, the file is damaged");
    return Read::Record;
  }

private:
  std::string path_;
  std::ifstream file_;
  uint64_t records_ = 0;
};

class Session {
public:
  Session(File& file, tolk::Device& device, ReplayOptions options)
      : file_(file), first_(device), plugin_(device.plugin()), options_(options),
        serial_(plugin_.serialize()) {}
  ~Session() { clean_up(); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  Replay run();

private:
  template <typename H> using Handles = std::map<uint64_t, H*>;
  struct Prog {
    tolk_program* handle;
    std::vector<uint64_t> kernels;
  };

  [[noreturn]] void damaged(const std::string& why) const { throw FormatError(file_.where() + ": " + why); }
  template <typename M> auto& find(M& map, uint64_t number, const char* what) {
    auto it = map.find(number);
    if (it == map.end()) damaged(std::string("it names a ") + what + " that is not there");
    return it->second;
  }
  tolk_stream* stream(uint64_t number) { return number == 0 ? nullptr : find(streams_, number, "stream"); }
  tolk_ref ref(const Ref& r) { return {find(buffers_, r.buffer, "buffer"), r.offset, r.size}; }
  void checked(tolk_status status, const char* call) {
    check_status(status, first_.name(), file_.where() + ", " + call);
    replay_.calls++;
  }
  std::vector<uint32_t> list(Reader& r) {
    std::vector<uint32_t> all(r.count());
    for (uint32_t& n : all) n = r.small();
    return all;
  }
  struct Launch {
    std::vector<tolk_ref> refs;
    std::vector<uint64_t> values;
    tolk_launch launch{};
  };
  void read_launch(Reader& r, Launch& l);
  void compare(const Ref& r, tolk_stream* stream, const ContentKey& key);
  // Any stream of the buffer's device; null where there are none.
  tolk_stream* any_stream(uint64_t buffer);
  bool object_call(Kind kind, Reader& r);
  bool memory_call(Kind kind, Reader& r);
  bool graph_call(Kind kind, Reader& r);
  void open(Reader& r);
  void load(Reader& r);
  void clean_up();

  File& file_;
  tolk::Device& first_;
  Plugin& plugin_;
  ReplayOptions options_;
  std::unique_lock<std::recursive_mutex> serial_;
  Replay replay_;
  std::map<uint64_t, std::string> blocks_;
  std::map<tolk::Device*, std::unique_lock<std::mutex>> locks_;
  Handles<tolk_device> devices_;
  Handles<tolk_buffer> buffers_;
  std::map<uint64_t, uint64_t> owner_, stream_owner_; // device of a buffer, of a stream
  std::map<uint64_t, tolk_stream*> own_; // by device: for comparing where the recording has no stream
  Handles<tolk_stream> streams_;
  Handles<tolk_event> events_;
  std::map<uint64_t, Prog> programs_;
  Handles<tolk_kernel> kernels_;
  Handles<tolk_graph> graphs_;
  std::map<uint64_t, uint32_t> graph_devices_;
};

void Session::open(Reader& r) {
  const uint64_t number = r.number();
  const uint32_t index = r.small();
  // The device at hand stands for the first that was recorded, the others go by index.
  tolk::Device& d = devices_.empty() && locks_.empty() ? first_
                    : index == first_.index()          ? first_
                                              : tolk::device(plugin_.name + ":" + std::to_string(index));
  if (!locks_.contains(&d)) locks_.emplace(&d, d.submit_mutex());
  if (!devices_.emplace(number, d.handle()).second) damaged("a device comes twice");
}

tolk_stream* Session::any_stream(uint64_t buffer) {
  if (plugin_.synchronous) return nullptr;
  const uint64_t device = find(owner_, buffer, "buffer");
  for (const auto& [number, owner] : stream_owner_)
    if (owner == device) return streams_[number];
  auto& own = own_[device];
  if (!own)
    checked(plugin_.stream.create(find(devices_, device, "device"), TOLK_STREAM_COMPUTE, &own),
            "stream.create");
  return own;
}

void Session::compare(const Ref& r, tolk_stream* stream, const ContentKey& key) {
  std::string bytes(r.size, '\0');
  tolk_ref range = ref(r);
  if (r.size != 0) checked(plugin_.stream.copy_out(stream, bytes.data(), range, 0), "stream.copy_out");
  replay_.compared++;
  if (content_key(bytes) != key) {
    replay_.different++;
    if (replay_.first_difference.empty())
      replay_.first_difference = file_.where() + ": buffer " + std::to_string(r.buffer) + ", bytes " +
                                 std::to_string(r.offset) + " to " + std::to_string(r.offset + r.size);
  }
  if (options_.keep_bytes) replay_.read.push_back(std::move(bytes));
}

void Session::read_launch(Reader& r, Launch& l) {
  tolk_launch& c = l.launch;
  c.struct_size = sizeof c;
  c.flags = r.small();
  c.shared_bytes = r.number();
  r.sizes(c.grid);
  r.sizes(c.local);
  l.refs.resize(r.count());
  for (tolk_ref& one : l.refs) one = ref(r.ref());
  l.values.resize(r.count());
  for (uint64_t& value : l.values) value = r.number();
  c.buffers = l.refs.data();
  c.values = l.values.data();
  c.buffer_count = static_cast<uint32_t>(l.refs.size());
  c.value_count = static_cast<uint32_t>(l.values.size());
}

void Session::load(Reader& r) {
  const uint64_t number = r.number();
  tolk_device* device = find(devices_, r.number(), "device");
  const std::string& block = find(blocks_, r.number(), "block of data");
  const uint64_t form = r.number();
  tolk_source source{};
  source.struct_size = sizeof source;
  source.target_index = r.small();
  const std::string entry = r.text(), options = r.text();
  const auto params = r.table<tolk_param>();
  source.flags = r.small();
  r.sizes(source.local);
  source.shared_bytes = r.number();
  source.entry = entry.c_str();
  source.options = options.c_str();
  source.params = params.data();
  source.param_count = static_cast<uint32_t>(params.size());
  tolk_bytes binary{block.data(), block.size()};
  KernelIR kernel;
  tolk_kernel_ir view;
  if (form == 2) {
    kernel = read_kernel(block, file_.where());
    view = kernel.view();
    binary = {&view, sizeof view};
  }
  if (form != 0) source.text = binary;
  tolk_program* program = nullptr;
  checked(plugin_.program.load(device, binary, &source, &program), "program.load");
  programs_[number] = {program, {}};
}

bool Session::object_call(Kind kind, Reader& r) {
  switch (kind) {
  case Kind::DeviceOpen:
    open(r);
    return true;
  case Kind::DeviceClose:
    devices_.erase(r.number()); // it stays open
    return true;
  case Kind::DeviceSynchronize:
    checked(plugin_.device.synchronize(find(devices_, r.number(), "device"), TOLK_FOREVER),
            "device.synchronize");
    return true;
  case Kind::StreamCreate: {
    const uint64_t number = r.number(), device = r.number();
    tolk_stream* made = nullptr;
    checked(plugin_.stream.create(find(devices_, device, "device"), r.small(), &made), "stream.create");
    streams_[number] = made;
    stream_owner_[number] = device;
    return true;
  }
  // A device without streams takes the same work: then there is no stream, and nothing to wait for.
  case Kind::StreamDestroy: {
    const uint64_t number = r.number();
    if (tolk_stream* s = stream(number)) {
      plugin_.stream.synchronize(s, TOLK_FOREVER);
      plugin_.stream.destroy(s);
    }
    streams_.erase(number);
    stream_owner_.erase(number);
    return true;
  }
  case Kind::StreamSynchronize:
    if (tolk_stream* s = stream(r.number()))
      checked(plugin_.stream.synchronize(s, TOLK_FOREVER), "stream.synchronize");
    return true;
  case Kind::StreamWait: {
    tolk_stream* s = stream(r.number());
    tolk_event* e = find(events_, r.number(), "event");
    if (s && e) checked(plugin_.stream.wait(s, e), "stream.wait");
    return true;
  }
  case Kind::EventCreate: {
    const uint64_t number = r.number(), device = r.number();
    tolk_device* handle = find(devices_, device, "device");
    const uint32_t flags = r.small();
    tolk_event*& made = events_[number];
    const bool queues = std::any_of(stream_owner_.begin(), stream_owner_.end(),
                                    [&](const auto& s) { return s.second == device && streams_[s.first]; });
    if (queues) checked(plugin_.stream.event_create(handle, flags, &made), "stream.event_create");
    return true;
  }
  case Kind::EventRecord: {
    tolk_event* e = find(events_, r.number(), "event");
    tolk_stream* s = stream(r.number());
    if (s && e) checked(plugin_.stream.event_record(e, s), "stream.event_record");
    return true;
  }
  case Kind::EventSync:
    if (tolk_event* e = find(events_, r.number(), "event"))
      checked(plugin_.stream.event_sync(e, TOLK_FOREVER), "stream.event_sync");
    return true;
  case Kind::EventDestroy: {
    const uint64_t number = r.number();
    if (tolk_event* e = find(events_, number, "event")) plugin_.stream.event_destroy(e);
    events_.erase(number);
    return true;
  }
  case Kind::ProgramLoad:
    load(r);
    return true;
  case Kind::ProgramUnload: {
    const uint64_t number = r.number();
    Prog& p = find(programs_, number, "program");
    for (uint64_t kernel : p.kernels) kernels_.erase(kernel);
    plugin_.program.unload(p.handle);
    programs_.erase(number);
    return true;
  }
  case Kind::GetKernel: {
    const uint64_t number = r.number();
    Prog& p = find(programs_, r.number(), "program");
    tolk_kernel* kernel = nullptr;
    checked(plugin_.program.get_kernel(p.handle, r.text().c_str(), &kernel), "program.get_kernel");
    kernels_[number] = kernel;
    p.kernels.push_back(number);
    return true;
  }
  default:
    return false;
  }
}

bool Session::memory_call(Kind kind, Reader& r) {
  switch (kind) {
  case Kind::BufferCreate: {
    const uint64_t number = r.number(), device = r.number();
    tolk_buffer_desc desc{};
    desc.struct_size = sizeof desc;
    desc.kind = r.small();
    desc.usage = r.small();
    desc.flags = r.small();
    desc.size = r.number();
    desc.align = r.number();
    tolk_buffer* made = nullptr;
    checked(plugin_.buffer.create(find(devices_, device, "device"), &desc, &made), "buffer.create");
    buffers_[number] = made;
    owner_[number] = device;
    return true;
  }
  case Kind::BufferDestroy: {
    const uint64_t number = r.number();
    plugin_.buffer.destroy(find(buffers_, number, "buffer"));
    buffers_.erase(number);
    return true;
  }
  case Kind::PeerMap: {
    const uint64_t number = r.number();
    tolk_buffer* origin = find(buffers_, r.number(), "buffer");
    const uint64_t device = r.number();
    tolk_buffer* made = nullptr;
    checked(plugin_.buffer.peer_map(origin, find(devices_, device, "device"), &made), "buffer.peer_map");
    buffers_[number] = made;
    owner_[number] = device;
    return true;
  }
  case Kind::HostWrite: {
    const uint64_t buffer = r.number(), offset = r.number();
    const std::string& block = find(blocks_, r.number(), "block of data");
    tolk_ref range = ref({buffer, offset, block.size()});
    tolk_stream* s = any_stream(buffer);
    checked(plugin_.stream.copy_in(s, range, block.data(), 0), "stream.copy_in");
    if (s) checked(plugin_.stream.synchronize(s, TOLK_FOREVER), "stream.synchronize");
    return true;
  }
  case Kind::Expect: {
    const Ref range = r.ref();
    compare(range, any_stream(range.buffer), r.key());
    return true;
  }
  case Kind::CopyIn: {
    tolk_stream* s = stream(r.number());
    const Ref range = r.ref();
    const std::string& block = find(blocks_, r.number(), "block of data");
    if (block.size() != range.size) damaged("its data has another size than its range");
    checked(plugin_.stream.copy_in(s, ref(range), block.data(), 0), "stream.copy_in");
    return true;
  }
  case Kind::CopyOut: {
    tolk_stream* s = stream(r.number());
    const Ref range = r.ref();
    compare(range, s, r.key());
    return true;
  }
  case Kind::Copy: {
    tolk_stream* s = stream(r.number());
    const tolk_ref dst = ref(r.ref()), src = ref(r.ref());
    checked(plugin_.stream.copy(s, dst, src), "stream.copy");
    return true;
  }
  case Kind::Fill: {
    tolk_stream* s = stream(r.number());
    const tolk_ref dst = ref(r.ref());
    const uint64_t pattern = r.number();
    checked(plugin_.stream.fill(s, dst, pattern, r.small()), "stream.fill");
    return true;
  }
  case Kind::Launch: {
    tolk_stream* s = stream(r.number());
    tolk_kernel* kernel = find(kernels_, r.number(), "kernel");
    Launch l;
    read_launch(r, l);
    checked(plugin_.program.launch(s, kernel, &l.launch), "program.launch");
    return true;
  }
  default:
    return false;
  }
}

bool Session::graph_call(Kind kind, Reader& r) {
  if (kind == Kind::GraphCreate) {
    const uint64_t number = r.number();
    const uint32_t flags = r.small();
    std::vector<tolk_device*> devices(r.count());
    for (tolk_device*& d : devices) d = find(devices_, r.number(), "device");
    tolk_graph* made = nullptr;
    checked(plugin_.graph.create(devices.data(), static_cast<uint32_t>(devices.size()), flags, &made),
            "graph.create");
    graphs_[number] = made;
    graph_devices_[number] = static_cast<uint32_t>(devices.size());
    return true;
  }
  const auto first = static_cast<int>(Kind::GraphCreate), last = static_cast<int>(Kind::GraphDestroy);
  if (static_cast<int>(kind) < first || static_cast<int>(kind) > last) return false;
  const uint64_t number = r.number();
  tolk_graph* graph = find(graphs_, number, "graph");
  switch (kind) {
  case Kind::GraphKernel: {
    const uint32_t device = r.small();
    tolk_kernel* kernel = find(kernels_, r.number(), "kernel");
    const auto after = list(r);
    Launch l;
    read_launch(r, l);
    checked(plugin_.graph.add_kernel(graph, device, kernel, &l.launch, after.data(),
                                     static_cast<uint32_t>(after.size())),
            "graph.add_kernel");
    break;
  }
  case Kind::GraphCopy: {
    const uint32_t device = r.small();
    const tolk_ref dst = ref(r.ref()), src = ref(r.ref());
    const auto after = list(r);
    checked(
        plugin_.graph.add_copy(graph, device, dst, src, after.data(), static_cast<uint32_t>(after.size())),
        "graph.add_copy");
    break;
  }
  case Kind::GraphFill: {
    const uint32_t device = r.small();
    const tolk_ref dst = ref(r.ref());
    const uint64_t pattern = r.number();
    const uint32_t bytes = r.small();
    const auto after = list(r);
    checked(plugin_.graph.add_fill(graph, device, dst, pattern, bytes, after.data(),
                                   static_cast<uint32_t>(after.size())),
            "graph.add_fill");
    break;
  }
  case Kind::GraphCommit:
    checked(plugin_.graph.commit(graph), "graph.commit");
    break;
  case Kind::GraphUpdate: {
    std::vector<tolk_patch> patches(r.count());
    for (tolk_patch& p : patches) {
      p = {};
      p.node = r.small();
      p.kind = r.small();
      p.index = r.small();
      if (p.kind == TOLK_PATCH_BUFFER) {
        p.to.buffer = ref(r.ref());
      } else if (p.kind == TOLK_PATCH_VALUE) {
        p.to.value = r.number();
      } else {
        r.sizes(p.to.sizes.grid);
        r.sizes(p.to.sizes.local);
      }
    }
    checked(plugin_.graph.update(graph, patches.data(), static_cast<uint32_t>(patches.size())),
            "graph.update");
    break;
  }
  case Kind::GraphLaunch: {
    std::vector<tolk_stream*> streams(r.count());
    if (streams.size() != graph_devices_[number])
      damaged("a launch has another number of streams than its graph devices");
    for (tolk_stream*& s : streams) s = stream(r.number());
    checked(plugin_.graph.launch(graph, streams.data(), nullptr), "graph.launch");
    break;
  }
  default: // GraphDestroy
    plugin_.graph.destroy(graph);
    graphs_.erase(number);
    break;
  }
  return true;
}

Replay Session::run() {
  Kind kind{};
  std::string payload;
  uint64_t mine = 0;
  bool ended = false;
  std::string others;
  File::Read what;
  while ((what = file_.read(kind, payload)) == File::Read::Record) {
    if (ended) damaged("there is something after the end");
    Reader r(payload, file_.where());
    const uint64_t number = r.number();
    if (kind == Kind::End) {
      if (number != file_.records() - 1) damaged("the end counts " + std::to_string(number) + " records");
      ended = true;
    } else if (kind == Kind::Plugin) {
      const std::string name = r.text();
      if (name == plugin_.name) mine = number;
      others += (others.empty() ? "" : ", ") + name;
    } else if (kind == Kind::Data) {
      blocks_[number] = r.text();
    } else if (number == mine) {
      if (!object_call(kind, r) && !memory_call(kind, r) && !graph_call(kind, r))
        damaged("a kind of record that is not known");
    } else {
      continue;
    }
    r.end();
  }
  if (what == File::Read::CutOff && (ended || !options_.incomplete))
    damaged("the file is cut off or damaged");
  if (!ended && !options_.incomplete)
    damaged("the recording has no end; it was cut off, or the program crashed");
  if (!ended) {
    const char* how = what == File::Read::CutOff
                          ? "the recording breaks off inside this record"
                          : "the recording has no end behind the record before this one";
    replay_.missing = file_.where() + ": " + how;
  }
  if (mine == 0)
    throw InvalidArgument("the recording has no call of the plugin " + plugin_.name + "; it has " +
                          (others.empty() ? "none at all" : others));
  return std::move(replay_);
}

void Session::clean_up() {
  for (auto& [number, stream] : streams_)
    if (stream) plugin_.stream.synchronize(stream, TOLK_FOREVER);
  for (auto& [number, graph] : graphs_) plugin_.graph.destroy(graph);
  for (auto& [number, event] : events_)
    if (event) plugin_.stream.event_destroy(event);
  for (auto& [number, program] : programs_) plugin_.program.unload(program.handle);
  // Peer mappings come after their origins, and go before them.
  for (auto b = buffers_.rbegin(); b != buffers_.rend(); ++b) plugin_.buffer.destroy(b->second);
  for (auto& [number, stream] : streams_)
    if (stream) plugin_.stream.destroy(stream);
  for (auto& [device, stream] : own_)
    if (stream) {
      plugin_.stream.synchronize(stream, TOLK_FOREVER);
      plugin_.stream.destroy(stream);
    }
}

} // namespace
} // namespace recording

Replay replay_recording(const std::string& file, Device& device, ReplayOptions options) {
  device.require_usable();
  recording::File input(file);
  return recording::Session(input, device, options).run();
}

} // namespace tolk
