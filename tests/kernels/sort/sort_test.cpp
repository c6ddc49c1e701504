// Every variant of sorting, counting and drawing against plain loops. Orders are exact: equal
// elements keep theirs, so there is one right answer.
#include "warptape/kernels/sort.h"

#include <algorithm>
#include <numeric>

#include "warptape/autograd/ops/shape.h"
#include "warptape/tests/support/variants.h"

using namespace wt_test;

namespace {

using Places = std::vector<i64>;

// Each variant, or where the naive ones would take seconds the one that is chosen.
template <class Args>
void each_or_best(Device d, const Args& args, i64 naive_steps, const std::function<void()>& check,
                  std::set<std::string>* ran) {
  if (naive_steps <= 3'000'000) return for_each_variant(d, args, check, ran);
  Launch l;
  l.device = d;
  run(args, l);
  check();
  if (ran) ran->insert(std::string(device_kind_name(d.kind)) + ":" + choose(args, d).name);
}

// Whether a comes before b, if it is not equal to it.
bool before(double a, double b, bool descending) {
  if (std::isnan(a) || std::isnan(b))
    return descending ? std::isnan(a) && !std::isnan(b) : std::isnan(b) && !std::isnan(a);
  return descending ? a > b : a < b;
}

// The first k of the rows of x [rows, length] along the last axis, by each variant. `x` may have
// any strides. k < 0: all.
void check_sort(const Tensor& x, i64 k, std::set<std::string>* ran) {
  const i64 rows = x.size(0), length = x.size(1);
  if (k < 0) k = length;
  const std::vector<double> v = to_doubles(x);
  for (const bool descending : {false, true}) {
    CAPTURE(x.shape(), k, descending, dtype_name(x.dtype()));
    Places want;
    for (i64 r = 0; r < rows; ++r) {
      Places order(static_cast<size_t>(length));
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](i64 a, i64 b) {
        return before(v[size_t(r * length + a)], v[size_t(r * length + b)], descending);
      });
      want.insert(want.end(), order.begin(), order.begin() + k);
    }
    const Tensor indices = full({rows, k}, 7, {.dtype = DType::i64, .device = x.device()});
    const Tensor values = zeros({rows, k}, {.dtype = x.dtype(), .device = x.device()});
    each_or_best(
        x.device(), SortArgs{view(values), view(indices), view(x), 1, descending},
        rows * length * length,
        [&] {
          REQUIRE(indices.to_vector<i64>() == want);
          const std::vector<double> got = to_doubles(values);
          bool same = true;
          for (size_t i = 0; i < want.size(); ++i) {
            const double from = v[size_t(i64(i) / k * length + want[i])];
            same = same && (got[i] == from || (std::isnan(got[i]) && std::isnan(from))) &&
                   std::signbit(got[i]) == std::signbit(from);
          }
          CHECK(same);
          Tensor again = indices;
          again.fill_(7);
        },
        ran);
  }
}

// Values with many ties, both zeros, infinities and NaN.
std::vector<double> with_ties(i64 n, u64 seed) {
  std::vector<double> v = random_values(n, seed, 20);
  for (size_t i = 0; i < v.size(); ++i) {
    v[i] = std::trunc(v[i]);
    if (i % 17 == 3) v[i] = -0.0;
    if (i % 23 == 5) v[i] = NAN;
    if (i % 29 == 7) v[i] = i % 2 ? INFINITY : -INFINITY;
  }
  return v;
}

}  // namespace

TEST_CASE("sort kernels: every variant at the ends of the rungs' ranges", "[kernels]") {
  for (const Device d : kernel_devices()) {
    std::set<std::string> ran;
    for (const i64 n : {1, 31, 64, 65, 1000, 2048, 2049})
      check_sort(to_tensor(random_values(2 * n, u64(n)), {2, n}, f32, d), -1, &ran);
    for (const i64 n : {4096, 4097, 8200})
      check_sort(to_tensor(random_values(n, u64(n)), {1, n}, f32, d), -1, &ran);
    for (const i64 n : {2048, 2049, 4100})
      check_sort(to_tensor(random_values(n, u64(n)), {1, n}, f64, d), -1, &ran);
    if (d.kind == DeviceKind::simt)
      CHECK(ran == std::set<std::string>{"simt:block", "simt:select", "simt:radix", "simt:naive"});
  }
}

TEST_CASE("sort kernels: the first few of a row", "[kernels]") {
  for (const Device d : kernel_devices()) {
    const Tensor x = to_tensor(random_values(3 * 5000, 1), {3, 5000}, f32, d);
    for (const i64 k : {1, 2, 50, 1024, 1025})
      check_sort(x.narrow(0, 0, k > 50 ? 1 : 3), k, nullptr);
    // More equal ones than are wanted, at the end of what is.
    for (const DType t : {f64, f32, f16, bf16})
      for (const i64 k : {1, 40, 700})
        check_sort(to_tensor(with_ties(2 * 1500, 2), {2, 1500}, t, d), k, nullptr);
    check_sort(zeros({1, 3000}, {.device = d}), 100, nullptr);
  }
}

TEST_CASE("sort kernels: every dtype, ties, NaN, both zeros", "[kernels]") {
  for (const Device d : kernel_devices()) {
    for (const DType t : {f64, f32, f16, bf16})
      for (const i64 n : {9, 300})
        check_sort(to_tensor(with_ties(3 * n, 3), {3, n}, t, d), -1, nullptr);
    for (const DType t : {DType::i64, DType::i32, DType::u8, DType::boolean})
      for (const i64 n : {9, 300}) {
        std::vector<double> v = random_values(2 * n, 4, 120);
        for (double& e : v) e = t == DType::u8 ? std::trunc(e + 120) : std::trunc(e);
        check_sort(to_tensor(v, {2, n}, t, d), -1, nullptr);
      }
    const Places wide{std::numeric_limits<i64>::max(), std::numeric_limits<i64>::min(), -1, 0, 1};
    const Tensor x = tensor(wide, {.dtype = DType::i64}).to(d);
    const Tensor indices = zeros({5}, {.dtype = DType::i64, .device = d});
    for_each_variant(d, SortArgs{{}, view(indices), view(x), 0, false}, [&] {
      CHECK(indices.to_vector<i64>() == Places{1, 2, 3, 4, 0});
    });
  }
}

TEST_CASE("sort kernels: keys most of which lie close together", "[kernels]") {
  Places keys;
  for (i64 i = 0; i < 6000; ++i) {
    const i64 near = i * 7919 % 97;
    keys.push_back(i % 500 == 3   ? std::numeric_limits<i64>::max() - near
                   : i % 500 == 9 ? std::numeric_limits<i64>::min() + near
                   : i % 5 == 1   ? (i64(1) << (i / 5 % 63)) + near
                                  : near);
  }
  for (const i64 n : {31, 32, 33, 34, 63, 64, 65, 129, 6000})
    for (const bool descending : {false, true}) {
      Places want(static_cast<size_t>(n));
      std::iota(want.begin(), want.end(), 0);
      std::stable_sort(want.begin(), want.end(), [&](i64 a, i64 b) {
        const i64 x = keys[size_t(a)], y = keys[size_t(b)];
        return descending ? x > y : x < y;
      });
      for (const Device d : kernel_devices()) {
        CAPTURE(n, descending, device_kind_name(d.kind));
        const Tensor x = tensor(keys).narrow(0, 0, n).to(d);
        Tensor indices = zeros({n}, {.dtype = DType::i64, .device = d});
        each_or_best(
            d, SortArgs{{}, view(indices), view(x), 0, descending}, n * n,
            [&] {
              CHECK(indices.to_vector<i64>() == want);
              indices.fill_(7);
            },
            nullptr);
      }
    }
}

TEST_CASE("sort kernels: rows that lie in any way", "[kernels]") {
  for (const Device d : kernel_devices()) {
    const Tensor x = to_tensor(random_values(70 * 6, 5), {70, 6}, f32, d);
    check_sort(x.t(), -1, nullptr);
    check_sort(x.t(), 3, nullptr);
    check_sort(x.narrow(1, 1, 3), -1, nullptr);
    check_sort(x.narrow(1, 0, 1).expand({70, 5}), -1, nullptr);
    for (const Shape& s : {Shape{0, 3}, Shape{3, 0}})
      check_sort(zeros(s, {.device = d}), -1, nullptr);
    check_sort(x, 0, nullptr);
  }
}

TEST_CASE("bincount kernels: counts and sums in the order of the list", "[kernels]") {
  for (const Device d : kernel_devices()) {
    std::set<std::string> ran;
    for (const DType of : {DType::i64, DType::i32, DType::u8, DType::boolean})
      for (const i64 bins : {1, 2, 255, 300, 5000, 70000})
        for (const i64 n : {0, 1, 33, 9000}) {
          if (n == 9000 && (bins == 255 || of == DType::i32)) continue;
          CAPTURE(dtype_name(of), bins, n);
          const i64 limit = std::min<i64>(bins, of == DType::boolean ? 2
                                                : of == DType::u8    ? 256
                                                                     : bins);
          Places list;
          for (const double v : random_values(n, u64(bins)))
            list.push_back(i64((v + 1) / 2 * double(limit)));
          const Tensor x = tensor(list, {.dtype = DType::i64}).to(of).to(d);
          Places counts(size_t(bins), 0);
          for (const i64 b : list) ++counts[size_t(b)];
          const Tensor out = full({bins}, 7, {.dtype = DType::i64, .device = d});
          each_or_best(
              d, BincountArgs{view(out), view(x), {}}, 10 * n * bins,
              [&] { CHECK(out.to_vector<i64>() == counts); }, &ran);
          for (const DType t : {f64, f32, f16, bf16}) {
            const Tensor w = to_tensor(random_values(2 * n, 3), {n, 2}, t, d).select(1, 1);
            const std::vector<double> weight = to_doubles(w);
            std::vector<double> sums(size_t(bins), 0);
            for (size_t i = 0; i < list.size(); ++i) sums[size_t(list[i])] += weight[i];
            const std::vector<double> want =
                to_doubles(t == f64 ? tensor(sums) : tensor(sums).to(f32).to(t));
            const Tensor total = full({bins}, 7, {.dtype = t, .device = d});
            each_or_best(
                d, BincountArgs{view(total), view(x), view(w)}, 10 * n * bins,
                [&] { CHECK(to_doubles(total) == want); }, &ran);
          }
        }
    if (d.kind == DeviceKind::simt)
      CHECK(ran == std::set<std::string>{"simt:atomics", "simt:sorted", "simt:naive"});
  }
}

TEST_CASE("multinomial kernels: the cpu's places on every device", "[kernels]") {
  const PhiloxKey key = philox_key(7, RandomStream::user);
  for (const DType t : {f64, f32, f16, bf16})
    for (const bool replacement : {true, false})
      for (const auto& [rows, places, draws] : {std::tuple<i64, i64, i64>{1, 1, 1},
                                                {3, 7, 5},
                                                {2, 300, 40},
                                                {1, 5000, 30},
                                                {0, 4, 2}}) {
        CAPTURE(dtype_name(t), replacement, places);
        std::vector<double> p = random_values(rows * places, 9);
        for (size_t i = 0; i < p.size(); ++i) p[i] = i % 5 == 3 ? 0 : std::fabs(p[i]) + 0.01;
        Places want;
        for (const Device d : kernel_devices()) {
          const Tensor weights = to_tensor(p, {rows, places}, t, d);
          const Tensor out = zeros({draws, rows}, {.dtype = DType::i64, .device = d}).t();
          for_each_variant(d, MultinomialArgs{view(out), view(weights), replacement, key, 3}, [&] {
            const Places got = out.to_vector<i64>();
            if (want.empty()) want = got;
            CHECK(got == want);
          });
        }
      }
}

TEST_CASE("multinomial kernels: no place without a probability", "[kernels]") {
  // One place in a row of zeros, wherever it is: draws stand on the steps of the running sum.
  for (const Device d : kernel_devices())
    for (const i64 at : {0, 1, 256, 299}) {
      std::vector<double> p(300, 0.0);
      p[size_t(at)] = 0.1;
      const Tensor weights = to_tensor(p, {1, 300}, f32, d);
      const Tensor out = zeros({1, 50}, {.dtype = DType::i64, .device = d});
      for_each_variant(d, MultinomialArgs{view(out), view(weights), true, {1, 2}, 0},
                       [&] { CHECK(out.to_vector<i64>() == Places(50, at)); });
    }
}
