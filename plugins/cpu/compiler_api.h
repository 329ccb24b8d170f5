// The private border between the CPU plugin and its compiler library, which is the only file that contains
// LLVM and is opened at the first kernel that no cache has. Plain C, no state shared beside the calls. Both
// files come from one build: `version` guards against a mix.
#pragma once

#include <stdint.h>

#define TOLK_CPU_COMPILER_VERSION 1
#define TOLK_CPU_COMPILER_SYMBOL "tolk_cpu_compiler_v1"

typedef struct tolk_cpu_compiler {
  uint32_t version; /* TOLK_CPU_COMPILER_VERSION */
  uint32_t reserved;
  const char* llvm_version; /* "19.1.7" */
  /* LLVM IR text (`size` bytes, the byte after them is 0) to a relocatable ELF object for the processor that
   * this process runs on. `object` or nothing is called once, `log` any number of times; both during the
   * call. Returns 0 when there is an object. Any thread, concurrently. `optimize` 0 compiles quickly. */
  int32_t (*compile)(const char* text, uint64_t size, int32_t optimize, void* context,
                     void (*object)(void* context, const void* data, uint64_t size),
                     void (*log)(void* context, const char* text, uint64_t size));
  /* Machine code at `address` as text, one instruction a line, through `out`. Returns 0 on success. */
  int32_t (*disassemble)(const uint8_t* code, uint64_t size, uint64_t address, void* context,
                         void (*out)(void* context, const char* text, uint64_t size));
} tolk_cpu_compiler;

typedef const tolk_cpu_compiler* (*tolk_cpu_compiler_fn)(void);
