#include "tolk/engine/capture/capture.h"

#include <unordered_map>

#include "tolk/base/error.h"
#include "tolk/base/text.h"
#include "tolk/engine/run/calls.h"
#include "tolk/engine/run/run_linear.h"
#include "tolk/uop/build.h"
#include "tolk/uop/print.h"
#include "tolk/uop/shape.h"

namespace tolk::engine {
namespace {

std::string name_text(const JitName& name) {
  const int* position = std::get_if<int>(&name);
  return position ? std::to_string(*position) : std::get<std::string>(name);
}

std::string list_text(const std::vector<JitName>& names) {
  std::vector<std::string> texts;
  for (const JitName& n : names) texts.push_back(name_text(n));
  return "[" + join(texts, ", ") + "]";
}

std::string view_text(const UOp& view) {
  if (!view) return "whole";
  std::string text = to_string(shape_of(view));
  for (UOp at = view; at.nsrc() > 0; at = UOp(at.src(0))) {
    text += std::string(" ") + name(at.op());
    if (at.is(Op::SLICE)) {
      text += "[" + std::to_string(at.arg().i(0)) + "]";
    } else {
      for (size_t i = 1; i < at.nsrc(); ++i) text += (i == 1 ? "(" : ",") + print_expr(at.src(i));
      if (at.nsrc() > 1) text += ")";
    }
  }
  return text;
}

std::string text_of(const InputInfo& i) {
  return "(" + std::to_string(i.size) + ", " + name(i.dtype) + ", " + i.device + ", " + view_text(i.view) +
         (i.vars.empty() ? "" : ", variables [" + join(i.vars, ", ") + "]") + ")";
}

// The first field in which an input is not as expected; null when it fits.
const char* difference(const InputInfo& expected, const JitInput& got) {
  if (elements_of(got.storage) != expected.size) return "the number of elements";
  if (got.storage.dtype() != expected.dtype) return "the dtype";
  if (device_text(got.storage) != expected.device) return "the device";
  if (got.vars != expected.vars) return "the set of bound variables";
  if (got.view != expected.view) return "the view of the storage";
  return nullptr;
}

// What the calls do to a BUFFER, for its role.
struct Use {
  bool overwritten_first = false;
  int writes = 0;
};

} // namespace

InputInfo InputInfo::of(const JitInput& input) {
  const UOp& node = input.storage;
  return {input.view, input.vars, elements_of(node), node.dtype(), device_text(node)};
}

Capture::Capture(CaptureParts parts) : parts_(std::move(parts)) { assign_roles(); }

size_t Capture::num_kernels() const { return count_kernels(parts_.linear); }

void Capture::assign_roles() {
  written_inputs_.assign(parts_.expected.size(), false);
  NodeSet once(parts_.once.begin(), parts_.once.end()), bound;
  for (const auto& [node, buffer] : parts_.bound) bound.insert(node);
  std::vector<UOp> order;
  std::unordered_map<UOp, Use, UOpHash> uses;
  for (const UOp& call : calls_of(parts_.planned, true))
    each_base(access_of(call), [&](const BaseAccess& a) {
      if (a.base.is(Op::PARAM)) {
        if (a.writes) written_inputs_.at(size_t(slot_of(a.base))) = true;
        return;
      }
      auto [it, fresh] = uses.try_emplace(a.base);
      if (fresh) {
        order.push_back(a.base);
        it->second.overwritten_first = a.overwrites;
      }
      it->second.writes += a.writes;
      if (a.writes && it->second.writes == 1 && slot_of(a.base) >= 0) written_.push_back(a.base);
    });
  for (const UOp& node : order) {
    const Use& use = uses.at(node);
    StorageRole role = StorageRole::Weight;
    if (slot_of(node) < 0 && !bound.contains(node)) {
      role = StorageRole::Arena;
      if (use.writes > 1) updated_arenas_.insert(node);
    } else if (once.contains(node)) {
      role = StorageRole::State;
    } else if (use.writes > 0) {
      role = use.overwritten_first ? StorageRole::Written : StorageRole::State;
    }
    storage_.push_back({node, role});
  }
}

void Capture::check(const JitInputs& inputs) const {
  if (inputs.names != parts_.names)
    throw JitError("args mismatch in JIT: expected names " + list_text(parts_.names) + ", got " +
                   list_text(inputs.names) + "; pass each input as at the call that was captured");
  if (inputs.inputs.size() != parts_.expected.size())
    throw JitError("input count mismatch: expected " + std::to_string(parts_.expected.size()) + ", got " +
                   std::to_string(inputs.inputs.size()));
  for (size_t i = 0; i < parts_.expected.size(); ++i) {
    const InputInfo& want = parts_.expected[i];
    const JitInput& got = inputs.inputs[i];
    if (const char* what = difference(want, got))
      throw JitError("input " + std::to_string(i) + " mismatch: expected " + text_of(want) + ", got " +
                     text_of(InputInfo::of(got)) + "; " + what +
                     " differs. A captured function takes what it was captured with; reset it for "
                     "another form");
  }
  for (const JitVariable& var : parts_.variables) {
    auto it = inputs.var_vals.find(var.name);
    if (it == inputs.var_vals.end())
      throw JitError("variable \"" + var.name + "\" has no value in this call, and captured kernels use it");
    if (it->second < var.min || it->second > var.max)
      throw JitError("variable \"" + var.name + "\" is " + std::to_string(it->second) + ", outside " +
                     std::to_string(var.min) + " .. " + std::to_string(var.max));
  }
}

} // namespace tolk::engine
