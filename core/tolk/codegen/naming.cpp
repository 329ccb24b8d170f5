#include "tolk/codegen/naming.h"

#include <cctype>

#include "tolk/codegen/opt/ranges.h"
#include "tolk/uop/build.h"

namespace tolk::codegen {

std::string kernel_name(const UOp& ast, const ContentKey& key) {
  std::string name = ast.has(kHasReduce) ? "r" : "e";
  for (const UOp& r : all_ranges(ast)) {
    const UOp& extent = r.src(0);
    name += '_';
    name += extent.is_const()    ? std::to_string(extent.const_int())
            : extent.is(Op::VAR) ? var_name(extent)
                                 : "n";
  }
  name += '_' + key.hex().substr(0, 8);
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_') c = '_';
  return name;
}

} // namespace tolk::codegen
