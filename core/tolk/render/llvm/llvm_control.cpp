// Loops, branches, and register storage as values: a loop gets a phi for each slot that is stored inside it,
// an IF one behind it. A header's phis need the values of the latch, so their lines are put in when the loop
// closes.
#include "tolk/base/check.h"
#include "tolk/render/llvm/llvm_kernel.h"

namespace tolk::llvm_text {

void KernelWriter::put_label(std::string& text, Label label) {
  text += label.role;
  append_number(text, label.op);
}

void KernelWriter::begin_block(Label label) {
  put_label(e_.text, label);
  e_.text += ":\n";
  block_ = label;
}

// What a slot holds; before the first store that is zero.
Value KernelWriter::slot_value(uint32_t slot) const {
  if (slots_[slot]) return slots_[slot];
  const tolk_ir_op& owner = kernel_.ops[slot_owner_[slot]];
  return constant(register_type(static_cast<DType>(owner.dtype), owner.lanes), 0);
}

bool KernelWriter::runs_at_least_once(uint32_t extent) const {
  if (is_opcode(extent, TOLK_IR_CONST)) return constant_value(extent) >= 1;
  if (is_opcode(extent, TOLK_IR_PARAM)) return kernel_.params[attr(extent)].min >= 1;
  return false;
}

void KernelWriter::open_range(uint32_t k) {
  uint32_t extent = sources(k)[0];
  OpenBlock block;
  block.op = k;
  block.before = block_;
  block.extent = wide(extent);
  block.guarded = !runs_at_least_once(extent);
  block.unrolled = block.extent.is_constant() && block.extent.bits == 1;
  if (block.unrolled) {
    set_index(k, constant({Kind::I64}, 0));
    open_.push_back(std::move(block));
    return;
  }
  if (block.guarded) {
    Value any = e_.icmp("sgt", block.extent, 0);
    e_.out("  br i1 ", any, ", label %L", k, ", label %X", k, '\n');
  } else {
    e_.out("  br label %L", k, '\n');
  }
  begin_block({'L', k});
  block.phi_position = e_.text.size();
  block.index = e_.new_register({Kind::I64});
  for (uint32_t slot : stored_[k]) {
    block.entry_values.push_back(slot_value(slot));
    block.phis.push_back(e_.new_register(block.entry_values.back().type));
    slots_[slot] = block.phis.back();
  }
  set_index(k, block.index);
  open_.push_back(std::move(block));
}

void KernelWriter::close_range(uint32_t k) {
  TOLK_CHECK(!open_.empty() && open_.back().op == sources(k)[0], "END does not close the innermost loop");
  OpenBlock block = std::move(open_.back());
  open_.pop_back();
  if (block.unrolled) return;
  uint32_t range = block.op;
  const std::vector<uint32_t>& stored = stored_[range];

  auto phi = [&](Value result, Value first, Label from, Value next) {
    e_.out("  ", result, " = phi ", result.type, " [ ", first, ", %");
    put_label(e_.text, from);
    e_.out(" ], [ ", next, ", %N", range, " ]\n");
  };
  e_.out("  br label %N", range, '\n');
  begin_block({'N', range});
  Value next = e_.define({Kind::I64});
  e_.out("add nuw nsw i64 ", block.index, ", 1\n");
  Value more = e_.icmp("slt", next, block.extent);
  uint32_t node = kFirstStorageNode + 3 * storage_count_ + static_cast<uint32_t>(loops_.size());
  loops_.push_back(range);
  e_.out("  br i1 ", more, ", label %L", range, ", label %X", range, ", !llvm.loop !", node, '\n');
  begin_block({'X', range});

  std::string body;
  std::swap(body, e_.text); // the phis' lines go into the header
  phi(block.index, constant({Kind::I64}, 0), block.before, next);
  for (size_t i = 0; i < stored.size(); ++i)
    phi(block.phis[i], block.entry_values[i], block.before, slot_value(stored[i]));
  std::swap(body, e_.text);
  e_.text.insert(block.phi_position, body);
  if (!block.guarded) return;
  for (size_t i = 0; i < stored.size(); ++i) {
    Value last = slot_value(stored[i]);
    slots_[stored[i]] = e_.new_register(last.type);
    phi(slots_[stored[i]], block.entry_values[i], block.before, last);
  }
}

void KernelWriter::open_if(uint32_t k) {
  OpenBlock block;
  block.op = k;
  block.before = block_;
  for (uint32_t slot : stored_[k]) block.entry_values.push_back(slot_value(slot));
  e_.out("  br i1 ", narrow(sources(k)[0]), ", label %I", k, ", label %X", k, '\n');
  begin_block({'I', k});
  open_.push_back(std::move(block));
}

void KernelWriter::close_if(uint32_t k) {
  TOLK_CHECK(!open_.empty() && open_.back().op == sources(k)[0], "ENDIF does not close the innermost block");
  OpenBlock block = std::move(open_.back());
  open_.pop_back();
  Label last_block = block_;
  e_.out("  br label %X", block.op, '\n');
  begin_block({'X', block.op});
  const std::vector<uint32_t>& stored = stored_[block.op];
  for (size_t i = 0; i < stored.size(); ++i) {
    Value inside = slot_value(stored[i]);
    Value merged = e_.define(inside.type);
    e_.out("phi ", inside.type, " [ ", block.entry_values[i], ", %");
    put_label(e_.text, block.before);
    e_.out(" ], [ ", inside, ", %");
    put_label(e_.text, last_block);
    e_.out(" ]\n");
    slots_[stored[i]] = merged;
  }
}

} // namespace tolk::llvm_text
