// layer_norm beside what its row in op_cases shows: PyTorch's numbers, offsets, many rows, leaves'
// slots.
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/norm.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/kernels/add_norm.h"
#include "warptape/kernels/layer_norm.h"
#include "warptape/tests/reference/reader.h"
#include "warptape/tests/support/variants.h"
#include "warptape/tests/tolerance.h"

using namespace wt_test;

namespace {

Tensor leaf(const std::vector<double>& v, const Shape& shape, DType t = f64, Device d = {}) {
  return to_tensor(v, shape, t, d).set_requires_grad();
}
Tensor leaf(const wt::reference::Array& a, DType t, Device d) {
  return leaf(a.values, Shape(a.shape), t, d);
}
// `terms`: the longest sum on the way.
void check_close(const std::vector<double>& got, const std::vector<double>& want, DType t,
                 double terms) {
  REQUIRE(got.size() == want.size());
  double largest = 0;
  for (double v : want) largest = std::fmax(largest, std::fabs(v));
  for (size_t i = 0; i < want.size(); ++i) {
    CAPTURE(i);
    CHECK(close(got[i], want[i], gradient_bound(t, terms, want[i], largest)));
  }
}
// (x - mean) / sqrt(var + eps) of a row, in long double.
std::vector<double> normalised(const double* x, i64 n, double eps) {
  long double mean = 0, variance = 0;
  for (i64 i = 0; i < n; ++i) mean += x[i];
  mean /= n;
  for (i64 i = 0; i < n; ++i) variance += (x[i] - mean) * (x[i] - mean);
  std::vector<double> y;
  for (i64 i = 0; i < n; ++i)
    y.push_back(double((x[i] - mean) / std::sqrt(variance / n + (long double)(eps))));
  return y;
}

}  // namespace

TEST_CASE("layer_norm: PyTorch's values and gradients") {
  for (const char* name : {"layer_norm", "layer_norm_plain", "layer_norm_two_dims"}) {
    const auto ref = wt::reference::load_reference(wt::reference::reference_path(name));
    const LayerNormOptions o{.eps = ref.at("eps").values[0]};
    const bool affine = ref.count("weight") == 1;
    const Shape normalized =
        affine ? Shape(ref.at("weight").shape) : Shape{ref.at("x").shape.back()};
    for (Device d : kernel_devices())
      for (DType t : {f64, f32}) {
        CAPTURE(name, dtype_name(t), device_kind_name(d.kind));
        const Tensor x = leaf(ref.at("x"), t, d);
        std::vector<Tensor> in{x};
        if (affine) in.insert(in.end(), {leaf(ref.at("weight"), t, d), leaf(ref.at("bias"), t, d)});
        const Tensor y =
            affine ? layer_norm(x, normalized, in[1], in[2], o) : layer_norm(x, normalized, o);
        check_close(to_doubles(y), ref.at("out").values, t, 24);
        const Tensor gy = leaf(ref.at("grad_out"), t, d);
        const auto g = grads({&y, 1}, in, {.grad_outputs = {gy}});
        const char* const of[] = {"grad_x", "grad_weight", "grad_bias"};
        for (size_t i = 0; i < g.size(); ++i)
          check_close(to_doubles(g[i]), ref.at(of[i]).values, t, 24);
      }
  }
}

// A one-pass variance loses everything here, an uncorrected mean half of it.
TEST_CASE("layer_norm: a large offset does not cancel") {
  std::set<std::string> ran;
  for (Device d : kernel_devices())
    for (DType t : {f32, f64})
      for (i64 n : {37, 300, 1100, 5000}) {
        CAPTURE(n, dtype_name(t));
        std::vector<double> v = random_values(2 * n, u64(n));
        for (size_t i = 0; i < v.size(); ++i)
          v[i] = std::round(v[i] * 64) / 64 + (i < size_t(n) ? 1e5 : -3e4) +
                 (i % size_t(n) > size_t(n / 2) ? 3 : 0);  // exact in f32; the halves differ
        std::vector<double> want = normalised(v.data(), n, 1e-5);
        const std::vector<double> second = normalised(v.data() + n, n, 1e-5);
        want.insert(want.end(), second.begin(), second.end());
        const Tensor x = to_tensor(v, {2, n}, t, d);
        Tensor y = empty_like(x);
        for_each_variant(
            d, LayerNormForwardArgs{view(y), {}, view(x), {}, {}, 1e-5},
            [&] {
              const std::vector<double> got = to_doubles(y);
              for (size_t i = 0; i < want.size(); ++i) {
                CAPTURE(i);  // relative to the distances from the mean, not to the offset
                CHECK(close(got[i], want[i], error_bound(t, double(n), want[i], 2)));
              }
              y.fill_(7);
            },
            &ran);
      }
  check_ran(ran, {"cpu:reference", "simt:naive", "simt:warp", "simt:block"});
}

// What the mean's rounding took is as large as the distances from it.
TEST_CASE("layer_norm: gradients at a large mean lose nothing") {
  std::set<std::string> ran;
  const i64 rows = 3;
  for (Device d : kernel_devices())
    for (double offset : {1e3, -1e5})
      for (i64 n : {16, 300, 1100}) {
        CAPTURE(n, offset);
        std::vector<double> xs;
        for (i64 i = 0; i < rows * n; ++i)
          xs.push_back(double(float(offset + double(i % n * 7 % n) / 16 + double(i / n))));
        const std::vector<double> gs = random_values(rows * n, 1), ws = random_values(n, 2, 2);
        const Tensor x64 = leaf(xs, {rows, n}), w64 = leaf(ws, {n}), b64 = leaf(ws, {n});
        const Tensor y64 = layer_norm(x64, {n}, w64, b64);
        const auto want = grads({&y64, 1}, {x64, w64}, {.grad_outputs = {leaf(gs, {rows, n})}});
        const Tensor x = to_tensor(xs, {rows, n}, f32, d), gy = to_tensor(gs, {rows, n}, f32, d);
        const Tensor w = to_tensor(ws, {n}, f32, d), y = empty_like(x), gx = empty_like(x);
        const Tensor sum = empty_like(x), none = zeros_like(x), gw = empty_like(w);
        const Tensor gb = empty_like(w), stats = empty({3, rows}, {.device = d});
        const auto right = [&](const Tensor& got, size_t k) {
          const std::vector<double> a = to_doubles(got), b = to_doubles(want[k]);
          double largest = 0;
          for (double v : b) largest = std::fmax(largest, std::fabs(v));
          size_t wrong = 0;
          for (size_t i = 0; i < b.size(); ++i)
            wrong += !close(a[i], b[i], gradient_bound(f32, double(n + rows), b[i], largest));
          CHECK(wrong == 0);
        };
        const auto backward = [&] {
          for_each_variant(
              d, LayerNormBackwardInputArgs{view(gx), view(gy), view(x), view(stats), view(w)},
              [&] { right(gx, 0); }, &ran);
          for_each_variant(
              d, LayerNormBackwardParamsArgs{view(gw), view(gb), view(gy), view(x), view(stats)},
              [&] { right(gw, 1); });
          for_each_variant(d,
                           AddLayerNormBackwardInputArgs{view(gx), view(gy), view(none), view(x),
                                                         view(stats), view(w)},
                           [&] { right(gx, 0); });
        };
        for_each_variant(d, LayerNormForwardArgs{view(y), view(stats), view(x), view(w), {}, 1e-5},
                         backward);
        for_each_variant(
            d,
            AddLayerNormForwardArgs{
                view(y), view(sum), view(stats), view(x), view(none), view(w), {}, 1e-5},
            backward);
        // Under create_graph the gradient is a chain of operators.
        const Tensor leaf32 = to_tensor(xs, {rows, n}, f32, d).set_requires_grad();
        const Tensor out = layer_norm(leaf32, {n}, w);
        right(grads({&out, 1}, {leaf32}, {.grad_outputs = {gy}, .create_graph = true})[0], 0);
      }
  check_ran(ran, {"cpu:avx2", "cpu:reference", "simt:naive", "simt:warp", "simt:block"});
}

TEST_CASE("layer_norm: rows that begin anywhere, infinities and NaN stay in their row") {
  for (Device d : kernel_devices())
    for (DType t : {f32, bf16})
      for (i64 n : {40, 1029}) {
        std::vector<double> v = random_values(5 * (n + 3), 3, 2);
        v[size_t(2 * (n + 3) + 7)] = NAN;
        v[size_t(3 * (n + 3) + 7)] = INFINITY;
        const Tensor x = to_tensor(v, {5, n + 3}, t, d).slice(1, {1, n + 1});
        const Tensor w = to_tensor(random_values(n + 1, 5), {n + 1}, t, d).slice(0, {1, n + 1});
        const std::vector<double> xs = to_doubles(x), ws = to_doubles(w);
        Tensor y = empty({5, n}, {.dtype = t, .device = d});
        for_each_variant(d, LayerNormForwardArgs{view(y), {}, view(x), view(w), {}, 1e-5}, [&] {
          const std::vector<double> got = to_doubles(y);
          for (i64 row = 0; row < 5; ++row) {
            const std::vector<double> want = normalised(xs.data() + row * n, n, 1e-5);
            for (i64 i = 0; i < n; ++i) {
              const double value = want[size_t(i)] * ws[size_t(i)];
              CAPTURE(row, i);
              CHECK(close(got[size_t(row * n + i)], value, error_bound(t, double(n), value, 4)));
            }
          }
          y.fill_(7);
        });
      }
}

TEST_CASE("layer_norm: tensors beyond the caches have the bits of small ones") {
  const i64 rows = 8200, n = 2051;  // 64 MiB; one row over and over
  const Launch launch{nullptr, nullptr, nullptr, Device::cpu()};
  const Tensor x = to_tensor(random_values(n, 1), {1, n}, f32, {});
  const Tensor gy = to_tensor(random_values(n, 2), {1, n}, f32, {});
  const Tensor y = empty({1, n}), gx = empty({1, n}), stats = empty({3, 1});
  run(LayerNormForwardArgs{view(y), view(stats), view(x), {}, {}, 1e-5}, launch);
  run(LayerNormBackwardInputArgs{view(gx), view(gy), view(x), view(stats), {}}, launch);
  const Tensor many = x.expand({rows, n}), many_gy = gy.expand({rows, n});
  const Tensor out = zeros({rows, n}), all = empty({3, rows});
  run(LayerNormForwardArgs{view(out), view(all), view(many), {}, {}, 1e-5}, launch);
  for (i64 row : {i64(0), i64(8), rows - 1}) CHECK(to_doubles(out[row]) == to_doubles(y[0]));
  run(LayerNormBackwardInputArgs{view(out), view(many_gy), view(many), view(all), {}}, launch);
  for (i64 row : {i64(0), i64(8), rows - 1}) CHECK(to_doubles(out[row]) == to_doubles(gx[0]));
}

TEST_CASE("layer_norm: a row beyond a small chip's shared memory is read again") {
  const DeviceLimits l4{8, 9, 58, 99 * 1024};
  detail::set_simt_limits(&l4);
  const i64 n = 100 * 1024 / 4;
  const std::vector<double> xs = random_values(n, 4, 2);
  const Tensor x = to_tensor(xs, {1, n}, f32, Device::simt());
  const Tensor y = empty_like(x), stats = empty({3, 1}, {.device = Device::simt()});
  std::set<std::string> ran;
  for_each_variant(
      Device::simt(), LayerNormForwardArgs{view(y), view(stats), view(x), {}, {}, 1e-5},
      [&] { check_close(to_doubles(y), normalised(xs.data(), n, 1e-5), f32, double(n)); }, &ran);
  detail::set_simt_limits(nullptr);
  CHECK(ran.count("simt:block") == 1);
}

TEST_CASE("layer_norm: parameter gradients of many rows, equal bits run after run") {
  const i64 rows = 300;
  for (i64 n : {40, 1027}) {
    const std::vector<double> xs = random_values(rows * n, 1, 2), gs = random_values(rows * n, 2);
    std::vector<double> want_weight(size_t(n), 0.0), want_bias(size_t(n), 0.0);
    for (i64 r = 0; r < rows; ++r) {
      const std::vector<double> h = normalised(xs.data() + r * n, n, 1e-5);
      for (i64 i = 0; i < n; ++i) {
        want_weight[size_t(i)] += gs[size_t(r * n + i)] * h[size_t(i)];
        want_bias[size_t(i)] += gs[size_t(r * n + i)];
      }
    }
    for (Device d : kernel_devices()) {
      const Tensor x = to_tensor(xs, {rows, n}, f32, d), gy = to_tensor(gs, {rows, n}, f32, d);
      Tensor stats = empty({3, rows}, {.device = d}), y = empty_like(x);
      run(LayerNormForwardArgs{view(y), view(stats), view(x), {}, {}, 1e-5},
          Launch{nullptr, nullptr, nullptr, d});
      const Tensor gw = empty({n}, {.device = d}), gb = empty({n}, {.device = d});
      const LayerNormBackwardParamsArgs args{view(gw), view(gb), view(gy), view(x), view(stats)};
      std::vector<double> before;
      for_each_variant(d, args, [&] {
        check_close(to_doubles(gw), want_weight, f32, rows);
        check_close(to_doubles(gb), want_bias, f32, rows);
      });
      for (int k = 0; k < 2; ++k) {
        run(args, Launch{nullptr, nullptr, nullptr, d});
        const std::vector<double> now = to_doubles(gw);
        if (k > 0) CHECK(now == before);
        before = now;
      }
    }
  }
}

TEST_CASE("layer_norm: gradients accumulate in the leaves' slots") {
  for (Device d : kernel_devices()) {
    const Tensor w = leaf(random_values(8, 1), {8}, f32, d),
                 b = leaf(random_values(8, 2), {8}, f32, d);
    const Tensor x = to_tensor(random_values(24, 3), {3, 8}, f32, d);
    layer_norm(x, {8}, w, b).sum().backward();
    const std::vector<double> gw = to_doubles(w.grad()), gb = to_doubles(b.grad());
    CHECK(gb == std::vector<double>(8, 3));
    const void* place = w.grad().impl()->data;
    layer_norm(x, {8}, w, b).sum().backward();
    CHECK(w.grad().impl()->data == place);
    for (size_t i = 0; i < 8; ++i) {
      CHECK(to_doubles(w.grad())[i] == 2 * gw[i]);
      CHECK(to_doubles(b.grad())[i] == 6);
    }
  }
}

TEST_CASE("layer_norm: in place without a graph, shapes on meta") {
  Tensor x = to_tensor(random_values(40, 1), {4, 10}, f32, {});
  const void* storage = x.data<float>();
  const Tensor kept = layer_norm(x, {10});
  CHECK(kept.data<float>() != storage);
  const Tensor y = layer_norm(std::move(x), {10});
  CHECK(y.data<float>() == storage);
  CHECK(to_doubles(y) == to_doubles(kept));
  CHECK(layer_norm(empty({3, 7}, {.device = Device::meta()}), {7}).shape() == Shape{3, 7});
}
