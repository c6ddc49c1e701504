// Normalisation by channels beside its rows: offsets, both memory orders, threads, infinities.
#include "warptape/autograd/ops/channel_norm.h"

#include <algorithm>
#include <cmath>

#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/norm.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/device.h"
#include "warptape/kernels/channel_norm.h"
#include "warptape/kernels/cpu/isa.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/values.h"
#include "warptape/tests/support/variants.h"

using namespace wt_test;

namespace {

struct Threads {
  const int before = num_threads();
  explicit Threads(int n) { set_num_threads(n); }
  ~Threads() { set_num_threads(before); }
};

Tensor in_format(const Tensor& x, bool nhwc) {
  return nhwc ? contiguous(x, MemoryFormat::channels_last) : x;
}

// Everything a normalisation makes: values, gradients, running statistics.
using Norm = std::function<Tensor(const Tensor& x, const Tensor& w, const Tensor& b,
                                  const Tensor& mean, const Tensor& var)>;
std::vector<Values> all_of(const Norm& norm, const Tensor& x0, const Tensor& gy) {
  const i64 c = x0.size(1);
  Tensor x = x0.detach().set_requires_grad();
  Tensor w = to_tensor(random_values(c, 7), {c}, x.dtype(), {}).set_requires_grad();
  Tensor b = to_tensor(random_values(c, 8), {c}, x.dtype(), {}).set_requires_grad();
  Tensor mean = zeros({c}), var = ones({c});
  const Tensor y = norm(x, w, b, mean, var);
  CHECK(y.strides() == x.strides());
  std::vector<Values> r{values(y)};
  for (const Tensor& g : grads({y}, {x, w, b}, {.grad_outputs = {gy}})) r.push_back(values(g));
  r.push_back(values(mean));
  r.push_back(values(var));
  return r;
}
const Norm kNorms[] = {
    [](auto& x, auto& w, auto& b, auto& mean, auto& var) {
      return batch_norm(
          x, {.weight = w, .bias = b, .running_mean = mean, .running_var = var, .training = true});
    },
    [](auto& x, auto& w, auto& b, auto&, auto&) {
      return group_norm(x, 4, {.weight = w, .bias = b});
    },
    [](auto& x, auto& w, auto& b, auto& mean, auto& var) {
      return instance_norm(x, {.weight = w, .bias = b, .running_mean = mean, .running_var = var});
    }};

}  // namespace

TEST_CASE("channel norms: equal bits for one and two threads and run after run, NCHW and NHWC") {
  const Shape shape{6, 24, 37, 41};
  const Tensor x = to_tensor(random_values(numel_of(shape), 1, 2), shape, f32, {});
  const Tensor gy = to_tensor(random_values(numel_of(shape), 2), shape, f32, {});
  for (const Norm& norm : kNorms) {
    std::vector<Values> of[2];
    for (const bool nhwc : {false, true}) {
      for (int threads : {1, 2, 2}) {
        const Threads use(threads);
        std::vector<Values> now = all_of(norm, in_format(x, nhwc), in_format(gy, nhwc));
        CHECK((of[nhwc].empty() || of[nhwc] == now));
        of[nhwc] = std::move(now);
      }
      // A gradient in the other order is put in x's.
      CHECK(all_of(norm, in_format(x, nhwc), in_format(gy, !nhwc)) == of[nhwc]);
    }
    for (size_t k = 0; k < of[0].size(); ++k)
      for (size_t i = 0; i < of[0][k].size(); i += 97) {
        CAPTURE(k, i);
        CHECK(close(of[0][k][i], of[1][k][i], error_bound(f32, 300, of[0][k][i], 4)));
      }
  }
}

// A one-pass variance loses everything here; a mean that is rounded before it is subtracted, much.
TEST_CASE("channel norms: a large offset does not cancel") {
  std::set<std::string> ran;
  const Shape shape{3, 20, 5, 45};
  std::vector<double> v = random_values(numel_of(shape), 3);
  for (size_t i = 0; i < v.size(); ++i) {
    const i64 c = i64(i) / 225 % 20;
    v[i] = std::round(v[i] * 64) / 64 + (c % 3 == 0 ? 1e5 : c % 3 == 1 ? -3e4 : 0);
  }
  for (const Device d : kernel_devices())
    for (const bool nhwc : {false, true})
      for (i64 groups : {0, 20}) {
        const Tensor x = in_format(to_tensor(v, shape, f32, d), nhwc);
        const Tensor seen = x.flatten(2);  // a view
        REQUIRE(seen.impl()->storage == x.impl()->storage);
        const i64 n = groups ? 60 : 20;
        const TensorOptions o{.device = d};
        const Tensor stats = empty({3, n}, o), variance = empty({n}, o), y = empty_like(seen);
        const auto statistics_are_right = [&] {
          const Values got = to_doubles(stats), spreads = to_doubles(variance);
          for (i64 k = 0; k < n; ++k) {
            long double mean = 0, spread = 0;
            double count = 0;
            const auto each = [&](auto&& f) {
              for (i64 s = 0; s < 3; ++s)
                if (!groups || s == k / 20)
                  for (i64 i = 0; i < 225; ++i) f(v[size_t((s * 20 + k % 20) * 225 + i)]);
            };
            each([&](double e) { mean += e, count += 1; });
            mean /= count;
            each([&](double e) { spread += (e - mean) * (e - mean); });
            spread /= count;
            CAPTURE(k, nhwc, groups);
            CHECK(std::fabs(got[size_t(k)] + got[size_t(n + k)] - double(mean)) < 1e-6);
            CHECK(std::fabs(spreads[size_t(k)] / double(spread) - 1) < 1e-5);
            CHECK(std::fabs(got[size_t(2 * n + k)] * std::sqrt(double(spread) + 1e-5) - 1) < 1e-5);
          }
        };
        const auto cells_add_up_to_nothing = [&] {  // where each has a statistic of its own
          const Values got = to_doubles(y);
          for (i64 cell = 0; groups && cell < 60; ++cell) {
            double sum = 0;
            for (i64 i = 0; i < 225; ++i) sum += got[size_t(cell * 225 + i)];
            CHECK(std::fabs(sum) < 225 * 1e-5);
          }
        };
        for_each_variant(d, ChannelStatsArgs{view(stats), view(variance), view(seen), groups, 1e-5},
                         statistics_are_right, &ran);
        for_each_variant(d,
                         ChannelNormForwardArgs{view(y), view(seen), view(stats), {}, {}, groups},
                         cells_add_up_to_nothing);
      }
  check_ran(ran, {"cpu:reference", "simt:naive"});
  if (cpu_isa() >= kAvx2) check_ran(ran, {"cpu:avx2"});
}

TEST_CASE("channel norms: every variant agrees with the reference, whatever the sizes") {
  const Shape shapes[] = {{2, 3, 7},  {3, 8, 1},    {5, 17, 9}, {1, 520, 4}, {700, 6, 1},
                          {2, 6, 33}, {3, 1, 2050}, {9, 64, 3}, {2, 1030, 1}};
  for (const Shape& shape : shapes)
    for (const bool nhwc : {false, true})
      for (i64 groups : {i64(0), i64(1), shape[1]}) {
        const i64 c = shape[1], n = groups ? shape[0] * groups : c;
        const double terms = double(numel_of(shape)) / double(n);
        if (terms < 2) continue;
        std::vector<Values> wanted;  // a contract's, by the cpu's reference
        for (const Device d : kernel_devices()) {
          CAPTURE(shape, nhwc, groups, device_kind_name(d.kind));
          const auto made = [&](u64 seed) {
            const Tensor t = to_tensor(random_values(numel_of(shape), seed), shape, f32, d);
            return nhwc ? t.transpose(1, 2).contiguous().transpose(1, 2) : t;
          };
          const Tensor x = made(1), gy = made(2), gx = made(3);
          const Tensor weight = to_tensor(random_values(c, 4), {c}, f32, d);
          const TensorOptions o{.device = d};
          const Tensor stats = empty({3, n}, o),
                       sums = empty(groups ? Shape{2, shape[0], c} : Shape{2, c}, o);
          const auto compare = [&](size_t contract, const auto& args, const Tensor& out,
                                   double terms) {
            std::vector<Values> results;
            for_each_variant(d, args, [&] { results.push_back(to_doubles(out)); });
            if (wanted.size() == contract) wanted.push_back(results.back());
            for (const Values& r : results)
              for (size_t i = 0; i < r.size(); ++i) {
                const double want = wanted[contract][i];
                CAPTURE(i);
                CHECK(close(r[i], want, error_bound(f32, terms, want, terms > 16 ? terms / 4 : 8)));
              }
          };
          compare(0, ChannelStatsArgs{view(stats), {}, view(x), groups, 1e-1}, stats, 8);
          compare(1,
                  ChannelNormForwardArgs{view(gx), view(x), view(stats), view(weight), {}, groups},
                  gx, 8);
          compare(2, ChannelNormSumsArgs{view(sums), view(gy), view(x), view(stats), groups}, sums,
                  terms + 16);
          compare(3,
                  ChannelNormBackwardArgs{view(gx), view(gy), view(x), view(stats), view(weight),
                                          view(sums), groups},
                  gx, 16);
        }
      }
}

TEST_CASE("channel norms: tensors beyond the caches have the bits of small ones") {
  const i64 places = 64 * 64, samples = 128;  // 64 MiB and more; one sample over and over
  for (const bool nhwc : {false, true}) {
    const Tensor one =
        in_format(to_tensor(random_values(40 * places, 1), {1, 40, 64, 64}, f32, {}), nhwc);
    const Tensor x =
        nhwc ? contiguous(one.expand({samples, 40, 64, 64}), MemoryFormat::channels_last)
             : contiguous(one.expand({samples, 40, 64, 64}));
    const Tensor y = instance_norm(x), small = instance_norm(one);
    const Values want = values(small);
    for (i64 n : {i64(0), samples - 1}) CHECK(values(y.narrow(0, n, 1)) == want);
  }
}

TEST_CASE("channel norms: infinities and NaN stay with what shares their statistic") {
  for (double bad : {double(NAN), double(INFINITY)})
    for (const bool nhwc : {false, true}) {
      std::vector<double> v = random_values(2 * 4 * 9, 1);
      v[9 * 5 + 3] = bad;  // sample 1, channel 1
      const Tensor x = in_format(to_tensor(v, {2, 4, 3, 3}, f32, {}), nhwc);
      const auto spoiled = [&](const Tensor& y, auto&& expected) {
        const Values got = values(y);
        for (i64 i = 0; i < 72; ++i) {
          CAPTURE(i);
          CHECK(std::isnan(got[size_t(i)]) == expected(i / 36, i / 9 % 4));
        }
      };
      spoiled(batch_norm(x, {.training = true}), [](i64, i64 c) { return c == 1; });
      spoiled(group_norm(x, 2), [](i64 n, i64 c) { return n == 1 && c < 2; });
      spoiled(instance_norm(x), [](i64 n, i64 c) { return n == 1 && c == 1; });
    }
}

TEST_CASE("batch_norm: what throws has written no running statistics") {
  const Tensor mean = zeros({3}), var = ones({3});
  const Tensor x = ones({4, 3});
  CHECK_THROWS_AS(
      batch_norm(x,
                 {.weight = ones({2}), .running_mean = mean, .running_var = var, .training = true}),
      ShapeError);
  CHECK_THROWS_AS(
      batch_norm(ones({1, 3}), {.running_mean = mean, .running_var = var, .training = true}),
      ShapeError);
  CHECK_THROWS_AS(
      batch_norm(
          x,
          {.running_mean = mean, .running_var = var, .training = true, .momentum = std::nullopt}),
      UsageError);
  CHECK(values(mean) == Values{0, 0, 0});
  CHECK(values(var) == Values{1, 1, 1});
  // Statistics in f64 beside an f32 input, and constants that pass no gradient through themselves.
  const Tensor wide = zeros({3}, {.dtype = f64}), spread = ones({3}, {.dtype = f64});
  (void)batch_norm(tensor({{1.0, 2.0, 3.0}, {3.0, 2.0, 3.0}}),
                   {.running_mean = wide, .running_var = spread, .training = true, .momentum = 1});
  CHECK(values(wide) == Values{2, 2, 3});
  CHECK(values(spread) == Values{2, 0, 0});
}

TEST_CASE("batch_norm: averages of all batches and their count, on every device") {
  const Shape shape{3, 5, 7};
  for (const Device d : kernel_devices())
    for (const DType t : {f64, f32, f16}) {
      CAPTURE(device_kind_name(d.kind), dtype_name(t));
      // Every second element, so that neither is dense.
      const Tensor both = zeros({5, 2}, {.dtype = t, .device = d});
      const Tensor mean = both.select(1, 0), var = both.select(1, 1);
      const Tensor count = zeros({}, {.dtype = DType::i64, .device = d});
      std::vector<double> sums(10);
      for (int batch = 1; batch <= 3; ++batch) {
        const std::vector<double> x = random_values(numel_of(shape), u64(batch));
        (void)batch_norm(to_tensor(x, shape, t, d), {.running_mean = mean,
                                                     .running_var = var,
                                                     .training = true,
                                                     .momentum = std::nullopt,
                                                     .num_batches_tracked = count});
        const std::vector<double> stored = to_doubles(to_tensor(x, shape, t, Device::cpu()));
        for (size_t c = 0; c < 5; ++c) {
          double sum = 0, squares = 0;
          for (size_t n = 0; n < 3; ++n)
            for (size_t i = 0; i < 7; ++i) sum += stored[(n * 5 + c) * 7 + i] / 21;
          for (size_t n = 0; n < 3; ++n)
            for (size_t i = 0; i < 7; ++i)
              squares += std::pow(stored[(n * 5 + c) * 7 + i] - sum, 2) / 20;
          sums[2 * c] += sum, sums[2 * c + 1] += squares;
        }
        CHECK(count.item() == batch);
        const std::vector<double> got = to_doubles(both);
        for (size_t k = 0; k < got.size(); ++k)  // three roundings of what lies below 1
          CHECK(close(got[k], sums[k] / batch, 3 * error_bound(t, 21, sums[k] / batch, 1)));
      }
    }
}

TEST_CASE("batch_norm: in place without a graph, shapes beyond 2^31 on meta") {
  Tensor x = to_tensor(random_values(40, 1), {4, 10}, f32, {});
  const void* storage = x.data<float>();
  const Tensor kept = batch_norm(x, {.training = true});
  const Tensor y = batch_norm(std::move(x), {.training = true});
  CHECK(y.data<float>() == storage);
  CHECK(values(y) == values(kept));
  const Tensor huge = empty({1 << 10, 1 << 8, 1 << 14}, {.device = Device::meta()});
  CHECK(batch_norm(huge, {.training = true}).shape() == huge.shape());
  CHECK(group_norm(huge, 16).numel() == i64(1) << 32);
  CHECK(rms_norm(huge, {1 << 14}).numel() == i64(1) << 32);
}

TEST_CASE("channel norms: strided input is copied only where a channel is in several pieces") {
  const Tensor wide = to_tensor(random_values(2 * 4 * 6 * 10, 1), {2, 4, 6, 10}, f32, {});
  const Tensor cut = wide.slice(3, {0, 10, 2});  // lies evenly
  const Tensor holes = wide.slice(3, {0, 5});    // does not
  for (const Tensor& x : {cut, holes}) {
    const Tensor dense = contiguous(x);
    for (const Norm& norm : kNorms) {
      const Tensor mean = zeros({4}), var = ones({4}), one = ones({4}), none = zeros({4});
      const Values a = values(norm(x, one, none, mean, var));
      const Values b = values(norm(dense, one, none, mean, var));
      for (size_t i = 0; i < a.size(); ++i) CHECK(close(a[i], b[i], 1e-5));
    }
  }
}

TEST_CASE("rms_norm: rows that begin anywhere, beyond the caches, NaN stays in its row") {
  std::vector<double> v = random_values(3 * 1043, 1);
  v[1043 + 7] = NAN;
  const Tensor x = to_tensor(v, {3, 1043}, f32, {}).slice(1, {1, 1040});
  const Values got = values(rms_norm(x, {1039}));
  for (i64 row : {0, 2}) {
    double squares = 0;
    for (i64 i = 0; i < 1039; ++i) {
      const double e = v[size_t(row * 1043 + 1 + i)];
      squares += e * e / 1039;
    }
    for (i64 i = 0; i < 1039; ++i) {
      const double want = v[size_t(row * 1043 + 1 + i)] / std::sqrt(squares + 0x1p-23);
      CHECK(close(got[size_t(row * 1039 + i)], want, error_bound(f32, 16, want, 2)));
    }
  }
  for (i64 i = 0; i < 1039; ++i) CHECK(std::isnan(got[size_t(1039 + i)]));
  const Tensor one = to_tensor(random_values(2048, 2), {1, 2048}, f32, {});
  const Tensor many = contiguous(one.expand({8200, 2048}));
  const Tensor y = rms_norm(many, {2048});
  CHECK(values(y[8199]) == values(rms_norm(one, {2048})));
}
