// Every variant of the scan against f64 loops.
#include "warptape/kernels/scan.h"

#include "warptape/autograd/ops/shape.h"
#include "warptape/tests/support/variants.h"

using namespace wt_test;

namespace {

enum class Kind { sum, product, recurrence };

// The lines of x and y, which have one shape and any strides, scanned along `axis`; the result in
// `out` or over an operand.
void check_scan(Kind kind, const Tensor& x, const Tensor& y, int axis, bool reverse,
                std::set<std::string>* ran, Tensor out = {}, bool over = false) {
  const Device d = x.device();
  const DType t = x.dtype();
  const i64 n = x.size(axis);
  CAPTURE(x.shape(), axis, int(kind), reverse, over, dtype_name(t));
  const auto lines = [&](const Tensor& v) {
    Tensor moved = v;
    for (int a = axis; a + 1 < v.ndim(); ++a) moved = moved.transpose(a, a + 1);
    return moved.contiguous();
  };
  const std::vector<double> factor = to_doubles(lines(x)), term = to_doubles(lines(y));
  std::vector<double> want(factor.size()), size(factor.size());
  for (i64 begin = 0; begin < x.numel(); begin += n) {
    double carry = kind == Kind::product ? 1 : 0, magnitude = 0;
    for (i64 i = 0; i < n; ++i) {
      const size_t k = size_t(begin + (reverse ? n - 1 - i : i));
      if (kind != Kind::sum) carry *= factor[k], magnitude *= std::fabs(factor[k]);
      if (kind != Kind::product) carry += term[k], magnitude += std::fabs(term[k]);
      want[k] = t == f32 ? double(float(carry)) : carry;  // inf beyond f32's largest
      size[k] = kind == Kind::product ? std::fabs(carry) : magnitude;
    }
  }
  const Tensor original = x.clone();
  if (over)
    out = x;
  else if (!out.defined())
    out = empty_like(x);
  ScanArgs a{view(out), kind == Kind::sum ? View{} : view(x), {}, axis, reverse};
  if (kind == Kind::sum)
    a.term = view(over ? x : y);
  else if (kind == Kind::recurrence)
    a.term = view(y);
  if (!over) out.fill_(7);
  for_each_variant(
      d, a,
      [&] {
        const std::vector<double> got = to_doubles(lines(out));
        for (size_t i = 0; i < got.size(); ++i) {
          // Carried in f64: the roundings before the last are of that.
          const double bound = roundoff(t) * std::fabs(want[i]) +
                               (t == f64 ? 2.0 : 1.0) * double(n + 8) * 0x1p-53 * size[i] +
                               (t == f16 ? 0x1p-24 : 1e-38);
          if (close(got[i], want[i], bound)) continue;
          CAPTURE(i, got[i], want[i]);
          FAIL("scan out of bounds");
        }
        if (over)
          out.copy_(original);
        else
          out.fill_(7);
      },
      ran);
}
void check_kinds(const Tensor& x, const Tensor& y, int axis, std::set<std::string>* ran,
                 const Tensor& out = {}) {
  for (const Kind kind : {Kind::sum, Kind::product, Kind::recurrence})
    for (const bool reverse : {false, true}) check_scan(kind, x, y, axis, reverse, ran, out);
}
Tensor numbers(const Shape& shape, DType t, Device d, u64 seed, double scale) {
  return to_tensor(random_values(numel_of(shape), seed, scale), shape, t, d);
}

}  // namespace

TEST_CASE("scan kernels: every variant, dtype and length of line") {
  std::set<std::string> ran;
  for (Device d : kernel_devices())
    for (DType t : {f32, f64, f16, bf16})
      for (i64 n : {1, 4, 7, 32, 65, 128, 300, 1024}) {
        if (n > 128 && t == f64) continue;
        check_kinds(numbers({3, n}, t, d, 1, 1.2), numbers({3, n}, t, d, 2, 1), 1, &ran);
      }
  check_ran(ran, {"cpu:reference", "cpu:threaded", "simt:naive", "simt:ahead", "simt:block"});
}

TEST_CASE("scan kernels: lines of several tiles") {
  for (Device d : kernel_devices()) {
    const i64 n = 2 * 1024 + 5;
    check_kinds(numbers({2, n}, f32, d, 1, 1.05), numbers({2, n}, f32, d, 2, 1), 1, nullptr);
    const i64 m = 3 * 1024 + 9;
    check_kinds(numbers({1, m}, bf16, d, 1, 1.05), numbers({1, m}, bf16, d, 2, 1), 1, nullptr);
  }
}

TEST_CASE("scan kernels: strides, other axes, results over an operand") {
  for (Device d : kernel_devices())
    for (DType t : {f32, f16}) {
      const Tensor x = numbers({3, 70, 5}, t, d, 1, 1.1), y = numbers({3, 70, 5}, t, d, 2, 1);
      check_kinds(x, y, 1, nullptr);
      check_kinds(x, y, 0, nullptr);
      check_kinds(x.transpose(1, 2), y.transpose(1, 2), 2, nullptr);
      check_kinds(x, y, 1, nullptr,
                  empty({5, 70, 3}, {.dtype = t, .device = d}).permute({2, 1, 0}));
      // One element along the axis, off 16-byte boundaries, no element.
      check_kinds(numbers({3, 1}, t, d, 1, 1).expand({3, 70}), numbers({3, 70}, t, d, 2, 1), 1,
                  nullptr, zeros({3, 70}, {.dtype = t, .device = d}));
      const Tensor wide = numbers({4, 90}, t, d, 1, 1.1);
      check_kinds(wide.slice(1, {1, 80}), wide.slice(1, {3, 82}), 1, nullptr);
      check_kinds(zeros({0, 4}, {.dtype = t, .device = d}),
                  zeros({0, 4}, {.dtype = t, .device = d}), 1, nullptr);
      for (const Kind kind : {Kind::sum, Kind::product, Kind::recurrence})
        check_scan(kind, numbers({2, 150}, t, d, 1, 1.1), numbers({2, 150}, t, d, 1, 1.1), 1,
                   kind == Kind::product, nullptr, {}, true);
    }
}

TEST_CASE("scan kernels: i64 wraps") {
  for (Device d : kernel_devices()) {
    std::vector<i64> v;
    for (i64 k = 0; k < 700; ++k) v.push_back(i64(u64(k) * 0x9e3779b97f4a7c15u));
    std::vector<i64> sums, products;
    u64 sum = 0, product = 1;
    for (i64& k : v) {
      k |= 1;
      sums.push_back(i64(sum += u64(k)));
      products.push_back(i64(product *= u64(k)));
    }
    const Tensor odd = tensor(v).to(d);
    Tensor out = zeros({700}, {.dtype = DType::i64, .device = d});
    for_each_variant(d, ScanArgs{view(out), {}, view(odd)}, [&] {
      CHECK(out.to_vector<i64>() == sums);
      out.fill_(0);
    });
    for_each_variant(d, ScanArgs{view(out), view(odd), {}}, [&] {
      CHECK(out.to_vector<i64>() == products);
      out.fill_(0);
    });
  }
}

TEST_CASE("scan kernels: products beyond the range of double do not make NaN of a number") {
  for (Device d : kernel_devices()) {
    // A zero, then factors whose product alone is infinite; a NaN and an infinity of the operand's
    // own stay what they are.
    const i64 n = 1500;
    std::vector<double> v(size_t(n), 1.0);
    for (i64 k = 1100; k < 1200; ++k) v[size_t(k)] = 1e30;
    v[500] = 0;
    check_scan(Kind::product, to_tensor(v, {1, n}, f32, d), to_tensor(v, {1, n}, f32, d), 1, false,
               nullptr);
    std::vector<double> w(size_t(n), 0.0);
    w[1300] = 3;
    check_scan(Kind::recurrence, to_tensor(v, {1, n}, f32, d), to_tensor(w, {1, n}, f32, d), 1,
               false, nullptr);
    w[20] = NAN, w[1400] = INFINITY;
    check_scan(Kind::sum, to_tensor(w, {1, n}, f32, d), to_tensor(w, {1, n}, f32, d), 1, true,
               nullptr);
    v[1250] = INFINITY, v[1260] = NAN, v[500] = 1;
    check_scan(Kind::product, to_tensor(v, {1, n}, f32, d), to_tensor(v, {1, n}, f32, d), 1, false,
               nullptr);
  }
}
