// Single operations, parameters and launch metadata.
#include <algorithm>

#include "tolk/base/error.h"
#include "tolk/codegen/lower/fold.h"
#include "tolk/codegen/lower/linearizer.h"
#include "tolk/dtype/scalar.h"
#include "tolk/uop/print.h"
#include "tolk/uop/traverse.h"

namespace tolk::codegen {
namespace {

uint64_t constant_bits(const UOp& u, DType type) {
  return is_float(type) ? float_to_bits(type, u.const_float()) : uint64_t(u.const_int());
}

// Whether an operation counts as a flop; moves, selections and index arithmetic do not.
bool counts_as_flop(const UOp& u) {
  return u.is(ops::Elementwise) && u.dtype() != DType::Index && !is_bool(u.dtype()) &&
         !u.is(OpSet(Op::CAST, Op::BITCAST, Op::WHERE));
}

double element_bytes(DType dtype) { return double(bits(dtype)) / 8; }

} // namespace

// Buffers by slot; the sum of the access bits of all uses.
void Linearizer::number_params() {
  for (const UOp& u : toposort(sink_)) {
    if (u.is(Op::PARAM)) params_.push_back(u);
    if (u.is(Op::VAR)) vars_.push_back(u);
  }
  std::sort(params_.begin(), params_.end(),
            [](const UOp& a, const UOp& b) { return slot_of(a) < slot_of(b); });
  for (size_t i = 1; i < params_.size(); ++i)
    if (slot_of(params_[i]) == slot_of(params_[i - 1]))
      throw InternalError("a kernel's parameter has two dtypes or sizes: " + print_line(params_[i]));
  std::sort(vars_.begin(), vars_.end(), [](const UOp& a, const UOp& b) { return var_name(a) < var_name(b); });
  access_.assign(params_.size(), 0);
  traffic_.assign(params_.size(), 0);
}

uint32_t Linearizer::add(Instruction in, int depth) {
  uint32_t number = uint32_t(instructions_.size());
  instructions_.push_back(std::move(in));
  block_at(depth).items.push_back({false, number});
  return number;
}

uint32_t Linearizer::constant_instruction(DType dtype, uint64_t bits, int lanes) {
  return emit(make(Op::CONST, dtype, {}, Arg(bits), lanes));
}

uint32_t Linearizer::special(const UOp& u) {
  return add({TOLK_IR_SPECIAL, index_type_, 1, 0, 2, {u.arg().word, uint64_t(u.src(0).const_int())}, {}}, 0);
}

uint32_t Linearizer::parameter(const UOp& u) {
  bool buffer = u.is(Op::PARAM);
  const std::vector<UOp>& list = buffer ? params_ : vars_;
  size_t number = size_t(std::find(list.begin(), list.end(), u) - list.begin());
  return add({TOLK_IR_PARAM, type_of(u), 1, 0, 1, {number + (buffer ? 0 : params_.size()), 0}, {}}, 0);
}

void Linearizer::count_access(const UOp& storage, uint32_t access, int lanes, int depth) {
  if (!storage.is(Op::PARAM)) return;
  size_t number = size_t(std::find(params_.begin(), params_.end(), storage) - params_.begin());
  access_[number] |= access;
  double amount = element_bytes(storage.dtype()) * lanes * block_at(depth).trips;
  traffic_[number] += amount;
  bytes_ += amount;
}

void Linearizer::emit_store(const UOp& u) {
  int depth = int(chain_.size()) - 1;
  std::vector<uint32_t> src;
  for (const UOp& s : u.src()) src.push_back(emit(s));
  const UOp& value = u.src(2);
  add({TOLK_IR_STORE, value.dtype(), uint16_t(value.lanes()), 0, 0, {0, 0}, src}, depth);
  count_access(u.src(0), TOLK_ACCESS_WRITE, value.lanes(), depth);
}

uint32_t Linearizer::emit_store_to_local(const UOp& u, int depth) {
  // In a loop the loads of the iteration before are still to come for some work-items.
  if (u.src(0).is(Op::DEFINE_LOCAL) && depth > 0)
    add({TOLK_IR_BARRIER, DType::Void, 1, 0, 0, {0, 0}, {}}, depth);
  std::vector<uint32_t> src;
  for (const UOp& s : u.src()) src.push_back(emit(s));
  return add({TOLK_IR_STORE, u.src(2).dtype(), uint16_t(u.src(2).lanes()), 0, 0, {0, 0}, src}, depth);
}

uint32_t Linearizer::emit_plain(const UOp& u, int depth) {
  uint16_t lanes = uint16_t(u.lanes());
  DType type = type_of(u);
  switch (u.op()) {
  case Op::CONST:
    return add({TOLK_IR_CONST, type, lanes, 0, 1, {constant_bits(u, type), 0}, {}}, depth);
  case Op::PARAM:
  case Op::VAR:
    return parameter(u);
  case Op::SPECIAL:
    return special(u);
  case Op::DEFINE_LOCAL:
    shared_bytes_ += uint64_t(element_bytes(type)) * uint64_t(elements_of(u));
    return add({TOLK_IR_DEFINE_LOCAL, type, 1, 0, 1, {uint64_t(elements_of(u)), 0}, {}}, 0);
  case Op::AFTER: // its effects are emitted
    return emit(u.src(0));
  case Op::BARRIER:
    return add({TOLK_IR_BARRIER, DType::Void, 1, 0, 0, {0, 0}, {}}, depth);
  case Op::STORE:
    return emit_store_to_local(u, depth);
  case Op::EXTRACT: {
    uint32_t s = emit(u.src(0));
    return add({TOLK_IR_EXTRACT, type, 1, 0, 1, {u.arg().word, 0}, {s}}, depth);
  }
  case Op::LOAD: {
    std::vector<uint32_t> src;
    for (const UOp& s : u.src()) src.push_back(emit(s));
    if (src.size() == 3) src.push_back(emit(zero_of(u.dtype(), u.lanes())));
    count_access(u.src(0), TOLK_ACCESS_READ, lanes, depth);
    return add({TOLK_IR_LOAD, type, lanes, 0, 0, {0, 0}, src}, depth);
  }
  case Op::CAST:
    if (type_of(u.src(0)) == type) return emit(u.src(0));
    break;
  default:
    break;
  }
  uint16_t code = u.is(ops::Elementwise | OpSet(Op::SPLAT, Op::STACK)) ? ir_opcode(u.op()) : 0;
  if (!code) throw InternalError("the flat form has no " + print_line(u));
  std::vector<uint32_t> src;
  for (const UOp& s : u.src()) src.push_back(emit(s));
  bool wraps = u.is(OpSet(Op::ADD, Op::SUB, Op::MUL, Op::SHL, Op::NEG));
  bool exact = u.dtype() == DType::Index && u.vmin() > INT64_MIN && u.vmax() < INT64_MAX;
  if (counts_as_flop(u)) flops_ += block_at(depth).trips * lanes * (u.is(Op::MULACC) ? 2 : 1);
  return add({code, type, lanes, uint8_t(wraps && exact ? TOLK_IR_NO_WRAP : 0), 0, {0, 0}, std::move(src)},
             depth);
}

void Linearizer::fill_info(Kernel& kernel) const {
  ProgramInfo& info = kernel.info;
  for (size_t i = 0; i < params_.size(); ++i) {
    const UOp& p = params_[i];
    int slot = int(slot_of(p));
    info.globals.push_back(slot);
    if (access_[i] & TOLK_ACCESS_READ) info.ins.push_back(slot);
    if (access_[i] & TOLK_ACCESS_WRITE) info.outs.push_back(slot);
    info.bytes_touched += std::min(traffic_[i], element_bytes(p.dtype()) * double(elements_of(p)));
    kernel.ir.params.push_back(
        {TOLK_PARAM_BUFFER, access_[i], uint32_t(p.dtype()), 0, uint64_t(elements_of(p)), 0, 0});
  }
  for (const UOp& v : vars_) {
    info.vars.push_back({var_name(v), index_type_, v.vmin(), v.vmax()});
    kernel.ir.params.push_back({TOLK_PARAM_VALUE, 0, uint32_t(index_type_), 0, 0, v.vmin(), v.vmax()});
  }
  info.grid[0] = tiles_;
  info.local[0] = items_;
  info.shared_bytes = shared_bytes_;
  info.flops = flops_;
  info.bytes_loaded = bytes_;
}

} // namespace tolk::codegen
