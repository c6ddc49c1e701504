// Every variant of channel normalisation's kernels against plain loops, on shapes where the rungs
// split: sums in parts, rows in chunks, rows that begin beside boundaries, channels as neighbours.
#include "warptape/kernels/channel_norm.h"

#include "warptape/autograd/ops/shape.h"
#include "warptape/tests/support/activations.h"
#include "warptape/tests/support/variants.h"

using namespace wt_test;

namespace {

enum class Order { planes, columns, cut };  // cut: rows of a wider tensor, from its second element

Tensor in_order(const std::vector<double>& v, const Shape& shape, DType t, Device d, Order o) {
  const Tensor x = to_tensor(v, shape, t, d);
  if (o == Order::columns) return transpose(contiguous(transpose(x, 1, 2)), 1, 2);
  if (o == Order::planes) return x;
  const Tensor wide = full({shape[0], shape[1], shape[2] + 4}, 7, {.dtype = t, .device = d});
  Tensor part = slice(wide, 2, {1, shape[2] + 1});
  part.copy_(x);
  return part;
}

// f: the activation behind the norm.
void check(const Shape& shape, i64 groups, DType t, Device d, Order order, Activation f,
           std::set<std::string>* ran) {
  const i64 n = shape[0], c = shape[1], s = shape[2], size = n * c * s;
  CAPTURE(n, c, s, groups, dtype_name(t), int(order), int(f));
  std::vector<double> values = random_values(size, 3);
  for (double& v : values) v += 20;  // an offset that squares about zero would feel
  const Tensor x = in_order(values, shape, t, d, order);
  const Tensor gy = in_order(random_values(size, 5), shape, t, d, order);
  std::vector<double> weights = random_values(c, 6);
  for (double& v : weights) v *= 5;  // beyond the bends at 3 and 6
  const Tensor w = to_tensor(weights, {c}, t, d);
  const Tensor b = to_tensor(random_values(c, 7), {c}, t, d);
  const std::vector<double> xs = to_doubles(x), ws = to_doubles(w), bs = to_doubles(b);
  std::vector<double> gs = to_doubles(gy);
  const i64 width = groups ? c / groups : 1, statistics = groups ? n * groups : c;
  const i64 cells = groups ? n * c : c;
  const double count = double(size) / double(statistics), eps = 1e-5;
  const auto at = [&](i64 k) {
    return groups ? k / (c * s) * groups + k / s % c / width : k / s % c;
  };
  const auto cell = [&](i64 k) { return groups ? k / s : k / s % c; };
  std::vector<double> mean(size_t(statistics), 0.0), var = mean, rstd = mean, mg = mean, mgh = mean;
  std::vector<double> sum(size_t(cells), 0.0), sum_h = sum, y, gx;
  for (i64 k = 0; k < size; ++k) mean[size_t(at(k))] += xs[size_t(k)] / count;
  for (i64 k = 0; k < size; ++k) {
    const double e = xs[size_t(k)] - mean[size_t(at(k))];
    var[size_t(at(k))] += e * e / count;
  }
  for (size_t k = 0; k < var.size(); ++k) rstd[k] = 1 / std::sqrt(var[k] + eps);
  const auto h = [&](i64 k) { return (xs[size_t(k)] - mean[size_t(at(k))]) * rstd[size_t(at(k))]; };
  for (i64 k = 0; k < size; ++k) {
    const double weight = ws[size_t(k / s % c)], z = h(k) * weight + bs[size_t(k / s % c)];
    const double g = gs[size_t(k)] *= slope_of(f, z);
    sum[size_t(cell(k))] += g, sum_h[size_t(cell(k))] += g * h(k);
    mg[size_t(at(k))] += g * weight / count, mgh[size_t(at(k))] += g * weight * h(k) / count;
    y.push_back(activated(f, z));
  }
  for (i64 k = 0; k < size; ++k)
    gx.push_back(rstd[size_t(at(k))] * (gs[size_t(k)] * ws[size_t(k / s % c)] - mg[size_t(at(k))] -
                                        h(k) * mgh[size_t(at(k))]));
  // Relative to the largest value: sums of many terms cancel.
  const auto same = [&](const Tensor& got, const std::vector<double>& want, double bound) {
    const std::vector<double> v = to_doubles(got);
    REQUIRE(v.size() == want.size());
    double worst = 0, largest = 1e-30;
    for (size_t k = 0; k < v.size(); ++k) {
      worst = std::isfinite(v[k]) ? std::max(worst, std::fabs(v[k] - want[k])) : INFINITY;
      largest = std::max(largest, std::fabs(want[k]));
    }
    CHECK(worst <= bound * largest);
  };
  const double rounded = 4e-6 + 2 * roundoff(t);
  const TensorOptions wide{.dtype = f32, .device = d};
  Tensor stats = full({3, statistics}, NAN, wide), variance = full({statistics}, NAN, wide);
  for_each_variant(
      d, ChannelStatsArgs{view(stats), view(variance), view(x), groups, eps},
      [&] {
        same(variance, var, 2e-6);
        same(select(stats, 0, 0), mean, 1e-6);
        same(select(stats, 0, 2), rstd, 2e-6);
        stats.fill_(NAN), variance.fill_(NAN);
      },
      ran);
  std::vector<double> both = mean;
  both.insert(both.end(), mean.size(), 0);
  both.insert(both.end(), rstd.begin(), rstd.end());
  for (size_t k = 0; k < mean.size(); ++k) both[mean.size() + k] = mean[k] - double(float(mean[k]));
  stats = to_tensor(both, {3, statistics}, f32, d);
  Tensor out = in_order(std::vector<double>(size_t(size), 7), shape, t, d, order);
  for_each_variant(
      d, ChannelNormForwardArgs{view(out), view(x), view(stats), view(w), view(b), groups, f},
      [&] {
        same(out, y, rounded);
        out.fill_(NAN);
      },
      ran);
  Tensor sums = full({2, cells}, NAN, wide);
  std::vector<double> both_sums = sum;
  both_sums.insert(both_sums.end(), sum_h.begin(), sum_h.end());
  for_each_variant(
      d,
      ChannelNormSumsArgs{view(sums), view(gy), view(x), view(stats), groups, f, view(w), view(b)},
      [&] {
        same(sums, both_sums, 4e-6);
        sums.fill_(NAN);
      },
      ran);
  sums = to_tensor(both_sums, {2, cells}, f32, d);
  for_each_variant(
      d,
      ChannelNormBackwardArgs{view(out), view(gy), view(x), view(stats), view(w), view(sums),
                              groups, f, view(b)},
      [&] {
        same(out, gx, rounded);
        out.fill_(NAN);
      },
      ran);
}

}  // namespace

TEST_CASE("channel norm kernels: parts, chunks and rows beside boundaries, in every order") {
  for (const Device d : kernel_devices()) {
    std::set<std::string> ran;
    for (const Order order : {Order::planes, Order::columns, Order::cut})
      for (const Activation f : {Activation::none, Activation::relu}) {
        check({2, 2, 4500}, 0, f32, d, order, f, &ran);  // chunks of a row
        check({70, 2, 65}, 0, f32, d, order, f, &ran);   // parts of several rows
        check({2, 4, 1500}, 2, f32, d, order, f, &ran);  // rows of two channels
        check({3, 70, 49}, 7, bf16, d, order, f, &ran);  // a third of the lanes without channels
        check({150, 9, 16}, 0, f16, d, order, f, &ran);  // whole windows alone
        check({2, 3, 7}, 3, f16, d, order, f, &ran);     // instances shorter than a window
      }
    for (const Order order : {Order::planes, Order::columns})
      for (const Activation f : {Activation::gelu, Activation::gelu_tanh, Activation::silu,
                                 Activation::relu6, Activation::hardswish}) {
        check({7, 3, 65}, 0, f32, d, order, f, &ran);
        check({3, 70, 49}, 7, bf16, d, order, f, &ran);
        check({2, 6, 33}, 3, f16, d, order, f, &ran);
      }
    if (d.kind == DeviceKind::simt)
      CHECK(ran == std::set<std::string>{"simt:columns", "simt:planes", "simt:naive"});
  }
}
