// Every variant of the cross-entropy kernels against f64 loops.
#include "warptape/kernels/cross_entropy.h"

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/tests/support/variants.h"

using namespace wt_test;

namespace {

constexpr i64 kIgnore = -100;

struct Loops {
  double sum = 0, weight = 0, magnitude = 0;
  std::vector<double> gradient;  // of the sum, times `grad`
};

// logits in logical order [rows][classes] with the class axis moved last.
Loops cross_entropy_loops(const std::vector<double>& x, const std::vector<i64>& labels, i64 n,
                          double smoothing, double grad) {
  Loops r;
  r.gradient.assign(x.size(), 0);
  for (size_t row = 0; row < labels.size(); ++row) {
    if (labels[row] == kIgnore) continue;
    const double* v = x.data() + row * size_t(n);
    double max = -INFINITY, sum = 0, mean = 0;
    for (i64 i = 0; i < n; ++i) max = std::fmax(max, v[i]);
    for (i64 i = 0; i < n; ++i) sum += std::exp(v[i] - max), mean += v[i] / double(n);
    const double lse = max + std::log(sum);
    double loss = lse - v[labels[row]];
    if (smoothing != 0) loss = (1 - smoothing) * loss + smoothing * (lse - mean);
    r.sum += loss;
    r.magnitude += std::fabs(lse) + std::fabs(max) + std::fabs(v[labels[row]]);
    r.weight += 1;
    for (i64 i = 0; i < n; ++i)
      r.gradient[row * size_t(n) + size_t(i)] =
          grad *
          (std::exp(v[i] - lse) - smoothing / double(n) - (i == labels[row] ? 1 - smoothing : 0.0));
  }
  return r;
}

// Forward and backward of logits (any layout; classes at `axis`) by every variant, and backward
// over the logits themselves.
void check_all(const Tensor& logits, const Tensor& labels, int axis, double smoothing,
               std::set<std::string>* ran) {
  const Device d = logits.device();
  const DType t = logits.dtype(), wide = t == f64 ? f64 : f32;
  const i64 n = logits.size(axis), rows = n ? logits.numel() / n : 0;
  // The class axis moved last, the order of the others kept.
  const auto rows_of = [&](Tensor x) {
    for (int a = axis; a + 1 < x.ndim(); ++a) x = x.transpose(a, a + 1);
    return to_doubles(x.contiguous());
  };
  CAPTURE(logits.shape(), axis, smoothing, dtype_name(t));
  const double grad = 0.5;
  const Loops want =
      cross_entropy_loops(rows_of(logits), labels.to_vector<i64>(), n, smoothing, grad);
  const TensorOptions wide_on{.dtype = wide, .device = d};
  Tensor sum = full({}, 7, wide_on), weight = full({}, 7, wide_on),
         stats = zeros({2, rows}, wide_on);
  CrossEntropyForwardArgs forward{view(sum),    view(weight), view(stats),
                                  view(logits), view(labels), axis};
  forward.smoothing = smoothing;
  for_each_variant(
      d, forward,
      [&] {
        CAPTURE(sum.item(), want.sum);
        CHECK(close(sum.item(), want.sum,
                    error_bound(wide, double(n) + 16, want.sum, want.magnitude)));
        CHECK(weight.item() == want.weight);
        sum.fill_(7), weight.fill_(7);
      },
      ran);

  const Tensor g = full({}, grad, wide_on);
  Tensor glogits = empty_like(logits), over = logits.clone();
  if (logits.is_view()) over = logits;  // the layout itself is the point
  const auto check_gradient = [&](const Tensor& got) {
    const std::vector<double> values = rows_of(got);
    for (size_t i = 0; i < values.size(); ++i) {
      if (close(values[i], want.gradient[i],
                error_bound(t, double(n) + 16, want.gradient[i], 2 * grad)))
        continue;
      CAPTURE(i, values[i], want.gradient[i]);
      FAIL("gradient out of bounds");
    }
  };
  CrossEntropyBackwardArgs backward{view(glogits), view(g),      view(stats),
                                    view(logits),  view(labels), axis};
  backward.smoothing = smoothing;
  for_each_variant(
      d, backward,
      [&] {
        check_gradient(glogits);
        glogits.fill_(7);
      },
      ran);
  const Tensor original = logits.clone();
  backward.glogits = backward.logits = view(over);
  for_each_variant(d, backward, [&] {
    check_gradient(over);
    over.copy_(original);
  });
}

std::vector<i64> make_labels(i64 rows, i64 classes, bool with_ignored) {
  std::vector<i64> labels;
  for (i64 i = 0; i < rows; ++i)
    labels.push_back(with_ignored && i % 3 == 1 ? kIgnore : (i * 7 + 3) % classes);
  return labels;
}

}  // namespace

TEST_CASE("cross-entropy kernels: every variant, dtype and number of classes") {
  std::set<std::string> ran;
  for (Device d : kernel_devices())
    for (DType t : {f32, f64, f16, bf16})
      for (i64 n : {1, 2, 10, 33, 256, 300, 2050})
        for (double smoothing : {0.0, 0.1}) {
          const i64 rows = n > 300 ? 2 : 7;
          const Tensor x = to_tensor(random_values(rows * n, u64(n), 5), {rows, n}, t, d);
          check_all(x, tensor(make_labels(rows, n, n % 2 == 0)).to(d), 1, smoothing, &ran);
        }
  check_ran(ran, {"cpu:reference", "simt:naive", "simt:warp", "simt:block"});
}

TEST_CASE("cross-entropy kernels: images, transposed logits, strided labels") {
  for (Device d : kernel_devices())
    for (DType t : {f32, f16}) {
      const Tensor x = to_tensor(random_values(2 * 11 * 3 * 4, 3, 4), {2, 11, 3, 4}, t, d);
      const Tensor y = tensor(make_labels(24, 11, true)).reshape({2, 3, 4}).to(d);
      check_all(x, y, 1, 0, nullptr);
      check_all(x, y, 1, 0.2, nullptr);
      check_all(
          to_tensor(random_values(2 * 3 * 4 * 11, 3, 4), {2, 3, 4, 11}, t, d).permute({0, 3, 1, 2}),
          y, 1, 0, nullptr);
      check_all(x.transpose(2, 3), y.transpose(1, 2), 1, 0, nullptr);
      const Tensor wide = to_tensor(random_values(5 * 20, 8, 4), {5, 20}, t, d);
      check_all(wide.slice(1, {1, 14}),
                tensor(make_labels(10, 13, false)).to(d).slice(0, {0, 10, 2}), 1, 0, nullptr);
      // One sample without a batch axis.
      check_all(to_tensor(random_values(9, 8, 4), {9}, t, d), tensor(4).to(d), 0, 0.1, nullptr);
    }
}

TEST_CASE("cross-entropy kernels: many rows are added in parts") {
  for (Device d : kernel_devices()) {
    const i64 rows = 10000;
    const Tensor x = to_tensor(random_values(rows * 2, 3, 4), {rows, 2}, f32, d);
    check_all(x, tensor(make_labels(rows, 2, true)).to(d), 1, 0, nullptr);
  }
}

TEST_CASE("cross-entropy kernels: no rows, only ignored rows") {
  for (Device d : kernel_devices()) {
    check_all(zeros({0, 4}, {.device = d}), zeros({0}, {.dtype = DType::i64, .device = d}), 1, 0,
              nullptr);
    check_all(ones({3, 4}, {.device = d}), full({3}, kIgnore, {.device = d}), 1, 0, nullptr);
  }
}

TEST_CASE("cross-entropy kernels: large offsets cancel, -inf is a probability of zero") {
  for (Device d : kernel_devices())
    for (i64 n : {8, 300}) {
      std::vector<double> v = random_values(3 * n, 4, 3);
      for (double& x : v) x = std::round(x * 64) / 64 + 3000;
      v[1] = -INFINITY;
      const Tensor labels = tensor(std::vector<i64>{0, 2, 3}).to(d);
      // The bound is that of numbers near zero: subtracting the maximum first is exact here.
      std::vector<double> shifted = v;
      for (double& x : shifted) x -= 3000;
      const Loops want = cross_entropy_loops(shifted, {0, 2, 3}, n, 0, 1);
      const Tensor x = to_tensor(v, {3, n}, f32, d);
      Tensor sum = zeros({}, {.device = d}), weight = sum.clone(),
             stats = zeros({2, 3}, {.device = d});
      Tensor gx = empty_like(x);
      const Tensor g = ones({}, {.device = d});
      for_each_variant(
          d,
          CrossEntropyForwardArgs{view(sum), view(weight), view(stats), view(x), view(labels), 1},
          [&] {
            CHECK(close(sum.item(), want.sum, error_bound(f32, double(n), want.sum, 20)));
            for_each_variant(
                d,
                CrossEntropyBackwardArgs{view(gx), view(g), view(stats), view(x), view(labels), 1},
                [&] {
                  const std::vector<double> got = to_doubles(gx);
                  bool ok = true;
                  for (size_t i = 0; i < got.size(); ++i)
                    ok &=
                        close(got[i], want.gradient[i], error_bound(f32, 16, want.gradient[i], 1));
                  CHECK(ok);
                });
          });
    }
}

TEST_CASE("cross-entropy kernels: a bad label raises the mailbox and counts as class 0") {
  for (Device d : kernel_devices())
    for (i64 bad : {i64(5), i64(-1), INT64_MAX}) {
      const Tensor x = to_tensor(random_values(4 * 5, 2, 3), {4, 5}, f32, d);
      const Tensor labels = tensor(std::vector<i64>{1, 2, bad, 3}).to(d);
      const Loops want = cross_entropy_loops(to_doubles(x), {1, 2, 0, 3}, 5, 0, 1);
      Tensor sum = zeros({}, {.device = d}), weight = sum.clone(),
             stats = zeros({2, 4}, {.device = d});
      CrossEntropyForwardArgs a{view(sum), view(weight), view(stats), view(x), view(labels), 1};
      static constexpr OpInfo info{.name = "cross_entropy_test"};
      a.mailbox = mailbox_of(d);
      a.op_id = mailbox_op_id(info);
      for_each_variant(d, a, [&] {
        MailboxRecord r{};
        CHECK(read_mailbox(d, r));
        clear_mailbox(d);
        CHECK(r.raised == i32(MailboxCode::label_out_of_range));
        CHECK(r.op_id == a.op_id);
        CHECK(r.position == 2);
        CHECK(r.value == bad);
        CHECK(r.limit == 5);
        CHECK(close(sum.item(), want.sum, error_bound(f32, 16, want.sum, want.magnitude)));
        CHECK(weight.item() == 4);
      });
    }
}
