#include "tolk/render/llvm/llvm_ir.h"

#include <algorithm>
#include <string>

#include "tolk/base/check.h"
#include "tolk/base/error.h"
#include "tolk/render/llvm/llvm_kernel.h"

namespace tolk {

std::string render_llvm_ir(const KernelIR& kernel, const RenderOptions& options) {
  return llvm_text::KernelWriter(kernel, options).run();
}

namespace llvm_text {

KernelWriter::KernelWriter(const KernelIR& kernel, const RenderOptions& options)
    : KernelView(kernel), may_alias_(options.may_alias), need_(kernel.ops.size()),
      non_negative_(kernel.ops.size()), narrow_(kernel.ops.size()), wide_(kernel.ops.size()),
      storage_number_(kernel.ops.size()), first_slot_(kernel.ops.size(), kNoSlot),
      stored_(kernel.ops.size()) {
  e_.text.reserve(kernel.ops.size() * 96);
  for (uint32_t k = 0; k < kernel.ops.size(); ++k) {
    bool is_buffer = is_opcode(k, TOLK_IR_PARAM) && kernel.params.at(attr(k)).kind == TOLK_PARAM_BUFFER;
    if (is_buffer || is_opcode(k, TOLK_IR_DEFINE_LOCAL)) storage_number_[k] = storage_count_++;
    if (is_opcode(k, TOLK_IR_SPECIAL) && attr(k) == 0) has_tiles_ = true;
  }
}

int64_t KernelWriter::constant_value(uint32_t k) const {
  int shift = 64 - tolk::bits(dtype(k));
  uint64_t high = attr(k) << shift;
  return is_signed(dtype(k)) ? static_cast<int64_t>(high) >> shift : static_cast<int64_t>(high >> shift);
}

// A DEFINE_REG becomes values when every access is one whole element at a constant index.
void KernelWriter::find_slots() {
  constexpr uint64_t kMostSlots = 1024;
  std::vector<bool> eligible(kernel_.ops.size());
  for (uint32_t k = 0; k < kernel_.ops.size(); ++k) {
    if (is_opcode(k, TOLK_IR_DEFINE_REG)) eligible[k] = attr(k) <= kMostSlots;
    if (!is_opcode(k, TOLK_IR_LOAD) && !is_opcode(k, TOLK_IR_STORE)) continue;
    uint32_t storage = sources(k)[0], index = sources(k)[1];
    if (!eligible[storage]) continue;
    bool whole = op(k).lanes == op(storage).lanes && is_opcode(index, TOLK_IR_CONST) &&
                 op(index).lanes == 1 && constant_value(index) >= 0 &&
                 static_cast<uint64_t>(constant_value(index)) < attr(storage);
    size_t gate = is_opcode(k, TOLK_IR_LOAD) ? 2 : 3;
    if (!whole || sources(k).size() > gate) eligible[storage] = false;
  }
  for (uint32_t k = 0; k < kernel_.ops.size(); ++k) {
    if (!eligible[k]) continue;
    first_slot_[k] = static_cast<uint32_t>(slot_owner_.size());
    slot_owner_.resize(slot_owner_.size() + attr(k), k);
  }
  slots_.resize(slot_owner_.size());
}

void KernelWriter::find_stored_slots() {
  std::vector<uint32_t> open;
  for (uint32_t k = 0; k < kernel_.ops.size(); ++k) {
    switch (op(k).opcode) {
    case TOLK_IR_RANGE:
    case TOLK_IR_IF:
      open.push_back(k);
      break;
    case TOLK_IR_STORE: {
      uint32_t first = first_slot_[sources(k)[0]];
      if (first != kNoSlot && !open.empty())
        stored_[open.back()].push_back(first + static_cast<uint32_t>(attr(sources(k)[1])));
      break;
    }
    case TOLK_IR_END:
    case TOLK_IR_ENDIF: {
      TOLK_CHECK(!open.empty(), "a block is closed that was not opened");
      uint32_t opener = open.back();
      open.pop_back();
      std::vector<uint32_t>& slots = stored_[opener];
      std::sort(slots.begin(), slots.end());
      slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
      std::erase_if(slots, [&](uint32_t slot) { return slot_owner_[slot] > opener; });
      if (!open.empty()) stored_[open.back()].insert(stored_[open.back()].end(), slots.begin(), slots.end());
      break;
    }
    default:
      break;
    }
  }
  TOLK_CHECK(open.empty(), "a block was not closed");
}

// Whether the operation can be computed in 64 bits instead of 32 with the same value.
bool KernelWriter::widens(uint32_t k) const {
  switch (op(k).opcode) {
  case TOLK_IR_CONST:
  case TOLK_IR_RANGE:
  case TOLK_IR_SPECIAL:
    return true;
  case TOLK_IR_ADD:
  case TOLK_IR_SUB:
  case TOLK_IR_MUL:
  case TOLK_IR_NEG:
    return (op(k).flags & TOLK_IR_NO_WRAP) != 0;
  default:
    return false;
  }
}

void KernelWriter::find_needs() {
  auto ask_index = [&](uint32_t k) {
    if (dtype(k) == DType::I32 && op(k).lanes == 1)
      need_[k].wide = true;
    else
      need_[k].narrow = true;
  };
  for (uint32_t k = static_cast<uint32_t>(kernel_.ops.size()); k-- > 0;) {
    std::span<const uint32_t> src = sources(k);
    if (need_[k].wide && !widens(k)) need_[k].narrow = true;
    switch (op(k).opcode) {
    case TOLK_IR_LOAD:
    case TOLK_IR_STORE: {
      bool is_store = is_opcode(k, TOLK_IR_STORE);
      if (!is_store && !need_[k].narrow) break;
      need_[src[0]].narrow = true;
      // The lanes of an index vector are used one by one: those that are at hand need not become a vector.
      if (is_opcode(src[1], TOLK_IR_BUILD) && op(src[1]).lanes > 1) {
        for (uint32_t lane : sources(src[1])) ask_index(lane);
      } else {
        ask_index(src[1]);
      }
      for (uint32_t s : src.subspan(2)) need_[s].narrow = true;
      break;
    }
    case TOLK_IR_RANGE:
      ask_index(src[0]);
      break;
    case TOLK_IR_IF:
      need_[src[0]].narrow = true;
      break;
    case TOLK_IR_END:
    case TOLK_IR_ENDIF:
      break;
    default:
      for (uint32_t s : src) {
        if (need_[k].narrow) need_[s].narrow = true;
        if (need_[k].wide && widens(k)) need_[s].wide = true;
      }
    }
  }
}

void KernelWriter::find_signs() {
  for (uint32_t k = 0; k < kernel_.ops.size(); ++k) {
    if (op(k).dtype == TOLK_DTYPE_NONE || !is_int(dtype(k))) continue;
    std::span<const uint32_t> src = sources(k);
    auto known = [&](size_t i) { return non_negative_[src[i]]; };
    bool exact = (op(k).flags & TOLK_IR_NO_WRAP) != 0;
    bool result = is_unsigned(dtype(k));
    switch (op(k).opcode) {
    case TOLK_IR_PARAM: {
      const tolk_param& param = kernel_.params[attr(k)];
      result = result || (param.kind == TOLK_PARAM_VALUE && param.min >= 0);
      break;
    }
    case TOLK_IR_RANGE:
    case TOLK_IR_SPECIAL:
      result = true;
      break;
    case TOLK_IR_CONST:
      result = result || constant_value(k) >= 0;
      break;
    case TOLK_IR_ADD:
    case TOLK_IR_MUL:
      result = result || (exact && known(0) && known(1));
      break;
    case TOLK_IR_CDIV:
    case TOLK_IR_OR:
    case TOLK_IR_XOR:
      result = result || (known(0) && known(1));
      break;
    case TOLK_IR_CMOD:
    case TOLK_IR_SHR:
    case TOLK_IR_SPLAT:
      result = result || known(0);
      break;
    case TOLK_IR_AND:
    case TOLK_IR_MAX:
      result = result || known(0) || known(1);
      break;
    case TOLK_IR_WHERE:
      result = result || (known(1) && known(2));
      break;
    case TOLK_IR_CAST: {
      DType from = dtype(src[0]);
      bool kept = is_bool(from) || (is_int(from) && known(0) && tolk::bits(from) < tolk::bits(dtype(k)));
      result = result || kept;
      break;
    }
    default:
      break;
    }
    non_negative_[k] = result;
  }
}

Value KernelWriter::narrow(uint32_t k) {
  TOLK_CHECK(narrow_[k], "an operand is used before it has a value");
  return narrow_[k];
}

Value KernelWriter::wide(uint32_t k) {
  if (dtype(k) == DType::I64) return narrow(k);
  TOLK_CHECK(wide_[k], "an index is used before it has a value");
  return wide_[k];
}

// The value of a RANGE or SPECIAL, given as i64.
void KernelWriter::set_index(uint32_t k, Value i64) {
  wide_[k] = i64;
  if (dtype(k) == DType::I64) {
    narrow_[k] = i64;
  } else if (i64.is_constant()) {
    narrow_[k] = constant(Type{Kind::I32}, i64.bits);
  } else if (need_[k].narrow) {
    narrow_[k] = e_.convert("trunc", i64, Kind::I32);
  }
}

// Parameters are read once, before the tile loop, wherever the list has them.
void KernelWriter::emit_param(uint32_t k) {
  const tolk_param& param = kernel_.params[attr(k)];
  uint64_t number = attr(k);
  std::swap(e_.text, entry_);
  if (param.kind == TOLK_PARAM_BUFFER) {
    Value slot = e_.define({Kind::Ptr});
    e_.out("getelementptr inbounds ptr, ptr %bufs, i64 ", number, '\n');
    narrow_[k] = e_.define({Kind::Ptr});
    e_.out("load ptr, ptr ", slot, ", align 8\n");
  } else {
    uint64_t buffers = 0;
    for (uint64_t i = 0; i < number; ++i) buffers += kernel_.params[i].kind == TOLK_PARAM_BUFFER;
    Value slot = e_.define({Kind::Ptr});
    e_.out("getelementptr inbounds i64, ptr %vals, i64 ", number - buffers, '\n');
    Value raw = e_.define({Kind::I64});
    e_.out("load i64, ptr ", slot, ", align 8\n");
    Kind kind = register_type(dtype(k), 1).kind;
    // The slot's upper bits mean nothing.
    if (is_bool(dtype(k)))
      narrow_[k] = e_.icmp("ne", e_.binary("and", raw, 0xff), 0);
    else if (tolk::is_float(dtype(k)) && bits(kind) < 64)
      narrow_[k] = e_.bitcast(e_.convert("trunc", raw, int_kind(bits(kind))), kind);
    else if (tolk::is_float(dtype(k)))
      narrow_[k] = e_.bitcast(raw, kind);
    else
      narrow_[k] = e_.resize(raw, kind, false);
    if (need_[k].wide) wide_[k] = e_.convert(non_negative_[k] ? "zext" : "sext", narrow_[k], Kind::I64);
  }
  std::swap(e_.text, entry_);
}

void KernelWriter::emit_special(uint32_t k) {
  if (attr(k) == 0) {
    set_index(k, tile_);
    return;
  }
  if (attr(k, 1) != 1)
    throw InternalError("an LLVM IR kernel has one tile axis and no work-items; SPECIAL " +
                        std::to_string(attr(k)) + " must have extent 1, found " + std::to_string(attr(k, 1)));
  set_index(k, constant({Kind::I64}, 0));
}

void KernelWriter::emit(uint32_t k) {
  switch (op(k).opcode) {
  case TOLK_IR_PARAM:
    if (need_[k].narrow || need_[k].wide) emit_param(k);
    return;
  case TOLK_IR_SPECIAL:
    return emit_special(k);
  case TOLK_IR_DEFINE_LOCAL:
    return define_local(k);
  case TOLK_IR_DEFINE_REG:
    return define_register(k);
  case TOLK_IR_CONST:
    narrow_[k] = constant(register_type(dtype(k), op(k).lanes), attr(k));
    if (dtype(k) == DType::I32) wide_[k] = constant({Kind::I64}, static_cast<uint64_t>(constant_value(k)));
    return;
  case TOLK_IR_RANGE:
    return open_range(k);
  case TOLK_IR_END:
    return close_range(k);
  case TOLK_IR_IF:
    return open_if(k);
  case TOLK_IR_ENDIF:
    return close_if(k);
  case TOLK_IR_BARRIER: // a group has one item
    return;
  case TOLK_IR_STORE:
    return store(k);
  case TOLK_IR_LOAD:
    if (need_[k].narrow) load(k);
    break;
  default:
    if (need_[k].narrow) narrow_[k] = alu(k);
    if (need_[k].wide && widens(k)) wide_[k] = alu_wide(k);
  }
  if (need_[k].wide && !wide_[k])
    wide_[k] = e_.convert(non_negative_[k] ? "zext" : "sext", narrow(k), Kind::I64);
}

std::string KernelWriter::run() {
  TOLK_CHECK(!kernel_.name.empty(), "a kernel without a name");
  find_slots();
  find_stored_slots();
  find_needs();
  find_signs();
  if (has_tiles_) {
    block_ = {'T', 0};
    tile_ = e_.new_register({Kind::I64});
  }
  for (uint32_t k = 0; k < kernel_.ops.size(); ++k) emit(k);
  return frame();
}

// The function around the body, and the metadata behind it.
std::string KernelWriter::frame() {
  Emitter head;
  head.text.reserve(e_.text.size() + entry_.size() + 2048);
  for (uint32_t i = 0; i < substitutes_.size(); ++i) {
    const Substitute& s = substitutes_[i];
    head.out("@otherwise", i, " = private unnamed_addr constant [", s.lanes, " x ", Type{s.kind}, "] ");
    if (s.bits == 0) head.out("zeroinitializer");
    for (uint32_t lane = 0; s.bits != 0 && lane < s.lanes; ++lane)
      head.out(lane ? ", " : "[", Type{s.kind}, ' ', constant({s.kind}, s.bits),
               lane + 1 == s.lanes ? "]" : "");
    head.out(", align 64\n");
  }
  head.out(
      "define void @", kernel_.name,
      "(ptr noalias nocapture readonly %bufs, ptr noalias nocapture readonly %vals, i64 %tile_begin, i64 "
      "%tile_end, ptr noalias %scratch) #0 {\nB0:\n",
      entry_);
  if (has_tiles_) {
    head.out(
        "  %empty = icmp uge i64 %tile_begin, %tile_end\n  br i1 %empty, label %done, label %T0\nT0:\n  ",
        tile_, " = phi i64 [ %tile_begin, %B0 ], [ %tile_next, %tile_latch ]\n", e_.text,
        "  br label %tile_latch\ntile_latch:\n  %tile_next = add nuw i64 ", tile_,
        ", 1\n  %more = icmp ult i64 %tile_next, %tile_end\n  br i1 %more, label %T0, label %done\ndone:\n");
  } else {
    head.out(e_.text);
  }
  head.out("  ret void\n}\n\nattributes #0 = { nounwind willreturn \"no-builtins\" "
           "\"no-trapping-math\"=\"true\" }\n");

  bool scopes = storage_count_ > 1 && !may_alias_;
  if (!scopes && loops_.empty()) return std::move(head.text);
  head.out("\n!0 = distinct !{!0}\n!1 = !{!\"llvm.loop.unroll.disable\"}\n"
           "!2 = !{!\"llvm.loop.vectorize.enable\", i1 false}\n");
  for (uint32_t s = 0; scopes && s < storage_count_; ++s) {
    uint32_t node = kFirstStorageNode + 3 * s;
    head.out('!', node, " = distinct !{!", node, ", !", kDomainNode, "}\n!", node + 1, " = !{!", node, "}\n!",
             node + 2, " = !{");
    bool first = true;
    for (uint32_t other = 0; other < storage_count_; ++other) {
      if (other == s) continue;
      head.out(first ? "!" : ", !", kFirstStorageNode + 3 * other);
      first = false;
    }
    head.out("}\n");
  }
  for (uint32_t i = 0; i < loops_.size(); ++i) {
    uint32_t node = kFirstStorageNode + 3 * storage_count_ + i;
    head.out('!', node, " = distinct !{!", node, ", !", kNoUnrollNode, ", !", kNoVectorizeNode, "}\n");
  }
  return std::move(head.text);
}

} // namespace llvm_text
} // namespace tolk
