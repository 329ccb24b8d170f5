// The reference interpreter: runs a flat kernel (tolk_kernel_ir) one operation at a time. It is the oracle of
// the project's tests, so it shares no code with the rest of tolk; nothing here knows of the plugin tables.
//
//   Kernel     an owned copy of the C arrays; any contents
//   check      refuses a kernel that breaks a rule of kernel_ir.h; what passes cannot make decode or run
//              misbehave
//   Program    the kernel in the form that runs
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

// What every function here throws: a status code of the interface and a sentence for the user.
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
// `kernel` has passed `check`. TOLK_E_LIMIT when its values need more memory than an interpreter should take.
std::shared_ptr<const Program> decode(Kernel kernel);

// The whole way for plugins that run kernels here. `compile` gives the packed kernel of a source, called as
// the source's entry says; what `check` finds also goes to `log`. `load` gives what runs.
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
// the arguments do not fit the parameters, TOLK_E_KERNEL_FAULT when an access leaves its storage or the
// work-items of a group reach different barriers; buffers then hold what was written so far.
void run(const Program& program, const LaunchArgs& args);

// What one work-item and one work-group take.
uint64_t private_bytes(const Program& program);
uint64_t shared_bytes(const Program& program);
const std::string& name(const Program& program);
size_t buffer_param_count(const Program& program);

} // namespace tolk_interp
