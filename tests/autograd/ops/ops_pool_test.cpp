// Pooling beside what its rows show: NaN and infinities, indices, layouts, variants, threads, sizes
// beyond 2^31, what is saved.
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/pool.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/device.h"
#include "warptape/core/memory.h"
#include "warptape/core/random.h"
#include "warptape/kernels/cpu/isa.h"
#include "warptape/kernels/pool.h"
#include "warptape/kernels/pool/pool_windows.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/variants.h"

using namespace wt_test;

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

Tensor plane(const std::vector<float>& v, i64 h, i64 w) {
  return tensor(std::span<const float>(v)).reshape({1, 1, h, w});
}

struct Problem {
  Shape x;
  bool max, channels_last;
  PerAxis kernel, stride, padding;
  bool ceil = false, count = true;
  PerAxis dilation = 1;
  bool adaptive = false;  // `kernel` is then the sizes
};
struct Outcome {
  std::vector<float> y, gradient, alone;  // alone: y where nobody wants a gradient
};
Tensor pooled(const Problem& p, const Tensor& x) {
  if (p.adaptive)
    return p.max ? adaptive_max_pool2d(x, p.kernel) : adaptive_avg_pool2d(x, p.kernel);
  if (p.max)
    return max_pool2d(
        x, p.kernel,
        {.stride = p.stride, .padding = p.padding, .dilation = p.dilation, .ceil_mode = p.ceil});
  return avg_pool2d(x, p.kernel,
                    {.stride = p.stride,
                     .padding = p.padding,
                     .ceil_mode = p.ceil,
                     .count_include_pad = p.count});
}
Outcome outcome(const Problem& p, const char* variant, DType t = f32) {
  const VariantScope a("max_pool_forward", variant), b("max_pool_backward", variant),
      c("avg_pool_forward", variant), d("avg_pool_backward", variant);
  manual_seed(7);
  // Whole numbers: there are ties, and sums are exact. The least one stands for -inf.
  Tensor x = randint(-4, 5, p.x, {.dtype = DType::i64}).to(t);
  if (p.max) x = where(eq(x, -4), -INFINITY, x);
  if (p.channels_last) x = contiguous(x, MemoryFormat::channels_last);
  x.set_requires_grad();
  const Tensor y = pooled(p, x);
  CHECK(y.is_contiguous(p.channels_last ? MemoryFormat::channels_last : MemoryFormat::contiguous));
  Tensor w = randint(-8, 9, y.shape(), {.dtype = DType::i64}).to(t);
  if (p.channels_last) w = contiguous(w, MemoryFormat::channels_last);
  return {y.to(f32).to_vector<float>(),
          grad(y, x, {.grad_outputs = {w}}).to(f32).to_vector<float>(),
          pooled(p, x.detach()).to(f32).to_vector<float>()};
}

}  // namespace

TEST_CASE("max_pool: NaN wherever a window has one, the last of them; -inf is a value") {
  for (const Device d : operator_devices()) {
    CAPTURE(to_string(d));
    const Tensor x = plane({1, kNaN, 3, 4, kNaN, 2, -kInf, -kInf, 0, 0, -kInf, -kInf}, 3, 4).to(d);
    const MaxPool p = max_pool2d_with_indices(x, 2, {.stride = 1});
    const std::vector<float> y = p.values.to_vector<float>();
    CHECK(std::isnan(y[0]));
    CHECK(std::isnan(y[1]));
    CHECK(y[2] == 4);
    CHECK(std::isnan(y[3]));
    CHECK(y[4] == 2);
    CHECK(y[5] == -kInf);
    CHECK(p.indices.to_vector<i64>() == std::vector<i64>{4, 1, 3, 4, 5, 6});
  }
  // The vector variant does the same.
  Tensor wide = full({1, 1, 2, 64}, 1.0f);
  wide.mutable_data<float>()[1] = wide.mutable_data<float>()[65] = kNaN;
  wide.mutable_data<float>()[67] = kInf;
  for (const char* variant : {"vector", "reference"}) {
    const VariantScope scope("max_pool_forward", variant), back("max_pool_backward", variant);
    const Tensor leaf = clone(wide).set_requires_grad();
    const Tensor v = max_pool2d(leaf, 2);
    const std::vector<float> values = v.to_vector<float>();
    CHECK(std::isnan(values[0]));
    CHECK(values[1] == kInf);
    CHECK(values[2] == 1);
    const std::vector<float> g =
        grad(v, leaf, {.grad_outputs = {ones(v.shape())}}).to_vector<float>();
    CHECK(g[65] == 1);  // the last NaN
    CHECK(g[1] == 0);
    CHECK(g[67] == 1);
    CHECK(g[4] == 1);  // the first of equal ones
  }
}

TEST_CASE("max_pool: indices name the chosen elements, in every rank and layout") {
  manual_seed(2);
  const Tensor x = randn({2, 3, 6, 7});
  for (const Device d : operator_devices())
    for (const Tensor& t : {x, contiguous(x, MemoryFormat::channels_last)}) {
      CAPTURE(to_string(d));
      const MaxPool p = max_pool2d_with_indices(
          t.to(d), {2, 3}, {.stride = 2, .padding = {1, 1}, .ceil_mode = true});
      CHECK(p.indices.dtype() == DType::i64);
      CHECK_FALSE(p.indices.requires_grad());
      const std::vector<float> v = p.values.to_vector<float>(), all = x.to_vector<float>();
      const std::vector<i64> at = p.indices.to_vector<i64>();
      const size_t windows = v.size() / 6;
      for (size_t i = 0; i < v.size(); ++i) CHECK(all[i / windows * 42 + size_t(at[i])] == v[i]);
    }
  CHECK(max_pool1d_with_indices(tensor({1, 5, 2, 2, 9, 9}).to(f32).reshape({1, 6}), 3)
            .indices.to_vector<i64>() == std::vector<i64>{1, 4});
  CHECK(max_pool3d_with_indices(arange(8).to(f32).reshape({1, 2, 2, 2}), 2)
            .indices.to_vector<i64>() == std::vector<i64>{7});
  // A window with nothing inside: dilation over a short axis.
  for (const Device d : operator_devices()) {
    const MaxPool none =
        max_pool1d_with_indices(ones({1, 1, 4}, {.device = d}), 2, {.padding = 1, .dilation = 5});
    CHECK(none.values.to_vector<float>() == std::vector<float>{-kInf});
    CHECK(none.indices.to_vector<i64>() == std::vector<i64>{-1});
  }
}

TEST_CASE("pool: the fast variants give the reference's bits") {
  const int isa = cpu_isa();
  for (const bool max : {true, false})
    for (const bool channels_last : {false, true})
      for (const Problem& q :
           {Problem{{2, 3, 8, 70}, max, false, 2, 2, 0},
            Problem{{1, 19, 7, 9}, max, false, 2, 2, 0},
            Problem{{2, 37, 9, 9}, max, false, 3, 2, 1, true},
            Problem{{2, 5, 9, 9}, max, false, 3, 3, 1, false, false},
            Problem{{1, 33, 5, 6}, max, false, {1, 3}, {2, 4}, 0},
            Problem{{2, 2, 11, 41}, max, false, 3, 1, 1, false, false},
            Problem{{2, 2, 12, 40}, max, false, {5, 4}, {2, 2}, {2, 2}, true},
            Problem{{1, 3, 13, 39}, max, false, {2, 5}, {1, 3}, {1, 2}},
            Problem{{1, 3, 9, 37}, max, false, 3, 1, 0},
            Problem{{1, 2, 14, 23}, max, false, 3, {2, 2}, 1, false, true, {2, 3}},
            Problem{{2, 3, 7, 7}, max, false, 1, 1, 0, false, true, 1, true},
            Problem{{2, 3, 8, 36}, max, false, {3, 12}, 1, 0, false, true, 1, true}}) {
        Problem p = q;
        p.channels_last = channels_last;
        CAPTURE(p.x, max, channels_last, p.kernel[0], p.kernel[1]);
        for (const DType t : {f32, f64, f16, bf16}) {
          CAPTURE(dtype_name(t));
          const Outcome want = outcome(p, "reference", t);
          for (int use = 0; use <= isa; ++use) {
            cpu_isa_in_use = use;
            const Outcome got = outcome(p, item_size(t) == 2 ? "widened" : "vector", t);
            cpu_isa_in_use = isa;
            CHECK(got.y == want.y);
            CHECK(got.alone == want.y);
            if (max) CHECK(got.gradient == want.gradient);
            REQUIRE(got.gradient.size() == want.gradient.size());
            // Sums of shares may be rounded otherwise.
            const double u = t == f32 || t == f64 ? 1e-5 : roundoff(t) * 8;
            for (size_t i = 0; i < want.gradient.size(); ++i)
              if (std::fabs(got.gradient[i] - want.gradient[i]) > u * 8)
                FAIL_CHECK("gradient " << i);
          }
        }
      }
}

TEST_CASE("pool: the gradient of a sum, one element expanded, is that of ones") {
  for (const bool max : {true, false})
    for (const bool channels_last : {false, true}) {
      Tensor x = randn({2, 3, 9, 9});
      if (channels_last) x = contiguous(x, MemoryFormat::channels_last);
      x.set_requires_grad();
      const Tensor y = pooled({{}, max, channels_last, 3, 2, 1}, x);
      const Tensor want = grad(y, x, {.grad_outputs = {ones(y.shape())}, .retain_graph = true});
      CHECK(grad(y.sum(), x).to_vector<float>() == want.to_vector<float>());
    }
}

TEST_CASE("pool: equal bits with one thread and with two") {
  const int before = num_threads();
  for (const char* variant : {"vector", "reference"})
    for (const bool max : {true, false})
      for (const bool channels_last : {false, true}) {
        const Problem p{{4, 32, 24, 24}, max, channels_last, 2, 2, 0};
        set_num_threads(1);
        const Outcome one = outcome(p, variant);
        set_num_threads(2);
        const Outcome two = outcome(p, variant);
        CHECK(one.y == two.y);
        CHECK(one.gradient == two.gradient);
      }
  set_num_threads(before);
}

TEST_CASE("pool: shapes of more than 2^31 elements, on meta") {
  const TensorOptions meta{.device = Device::meta()};
  const i64 big = i64(1) << 31;
  CHECK(max_pool1d(empty({1, 1, 2 * big}, meta), 2).shape() == Shape{1, 1, big});
  CHECK(avg_pool2d(empty({big, 2, 4, 4}, meta), 2).shape() == Shape{big, 2, 2, 2});
  CHECK(adaptive_avg_pool1d(empty({1, 1, 3 * big}, meta), 7).shape() == Shape{1, 1, 7});
  const Tensor x = empty({1, 1, big, 4}, meta).set_requires_grad();
  const Tensor y = max_pool2d(x, 2);
  CHECK(grad(y, x, {.grad_outputs = {y}}).shape() == x.shape());
}

TEST_CASE("pool: windows of an axis of 2^33 elements, computed without it") {
  PoolShape s;
  for (int d = 0; d < 3; ++d) {
    s.in[d] = (i64(1) << 33) + 5;
    s.out[d] = 1000003;
  }
  s.adaptive = true;
  i64 expected = 0;
  for (const i64 q : {i64(0), i64(499999), i64(1000002)}) {
    const PoolWindow w = pool_window(s, 0, q);
    const auto wide = [&](i64 k) { return i64(__int128(k) * s.in[0] / s.out[0]); };
    CHECK(w.start == wide(q));
    CHECK(w.start + w.end == i64((__int128(q + 1) * s.in[0] + s.out[0] - 1) / s.out[0]));
    expected += w.end;
  }
  CHECK(expected > 0);
}

TEST_CASE("pool: a byte for each result is saved, and nothing for averages") {
  const Tensor w = ones({1});
  const auto held_by = [&](bool max) {
    const i64 before = memory::stats(Device::cpu()).live;
    Tensor y;
    {
      const Tensor x = randn({2, 4, 64, 64}).set_requires_grad() * 2.0;
      y = max ? max_pool2d(x, 2) : avg_pool2d(x, 2);
    }
    return memory::stats(Device::cpu()).live - before - y.numel() * 4;
  };
  const i64 x_bytes = 2 * 4 * 64 * 64 * 4;  // the leaf's, whose handle the graph keeps
  CHECK(held_by(false) <= x_bytes + 1024);
  CHECK(held_by(true) <= x_bytes + 2 * 4 * 32 * 32 + 1024);
}
