// Functions that LLVM calls where the processor has no instruction: on x86 before AVX2, FMA and F16C. Newer
// ones never need them.
#include <cmath>
#include <cstring>

#include "elf_image.h"

#if defined(__x86_64__)
extern "C" {
float __extendhfsf2(_Float16 value); // of the C++ compiler's runtime library
_Float16 __truncsfhf2(float value);
}
#endif

namespace tolk_cpu {
namespace {

struct Row {
  std::string_view name;
  const void* address;
};
template <class F> const void* address(F* function) { return reinterpret_cast<const void*>(function); }

const Row kRows[] = {
    {"fma", address<double(double, double, double)>(::fma)},
    {"fmaf", address<float(float, float, float)>(::fmaf)},
    {"trunc", address<double(double)>(::trunc)},
    {"truncf", address<float(float)>(::truncf)},
    {"memcpy", address<void*(void*, const void*, size_t)>(::memcpy)},
    {"memmove", address<void*(void*, const void*, size_t)>(::memmove)},
    {"memset", address<void*(void*, int, size_t)>(::memset)},
#if defined(__x86_64__)
    {"__extendhfsf2", address(__extendhfsf2)},
    {"__truncsfhf2", address(__truncsfhf2)},
#endif
};

} // namespace

const void* runtime_symbol(std::string_view name) {
  for (const Row& row : kRows)
    if (row.name == name) return row.address;
  return nullptr;
}

} // namespace tolk_cpu
