// Elements of memory as doubles, and random ones. Internal.
#pragma once
#include "warptape/core/dtype.h"
#include "warptape/core/types.h"

namespace wt::grade {

// i64 beyond 2^53 do not come up: the grader draws small ones.
double load_element(const u8* from, DType t);
void store_element(double v, DType t, u8* to);
// What is left of v when it is stored.
double rounded(double v, DType t);

// Numbers that follow from a seed (SplitMix64).
class Draws {
 public:
  explicit Draws(u64 seed) : state_(seed) {}
  u64 next() {
    u64 z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // In [low, high).
  double real(double low, double high) {
    return low + (high - low) * (double(next() >> 11) * 0x1p-53);
  }
  // In [low, high], both ends.
  i64 whole(i64 low, i64 high) { return low + i64(next() % u64(high - low + 1)); }
  i64 odd(i64 low, i64 high) { return whole(low, high) | 1; }

 private:
  u64 state_;
};

}  // namespace wt::grade
