// What the body of a call does with its storage arguments.
#pragma once

#include <cstddef>
#include <vector>

#include "tolk/base/api.h"
#include "tolk/schedule/fuse/node_numbers.h"
#include "tolk/uop/storage_ref.h"
#include "tolk/uop/uop.h"

namespace tolk::schedule {

struct Access {
  bool reads = false, writes = false;
};

// Whether an argument of a call is storage: not a bound or free variable. Kernel parameters number these.
bool is_storage_argument(const UOp& argument);

// The accesses of bodies, each analysed once. Kernels and compiled kernels show their loads and stores, COPY
// writes its first argument and reads its second. One thread, and nodes of one home.
class TOLK_API AccessTable {
public:
  // By storage argument, up to the body's last parameter; later ones are not accessed. `known` is false
  // when the body does not show its accesses: any argument may be read and written then. Valid until the next
  // call.
  struct Facts {
    bool known = false;
    std::vector<Access> by_argument;
    Access of(size_t argument) const {
      if (!known) return {true, true};
      return argument < by_argument.size() ? by_argument[argument] : Access{};
    }
  };
  const Facts& of(const UOp& body);

private:
  Facts look(const UOp& body);

  std::vector<Facts> facts_;
  std::vector<UOp> bodies_; // held, so that their ids are not reused
  NodeNumbers number_;      // in facts_, from 1
  NodeNumbers seen_;
  std::vector<const UOp*> stack_;
};

} // namespace tolk::schedule
