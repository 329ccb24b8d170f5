// LLVM's spelling of types and constants. Internal to the renderer.
#pragma once

#include <cstdint>
#include <string>

#include "tolk/render/emit/value.h"

namespace tolk::llvm_text {

using emit::bits;
using emit::constant;
using emit::float_constant;
using emit::int_kind;
using emit::is_float;
using emit::Kind;
using emit::memory_type;
using emit::register_type;
using emit::Type;
using emit::Value;

// Appends "float", "<8 x float>"; the suffix of an intrinsic, "f32" or "v8f32"; a scalar constant whose bits
// survive.
void append_type(std::string& text, Type type);
void append_suffix(std::string& text, Type type);
void append_constant(std::string& text, Kind kind, uint64_t bits);
void append_number(std::string& text, uint64_t number);

} // namespace tolk::llvm_text
