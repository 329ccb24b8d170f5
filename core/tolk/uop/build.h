// Typed constructors and readers: the only places that know how an op packs its arg and sources.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tolk/uop/shape.h"
#include "tolk/uop/uop.h"

namespace tolk {

// ---- leaves
// Integers wrap to the dtype; floats are rounded to it. NaNs collapse to one.
TOLK_API UOp constant(DType dtype, int64_t value, int lanes = 1);
TOLK_API UOp constant(DType dtype, double value, int lanes = 1);
inline UOp constant(DType dtype, int value, int lanes = 1) { return constant(dtype, int64_t(value), lanes); }
inline UOp index_const(int64_t value) { return constant(DType::Index, value); }
inline UOp bool_const(bool value) { return constant(DType::BOOL, int64_t(value)); }
// The constant zero, or one, of any dtype.
TOLK_API UOp zero_of(DType dtype, int lanes = 1);
TOLK_API UOp one_of(DType dtype, int lanes = 1);
// What a reduction starts from: 0, 1, or the dtype's lowest value (-inf where the float format has it).
TOLK_API UOp reduce_identity(Op op, DType dtype, int lanes = 1);

// A symbolic integer of index type in [min, max], always a multiple of `multiple`.
TOLK_API UOp variable(std::string name, int64_t min, int64_t max, int64_t multiple = 1);
TOLK_API UOp bind(const UOp& variable, int64_t value);
TOLK_API const std::string& var_name(const UOp& var);

// Storage of `elements` values; its identity is the slot. Shape (elements,).
TOLK_API UOp buffer_node(int64_t slot, DType dtype, int64_t elements, std::string device);
TOLK_API UOp param_node(int64_t slot, DType dtype, int64_t elements, std::string device = {});
TOLK_API UOp slice_node(const UOp& buffer, DType dtype, int64_t byte_offset, int64_t elements);
TOLK_API int64_t slot_of(const UOp& storage);          // BUFFER, PARAM, DEFINE_*
TOLK_API int64_t elements_of(const UOp& storage);      // any storage op, MSELECT or MSTACK; of one shard
TOLK_API const std::string& device_text(const UOp& u); // BUFFER, PARAM, COPY
// A fresh slot: user buffers count up from 0, buffers internal to a schedule count down from -1. Thread-safe.
TOLK_API int64_t fresh_user_slot();
TOLK_API int64_t fresh_internal_slot();

TOLK_API UOp range_node(const UOp& extent, int64_t axis, AxisType type);
inline UOp range_node(int64_t extent, int64_t axis, AxisType type) {
  return range_node(index_const(extent), axis, type);
}
TOLK_API int64_t axis_of(const UOp& range);
TOLK_API AxisType axis_type(const UOp& range);
// 0, 1, ... size-1 as `dtype` along the one axis.
TOLK_API UOp iota(DType dtype, const SInt& size);

// ---- elementwise; sources share dtype and lanes (shape too, or are ()). The result dtype follows the op.
TOLK_API UOp alu(Op op, const UOp& a);
TOLK_API UOp alu(Op op, const UOp& a, const UOp& b);
TOLK_API UOp alu(Op op, const UOp& a, const UOp& b, const UOp& c);
TOLK_API UOp cast(const UOp& u, DType dtype); // the source itself when nothing changes
TOLK_API UOp bitcast(const UOp& u, DType dtype);
TOLK_API UOp where(const UOp& condition, const UOp& a, const UOp& b);
TOLK_API UOp logical_not(const UOp& u);               // of a bool
TOLK_API UOp logical_and(const UOp& a, const UOp& b); // either may be null, meaning true
// Index arithmetic, folded on the spot where both are constants or one is neutral.
TOLK_API UOp operator+(const UOp& a, const UOp& b);
TOLK_API UOp operator-(const UOp& a, const UOp& b);
TOLK_API UOp operator*(const UOp& a, const UOp& b);
TOLK_API UOp operator+(const UOp& a, int64_t b);
TOLK_API UOp operator-(const UOp& a, int64_t b);
TOLK_API UOp operator*(const UOp& a, int64_t b);
TOLK_API UOp floordiv(const UOp& a, const UOp& b);
TOLK_API UOp floormod(const UOp& a, const UOp& b);
TOLK_API UOp less(const UOp& a, const UOp& b); // a < b

// ---- movement. Each checks its rule and throws InvalidArgument; a movement that changes nothing returns its
// source.
TOLK_API UOp reshape(const UOp& u, const Shape& shape);
TOLK_API UOp permute(const UOp& u, const std::vector<int64_t>& order);
TOLK_API UOp expand(const UOp& u, const Shape& shape);
TOLK_API UOp pad(const UOp& u, const Shape& before, const Shape& after);
TOLK_API UOp shrink(const UOp& u, const Shape& begin, const Shape& size);
TOLK_API UOp flip(const UOp& u, uint64_t axis_mask);
TOLK_API UOp window(const UOp& u, int axis, const SInt& out, const SInt& k, int64_t stride, int64_t dilation);
TOLK_API UOp gather(const UOp& u, const UOp& indices, int axis);

// ---- reductions and structure
// Reduces the axes of the mask (kept with size 1) in the source's dtype.
TOLK_API UOp reduce_axis(Op op, const UOp& u, uint64_t axis_mask);
TOLK_API UOp reduce(Op op, const UOp& value, std::span<const UOp> ranges);
TOLK_API Op reduce_op(const UOp& u);         // of REDUCE_AXIS and REDUCE
TOLK_API uint64_t reduce_axes(const UOp& u); // of REDUCE_AXIS
TOLK_API UOp contiguous(const UOp& u);
TOLK_API UOp copy_to(const UOp& u, std::string device);
// The value, known to gradients as function `name` of the arguments, which `numbers` may qualify.
TOLK_API UOp function_of(std::string name, const UOp& value, std::span<const UOp> arguments,
                         std::vector<int64_t> numbers = {});
TOLK_API UOp load(const UOp& storage, const UOp& index, const UOp& gate = {}, const UOp& alt = {},
                  int lanes = 1);
TOLK_API UOp store(const UOp& storage, const UOp& index, const UOp& value,
                   const UOp& gate = {});                 // in a kernel
TOLK_API UOp store_to(const UOp& view, const UOp& value); // in a tensor graph
TOLK_API UOp end(const UOp& effect, std::span<const UOp> ranges);
TOLK_API UOp after(const UOp& value, std::span<const UOp> effects);
// The storage that a kernel's LOAD or STORE accesses, below any AFTER.
const UOp& memory_of(const UOp& storage);
TOLK_API UOp sink(std::span<const UOp> effects);
// Root of a kernel; `name` may be empty until codegen names it.
TOLK_API UOp kernel_sink(std::span<const UOp> effects, std::string name = {});
TOLK_API UOp call(const UOp& body, std::span<const UOp> arguments);
TOLK_API UOp linear(std::span<const UOp> calls);

// ---- several devices. A value on a device tuple has one part per position; its device text is the canonical
// names joined by commas, "CPU,CPU:1". Without MULTI every position has the same value (a replica).
TOLK_API bool is_multi(std::string_view device);
TOLK_API std::vector<std::string> split_devices(std::string_view device); // one element for a single device
TOLK_API std::string join_devices(std::span<const std::string> devices);
// The value whose parts along `axis` are what the `count` positions of `u`'s device tuple hold.
TOLK_API UOp multi(const UOp& u, int axis, int64_t count);
TOLK_API int multi_axis(const UOp& u);                // of MULTI
TOLK_API int64_t multi_count(const UOp& u);           // of MULTI
TOLK_API UOp mselect(const UOp& u, int64_t position); // what one position of the tuple holds
TOLK_API int64_t position_of(const UOp& u);           // of MSELECT
TOLK_API UOp mstack(std::span<const UOp> parts);      // values on single devices as one on their tuple
TOLK_API UOp allreduce(const UOp& u, Op op); // every position gets what all hold, combined: a replica
TOLK_API Op allreduce_op(const UOp& u);
// The position in the tuple, 0 .. count-1, as a kernel sees it: a variable that a launch fills itself.
inline constexpr const char* kDevicePosition = "_device_num";
TOLK_API UOp device_position(int64_t count);

// The storage that a chain of views, PADs and AFTERs reads: a BUFFER, PARAM, SLICE or DEFINE_*; null when the
// value is computed. uop/storage_ref.h tells more of it.
TOLK_API UOp storage_of(const UOp& u);
// The device of a value: of its first source that has one; empty for constants.
TOLK_API std::string device_of(const UOp& u);

} // namespace tolk
