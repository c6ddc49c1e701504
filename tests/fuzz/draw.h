// The arguments of one call of an operator, drawn at random: everything follows from a seed.
#pragma once
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "warptape/core/factories.h"
#include "warptape/core/philox.h"
#include "warptape/core/tensor.h"

namespace wt_test {

using namespace wt;

class Draw {
 public:
  // `plain`: the same values, every tensor contiguous in a block of its own.
  Draw(u64 seed, bool plain) : seed_(seed), plain_(plain) {
    type_ = pick(12) ? DType(pick(kNumComputeDTypes)) : DType(pick(kNumDTypes));
    if (chance(0.5)) type_ = pick(2) ? f32 : f64;
    wild_ = chance(0.3);
    records_ = chance(0.4);
  }

  // --- numbers ---
  u64 bits() { return mix64(seed_ + 0x9e3779b97f4a7c15ull * ++count_); }
  i64 pick(i64 n) { return i64(bits() % u64(n)); }  // of [0, n)
  double unit() { return double(bits() >> 11) * 0x1p-53; }
  bool chance(double p) { return unit() < p; }
  bool flag() { return chance(0.5); }
  // Mostly of [low, high]; of wild calls some from the ends of 32 and 64 bits.
  i64 number(i64 low, i64 high);
  i64 axis(int ndim) { return ndim ? number(-ndim, ndim - 1) : number(-1, 0); }
  Dims axes(int ndim);
  double real(double low, double high);
  Scalar scalar();

  // --- shapes ---
  i64 size() { return chance(0.06) ? 0 : 1 + pick(5); }
  Shape shape(int least = 0, int most = 5);
  Shape shape_of_rank(int n) { return shape(n, n); }
  // As it is, or of wild calls with something wrong about it.
  Shape bent(Shape s);
  // Broadcasts to s: fewer leading axes, some of size 1.
  Shape narrower(const Shape& s);
  // A shape as an argument: sizes that may be of any kind.
  Shape as_argument(const Shape& s);

  // --- tensors: any layout, mostly of the dtype of the call ---
  DType dtype() const { return type_; }
  void floats() { floats_ = true; }  // the tensors of this call are mostly floating
  Tensor tensor() { return tensor(shape()); }
  Tensor tensor(const Shape& s) { return tensor(s, -3, 3); }
  Tensor tensor(const Shape& s, double low, double high);
  Tensor index(const Shape& s, i64 limit);  // mostly of [0, limit)
  Tensor truth(const Shape& s);
  // A tensor that is written to: no view of one element in many places, no leaf.
  Tensor target(const Shape& s);

  const std::vector<Tensor>& leaves() const { return leaves_; }
  bool has_extremes() const { return extremes_; }

 private:
  Tensor laid_out(const Shape& s, DType t, double low, double high, bool integers, bool expands);

  u64 seed_, count_ = 0;
  bool plain_, wild_ = false, records_ = false, floats_ = false, extremes_ = false;
  DType type_;
  std::vector<Tensor> leaves_;
};

}  // namespace wt_test
