// Whether a loader's batches give their memory back.
#pragma once
#include "warptape/core/memory.h"
#include "warptape/core/types.h"

namespace wt_test {

// Bytes of cpu memory that 500 batches add after the first 50, over as many epochs as it takes.
template <class Loader>
wt::i64 grows_by(Loader loader) {
  const auto reserved_after = [&](int batches) {
    typename Loader::Item b;
    for (int i = 0; i < batches; ++i)
      if (!loader.next(b)) --i;
    return wt::memory::stats(wt::Device::cpu()).reserved;
  };
  const wt::i64 before = reserved_after(50);
  return reserved_after(500) - before;
}

}  // namespace wt_test
