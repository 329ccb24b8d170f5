#include "tolk/engine/run/prepared.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "tolk/base/config.h"
#include "tolk/base/error.h"
#include "tolk/device/registry.h"
#include "tolk/engine/compile/lower_linear.h"
#include "tolk/engine/run/calls.h"
#include "tolk/engine/run/node_storage.h"
#include "tolk/engine/run/storage_range.h"
#include "tolk/uop/build.h"
#include "tolk/uop/print.h"
#include "tolk/uop/storage_ref.h"
#include "tolk/uop/traverse.h"

namespace tolk::engine {
namespace {

bool has_symbolic_size(const ProgramEntry& entry) {
  for (size_t i = 0; i < 3; ++i)
    if (entry.global[i] || entry.local[i]) return true;
  return false;
}

Step step_for(const UOp& call, bool jit) {
  Step step;
  step.call = call;
  step.arguments = buffer_arguments(call);
  const UOp& body = call.src(0);
  switch (body.op()) {
  case Op::PROGRAM:
    step.kind = Step::Kind::Kernel;
    step.program = body;
    step.entry = program_entry_ref(body);
    if (!step.entry->has_binary())
      throw InvalidArgument("PROGRAM is missing its compiled binary: " + step.entry->info.name);
    for (int slot : step.entry->info.globals)
      if (size_t(slot) >= step.arguments.size())
        throw InvalidArgument("kernel " + step.entry->info.name + " reads argument " + std::to_string(slot) +
                              ", the call has " + std::to_string(step.arguments.size()));
    if (!step.entry->info.vars.empty() || has_symbolic_size(*step.entry))
      step.depends |= DependsOn::Variables;
    break;
  case Op::COPY:
    step.kind = Step::Kind::Copy;
    if (call.nsrc() != 3 || step.arguments.size() != 2)
      throw InvalidArgument("malformed COPY call: it has " + std::to_string(call.nsrc() - 1) +
                            " arguments, not a destination and a source: " + print_line(call));
    break;
  case Op::SLICE:
    step.kind = Step::Kind::View;
    if (step.arguments.size() != 2)
      throw InvalidArgument("malformed SLICE call: it has " + std::to_string(step.arguments.size()) +
                            " arguments, not the view's node and its source: " + print_line(call));
    if (body.nsrc() > 1 && !body.src(1).is_const())
      throw InvalidArgument("symbolic SLICE offset in " + print_line(body));
    break;
  case Op::SINK:
    if (jit) throw InvalidArgument("uncompiled kernel in a jit linear: " + print_line(call));
    throw InternalError("a kernel was not compiled: " + print_line(call));
  default:
    if (is_graph_call(call)) {
      step.kind = Step::Kind::Graph;
      break;
    }
    throw InvalidArgument(std::string("unexpected call body ") + name(body.op()) +
                          (body.is(Op::CUSTOM_FUNCTION) ? " \"" + body.arg().text() + "\"" : "") + ": " +
                          print_line(call));
  }
  bool direct = true; // inputs are arguments as they are
  for (uint32_t i = 0; i < step.arguments.size(); ++i) {
    const UOp& argument = step.arguments[i];
    if (!reaches_param(argument)) continue;
    step.depends |= DependsOn::Inputs;
    direct &= argument.is(Op::PARAM);
    step.inputs.push_back(i);
  }
  if (!direct) step.inputs.clear();
  return step;
}

// Refuses unknown bodies before anything is compiled.
void check_bodies(const std::vector<UOp>& calls, bool jit) {
  OpSet known(Op::SINK, Op::PROGRAM, Op::COPY, Op::SLICE);
  for (const UOp& call : calls)
    if (!call.src(0).is(known) || (jit && call.src(0).is(Op::SINK))) step_for(call, jit);
}

void add_arenas(const UOp& argument, std::vector<UOp>& arenas) {
  for (StoragePart& part : storage_parts(argument))
    if (part.sliced && part.base.is(Op::BUFFER) && slot_of(part.base) < 0 &&
        std::ranges::find(arenas, part.base) == arenas.end())
      arenas.push_back(std::move(part.base));
}

// The estimates of a graph call: the sum of its inner calls.
Estimates graph_estimates(const UOp& call) {
  Estimates sum;
  for (const UOp& inner : calls_of(graph_linear(call))) {
    auto n = double(positions_of(inner));
    if (inner.src(0).is(Op::PROGRAM)) {
      const ProgramInfo& info = program_entry(inner.src(0)).info;
      sum.ops += n * info.flops, sum.lds += n * info.bytes_loaded, sum.mem += n * info.bytes_touched;
    } else if (inner.nsrc() > 1) { // a copy
      const UOp& to = inner.src(1);
      double bytes = n * double(storage_bytes(to.dtype(), uint64_t(elements_of(to))));
      sum.lds += bytes, sum.mem += bytes;
    }
  }
  return sum;
}

// Whether the kernel needs the program for overlapping arguments: a written one shares bytes with another,
// and the program was compiled for arguments that do not.
bool needs_overlap(const ProgramEntry& entry, const std::vector<BufferRef>& arguments) {
  if (entry.may_alias) return false;
  for (int out : entry.info.outs)
    for (int other : entry.info.globals)
      if (other != out &&
          conflict(use_of(*arguments[size_t(out)], true), use_of(*arguments[size_t(other)], false)))
        return true;
  return false;
}

std::array<uint32_t, 3> narrowed(const std::array<int64_t, 3>& sizes, const std::string& kernel) {
  std::array<uint32_t, 3> out{};
  for (size_t i = 0; i < 3; ++i) {
    if (sizes[i] > int64_t(UINT32_MAX))
      throw InvalidArgument("kernel " + kernel + " would be launched with the size " +
                            std::to_string(sizes[i]));
    out[i] = uint32_t(sizes[i]);
  }
  return out;
}

// Zero-copy import: the device uses host data in place when nothing has storage for the destination yet.
// Results of replays are copied, since users may write them and the next replay must restore them.
bool take_in_place(BufferBinding& binding, const UOp& to, const AnyBuffer& source, bool jit) {
  if (!to.is(Op::BUFFER) || binding.mem(to) || (slot_of(to) >= 0 && (jit || has_buffer(to))) ||
      is_multi(source))
    return false;
  const BufferRef& from = std::get<BufferRef>(source);
  std::vector<std::string> names = argument_devices(to);
  if (!from->device().is_host() || names.size() != 1 || names[0] == "HOST") return false;
  BufferRef imported = import_host_buffer(device(names[0]), from);
  return imported && binding.adopt(to, std::move(imported));
}

} // namespace

bool same_memory(Buffer& a, Buffer& b) {
  return a.is_allocated() && b.is_allocated() && a.bytes() == b.bytes() && a.host_data() != nullptr &&
         a.host_data() == b.host_data();
}

PreparedLinear::PreparedLinear(Device& ambient, const ToProgram& make_program, const UOp& linear, bool jit,
                               const Progress& progress)
    : ambient_(ambient) {
  if (!linear.is(Op::LINEAR)) throw InvalidArgument("expected LINEAR to run, got " + print_line(linear));
  check_bodies(calls_of(linear), jit);
  compiled_ =
      jit ? linear : lower_linear(ambient, linear, {.to_program = make_program, .progress = progress}).linear;
  std::unordered_set<const UOpNode*> bound_later;
  for (const UOp& call : calls_of(compiled_)) {
    Step step = step_for(call, jit);
    for (const UOp& argument : step.arguments) {
      add_arenas(argument, arenas_);
      if (bound_later.empty()) continue;
      for (const UOp& u : toposort(argument))
        if (bound_later.contains(u.node())) step.depends |= DependsOn::Views;
    }
    if (step.kind == Step::Kind::View) bound_later.insert(step.arguments[0].node());
    if (step.kind == Step::Kind::Graph) {
      step.estimates = graph_estimates(call);
      for (const UOp& inner : calls_of(graph_linear(call)))
        for (const UOp& argument : buffer_arguments(inner)) add_arenas(argument, arenas_);
    }
    depends_ |= step.depends;
    steps_.push_back(std::move(step));
  }
}

void PreparedLinear::check_variables(const VarVals& vars) const {
  for (const auto& [name, value] : vars)
    if (name == kDevicePosition || is_runtime_variable(name))
      throw InvalidArgument("the variable " + name + " is set by the engine and cannot be given a value");
  VarVals all = vars;
  all[kDevicePosition] = 0;
  for (const Step& step : steps_) // the others are evaluated before anything runs
    if (step.on(DependsOn::Variables) && step.on(DependsOn::Views))
      vals(step.entry->info, all), launch_dims(*step.entry, all);
}

void PreparedLinear::update(BufferBinding& binding, const ToProgram& make_program,
                            const ExecContext& context) {
  bool new_vars = !vars_ || *vars_ != context.var_vals;
  if (new_vars) check_variables(context.var_vals);
  bool all = epoch_ != binding.epoch();
  bool reads_inputs = (uint8_t(depends_) & uint8_t(DependsOn::Inputs)) != 0;
  if (!all && !reads_inputs && !new_vars) return;
  bool new_inputs = all || inputs_ != context.input_uops || overlay_ != context.input_overlay;
  if (!new_inputs && !new_vars) return;
  epoch_.reset(); // set again at the end: an exception below leaves the list out of date
  for (Step& step : steps_) {
    if (step.kind == Step::Kind::View) continue;
    if (step.kind == Step::Kind::Graph) { // here, so that errors come before anything runs
      if (!step.inner)
        step.inner = &PreparedLinears::of(binding).get(ambient_, make_program, graph_linear(step.call), true);
      step.inner->update(binding, make_program, context);
      continue;
    }
    const bool values = new_vars && step.on(DependsOn::Variables),
               moved = new_inputs && step.on(DependsOn::Inputs);
    if (step.on(DependsOn::Views)) { // resolved when its turn comes
      if (all || moved || values) step.state = Step::State::Unresolved;
      continue;
    }
    if (all || (moved && !rebind_inputs(step, context))) step.state = Step::State::Unresolved;
    if (step.state == Step::State::Unresolved)
      resolve(step, binding, make_program, context);
    else if (values)
      set_values(step, context.var_vals);
  }
  epoch_ = binding.epoch();
  if (new_vars) vars_ = context.var_vals;
  if (new_inputs) inputs_ = context.input_uops, overlay_ = context.input_overlay;
}

// The common case of a replay: a kernel on one device gets other buffers for arguments that are inputs.
// Returns false in all other cases, and when the new buffers need another program.
bool PreparedLinear::rebind_inputs(Step& step, const ExecContext& context) {
  if (step.kind != Step::Kind::Kernel || step.positions.size() != 1 || step.state != Step::State::Ready ||
      step.inputs.empty())
    return false;
  Position& p = step.positions[0];
  auto input = [&](uint32_t i) -> const BufferRef* {
    auto slot = size_t(slot_of(step.arguments[i]));
    if (slot >= context.input_overlay.size() || slot >= overlay_.size()) return nullptr;
    if (step.bound[i] != overlay_[slot]) return nullptr; // the binding has an entry for the PARAM
    const BufferRef* buffer = std::get_if<BufferRef>(&context.input_overlay[slot]);
    return buffer && *buffer && &(*buffer)->device() == p.device ? buffer : nullptr;
  };
  for (uint32_t i : step.inputs)
    if (!input(i)) return false;
  for (uint32_t i : step.inputs) {
    const BufferRef& now = *input(i);
    step.bound[i] = now, p.arguments[i] = now;
  }
  const ProgramInfo& info = step.entry->info;
  for (int out : info.outs) p.arguments[size_t(out)]->own();
  if (needs_overlap(*step.entry, p.arguments)) {
    step.bound.clear();
    return false;
  }
  for (size_t k = 0; k < info.globals.size(); ++k) p.ordered[k] = p.arguments[size_t(info.globals[k])].get();
  return true;
}

void PreparedLinear::view_changed(size_t at) {
  for (size_t i = at + 1; i < steps_.size(); ++i) steps_[i].state = Step::State::Unresolved;
  epoch_.reset();
}

void PreparedLinear::resolve(Step& step, BufferBinding& binding, const ToProgram& make_program,
                             const ExecContext& context) {
  if (step.kind == Step::Kind::Copy && !step.on(DependsOn::Inputs)) {
    AnyBuffer source = resolve_buffer(binding, context, step.arguments[1]);
    if (take_in_place(binding, step.arguments[0], source, context.jit)) {
      step.bound = {resolve_buffer(binding, context, step.arguments[0]), source};
      resolve_copy(step, {});
      step.positions[0].in_place = true;
      step.state = Step::State::Ready;
      return;
    }
  }
  std::vector<AnyBuffer> bound;
  bound.reserve(step.arguments.size());
  for (const UOp& argument : step.arguments) bound.push_back(resolve_buffer(binding, context, argument));
  if (step.bound == bound && !step.positions.empty()) { // nothing changed, in-place copies included
    if (step.on(DependsOn::Variables)) set_values(step, context.var_vals);
    bool overlapping =
        step.kind == Step::Kind::Kernel && std::ranges::any_of(step.positions, [&](const Position& p) {
          return needs_overlap(*step.entry, p.arguments);
        });
    step.state = overlapping ? Step::State::Overlapping : Step::State::Ready;
    return;
  }
  step.bound = std::move(bound);
  step.state = Step::State::Unresolved;
  std::vector<Position> before =
      std::exchange(step.positions, {}); // none are left when something throws below
  if (step.kind == Step::Kind::Kernel)
    resolve_kernel(step, binding, make_program, context);
  else
    resolve_copy(step, std::move(before));
}

void PreparedLinear::resolve_kernel(Step& step, BufferBinding& binding, const ToProgram& make_program,
                                    const ExecContext& context) {
  const ProgramInfo& info = step.entry->info;
  std::vector<std::vector<BufferRef>> groups = unwrap_multi(step.bound);
  std::vector<Position> positions;
  Step::State state = Step::State::Ready;
  for (std::vector<BufferRef>& group : groups) {
    Position p;
    p.device = group.empty() ? &binding.ambient() : &group[0]->device();
    for (size_t i = 0; i < group.size(); ++i)
      if (&group[i]->device() != p.device)
        throw InvalidArgument("kernel " + info.name + ": argument " + std::to_string(i) + " is on " +
                              group[i]->device().name() + ", the kernel runs on " + p.device->name());
    if (!step.entry->target_key.empty() &&
        (step.entry->target_index >= p.device->targets().size() ||
         p.device->compiler_key(step.entry->target_index) != step.entry->target_key))
      throw InvalidArgument(groups.size() > 1
                                ? "kernel " + info.name + ": positions 0 and " +
                                      std::to_string(positions.size()) + " need different targets (" +
                                      step.entry->device + ", " + p.device->name() + ")"
                                : "kernel " + info.name + " was compiled for " + step.entry->device +
                                      " and cannot run on " + p.device->name());
    for (int out : info.outs) group[size_t(out)]->own();
    UOp program = step.program;
    if (needs_overlap(*step.entry, group)) {
      program = compile_kernel(*p.device, make_program, step.entry->sink, true);
      state = Step::State::Overlapping;
    }
    p.program = get_runtime(*p.device, program);
    for (int slot : program_entry(program).info.globals) p.ordered.push_back(group[size_t(slot)].get());
    p.arguments = std::move(group);
    positions.push_back(std::move(p));
  }
  step.positions = std::move(positions);
  auto n = double(step.positions.size());
  step.launches = int64_t(step.positions.size());
  step.estimates = {n * info.flops, n * info.bytes_loaded, n * info.bytes_touched};
  set_values(step, context.var_vals);
  step.state = state;
}

void PreparedLinear::set_values(Step& step, const VarVals& vars) {
  const ProgramInfo& info = step.entry->info;
  const bool multi = step.on(DependsOn::Variables) && std::ranges::any_of(step.bound, is_multi);
  const bool symbolic = has_symbolic_size(*step.entry);
  VarVals with_position;
  if (multi) with_position = vars;
  for (size_t j = 0; j < step.positions.size(); ++j) {
    Position& p = step.positions[j];
    if (multi) with_position[kDevicePosition] = int64_t(j);
    const VarVals& all = multi ? with_position : vars;
    std::vector<int64_t> values = vals(info, all);
    p.values.clear();
    for (size_t i = 0; i < values.size(); ++i) // the launch sets the others
      if (!is_runtime_variable(info.vars[i].name)) p.values.push_back(values[i]);
    if (!symbolic && p.grid[0] != 0) continue; // constant sizes, set before
    LaunchDims dims = launch_dims(*step.entry, all);
    p.grid = narrowed(dims.global, info.name);
    p.local = narrowed(dims.local.value_or(std::array<int64_t, 3>{1, 1, 1}), info.name);
  }
}

// `before`: the previous positions, whose runners are reused where devices and size are the same.
void PreparedLinear::resolve_copy(Step& step, std::vector<Position> before) {
  std::vector<std::vector<BufferRef>> pairs;
  if (is_multi(step.bound[0]) && !is_multi(step.bound[1])) { // one source to every destination
    for (const BufferRef& shard : std::get<MultiBufferRef>(step.bound[0])->shards())
      pairs.push_back({shard, std::get<BufferRef>(step.bound[1])});
  } else {
    pairs = unwrap_multi(step.bound);
  }
  std::vector<Position> positions;
  double bytes = 0;
  for (std::vector<BufferRef>& pair : pairs) {
    check_copy(pair);
    Position p;
    p.device = &pair[0]->device();
    const auto size = int64_t(pair[0]->bytes());
    p.in_place = pair[0]->imported() && pair[1]->device().is_host() && same_memory(*pair[0], *pair[1]);
    if (!p.in_place) pair[0]->own();
    Position* old = positions.size() < before.size() ? &before[positions.size()] : nullptr;
    if (old && old->device == p.device && old->copy->estimates.mem == double(size) &&
        &old->arguments[1]->device() == &pair[1]->device())
      p.copy = std::move(old->copy);
    else
      p.copy =
          std::make_unique<Runner>(buffer_copy(*p.device, size, p.device->name(), pair[1]->device().name()));
    bytes += double(size);
    p.arguments = std::move(pair);
    positions.push_back(std::move(p));
  }
  step.positions = std::move(positions);
  step.launches = int64_t(step.positions.size());
  step.estimates = {0, bytes, bytes};
  step.state = Step::State::Ready;
}

PreparedLinears& PreparedLinears::of(BufferBinding& binding) {
  std::unique_ptr<RunState>& state = binding.run_state();
  if (!state) state = std::make_unique<PreparedLinears>();
  return static_cast<PreparedLinears&>(*state);
}

PreparedLinear& PreparedLinears::get(Device& ambient, const ToProgram& make_program, const UOp& linear,
                                     bool jit, const Progress& progress) {
  uint64_t settings = jit ? 0 : Config::current().codegen_digest();
  std::vector<Entry>& known = all_[linear.node()];
  for (Entry& entry : known)
    if (entry.jit == jit && entry.settings == settings) return *entry.prepared;
  auto made = std::make_unique<PreparedLinear>(ambient, make_program, linear, jit, progress);
  known.push_back({linear, jit, settings, std::move(made)});
  return *known.back().prepared;
}

} // namespace tolk::engine
