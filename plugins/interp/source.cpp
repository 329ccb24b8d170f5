// Compiles a source to a binary and loads it.
#include "interp.h"

namespace tolk_interp {

std::string compile(const tolk_target& target, const tolk_source& source, std::string& log) {
  if (target.kind != TOLK_TARGET_KERNEL_IR || source.text.size < sizeof(tolk_kernel_ir))
    throw Error{TOLK_E_UNSUPPORTED, "the interpreter takes kernel IR and nothing else"};
  Kernel kernel = copy_kernel(*static_cast<const tolk_kernel_ir*>(source.text.data));
  if (source.entry && *source.entry) kernel.name = source.entry;
  try {
    check(kernel);
  } catch (const Error& error) {
    log = error.text;
    throw;
  }
  return pack(kernel);
}

std::shared_ptr<const Program> load(tolk_bytes binary) {
  Kernel kernel = unpack({static_cast<const std::byte*>(binary.data), binary.size});
  try {
    check(kernel);
  } catch (const Error& error) {
    throw Error{TOLK_E_BAD_BINARY, error.text};
  }
  return decode(std::move(kernel));
}

} // namespace tolk_interp
