// Every variant of sum, max and argmax on cpu and simt against loops in f64.
#include "warptape/kernels/reduce.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "warptape/core/factories.h"
#include "warptape/kernels/run.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/devices.h"

using namespace wt;

namespace {

View view_of(const Tensor& t) { return wt::view_of(t.impl()); }

// Values between -4 and 4, different at every element, exact in every float.
double value_at(i64 i) { return double((i * 37 + 11) % 64 - 32) / 8; }

Tensor values_of(const Shape& shape, DType t, Device d) {
  std::vector<double> v(static_cast<size_t>(numel_of(shape)));
  for (size_t i = 0; i < v.size(); ++i)
    v[i] = is_floating(t) ? value_at(i64(i)) : std::abs(std::floor(value_at(i64(i)) * 4));
  return tensor(v).to(t).view(shape).to(d);
}

enum class Layout { dense, transposed, sliced, expanded };
constexpr const char* kLayoutNames[] = {"dense", "transposed", "sliced", "expanded"};

// A tensor of `shape` in a layout.
Tensor make(const Shape& shape, Layout layout, DType t, Device d) {
  const int n = shape.ndim();
  Shape base = shape;
  switch (layout) {
    case Layout::dense:
      return values_of(shape, t, d);
    case Layout::transposed:
      if (n < 2) return values_of(shape, t, d);
      std::swap(base[0], base[n - 1]);
      return values_of(base, t, d).transpose(0, -1);
    case Layout::sliced:
      if (n == 0) return values_of(shape, t, d);
      base[n - 1] = shape[n - 1] * 2 + 1;
      return values_of(base, t, d).slice(-1, {1, base[n - 1], 2});
    case Layout::expanded:
      if (n == 0 || shape[0] == 0) return values_of(shape, t, d);
      base[0] = 1;
      return values_of(base, t, d).expand(shape);
  }
  return {};
}

// What one output should be.
struct Wanted {
  double sum = 0, absolute = 0, largest = 0;
  i64 count = 0, place = -1;
};

std::vector<Wanted> oracle(const Tensor& x, u32 mask) {
  const Shape shape = x.shape();
  const std::vector<double> v = x.to_vector<double>();
  std::vector<Wanted> out(static_cast<size_t>(numel_of(reduced_shape(shape, mask, true))));
  for (i64 i = 0; i < i64(v.size()); ++i) {
    i64 rest = i, output = 0, place = 0, output_step = 1, place_step = 1;
    for (int axis = shape.ndim(); axis-- > 0; rest /= shape[axis]) {
      const i64 at = rest % shape[axis];
      const bool reduced = mask >> axis & 1;
      (reduced ? place : output) += at * (reduced ? place_step : output_step);
      (reduced ? place_step : output_step) *= shape[axis];
    }
    Wanted& w = out[size_t(output)];
    const double value = v[size_t(i)];
    w.sum += value;
    w.absolute += std::abs(value);
    ++w.count;
    const bool better =
        w.place < 0 || value > w.largest || (value != value && w.largest == w.largest);
    if (better ||
        ((value == w.largest || (value != value && w.largest != w.largest)) && place < w.place))
      w.largest = value, w.place = place;
  }
  return out;
}

// Rounding of the output and of the accumulation, relative.
double output_rounding(DType t) {
  return t == DType::f64    ? 0x1p-53
         : t == DType::f32  ? 0x1p-24
         : t == DType::f16  ? 0x1p-11
         : t == DType::bf16 ? 0x1p-8
                            : 0;
}
double accumulation_rounding(DType t) {
  return t == DType::f64 ? 0x1p-53 : is_floating(t) ? 0x1p-24 : 0;
}

DType sum_dtype(DType t) { return is_floating(t) ? t : DType::i64; }

Launch launch_on(Device d) { return Launch{.device = d}; }

struct Case {
  Shape shape;
  std::vector<u32> masks;
};
const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {{}, {0}},
      {{1}, {0, 1}},
      {{7}, {0, 1}},
      {{257}, {1}},
      {{2000}, {1}},            // a block a row
      {{9000}, {1}},            // several parts
      {{5, 33}, {0, 1, 2, 3}},  // a warp a row, columns
      {{33, 5}, {1, 2, 3}},     // few columns
      {{600, 40}, {1}},         // columns in parts
      {{3, 1100}, {2}},         // rows of more than a warp's share
      {{4, 3, 21}, {1, 2, 4, 5, 6, 3, 7}},
      {{2, 3, 4, 5}, {5, 10, 9, 6, 15}},
      {{3, 0}, {1, 2, 3}},
      {{0, 3}, {1, 2}},
      {{1, 19, 1}, {2, 5, 7}},
  };
  return all;
}

template <class Check>
void for_each_case(Device d, DType t, Check check) {
  int turn = int(t);
  for (const Case& c : cases())
    for (const u32 mask : c.masks)
      for (const Layout layout :
           {Layout::dense, Layout::transposed, Layout::sliced, Layout::expanded}) {
        // Elsewhere each case in one of the three other layouts, by turns.
        if (!wt_test::whole_walk() && layout != Layout::dense && int(layout) != 1 + turn % 3)
          continue;
        if (layout == Layout::expanded) ++turn;
        INFO("shape " << c.shape << " mask " << mask << " " << kLayoutNames[int(layout)] << " "
                      << dtype_name(t) << " on " << d);
        check(make(c.shape, layout, t, d), mask);
      }
}

template <class Args>
std::vector<const char*> variants(Device d) {
  std::vector<const char*> names;
  const Variants<Args>* list = ContractTable<Args>::rows[int(d.kind)];
  REQUIRE(list);
  for (int i = 0; i < list->count; ++i) {
    const Variant<Args>& v = list->rows[i];
    names.push_back(v.name);
  }
  return names;
}

const DType kAll[] = {DType::f64, DType::f32, DType::f16, DType::bf16,
                      DType::i64, DType::i32, DType::u8,  DType::boolean};

// The variant exists but does not take this dtype.
template <class Args>
bool refuses(const char* name, const Args& a, Device d) {
  const Variants<Args>* list = ContractTable<Args>::rows[int(d.kind)];
  for (int i = 0; i < list->count; ++i)
    if (!std::strcmp(list->rows[i].name, name))
      return list->rows[i].why_not && list->rows[i].why_not(a);
  return true;
}

void check_sum(const Tensor& x, const std::vector<Wanted>& wanted, u32 mask, const char* variant,
               bool accumulate, bool keep) {
  const DType t = x.dtype();
  const Shape shape = reduced_shape(x.shape(), mask, keep);
  const i64 length = wanted.empty() || wanted[0].count == 0 ? 1 : wanted[0].count;
  const i64 divide_by = is_floating(t) && accumulate ? length : 1;
  const Tensor out = full(shape, 2, {.dtype = sum_dtype(t), .device = x.device()});
  const SumArgs args{view_of(out), view_of(x), mask, {divide_by, accumulate}};
  if (refuses(variant, args, x.device())) return;
  const VariantScope scope("sum", variant);
  run(args, launch_on(x.device()));
  const std::vector<double> got = out.to_vector<double>();
  REQUIRE(got.size() == wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const Wanted& w = wanted[i];
    const double right = w.sum / double(divide_by) + (accumulate ? 2 : 0);
    const double scale = w.absolute / double(divide_by) + (accumulate ? 2 : 0);
    const double bound = output_rounding(t) * std::abs(right) +
                         double(w.count + 2) * accumulation_rounding(t) * scale;
    if (std::abs(got[i] - right) <= bound) continue;
    FAIL_CHECK("output " << i << " is " << got[i] << ", not " << right);
  }
}

}  // namespace

TEST_CASE("sum: every variant agrees with f64 loops", "[kernels]") {
  const Device d = GENERATE(from_range(wt_test::kernel_devices()));
  const DType t = GENERATE(from_range(std::begin(kAll), std::end(kAll)));
  for_each_case(d, t, [&](const Tensor& x, u32 mask) {
    const std::vector<Wanted> wanted = oracle(x, mask);
    for (const char* variant : variants<SumArgs>(d)) {
      INFO("variant " << variant);
      check_sum(x, wanted, mask, variant, false, true);
      if (x.numel() < 300) check_sum(x, wanted, mask, variant, true, false);
    }
  });
}

TEST_CASE("max: every variant agrees with f64 loops", "[kernels]") {
  const Device d = GENERATE(from_range(wt_test::kernel_devices()));
  const DType t = GENERATE(from_range(std::begin(kAll), std::end(kAll)));
  for_each_case(d, t, [&](const Tensor& x, u32 mask) {
    const std::vector<Wanted> wanted = oracle(x, mask);
    if (!wanted.empty() && wanted[0].count == 0) return;
    std::vector<double> right;
    for (const Wanted& w : wanted) right.push_back(w.largest);
    for (const char* variant : variants<MaxArgs>(d)) {
      INFO("variant " << variant);
      const Tensor out = empty(reduced_shape(x.shape(), mask, false), {.dtype = t, .device = d});
      const MaxArgs args{view_of(out), view_of(x), mask};
      if (refuses(variant, args, d)) continue;
      const VariantScope scope("max", variant);
      run(args, launch_on(d));
      CHECK(out.to_vector<double>() == right);
    }
  });
}

TEST_CASE("argmax: every variant agrees with f64 loops", "[kernels]") {
  const Device d = GENERATE(from_range(wt_test::kernel_devices()));
  const DType t = GENERATE(from_range(std::begin(kAll), std::end(kAll)));
  for_each_case(d, t, [&](const Tensor& x, u32 mask) {
    const std::vector<Wanted> wanted = oracle(x, mask);
    if (!wanted.empty() && wanted[0].count == 0) return;
    std::vector<i64> right;
    for (const Wanted& w : wanted) right.push_back(w.place);
    for (const char* variant : variants<ArgmaxArgs>(d)) {
      INFO("variant " << variant);
      const Tensor out =
          empty(reduced_shape(x.shape(), mask, false), {.dtype = DType::i64, .device = d});
      const ArgmaxArgs args{view_of(out), view_of(x), mask};
      if (refuses(variant, args, d)) continue;
      const VariantScope scope("argmax", variant);
      run(args, launch_on(d));
      CHECK(out.to_vector<i64>() == right);
    }
  });
}

namespace {
// Every variant of F on x, against `right` for each output.
template <class F>
void check_long(const Tensor& x, u32 mask, F f, DType result,
                double (*right)(const std::vector<double>&), double roundings) {
  const Shape shape = reduced_shape(x.shape(), mask, false);
  std::vector<std::vector<double>> groups(size_t(numel_of(shape)));
  const std::vector<double> v = x.to_vector<double>();
  const i64 columns = x.ndim() == 2 ? x.size(1) : 1;
  for (size_t i = 0; i < v.size(); ++i)
    groups[size_t(mask == 2 ? i64(i) / columns : i64(i) % columns)].push_back(v[i]);
  std::vector<double> wanted;
  for (const std::vector<double>& group : groups) wanted.push_back(right(group));
  for (const char* variant : variants<ReduceArgs<F>>(x.device())) {
    const Tensor out = empty(shape, {.dtype = result, .device = x.device()});
    const ReduceArgs<F> args{view_of(out), view_of(x), mask, f};
    if (refuses(variant, args, x.device())) continue;
    const VariantScope scope(ContractTable<ReduceArgs<F>>::kName, variant);
    run(args, launch_on(x.device()));
    const std::vector<double> got = out.to_vector<double>();
    REQUIRE(got.size() == groups.size());
    INFO(ContractTable<ReduceArgs<F>>::kName << ":" << variant << " " << x.shape() << " mask "
                                             << mask << " " << dtype_name(x.dtype()) << " on "
                                             << x.device());
    const double relative = output_rounding(result) + roundings * accumulation_rounding(result);
    for (size_t i = 0; i < got.size(); ++i) {
      const double want = wanted[i];
      if (std::abs(got[i] - want) <= relative * std::abs(want)) continue;
      FAIL_CHECK("output " << i << " is " << got[i] << ", not " << want);
    }
  }
}

double moments(const std::vector<double>& v) {
  double mean = 0, squares = 0;
  for (const double x : v) mean += x / double(v.size());
  for (const double x : v) squares += (x - mean) * (x - mean);
  return squares / double(v.size() - 1);
}
double root_of_squares(const std::vector<double>& v) {
  double squares = 0;
  for (const double x : v) squares += x * x;
  return std::sqrt(squares);
}
double absolute_sum(const std::vector<double>& v) {
  double sum = 0;
  for (const double x : v) sum += std::abs(x);
  return sum;
}
double least(const std::vector<double>& v) { return *std::min_element(v.begin(), v.end()); }
double place_of_least(const std::vector<double>& v) {
  return double(std::min_element(v.begin(), v.end()) - v.begin());
}
double any_set(const std::vector<double>& v) {
  return double(std::any_of(v.begin(), v.end(), [](double x) { return x != 0; }));
}
double log_sum_exp(const std::vector<double>& v) {
  const double largest = *std::max_element(v.begin(), v.end());
  double sum = 0;
  for (const double x : v) sum += std::exp(x - largest);
  return largest + std::log(sum);
}
double product(const std::vector<double>& v) {
  double p = 1;
  for (const double x : v) p *= x;
  return p;
}
}  // namespace

// Rows and columns of more than one part, a block, a warp; both device schedules of each.
TEST_CASE("reductions of the list: every variant on long rows and columns", "[kernels]") {
  const Device d = GENERATE(from_range(wt_test::kernel_devices()));
  const DType t = GENERATE(DType::f64, DType::f32, DType::bf16, DType::i32);
  const auto [shape, mask] = GENERATE(table<Shape, u32>(
      {{Shape{9000}, 1u}, {Shape{600, 40}, 1u}, {Shape{3, 1100}, 2u}, {Shape{77, 33}, 1u}}));
  const Tensor x = values_of(shape, t, d);
  const double n = double(shape[mask == 2 ? 1 : 0]);
  check_long(x, mask, red::Extreme{true}, t, least, 0);
  check_long(x, mask, red::Place{true}, DType::i64, place_of_least, 0);
  // One element that is set, in the last part.
  std::vector<double> lone(size_t(numel_of(shape)), 0.0);
  lone[lone.size() - 7] = 1;
  check_long(tensor(lone).to(t).view(shape).to(d), mask, red::Truth{}, DType::boolean, any_set, 0);
  // Powers of two whose product stays in the type.
  std::vector<double> factors;
  for (size_t i = 0; i < lone.size(); ++i) factors.push_back(is_floating(t) && i % 3 ? 0.5 : 1.0);
  for (size_t i = 0; i < factors.size(); ++i)
    if (i % 3 == 1) factors[i] = 2 - 4 * double(i % 2);
  if (is_floating(t) && shape.ndim() == 1)
    check_long(tensor(factors).to(t).view(shape).to(d), mask, red::Product{}, t, product, 0);
  if (!is_floating(t)) return;
  check_long(x, mask, red::Moments{1, false}, t, moments, 8 + std::sqrt(n) * 4);
  check_long(x, mask, red::Norm{}, t, root_of_squares, 8 + n);
  check_long(x, mask, red::Norm{true}, t, absolute_sum, 8 + n);
  check_long(x, mask, red::LogSumExp{}, t, log_sum_exp, 8 + n);
}

// More columns than the cpu gathers at a time, more rows than a lane adds.
TEST_CASE("reductions of the list: wide columns", "[kernels]") {
  const Device d = Device::cpu();
  const DType t = GENERATE(DType::f64, DType::f32, DType::bf16);
  const Shape shape{70, 4209};
  const Tensor x = values_of(shape, t, d);
  check_long(x, 1, red::Extreme{true}, t, least, 0);
  check_long(x, 1, red::Place{true}, DType::i64, place_of_least, 0);
  check_long(x, 1, red::Moments{1, false}, t, moments, 40);
  check_long(x, 1, red::Norm{}, t, root_of_squares, 80);
  check_long(x, 1, red::Norm{true}, t, absolute_sum, 80);
  check_long(x, 1, red::LogSumExp{}, t, log_sum_exp, 80);
  std::vector<double> factors;
  for (i64 i = 0; i < numel_of(shape); ++i)
    factors.push_back(i % 3 == 0 ? 2 : i % 3 == 1 ? -0.5 : 1);
  check_long(tensor(factors).to(t).view(shape).to(d), 1, red::Product{}, t, product, 0);
  check_long(
      tensor(factors).to(t).view(shape).to(d), 1, red::Truth{true}, DType::boolean,
      [](const std::vector<double>&) { return 1.0; }, 0);
}

// Rows and columns that the vectors, their tails and the strides see; a float's -0 is no bit.
TEST_CASE("any and all: one element that decides, wherever it is", "[kernels]") {
  const Device d = GENERATE(from_range(wt_test::kernel_devices()));
  const DType t = GENERATE(DType::f64, DType::f32, DType::bf16, DType::i64, DType::i32, DType::u8,
                           DType::boolean);
  const bool all = GENERATE(false, true);
  const i64 n = 301, columns = 77;
  for (const i64 place : {0, 31, 130, 260, 300})
    for (const i64 column : {0, 40, 76}) {
      if (!wt_test::whole_walk() && (place + column / 38) % 3 != 1) continue;  // a column for each
      std::vector<double> v(size_t(n * columns), all ? 1.0 : is_floating(t) ? -0.0 : 0.0);
      v[size_t(place * columns + column)] = all ? (is_floating(t) ? -0.0 : 0.0) : 1;
      const Tensor by_rows = tensor(v).to(t).view({n, columns}).to(d);
      const Tensor by_columns = by_rows.transpose(0, 1).contiguous().transpose(0, 1);
      for (const Tensor& x : {by_rows, by_columns})
        for (const char* variant : variants<AnyArgs>(d)) {
          INFO(variant << " on " << d << " " << dtype_name(t) << " at " << place << ", " << column);
          const VariantScope scope("any", variant);
          const Tensor y = empty({columns}, {.dtype = DType::boolean, .device = d});
          run(AnyArgs{view_of(y), view_of(x), 1, {all}}, launch_on(d));
          std::vector<double> right(size_t(columns), all ? 1.0 : 0.0);
          right[size_t(column)] = all ? 0 : 1;
          CHECK(y.to_vector<double>() == right);
        }
    }
}

TEST_CASE("logsumexp: infinities and NaN in rows and columns", "[kernels]") {
  const Device d = GENERATE(from_range(wt_test::kernel_devices()));
  const i64 n = GENERATE(5, 40, 1200, 9000);
  const i64 at = GENERATE(0, 4);
  const double inf = INFINITY;
  struct Put {
    double all, one, last, right;
  };
  const double high = 300 + std::log(double(n));  // e^300 is no f32
  const Put put =
      GENERATE_COPY(Put{-inf, -inf, -inf, -inf}, Put{-inf, -200, -inf, -200}, Put{1, inf, 2, inf},
                    Put{1, inf, inf, inf}, Put{300, 300, 300, high}, Put{-inf, NAN, 1, NAN},
                    Put{1, inf, NAN, NAN});
  std::vector<float> v(size_t(n), float(put.all)), wide(size_t(n) * 41, -9.0f);
  v[size_t(n - 1)] = float(put.last);
  v[size_t(at)] = float(at == n - 1 && put.last != put.last ? put.last : put.one);
  for (i64 i = 0; i < n; ++i)
    for (const i64 c : {3, 40}) wide[size_t(i * 41 + c)] = v[size_t(i)];
  const Tensor row = tensor(v).to(d), columns = tensor(wide).view({n, 41}).to(d);
  for (const char* variant : variants<LogsumexpArgs>(d)) {
    INFO(variant << " on " << d << " n " << n << " " << put.all << " " << put.one);
    const VariantScope scope("logsumexp", variant);
    const Tensor one = empty({1}, {.device = d}), many = empty({41}, {.device = d});
    run(LogsumexpArgs{view_of(one), view_of(row), 1}, launch_on(d));
    run(LogsumexpArgs{view_of(many), view_of(columns), 1}, launch_on(d));
    for (const float y :
         {one.to_vector<float>()[0], many.to_vector<float>()[3], many.to_vector<float>()[40]}) {
      if (put.right != put.right)
        CHECK(y != y);
      else
        CHECK((y == float(put.right) || std::abs(y - put.right) <= 1e-6 * std::abs(put.right)));
    }
    CHECK(std::abs(many.to_vector<float>()[4] - (std::log(double(n)) - 9)) <= 1e-5);
  }
}

TEST_CASE("variance: numbers that differ in the last bits of a large mean", "[kernels]") {
  const Device d = GENERATE(from_range(wt_test::kernel_devices()));
  const i64 n = GENERATE(16, 40, 1200, 9001);
  for (const DType t : {DType::f64, DType::f32}) {
    const double step = t == DType::f32 ? 0x1p-10 : 0x1p-39, mean = 10000;  // units there
    std::vector<double> v;
    double square = 0;
    for (i64 i = 0; i < n; ++i) v.push_back(mean + step * double(i % 16));
    for (i64 i = 0; i < n; ++i)
      for (i64 k = 0; k < 16; ++k)  // of pairs, exactly
        square += double((i % 16 - k) * (i % 16 - k)) * double(n / 16 + (k < n % 16));
    const double want = square / 2 / double(n) / double(n - 1) * step * step;
    const double bound = (t == DType::f32 ? 0x1p-24 : 0x1p-53) * (8 + 4 * std::sqrt(double(n)));
    std::vector<double> wide;
    for (const double x : v)
      for (int c = 0; c < 20; ++c) wide.push_back(x);
    const Tensor row = tensor(v).to(t).to(d), columns = tensor(wide).to(t).view({n, 20}).to(d);
    for (const char* variant : variants<VarianceArgs>(d)) {
      INFO(variant << " on " << d << " n " << n << " " << dtype_name(t));
      const TensorOptions like{.dtype = t, .device = d};
      const Tensor one = empty({}, like), many = empty({20}, like);
      const VarianceArgs of_row{view_of(one), view_of(row), 1};
      if (refuses(variant, of_row, d)) continue;
      const VariantScope scope("variance", variant);
      run(of_row, launch_on(d));
      run(VarianceArgs{view_of(many), view_of(columns), 1}, launch_on(d));
      CHECK(std::abs(one.to_vector<double>()[0] - want) <= bound * want);
      for (const double y : many.to_vector<double>()) CHECK(std::abs(y - want) <= bound * want);
    }
  }
}

TEST_CASE("variance: a large offset does not cancel", "[kernels]") {
  const Device d = GENERATE(from_range(wt_test::kernel_devices()));
  const i64 n = GENERATE(40, 1200, 9001);
  std::vector<double> v;
  for (i64 i = 0; i < n; ++i) v.push_back(16384 + value_at(i));  // squares: 2^28, and f32 has 2^24
  for (const DType t : {DType::f64, DType::f32}) {
    check_long(tensor(v).to(t).to(d), 1, red::Moments{1, false}, t, moments, 4000);
    // Beside each other: the loops over columns.
    std::vector<double> wide;
    for (i64 i = 0; i < n; ++i)
      for (int c = 0; c < 20; ++c) wide.push_back(v[size_t((i + c) % n)]);
    check_long(tensor(wide).to(t).view({n, 20}).to(d), 1, red::Moments{1, false}, t, moments, 4000);
  }
}

TEST_CASE("max and argmax: NaN wins, then the first of equals", "[kernels]") {
  const Device d = GENERATE(from_range(wt_test::kernel_devices()));
  const i64 n = GENERATE(5, 40, 1200, 9000);
  const i64 first = GENERATE(0, 2, 4);
  std::vector<float> v(size_t(n), -3.0f);
  SECTION("NaN") { v[size_t(first)] = v[size_t(n - 1)] = NAN; }
  SECTION("ties") { v[size_t(first)] = v[size_t(n - 1)] = 2; }
  SECTION("minus infinity") {
    for (float& f : v) f = -INFINITY;
  }
  const i64 place = v[size_t(first)] == -INFINITY ? 0 : first;
  // A row, and a column beside others.
  const Tensor row = tensor(v).to(d);
  std::vector<float> wide(size_t(n) * 20, -9.0f);
  for (i64 i = 0; i < n; ++i) wide[size_t(i) * 20 + 3] = v[size_t(i)];
  const Tensor columns = tensor(wide).view({n, 20}).to(d);
  for (const char* variant : variants<ArgmaxArgs>(d)) {
    INFO(variant << " on " << d << " n " << n);
    const VariantScope scope("argmax", variant);
    const Tensor one = empty({}, {.dtype = DType::i64, .device = d});
    run(ArgmaxArgs{view_of(one), view_of(row), 1}, launch_on(d));
    CHECK(one.to_vector<i64>()[0] == place);
    const Tensor many = empty({20}, {.dtype = DType::i64, .device = d});
    run(ArgmaxArgs{view_of(many), view_of(columns), 1}, launch_on(d));
    CHECK(many.to_vector<i64>()[3] == place);
    CHECK(many.to_vector<i64>()[4] == 0);
  }
  for (const char* variant : variants<MaxArgs>(d)) {
    INFO(variant << " on " << d << " n " << n);
    const VariantScope scope("max", variant);
    const Tensor out = empty({1, 20}, {.device = d});
    run(MaxArgs{view_of(out), view_of(columns), 1}, launch_on(d));
    const float got = out.to_vector<float>()[3], right = v[size_t(place)];
    CHECK((got == right || (got != got && right != right)));
  }
}

TEST_CASE("sum: long sums stay far inside the bound, and repeat bit for bit", "[kernels]") {
  const Device d = GENERATE(from_range(wt_test::kernel_devices()));
  const i64 n = 100'003;
  std::vector<float> v(static_cast<size_t>(n));
  double right = 0;
  for (i64 i = 0; i < n; ++i) right += v[size_t(i)] = 0.1f + float(i % 7) * 0.013f;
  const Tensor x = tensor(v).to(d);
  const Tensor a = empty({}, {.device = d}), b = empty({}, {.device = d});
  run(SumArgs{view_of(a), view_of(x), 1}, launch_on(d));
  run(SumArgs{view_of(b), view_of(x), 1}, launch_on(d));
  CHECK(a.item() == b.item());
  CHECK(std::abs(a.item() - right) <= 40 * 0x1p-24 * right);  // one chain would allow 100,003
}

TEST_CASE("mean of nothing is NaN, sum of nothing is 0", "[kernels]") {
  const Device d = GENERATE(from_range(wt_test::kernel_devices()));
  const DType t = GENERATE(DType::f64, DType::f32, DType::f16, DType::bf16);
  const Tensor x = empty({0, 3}, {.dtype = t, .device = d});
  for (const char* variant : variants<SumArgs>(d)) {
    const VariantScope scope("sum", variant);
    const Tensor out = ones({3}, {.dtype = t, .device = d});
    run(SumArgs{view_of(out), view_of(x), 1}, launch_on(d));
    CHECK(out.to_vector<double>() == std::vector<double>{0, 0, 0});
    run(SumArgs{view_of(out), view_of(x), 1, 0}, launch_on(d));
    for (double v : out.to_vector<double>()) CHECK(v != v);
  }
}
