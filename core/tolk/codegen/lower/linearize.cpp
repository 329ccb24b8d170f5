#include "tolk/codegen/lower/linearize.h"

#include <algorithm>

#include "tolk/base/error.h"
#include "tolk/codegen/lower/fold.h"
#include "tolk/codegen/lower/linearizer.h"
#include "tolk/uop/print.h"
#include "tolk/uop/traverse.h"

namespace tolk::codegen {
namespace {

// The order in which reductions take their value number `step`. Of the two operands of a product, one is shared by more
// reductions; those stay in registers while the others come one after the other, so that few values live at once.
std::vector<size_t> order_of_step(const std::vector<UOp>& group, size_t step) {
  std::vector<size_t> order;
  std::unordered_map<UOp, size_t, UOpHash> uses, first;
  for (size_t k = 0; k < group.size(); ++k) {
    if (step >= values_of(group[k]).size()) continue;
    order.push_back(k);
    for (const UOp& operand : values_of(group[k])[step].src()) {
      ++uses[operand];
      first.emplace(operand, k);
    }
  }
  auto key = [&](size_t k) {
    const UOp& value = values_of(group[k])[step];
    if (!value.is(Op::MUL)) return k;
    const UOp &a = value.src(0), &b = value.src(1);
    return first.at(uses.at(a) < uses.at(b) ? a : b);
  };
  std::ranges::sort(order, {}, [&](size_t k) { return std::pair(key(k), k); });
  return order;
}

} // namespace

Kernel linearize(const UOp& sink, int64_t tiles, int64_t items, const Target& target) {
  return Linearizer(sink, tiles, items, target).run();
}

Linearizer::Linearizer(const UOp& sink, int64_t tiles, int64_t items, const Target& target)
    : sink_(sink), target_(target), tiles_(tiles), items_(items) {
  analyse();
  number_params();
}

void Linearizer::analyse() {
  size_t count = current_arena()->size();
  loops_.assign(count, 0), unsafe_.assign(count, 0), level_.assign(count, 0), place_.assign(count, {});
  bool narrow = true;
  for (const UOp& u : toposort(sink_)) {
    uint64_t inside = 0;
    for (const UOp& s : u.src()) {
      inside |= loops_[s.id()];
      unsafe_[u.id()] |= unsafe_[s.id()];
      level_[u.id()] = std::max(level_[u.id()], level_[s.id()]);
    }
    if (u.is(Op::RANGE)) {
      if (bits_.size() == 64) throw InternalError("a kernel has more than 64 loops");
      inside |= bits_[u] = uint64_t(1) << bits_.size();
    }
    if (u.is(Op::LOAD) && u.nsrc() == 2)
      unsafe_[u.id()] |= u.src(0).is(Op::PARAM) &&
                         (u.src(1).vmin() < 0 || u.src(1).vmax() > elements_of(u.src(0)) - u.lanes());
    if (u.is(Op::REDUCE)) {
      // The extent of a loop may depend on another loop of the list, which is closed here as well.
      for (const UOp& r : loops_of(u)) inside |= loops_[r.src(0).id()];
      for (const UOp& r : loops_of(u)) inside &= ~bits_[r];
      level_[u.id()]++;
      reductions_.push_back(u);
    }
    loops_[u.id()] = inside;
    if (u.dtype() == DType::Index) {
      narrow &= u.vmin() >= INT32_MIN && u.vmax() <= INT32_MAX;
      // The loop compares with its extent, so the extent must fit as well; it is an index too.
    }
  }
  index_type_ = narrow ? DType::I32 : DType::I64;
}

// The open block that a value belongs to.
int Linearizer::depth_of(const UOp& u) const {
  uint64_t missing = loops_of_node(u);
  int depth = 0;
  for (int i = int(chain_.size()) - 1; i > 0; --i) {
    const Block& block = *blocks_[chain_[size_t(i)]];
    if ((missing & block.bit) || (unsafe(u) && block.may_be_empty)) depth = std::max(depth, i);
    missing &= ~block.bit;
  }
  if (missing) throw InternalError("a value is used outside of its loop: " + print_line(u));
  return depth;
}

// Sources come first, from a list and not by recursion: an expression may be deeper than the stack.
uint32_t Linearizer::emit(const UOp& u) {
  constexpr OpSet kAlone(Op::CONST, Op::PARAM, Op::VAR, Op::SPECIAL, Op::RANGE, Op::REDUCE);
  if (const Place& p = place(u); is_here(p)) return p.instruction;
  std::vector<std::pair<UOp, size_t>> open; // a node and how many of its sources are done
  open.emplace_back(u, 0);
  while (!open.empty()) {
    auto& [node, next] = open.back();
    if (!node.is(kAlone) && next < node.nsrc()) {
      UOp source = node.src(next++);
      if (!is_here(place(source))) open.emplace_back(std::move(source), 0);
      continue;
    }
    if (!is_here(place(node))) emit_here(node);
    open.pop_back();
  }
  return place(u).instruction;
}

// Emits a node whose sources are emitted.
void Linearizer::emit_here(const UOp& u) {
  if (u.is(Op::RANGE)) throw InternalError("a loop variable is used outside of its loop: " + print_line(u));
  if (u.is(Op::REDUCE)) return emit_reductions(u);
  int depth = depth_of(u);
  uint32_t number = emit_plain(u, depth);
  place(u) = {number, chain_[size_t(depth)], depth};
}

void Linearizer::open_loop(const UOp& range) {
  uint32_t extent = emit(range.src(0));
  auto block = std::make_unique<Block>();
  block->bit = bits_[range];
  block->may_be_empty = range.src(0).vmin() < 1;
  block->trips = block_at(int(chain_.size()) - 1).trips * double(std::max<int64_t>(1, range.src(0).vmax()));
  block->range = uint32_t(instructions_.size());
  instructions_.push_back({TOLK_IR_RANGE, index_type_, 1, 0, 0, {0, 0}, {extent}});
  blocks_.push_back(std::move(block));
  chain_.push_back(uint32_t(blocks_.size() - 1));
  place(range) = {blocks_.back()->range, chain_.back(), int(chain_.size()) - 1};
}

void Linearizer::close_loop() {
  uint32_t done = chain_.back();
  chain_.pop_back();
  block_at(int(chain_.size()) - 1).items.push_back({true, done});
}

void Linearizer::emit_effect(const UOp& u) {
  switch (u.op()) {
  case Op::SINK:
    for (const UOp& s : u.src()) emit_effect(s);
    return;
  case Op::STORE:
    emit_store(u);
    return;
  case Op::END:
    for (const UOp& r : u.src().subspan(1)) open_loop(r);
    emit_effect(u.src(0));
    for (size_t i = 1; i < u.nsrc(); ++i) close_loop();
    return;
  default:
    throw InternalError("not an effect of a kernel: " + print_line(u));
  }
}

// accumulator = accumulator op value; a product that is added becomes one multiply-add.
uint32_t Linearizer::fold(Op op, uint32_t accumulator, const UOp& value, int depth) {
  uint16_t lanes = uint16_t(value.lanes());
  if (op == Op::ADD && value.is(Op::MUL) && is_float(value.dtype()) && target_.has(Op::MULACC)) {
    uint32_t a = emit(value.src(0)), b = emit(value.src(1));
    flops_ += 2 * block_at(depth).trips * lanes;
    return add({TOLK_IR_MULACC, value.dtype(), lanes, 0, 0, {0, 0}, {a, b, accumulator}}, depth);
  }
  uint32_t v = emit(value);
  flops_ += block_at(depth).trips * lanes;
  bool truth = is_bool(value.dtype());
  uint16_t code = op == Op::ADD   ? (truth ? TOLK_IR_OR : TOLK_IR_ADD)
                  : op == Op::MUL ? (truth ? TOLK_IR_AND : TOLK_IR_MUL)
                                  : TOLK_IR_MAX;
  return add({code, type_of(value), lanes, 0, 0, {0, 0}, {accumulator, v}}, depth);
}

// Emits `u` and every other reduction over the same loops that can be computed at the same place.
void Linearizer::emit_reductions(const UOp& u) {
  int depth = depth_of(u);
  std::span<const UOp> loops = loops_of(u);
  // Loops open inside `depth` are suspended: the reduction comes before them.
  std::vector<uint32_t> inner(chain_.begin() + depth + 1, chain_.end());
  chain_.resize(size_t(depth) + 1);
  uint64_t open = 0;
  for (uint32_t b : chain_) open |= blocks_[b]->bit;

  std::vector<UOp> group;
  for (const UOp& r : reductions_) {
    if (r != u &&
        (level_[r.id()] != level_[u.id()] || loops.empty() || !std::ranges::equal(loops_of(r), loops)))
      continue;
    if (r != u && (loops_of_node(r) & ~open || depth_of(r) != depth)) continue;
    if (r != u && is_here(place(r))) continue;
    group.push_back(r);
  }

  if (loops.empty()) {
    uint32_t value = emit(u.src(0));
    for (size_t i = 1; i < value_count(u); ++i) value = fold(reduce_op(u), value, u.src(i), depth);
    place(u) = {value, chain_.back(), depth};
    chain_.insert(chain_.end(), inner.begin(), inner.end());
    return;
  }

  uint32_t zero = constant_instruction(DType::Index, 0, 1);
  std::vector<uint32_t> registers;
  for (const UOp& r : group) {
    uint16_t lanes = uint16_t(r.lanes());
    uint32_t start = emit(reduce_identity(reduce_op(r), r.dtype(), r.lanes()));
    registers.push_back(add({TOLK_IR_DEFINE_REG, type_of(r), lanes, 0, 1, {1, 0}, {}}, depth));
    add({TOLK_IR_STORE, type_of(r), lanes, 0, 0, {0, 0}, {registers.back(), zero, start}}, depth);
  }
  for (const UOp& r : loops) open_loop(r);
  int body = int(chain_.size()) - 1;
  auto access = [&](size_t k, uint16_t opcode, std::vector<uint32_t> src) {
    return add({opcode, type_of(group[k]), uint16_t(group[k].lanes()), 0, 0, {0, 0}, std::move(src)}, body);
  };
  std::vector<uint32_t> sums;
  for (uint32_t r : registers) sums.push_back(access(sums.size(), TOLK_IR_LOAD, {r, zero}));
  size_t steps = 0;
  for (const UOp& r : group) steps = std::max(steps, values_of(r).size());
  for (size_t step = 0; step < steps; ++step)
    for (size_t k : order_of_step(group, step))
      sums[k] = fold(reduce_op(group[k]), sums[k], values_of(group[k])[step], body);
  for (size_t k = 0; k < group.size(); ++k) access(k, TOLK_IR_STORE, {registers[k], zero, sums[k]});
  for (size_t i = 0; i < loops.size(); ++i) close_loop();
  for (size_t k = 0; k < group.size(); ++k) {
    const UOp& r = group[k];
    uint32_t v =
        add({TOLK_IR_LOAD, type_of(r), uint16_t(r.lanes()), 0, 0, {0, 0}, {registers[k], zero}}, depth);
    place(r) = {v, chain_.back(), depth};
  }
  chain_.insert(chain_.end(), inner.begin(), inner.end());
}

void Linearizer::flatten(uint32_t block, KernelIR& ir, std::vector<uint32_t>& numbers) {
  std::vector<uint32_t> src;
  auto write = [&](uint32_t i) {
    const Instruction& in = instructions_[i];
    src.clear();
    for (uint32_t s : in.sources) src.push_back(numbers[s]);
    numbers[i] = ir.add(in.opcode, in.dtype, in.lanes, src, std::span(in.attrs, in.attr_count), in.flags);
  };
  for (const Item& item : blocks_[block]->items) {
    if (!item.is_block) {
      write(item.number);
      continue;
    }
    uint32_t range = blocks_[item.number]->range;
    write(range);
    flatten(item.number, ir, numbers);
    ir.add(TOLK_IR_END, DType::Void, 1, {numbers[range]});
  }
}

Kernel Linearizer::run() {
  blocks_.push_back(std::make_unique<Block>());
  blocks_[0]->trips = double(tiles_) * double(items_);
  chain_ = {0};
  for (const UOp& p : params_) (void)emit(p);
  emit_effect(sink_);
  Kernel kernel;
  std::vector<uint32_t> numbers(instructions_.size(), kNone);
  fill_info(kernel);
  flatten(0, kernel.ir, numbers);
  return kernel;
}

} // namespace tolk::codegen
