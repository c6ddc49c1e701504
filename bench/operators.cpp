#include "warptape/bench/operators.h"

#include <algorithm>
#include <chrono>
#include <ctime>

#include "warptape/autograd/ops.h"
#include "warptape/core/factories.h"
#include "warptape/core/mode.h"
#include "warptape/core/str.h"

namespace wt::bench {
namespace {

// An operator over some operands.
struct Timed {
  const char* name;
  std::vector<Shape> shapes;
  std::vector<DType> dtypes;
  std::function<Tensor(const std::vector<Tensor>&)> call;
  std::string more{};  // what the shapes do not say
};

const std::vector<DType> kAll{DType::f32, DType::f64, DType::f16, DType::bf16};
const std::vector<DType> kWide{DType::f32, DType::f64};
const std::vector<DType> kSingle{DType::f32};

Timed conv2d_row(const Shape& x, const Shape& w, i64 stride, i64 padding,
                 std::vector<DType> dtypes) {
  return {"conv2d",
          {x, w},
          std::move(dtypes),
          [=](const std::vector<Tensor>& in) {
            return conv2d(in[0], in[1], {.stride = stride, .padding = padding});
          },
          str(" stride ", stride, " padding ", padding)};
}
Timed conv1d_row(const Shape& x, const Shape& w, i64 stride, i64 padding) {
  return {"conv1d",
          {x, w},
          kSingle,
          [=](const std::vector<Tensor>& in) {
            return conv1d(in[0], in[1], {.stride = stride, .padding = padding});
          },
          str(" stride ", stride, " padding ", padding)};
}
Timed transposed_row(const Shape& x, const Shape& w, i64 stride, i64 padding) {
  return {"conv_transpose2d",
          {x, w},
          kSingle,
          [=](const std::vector<Tensor>& in) {
            return conv_transpose2d(in[0], in[1], {.stride = stride, .padding = padding});
          },
          str(" stride ", stride, " padding ", padding)};
}
Timed attention_row(const Shape& q, bool causal) {
  return {"attention",
          {q, q, q},
          kWide,
          [=](const std::vector<Tensor>& in) {
            return scaled_dot_product_attention(in[0], in[1], in[2], {.causal = causal});
          },
          causal ? " causal" : ""};
}
Timed cdist_row(const Shape& a, const Shape& b, std::vector<DType> dtypes, double p = 2) {
  return {"cdist",
          {a, b},
          std::move(dtypes),
          [p](const std::vector<Tensor>& in) { return cdist(in[0], in[1], p); },
          str(" p ", p)};
}
Timed max_pool_row(const Shape& x, i64 kernel, i64 stride, i64 padding) {
  return {"max_pool2d",
          {x},
          kAll,
          [=](const std::vector<Tensor>& in) {
            return max_pool2d(in[0], kernel, {.stride = stride, .padding = padding});
          },
          str(" kernel ", kernel, " stride ", stride, " padding ", padding)};
}
Timed avg_pool_row(const Shape& x, i64 kernel, i64 stride, i64 padding) {
  return {"avg_pool2d",
          {x},
          kAll,
          [=](const std::vector<Tensor>& in) {
            return avg_pool2d(in[0], kernel, {.stride = stride, .padding = padding});
          },
          str(" kernel ", kernel, " stride ", stride, " padding ", padding)};
}
Timed adaptive_avg_pool_row(const Shape& x, i64 sizes) {
  return {"adaptive_avg_pool2d",
          {x},
          kAll,
          [=](const std::vector<Tensor>& in) { return adaptive_avg_pool2d(in[0], sizes); },
          str(" sizes ", sizes)};
}

std::vector<Timed> all_problems() {
  return {conv2d_row({64, 3, 32, 32}, {64, 3, 3, 3}, 1, 1, kAll),
          conv2d_row({64, 64, 16, 16}, {64, 64, 3, 3}, 1, 1, kAll),
          conv2d_row({16, 64, 56, 56}, {64, 64, 3, 3}, 1, 1, kAll),
          conv2d_row({64, 1, 28, 28}, {6, 1, 5, 5}, 1, 0, kAll),
          conv2d_row({16, 64, 32, 32}, {128, 64, 1, 1}, 1, 0, kAll),
          conv2d_row({64, 1, 28, 28}, {32, 1, 3, 3}, 1, 0, kAll),
          conv2d_row({64, 32, 26, 26}, {64, 32, 3, 3}, 1, 0, kAll),
          conv2d_row({64, 3, 64, 64}, {64, 3, 4, 4}, 2, 1, kSingle),
          conv2d_row({64, 64, 32, 32}, {128, 64, 4, 4}, 2, 1, kSingle),
          conv2d_row({16, 3, 128, 128}, {96, 3, 4, 4}, 4, 0, kSingle),
          conv2d_row({64, 512, 4, 4}, {1, 512, 4, 4}, 1, 0, kSingle),
          conv1d_row({64, 64, 256}, {64, 64, 3}, 1, 1),
          conv1d_row({32, 16, 1000}, {32, 16, 9}, 1, 4),
          conv1d_row({16, 256, 100}, {256, 256, 5}, 1, 2),
          conv1d_row({8, 1, 16000}, {64, 1, 80}, 4, 0),
          transposed_row({64, 100, 1, 1}, {100, 512, 4, 4}, 1, 0),
          transposed_row({64, 100, 1, 1}, {100, 64, 7, 7}, 1, 0),
          transposed_row({64, 256, 7, 7}, {256, 128, 4, 4}, 2, 1),
          max_pool_row({64, 64, 32, 32}, 2, 2, 0),
          max_pool_row({16, 64, 112, 112}, 3, 2, 1),
          avg_pool_row({64, 64, 32, 32}, 2, 2, 0),
          avg_pool_row({16, 64, 56, 56}, 3, 1, 1),
          adaptive_avg_pool_row({64, 512, 7, 7}, 1),
          cdist_row({1000, 64}, {1000, 64}, kWide),
          cdist_row({512, 128}, {2000, 128}, kSingle),
          cdist_row({300, 3}, {300, 3}, kWide),
          cdist_row({1000, 64}, {1000, 64}, kSingle, 1),
          cdist_row({300, 64}, {300, 64}, kSingle, 3),
          attention_row({8, 8, 256, 64}, false),
          attention_row({12, 4, 64, 32}, true),
          attention_row({2, 8, 1024, 64}, true)};
}

std::string text(const Timed& row) {
  std::string all;
  for (const Shape& s : row.shapes) {
    if (!all.empty()) all += ' ';
    for (int d = 0; d < s.ndim(); ++d) all += str(d ? "x" : "", s[d]);
  }
  return all + row.more;
}

// Of one thread its processor's time: while another process has the core, nothing passes.
double now_us(int threads) {
#if defined(CLOCK_PROCESS_CPUTIME_ID)
  if (threads == 1) {
    timespec t{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return double(t.tv_sec) * 1e6 + double(t.tv_nsec) * 1e-3;
  }
#endif
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

OperatorRow measure(const OperatorOptions& o, const Timed& row, DType t, bool gradients) {
  std::vector<Tensor> in;
  for (const Shape& s : row.shapes)
    in.push_back(to_dtype(randn(s), t).set_requires_grad(gradients));
  const auto once = [&] {
    const double begin = now_us(o.threads);
    if (gradients) {
      for (Tensor& x : in) x.zero_grad();
      row.call(in).sum().backward();
    } else {
      const NoGrad off;
      (void)row.call(in);
    }
    return now_us(o.threads) - begin;
  };
  once();
  std::vector<double> us;
  for (int i = 0; i < o.windows; ++i) us.push_back(once());
  return {row.name, text(row), dtype_name(t), gradients, summarize(us)};
}

}  // namespace

void measure_operators(const OperatorOptions& o,
                       const std::function<void(const OperatorRow&)>& done) {
  const int before = num_threads();
  set_num_threads(o.threads);
  for (const Timed& row : all_problems()) {
    if (!o.only.empty() && std::find(o.only.begin(), o.only.end(), row.name) == o.only.end())
      continue;
    for (DType t : row.dtypes)
      for (bool gradients : {false, true}) done(measure(o, row, t, gradients));
  }
  set_num_threads(before);
}

std::vector<std::string> operator_names() {
  std::vector<std::string> names;
  for (const Timed& row : all_problems())
    if (names.empty() || names.back() != row.name) names.push_back(row.name);
  return names;
}

}  // namespace wt::bench
