// First uses. Nothing of this library has run on every GPU, so on cuda the first launch of a
// variant at a kind of arguments (contract, dtype, size to a factor of four, layout) is launched
// twice: by it, and by the plainest variant that takes the arguments, whose results stay. Where
// both wrote the same, within what rounding explains, the variant is used from then on; where not,
// or where it failed, it is off, named in a warning and in a file of the user's cache folder, which
// also keeps what agreed for the next process. What `wt tune` has proved, and what the user names
// (VariantScope, WT_KERNEL), is launched as it is.
//
// WT_FIRST_USE=off: nothing is tried; WT_FIRST_USE=FILE: the file, and simt's variants are tried
// too. WT_VERBOSE=1 names what agreed. Host code only.
#pragma once
#include <atomic>
#include <bit>
#include <string>

#include "warptape/kernels/dispatch/run_tuned.h"

namespace wt {

// For `wt info`: the file, and what it says.
std::string describe_first_uses(Device d);

namespace detail {

// Kinds of devices whose first uses are tried, a bit each: cuda's, from its start on.
extern constinit std::atomic<u32> first_uses_on;
void start_first_uses(DeviceKind k);  // as WT_FIRST_USE says
// For tests: nothing is tried any more; what was tried, and what was read, is forgotten.
void stop_first_uses(DeviceKind k);
void forget_first_uses();

// The kinds of arguments (kind_of_arguments()) that a contract's variants have agreed at. A set
// that is read without a lock.
class AgreedKinds {
 public:
  bool has(u64 kind) const {
    for (u32 at = first_slot(kind), n = 0; n < kSlots; ++n, ++at) {
      const u64 there = slots_[at % kSlots].load(std::memory_order_relaxed);
      if (there == kind) return true;
      if (there == 0) return false;
    }
    return false;
  }

 private:
  friend class AgreedEverywhere;  // which writes
  static constexpr u32 kSlots = 64;
  static u32 first_slot(u64 kind) { return u32(kind * 0x9E3779B97F4A7C15u >> 58); }
  std::atomic<u64> slots_[kSlots] = {};
  AgreedKinds* next_ = nullptr;  // of all that hold something
  bool listed_ = false;
};

template <class Epilogue>
u32 epilogue_of(const Epilogue& e) {
  return u32(e.activation) | u32(e.gradient) << 3 | u32(e.residual != nullptr) << 4 |
         u32(e.aux != nullptr) << 5;
}
// What two launches may differ in beside dtype and size: which operands are transposed or dense,
// and what comes behind a product or a norm.
template <class Args>
u32 layout_of(const Args& a) {
  if constexpr (requires { a.b_column; })
    return u32(a.a_column != 1) | u32(a.b_column != 1) << 1 | u32(a.batch_ndim != 0) << 2 |
           epilogue_of(a.epilogue) << 3;
  else if constexpr (requires { a.x.channel, a.epilogue; })
    return u32(a.x.channel != 1) | epilogue_of(a.epilogue) << 3;
  else if constexpr (requires { a.x.channel; })
    return u32(a.x.channel != 1);
  else if constexpr (requires { a.x.dense(), a.activation; })
    return u32(a.x && !a.x.dense()) | u32(a.activation) << 3;
  else if constexpr (requires { a.x.dense(); })
    return u32(a.x && !a.x.dense());
  else if constexpr (requires { a.in.dense(); })
    return u32(a.in && !a.in.dense());
  else if constexpr (requires { a.scores.q; })
    return u32(a.scores.causal) | u32(bool(a.scores.mask)) << 1 | u32(a.scores.threshold != 0) << 2;
  else
    return 0;
}

// A launch that nobody has tried: `row` is the chosen variant, for which `launch` has workspace.
struct FirstUse {
  const ErasedContract& contract;
  const void* args;
  const Launch& launch;
  int row;
  DType dtype;
  u32 layout;
  double bytes, flops;
  AgreedKinds& agreed;
  u64 kind;  // what is put there, once the variant may be launched at such arguments as it is
};
// Makes the launch, by another variant where this one is off or gives other values.
void launch_first_use(const FirstUse& use);

// Sizes that count as one: to a factor of four.
inline u32 size_class(i64 bytes) { return u32(std::bit_width(u64(bytes)) + 1) / 2; }
inline u64 kind_of_arguments(int row, DType t, i64 bytes, u32 layout, u8 device) {
  return u64{1} << 63 | u64(layout) << 27 | u64(row) << 19 | u64(t) << 14 |
         u64(size_class(bytes)) << 8 | device;
}

// Whether a variant, for which `l` has workspace, may be launched as it is; where nobody has tried
// it, it is tried. In memory is then what a right launch has written, or nothing was launched.
bool proved_by_first_use(const ErasedContract& c, const void* args, const Launch& l, int row);

// Whether the launch was made here.
bool launched_as_first_use(const ErasedContract& c, const void* args, const Launch& l,
                           const void* variant);

}  // namespace detail
}  // namespace wt
