// What the operands of a launch measure, as one number: two launches of a contract with equal
// bytes may still be a tall matrix and a wide one, which other variants are the fastest at.
// Internal; host code only. kernels/dispatch/all.cpp includes it before the contracts.
#pragma once
#include <bit>
#include <concepts>

#include "warptape/kernels/contract.h"

namespace wt::detail {

// FNV-1a over whole numbers.
class SizesHash {
 public:
  u64 value = 0xCBF29CE484222325u;

  template <std::integral... N>
  void add(N... n) {
    ((value = (value ^ u64(n)) * 0x100000001B3u), ...);
  }
  // Sizes, and whether steps are those of a contiguous tensor.
  void add(const View& v) {
    if (!v) return add(-1);
    add(v.ndim(), v.dense());
    for (int d = 0; d < v.ndim(); ++d) add(v.size(d));
  }
  template <size_t N>
  void add(const View (&views)[N]) {
    for (const View& v : views) add(v);
  }
  // A convolution's or a pooling's.
  template <class Shape>
  requires requires(const Shape& s) { s.dilation[2]; }
  void add(const Shape& s) {
    if constexpr (requires { s.groups; })
      add(s.batch, s.in_channels, s.out_channels, s.groups);
    else
      add(s.batch, s.channels, s.adaptive);
    for (int d = 0; d < 3; ++d)
      add(s.in[d], s.out[d], s.kernel[d], s.stride[d], s.padding[d], s.dilation[d]);
  }
};

// By the names that contracts have for their operands; a contract without one of them is told by
// its work alone.
template <class Args>
u64 sizes_of(const Args& a) {
  SizesHash h;
  h.add(std::bit_cast<u64>(double(a.flops())));
  if constexpr (requires { a.b_column; }) {
    h.add(a.m, a.n, a.k, a.batch_ndim);
    for (int d = 0; d < a.batch_ndim; ++d) h.add(a.batch[d].size);
  }
  if constexpr (requires { a.scores.q; }) h.add(a.scores.q), h.add(a.scores.k);
#define WT_SIZES(name) \
  if constexpr (requires { h.add(a.name); }) h.add(a.name)
  WT_SIZES(shape);
  WT_SIZES(out);
  WT_SIZES(in);
  WT_SIZES(x);
  WT_SIZES(y);
  WT_SIZES(gx);
  WT_SIZES(gy);
  WT_SIZES(a);
  WT_SIZES(v);
  WT_SIZES(gout);
  WT_SIZES(index);
  WT_SIZES(source);
  WT_SIZES(table);
  WT_SIZES(rows);
  WT_SIZES(logits);
  WT_SIZES(log_probs);
  WT_SIZES(images);
#undef WT_SIZES
  return h.value;
}

}  // namespace wt::detail
