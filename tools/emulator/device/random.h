// The seeded choices of the runtime (SplitMix64).
#pragma once
#include "basic.h"

namespace emu {

struct Dice {
  u64 state;
  u64 next() {
    u64 z = (state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  u32 below(u32 n) { return u32(next() % n); }
};

}  // namespace emu
