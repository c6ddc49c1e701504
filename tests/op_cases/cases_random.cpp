// Rows of the operators that draw random numbers: the generator is set before each call.
#include "warptape/autograd/ops/dropout.h"
#include "warptape/autograd/ops/random.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/random.h"
#include "warptape/tests/op_cases/op_case.h"

namespace wt_test {
namespace {

constexpr u64 kSeed = 77;

// keep(i) = uniform24(philox(key, i / 4, call)[i % 4]) >= p, as kernels/dropout.h says; the call is
// the generator's first. Philox itself is held against published vectors elsewhere.
Array dropout_oracle(const Array& x, double p) {
  const PhiloxKey key = philox_key(kSeed, RandomStream::dropout);
  Array r = x;
  for (size_t i = 0; i < x.v.size(); ++i) {
    const u32 bits = philox(key, i / 4, 0).v[i % 4];
    const bool keep = double(bits >> 8) * 0x1p-24 >= p && p < 1;
    r.v[i] = keep ? x.v[i] / (1 - p) : 0;
  }
  return r;
}

// What ops/random.h says, of the numbers that rand() gives in f64.
Array bernoulli_oracle(const Array& p) {
  const PhiloxKey key = philox_key(kSeed, RandomStream::user);
  Array r = p;
  for (size_t i = 0; i < p.v.size(); ++i) {
    const PhiloxBlock b = philox(key, i / 2, 0);
    r.v[i] = uniform53(b.v[i % 2 * 2], b.v[i % 2 * 2 + 1]) < p.v[i];
  }
  return r;
}

void add_bernoulli(std::vector<OpCase>& rows) {
  OpCase c{"bernoulli", {}, kFloats};
  for (const Shape& s : {Shape{3, 5}, Shape{2, 3, 4}, Shape{}, Shape{0}, Shape{33}, Shape{3, 257}})
    c.samples.push_back({"",
                         {{s, 0, 1}},
                         [](std::span<const Tensor> in) {
                           manual_seed(kSeed);
                           return bernoulli(in[0]);
                         },
                         [](const std::vector<Array>& in) { return bernoulli_oracle(in[0]); }});
  c.mostly_constant = true;
  c.errors = {
      undefined_operand("bernoulli", [](const Tensor& x, const Tensor&) { (void)bernoulli(x); }),
      error_input<UsageError>("p", "[bernoulli] p must be in [0, 1]: 1 of 2 elements are outside",
                              [](Device d) {
                                (void)bernoulli(tensor({0.5, 1.5}).to(d));
                              }),
      error_input<DtypeError>("dtype", "[bernoulli] expected a floating dtype", [](Device d) {
        (void)bernoulli(ones({2}, {.dtype = DType::i64, .device = d}));
      })};
  rows.push_back(std::move(c));
}

void add_random_cases(std::vector<OpCase>& rows) {
  add_bernoulli(rows);
  OpCase c{"dropout", {"dropout"}, kFloats};
  for (const Shape& s : {Shape{3, 5}, Shape{2, 3, 4}, Shape{}, Shape{0}, Shape{33}, Shape{3, 257}})
    for (double p : {0.25, 0.5, 1.0}) {
      if (p == 1 && s.ndim() != 1) continue;
      c.samples.push_back({str("p = ", p),
                           {{s}},
                           [p](std::span<const Tensor> in) {
                             manual_seed(kSeed);
                             return dropout(in[0], p);
                           },
                           [p](const std::vector<Array>& in) { return dropout_oracle(in[0], p); }});
      c.samples.back().constant = p == 1;
    }
  c.errors = {
      error_input<UsageError>("p", "[dropout] p must be in [0, 1], got 1.5",
                              [](Device d) { (void)dropout(ones({2}, {.device = d}), 1.5); }),
      error_input<DtypeError>(
          "dtype", "[dropout] expected a floating dtype that computes, got i64",
          [](Device d) { (void)dropout(ones({2}, {.dtype = DType::i64, .device = d})); })};
  OpCase in_place = c;
  in_place.name = "dropout_";
  for (Sample& x : in_place.samples)
    x.call = [p = std::stod(x.label.substr(4))](std::span<const Tensor> in) {
      manual_seed(kSeed);
      Tensor y = clone(in[0]);
      y.dropout_(p);
      return y;
    };
  in_place.errors = {
      error_input<UsageError>("p", "[dropout_] p must be in [0, 1], got 1.5",
                              [](Device d) { (void)ones({2}, {.device = d}).dropout_(1.5); }),
      error_input<DtypeError>(
          "dtype", "[dropout_] expected a floating dtype that computes, got i64",
          [](Device d) { (void)ones({2}, {.dtype = DType::i64, .device = d}).dropout_(); })};
  rows.push_back(std::move(c));
  rows.push_back(std::move(in_place));
}

const CaseFile file{add_random_cases};

}  // namespace
}  // namespace wt_test
