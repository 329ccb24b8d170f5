#include "tolk/render/spirv/spirv_module.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "tolk/base/check.h"

namespace tolk::spirv {
namespace {
constexpr uint32_t kMagic = 0x07230203, kVersion = 0x00010500, kGenerator = 0;
constexpr uint32_t kGlCompute = 5, kPhysicalStorageBuffer64 = 5348, kGlsl450 = 1;
} // namespace

void put(Words& to, uint32_t opcode, std::span<const uint32_t> operands) {
  to.push_back(static_cast<uint32_t>(operands.size() + 1) << 16 | opcode);
  to.insert(to.end(), operands.begin(), operands.end());
}

void append_string(Words& to, std::string_view text) {
  size_t start = to.size();
  to.resize(start + text.size() / 4 + 1); // with a NUL at least
  for (size_t i = 0; i < text.size(); ++i)
    to[start + i / 4] |= static_cast<uint32_t>(static_cast<unsigned char>(text[i])) << i % 4 * 8;
}

uint32_t Module::global(uint32_t opcode, uint32_t result_type, std::span<const uint32_t> operands) {
  Words key{opcode, result_type};
  key.insert(key.end(), operands.begin(), operands.end());
  auto [place, is_new] = globals_by_operands_.try_emplace(std::move(key), next_id_);
  if (!is_new) return place->second;
  uint32_t id = new_id();
  Words words;
  if (result_type) words.push_back(result_type);
  words.push_back(id);
  words.insert(words.end(), operands.begin(), operands.end());
  put(globals_, opcode, words);
  return id;
}

uint32_t Module::type(emit::Kind kind) {
  using emit::Kind;
  switch (kind) {
  case Kind::I1:
    return global(kOpTypeBool, 0, {});
  case Kind::I8:
    capability(kCapabilityInt8);
    break;
  case Kind::I16:
    capability(kCapabilityInt16);
    break;
  case Kind::I64:
    capability(kCapabilityInt64);
    break;
  case Kind::F64:
    capability(kCapabilityFloat64);
    break;
  case Kind::F16:
  case Kind::Ptr:
    TOLK_UNREACHABLE("a type that no SPIR-V value has here");
  default:
    break;
  }
  auto width = static_cast<uint32_t>(emit::bits(kind));
  return emit::is_float(kind) ? global(kOpTypeFloat, 0, {width}) : global(kOpTypeInt, 0, {width, 0u});
}

uint32_t Module::vector_type(emit::Kind kind, uint32_t lanes) {
  return global(kOpTypeVector, 0, {type(kind), lanes});
}

uint32_t Module::array_type(uint32_t element, uint32_t count) {
  return global(kOpTypeArray, 0, {element, u32(count)});
}

uint32_t Module::pointer_type(uint32_t storage_class, uint32_t pointee) {
  return global(kOpTypePointer, 0, {storage_class, pointee});
}

uint32_t Module::runtime_array_type(uint32_t element, uint32_t stride) {
  uint32_t before = next_id_, id = global(kOpTypeRuntimeArray, 0, {element});
  if (id == before) decorate(id, {kDecorationArrayStride, stride});
  return id;
}

uint32_t Module::block_type(uint32_t member, bool read_only) {
  uint32_t& id = blocks_[member];
  if (id) return id;
  id = new_id();
  put(globals_, kOpTypeStruct, {id, member});
  decorate(id, {kDecorationBlock});
  put(decorations_, kOpMemberDecorate, {id, 0, kDecorationOffset, 0});
  if (read_only) put(decorations_, kOpMemberDecorate, {id, 0, kDecorationNonWritable});
  return id;
}

uint32_t Module::constant(emit::Kind kind, uint64_t bits) {
  if (kind == emit::Kind::I1) return global(bits & 1 ? kOpConstantTrue : kOpConstantFalse, type(kind), {});
  int width = emit::bits(kind);
  if (width == 64)
    return global(kOpConstant, type(kind), {static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32)});
  return global(kOpConstant, type(kind), {static_cast<uint32_t>(bits & ~uint64_t{0} >> (64 - width))});
}

uint32_t Module::spec_constant(uint32_t id, uint32_t value) {
  uint32_t result = new_id();
  put(globals_, kOpSpecConstant, {type(emit::Kind::I32), result, value});
  decorate(result, {kDecorationSpecId, id});
  return result;
}

uint32_t Module::spec_composite(uint32_t type, std::span<const uint32_t> parts) {
  Words words{type, new_id()};
  words.insert(words.end(), parts.begin(), parts.end());
  put(globals_, kOpSpecConstantComposite, words);
  return words[1];
}

uint32_t Module::variable(uint32_t storage_class, uint32_t pointee) {
  uint32_t pointer = pointer_type(storage_class, pointee), id = new_id();
  put(globals_, kOpVariable, {pointer, id, storage_class});
  interface_.push_back(id);
  return id;
}

void Module::decorate(uint32_t id, std::initializer_list<uint32_t> what) {
  Words words{id};
  words.insert(words.end(), what);
  put(decorations_, kOpDecorate, words);
}

void Module::execution_mode(uint32_t mode, std::initializer_list<uint32_t> operands) {
  Words& words = modes_.emplace_back(Words{mode});
  words.insert(words.end(), operands);
}

uint32_t Module::glsl() {
  if (!glsl_) glsl_ = new_id();
  return glsl_;
}

std::string Module::assemble(std::string_view name, uint32_t entry, const Words& function) {
  Words all{kMagic, kVersion, kGenerator, next_id_, 0};
  for (uint32_t capability : capabilities_) put(all, kOpCapability, {capability});
  if (glsl_) {
    Words words{glsl_};
    append_string(words, "GLSL.std.450");
    put(all, kOpExtInstImport, words);
  }
  put(all, kOpMemoryModel, {kPhysicalStorageBuffer64, kGlsl450});
  Words words{kGlCompute, entry};
  append_string(words, name);
  words.insert(words.end(), interface_.begin(), interface_.end());
  put(all, kOpEntryPoint, words);
  for (const Words& mode : modes_) {
    words = {entry};
    words.insert(words.end(), mode.begin(), mode.end());
    put(all, kOpExecutionMode, words);
  }
  for (std::span<const uint32_t> section : {std::span<const uint32_t>(decorations_), {globals_}, {function}})
    all.insert(all.end(), section.begin(), section.end());
  if constexpr (std::endian::native == std::endian::big)
    for (uint32_t& word : all) word = __builtin_bswap32(word);
  std::string bytes(all.size() * 4, '\0');
  std::memcpy(bytes.data(), all.data(), bytes.size());
  return bytes;
}

} // namespace tolk::spirv
