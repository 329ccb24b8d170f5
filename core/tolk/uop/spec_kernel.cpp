// Rules of kernels, before and after lowering.
#include <bitset>
#include <unordered_map>

#include "tolk/uop/build.h"
#include "tolk/uop/spec_internal.h"

namespace tolk::spec {
namespace {

constexpr OpSet kMemory(Op::PARAM, Op::DEFINE_LOCAL, Op::DEFINE_REG);

bool on_memory(const UOp& u) { return memory_of(u.src(0)).is(kMemory); }

bool gate_ok(const UOp& u, size_t at) { return u.nsrc() <= at || u.src(at).dtype() == DType::BOOL; }

bool load_form(const UOp& u) {
  return on_memory(u) && u.dtype() == u.src(0).dtype() && gate_ok(u, 2) &&
         (u.nsrc() < 4 || u.src(3).dtype() == u.dtype());
}

bool store_form(const UOp& u) {
  return u.nsrc() >= 3 && on_memory(u) && u.src(2).dtype() == u.src(0).dtype() && gate_ok(u, 3);
}

bool index_is(const UOp& u, bool lowered) {
  DType d = u.src(1).dtype();
  return u.src(1).lanes() == 1 && is_int(d) && (d == DType::Index) != lowered;
}

// An access that no value of its index can make valid. Gated ones are never reached.
bool can_be_inside(const UOp& u) {
  bool gated = u.nsrc() > (u.is(Op::LOAD) ? 2u : 3u);
  const UOp &memory = memory_of(u.src(0)), &index = u.src(1);
  if (gated || !memory.is(kMemory) || index.vmin() > index.vmax()) return true;
  return index.vmax() >= 0 && index.vmin() < elements_of(memory);
}

bool closes_ranges(const UOp& u) {
  for (size_t i = 1; i < u.nsrc(); ++i)
    if (!u.src(i).is(Op::RANGE)) return false;
  return u.nsrc() > 1;
}

bool reduce_form(const UOp& u) {
  return OpSet(Op::ADD, Op::MUL, Op::MAX).has(reduce_op(u)) && u.dtype() == u.src(0).dtype() &&
         u.dtype() != DType::Index;
}

bool holds_effects(const UOp& u) {
  for (const UOp& s : u.src())
    if (!s.is(ops::Effect) && !s.is(Op::AFTER)) return false;
  return true;
}

// The second number, where there is one, is the beam width that the kernel asks for.
bool kernel_root(const UOp& u) {
  size_t n = u.arg().ints().size();
  return (n == 1 || n == 2) && u.arg().texts().size() == 1;
}

bool real_loop(const UOp& u) { return !(u.src(0).is_const_int(1)); }

bool index_dtype(const UOp& u) { return u.dtype() == DType::Index; }

// Loop positions become data by CAST alone; they are not stored, and address nothing as a float.
bool after_form(const UOp& u) { return u.dtype() == u.src(0).dtype(); }

bool scalar(const UOp& u) { return u.lanes() == 1; }

bool no_index(const UOp& u) { return u.dtype() != DType::Index; }

bool splat_form(const UOp& u) {
  return u.src(0).lanes() == 1 && u.lanes() > 1 && u.src(0).dtype() == u.dtype();
}

bool stack_form(const UOp& u) {
  for (const UOp& s : u.src())
    if (s.lanes() != 1 || s.dtype() != u.dtype()) return false;
  return size_t(u.lanes()) == u.nsrc();
}

bool extract_form(const UOp& u) {
  return u.lanes() == 1 && u.src(0).dtype() == u.dtype() && u.arg().word < uint64_t(u.src(0).lanes());
}

// One gate for all lanes, or one each.
bool access_lanes(const UOp& u) {
  bool load = u.is(Op::LOAD);
  int lanes = load ? u.lanes() : u.src(2).lanes();
  size_t gate = load ? 2 : 3;
  if (u.nsrc() > gate && u.src(gate).lanes() != 1 && u.src(gate).lanes() != lanes) return false;
  return !load || u.nsrc() < 4 || u.src(3).lanes() == lanes;
}

} // namespace

const std::vector<Rule>& kernel_rules() {
  static const OpSet access(Op::LOAD, Op::STORE);
  static const std::vector<Rule> rules = {
      {"kernel_root", Op::SINK, kernel_root, "a kernel's root has an arg and a name"},
      {"holds_effects", OpSet(Op::SINK, Op::BARRIER), holds_effects, "the sources are effects"},
      {"loop_dtype", OpSet(Op::RANGE, Op::SPECIAL), index_dtype, "loop variables are Index before lowering"},
      {"real_loop", Op::RANGE, real_loop, "a loop of one iteration is the index 0, not a RANGE"},
      {"load_form", Op::LOAD, load_form,
       "a load has storage of its dtype, an index, a bool gate, and an alternative of its dtype"},
      {"store_form", Op::STORE, store_form,
       "a store has storage, an index, a value of the storage's dtype, and a bool gate"},
      {"access_index", access, [](const UOp& u) { return index_is(u, false); },
       "memory is addressed by one Index"},
      {"access_bounds", access, can_be_inside, "an ungated access reaches its storage"},
      {"reduce_form", Op::REDUCE, reduce_form,
       "a reduction adds, multiplies or takes the largest, in its source's dtype, of data"},
      {"closes_ranges", OpSet(Op::REDUCE, Op::END), closes_ranges, "REDUCE and END close RANGEs"},
      {"end_form", Op::END, [](const UOp& u) { return u.src(0).is(ops::Effect); },
       "END closes loops around an effect"},
      {"after_form", Op::AFTER, after_form, "AFTER has its source's dtype"},
  };
  return rules;
}

const std::vector<Rule>& lowered_rules() {
  static const OpSet access(Op::LOAD, Op::STORE);
  static const OpSet everything = admitted(Stage::Lowered);
  static const std::vector<Rule> rules = {
      {"no_index", everything, no_index, "Index has become an integer type"},
      {"kernel_root", Op::SINK, kernel_root, "a kernel's root has an arg and a name"},
      {"holds_effects", OpSet(Op::SINK, Op::BARRIER), holds_effects, "the sources are effects"},
      {"load_form", Op::LOAD, load_form,
       "a load has storage of its dtype, an index, a bool gate, and an alternative of its dtype"},
      {"store_form", Op::STORE, store_form,
       "a store has storage, an index, a value of the storage's dtype, and a bool gate"},
      {"access_index", access, [](const UOp& u) { return index_is(u, true); },
       "memory is addressed by one integer"},
      {"access_bounds", access, can_be_inside, "an ungated access reaches its storage"},
      {"access_lanes", access, access_lanes, "gate and alternative fit the lanes of the access"},
      {"storage_lanes", kMemory | OpSet(Op::VAR), scalar, "storage and variables are scalar"},
      {"closes_ranges", Op::END, closes_ranges, "END closes RANGEs"},
      {"end_form", Op::END, [](const UOp& u) { return u.src(0).is(ops::Effect); },
       "END closes loops around an effect"},
      {"splat_form", Op::SPLAT, splat_form, "a splat is a vector from a scalar of its dtype"},
      {"stack_form", Op::STACK, stack_form, "a stack has as many lanes as scalars of its dtype"},
      {"extract_form", Op::EXTRACT, extract_form, "an extract is a lane of its source"},
      {"after_form", Op::AFTER, after_form, "AFTER has its source's dtype"},
  };
  return rules;
}

void verify_loops(const std::vector<UOp>& order, Stage stage) {
  constexpr size_t kMostLoops = 256;
  using Set = std::bitset<kMostLoops>;
  struct State {
    Set open, closed;
  };
  std::unordered_map<const UOpNode*, size_t> loop;
  std::unordered_map<int64_t, UOp> axes, params;
  std::unordered_map<const UOpNode*, State> states;
  for (const UOp& u : order) {
    State s;
    bool closes = u.is(OpSet(Op::REDUCE, Op::END));
    // The RANGEs that END and REDUCE name are closed, not used.
    for (size_t i = 0; i < (closes ? 1 : u.nsrc()); ++i) {
      const State& from = states.at(u.src(i).node());
      s.open |= from.open, s.closed |= from.closed;
    }
    if (u.is(Op::RANGE)) {
      if (loop.size() == kMostLoops) broken(stage, "loop_count", "a kernel has at most 256 loops", u);
      s.open.set(loop.emplace(u.node(), loop.size()).first->second);
      auto [at, fresh] = axes.emplace(axis_of(u), u);
      if (!fresh && at->second != u) broken(stage, "unique_axes", "two loops do not share an axis number", u);
    }
    if (u.is(Op::PARAM)) {
      auto [at, fresh] = params.emplace(slot_of(u), u);
      if (!fresh && at->second != u)
        broken(stage, "unique_parameters", "a parameter's slot has one dtype and size", u);
    }
    for (size_t i = 1; closes && i < u.nsrc(); ++i) {
      size_t bit = loop.at(u.src(i).node());
      if (s.closed.test(bit)) broken(stage, "closed_once", "a loop is closed only once", u);
      if (u.is(Op::END) && stage == Stage::Kernel && !s.open.test(bit))
        broken(stage, "closes_open_loops", "END closes loops that are open inside", u);
      s.open.reset(bit), s.closed.set(bit);
    }
    // In loop nests of lowered code AFTER carries an accumulator out of the loop that filled it.
    if (stage == Stage::Kernel && (s.open & s.closed).any())
      broken(stage, "used_inside", "a loop variable is not used where its loop is closed", u);
    if (u.is(Op::SINK) && stage == Stage::Kernel && s.open.any())
      broken(stage, "all_closed", "every loop is closed below the root", u);
    states.emplace(u.node(), s);
  }
}

} // namespace tolk::spec
