/* target.h - what a device consumes. The host renders a kernel for one of the device's targets; the plugin
 * compiles it. */
#ifndef TOLK_PLUGIN_TARGET_H
#define TOLK_PLUGIN_TARGET_H

#include <tolk/plugin/kernel_ir.h>
#include <tolk/plugin/types.h>

/* tolk_target.kind: what tolk_source.text holds. */
enum {
  TOLK_TARGET_SOURCE = 1, /* program text; the dialect is its language */
  TOLK_TARGET_SPIRV = 2,  /* SPIR-V words */
  TOLK_TARGET_LLVM_IR =
      3, /* LLVM IR text with opaque pointers, or bitcode; the dialect is the target triple */
  TOLK_TARGET_KERNEL_IR = 4, /* a tolk_kernel_ir, see kernel_ir.h; needs no text at all */
  TOLK_TARGET_NATIVE = 5     /* a binary made by the host */
};

/* tolk_target.flags */
enum {
  TOLK_TARGET_LOAD_DIRECT = 1, /* there is no compile step: `load` gets tolk_source.text as the binary */
  TOLK_TARGET_LOCAL_SIZE_IN_SOURCE = 2, /* the work-group size must be known when compiling */
  TOLK_TARGET_OUT_OF_PROCESS_OK = 4     /* compile may run in a helper process */
};

/* tolk_target.features: operations that may or may not exist. The bit is the opcode in kernel_ir_ops.def, so
 * for TOLK_TARGET_KERNEL_IR the mask lists opcodes. The host decomposes what is missing before it renders.
 * Operations without a bit here are always taken. A set bit promises the accuracy in that table for every
 * float type in dtype_alu: SQRT and TRUNC exact, MULACC rounded once, EXP2 LOG2 SIN EXP LOG COS within 1 unit
 * in the last place of the dtype. */
#define TOLK_FEATURE_MULACC (UINT64_C(1) << TOLK_IR_MULACC)
#define TOLK_FEATURE_SQRT (UINT64_C(1) << TOLK_IR_SQRT)
#define TOLK_FEATURE_TRUNC (UINT64_C(1) << TOLK_IR_TRUNC)
#define TOLK_FEATURE_EXP2 (UINT64_C(1) << TOLK_IR_EXP2)
#define TOLK_FEATURE_LOG2 (UINT64_C(1) << TOLK_IR_LOG2)
#define TOLK_FEATURE_SIN (UINT64_C(1) << TOLK_IR_SIN)
#define TOLK_FEATURE_EXP (UINT64_C(1) << TOLK_IR_EXP)
#define TOLK_FEATURE_LOG (UINT64_C(1) << TOLK_IR_LOG)
#define TOLK_FEATURE_COS (UINT64_C(1) << TOLK_IR_COS)
#define TOLK_FEATURE_ALL                                                                                     \
  (TOLK_FEATURE_MULACC | TOLK_FEATURE_SQRT | TOLK_FEATURE_TRUNC | TOLK_FEATURE_EXP2 | TOLK_FEATURE_LOG2 |    \
   TOLK_FEATURE_SIN | TOLK_FEATURE_EXP | TOLK_FEATURE_LOG | TOLK_FEATURE_COS)

typedef struct tolk_target {
  uint32_t struct_size;
  uint32_t kind;        /* TOLK_TARGET_* */
  uint32_t flags;       /* TOLK_TARGET_LOAD_DIRECT and so on */
  uint32_t version_min; /* of the dialect, SPIR-V, LLVM (major number) or TOLK_KERNEL_IR_VERSION; 0 any */
  uint32_t version_max; /* the same; 0 any */
  uint32_t reserved;
  uint64_t features;   /* TOLK_FEATURE_* */
  const char* dialect; /* SOURCE: c99, opencl-c, hip-cpp, cuda-c, msl, glsl-450, wgsl; SPIR-V: vulkan1.2,
                          opencl; LLVM_IR: triple; KERNEL_IR: "kernel-ir" */
  const char* arch; /* processor name for renderer and compiler, such as skylake or gfx1100; empty: generic */
  const char* arch_features; /* comma-separated, such as +avx2,+fma; empty when `arch` says all */
  const char* data_layout;   /* LLVM_IR: the module's data layout; empty otherwise */
  const void* params;        /* NULL in minor 0 */
} tolk_target;

/* HOW A CPU KERNEL IS CALLED. A kernel in LLVM_IR for a CPU triple, or in the dialect c99, is a function
 *
 *   void name(void* const* bufs, const uint64_t* vals, uint64_t tile_begin, uint64_t tile_end, void*
 * scratch);
 *
 * bufs: one pointer per buffer parameter, offset already added. Only the dtype's natural alignment holds.
 * vals: one slot per value parameter, raw bits, the low bits of the slot for narrower types.
 * The call does the tiles tile_begin .. tile_end-1 of the launch's grid[0]; grid[1], grid[2] and local[]
 * are 1. Tiles are independent: they may run in any order and concurrently. scratch: tolk_source.shared_bytes
 * bytes, aligned to 64, owned by this call alone, contents undefined; NULL when shared_bytes is 0. */
typedef void (*tolk_cpu_kernel)(void* const* bufs, const uint64_t* vals, uint64_t tile_begin,
                                uint64_t tile_end, void* scratch);

#endif
