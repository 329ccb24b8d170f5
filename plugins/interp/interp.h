// The reference interpreter: runs a kernel in linearized IR (tolk_kernel_ir) one operation at a time. The tests use it
// as their oracle, so it shares no code with the rest of Tolk and does not depend on the plugin tables.
//
//   Kernel     an owned copy of the C arrays; any contents
//   check      rejects a kernel that breaks a rule of kernel_ir.h; kernels that pass are safe to decode and run
//   Program    the decoded kernel
//   run        one launch: every work-item of every work-group
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <tolk/plugin/kernel_ir.h>
#include <tolk/plugin/program.h>
#include <tolk/plugin/status.h>

namespace tolk_interp {

// The exception of every function here: a status code of the interface and a message for the user.
struct Error {
  tolk_status code;
  std::string text;
};

struct Kernel {
  std::string name;
  std::vector<tolk_ir_op> ops;
  std::vector<uint32_t> sources;
  std::vector<uint64_t> attrs;
  std::vector<tolk_param> params;
};

// Copies the arrays. TOLK_E_VERSION for a struct of another version.
Kernel copy_kernel(const tolk_kernel_ir& ir);

// The kernel as one block of bytes with a checksum, and back. `unpack` reads inside `bytes` only and throws
// TOLK_E_BAD_BINARY for anything that `pack` did not make; the kernel still needs `check`.
std::string pack(const Kernel& kernel);
Kernel unpack(std::span<const std::byte> bytes);

// Throws TOLK_E_COMPILE with the operation and the broken rule.
void check(const Kernel& kernel);

struct Program; // program.h
// `kernel` has passed `check`. TOLK_E_LIMIT when its values need too much memory.
std::shared_ptr<const Program> decode(Kernel kernel);

// The compile and load steps of plugins that run kernels in the interpreter. `compile` gives the packed kernel of a
// source, named as the source's entry; what `check` finds is also added to `log`. `load` gives a decoded kernel.
std::string compile(const tolk_target& target, const tolk_source& source, std::string& log);
std::shared_ptr<const Program> load(tolk_bytes binary);

struct BufferArg {
  std::byte* data; // may be null when size is 0; any alignment
  uint64_t size;   // bytes; every access outside is a fault
  bool writable = true;
};

struct LaunchArgs {
  uint32_t grid[3] = {1, 1, 1};
  uint32_t local[3] = {1, 1, 1};
  std::span<const BufferArg> buffers; // in parameter order
  std::span<const uint64_t> values;   // raw bits, low bits used
};

// Runs to the end on the calling thread. Different threads may run one program at once. TOLK_E_INVALID when
// the arguments do not fit the parameters, TOLK_E_KERNEL_FAULT when an access leaves its storage, two work-items race for
// an element (races.h), or the work-items of a group reach different barriers; buffers then hold what was written so far.
void run(const Program& program, const LaunchArgs& args);

// What one work-item and one work-group take.
uint64_t private_bytes(const Program& program);
uint64_t shared_bytes(const Program& program);
const std::string& name(const Program& program);
size_t buffer_param_count(const Program& program);

} // namespace tolk_interp
