#include "tolk/render/renderer.h"

#include "tolk/render/llvm/llvm_ir.h"
#include "tolk/render/spirv/spirv.h"

namespace tolk {
namespace {

// The plugin takes the kernel itself.
std::string render_nothing(const KernelIR&, const RenderOptions&) { return {}; }

constexpr Renderer kRenderers[] = {
    {"llvm-ir", TOLK_TARGET_LLVM_IR, "", 19, true, render_llvm_ir},
    {"spirv", TOLK_TARGET_SPIRV, "vulkan1.2", 0x00010500, false, render_spirv},
    {"kernel-ir", TOLK_TARGET_KERNEL_IR, "", TOLK_KERNEL_IR_VERSION, true, render_nothing},
};

constexpr uint64_t kLocalAlign = 64;

uint64_t aligned(uint64_t bytes) { return (bytes + kLocalAlign - 1) / kLocalAlign * kLocalAlign; }

} // namespace

const Renderer* find_renderer(const tolk_target& target) {
  for (const Renderer& renderer : kRenderers) {
    std::string_view own = renderer.dialect;
    if (renderer.kind != target.kind || (!own.empty() && (!target.dialect || own != target.dialect)))
      continue;
    if (target.version_min && renderer.version < target.version_min) continue;
    if (target.version_max && renderer.version > target.version_max) continue;
    return &renderer;
  }
  return nullptr;
}

uint32_t first_renderable(std::span<const tolk_target> targets) {
  for (uint32_t i = 0; i < targets.size(); ++i)
    if (find_renderer(targets[i])) return i;
  return 0;
}

uint64_t local_storage_offset(const KernelIR& kernel, uint32_t op) {
  uint64_t bytes = 0;
  for (const tolk_ir_op& before : std::span(kernel.ops).first(op))
    if (before.opcode == TOLK_IR_DEFINE_LOCAL)
      bytes += aligned(storage_bytes(static_cast<DType>(before.dtype), kernel.attr(before)));
  return bytes;
}

} // namespace tolk
