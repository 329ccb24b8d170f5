#include "tolk/engine/capture/saved_check.h"

#include <algorithm>
#include <map>
#include <set>

#include "tolk/base/error.h"
#include "tolk/engine/run/resolve.h"
#include "tolk/uop/build.h"
#include "tolk/uop/print.h"
#include "tolk/uop/spec.h"
#include "tolk/uop/traverse.h"

namespace tolk::engine {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 56; // byte counts stay far from wrapping

[[noreturn]] void damaged(const char* section, const std::string& why) {
  throw FormatError(std::string("section ") + section + " is damaged: " + why);
}

// What rules and shapes say of a broken graph, as damage of the section.
template <class F> void guarded(const char* section, F&& body) {
  try {
    body();
  } catch (const FormatError&) {
    throw;
  } catch (const Error& e) {
    damaged(section, e.what());
  }
}

std::set<int> as_set(const std::vector<int>& slots) { return {slots.begin(), slots.end()}; }

class Checker {
public:
  Checker(const SavedContents& contents, const std::function<std::string(const std::string&)>& remapped)
      : c_(contents), remapped_(remapped) {}

  void run() {
    check_forms();
    check_buffers();
    check_variables();
    for (const ProgramEntry& e : c_.programs) check_program(e);
    check_calls();
    check_inputs();
    check_results();
  }

private:
  // Every node before anything asks for its shape.
  void check_forms() const {
    for (const UOp& u : toposort(c_.root)) {
      if (u.is(ops::Storage) && (elements_of(u) < 0 || elements_of(u) > kMostElements))
        damaged("graph", "no storage has so many elements: " + print_line(u));
      if (u.is(Op::SLICE) && (u.arg().i(0) < 0 || u.arg().i(0) > kMostElements))
        damaged("graph", "no storage reaches so far: " + print_line(u));
    }
  }

  void check_buffers() {
    for (const StoredBuffer& b : c_.buffers) {
      const SavedStorage& f = b.facts;
      auto bad = [&](const char* why) { damaged("buffers", "slot " + std::to_string(f.slot) + " " + why); };
      if (!by_slot_.emplace(f.slot, &f).second) bad("is there twice");
      if (f.dtype == DType::Void || f.dtype == DType::Index || f.elements > kMostElements)
        bad("is no storage");
      if (f.device.empty()) bad("is on no device");
      std::vector<std::string> devices = split_devices(f.device);
      if (!b.contents.empty() && b.contents.size() != devices.size())
        bad("has contents for another number of devices");
      for (const std::string& bytes : b.contents)
        if (bytes.size() != storage_bytes(f.dtype, uint64_t(f.elements))) bad("has contents of another size");
      if (f.role == StorageRole::Arena && f.slot >= 0) bad("is the storage of a value, not of temporaries");
      bool kept = f.role == StorageRole::State || f.role == StorageRole::Weight;
      if (!kept && !b.contents.empty()) bad("has contents that every replay would overwrite");
    }
    for (const UOp& u : toposort(c_.root)) {
      if (!u.is(Op::BUFFER)) continue;
      auto it = by_slot_.find(slot_of(u));
      if (it == by_slot_.end() || it->second->dtype != u.dtype() || it->second->elements != elements_of(u) ||
          it->second->device != remapped_(device_text(u)))
        damaged("buffers", "it does not describe slot " + std::to_string(slot_of(u)));
    }
  }

  void check_variables() {
    for (const JitVariable& v : c_.variables)
      if (v.min > v.max || !ranges_.emplace(v.name, std::pair(v.min, v.max)).second)
        damaged("meta", "the variable \"" + v.name + "\" has no range, or two");
  }

  // A variable that a launch gets from the caller, or fills itself.
  bool known_variable(const std::string& name) const {
    return is_runtime_variable(name) || name == kDevicePosition || ranges_.contains(name);
  }

  void check_size(const UOp& size) const {
    if (!size) return;
    const OpSet known(Op::CONST, Op::VAR, Op::ADD, Op::SUB, Op::MUL, Op::CDIV, Op::CMOD, Op::FLOORDIV,
                      Op::FLOORMOD, Op::MAX, Op::CMPLT, Op::CMPEQ, Op::CMPNE, Op::WHERE, Op::AND, Op::OR);
    for (const UOp& u : toposort(size)) {
      if (!u.is(known) || u.lanes() != 1 || (u.dtype() != DType::Index && u.dtype() != DType::BOOL))
        damaged("programs", "a launch size is computed by " + print_line(u));
      if (u.is(Op::VAR) && !known_variable(var_name(u)))
        damaged("programs", "a launch size depends on \"" + var_name(u) + "\", which has no value");
    }
  }

  void check_program(const ProgramEntry& e) const {
    guarded("graph", [&] { verify(e.sink, Stage::Kernel); });
    const ProgramInfo& info = e.info;
    auto bad = [&](const std::string& why) { damaged("programs", "kernel " + info.name + " " + why); };
    std::map<int, UOp> parameters;
    std::map<std::string, UOp> variables;
    std::set<int> stored, loaded;
    for (const UOp& u : toposort(e.sink)) {
      if (u.is(Op::PARAM)) {
        if (slot_of(u) < 0 || slot_of(u) > INT32_MAX || !parameters.emplace(int(slot_of(u)), u).second)
          bad("has a parameter twice");
      } else if (u.is(Op::VAR)) {
        if (!known_variable(var_name(u)))
          bad("uses the variable \"" + var_name(u) + "\", which has no value");
        variables.emplace(var_name(u), u);
      } else if (u.is(Op::STORE) && u.src(0).is(Op::PARAM)) {
        stored.insert(int(slot_of(u.src(0))));
      } else if (u.is(Op::LOAD) && u.src(0).is(Op::PARAM)) {
        loaded.insert(int(slot_of(u.src(0))));
      }
    }
    std::set<int> globals = as_set(info.globals), outs = as_set(info.outs), ins = as_set(info.ins);
    if (globals.size() != info.globals.size()) bad("takes an argument twice");
    for (int slot : globals)
      if (!parameters.contains(slot)) bad("takes an argument that its graph has not");
    if (outs != stored) bad("does not write what its graph writes");
    if (!std::includes(loaded.begin(), loaded.end(), ins.begin(), ins.end()))
      bad("reads what its graph does not read");
    if (!std::includes(globals.begin(), globals.end(), outs.begin(), outs.end()) ||
        !std::includes(globals.begin(), globals.end(), ins.begin(), ins.end()))
      bad("reads or writes what it does not take");
    for (const VarInfo& v : info.vars) {
      auto it = variables.find(v.name);
      bool fits = it == variables.end() ? is_runtime_variable(v.name) && v.min == 0 && v.max >= 0
                                        : v.min == it->second.vmin() && v.max == it->second.vmax();
      if (!fits || v.max >= UINT32_MAX || !is_int(v.dtype)) bad("has another variable \"" + v.name + "\"");
    }
    for (int i = 0; i < 3; ++i) {
      if (info.grid[i] > UINT32_MAX || info.local[i] > UINT32_MAX) bad("has a launch size beyond 32 bits");
      check_size(e.global[size_t(i)]), check_size(e.local[size_t(i)]);
    }
    if (c_.with_code) check_parameters(e, parameters, bad);
  }

  // The launch's parameters: buffers in the order of info.globals, then values.
  template <class Bad>
  void check_parameters(const ProgramEntry& e, const std::map<int, UOp>& parameters, const Bad& bad) const {
    const std::vector<VarInfo>& vars = e.info.vars;
    size_t values = size_t(
               std::ranges::count_if(vars, [](const VarInfo& v) { return !is_runtime_variable(v.name); })),
           buffers = e.info.globals.size();
    if (e.kernel) {
      const std::vector<tolk_param>& of_code = e.kernel->ir.params;
      auto same = [](const tolk_param& a, const tolk_param& b) {
        return a.kind == b.kind && a.access == b.access && a.dtype == b.dtype && a.count == b.count &&
               a.min == b.min && a.max == b.max;
      };
      if (!std::ranges::equal(e.params, of_code, same)) bad("is launched with other parameters than it has");
      if (e.kernel->ir.name != e.info.name) bad("has the code of " + e.kernel->ir.name);
    }
    size_t all = vars.size() + buffers; // linearized kernel IR also counts those that the launch fills
    if (e.params.size() != buffers + values && e.params.size() != all)
      bad("has " + std::to_string(e.params.size()) + " parameters, its launch gives " +
          std::to_string(buffers + values));
    for (size_t i = 0; i < e.params.size(); ++i) {
      const tolk_param& p = e.params[i];
      if ((p.kind == TOLK_PARAM_BUFFER) != (i < buffers) || p.kind > TOLK_PARAM_VALUE)
        bad("mixes buffers and values");
      if (i >= buffers || !e.kernel) continue;
      int slot = e.info.globals[i];
      bool in = std::ranges::find(e.info.ins, slot) != e.info.ins.end(),
           out = std::ranges::find(e.info.outs, slot) != e.info.outs.end();
      if (p.count != uint64_t(elements_of(parameters.at(slot))) || in != bool(p.access & TOLK_ACCESS_READ) ||
          out != bool(p.access & TOLK_ACCESS_WRITE))
        bad("has another parameter " + std::to_string(i) + " than its graph");
    }
  }

  void check_calls() const {
    std::vector<UOp> calls, src;
    for (const UOp& call : c_.nodes[0].src()) {
      if (!call.is(Op::CALL) || !call.src(0).is(OpSet(Op::PROGRAM, Op::COPY, Op::SLICE)))
        damaged("graph", "it lists " + print_line(call));
      src.assign(call.src().begin(), call.src().end());
      if (src[0].is(Op::PROGRAM)) {
        uint64_t number = src[0].arg().word;
        if (number >= c_.programs.size()) damaged("graph", "it runs a kernel that section programs has not");
        if (src[0].src(0) != c_.programs[number].sink)
          damaged("programs", "a kernel has the code of another");
        src[0] = src[0].src(0);
      }
      calls.push_back(with_sources(call, src));
    }
    guarded("graph", [&] { verify(linear(calls), Stage::KernelGraph); }); // kernels by their graphs
    for (const UOp& call : calls) check_arguments(call);
  }

  void check_arguments(const UOp& call) const {
    std::vector<UOp> arguments = buffer_arguments(call);
    auto bad = [&](const std::string& why) { damaged("graph", why + ": " + print_line(call)); };
    for (const UOp& argument : arguments)
      for (const UOp& u : toposort(argument)) {
        if (!u.is(Op::PARAM)) continue;
        if (slot_of(u) < 0 || uint64_t(slot_of(u)) >= c_.expected.size())
          damaged("graph", "it has more inputs than section meta");
        const InputInfo& want = c_.expected[size_t(slot_of(u))];
        if (want.size != elements_of(u) || want.dtype != u.dtype() ||
            want.device != remapped_(device_text(u)))
          damaged("meta", "input " + std::to_string(slot_of(u)) + " is not what the kernels take");
      }
    const UOp& body = call.src(0);
    if (!body.is(Op::SINK)) {
      if (arguments.size() != 2) bad("a copy or view has two arguments");
      if (body.is(Op::COPY) && (arguments[0].dtype() != arguments[1].dtype() ||
                                elements_of(arguments[0]) != elements_of(arguments[1])))
        bad("a copy is between equal sizes");
      if (body.is(Op::SLICE) && body.nsrc() > 1 && !body.src(1).is_const()) bad("a view has a known place");
      return;
    }
    for (const UOp& p : toposort(body)) {
      if (!p.is(Op::PARAM)) continue;
      if (uint64_t(slot_of(p)) >= arguments.size()) bad("an argument is missing");
      if (elements_of(arguments[size_t(slot_of(p))]) != elements_of(p)) bad("an argument has another size");
    }
  }

  void check_inputs() const {
    if (c_.names.size() != c_.expected.size())
      damaged("meta", std::to_string(c_.names.size()) + " names for " + std::to_string(c_.expected.size()) +
                          " inputs");
    for (const InputInfo& info : c_.expected) {
      if (info.size > kMostElements || info.dtype == DType::Void || info.dtype == DType::Index ||
          info.device.empty())
        damaged("meta", "an input is no storage");
      if (!info.view) continue;
      check_value("meta", info.view);
      for (const UOp& u : toposort(info.view))
        if (u.is(Op::BUFFER) || (u.is(Op::PARAM) && (slot_of(u) != 0 || elements_of(u) != info.size)))
          damaged("meta", "an input is a view of other storage");
    }
  }

  void check_results() const {
    for (const UOp& result : c_.results) {
      if (!result) continue;
      check_value("result", result);
      for (const UOp& u : toposort(result)) {
        if (!u.is(Op::PARAM)) continue;
        bool known = slot_of(u) >= 0 && uint64_t(slot_of(u)) < c_.expected.size();
        const InputInfo* input = known ? &c_.expected[size_t(slot_of(u))] : nullptr;
        if (!input || elements_of(u) != input->size || u.dtype() != input->dtype ||
            remapped_(device_text(u)) != input->device)
          damaged("result", "it names an input that is not there");
      }
    }
  }

  // A tensor's value over storage.
  void check_value(const char* section, const UOp& value) const {
    if (value.dtype() == DType::Void || value.dtype() == DType::Index)
      damaged(section, "no tensor is " + print_line(value));
    for (const UOp& u : toposort(value))
      if (u.is(ops::Effect)) damaged(section, "a value depends on " + print_line(u));
    guarded(section, [&] {
      verify(value, Stage::TensorGraph);
      shape_of(value);
    });
  }

  const SavedContents& c_;
  const std::function<std::string(const std::string&)>& remapped_;
  std::map<int64_t, const SavedStorage*> by_slot_;
  std::map<std::string, std::pair<int64_t, int64_t>> ranges_;
};

} // namespace

void check_saved(const SavedContents& contents,
                 const std::function<std::string(const std::string&)>& remapped) {
  Checker(contents, remapped).run();
}

} // namespace tolk::engine
