// Making tensors. Shapes throw ShapeError on negative sizes and overflow, OutOfMemory when there is
// no room. A number that no element of the dtype can be (300 of u8, 1e9 of f16, NaN of integers)
// throws DtypeError; fractions of integers are cut, and floats rounded once.
#pragma once
#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

#include "warptape/core/tensor.h"

namespace wt {

// Where and as what. `dtype` unset: the mode's default dtype (or what the values say).
struct TensorOptions {
  std::optional<DType> dtype{};
  Device device = mode.default_device;
  bool requires_grad = false;
};

WT_API Tensor empty(const Shape& shape, const TensorOptions& o = {}, Frame at = Frame::here());
WT_API Tensor zeros(const Shape& shape, const TensorOptions& o = {}, Frame at = Frame::here());
WT_API Tensor ones(const Shape& shape, const TensorOptions& o = {}, Frame at = Frame::here());
// dtype unset: i64 for an integer value, bool for a bool, else the default.
WT_API Tensor full(const Shape& shape, Scalar value, const TensorOptions& o = {},
                   Frame at = Frame::here());
// Ones where row = column, else zeros: [n, n] and [n, m].
WT_API Tensor eye(i64 n, const TensorOptions& o = {}, Frame at = Frame::here());
WT_API Tensor eye(i64 n, i64 m, const TensorOptions& o = {}, Frame at = Frame::here());
// begin, begin + step, ... below end. dtype unset: i64 when all three are integers, which are
// counted as such, exactly.
WT_API Tensor arange(Scalar begin, Scalar end, Scalar step = 1, const TensorOptions& o = {},
                     Frame at = Frame::here());
WT_API Tensor arange(Scalar end, const TensorOptions& o = {}, Frame at = Frame::here());
// n evenly spaced values, both ends included. Between whole ends within 2^62 integers are exact,
// cut towards zero.
WT_API Tensor linspace(Scalar begin, Scalar end, i64 n, const TensorOptions& o = {},
                       Frame at = Frame::here());

// Shape, dtype and device of `like`.
WT_API Tensor empty_like(const Tensor& like, Frame at = Frame::here());
WT_API Tensor zeros_like(const Tensor& like, Frame at = Frame::here());
WT_API Tensor ones_like(const Tensor& like, Frame at = Frame::here());
WT_API Tensor full_like(const Tensor& like, Scalar value, Frame at = Frame::here());

// From the ambient generator's user stream (core/random.h): Philox numbers that depend on seed,
// call and element alone, not on device, threads or shape. A factory that throws has drawn nothing.
//
// Of [0, 1), in 53 bits (f64), 24 (f32), 11 (f16) or 8 (bf16); of N(0, 1); of N(mean, std^2). Throw
// DtypeError unless the dtype is floating, UsageError for a std that is negative or NaN. See also
// bernoulli and multinomial (autograd/ops.h).
WT_API Tensor rand(const Shape& shape, const TensorOptions& o = {}, Frame at = Frame::here());
WT_API Tensor randn(const Shape& shape, const TensorOptions& o = {}, Frame at = Frame::here());
WT_API Tensor normal(double mean, double std, const Shape& shape, const TensorOptions& o = {},
                     Frame at = Frame::here());
// Integers of [low, high), and 0, ..., n - 1 in random order (argsort's of 64 random bits for
// each); dtype unset: i64. Throw UsageError for an empty range, DtypeError for 8-bit floats.
WT_API Tensor randint(i64 low, i64 high, const Shape& shape, const TensorOptions& o = {},
                      Frame at = Frame::here());
WT_API Tensor randperm(i64 n, const TensorOptions& o = {}, Frame at = Frame::here());
WT_API Tensor rand_like(const Tensor& like, Frame at = Frame::here());
WT_API Tensor randn_like(const Tensor& like, Frame at = Frame::here());

// From values: tensor({1, 2.5}), tensor({{1, 2}, {3, 4}}), tensor(3.0), and lists of matrices; what
// has more axes is reshaped. dtype unset: bool or i64 when all values are, else the default dtype.
// Rows must have equal lengths, matrices equal numbers of rows (ShapeError).
WT_API Tensor tensor(Scalar value, const TensorOptions& o = {}, Frame at = Frame::here());
WT_API Tensor tensor(std::initializer_list<Scalar> values, const TensorOptions& o = {},
                     Frame at = Frame::here());
WT_API Tensor tensor(std::initializer_list<std::initializer_list<Scalar>> rows,
                     const TensorOptions& o = {}, Frame at = Frame::here());
// Rows of numbers of one type: tells the column {{1}, {2}} from the list {1, 2}.
template <Number T>
Tensor tensor(std::initializer_list<std::initializer_list<T>> rows, const TensorOptions& o = {},
              Frame at = Frame::here());
template <Number T>
Tensor tensor(std::initializer_list<std::initializer_list<std::initializer_list<T>>> matrices,
              const TensorOptions& o = {}, Frame at = Frame::here());
WT_API Tensor
tensor(std::initializer_list<std::initializer_list<std::initializer_list<Scalar>>> matrices,
       const TensorOptions& o = {}, Frame at = Frame::here());
// A copy of a vector or span; dtype unset: T's own.
template <class T>
Tensor tensor(std::span<const T> values, TensorOptions o = {}, Frame at = Frame::here());
template <class T>
Tensor tensor(const std::vector<T>& values, TensorOptions o = {}, Frame at = Frame::here()) {
  return tensor(std::span<const T>(values), o, at);
}

// Says that the caller keeps the memory alive for as long as any tensor uses it.
struct Borrow {};
inline constexpr Borrow borrow{};
// A tensor over the caller's memory, no copy. The first form calls `deleter(argument)` when the
// last tensor on it dies. `strides` in elements; empty: contiguous. Never reused for outputs.
WT_API Tensor from_blob(void* data, const Shape& shape, void (*deleter)(void*), void* argument,
                        const TensorOptions& o = {}, const Shape& strides = {},
                        Frame at = Frame::here());
WT_API Tensor from_blob(void* data, const Shape& shape, Borrow, const TensorOptions& o = {},
                        const Shape& strides = {}, Frame at = Frame::here());

namespace detail {
WT_API Tensor from_values(const void* values, DType as, const Shape& shape, const TensorOptions& o,
                          Frame at);
// Rows of numbers of any type, wherever they lie. Functions, not vectors: this header is
// everywhere.
struct NumberRows {
  const void* rows;
  size_t count;
  size_t (*length)(const void* rows, size_t r);
  Scalar (*value)(const void* rows, size_t r, size_t i);
};
WT_API Tensor from_rows(const NumberRows& rows, const TensorOptions& o, Frame at);
// The same for matrices: `rows` of each.
struct NumberMatrices {
  const void* matrices;
  size_t count;
  NumberRows (*matrix)(const void* matrices, size_t m);
};
WT_API Tensor from_matrices(const NumberMatrices& matrices, const TensorOptions& o, Frame at);
template <class T>
NumberRows rows_of_numbers(const std::initializer_list<std::initializer_list<T>>& rows) {
  using Row = const std::initializer_list<T>*;
  return {rows.begin(), rows.size(), [](const void* p, size_t r) { return Row(p)[r].size(); },
          [](const void* p, size_t r, size_t i) { return Scalar(Row(p)[r].begin()[i]); }};
}
template <class T>
NumberMatrices matrices_of_numbers(
    const std::initializer_list<std::initializer_list<std::initializer_list<T>>>& m) {
  using Rows = const std::initializer_list<std::initializer_list<T>>*;
  return {m.begin(), m.size(), [](const void* p, size_t i) { return rows_of_numbers(Rows(p)[i]); }};
}
}  // namespace detail
template <Number T>
Tensor tensor(std::initializer_list<std::initializer_list<T>> rows, const TensorOptions& o,
              Frame at) {
  return detail::from_rows(detail::rows_of_numbers(rows), o, at);
}
template <Number T>
Tensor tensor(std::initializer_list<std::initializer_list<std::initializer_list<T>>> matrices,
              const TensorOptions& o, Frame at) {
  return detail::from_matrices(detail::matrices_of_numbers(matrices), o, at);
}
template <class T>
Tensor tensor(std::span<const T> values, TensorOptions o, Frame at) {
  const DType t = detail::dtype_of_type<T>();
  if (!o.dtype) o.dtype = t;
  return detail::from_values(values.data(), t, {values.size()}, o, at);
}

}  // namespace wt
