// The complete check of a kernel: one rule per opcode over four helpers. Deliberately independent of the host's
// verifier, which the tests check against it.
#include "facts.h"
#include "interp.h"

namespace tolk_interp {
namespace {

struct Value {
  uint8_t dtype = TOLK_DTYPE_NONE;
  uint16_t lanes = 0; // 0: no value
  bool storage = false;
  uint32_t block = 0;
};

class Checker {
public:
  explicit Checker(const Kernel& kernel) : k(kernel) {}

  void run() {
    check_params();
    values_.reserve(k.ops.size());
    for (number_ = 0; number_ < k.ops.size(); number_++) {
      op_ = &k.ops[number_];
      check_frame_of_record();
      check_rule();
      define();
    }
    if (stack_.size() != 1) throw Error{TOLK_E_COMPILE, "kernel " + k.name + ": a block is never closed"};
  }

private:
  struct Block {
    uint32_t id, opener;
    bool is_if;
  };

  [[noreturn]] void fail(const char* rule) const {
    throw Error{TOLK_E_COMPILE, "kernel " + k.name + ", " + op_label(op_->opcode, number_) + ": " + rule};
  }
  void need(bool ok, const char* rule) const {
    if (!ok) fail(rule);
  }

  uint32_t source(uint32_t i) const { return k.sources[op_->first_source + i]; }
  const Value& value(uint32_t i) const { return values_[source(i)]; }
  uint64_t attr(uint32_t i = 0) const { return k.attrs[op_->first_attr + i]; }
  char kind() const { return type_facts(op_->dtype).kind; }
  bool int_result() const { return kind() == 'i' || kind() == 'u'; }
  static bool index_type(uint8_t dtype) { return dtype == TOLK_DTYPE_I32 || dtype == TOLK_DTYPE_I64; }

  void check_params() const {
    bool values = false;
    for (const tolk_param& p : k.params) {
      bool buffer = p.kind == TOLK_PARAM_BUFFER, is_value = p.kind == TOLK_PARAM_VALUE;
      bool ok = is_type(p.dtype) && p.reserved == 0 && (buffer || is_value) && !(buffer && values);
      if (ok && buffer) ok = p.access >= 1 && p.access <= 3;
      if (ok && is_value) {
        char kind = type_facts(p.dtype).kind;
        ok = (kind == 'i' || kind == 'u') && type_facts(p.dtype).bits >= 8 && p.min <= p.max;
      }
      if (!ok) throw Error{TOLK_E_COMPILE, "kernel " + k.name + ": a parameter is malformed or out of order"};
      values = values || is_value;
    }
  }

  // Everything that lets the rules index operands, attributes and types freely.
  void check_frame_of_record() const {
    const OpFacts& facts = op_facts(op_->opcode);
    need(facts.name != nullptr, "no such opcode");
    need(op_->source_count >= facts.min_sources && op_->source_count <= facts.max_sources,
         "number of sources");
    need(uint64_t{op_->first_source} + op_->source_count <= k.sources.size(), "sources are missing");
    need(uint64_t{op_->first_attr} + facts.attrs <= k.attrs.size(), "attributes are missing");
    need(op_->reserved == 0 && op_->flags <= TOLK_IR_NO_WRAP, "unknown flags");
    bool typed = op_->opcode < TOLK_IR_END || op_->opcode > TOLK_IR_BARRIER;
    need(typed ? is_type(op_->dtype) && op_->lanes > 0 : op_->dtype == TOLK_DTYPE_NONE, "dtype or lanes");
    bool closes = op_->opcode == TOLK_IR_END || op_->opcode == TOLK_IR_ENDIF;
    bool memory = op_->opcode == TOLK_IR_LOAD || op_->opcode == TOLK_IR_STORE;
    for (uint32_t i = 0; i < op_->source_count; i++) {
      need(source(i) < number_, "a source is not an earlier operation");
      need(value(i).lanes > 0 || closes, "a source has no value");
      need(open_[value(i).block], "a source belongs to a closed block");
      need(!value(i).storage || (memory && i == 0), "storage is used as a value");
    }
  }

  // Sources first..last are like the result.
  void like_result(uint32_t first, uint32_t last) const {
    for (uint32_t i = first; i <= last; i++)
      need(value(i).dtype == op_->dtype && value(i).lanes == op_->lanes,
           "a source differs from the result in type");
  }
  void scalar_of_result(uint32_t i) const {
    need(value(i).dtype == op_->dtype && value(i).lanes == 1,
         "a source is not a scalar of the result's type");
  }
  void condition(uint32_t i) const {
    need(value(i).dtype == TOLK_DTYPE_BOOL && (value(i).lanes == 1 || value(i).lanes == op_->lanes),
         "a condition is not bool of one or all lanes");
  }

  void check_memory() const {
    need(value(0).storage && value(0).dtype == op_->dtype, "no storage of this dtype");
    need(index_type(value(1).dtype), "the index is not i32 or i64");
    const tolk_ir_op& storage = k.ops[source(0)];
    bool whole_vectors = storage.opcode == TOLK_IR_DEFINE_REG && storage.lanes > 1;
    need(value(1).lanes == 1 || (value(1).lanes == op_->lanes && !whole_vectors), "lanes of the index");
    need(!whole_vectors || storage.lanes == op_->lanes, "storage of vectors moves whole vectors");
    bool load = op_->opcode == TOLK_IR_LOAD;
    if (storage.opcode == TOLK_IR_PARAM)
      need(k.params[k.attrs[storage.first_attr]].access & (load ? TOLK_ACCESS_READ : TOLK_ACCESS_WRITE),
           "the parameter does not allow this access");
    if (load) {
      need(op_->source_count != 3, "a gated load needs its other value");
      if (op_->source_count == 4) condition(2), like_result(3, 3);
    } else {
      like_result(2, 2);
      if (op_->source_count == 4) condition(3);
    }
  }

  void check_rule() {
    switch (op_->opcode) {
    case TOLK_IR_PARAM:
      need(attr() < k.params.size() && k.params[attr()].dtype == op_->dtype && op_->lanes == 1, "parameter");
      return;
    case TOLK_IR_SPECIAL:
      need(index_type(op_->dtype) && op_->lanes == 1, "an index is a scalar i32 or i64");
      return need((attr() & ~uint64_t{256}) < 3, "no such axis");
    case TOLK_IR_DEFINE_LOCAL:
      need(stack_.size() == 1 && op_->lanes == 1, "work-group storage");
      [[fallthrough]];
    case TOLK_IR_DEFINE_REG:
      return need(attr() > 0, "storage without elements");
    case TOLK_IR_CONST: {
      uint32_t bits = type_facts(op_->dtype).bits;
      return need((bits == 64 || attr() >> bits == 0) && (kind() != 'b' || attr() < 2),
                  "bits of the constant");
    }
    case TOLK_IR_RANGE:
      need(index_type(op_->dtype) && op_->lanes == 1, "an index is a scalar i32 or i64");
      return like_result(0, 0);
    case TOLK_IR_IF:
      return need(value(0).dtype == TOLK_DTYPE_BOOL && value(0).lanes == 1, "condition");
    case TOLK_IR_END:
    case TOLK_IR_ENDIF:
      return need(stack_.size() > 1 && stack_.back().opener == source(0) &&
                      stack_.back().is_if == (op_->opcode == TOLK_IR_ENDIF),
                  "not the innermost open block");
    case TOLK_IR_BARRIER:
      return need(open_ifs_ == 0, "a barrier under IF");
    case TOLK_IR_LOAD:
    case TOLK_IR_STORE:
      return check_memory();
    case TOLK_IR_SPLAT:
      return scalar_of_result(0);
    case TOLK_IR_BUILD:
      need(op_->source_count == op_->lanes, "one source per lane");
      for (uint32_t i = 0; i < op_->source_count; i++) scalar_of_result(i);
      return;
    case TOLK_IR_EXTRACT:
      return need(op_->lanes == 1 && value(0).dtype == op_->dtype && attr() < value(0).lanes, "no such lane");
    case TOLK_IR_CAST:
    case TOLK_IR_BITCAST:
      need(value(0).lanes == op_->lanes && value(0).dtype != op_->dtype, "source of a conversion");
      return need(op_->opcode == TOLK_IR_CAST ||
                      type_facts(value(0).dtype).bits == type_facts(op_->dtype).bits,
                  "widths differ");
    case TOLK_IR_CMPLT:
    case TOLK_IR_CMPEQ:
    case TOLK_IR_CMPNE:
      need(op_->dtype == TOLK_DTYPE_BOOL && value(0).dtype == value(1).dtype, "dtypes of a comparison");
      return need(value(0).lanes == op_->lanes && value(1).lanes == op_->lanes, "lanes of a comparison");
    case TOLK_IR_WHERE:
      condition(0);
      return like_result(1, 2);
    case TOLK_IR_MAX:
      return like_result(0, 1);
    case TOLK_IR_ADD:
    case TOLK_IR_SUB:
    case TOLK_IR_MUL:
    case TOLK_IR_NEG:
    case TOLK_IR_MULACC:
      need(kind() != 'b', "bool has no arithmetic");
      break;
    case TOLK_IR_CDIV:
    case TOLK_IR_CMOD:
    case TOLK_IR_SHL:
    case TOLK_IR_SHR:
      need(int_result(), "for integers");
      break;
    case TOLK_IR_AND:
    case TOLK_IR_OR:
    case TOLK_IR_XOR:
      need(kind() != 'f', "not for floats");
      break;
    default:
      need(kind() == 'f', "for floats");
    }
    like_result(0, op_->source_count - 1u);
  }

  void define() {
    bool opens = op_->opcode == TOLK_IR_RANGE || op_->opcode == TOLK_IR_IF;
    if (op_->opcode == TOLK_IR_END || op_->opcode == TOLK_IR_ENDIF) {
      open_[stack_.back().id] = false;
      open_ifs_ -= stack_.back().is_if;
      stack_.pop_back();
    } else if (opens) {
      stack_.push_back({static_cast<uint32_t>(open_.size()), number_, op_->opcode == TOLK_IR_IF});
      open_.push_back(true);
      open_ifs_ += stack_.back().is_if;
    }
    Value v;
    v.block = stack_.back().id;
    bool has_value = op_->opcode != TOLK_IR_STORE && op_->dtype != TOLK_DTYPE_NONE;
    if (has_value) {
      v.dtype = op_->dtype;
      v.lanes = op_->lanes;
      v.storage = op_->opcode == TOLK_IR_DEFINE_LOCAL || op_->opcode == TOLK_IR_DEFINE_REG ||
                  (op_->opcode == TOLK_IR_PARAM && k.params[attr()].kind == TOLK_PARAM_BUFFER);
    }
    values_.push_back(v);
  }

  const Kernel& k;
  uint32_t number_ = 0;
  const tolk_ir_op* op_ = nullptr;
  std::vector<Value> values_;
  std::vector<Block> stack_ = {{0, 0, false}};
  std::vector<bool> open_ = {true}; // by block id
  uint32_t open_ifs_ = 0;
};

} // namespace

void check(const Kernel& kernel) { Checker(kernel).run(); }

} // namespace tolk_interp
