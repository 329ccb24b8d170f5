// Kernel IR decoded to instructions, once per kernel.
#include <algorithm>
#include <cstring>

#include "facts.h"
#include "program.h"

namespace tolk_interp {
namespace {

constexpr uint64_t kMaxFrameBytes = uint64_t{1} << 28;

class Decoder {
public:
  explicit Decoder(Kernel kernel) : program_(std::make_shared<Program>()) {
    program_->kernel = std::move(kernel);
  }

  std::shared_ptr<const Program> run() {
    const Kernel& k = program_->kernel;
    for (const tolk_param& p : k.params) program_->buffer_count += p.kind == TOLK_PARAM_BUFFER;
    place_.resize(k.ops.size());
    for (number_ = 0; number_ < k.ops.size(); number_++) {
      op_ = &k.ops[number_];
      decode_op();
    }
    program_->frame.resize(frame_bytes_, std::byte{0});
    for (uint32_t i = 0; i < k.ops.size(); i++)
      if (k.ops[i].opcode == TOLK_IR_CONST) place_constant(k.ops[i], place_[i]);
    return program_;
  }

private:
  uint32_t source(uint32_t i) const { return program_->kernel.sources[op_->first_source + i]; }
  const tolk_ir_op& source_op(uint32_t i) const { return program_->kernel.ops[source(i)]; }
  uint64_t attr(uint32_t i = 0) const { return program_->kernel.attrs[op_->first_attr + i]; }

  // `elements` cells of `cell` bytes, aligned to 8.
  uint32_t reserve(uint64_t elements, uint32_t cell) {
    if (elements > kMaxFrameBytes || elements * cell > kMaxFrameBytes - frame_bytes_)
      throw Error{TOLK_E_LIMIT, "kernel " + program_->kernel.name +
                                    ": its values and private storage take more than 256 MiB per work-item"};
    auto at = static_cast<uint32_t>(frame_bytes_);
    frame_bytes_ = std::min((frame_bytes_ + elements * cell + 7) / 8 * 8, kMaxFrameBytes);
    return at;
  }

  Instruction& emit(Action action) {
    Instruction in;
    in.action = action;
    in.op = number_;
    in.lanes = op_->lanes;
    if (is_type(op_->dtype)) in.cell = static_cast<uint8_t>(cell_bytes(op_->dtype));
    program_->code.push_back(in);
    return program_->code.back();
  }

  void place_constant(const tolk_ir_op& op, uint32_t at) {
    uint64_t bits = program_->kernel.attrs[op.first_attr];
    const TypeFacts& type = type_facts(op.dtype);
    if (type.kind == 'i' && type.bits < 8) { // a cell is sign-extended
      unsigned unused = 64 - type.bits;
      bits = static_cast<uint64_t>(static_cast<int64_t>(bits << unused) >> unused);
    }
    uint32_t cell = cell_bytes(op.dtype);
    for (uint32_t lane = 0; lane < op.lanes; lane++)
      std::memcpy(program_->frame.data() + at + uint64_t{lane} * cell, &bits, cell); // little endian
  }

  void decode_op() {
    uint32_t& place = place_[number_];
    switch (op_->opcode) {
    case TOLK_IR_PARAM:
      if (attr() < program_->buffer_count) {
        place = static_cast<uint32_t>(attr());
      } else {
        place = reserve(1, 8);
        program_->values.push_back({place, static_cast<uint32_t>(attr())});
      }
      return;
    case TOLK_IR_SPECIAL:
      place = reserve(1, 8);
      program_->specials.push_back(
          {place, static_cast<uint8_t>(attr() & 3), attr() >= 256, op_->dtype == TOLK_DTYPE_I64, attr(1)});
      return;
    case TOLK_IR_DEFINE_LOCAL:
      place = static_cast<uint32_t>(program_->locals.size());
      if (attr() > kMaxFrameBytes)
        throw Error{TOLK_E_LIMIT, "kernel " + program_->kernel.name + ": too much work-group storage"};
      program_->locals.push_back({attr(), cell_bytes(op_->dtype)});
      return;
    case TOLK_IR_DEFINE_REG: {
      if (attr() > kMaxFrameBytes) reserve(attr(), 1); // throws; the product below stays small
      place = reserve(attr() * op_->lanes, cell_bytes(op_->dtype));
      Instruction& in = emit(Action::Poison);
      in.dst = place;
      in.count = attr() * op_->lanes * in.cell;
      return;
    }
    case TOLK_IR_CONST:
      place = reserve(op_->lanes, cell_bytes(op_->dtype));
      return;
    case TOLK_IR_RANGE: {
      place = reserve(1, 8);
      open_.push_back(static_cast<uint32_t>(program_->code.size()));
      Instruction& in = emit(Action::Loop);
      in.dst = place;
      in.a = place_[source(0)];
      in.wide_index = op_->dtype == TOLK_DTYPE_I64;
      return;
    }
    case TOLK_IR_END: {
      uint32_t opener = open_.back();
      open_.pop_back();
      Instruction& in = emit(Action::EndLoop);
      in.dst = program_->code[opener].dst;
      in.a = program_->code[opener].a;
      in.wide_index = program_->code[opener].wide_index;
      in.jump = opener + 1;
      program_->code[opener].jump = static_cast<uint32_t>(program_->code.size());
      return;
    }
    case TOLK_IR_IF:
      open_.push_back(static_cast<uint32_t>(program_->code.size()));
      emit(Action::If).a = place_[source(0)];
      return;
    case TOLK_IR_ENDIF:
      program_->code[open_.back()].jump = static_cast<uint32_t>(program_->code.size());
      open_.pop_back();
      return;
    case TOLK_IR_BARRIER:
      program_->has_barrier = true;
      emit(Action::Barrier);
      return;
    case TOLK_IR_LOAD:
      place = reserve(op_->lanes, cell_bytes(op_->dtype));
      decode_memory(Action::Load);
      return;
    case TOLK_IR_STORE:
      decode_memory(Action::Store);
      return;
    case TOLK_IR_EXTRACT: // no work at all: a lane is where the vector has it
      place = place_[source(0)] + static_cast<uint32_t>(attr()) * cell_bytes(op_->dtype);
      return;
    case TOLK_IR_BUILD: {
      uint32_t cell = cell_bytes(op_->dtype);
      place = reserve(op_->lanes, cell);
      for (uint32_t lane = 0; lane < op_->lanes; lane++) {
        Instruction& in = emit(Action::Alu);
        in.lanes = 1;
        in.dst = place + lane * cell;
        in.a = place_[source(lane)];
        in.alu = splat_function(cell);
      }
      return;
    }
    default:
      decode_alu();
    }
  }

  void decode_alu() {
    uint32_t cell = cell_bytes(op_->dtype);
    place_[number_] = reserve(op_->lanes, cell);
    Instruction& in = emit(Action::Alu);
    in.dst = place_[number_];
    in.a = place_[source(0)];
    if (op_->source_count > 1) in.b = place_[source(1)];
    if (op_->source_count > 2) in.c = place_[source(2)];
    uint8_t from = source_op(0).dtype;
    switch (op_->opcode) {
    case TOLK_IR_CAST:
      in.alu = cast_function(from, op_->dtype);
      break;
    case TOLK_IR_BITCAST:
      in.alu = bitcast_function(op_->dtype);
      break;
    case TOLK_IR_SPLAT:
      in.alu = splat_function(cell);
      break;
    case TOLK_IR_WHERE:
      in.alu = where_function(cell);
      in.gate_per_lane = source_op(0).lanes > 1;
      break;
    default:
      in.alu =
          type_facts(from).kind == 'f' ? float_function(op_->opcode, from) : int_function(op_->opcode, from);
    }
    if (!in.alu) throw Error{TOLK_E_INTERNAL, "no function for " + op_label(op_->opcode, number_)};
  }

  void decode_memory(Action action) {
    bool load = action == Action::Load;
    Instruction& in = emit(action);
    const tolk_ir_op& storage = source_op(0);
    uint64_t stated = program_->kernel.attrs[storage.first_attr];
    in.storage = place_[source(0)];
    in.a = place_[source(1)];
    in.wide_index = source_op(1).dtype == TOLK_DTYPE_I64;
    in.index_per_lane = source_op(1).lanes > 1;
    uint32_t gate = load ? 2 : 3;
    in.has_gate = op_->source_count > gate;
    if (in.has_gate) {
      in.b = place_[source(gate)];
      in.gate_per_lane = source_op(gate).lanes > 1;
    }
    if (load) {
      in.dst = place_[number_];
      if (in.has_gate) in.c = place_[source(3)];
    } else {
      in.c = place_[source(2)];
    }
    const TypeFacts& type = type_facts(op_->dtype);
    in.is_bool = type.kind == 'b';
    switch (storage.opcode) {
    case TOLK_IR_PARAM:
      in.space = Space::Buffer;
      in.count = program_->kernel.params[stated].count;
      if (type.bits < 8) {
        in.packed_bits = static_cast<uint8_t>(type.bits);
        if (type.kind == 'i') in.sign_bits = in.packed_bits;
      }
      break;
    case TOLK_IR_DEFINE_LOCAL:
      in.space = Space::Local;
      break;
    default:
      in.space = Space::Private;
      in.count = stated;
      in.vector_stride = storage.lanes;
    }
  }

  std::shared_ptr<Program> program_;
  uint32_t number_ = 0;
  const tolk_ir_op* op_ = nullptr;
  // Frame offset of each value; number of the buffer or work-group storage; frame offset of private storage.
  std::vector<uint32_t> place_;
  std::vector<uint32_t> open_; // instructions of open RANGEs and IFs
  uint64_t frame_bytes_ = 0;
};

} // namespace

std::shared_ptr<const Program> decode(Kernel kernel) { return Decoder(std::move(kernel)).run(); }

} // namespace tolk_interp
