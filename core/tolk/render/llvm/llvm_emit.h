// Emits LLVM IR instructions: each function appends a line to `text` and returns the new register. Internal to
// the renderer.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tolk/render/emit/emitter.h"
#include "tolk/render/llvm/llvm_types.h"

namespace tolk::llvm_text {

class Emitter final : public emit::Emitter {
public:
  std::string text;

  // Appends strings, numbers, types and operands in turn: out("  br i1 ", gate, ", label %", name).
  template <class... Parts> void out(const Parts&... parts) { (put(parts), ...); }
  Value new_register(Type type) { return {Value::Form::Register, type, next_register_++, 0}; }
  // Starts a line "  %r7 = " for a new register.
  Value define(Type type);
  // A constant with its own bits in each lane.
  Value list(Type type, std::span<const uint64_t> lanes);
  uint64_t list_lane(const Value& list, uint64_t lane) const { return lists_[list.number + lane]; }

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
  Value bitcast(Value a, Kind to) override; // constants are retyped
  Value intrinsic(std::string_view name, std::initializer_list<Value> operands) override;
  Value saturating_cast(Value value, DType to) override;
  bool converts_f16() const override { return true; }

  Value extract(Value vector, uint64_t lane);
  Value insert(Value vector, Value scalar, uint64_t lane);
  Value splat(Value scalar, int lanes);
  // Lanes of a and b, which have one type; `mask` counts through a and then b.
  Value shuffle(Value a, Value b, std::span<const uint32_t> mask);
  // A poison vector.
  Value poison(Type type);

  // "float %r3" and "%r3".
  void typed(const Value& value);
  void operand(const Value& value);

private:
  void put(std::string_view part) { text += part; }
  void put(const char* part) { text += part; }
  void put(char part) { text += part; }
  void put(uint32_t part) { append_number(text, part); }
  void put(uint64_t part) { append_number(text, part); }
  void put(Type part) { append_type(text, part); }
  void put(const Value& part) { operand(part); }

  uint32_t next_register_ = 0;
  std::vector<uint64_t> lists_;
};

} // namespace tolk::llvm_text
