// Every variant of the negative log-likelihood's kernels against f64 loops.
#include "warptape/kernels/nll.h"

#include "warptape/autograd/ops/shape.h"
#include "warptape/tests/support/variants.h"

using namespace wt_test;

namespace {

constexpr i64 kIgnore = -100;

std::vector<i64> make_labels(i64 rows, i64 classes) {
  std::vector<i64> labels;
  for (i64 i = 0; i < rows; ++i) labels.push_back(i % 5 == 1 ? kIgnore : (i * 7 + 3) % classes);
  return labels;
}

// With the class axis moved last.
std::vector<double> rows_of(Tensor x, int axis) {
  for (int a = axis; a + 1 < x.ndim(); ++a) x = x.transpose(a, a + 1);
  return to_doubles(x.contiguous());
}

// `gx`, if given, is where the gradient goes.
void check_all(const Tensor& x, const Tensor& labels, int axis, const Tensor& weights,
               std::set<std::string>* ran, Tensor gx = {}) {
  const Device d = x.device();
  const DType t = x.dtype(), wide = t == f64 ? f64 : f32;
  const i64 classes = x.size(axis);
  CAPTURE(x.shape(), axis, dtype_name(t), weights.defined());
  const std::vector<double> v = rows_of(x, axis);
  const std::vector<double> w = weights.defined() ? to_doubles(weights) : std::vector<double>();
  const std::vector<i64> at = labels.to_vector<i64>();
  double sum = 0, magnitude = 0, weight = 0, weight_magnitude = 0;
  std::vector<double> gradient(v.size(), 0.0);
  for (size_t row = 0; row < at.size(); ++row) {
    if (at[row] == kIgnore) continue;
    const double by = w.empty() ? 1 : w[size_t(at[row])];
    const size_t picked = row * size_t(classes) + size_t(at[row]);
    sum -= by * v[picked], magnitude += std::fabs(by * v[picked]), weight += by;
    weight_magnitude += std::fabs(by);
    gradient[picked] = -0.5 * by;
  }
  const TensorOptions on{.dtype = wide, .device = d};
  Tensor loss = full({}, 7, on), all = full({}, 7, on);
  const Tensor grad = full({}, 0.5, on);
  const View by = weights.defined() ? view(weights) : View{};
  for_each_variant(
      d, NllForwardArgs{view(loss), view(all), view(x), view(labels), by, axis, kIgnore},
      [&] {
        // Summed in double: rounded once.
        CHECK(close(loss.item(), sum, error_bound(wide, 0, sum, 0) + 1e-13 * magnitude));
        CHECK(
            close(all.item(), weight, error_bound(wide, 0, weight, 0) + 1e-13 * weight_magnitude));
        loss.fill_(7), all.fill_(7);
      },
      ran);
  if (!gx.defined()) gx = empty_like(x);
  gx.fill_(7);
  for_each_variant(
      d, NllBackwardArgs{view(gx), view(grad), view(labels), by, axis, kIgnore},
      [&] {
        const std::vector<double> got = rows_of(gx, axis);
        for (size_t i = 0; i < got.size(); ++i) {
          if (close(got[i], gradient[i], error_bound(t, 1, gradient[i], std::fabs(gradient[i]))))
            continue;
          CAPTURE(i, got[i], gradient[i]);
          FAIL("gradient out of bounds");
        }
        gx.fill_(7);
      },
      ran);
}

}  // namespace

TEST_CASE("nll kernels: every variant, dtype and number of classes") {
  std::set<std::string> ran;
  for (Device d : kernel_devices())
    for (DType t : {f32, f64, f16, bf16})
      for (i64 classes : {1, 3, 10, 33, 257})
        for (const bool weighted : {false, true}) {
          const DType wide = t == f64 ? f64 : f32;
          const i64 rows = classes > 100 ? 5 : 70;
          const Tensor x = to_tensor(random_values(rows * classes, 3, 5), {rows, classes}, t, d);
          Tensor weights;
          if (weighted)  // strided
            weights = to_tensor(random_values(2 * classes, 4), {classes, 2}, wide, d).select(1, 0);
          check_all(x, tensor(make_labels(rows, classes)).to(d), 1, weights, &ran);
        }
  check_ran(ran, {"cpu:reference", "simt:naive", "simt:parts", "simt:filled"});
}

TEST_CASE("nll kernels: images, strides, no rows, only ignored rows") {
  for (Device d : kernel_devices())
    for (DType t : {f32, f16}) {
      const Tensor x = to_tensor(random_values(2 * 11 * 3 * 4, 3, 4), {2, 11, 3, 4}, t, d);
      const Tensor y = tensor(make_labels(24, 11)).reshape({2, 3, 4}).to(d);
      check_all(x, y, 1, {}, nullptr);
      check_all(x.transpose(2, 3), y.transpose(1, 2), 1, {}, nullptr, x.transpose(2, 3).clone());
      check_all(x.transpose(2, 3), y.transpose(1, 2), 1, {}, nullptr,
                empty({2, 4, 3, 11}, {.dtype = t, .device = d}).permute({0, 3, 1, 2}));
      const Tensor one = to_tensor(random_values(9, 8, 4), {9}, t, d);
      check_all(one, tensor(4).to(d), 0, {}, nullptr);
      // Off a 16-byte boundary.
      const Tensor room = zeros({60}, {.dtype = t, .device = d});
      check_all(to_tensor(random_values(55, 8, 4), {5, 11}, t, d), tensor(make_labels(5, 11)).to(d),
                1, {}, nullptr, room.slice(0, {1, 56}).reshape({5, 11}));
      const TensorOptions on{.dtype = t, .device = d}, labels{.dtype = DType::i64, .device = d};
      check_all(zeros({0, 4}, on), zeros({0}, labels), 1, {}, nullptr);
      check_all(ones({3, 4}, on), full({3}, kIgnore, labels), 1, {}, nullptr);
    }
}

TEST_CASE("nll kernels: many rows are added in parts, in one order") {
  for (Device d : kernel_devices()) {
    const i64 rows = 5000;
    std::vector<double> v = random_values(rows * 2, 3, 4);
    for (i64 i = 0; i < rows; ++i) v[size_t(i)] *= std::pow(2, double(i * 37 % 24));
    const Tensor x = to_tensor(v, {rows, 2}, f32, d), y = tensor(make_labels(rows, 2)).to(d);
    check_all(x, y, 1, {}, nullptr);
    Tensor loss = zeros({}, {.device = d}), all = loss.clone();
    std::vector<double> bits[2];
    for (std::vector<double>& b : bits)
      for_each_variant(d, NllForwardArgs{view(loss), view(all), view(x), view(y), {}, 1, kIgnore},
                       [&] { b.push_back(loss.item()); });
    CHECK(bits[0] == bits[1]);
  }
}

TEST_CASE("nll kernels: a bad label raises the mailbox and counts as class 0") {
  static constexpr OpInfo info{.name = "nll_test"};
  for (Device d : kernel_devices())
    for (i64 bad : {i64(3), i64(-1), INT64_MAX}) {
      const Tensor x = to_tensor({1, 2, 3, 4, 5, 6, 7, 8, 9}, {3, 3}, f32, d);
      const Tensor labels = tensor({2, bad, 1}).to(d), grad = ones({}, {.device = d});
      Tensor loss = zeros({}, {.device = d}), all = loss.clone(), gx = empty_like(x);
      NllForwardArgs a{view(loss), view(all), view(x), view(labels), {}, 1};
      a.mailbox = mailbox_of(d);
      a.op_id = mailbox_op_id(info);
      for_each_variant(d, a, [&] {
        MailboxRecord r{};
        CHECK(read_mailbox(d, r));
        clear_mailbox(d);
        CHECK(r.raised == i32(MailboxCode::label_out_of_range));
        CHECK(r.op_id == a.op_id);
        CHECK(r.position == 1);
        CHECK(r.value == bad);
        CHECK(r.limit == 3);
        CHECK(loss.item() == -(3 + 4 + 8));
        CHECK(all.item() == 3);
      });
      for_each_variant(d, NllBackwardArgs{view(gx), view(grad), view(labels), {}, 1}, [&] {
        CHECK(to_doubles(gx) == std::vector<double>{0, 0, -1, -1, 0, 0, 0, -1, 0});
        MailboxRecord r{};
        CHECK(!read_mailbox(d, r));
        gx.fill_(7);
      });
    }
}
