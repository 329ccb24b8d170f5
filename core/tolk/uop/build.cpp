#include "tolk/uop/build.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <unordered_set>

#include "tolk/base/error.h"
#include "tolk/dtype/narrow_float.h"
#include "tolk/dtype/scalar.h"
#include "tolk/uop/eval.h"
#include "tolk/uop/storage_ref.h"

namespace tolk {
namespace {

uint64_t float_word(double value) {
  if (std::isnan(value)) value = std::numeric_limits<double>::quiet_NaN();
  return std::bit_cast<uint64_t>(value);
}

[[noreturn]] void bad(const std::string& text) { throw InvalidArgument(text); }

std::vector<UOp> sources(const UOp& first, std::initializer_list<const Shape*> shapes) {
  std::vector<UOp> all{first};
  for (const Shape* shape : shapes)
    for (const SInt& d : *shape) all.push_back(d.uop());
  return all;
}

} // namespace

double UOp::const_float() const {
  if (is_float(dtype())) return std::bit_cast<double>(arg().word);
  if (dtype() == DType::U64) return double(arg().word);
  return double(const_int());
}

UOp constant(DType dtype, int64_t value, int lanes) {
  if (is_float(dtype)) return make(Op::CONST, dtype, {}, Arg(float_word(int_to_float(dtype, value))), lanes);
  if (dtype == DType::Index || dtype == DType::I64 || dtype == DType::U64)
    return make(Op::CONST, dtype, {}, Arg(uint64_t(value)), lanes);
  return make(Op::CONST, dtype, {}, Arg(uint64_t(int64_t(wrap_to(dtype, value)))), lanes);
}

UOp constant(DType dtype, double value, int lanes) {
  if (is_float(dtype)) return make(Op::CONST, dtype, {}, Arg(float_word(round_to(dtype, value))), lanes);
  if (dtype == DType::Index) return make(Op::CONST, dtype, {}, Arg(uint64_t(int64_t(value))), lanes);
  return make(Op::CONST, dtype, {}, Arg(uint64_t(float_to_int(dtype, value))), lanes);
}

UOp zero_of(DType dtype, int lanes) { return constant(dtype, int64_t(0), lanes); }
UOp one_of(DType dtype, int lanes) { return constant(dtype, int64_t(1), lanes); }

UOp reduce_identity(Op op, DType dtype, int lanes) {
  if (op == Op::ADD) return zero_of(dtype, lanes);
  if (op == Op::MUL) return one_of(dtype, lanes);
  if (is_float(dtype)) {
    double least = round_to(dtype, -std::numeric_limits<double>::infinity());
    if (std::isnan(least)) { // the format has no infinity
      const FloatFormat& format = float_format(dtype);
      least = format.has_sign ? -decode_float(format, format.max_code) : decode_float(format, 0);
    }
    return constant(dtype, least, lanes);
  }
  return constant(dtype, int64_t(int_min(dtype)), lanes);
}

UOp variable(std::string name, int64_t min, int64_t max, int64_t multiple) {
  if (min > max)
    bad("variable " + name + " has bounds " + std::to_string(min) + ".." + std::to_string(max) +
        "; the first must not exceed the second");
  return make(Op::VAR, DType::Index, {}, Arg({min, max, multiple}, {std::move(name)}));
}

UOp bind(const UOp& variable, int64_t value) {
  if (value < variable.vmin() || value > variable.vmax())
    bad("variable " + var_name(variable) + " is bound to " + std::to_string(value) + ", outside its bounds " +
        std::to_string(variable.vmin()) + ".." + std::to_string(variable.vmax()));
  return make(Op::BIND, DType::Index, {variable, index_const(value)});
}

const std::string& var_name(const UOp& var) { return var.arg().text(); }

UOp buffer_node(int64_t slot, DType dtype, int64_t elements, std::string device) {
  return make(Op::BUFFER, dtype, {}, Arg({slot, elements}, {std::move(device)}));
}
UOp param_node(int64_t slot, DType dtype, int64_t elements, std::string device) {
  return make(Op::PARAM, dtype, {}, Arg({slot, elements}, {std::move(device)}));
}
UOp slice_node(const UOp& buffer, DType dtype, int64_t byte_offset, int64_t elements) {
  return make(Op::SLICE, dtype, {buffer}, Arg({byte_offset, elements}));
}
int64_t slot_of(const UOp& storage) { return storage.arg().i(0); }
int64_t elements_of(const UOp& storage) {
  const UOp* at = &storage;
  while (at->is(OpSet(Op::MSELECT, Op::MSTACK))) at = &at->src(0);
  return at->arg().i(1);
}
const UOp& memory_of(const UOp& storage) {
  const UOp* at = &storage;
  while (at->is(Op::AFTER)) at = &at->src(0);
  return *at;
}
const std::string& device_text(const UOp& u) { return u.arg().text(); }

int64_t fresh_user_slot() {
  static std::atomic<int64_t> next{0};
  return next.fetch_add(1, std::memory_order_relaxed);
}
int64_t fresh_internal_slot() {
  static std::atomic<int64_t> next{-1};
  return next.fetch_sub(1, std::memory_order_relaxed);
}

UOp range_node(const UOp& extent, int64_t axis, AxisType type) {
  return make(Op::RANGE, extent.dtype(), {extent}, Arg(uint64_t(axis) << 8 | uint64_t(type)));
}
int64_t axis_of(const UOp& range) { return int64_t(range.arg().word) >> 8; }
AxisType axis_type(const UOp& range) { return AxisType(range.arg().word & 255); }
UOp iota(DType dtype, const SInt& size) { return make(Op::IOTA, dtype, {size.uop()}); }

UOp alu(Op op, const UOp& a) { return make(op, a.dtype(), {a}, {}, a.lanes()); }

UOp alu(Op op, const UOp& a, const UOp& b) {
  TOLK_CHECK(a.lanes() == b.lanes(), "operands have different numbers of lanes");
  if (a.dtype() != b.dtype())
    throw InternalError(std::string(name(op)) + " of " + name(a.dtype()) + " and " + name(b.dtype()) +
                        ": operands must share a dtype");
  return make(op, ops::Compare.has(op) ? DType::BOOL : a.dtype(), {a, b}, {}, a.lanes());
}

UOp alu(Op op, const UOp& a, const UOp& b, const UOp& c) {
  if (op == Op::WHERE) return where(a, b, c);
  TOLK_CHECK(a.dtype() == b.dtype() && b.dtype() == c.dtype(), "operands must share a dtype");
  return make(op, a.dtype(), {a, b, c}, {}, a.lanes());
}

UOp where(const UOp& condition, const UOp& a, const UOp& b) {
  TOLK_CHECK(condition.dtype() == DType::BOOL, "the condition of WHERE must be bool");
  TOLK_CHECK(a.dtype() == b.dtype() && a.lanes() == b.lanes(),
             "the branches of WHERE must share dtype and lanes");
  return make(Op::WHERE, a.dtype(), {condition, a, b}, {}, a.lanes());
}

UOp cast(const UOp& u, DType dtype) {
  return u.dtype() == dtype ? u : make(Op::CAST, dtype, {u}, {}, u.lanes());
}

UOp bitcast(const UOp& u, DType dtype) {
  if (u.dtype() == dtype) return u;
  if (bits(u.dtype()) != bits(dtype))
    bad(std::string("bitcast from ") + name(u.dtype()) + " to " + name(dtype) +
        " needs types of equal width");
  return make(Op::BITCAST, dtype, {u}, {}, u.lanes());
}

UOp logical_not(const UOp& u) {
  if (u.is_const()) return constant(DType::BOOL, int64_t(!u.const_int()), u.lanes());
  return alu(Op::XOR, u, constant(DType::BOOL, int64_t(1), u.lanes()));
}

UOp logical_and(const UOp& a, const UOp& b) {
  if (!a || (a.is_const() && a.const_int())) return b;
  if (!b || (b.is_const() && b.const_int())) return a;
  return a == b ? a : alu(Op::AND, a, b);
}

UOp operator+(const UOp& a, const UOp& b) {
  if (!is_float(a.dtype())) {
    if (a.is_const_int(0)) return b;
    if (b.is_const_int(0)) return a;
    if (a.is_const() && b.is_const())
      return constant(a.dtype(), int64_t(uint64_t(a.const_int()) + uint64_t(b.const_int())), a.lanes());
  }
  return alu(Op::ADD, a, b);
}
UOp operator*(const UOp& a, const UOp& b) {
  if (!is_float(a.dtype())) {
    if (a.is_const_int(1) || b.is_const_int(0)) return b;
    if (b.is_const_int(1) || a.is_const_int(0)) return a;
    if (a.is_const() && b.is_const())
      return constant(a.dtype(), int64_t(uint64_t(a.const_int()) * uint64_t(b.const_int())), a.lanes());
  }
  return alu(Op::MUL, a, b);
}
UOp operator-(const UOp& a, const UOp& b) {
  if (is_float(a.dtype())) return alu(Op::SUB, a, b);
  return a + b * int64_t(-1);
}
UOp operator+(const UOp& a, int64_t b) { return a + constant(a.dtype(), b, a.lanes()); }
UOp operator-(const UOp& a, int64_t b) { return a + constant(a.dtype(), -b, a.lanes()); }
UOp operator*(const UOp& a, int64_t b) { return a * constant(a.dtype(), b, a.lanes()); }

UOp floordiv(const UOp& a, const UOp& b) {
  if (b.is_const_int(1)) return a;
  if (a.is_const() && b.is_const() && b.const_int() > 0) {
    int64_t x = a.const_int(), y = b.const_int();
    return constant(a.dtype(), x / y - (x % y != 0 && (x < 0) != (y < 0)));
  }
  return alu(Op::FLOORDIV, a, b);
}
UOp floormod(const UOp& a, const UOp& b) {
  if (b.is_const_int(1)) return zero_of(a.dtype(), a.lanes());
  if (a.is_const() && b.is_const() && b.const_int() > 0) {
    int64_t x = a.const_int(), y = b.const_int();
    return constant(a.dtype(), x - (x / y - (x % y != 0 && (x < 0) != (y < 0))) * y);
  }
  return alu(Op::FLOORMOD, a, b);
}
UOp less(const UOp& a, const UOp& b) { return alu(Op::CMPLT, a, b); }

UOp reshape(const UOp& u, const Shape& shape) {
  const Shape& from = shape_of(u);
  if (from == shape) return u;
  SInt before = numel(from), after = numel(shape);
  for (const SInt& d : shape)
    if (d.max() < 0)
      bad("cannot reshape " + to_string(from) + " to " + to_string(shape) + ": a size is negative");
  if (before.is_const() && after.is_const() && before.value() != after.value())
    bad("cannot reshape " + to_string(from) + " to " + to_string(shape) + ": " + to_string(before) +
        " elements are not " + to_string(after));
  const UOp& base = u.is(Op::RESHAPE) ? u.src(0) : u;
  if (shape_of(base) == shape) return base;
  return make(Op::RESHAPE, u.dtype(), sources(base, {&shape}));
}

UOp permute(const UOp& u, const std::vector<int64_t>& order) {
  size_t rank = shape_of(u).size();
  uint64_t seen = 0;
  bool identity = true;
  for (size_t i = 0; i < order.size(); ++i) {
    if (order[i] < 0 || order[i] >= int64_t(rank))
      bad("permute axis " + std::to_string(order[i]) + " is outside the shape " + to_string(shape_of(u)));
    seen |= uint64_t(1) << order[i];
    identity &= order[i] == int64_t(i);
  }
  if (order.size() != rank || seen != (uint64_t(1) << rank) - 1)
    bad("permute needs every axis of " + to_string(shape_of(u)) + " once");
  if (identity) return u;
  if (u.is(Op::PERMUTE)) {
    std::vector<int64_t> merged;
    for (int64_t axis : order) merged.push_back(u.arg().i(axis));
    return permute(u.src(0), merged);
  }
  return make(Op::PERMUTE, u.dtype(), {u}, Arg(order));
}

UOp expand(const UOp& u, const Shape& shape) {
  const Shape& from = shape_of(u);
  if (from == shape) return u;
  bool fits = from.size() == shape.size();
  for (size_t i = 0; fits && i < shape.size(); ++i) fits = from[i] == shape[i] || from[i] == 1;
  if (!fits)
    bad("cannot expand " + to_string(from) + " to " + to_string(shape) +
        ": sizes must be equal, or 1 in the source");
  return make(Op::EXPAND, u.dtype(), sources(u, {&shape}));
}

UOp pad(const UOp& u, const Shape& before, const Shape& after) {
  size_t rank = shape_of(u).size();
  if (before.size() != rank || after.size() != rank)
    bad("pad needs one amount per side of every axis of " + to_string(shape_of(u)));
  bool none = true;
  for (size_t i = 0; i < rank; ++i) {
    if (before[i].max() < 0 || after[i].max() < 0) bad("pad amounts must not be negative; use shrink to cut");
    none &= before[i] == 0 && after[i] == 0;
  }
  return none ? u : make(Op::PAD, u.dtype(), sources(u, {&before, &after}));
}

UOp shrink(const UOp& u, const Shape& begin, const Shape& size) {
  const Shape& from = shape_of(u);
  if (begin.size() != from.size() || size.size() != from.size())
    bad("shrink needs a begin and a size for every axis of " + to_string(from));
  bool none = true;
  for (size_t i = 0; i < from.size(); ++i) {
    if (begin[i].max() < 0 || size[i].max() < 0 || (begin[i] + size[i] - from[i]).min() > 0)
      bad("shrink of axis " + std::to_string(i) + " to [" + to_string(begin[i]) + ", +" + to_string(size[i]) +
          ") leaves the shape " + to_string(from));
    none &= begin[i] == 0 && size[i] == from[i];
  }
  return none ? u : make(Op::SHRINK, u.dtype(), sources(u, {&begin, &size}));
}

UOp flip(const UOp& u, uint64_t axis_mask) {
  const Shape& from = shape_of(u);
  for (size_t i = 0; i < from.size(); ++i)
    if (from[i] == 1) axis_mask &= ~(uint64_t(1) << i);
  if (axis_mask >> from.size()) bad("flip axis is outside the shape " + to_string(from));
  return axis_mask ? make(Op::FLIP, u.dtype(), {u}, Arg(axis_mask)) : u;
}

UOp window(const UOp& u, int axis, const SInt& out, const SInt& k, int64_t stride, int64_t dilation) {
  const Shape& from = shape_of(u);
  if (axis < 0 || axis >= int(from.size()))
    bad("window axis " + std::to_string(axis) + " is outside the shape " + to_string(from));
  if (stride < 1 || dilation < 1) bad("window stride and dilation must be positive");
  SInt last = (out - 1) * SInt(stride) + (k - 1) * SInt(dilation);
  if (out.max() > 0 && k.max() > 0 && (last - from[axis]).min() >= 0)
    bad("window of " + to_string(k) + " at " + to_string(out) + " places leaves axis " +
        std::to_string(axis) + " of " + to_string(from));
  return make(Op::WINDOW, u.dtype(), {u, out.uop(), k.uop()}, Arg({axis, stride, dilation}));
}

UOp gather(const UOp& u, const UOp& indices, int axis) {
  const Shape& from = shape_of(u);
  if (axis < 0 || axis >= int(from.size()))
    bad("gather axis " + std::to_string(axis) + " is outside the shape " + to_string(from));
  if (!is_int(indices.dtype()))
    bad(std::string("gather indices must be integers, got ") + name(indices.dtype()));
  return make(Op::GATHER, u.dtype(), {u, indices}, Arg(uint64_t(axis)));
}

UOp reduce_axis(Op op, const UOp& u, uint64_t axis_mask) {
  const Shape& from = shape_of(u);
  if (axis_mask >> from.size()) bad("reduce axis is outside the shape " + to_string(from));
  for (size_t i = 0; i < from.size(); ++i)
    if (from[i] == 1) axis_mask &= ~(uint64_t(1) << i);
  return axis_mask ? make(Op::REDUCE_AXIS, u.dtype(), {u}, Arg(uint64_t(op) << 56 | axis_mask)) : u;
}

UOp reduce(Op op, const UOp& value, std::span<const UOp> ranges) {
  std::vector<UOp> src{value};
  src.insert(src.end(), ranges.begin(), ranges.end());
  return make(Op::REDUCE, value.dtype(), src, Arg(uint64_t(op) << 56), value.lanes());
}
Op reduce_op(const UOp& u) { return Op(u.arg().word >> 56); }
uint64_t reduce_axes(const UOp& u) { return u.arg().word & ((uint64_t(1) << 56) - 1); }

UOp contiguous(const UOp& u) {
  if (u.is(Op::CONTIGUOUS)) return u;
  return make(Op::CONTIGUOUS, u.dtype(), {u});
}
UOp function_of(std::string name, const UOp& value, std::span<const UOp> arguments,
                std::vector<int64_t> numbers) {
  std::vector<UOp> src{value};
  src.insert(src.end(), arguments.begin(), arguments.end());
  return make(Op::FUNCTION, value.dtype(), src, Arg(std::move(numbers), {std::move(name)}));
}
UOp copy_to(const UOp& u, std::string device) {
  return make(Op::COPY, u.dtype(), {u}, Arg({}, {std::move(device)}));
}

UOp load(const UOp& storage, const UOp& index, const UOp& gate, const UOp& alt, int lanes) {
  std::vector<UOp> src{storage, index};
  if (gate && !(gate.is_const() && gate.const_int())) {
    src.push_back(gate);
    if (alt) src.push_back(alt);
  }
  return make(Op::LOAD, storage.dtype(), src, {}, lanes);
}
UOp store(const UOp& storage, const UOp& index, const UOp& value, const UOp& gate) {
  std::vector<UOp> src{storage, index, value};
  if (gate && !(gate.is_const() && gate.const_int())) src.push_back(gate);
  return make(Op::STORE, DType::Void, src);
}
UOp store_to(const UOp& view, const UOp& value) {
  TOLK_CHECK(view.dtype() == value.dtype(), "a store needs a value of the target's dtype");
  return make(Op::STORE, DType::Void, {view, value});
}
UOp end(const UOp& effect, std::span<const UOp> ranges) {
  if (ranges.empty()) return effect;
  std::vector<UOp> src{effect};
  src.insert(src.end(), ranges.begin(), ranges.end());
  return make(Op::END, DType::Void, src);
}
UOp after(const UOp& value, std::span<const UOp> effects) {
  if (effects.empty()) return value;
  std::vector<UOp> src{value};
  src.insert(src.end(), effects.begin(), effects.end());
  return make(Op::AFTER, value.dtype(), src);
}
UOp sink(std::span<const UOp> effects) { return make(Op::SINK, DType::Void, effects); }
UOp kernel_sink(std::span<const UOp> effects, std::string name) {
  return make(Op::SINK, DType::Void, effects, Arg({1}, {std::move(name)}));
}
UOp call(const UOp& body, std::span<const UOp> arguments) {
  std::vector<UOp> src{body};
  src.insert(src.end(), arguments.begin(), arguments.end());
  return make(Op::CALL, DType::Void, src);
}
UOp linear(std::span<const UOp> calls) { return make(Op::LINEAR, DType::Void, calls); }

bool is_multi(std::string_view device) { return device.find(',') != std::string_view::npos; }

std::vector<std::string> split_devices(std::string_view device) {
  std::vector<std::string> names;
  for (size_t comma; (comma = device.find(',')) != std::string_view::npos; device.remove_prefix(comma + 1))
    names.emplace_back(device.substr(0, comma));
  names.emplace_back(device);
  return names;
}

std::string join_devices(std::span<const std::string> devices) {
  std::string text;
  for (const std::string& name : devices) text += (text.empty() ? "" : ",") + name;
  return text;
}

UOp multi(const UOp& u, int axis, int64_t count) {
  TOLK_CHECK(axis >= 0 && axis < int(shape_of(u).size()) && count > 1,
             "a value is sharded along one of its axes, over several devices");
  return make(Op::MULTI, u.dtype(), {u}, Arg({axis, count}));
}
int multi_axis(const UOp& u) { return int(u.arg().i(0)); }
int64_t multi_count(const UOp& u) { return u.arg().i(1); }

UOp mselect(const UOp& u, int64_t position) {
  return make(Op::MSELECT, u.dtype(), {u}, Arg(uint64_t(position)));
}
int64_t position_of(const UOp& u) { return int64_t(u.arg().word); }

UOp mstack(std::span<const UOp> parts) {
  TOLK_CHECK(!parts.empty(), "values of at least one device are joined");
  return make(Op::MSTACK, parts[0].dtype(), parts);
}

UOp allreduce(const UOp& u, Op op) { return make(Op::ALLREDUCE, u.dtype(), {u}, Arg(uint64_t(op))); }
Op allreduce_op(const UOp& u) { return Op(u.arg().word); }

UOp device_position(int64_t count) { return variable(kDevicePosition, 0, count - 1); }

UOp storage_of(const UOp& u) {
  const UOp& at = below_views(u, Through::Writes | Through::Pads);
  return at.is(ops::Storage) ? at : UOp();
}

std::string device_of(const UOp& u) {
  // Depth first, first source first; a device is nearly always found on the first path.
  std::vector<UOp> stack{u};
  std::unordered_set<const UOpNode*> seen;
  while (!stack.empty()) {
    UOp top = stack.back();
    stack.pop_back();
    if (top.is(OpSet(Op::BUFFER, Op::PARAM, Op::COPY))) return device_text(top);
    if (top.is(Op::MSELECT)) {
      std::vector<std::string> all = split_devices(device_of(top.src(0)));
      return all[std::min(size_t(position_of(top)), all.size() - 1)];
    }
    if (top.is(Op::MSTACK)) {
      std::vector<std::string> all;
      for (const UOp& part : top.src()) all.push_back(device_of(part));
      return join_devices(all);
    }
    if (!seen.insert(top.node()).second) continue;
    for (size_t i = top.nsrc(); i-- > 0;)
      if (top.src(i).dtype() != DType::Index) stack.push_back(top.src(i));
  }
  return {};
}

} // namespace tolk
