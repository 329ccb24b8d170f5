/* kernel_ir.h - a kernel as flat C arrays.
 *
 * This is the one form of a compiled kernel that has no text: target kind TOLK_TARGET_KERNEL_IR, the input of
 * the reference interpreter, the form of golden tests and bug reports. It is a list of operations in
 * execution order. Operation number k defines value k; a source is the number of an earlier operation.
 * RANGE/END and IF/ENDIF nest properly; a value defined inside a block is used only inside it. All pointers
 * are borrowed and read-only.
 *
 * Work: a launch runs the list once for every work-item of every work-group. On devices whose
 * local_product_max is 1 (CPUs) a work-group has one item and the group index counts tiles.
 *
 *   PARAM buffer 0 (f32)        %0
 *   PARAM buffer 1 (f32)        %1
 *   SPECIAL group 0 (i32)       %2
 *   LOAD f32x8  %1 %2           %3      eight consecutive floats from index %2
 *   ADD  f32x8  %3 %3           %4
 *   STORE       %0 %2 %4                                                                        */
#ifndef TOLK_PLUGIN_KERNEL_IR_H
#define TOLK_PLUGIN_KERNEL_IR_H

#include <tolk/plugin/types.h>

#define TOLK_KERNEL_IR_VERSION 0x00010000u /* major << 16 | minor */

enum {
#define TOLK_IR(NAME, code, lo, hi, meaning) TOLK_IR_##NAME = code,
#include <tolk/plugin/kernel_ir_ops.def>
#undef TOLK_IR
  TOLK_IR_OPCODE_LIMIT = 64
};

enum {
  TOLK_IR_NO_WRAP =
      1 /* ADD, SUB, MUL, SHL, NEG of integers: the exact result fits the dtype (index arithmetic) */
};

typedef struct tolk_ir_op {
  uint16_t opcode; /* TOLK_IR_* */
  uint8_t dtype;   /* TOLK_DTYPE_* of the result; element type for storage; of the value for STORE */
  uint8_t flags;   /* TOLK_IR_NO_WRAP */
  uint16_t lanes;  /* vector width of the result, 1 for scalars */
  uint16_t source_count;
  uint32_t first_source; /* index into sources */
  uint32_t first_attr;   /* index into attrs */
  uint64_t reserved;     /* zero */
} tolk_ir_op;

typedef struct tolk_kernel_ir {
  uint32_t struct_size;
  uint32_t version; /* TOLK_KERNEL_IR_VERSION */
  const tolk_ir_op* ops;
  const uint32_t* sources;  /* operand numbers: indices into ops */
  const uint64_t* attrs;    /* constants, axis numbers, element counts */
  const tolk_param* params; /* buffers first, then values */
  uint32_t op_count, source_count, attr_count, param_count;
  const char* name; /* NUL-terminated function name, [A-Za-z0-9_] */
} tolk_kernel_ir;

#endif
