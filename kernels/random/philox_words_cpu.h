// Philox's random words for kernels of the cpu: sixteen counters at a time, which is what vector
// code wants.
#pragma once
#include "warptape/core/philox.h"

namespace wt {

class PhiloxWords {
 public:
  static constexpr int kCounters = 16, kWords = 4 * kCounters;

  PhiloxWords(PhiloxKey key, u64 call);
  // words[i]: word i % 4 of philox(key, block + i / 4, call), for i < kWords.
  void draw(u32* words, u64 block) const { draw_(*this, words, block); }

  u64 lo[10], hi[10], call;  // the words of the rounds' keys, which all counters share

 private:
  // What the machine's instruction set offers. Calls, once for kWords: what is inlined must have
  // the caller's instruction set, and templates have none.
  void (*draw_)(const PhiloxWords&, u32*, u64);
};

}  // namespace wt
