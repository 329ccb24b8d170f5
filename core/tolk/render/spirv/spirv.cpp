#include "tolk/render/spirv/spirv.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "tolk/base/check.h"
#include "tolk/render/emit/arithmetic.h"
#include "tolk/render/spirv/spirv_kernel.h"

namespace tolk::spirv {
namespace {

// OpControlBarrier: scope Workgroup; semantics AcquireRelease | WorkgroupMemory.
constexpr uint32_t kWorkgroupScope = 2, kBarrierSemantics = 0x108;
constexpr uint32_t kAligned = 2; // memory operand
constexpr uint32_t kItemAxis = 256;

bool has_feature(std::string_view features, std::string_view name) {
  for (size_t at = 0; at < features.size();) {
    size_t end = std::min(features.find(',', at), features.size());
    if (features.substr(at, end - at) == name) return true;
    at = end + 1;
  }
  return false;
}

// The number behind a feature's name; 0 when it is not listed.
uint64_t number_after(std::string_view features, std::string_view name) {
  size_t at = features.find(name);
  uint64_t number = 0;
  if (at != std::string_view::npos)
    std::from_chars(features.data() + at + name.size(), features.data() + features.size(), number);
  return number;
}

} // namespace

KernelWriter::KernelWriter(const KernelIR& kernel, const RenderOptions& options)
    : KernelView(kernel), features_(options.features), e_(module_, has_feature(options.features, "+f64")),
      first_value_(kernel.ops.size()), storage_(kernel.ops.size()), is_slots_(kernel.ops.size()),
      end_(kernel.ops.size()), unroll_(kernel.ops.size(), 1) {
  module_.capability(kCapabilityShader);
  module_.capability(kCapabilityPhysicalStorageBufferAddresses);
}

void KernelWriter::set(uint32_t k, std::span<const Value> lanes) {
  TOLK_CHECK(lanes.size() == op(k).lanes, "a value with the wrong number of lanes");
  first_value_[k] = static_cast<uint32_t>(values_.size());
  values_.insert(values_.end(), lanes.begin(), lanes.end());
}

void KernelWriter::begin_block(uint32_t label) {
  e_.instruction(kOpLabel, {label});
  block_ = label;
}

// The shader's built-in variable, a vector of three u32.
uint32_t KernelWriter::builtin(uint32_t number) {
  for (auto [known, variable] : builtins_)
    if (known == number) return variable;
  uint32_t variable = module_.variable(kClassInput, module_.vector_type(Kind::I32, 3));
  module_.decorate(variable, {kDecorationBuiltIn, number});
  builtins_.emplace_back(number, variable);
  return variable;
}

// The only push constant is the address of the argument block, an array of 8-byte slots.
void KernelWriter::load_arguments() {
  uint32_t block = module_.block_type(module_.type(Kind::I64), false);
  uint32_t push = module_.variable(kClassPushConstant, block);
  uint32_t member =
      e_.define_id(kOpAccessChain, module_.pointer_type(kClassPushConstant, module_.type(Kind::I64)),
                   {push, module_.u32(0)});
  arguments_ = e_.define(kOpLoad, Kind::I64, {member});
  uint32_t slots = module_.block_type(module_.runtime_array_type(module_.type(Kind::I64), 8), true);
  arguments_pointer_ = global_pointer(arguments_, slots);
}

Value KernelWriter::argument(uint64_t slot) {
  uint32_t type = module_.pointer_type(kClassPhysicalStorageBuffer, module_.type(Kind::I64));
  uint32_t member = e_.define_id(
      kOpAccessChain, type, {arguments_pointer_, module_.u32(0), module_.u32(static_cast<uint32_t>(slot))});
  return e_.define(kOpLoad, Kind::I64, {member, kAligned, 8});
}

// Arguments are read once, in the first block.
void KernelWriter::emit_param(uint32_t k) {
  std::swap(e_.body, entry_);
  Value slot = argument(attr(k));
  if (kernel_.params[attr(k)].kind == TOLK_PARAM_BUFFER) {
    Kind kind = emit::memory_type(dtype(k), 1).kind;
    storage_[k].place = Storage::Place::Buffer;
    storage_[k].kind = kind;
    storage_[k].address = slot;
    access_capability(kind);
  } else {
    set(k, e_.resize(slot, emit::register_type(dtype(k), 1).kind, false));
  }
  std::swap(e_.body, entry_);
}

void KernelWriter::emit_special(uint32_t k) {
  bool item = attr(k) >= kItemAxis;
  uint32_t variable = builtin(item ? kBuiltInLocalInvocationId : kBuiltInWorkgroupId);
  uint32_t axis = static_cast<uint32_t>(item ? attr(k) - kItemAxis : attr(k));
  std::swap(e_.body, entry_);
  uint32_t all = e_.define_id(kOpLoad, module_.vector_type(Kind::I32, 3), {variable});
  Value id = e_.define(kOpCompositeExtract, Kind::I32, {all, axis});
  set(k, e_.resize(id, emit::register_type(dtype(k), 1).kind, false));
  std::swap(e_.body, entry_);
}

uint32_t KernelWriter::open_branch(Value condition) {
  uint32_t inside = module_.new_id(), merge = module_.new_id();
  e_.instruction(kOpSelectionMerge, {merge, 0});
  e_.instruction(kOpBranchConditional, {e_.id(condition), inside, merge});
  begin_block(inside);
  return merge;
}

void KernelWriter::close_branch(uint32_t merge) {
  branch(merge);
  begin_block(merge);
}

void KernelWriter::emit_alu(uint32_t k) {
  std::span<const uint32_t> src = sources(k);
  std::vector<Value> lanes;
  switch (op(k).opcode) {
  case TOLK_IR_SPLAT:
    lanes.assign(op(k).lanes, lane(src[0], 0));
    break;
  case TOLK_IR_BUILD:
    for (uint32_t s : src) lanes.push_back(lane(s, 0));
    break;
  case TOLK_IR_EXTRACT:
    lanes.push_back(lanes_of(src[0])[attr(k)]);
    break;
  default: {
    TOLK_CHECK(!src.empty() && src.size() <= 3, "arithmetic takes one to three operands");
    emit::AluOp facts{.opcode = op(k).opcode, .dtype = dtype(k), .source_dtype = dtype(src[0])};
    for (uint32_t i = 0; i < op(k).lanes; ++i) {
      std::array<Value, 3> values;
      for (size_t s = 0; s < src.size(); ++s) values[s] = lane(src[s], i);
      lanes.push_back(emit::alu(e_, facts, {values.data(), src.size()}, "SPIR-V"));
    }
  }
  }
  set(k, lanes);
}

void KernelWriter::emit(uint32_t k) {
  switch (op(k).opcode) {
  case TOLK_IR_PARAM:
    return emit_param(k);
  case TOLK_IR_SPECIAL:
    return emit_special(k);
  case TOLK_IR_DEFINE_LOCAL:
  case TOLK_IR_DEFINE_REG:
    return define_storage(k);
  case TOLK_IR_CONST: {
    std::vector<Value> lanes(op(k).lanes, constant(emit::register_type(dtype(k), 1), attr(k)));
    return set(k, lanes);
  }
  case TOLK_IR_IF:
    branches_.push_back(open_branch(lane(sources(k)[0], 0)));
    return;
  case TOLK_IR_ENDIF:
    close_branch(branches_.back());
    branches_.pop_back();
    return;
  case TOLK_IR_BARRIER: {
    uint32_t scope = module_.u32(kWorkgroupScope);
    return e_.instruction(kOpControlBarrier, {scope, scope, module_.u32(kBarrierSemantics)});
  }
  case TOLK_IR_LOAD:
    return load(k);
  case TOLK_IR_STORE:
    return store(k);
  default:
    return emit_alu(k);
  }
}

// Operations begin .. end-1, whose blocks are closed.
void KernelWriter::emit_from_to(uint32_t begin, uint32_t end) {
  for (uint32_t k = begin; k < end; ++k) {
    if (op(k).opcode == TOLK_IR_RANGE) {
      emit_range(k);
      k = end_[k];
    } else {
      emit(k);
    }
  }
}

// What the device can promise about rounding, NaNs, signed zeros and subnormals, by the names of target.h.
void KernelWriter::set_float_modes() {
  struct Row {
    std::string_view name;
    uint32_t capability, mode, width;
  };
  constexpr Row kRows[] = {
      {"+denorm32", kCapabilityDenormPreserve, kModeDenormPreserve, 32},
      {"+denorm64", kCapabilityDenormPreserve, kModeDenormPreserve, 64},
      {"+preserve32", kCapabilitySignedZeroInfNanPreserve, kModeSignedZeroInfNanPreserve, 32},
      {"+preserve64", kCapabilitySignedZeroInfNanPreserve, kModeSignedZeroInfNanPreserve, 64},
      {"+rte32", kCapabilityRoundingModeRTE, kModeRoundingModeRTE, 32},
      {"+rte64", kCapabilityRoundingModeRTE, kModeRoundingModeRTE, 64},
  };
  for (const Row& row : kRows)
    if (has_feature(features_, row.name)) {
      module_.capability(row.capability);
      module_.execution_mode(row.mode, {row.width});
    }
}

// The work-group's size is specialized when the pipeline is made. The sizes that the kernel was compiled for are the
// defaults.
void KernelWriter::set_local_size() {
  std::array<uint32_t, 3> local = {1, 1, 1};
  for (uint32_t k = 0; k < kernel_.ops.size(); ++k)
    if (op(k).opcode == TOLK_IR_SPECIAL && attr(k) >= kItemAxis && attr(k, 1) != 0)
      local[attr(k) - kItemAxis] = static_cast<uint32_t>(attr(k, 1));
  std::array<uint32_t, 3> sizes;
  for (uint32_t axis = 0; axis < 3; ++axis) sizes[axis] = module_.spec_constant(axis, local[axis]);
  uint32_t size = module_.spec_composite(module_.vector_type(Kind::I32, 3), sizes);
  module_.decorate(size, {kDecorationBuiltIn, kBuiltInWorkgroupSize});
  module_.execution_mode(kModeLocalSize, {local[0], local[1], local[2]});
}

std::string KernelWriter::run() {
  TOLK_CHECK(!kernel_.name.empty(), "a kernel without a name");
  set_float_modes();
  set_local_size();
  find_slots();
  find_ends();
  if (uint64_t most = number_after(features_, "+loops=")) plan_unrolling(most);
  uint32_t entry = module_.new_id(), first = module_.new_id(), body = module_.new_id();
  load_arguments();
  std::swap(e_.body, entry_);
  begin_block(body);
  emit_from_to(0, static_cast<uint32_t>(kernel_.ops.size()));
  TOLK_CHECK(branches_.empty(), "a block was not closed");

  Words function;
  put(function, kOpFunction, {module_.void_type(), entry, 0, module_.void_function_type()});
  put(function, kOpLabel, {first});
  function.insert(function.end(), variables_.begin(), variables_.end());
  function.insert(function.end(), entry_.begin(), entry_.end());
  put(function, kOpBranch, {body});
  function.insert(function.end(), e_.body.begin(), e_.body.end());
  put(function, kOpReturn, {});
  put(function, kOpFunctionEnd, {});
  return module_.assemble(kernel_.name, entry, function);
}

} // namespace tolk::spirv

namespace tolk {

std::string render_spirv(const KernelIR& kernel, const RenderOptions& options) {
  return spirv::KernelWriter(kernel, options).run();
}

} // namespace tolk
