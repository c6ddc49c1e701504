// Convolution beside what its rows show: layouts, variants against the reference over random
// shapes, threads, leaves' slots, sizes beyond 2^31, what is saved.
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/conv.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/device.h"
#include "warptape/core/memory.h"
#include "warptape/core/random.h"
#include "warptape/kernels/conv.h"
#include "warptape/kernels/cpu/isa.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/variants.h"

using namespace wt_test;

namespace {

struct Problem {
  Shape x, w;
  ConvOptions options;
  bool channels_last = false, bias = false;
  bool gradient_last = false;  // the gradient has its channels last
  DType dtype = DType::f32;
};

struct Outcome {
  Tensor y;
  std::vector<Tensor> gradients;  // of x, w and the bias
};

// Forward and gradients, under a variant ("" is the best one), the weight's gradient under one of
// another name if given. Values are the same on all devices.
Outcome outcome(const Problem& p, const char* variant, Device d = Device::cpu(),
                const char* of_weight = nullptr) {
  const VariantScope a("conv_forward", variant), b("conv_backward_input", variant),
      c("conv_backward_weight", of_weight ? of_weight : variant);
  manual_seed(5);
  Tensor x = randn(p.x).to(p.dtype).to(d);
  if (p.channels_last) x = contiguous(x, MemoryFormat::channels_last);
  x.set_requires_grad();
  const Tensor w = randn(p.w).to(p.dtype).to(d).set_requires_grad();
  const Tensor bias = randn({p.w[0]}).to(p.dtype).to(d).set_requires_grad();
  Tensor y = p.w.ndim() == 3   ? p.bias ? conv1d(x, w, bias, p.options) : conv1d(x, w, p.options)
               : p.w.ndim() == 4 ? p.bias ? conv2d(x, w, bias, p.options) : conv2d(x, w, p.options)
               : p.bias ? conv3d(x, w, bias, p.options)
                               : conv3d(x, w, p.options);
  Tensor weights = randn(y.shape()).to(p.dtype).to(d);
  if (p.gradient_last) weights = contiguous(weights, MemoryFormat::channels_last);
  std::vector<Tensor> leaves{x, w};
  if (p.bias) leaves.push_back(bias);
  std::vector<Tensor> g = grads(std::span(&y, 1), leaves, {.grad_outputs = {weights}});
  return {detach(y), std::move(g)};
}

// `partial`: what sums reach on their way, if that is more than what they end with.
void check_near(const Tensor& got, const Tensor& want, double terms, double partial = 1) {
  const std::vector<double> a = to_doubles(got), b = to_doubles(want);
  REQUIRE(a.size() == b.size());
  double largest = partial;
  for (double v : b) largest = std::max(largest, std::fabs(v));
  for (size_t i = 0; i < a.size(); ++i)
    if (std::fabs(a[i] - b[i]) >
        0x1p-23 * (8 + std::sqrt(terms)) * largest + 4 * roundoff(want.dtype()) * std::fabs(b[i])) {
      CAPTURE(i, a[i], b[i]);
      FAIL_CHECK("differs");
      return;
    }
}

void check_equal(const Tensor& a, const Tensor& b) {
  CHECK(a.to_vector<float>() == b.to_vector<float>());
}

u64 next(u64& seed, u64 limit) {
  seed = mix64(seed + 0x9e3779b97f4a7c15ull);
  return seed % limit;
}

Problem random_problem(u64& seed) {
  const int axes = 1 + int(next(seed, 3));
  Problem p;
  const i64 groups = next(seed, 3) == 0 ? 1 + i64(next(seed, 4)) : 1;
  const i64 in = next(seed, 4) == 0 ? 1 : 1 + i64(next(seed, 9));
  const i64 out = next(seed, 4) == 0 ? 1 : 1 + i64(next(seed, 40));
  p.x = {1 + i64(next(seed, 3)), groups * in};
  p.w = {groups * out, in};
  std::vector<i64> stride, padding, dilation;
  for (int d = 0; d < axes; ++d) {
    p.w.push_back(1 + i64(next(seed, 4)));
    stride.push_back(1 + i64(next(seed, 3)));
    dilation.push_back(1 + i64(next(seed, 3)));
    padding.push_back(i64(next(seed, 4)));
    const i64 least = dilation.back() * (p.w[2 + d] - 1) + 1 - 2 * padding.back();
    p.x.push_back(std::max<i64>(least, 1) + i64(next(seed, axes == 1 ? 50 : axes == 2 ? 20 : 5)));
  }
  p.options = {
      .stride = stride, .padding = PerAxis(padding), .dilation = dilation, .groups = groups};
  p.channels_last = axes == 2 && next(seed, 2) == 0;
  p.bias = next(seed, 2) == 0;
  p.gradient_last = axes == 2 && next(seed, 2) == 0;
  return p;
}

// Every result of `got` near that of `want`.
void check_near(const Outcome& got, const Outcome& want) {
  const double pixels = double(want.y.numel());
  check_near(got.y, want.y, pixels);
  for (size_t k = 0; k < want.gradients.size(); ++k)  // that of a bias may be one number near 0
    check_near(got.gradients[k], want.gradients[k], pixels, k == 2 ? std::sqrt(pixels) : 1);
}
void check_equal(const Outcome& a, const Outcome& b) {
  check_equal(a.y, b.y);
  for (size_t k = 0; k < a.gradients.size(); ++k) check_equal(a.gradients[k], b.gradients[k]);
}

// The race and ptx flavours have the plain program's cpu, whose own cases are left to that.
bool walks_cpu() {
  for (const Device& d : kernel_devices())
    if (d == Device::cpu()) return true;
  return false;
}
// The devices that are no cpu, and what their ladders have: for forward and input, for the weight.
std::vector<Device> gpu_devices() {
  std::vector<Device> all = kernel_devices();
  std::erase_if(all, [](const Device& d) { return d.kind == DeviceKind::cpu; });
  return all;
}
constexpr std::pair<const char*, const char*> kGpuRungs[] = {
    {"naive", "naive"}, {"channels", "taps"}, {"tiled", "tiled"}};

}  // namespace

TEST_CASE("conv: rungs of simt and cuda agree with the reference over random shapes") {
  for (const Device d : gpu_devices()) {
    u64 seed = 29;
    for (int i = 0; i < (whole_walk() ? 30 : 12); ++i) {
      const Problem p = random_problem(seed);
      const Outcome want = outcome(p, "reference");
      for (const auto& [rung, of_weight] : kGpuRungs) {
        CAPTURE(i, d, rung, p.x, p.w, p.options.groups, p.channels_last, p.gradient_last);
        check_near(outcome(p, rung, d, of_weight), want);
      }
    }
  }
}

// Tiles are 64 channels by 64 pixels by 16 terms: one less, as many, one more; several steps and
// several tiles; strides whose phases have different numbers of pixels, or no tap at all.
const std::vector<Problem>& tile_problems() {
  static const std::vector<Problem> problems = {
      {{1, 16, 8, 8}, {64, 16, 1, 1}, {}},
      {{1, 17, 5, 13}, {65, 17, 1, 1}, {}},
      {{2, 5, 9, 7}, {63, 5, 3, 3}, {.padding = 1}},
      {{1, 33, 6, 6}, {20, 33, 3, 3}, {.stride = 2, .padding = 1}},
      {{1, 20, 11, 10}, {24, 20, 3, 2}, {.stride = {3, 2}, .padding = {1, 0}, .dilation = {2, 4}}},
      {{1, 18, 9, 9}, {18, 18, 1, 1}, {.stride = 4}},
      {{1, 36, 7, 7}, {72, 18, 2, 2}, {.stride = 2, .groups = 2}},
      {{1, 18, 3, 4, 5}, {20, 18, 2, 3, 2}, {.stride = {1, 2, 2}, .padding = {1, 1, 0}}},
      {{2, 40, 30}, {24, 40, 5}, {.stride = 6, .padding = 2, .dilation = 3}},
      {{3, 1, 24, 23}, {6, 1, 5, 5}, {}},
      {{2, 6, 14, 14}, {6, 1, 7, 7}, {.padding = 3, .groups = 6}},
      {{1, 3, 40, 41}, {24, 3, 7, 7}, {.stride = 2, .padding = 3}}};
  return problems;
}
TEST_CASE("conv: rungs of simt and cuda around the edges of tiles, equal bits every time") {
  for (const Device d : gpu_devices())
    for (Problem p : tile_problems())
      for (const bool channels_last : {false, true}) {
        if (channels_last && p.x.ndim() != 4) continue;
        p.channels_last = p.gradient_last = channels_last;
        p.bias = true;
        const Outcome want = outcome(p, "reference");
        for (const auto& [rung, of_weight] : kGpuRungs) {
          if (std::string_view(rung) == "naive") continue;
          CAPTURE(d, rung, p.x, p.w, channels_last);
          const Outcome got = outcome(p, rung, d, of_weight);
          check_near(got, want);
          if (!channels_last) check_equal(got, outcome(p, rung, d, of_weight));
        }
      }
}

TEST_CASE("conv: tensor cores around the edges of tiles, equal bits every time") {
  std::vector<Problem> problems = tile_problems();
  // Packs of eight channels where channels are last; steps of 32 terms, and one pack more.
  problems.push_back({{1, 32, 6, 7}, {32, 32, 3, 3}, {.padding = 1}});
  problems.push_back({{2, 40, 5, 5}, {72, 40, 2, 2}, {.stride = 2, .padding = 1}});
  problems.push_back({{1, 48, 9, 9}, {16, 24, 3, 3}, {.dilation = 2, .groups = 2}});
  for (const Device d : gpu_devices())
    for (const DType t : {DType::f16, DType::bf16})
      for (Problem p : problems)
        for (const bool channels_last : {false, true}) {
          if (channels_last && p.x.ndim() != 4) continue;
          // The two dtypes differ in the instruction: crosswise, where all would take too long.
          if (!whole_walk() && p.x.ndim() == 4 && channels_last != (t == DType::bf16)) continue;
          p.channels_last = p.gradient_last = channels_last;
          p.bias = true;
          p.dtype = t;
          CAPTURE(d, t, p.x, p.w, channels_last);
          const Outcome got = outcome(p, "tensor_core", d);
          check_near(got, outcome(p, "reference"));
          if (t == DType::f16) check_equal(got, outcome(p, "tensor_core", d));
        }
}

// Few weights of many pixels: parts that are summed by a second kernel, the last of them shorter.
TEST_CASE("conv: a long sum in parts on simt and cuda") {
  for (const Device d : gpu_devices())
    for (const Problem& p : {Problem{{3, 1, 61, 47}, {2, 1, 3, 3}, {.padding = 1}, false, true},
                             Problem{{1, 2, 9001}, {3, 2, 5}, {.stride = 2}, false, true}}) {
      for (const char* of_weight : {"taps", "tiled", "tensor_core"}) {
        Problem q = p;
        if (std::string_view(of_weight) == "tensor_core") q.dtype = DType::f16;
        CAPTURE(d, of_weight, p.x, p.w);
        const Outcome got = outcome(q, "channels", d, of_weight);
        check_near(got, outcome(q, "reference"));
        check_equal(got, outcome(q, "channels", d, of_weight));
      }
    }
}

TEST_CASE("conv: the direct variant agrees with the reference over random shapes") {
  if (!walks_cpu()) return;
  u64 seed = 17;
  const int isa = cpu_isa();
  for (int i = 0; i < (whole_walk() ? 150 : 50); ++i) {
    const Problem p = random_problem(seed);
    CAPTURE(i, p.x, p.w, p.options.groups, p.channels_last);
    const Outcome want = outcome(p, "reference");
    for (int use = 0; use <= isa; ++use) {
      if (use != isa && i % 5 != 0) continue;
      CAPTURE(use);
      cpu_isa_in_use = use;
      const Outcome got = outcome(p, "direct");
      cpu_isa_in_use = isa;
      check_near(got, want);
    }
  }
}

TEST_CASE("conv: depthwise and stepping shapes in both orders agree with the reference") {
  if (!walks_cpu()) return;
  for (const bool channels_last : {false, true})
    for (const Problem& q :
         {Problem{{2, 37, 9, 11}, {37, 1, 3, 3}, {.padding = 1, .groups = 37}},
          Problem{
              {1, 16, 12, 9}, {16, 1, 5, 3}, {.stride = {2, 3}, .padding = {2, 0}, .groups = 16}},
          Problem{{2, 8, 10, 10}, {16, 1, 3, 3}, {.padding = 1, .groups = 8}},
          Problem{{1, 3, 30, 30}, {20, 3, 7, 7}, {.stride = 2, .padding = 3}},
          Problem{{2, 40, 7, 7}, {70, 40, 1, 1}, {}},
          Problem{{2, 40, 8, 8}, {10, 40, 1, 1}, {.stride = 2}},
          Problem{{1, 3, 24, 24}, {9, 3, 8, 8}, {.stride = 8}},
          Problem{{1, 2, 70, 130}, {3, 2, 3, 3}, {.padding = 1}},
          Problem{{2, 1, 28, 28}, {6, 1, 5, 5}, {}}, Problem{{3, 1, 9, 11}, {32, 1, 3, 3}, {}},
          Problem{{2, 3, 20, 21}, {32, 3, 3, 3}, {.padding = 1}},
          Problem{{2, 3, 20, 21}, {30, 3, 3, 3}, {.stride = 2}},
          Problem{{1, 1, 120, 130}, {20, 1, 3, 3}, {.padding = 1}},
          Problem{{2, 2, 9, 90}, {8, 2, 2, 3}, {.padding = 3, .dilation = {1, 20}}},
          Problem{{2, 2, 3, 3}, {7, 2, 3, 3}, {.padding = 9}},
          Problem{{3, 50, 23, 25}, {70, 50, 1, 1}, {}}}) {
      Problem p = q;
      p.channels_last = p.gradient_last = channels_last;
      p.bias = true;
      CAPTURE(p.x, p.w, channels_last);
      check_near(outcome(p, "direct"), outcome(p, "reference"));
    }
}

TEST_CASE("conv: to few channels, further elements at the end included") {
  if (!walks_cpu()) return;
  manual_seed(8);
  const int isa = cpu_isa();
  const Tensor w = randn({12, 3, 3, 3}), bias = randn({3});
  const ConvTransposeOptions options{.padding = 1, .output_padding = {2, 1}, .dilation = 3};
  for (const bool channels_last : {false, true}) {
    Tensor x = randn({2, 12, 7, 9});
    if (channels_last) x = contiguous(x, MemoryFormat::channels_last);
    Tensor want;
    {
      const VariantScope scope("conv_backward_input", "reference");
      want = conv_transpose2d(x, w, bias, options);
    }
    for (int use = 0; use <= isa; ++use) {
      cpu_isa_in_use = use;
      const Tensor got = conv_transpose2d(x, w, bias, options);
      cpu_isa_in_use = isa;
      check_near(got, want, 108);
      const Tensor part = conv_transpose2d(slice(x, 3, {1, 8}), w, bias, options);
      check_near(part, conv_transpose2d(contiguous(slice(x, 3, {1, 8})), w, bias, options), 108);
    }
  }
}

TEST_CASE("conv: NHWC in gives NHWC out, and the same values") {
  for (const Device d : operator_devices()) {
    CAPTURE(d);
    manual_seed(3);
    const Tensor x = randn({2, 5, 9, 7}).to(d), w = randn({6, 5, 3, 3}).to(d),
                 bias = randn({6}).to(d);
    const Tensor last = contiguous(x, MemoryFormat::channels_last);
    const Tensor y = conv2d(x, w, bias, {.padding = 1});
    const Tensor z = conv2d(last, w, bias, {.padding = 1});
    CHECK(y.is_contiguous());
    CHECK(z.is_contiguous(MemoryFormat::channels_last));
    check_near(z, y, 45);
    const Tensor t = conv_transpose2d(contiguous(y, MemoryFormat::channels_last), w, {.stride = 2});
    CHECK(t.is_contiguous(MemoryFormat::channels_last));
    check_near(t, conv_transpose2d(y, w, {.stride = 2}), 54);
  }
}

TEST_CASE("conv: equal bits with one thread and with two, and run after run") {
  if (!walks_cpu()) return;
  const int before = num_threads();
  for (const bool channels_last : {false, true})
    for (const Problem& q :
         {Problem{{4, 8, 24, 24}, {24, 8, 3, 3}, {.padding = 1}},
          Problem{{3, 24, 20, 20}, {24, 1, 3, 3}, {.stride = 2, .padding = 1, .groups = 24}},
          Problem{{2, 3, 40, 40}, {33, 3, 5, 5}, {.stride = 2}},
          Problem{{24, 1, 28, 28}, {6, 1, 5, 5}, {}},
          Problem{{1, 2, 130, 90}, {20, 2, 3, 3}, {.padding = 1}}}) {
      Problem p = q;
      p.channels_last = p.gradient_last = channels_last;
      p.bias = true;
      CAPTURE(p.x, p.w, channels_last);
      set_num_threads(1);
      const Outcome one = outcome(p, "direct");
      set_num_threads(2);
      for (int run = 0; run < 3; ++run) {
        check_equal(one, outcome(p, "direct"));
      }
    }
  set_num_threads(before);
}

TEST_CASE("conv: what is not finite in one channel stays out of the others' gradients") {
  for (const Device d : operator_devices()) {
    CAPTURE(d);
    manual_seed(12);
    for (const bool channels_last : {false, true}) {
      const Tensor x = randn({1, 2, 11, 9}).to(d);
      const Tensor w = randn({7, 2, 3, 3}).to(d).set_requires_grad();
      Tensor y = conv2d(x, w), g = randn(y.shape()).to(d);  // planes of 63, no whole vectors
      for (int c : {0, 2, 4, 6}) {
        Tensor plane = select(g, 1, c);
        plane.fill_(INFINITY);
      }
      if (channels_last) g = contiguous(g, MemoryFormat::channels_last);
      const std::vector<float> of =
          grads(std::span(&y, 1), std::span(&w, 1), {.grad_outputs = {g}})[0].to_vector<float>();
      for (size_t i = 0; i < of.size(); ++i) CHECK(std::isfinite(of[i]) == (i / 18 % 2 == 1));
    }
  }
}

TEST_CASE("conv: gradients add up in a leaf's own memory") {
  for (const Device d : operator_devices()) {
    CAPTURE(d);
    manual_seed(9);
    const Tensor x = randn({2, 3, 8, 8}).to(d);
    Tensor w = randn({4, 3, 3, 3}).to(d).set_requires_grad();
    Tensor b = randn({4}).to(d).set_requires_grad();
    sum(conv2d(x, w, b)).backward();
    const Tensor once = clone(w.grad()), bias_once = clone(b.grad());
    sum(conv2d(x, w, b)).backward();
    check_near(w.grad(), once + once, 72);
    check_near(b.grad(), bias_once + bias_once, 72);
    // The bias alone.
    const Tensor fixed = detach(w);
    b.zero_grad();
    sum(conv2d(x, fixed, b)).backward();
    check_near(b.grad(), bias_once, 72);
  }
}

TEST_CASE("conv: operands of any strides") {
  for (const Device d : operator_devices()) {
    CAPTURE(d);
    manual_seed(4);
    const Tensor x = randn({2, 9, 3, 8}).to(d), w = randn({3, 3, 3, 4}).to(d);
    const Tensor turned = permute(x, {0, 2, 3, 1}),
                 steps = slice(x, 1, {.begin = 0, .end = 9, .step = 3});
    const Tensor v = permute(w, {3, 1, 2, 0});
    check_equal(conv2d(turned, v), conv2d(contiguous(turned), contiguous(v)));
    check_equal(conv2d(steps, w), conv2d(contiguous(steps), w));
    const Tensor wide = expand(randn({1, 3, 1, 8}).to(d), {2, 3, 6, 8});
    check_equal(conv2d(wide, w), conv2d(contiguous(wide), w));
  }
}

TEST_CASE("conv: NaN and infinity reach what reads them, and nothing else") {
  Tensor x = ones({1, 1, 5, 5});
  x.mutable_data<float>()[0] = std::numeric_limits<float>::quiet_NaN();
  x.mutable_data<float>()[24] = std::numeric_limits<float>::infinity();
  const auto check = [&](const char* variant, Device d) {
    CAPTURE(variant, d);
    const VariantScope scope("conv_forward", variant);
    const std::vector<float> y =
        conv2d(x.to(d), ones({1, 1, 3, 3}, {.device = d})).to_vector<float>();
    CHECK(std::isnan(y[0]));
    CHECK(std::isinf(y[8]));
    for (int i = 1; i < 8; ++i) CHECK(y[size_t(i)] == 9.0f);
  };
  for (const char* variant : {"direct", "reference"}) check(variant, Device::cpu());
  for (const Device d : gpu_devices())
    for (const char* variant : {"naive", "channels", "tiled"}) check(variant, d);
}

TEST_CASE("conv: shapes of more than 2^31 elements, on meta") {
  const TensorOptions meta{.device = Device::meta()};
  const i64 big = i64(1) << 31;
  const Tensor w = empty({2, 3, 3}, meta);
  CHECK(conv1d(empty({1, 3, big + 2}, meta), w).shape() == Shape{1, 2, big});
  CHECK(conv1d(empty({big, 3, 5}, meta), w, {.stride = 2}).shape() == Shape{big, 2, 2});
  CHECK(conv2d(empty({1, 1, 1 << 16, 1 << 16}, meta), empty({1, 1, 3, 3}, meta), {.padding = 1})
            .shape() == Shape{1, 1, 1 << 16, 1 << 16});
  CHECK(conv_transpose1d(empty({1, 2, big}, meta), w, {.stride = 4}).shape() ==
        Shape{1, 3, 4 * big - 1});
  const Tensor x = empty({1, 3, big + 2}, meta).set_requires_grad();
  const Tensor y = conv1d(x, w);
  CHECK(grad(y, x, {.grad_outputs = {y}}).shape() == x.shape());
  CHECK_THROWS_AS((void)conv_transpose1d(empty({1, 2, i64(1) << 62}, meta), w, {.stride = 4}),
                  ShapeError);
  CHECK_THROWS_AS((void)conv1d(empty({1, 3, 5}, meta), empty({2, 3, i64(1) << 60}, meta),
                               {.dilation = 1 << 20}),
                  ShapeError);
}

TEST_CASE("conv: only what a wanted gradient reads is saved") {
  const i64 before = memory::stats(Device::cpu()).live;
  const Tensor w = randn({8, 4, 3, 3});
  Tensor y;
  {
    const Tensor x = randn({4, 4, 32, 32}).set_requires_grad();
    y = conv2d(x * 2.0, w);  // w wants none: the product is not kept
  }
  const i64 held = memory::stats(Device::cpu()).live - before;
  CHECK(held < y.numel() * 4 + w.numel() * 4 + 4 * 4 * 32 * 32 * 4 + 4096);
}

TEST_CASE("conv: messages name the argument") {
  const Tensor x = ones({1, 4, 5, 5});
  CHECK(
      mentions(message_of([&] {
                 (void)conv2d(x, ones({6, 4, 3, 3}), {.padding = 1, .dilation = 4});
               }),
               "[conv2d] the kernel spans 9 elements of spatial axis 0, x has 5, 7 with padding"));
  CHECK(mentions(message_of([&] {
                   (void)conv2d(x, ones({6, 4, 3, 3}), {.stride = i64(1) << 40});
                 }),
                 "stride must be at least 1 and less than 2^31"));
}

// The roofs of `wt bench kernels` and of the profiler rest on these.
TEST_CASE("conv: what a kernel moves and computes is priced by hand") {
  const ConvShape s{.batch = 2,
                    .in_channels = 3,
                    .out_channels = 4,
                    .in = {1, 5, 5},
                    .out = {1, 3, 3},
                    .kernel = {1, 3, 3},
                    .stride = {1, 1, 1},
                    .padding = {0, 0, 0},
                    .dilation = {1, 1, 1}};
  const i64 x = 2 * 3 * 25, y = 2 * 4 * 9, w = 4 * 3 * 9;
  float bias[4] = {};
  CHECK(s.flops() == 2.0 * double(y * 3 * 9));
  ConvForwardArgs forward;
  ConvBackwardInputArgs input;
  ConvBackwardWeightArgs weight;
  forward.shape = input.shape = weight.shape = s;
  CHECK(forward.bytes() == 4 * (x + y + w));
  CHECK(input.bytes() == 4 * (x + y + w));
  CHECK(weight.bytes() == 4 * (x + y + w));
  forward.bias = input.bias = weight.y_sum = bias;
  weight.accumulate = true;
  CHECK(forward.bytes() == 4 * (x + y + w + 4));
  CHECK(input.bytes() == 4 * (x + y + w + 3));
  CHECK(weight.bytes() == 4 * (x + y + 2 * w + 4));
}
