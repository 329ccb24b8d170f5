#include "tolk/engine/capture/saved_program.h"

#include <algorithm>
#include <map>
#include <sstream>

#include "tolk/base/config.h"
#include "tolk/base/error.h"
#include "tolk/base/log.h"
#include "tolk/device/registry.h"
#include "tolk/engine/compile/compile_linear.h"
#include "tolk/uop/build.h"

namespace tolk::engine {
namespace {

void write_slots(PackWriter& out, const std::vector<int>& slots) {
  out.list(slots, [](PackWriter& w, int slot) { w.number(slot); });
}
std::vector<int> read_slots(PackReader& in) {
  return in.list<int>([](PackReader& r) { return int(r.number(0, INT32_MAX)); });
}

void write_info(PackWriter& out, const ProgramInfo& info) {
  out.text(info.name);
  write_slots(out, info.globals);
  write_slots(out, info.outs);
  write_slots(out, info.ins);
  out.list(info.vars, [](PackWriter& w, const VarInfo& v) {
    w.text(v.name).number(int64_t(v.dtype)).number(v.min).number(v.max);
  });
  for (int64_t n : info.grid) out.number(n);
  for (int64_t n : info.local) out.number(n);
  out.number(int64_t(info.shared_bytes)).real(info.flops).real(info.bytes_loaded).real(info.bytes_touched);
  out.list(info.opts, [](PackWriter& w, const std::string& opt) { w.text(opt); });
}

ProgramInfo read_info(PackReader& in) {
  ProgramInfo info;
  info.name = in.text();
  info.globals = read_slots(in);
  info.outs = read_slots(in);
  info.ins = read_slots(in);
  info.vars = in.list<VarInfo>([](PackReader& r) {
    VarInfo v;
    v.name = r.text();
    v.dtype = DType(r.number(0, kDTypeCount - 1));
    v.min = r.number();
    v.max = r.number();
    return v;
  });
  for (int64_t& n : info.grid) n = in.number(0);
  for (int64_t& n : info.local) n = in.number(0);
  info.shared_bytes = uint64_t(in.number(0));
  info.flops = in.real();
  info.bytes_loaded = in.real();
  info.bytes_touched = in.real();
  info.opts = in.list<std::string>([](PackReader& r) { return r.text(); });
  return info;
}

} // namespace

void write_program(PackWriter& out, const ProgramEntry& entry, SavedTargets& targets,
                   const std::function<int64_t(const UOp&)>& place) {
  SavedTarget target{entry.device, entry.target_index, entry.target_key};
  auto at = std::find(targets.begin(), targets.end(), target);
  out.number(at - targets.begin());
  if (at == targets.end()) targets.push_back(target);
  out.number(place(entry.sink));
  write_info(out, entry.info);
  for (const auto* sizes : {&entry.global, &entry.local})
    for (const UOp& size : *sizes) out.number(place(size));
  out.number(entry.local_free).number(entry.flags).number(entry.may_alias);
  out.text(entry.text).text(entry.binary).text(entry.kernel ? serialize(entry.kernel->ir) : std::string());
  out.list(entry.params, [](PackWriter& w, const tolk_param& p) {
    w.number(p.kind).number(p.access).number(p.dtype).number(int64_t(p.count)).number(p.min).number(p.max);
  });
}

SavedProgram read_program(PackReader& in, const SavedTargets& targets,
                          const std::function<UOp(PackReader&)>& node) {
  SavedProgram out;
  ProgramEntry& e = out.entry;
  if (targets.empty()) in.damaged("a kernel for no target");
  const SavedTarget& target = targets[size_t(in.number(0, int64_t(targets.size()) - 1))];
  e.device = target.device, e.target_index = target.index, e.target_key = target.key;
  e.sink = node(in);
  if (!e.sink || !e.sink.is(Op::SINK)) in.damaged("a kernel without its graph");
  e.info = read_info(in);
  for (auto* sizes : {&e.global, &e.local})
    for (UOp& size : *sizes) {
      size = node(in);
      if (size && size.dtype() != DType::Index) in.damaged("a launch size that is no size");
    }
  e.local_free = in.flag();
  e.flags = uint32_t(in.number(0, UINT32_MAX));
  e.may_alias = in.flag();
  e.text = in.text();
  e.binary = in.text();
  if (std::string kernel = in.text(); !kernel.empty()) {
    KernelIR ir = deserialize_kernel_ir(kernel);
    try {
      verify(ir);
    } catch (const InternalError& error) {
      in.damaged(error.what());
    }
    e.kernel = std::make_shared<codegen::Kernel>(codegen::Kernel{std::move(ir), e.info});
  }
  e.params = in.list<tolk_param>([](PackReader& r) {
    tolk_param p{};
    p.kind = uint32_t(r.number(0, UINT32_MAX)), p.access = uint32_t(r.number(0, UINT32_MAX));
    p.dtype = uint32_t(r.number(0, UINT32_MAX)), p.count = uint64_t(r.number());
    p.min = r.number(), p.max = r.number();
    return p;
  });
  return out;
}

void write_targets(PackWriter& out, const SavedTargets& targets) {
  out.list(targets,
           [](PackWriter& w, const SavedTarget& t) { w.text(t.device).number(t.index).text(t.key); });
}

SavedTargets read_targets(PackReader in) {
  SavedTargets targets = in.list<SavedTarget>([](PackReader& r) {
    SavedTarget t;
    t.device = r.text();
    t.index = uint32_t(r.number(0, UINT32_MAX));
    t.key = r.text();
    return t;
  });
  in.end();
  return targets;
}

bool other_code_wanted(const std::string& saved) {
  auto values = [](const std::string& text) {
    std::map<std::string, std::string> out;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
      if (size_t at = line.find('='); at != line.npos) out[line.substr(0, at)] = line.substr(at + 1);
    return out;
  };
  std::map<std::string, std::string> now = values(Config::current().codegen_text()),
                                     usual = values(Config().codegen_text()), then = values(saved);
  bool wanted = false;
  for (const auto& [name, value] : now) {
    if (value == usual[name] || name == "TARGET") continue; // `reusable` knows which target it is
    if (auto it = then.find(name); it != then.end() && it->second == value) continue;
    if (name == "SPLIT_REDUCE")
      log::warning("SPLIT_REDUCE=" + value + " does not reach what was saved with SPLIT_REDUCE=" +
                   (then.contains(name) ? then[name] : usual[name]) +
                   ": its work is divided into kernels already; save it again with this setting");
    else
      wanted = true;
  }
  return wanted;
}

UOp reusable(const SavedProgram& program) {
  const ProgramEntry& entry = program.entry;
  Device& on = device(entry.device);
  if (!Config::current().target.empty() && on.target_index() != entry.target_index) return {};
  if (!entry.has_binary() || entry.target_index >= on.targets().size() ||
      on.compiler_key(entry.target_index) != entry.target_key)
    return {};
  UOp node = program_node(entry);
  try {
    get_runtime(on, node);
  } catch (const FormatError& e) {
    log::debug(1, "a saved kernel is compiled anew: " + std::string(e.what()));
    return {};
  }
  return node;
}

} // namespace tolk::engine
