// Emits SPIR-V instructions for scalars: each function appends to `body` and returns the new id. Internal to the
// renderer.
#pragma once

#include <initializer_list>
#include <string_view>
#include <unordered_map>

#include "tolk/render/emit/emitter.h"
#include "tolk/render/spirv/spirv_module.h"

namespace tolk::spirv {

using emit::bits;
using emit::constant;
using emit::Kind;
using emit::Type;
using emit::Value;

class SpirvEmitter final : public emit::Emitter {
public:
  // With `has_f64`, f32 quotients and square roots are computed in f64 and rounded. Vulkan promises 2.5 ulp for
  // a division. A quotient or root of 24-bit numbers is further from the midpoint of two 24-bit numbers than
  // 2^-50 of itself, so an error of some ulp of f64 does not change the rounding.
  SpirvEmitter(Module& module, bool has_f64) : module_(module), has_f64_(has_f64) {}

  Words body;

  using emit::Emitter::binary;
  using emit::Emitter::fcmp;
  using emit::Emitter::icmp;
  using emit::Emitter::select;
  Value binary(std::string_view op, Value a, Value b) override;
  Value fneg(Value a) override;
  Value icmp(std::string_view predicate, Value a, Value b) override;
  Value fcmp(std::string_view predicate, Value a, Value b) override;
  Value select(Value condition, Value a, Value b) override;
  Value convert(std::string_view op, Value a, Kind to) override;
  Value bitcast(Value a, Kind to) override;
  Value intrinsic(std::string_view name, std::initializer_list<Value> operands) override;
  Value saturating_cast(Value, DType) override { return {}; } // undefined out of range
  bool converts_f16() const override { return false; }        // the rounding is the device's choice

  // The id of a value; constants are made when they are first used.
  uint32_t id(const Value& value);
  // An instruction with a result of a kind, or of any type.
  Value define(uint32_t opcode, Kind kind, std::initializer_list<uint32_t> operands);
  uint32_t define_id(uint32_t opcode, uint32_t type, std::initializer_list<uint32_t> operands);
  void instruction(uint32_t opcode, std::initializer_list<uint32_t> operands) { put(body, opcode, operands); }

private:
  Value compare_extended(std::string_view predicate, const Value& a, const Value& b);
  Value trunc_f64(Value a);
  Value glsl(uint32_t instruction, Value a);
  Value is_nan(Value a);

  Module& module_;
  bool has_f64_;
  std::unordered_map<uint32_t, Value> extended_; // the i32 that an i64 is the sign extension of, by id
};

} // namespace tolk::spirv
