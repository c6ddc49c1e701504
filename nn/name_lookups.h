// Time that a thread has spent looking for parameters and buffers by their names, or listing them,
// which walks the tree and joins names. Counted while somebody watches (core/profiler.h); the
// doctor asks. Internal.
#pragma once
#include "warptape/core/types.h"

namespace wt::nn::detail {

struct NameLookups {
  i64 count = 0, ns = 0;
};
NameLookups& name_lookups();  // this thread's

class CountedLookup {
 public:
  CountedLookup();
  ~CountedLookup();
  CountedLookup(const CountedLookup&) = delete;
  CountedLookup& operator=(const CountedLookup&) = delete;

 private:
  i64 begin_ns_;  // 0: nobody watches
};

}  // namespace wt::nn::detail
