// What the kernels of reductions read and write: elements of any dtype, the places where they lie,
// and the results.
#pragma once
#include "warptape/kernels/device/block_reduce.cuh"
#include "warptape/kernels/device/float_types.cuh"
#include "warptape/kernels/device/strided_index.cuh"
#include "warptape/kernels/device/vector.cuh"
#include "warptape/kernels/reduce.h"

namespace wt {

// Found by its argument: what device/block_reduce.cuh shuffles, member by member.
namespace red {
template <class C>
static __device__ __forceinline__ Candidate<C> shuffle_xor(Candidate<C> c, int lanes) {
  return {wt::shuffle_xor(c.value, lanes), wt::shuffle_xor(c.place, lanes)};
}
template <class C>
static __device__ __forceinline__ SquareSums<C> shuffle_xor(SquareSums<C> s, int lanes) {
  return {wt::shuffle_xor(s.usual, lanes), wt::shuffle_xor(s.large, lanes),
          wt::shuffle_xor(s.small, lanes)};
}
template <class C>
static __device__ __forceinline__ Spread<C> shuffle_xor(Spread<C> s, int lanes) {
  return {wt::shuffle_xor(s.count, lanes), wt::shuffle_xor(s.mean, lanes),
          wt::shuffle_xor(s.squares, lanes)};
}
template <class C>
static __device__ __forceinline__ Scaled<C> shuffle_xor(Scaled<C> s, int lanes) {
  return {wt::shuffle_xor(s.largest, lanes), wt::shuffle_xor(s.sum, lanes)};
}
}  // namespace red

inline namespace WT_DEVICE_NS {
namespace {

using detail::ReducePlan;

template <class F, class C>
using StateOf = typename F::template State<C>;

template <class F, class C>
struct Merge {
  using State = StateOf<F, C>;
  __device__ __forceinline__ State operator()(State a, State b) const {
    return F::template merge<C>(a, b);
  }
};

// --- what the elements are ---
// A source has ComputeType, what an element becomes, Element, what is loaded at once (void: it is
// told at run time, one after the other), and load(). Few instantiations keep the compile time
// down: integers are one source, and so is every float where a thread has few elements.
template <class T>
struct Typed {
  using Element = T;
  using ComputeType = wt::ComputeType<T>;
  const T* p;
  explicit Typed(const View& v) : p(v.as<T>()) {}
  __device__ __forceinline__ ComputeType load(i64 at) const {
    return static_cast<ComputeType>(p[at]);
  }
};
struct Integers {
  using Element = void;
  using ComputeType = i64;
  const void* p;
  int size;  // u8 and bool are one: bools are 0 or 1
  explicit Integers(const View& v) : p(v.data), size(int(item_size(v.dtype()))) {}
  __device__ __forceinline__ i64 load(i64 at) const {
    // The same for all threads: the branch costs an instruction a load, and a kernel per integer
    // type would cost nvcc and the binary three times as much.
    if (size == 1) return static_cast<const u8*>(p)[at];
    if (size == 4) return static_cast<const i32*>(p)[at];
    return static_cast<const i64*>(p)[at];
  }
};
struct Floats {  // f32, f16, bf16
  using Element = void;
  using ComputeType = float;
  const void* p;
  DType dtype;
  explicit Floats(const View& v) : p(v.data), dtype(v.dtype()) {}
  __device__ __forceinline__ float load(i64 at) const {
    // For the kernels in which a thread has few elements; long rows are read in packs, with the
    // type known.
    if (dtype == DType::f32) return static_cast<const float*>(p)[at];
    if (dtype == DType::f16) return static_cast<float>(static_cast<const __half*>(p)[at]);
    return static_cast<float>(static_cast<const __nv_bfloat16*>(p)[at]);
  }
};
// Not zero when the element is not, whatever its dtype.
struct Bits {
  using Element = void;
  using ComputeType = i64;
  const void* p;
  int size;
  i64 keep;  // all bits but the sign of a float
  explicit Bits(const View& v)
      : p(v.data),
        size(int(item_size(v.dtype()))),
        keep(is_floating(v.dtype()) ? i64(~u64(0) >> (65 - 8 * size)) : i64(-1)) {}
  __device__ __forceinline__ i64 load(i64 at) const {
    if (size == 1) return static_cast<const u8*>(p)[at];
    if (size == 2) return static_cast<const u16*>(p)[at] & keep;
    if (size == 4) return static_cast<const i32*>(p)[at] & keep;
    return static_cast<const i64*>(p)[at] & keep;
  }
};

// --- where the results go ---
struct Target {
  void* p;
  DType dtype;
  explicit Target(const View& v) : p(v.data), dtype(v.dtype()) {}

  __device__ __forceinline__ void store(i64 at, double v) const { static_cast<double*>(p)[at] = v; }
  __device__ __forceinline__ void store(i64 at, float v) const {
    if (dtype == DType::f32)
      static_cast<float*>(p)[at] = v;
    else if (dtype == DType::f16)
      static_cast<__half*>(p)[at] = __half(v);
    else
      static_cast<__nv_bfloat16*>(p)[at] = __nv_bfloat16(v);
  }
  __device__ __forceinline__ void store(i64 at, i64 v) const {
    if (dtype == DType::i64)
      static_cast<i64*>(p)[at] = v;
    else if (dtype == DType::i32)
      static_cast<i32*>(p)[at] = i32(v);
    else
      static_cast<u8*>(p)[at] = u8(v);
  }
  __device__ __forceinline__ void store(i64 at, bool v) const { static_cast<bool*>(p)[at] = v; }

  __device__ __forceinline__ double load(i64 at, double) const {
    return static_cast<const double*>(p)[at];
  }
  __device__ __forceinline__ float load(i64 at, float) const {
    if (dtype == DType::f32) return static_cast<const float*>(p)[at];
    if (dtype == DType::f16) return static_cast<float>(static_cast<const __half*>(p)[at]);
    return static_cast<float>(static_cast<const __nv_bfloat16*>(p)[at]);
  }
  __device__ __forceinline__ i64 load(i64 at, i64) const { return static_cast<const i64*>(p)[at]; }
};

template <class C, class F, class State>
__device__ __forceinline__ void finish(const Target& out, i64 at, const F& f, State s) {
  auto y = f.template finish<C>(s);
  // The old value is read by the one thread that writes the new one: no atomic, no second pass.
  if constexpr (F::kAccumulates)
    if (f.accumulate) y = pw::plus(out.load(at, y), y);
  out.store(at, y);
}

// --- where the elements lie ---
template <int N>
struct AnyMap {
  // Decided on the host for the whole call. 64-bit division is dozens of instructions, and only
  // tensors of 2^31 elements need it.
  bool small;
  IndexMap<N> near;
  IndexMap64<N> far;

  explicit AnyMap(const LoopNest<N>& nest) : small(fits_32_bits(nest)), near{}, far{} {
    if (small)
      near = index_map_32(nest);
    else
      far = index_map_64(nest);
  }
  __device__ __forceinline__ void offsets(i64 i, i64 (&at)[N]) const {
    if (small) {
      i32 o[N];
      near.offsets(u32(i), o);
      for (int k = 0; k < N; ++k) at[k] = o[k];
    } else {
      far.offsets(i, at);
    }
  }
};

struct Places {
  i64 outputs, length;
  i64 step;  // between reduced elements where they lie in one line, else 0
  AnyMap<2> kept;
  AnyMap<1> reduced;

  explicit Places(const ReducePlan& p)
      : outputs(p.kept.numel),
        length(p.reduced.numel),
        step(p.reduced.ndim <= 1 ? p.reduced.inner_stride(0) : 0),
        kept(p.kept),
        reduced(p.reduced) {}
  __device__ __forceinline__ i64 element(i64 i) const {
    // Nearly always: one multiplication where a division a dimension would be.
    if (step) return i * step;
    i64 at[1];
    reduced.offsets(i, at);
    return at[0];
  }
};

}  // namespace
}  // namespace WT_DEVICE_NS
}  // namespace wt
