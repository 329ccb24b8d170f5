// Checks kernel IR against the rules that renderers and the interpreter rely on.
#include <string>
#include <vector>

#include <fmt/format.h>

#include "tolk/base/error.h"
#include "tolk/kernel/ir_info.h"
#include "tolk/kernel/kernel_ir.h"

namespace tolk {
namespace {

constexpr uint64_t kMaxStorageElements = uint64_t{1} << 40; // keeps byte counts of storage far from wrapping

class Verifier {
public:
  explicit Verifier(const KernelIR& kernel) : k_(kernel) {}

  void run() {
    check_header();
    block_of_.resize(k_.ops.size());
    for (at_ = 0; at_ < k_.ops.size(); at_++) {
      check_record();
      check_types();
      check_nesting();
    }
    if (next_source_ != k_.sources.size() || next_attr_ != k_.attrs.size())
      throw InternalError(
          fmt::format("kernel {}: operands or attributes are left over after the last operation", k_.name));
    if (blocks_.size() > 1)
      throw InternalError(
          fmt::format("kernel {}: {} is never closed", k_.name, ir::op_text(k_, blocks_.back().opener)));
  }

private:
  struct Block {
    uint32_t opener; // operation number; unused in the outermost block
    uint32_t id;     // never used again once closed
  };

  [[noreturn]] void fail(std::string_view what) const {
    throw InternalError(fmt::format("kernel {}: {}: {}", k_.name, ir::op_text(k_, at_), what));
  }
  void require(bool condition, const char* what) const {
    if (!condition) fail(what);
  }

  const tolk_ir_op& op() const { return k_.ops[at_]; }
  uint32_t source_number(int i) const { return k_.sources[op().first_source + static_cast<uint32_t>(i)]; }
  const tolk_ir_op& source(int i) const { return k_.ops[source_number(i)]; }
  uint64_t attr(int i = 0) const { return k_.attrs[op().first_attr + static_cast<uint32_t>(i)]; }
  int count() const { return op().source_count; }
  static char kind(const tolk_ir_op& o) { return ir::type_info(o.dtype).kind; }
  static bool is_int(const tolk_ir_op& o) { return kind(o) == 'i' || kind(o) == 'u'; }
  static bool is_index(const tolk_ir_op& o) { return o.dtype == TOLK_DTYPE_I32 || o.dtype == TOLK_DTYPE_I64; }

  bool is_storage(const tolk_ir_op& o) const {
    if (o.opcode == TOLK_IR_PARAM) return param_of(o).kind == TOLK_PARAM_BUFFER;
    return o.opcode == TOLK_IR_DEFINE_LOCAL || o.opcode == TOLK_IR_DEFINE_REG;
  }
  const tolk_param& param_of(const tolk_ir_op& o) const { return k_.params[k_.attrs[o.first_attr]]; }

  void check_header() const {
    auto bad = [&](const std::string& what) {
      throw InternalError(fmt::format("kernel '{}': {}", k_.name, what));
    };
    if (k_.name.empty()) bad("the name is empty");
    for (char c : k_.name)
      if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'))
        bad("the name has a character outside [A-Za-z0-9_]");
    if (k_.ops.size() >= UINT32_MAX || k_.sources.size() > UINT32_MAX || k_.attrs.size() > UINT32_MAX)
      bad("more operations or operands than 32 bits count");
    bool value_seen = false;
    for (size_t i = 0; i < k_.params.size(); i++) {
      const tolk_param& p = k_.params[i];
      const ir::TypeInfo& type = ir::type_info(p.dtype);
      auto bad_param = [&](const char* what) { bad(fmt::format("parameter {}: {}", i, what)); };
      if (!type.name) bad_param("the dtype is unknown");
      if (p.reserved != 0) bad_param("reserved is not zero");
      if (p.kind == TOLK_PARAM_BUFFER) {
        if (value_seen) bad_param("buffers come before values");
        if (p.access < 1 || p.access > 3) bad_param("a buffer is read, written or both");
        if (p.min != 0 || p.max != 0) bad_param("a buffer has no range");
      } else if (p.kind == TOLK_PARAM_VALUE) {
        value_seen = true;
        if ((type.kind != 'i' && type.kind != 'u') || type.bits < 8)
          bad_param("a value is an integer of 8 bits or more");
        if (p.access != 0 || p.count != 0) bad_param("a value has neither access nor count");
        if (p.min > p.max) bad_param("min is above max");
        int magnitude_bits = type.bits - (type.kind == 'i' ? 1 : 0);
        if (type.kind == 'u' && p.min < 0) bad_param("min is below the dtype's range");
        if (magnitude_bits < 63 && (p.max >= int64_t{1} << magnitude_bits ||
                                    (type.kind == 'i' && p.min < -(int64_t{1} << magnitude_bits))))
          bad_param("the range leaves the dtype's range");
      } else {
        bad_param("the kind is unknown");
      }
    }
  }

  // What must hold before operands and attributes may be looked at.
  void check_record() {
    const ir::OpInfo& info = ir::op_info(op().opcode);
    require(info.name, "unknown opcode");
    require(op().reserved == 0, "reserved is not zero");
    require(op().first_source == next_source_ && op().first_attr == next_attr_,
            "operands and attributes follow those of the operation before");
    next_source_ += op().source_count;
    next_attr_ += static_cast<uint64_t>(info.attrs);
    require(next_source_ <= k_.sources.size() && next_attr_ <= k_.attrs.size(),
            "operands or attributes are missing");
    require(op().source_count >= info.min_sources && op().source_count <= info.max_sources,
            "wrong number of sources");
    require((op().flags & ~TOLK_IR_NO_WRAP) == 0, "unknown flag");
    if (ir::has_no_dtype(op().opcode)) {
      require(op().dtype == TOLK_DTYPE_NONE && op().lanes == 1,
              "an operation without a result has no dtype and one lane");
    } else {
      require(ir::type_info(op().dtype).name, "unknown dtype");
      require(op().lanes >= 1, "a result has at least one lane");
    }
    for (int i = 0; i < count(); i++) {
      require(source_number(i) < at_, "a source is not an earlier operation");
      bool closes = op().opcode == TOLK_IR_END || op().opcode == TOLK_IR_ENDIF;
      require(ir::has_value(source(i).opcode) || closes, "a source has no value");
      require(open_[block_of_[source_number(i)]], "a source was defined in a block that is closed");
      bool storage_position = i == 0 && (op().opcode == TOLK_IR_LOAD || op().opcode == TOLK_IR_STORE);
      require(!is_storage(source(i)) || storage_position, "storage is used only by LOAD and STORE");
    }
  }

  void same_as_result(int first, int last) const {
    for (int i = first; i <= last; i++)
      require(source(i).dtype == op().dtype && source(i).lanes == op().lanes,
              "a source has another dtype or width");
  }
  void gate_at(int i) const {
    require(source(i).dtype == TOLK_DTYPE_BOOL, "the gate or condition is not bool");
    require(source(i).lanes == 1 || source(i).lanes == op().lanes, "the gate or condition has another width");
  }

  void check_memory() const {
    bool store = op().opcode == TOLK_IR_STORE;
    require(is_storage(source(0)), "the first source is not storage");
    const tolk_ir_op& storage = source(0);
    require(storage.dtype == op().dtype, "the storage has another dtype");
    require(is_index(source(1)), "the index is not i32 or i64");
    if (storage.opcode == TOLK_IR_DEFINE_REG && storage.lanes > 1)
      require(op().lanes == storage.lanes && source(1).lanes == 1,
              "storage of vectors is accessed by whole vectors with a scalar index");
    else
      require(source(1).lanes == 1 || source(1).lanes == op().lanes, "the index has another width");
    if (storage.opcode == TOLK_IR_PARAM)
      require(param_of(storage).access & (store ? TOLK_ACCESS_WRITE : TOLK_ACCESS_READ),
              "the parameter's access does not allow it");
    if (store) {
      same_as_result(2, 2);
      if (count() == 4) gate_at(3);
    } else {
      require(count() != 3, "a gate comes with the value to use where it is false");
      if (count() == 4) {
        gate_at(2);
        same_as_result(3, 3);
      }
    }
  }

  void check_types() const {
    const tolk_ir_op& o = op();
    bool wraps = o.opcode == TOLK_IR_ADD || o.opcode == TOLK_IR_SUB || o.opcode == TOLK_IR_MUL ||
                 o.opcode == TOLK_IR_SHL || o.opcode == TOLK_IR_NEG;
    if (o.flags & TOLK_IR_NO_WRAP)
      require(wraps && is_int(o), "NO_WRAP is for ADD, SUB, MUL, SHL, NEG of integers");
    switch (o.opcode) {
    case TOLK_IR_PARAM:
      require(attr() < k_.params.size(), "there is no such parameter");
      require(o.lanes == 1, "a parameter has one lane");
      require(o.dtype == param_of(o).dtype, "the parameter has another dtype");
      break;
    case TOLK_IR_SPECIAL:
      require(is_index(o) && o.lanes == 1, "an index is a scalar i32 or i64");
      require(attr(0) < 3 || (attr(0) >= 256 && attr(0) < 259), "the axis is not 0 to 2 or 256 to 258");
      require(o.dtype == TOLK_DTYPE_I64 || attr(1) <= uint64_t{1} << 31, "the bound leaves i32");
      require(attr(1) <= uint64_t{1} << 62, "the bound is out of range");
      break;
    case TOLK_IR_DEFINE_LOCAL:
      require(o.lanes == 1, "work-group storage has one lane");
      require(blocks_.size() == 1, "work-group storage is defined outside of blocks");
      [[fallthrough]];
    case TOLK_IR_DEFINE_REG:
      require(attr() >= 1 && attr() <= kMaxStorageElements, "storage has 1 to 2^40 elements");
      break;
    case TOLK_IR_CONST: {
      int bits = ir::type_info(o.dtype).bits;
      require(bits == 64 || attr() >> bits == 0, "bits above the dtype's width are zero");
      require(o.dtype != TOLK_DTYPE_BOOL || attr() <= 1, "a bool is 0 or 1");
      break;
    }
    case TOLK_IR_RANGE:
      require(is_index(o) && o.lanes == 1, "an index is a scalar i32 or i64");
      same_as_result(0, 0);
      break;
    case TOLK_IR_IF:
      require(source(0).dtype == TOLK_DTYPE_BOOL && source(0).lanes == 1,
              "the condition is not a scalar bool");
      break;
    case TOLK_IR_END:
    case TOLK_IR_ENDIF:
    case TOLK_IR_BARRIER:
      break; // nesting is checked by check_nesting
    case TOLK_IR_LOAD:
    case TOLK_IR_STORE:
      check_memory();
      break;
    case TOLK_IR_SPLAT:
      require(source(0).dtype == o.dtype && source(0).lanes == 1, "the source is not a scalar of this dtype");
      break;
    case TOLK_IR_BUILD:
      require(count() == o.lanes, "one source for each lane");
      for (int i = 0; i < count(); i++)
        require(source(i).dtype == o.dtype && source(i).lanes == 1, "a source is not a scalar of this dtype");
      break;
    case TOLK_IR_EXTRACT:
      require(o.lanes == 1 && source(0).dtype == o.dtype, "the result is a scalar of the source's dtype");
      require(attr() < source(0).lanes, "the source has no such lane");
      break;
    case TOLK_IR_CAST:
      require(source(0).lanes == o.lanes && source(0).dtype != o.dtype,
              "the source has another dtype and the same width");
      break;
    case TOLK_IR_BITCAST:
      require(source(0).lanes == o.lanes && source(0).dtype != o.dtype &&
                  ir::type_info(source(0).dtype).bits == ir::type_info(o.dtype).bits,
              "the source has another dtype of the same width");
      break;
    case TOLK_IR_ADD:
    case TOLK_IR_SUB:
    case TOLK_IR_MUL:
    case TOLK_IR_NEG:
    case TOLK_IR_MULACC:
      require(kind(o) != 'b', "arithmetic is for integers and floats");
      same_as_result(0, count() - 1);
      break;
    case TOLK_IR_MAX:
      same_as_result(0, 1);
      break;
    case TOLK_IR_CDIV:
    case TOLK_IR_CMOD:
    case TOLK_IR_SHL:
    case TOLK_IR_SHR:
      require(is_int(o), "for integers only");
      same_as_result(0, 1);
      break;
    case TOLK_IR_AND:
    case TOLK_IR_OR:
    case TOLK_IR_XOR:
      require(kind(o) != 'f', "for integers and bool only");
      same_as_result(0, 1);
      break;
    case TOLK_IR_CMPLT:
    case TOLK_IR_CMPEQ:
    case TOLK_IR_CMPNE:
      require(o.dtype == TOLK_DTYPE_BOOL, "a comparison gives bool");
      require(source(0).dtype == source(1).dtype, "the sources have different dtypes");
      require(source(0).lanes == o.lanes && source(1).lanes == o.lanes, "a source has another width");
      break;
    case TOLK_IR_WHERE:
      gate_at(0);
      same_as_result(1, 2);
      break;
    default: // FDIV and the functions of floats
      require(kind(o) == 'f', "for floats only");
      same_as_result(0, count() - 1);
    }
  }

  void check_nesting() {
    uint16_t code = op().opcode;
    if (code == TOLK_IR_END || code == TOLK_IR_ENDIF) {
      uint16_t opener = code == TOLK_IR_END ? TOLK_IR_RANGE : TOLK_IR_IF;
      require(blocks_.size() > 1 && blocks_.back().opener == source_number(0) && source(0).opcode == opener,
              "it does not close the innermost open block");
      if (opener == TOLK_IR_IF) ifs_--;
      open_[blocks_.back().id] = false;
      blocks_.pop_back();
    }
    if (code == TOLK_IR_BARRIER) require(ifs_ == 0, "a barrier is not inside IF");
    if (code == TOLK_IR_RANGE || code == TOLK_IR_IF) {
      if (code == TOLK_IR_IF) ifs_++;
      blocks_.push_back({at_, static_cast<uint32_t>(open_.size())});
      open_.push_back(true);
    }
    // The index of a loop and the mark of an IF belong to the block that they open.
    block_of_[at_] = blocks_.back().id;
  }

  const KernelIR& k_;
  uint32_t at_ = 0;
  uint64_t next_source_ = 0, next_attr_ = 0;
  int ifs_ = 0;
  std::vector<uint32_t> block_of_;
  std::vector<Block> blocks_ = {{0, 0}};
  std::vector<bool> open_ = {true}; // by block id
};

} // namespace

void verify(const KernelIR& kernel) { Verifier(kernel).run(); }

} // namespace tolk
