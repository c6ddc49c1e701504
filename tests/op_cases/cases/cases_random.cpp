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

// What ops/random.h says, of the same numbers.
Array gumbel_oracle(const Array& x, const GumbelSoftmaxOptions& o) {
  const PhiloxKey key = philox_key(kSeed, RandomStream::user);
  const int axis = int(o.dim < 0 ? o.dim + x.shape.ndim() : o.dim);
  std::vector<double> moved, size;
  for (size_t i = 0; i < x.v.size(); ++i) {
    const PhiloxBlock b = philox(key, i / 2, 0);
    const double g = -std::log(-std::log(uniform53(b.v[i % 2 * 2], b.v[i % 2 * 2 + 1])));
    moved.push_back((x.v[i] + g) / o.tau);
    size.push_back((std::fabs(x.v[i]) + std::fabs(g)) / o.tau);
  }
  Array r = x;
  r.terms = kTermsOfFormula + double(x.shape[axis]);
  for (i64 e = 0; e < count(x.shape); ++e) {
    std::vector<i64> i = unravel(e, x.shape);
    const double own = moved[size_t(e)];
    double sum = 0, widest = 0;
    bool largest = true;
    for (i[size_t(axis)] = 0; i[size_t(axis)] < x.shape[axis]; ++i[size_t(axis)]) {
      const size_t other = size_t(ravel(i, x.shape));
      sum += std::exp(moved[other] - own);
      widest = std::fmax(widest, size[other]);
      largest = largest && moved[other] <= own;
    }
    r.v[size_t(e)] = o.hard ? double(largest) : 1 / sum;
    r.magnitude.push_back((1 + 2 * widest) / sum + double(o.hard));
  }
  return r;
}

void add_gumbel_softmax(std::vector<OpCase>& rows) {
  OpCase c{"gumbel_softmax", {}, kFloats};
  c.cancels = true;
  struct Case {
    Shape shape;
    GumbelSoftmaxOptions o;
  };
  const Case cases[] = {{{3, 5}, {}},
                        {{2, 3, 4}, {.tau = 0.5, .dim = 1}},
                        {{7}, {.tau = 2}},
                        {{0, 3}, {}},
                        {{3, 257}, {}},
                        {{33, 7}, {.dim = 0}},
                        {{5, 6}, {.hard = true}},
                        {{2, 3, 4}, {.tau = 2, .hard = true, .dim = 1}},
                        {{3, 0}, {.hard = true}}};
  for (const Case& k : cases) {
    c.samples.push_back(
        {str("tau ", k.o.tau, ", dim ", k.o.dim, k.o.hard ? ", hard" : ""),
         {{k.shape}},
         [o = k.o](std::span<const Tensor> in) {
           manual_seed(kSeed);
           return gumbel_softmax(in[0], o);
         },
         [o = k.o](const std::vector<Array>& in) { return gumbel_oracle(in[0], o); }});
    if (k.o.hard) c.samples.back().gradients = false;  // those of the soft one
    if (k.o.hard) c.samples.back().constant = true;
  }
  c.errors = {
      undefined_operand("gumbel_softmax",
                        [](const Tensor& x, const Tensor&) { (void)gumbel_softmax(x); }),
      error_input<UsageError>(
          "tau", "[gumbel_softmax] tau must be greater than 0, got 0",
          [](Device d) { (void)gumbel_softmax(ones({2}, {.device = d}), {.tau = 0}); }),
      error_input<ShapeError>(
          "axis", "[gumbel_softmax] axis 1",
          [](Device d) { (void)gumbel_softmax(ones({2}, {.device = d}), {.dim = 1}); }),
      error_input<DtypeError>("dtype", "[gumbel_softmax] expected a floating dtype", [](Device d) {
        (void)gumbel_softmax(ones({2}, {.dtype = DType::i64, .device = d}));
      })};
  rows.push_back(std::move(c));
}

void add_random_cases(std::vector<OpCase>& rows) {
  add_bernoulli(rows);
  add_gumbel_softmax(rows);
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
