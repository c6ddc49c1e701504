// Mixup and cutmix: every variant on every device against plain loops in double, and the draws.
#include "warptape/kernels/image_mix.h"

#include <algorithm>
#include <cmath>

#include "warptape/autograd/ops/shape.h"
#include "warptape/tests/kernels/optim/optim_buffers.h"

using namespace wt;
using namespace wt_test;

namespace {

View view_of(const Tensor& t) { return {t.impl()->data, &t.impl()->geometry}; }

struct Batch {
  Tensor images, labels, out, targets;
  Batch(Shape s, i64 classes, DType t, Device d, bool last) {
    const i64 n = s[0], numel = s[0] * s[1] * s[2] * s[3];
    const auto place = [&](const Tensor& x) {
      return last ? x.permute({0, 2, 3, 1}).contiguous().permute({0, 3, 1, 2}) : x;
    };
    images = place(tensor(numbers(numel, 5)).reshape(s).to(t).to(d));
    out = place(full(s, 77, {.dtype = t, .device = d}));
    std::vector<i64> l;
    for (i64 i = 0; i < n; ++i) l.push_back(i64(mix64(u64(i)) % u64(classes)));
    labels = tensor(l).to(d);
    targets = full({n, classes}, 77, {.dtype = f32, .device = d});
  }
  ImageMixArgs args(const MixRule& rule) const {
    ImageMixArgs a{};
    a.out = view_of(out), a.images = view_of(images);
    a.targets = view_of(targets), a.labels = view_of(labels);
    a.rule = rule, a.seed = 3, a.epoch = 2, a.batch = 9;
    return a;
  }
};

Values host(const Tensor& t) {
  return t.to(Device::cpu()).contiguous().to(f64).to_vector<double>();
}

// The rule in words: pixel by pixel, class by class.
void check_batch(const ImageMixArgs& a, const Batch& b) {
  const i64 n = b.images.size(0), c = b.images.size(1), h = b.images.size(2), w = b.images.size(3),
            classes = b.targets.size(1);
  const Values in = host(b.images), out = host(b.out), soft = host(b.targets);
  const std::vector<i64> labels = b.labels.to_vector<i64>();
  const double unit = b.images.dtype() == f32 ? 3e-7 : b.images.dtype() == f16 ? 1e-3 : 8e-3;
  double worst_target = 0;
  int wrong = 0;
  for (i64 i = 0; i < n; ++i) {
    const Mixture m = draw_mixture(a.rule, a.seed, a.epoch, a.batch, i, n, i32(h), i32(w));
    for (i64 k = 0; k < c * h * w; ++k) {
      const i64 y = k / w % h, x = k % w;
      const double own = in[size_t(i * c * h * w + k)],
                   other = in[size_t(m.partner * c * h * w + k)];
      const bool inside = y >= m.top && y < m.bottom && x >= m.left && x < m.right;
      const double want = m.cut ? (inside ? other : own) : m.share * own + (1 - m.share) * other;
      const double off = std::abs(out[size_t(i * c * h * w + k)] - want);
      wrong += !(off <= (m.cut ? 0 : unit));  // what is cut is copied
    }
    for (i64 k = 0; k < classes; ++k) {
      const auto label = [&](i64 who) {
        return double(a.smoothing) / double(classes) +
               (labels[size_t(who)] == k ? 1 - double(a.smoothing) : 0);
      };
      const double want = m.share * label(i) + (1 - double(m.share)) * label(m.partner);
      worst_target = std::max(worst_target, std::abs(soft[size_t(i * classes + k)] - want));
    }
  }
  CHECK(wrong == 0);
  CHECK(worst_target < 3e-7);
}

}  // namespace

TEST_CASE("image_mix: every variant against the rule, in both layouts and all dtypes", "[data]") {
  const MixRule rules[] = {{.mixup_alpha = 0.2},
                           {.mixup_alpha = 2, .per_sample = true},
                           {.cutmix_alpha = 1, .cut_share = 1},
                           {.p = 0.7f, .cut_share = 0.5f, .per_sample = true},
                           {.p = 0}};
  const Shape shapes[] = {{5, 3, 8, 8}, {4, 1, 28, 28}, {3, 3, 5, 7}, {1, 4, 3, 2},
                          {2, 2, 1, 1}, {2, 3, 40, 33}, {6, 1, 0, 4}, {0, 3, 4, 4}};
  for (const MixRule& rule : rules)
    for (const Shape& s : shapes)
      for (const DType t : {f32, f16, bf16})
        for (const bool last : {false, true})
          for_each_variant<ImageMixArgs>([&](Device d, auto launch) {
            CAPTURE(s, dtype_name(t), last, rule.cut_share, rule.per_sample);
            const Batch b(s, 7, t, d, last);
            ImageMixArgs a = b.args(rule);
            a.smoothing = last ? 0.1f : 0;
            if (launch(a)) check_batch(a, b);
          });
}

TEST_CASE("image_mix: the same bits on every device and by every variant", "[data]") {
  for (const float cut : {0.0f, 0.5f, 1.0f}) {
    Values images, targets;
    for_each_variant<ImageMixArgs>([&](Device d, auto launch) {
      const Batch b({16, 3, 12, 12}, 130, f32, d, false);
      ImageMixArgs a = b.args({.mixup_alpha = 0.4, .cut_share = cut, .per_sample = true});
      a.smoothing = 0.1f;
      REQUIRE(launch(a));
      if (images.empty()) images = host(b.out), targets = host(b.targets);
      CHECK(host(b.out) == images);
      CHECK(host(b.targets) == targets);
    });
  }
}

TEST_CASE("image_mix: a cursor on the device, labels with gaps, no labels", "[data]") {
  for_each_variant<ImageMixArgs>([&](Device d, auto launch) {
    Batch b({6, 1, 4, 4}, 5, f32, d, false);
    ImageMixArgs a = b.args({.mixup_alpha = 1});
    REQUIRE(launch(a));
    const Values want = host(b.out), soft = host(b.targets);
    const Tensor cursor = tensor(std::vector<i64>{a.epoch, a.batch}).to(d);
    a.cursor = static_cast<const i64*>(cursor.impl()->data), a.epoch = 77, a.batch = 0;
    REQUIRE(launch(a));
    CHECK(host(b.out) == want);
    const Tensor wide = stack({b.labels, b.labels}, 1), gaps = wide.select(1, 0);
    REQUIRE(gaps.strides()[0] == 2);
    a.labels = view_of(gaps);
    b.targets.fill_(3);
    REQUIRE(launch(a));
    CHECK(host(b.targets) == soft);
    a.targets = a.labels = View{};
    b.out.fill_(3);
    REQUIRE(launch(a));
    CHECK(host(b.out) == want);
    a.cursor = nullptr;
    REQUIRE(launch(a));
    CHECK(host(b.out) != want);
  });
}

TEST_CASE("image_mix: labels outside of the classes are reported, others refused", "[data]") {
  for_each_variant<ImageMixArgs>([&](Device d, auto launch) {
    const Batch b({3, 1, 2, 2}, 4, f32, d, false);
    ImageMixArgs a = b.args({.mixup_alpha = 1, .p = 0});
    const Tensor labels = tensor(std::vector<i64>{1, 4, 2}).to(d);
    a.labels = view_of(labels);
    const OnDevice<MailboxRecord> box(MailboxRecord{}, d);
    a.mailbox = box.get();
    REQUIRE(launch(a));
    const MailboxRecord r = box.read();
    CHECK(r.raised == i32(MailboxCode::label_out_of_range));
    CHECK((r.position == 1 && r.value == 4 && r.limit == 4));
    CHECK(host(b.targets)[4] == 1);  // class 0 in its place
    const Tensor f64_out = empty({3, 1, 2, 2}, {.dtype = f64, .device = d});
    a.out = a.images = view_of(f64_out);
    CHECK_FALSE(launch(a));
    const Tensor gaps = empty({3, 1, 2, 4}, {.dtype = f32, .device = d}).slice(3, {0, 4, 2});
    a.out = a.images = view_of(gaps);
    CHECK_FALSE(launch(a));
    a.out = view_of(b.out);
    CHECK_FALSE(launch(a));
  });
  CHECK(bad_mix_rule({}) == nullptr);
  CHECK(bad_mix_rule({.mixup_alpha = 0}) != nullptr);
  CHECK(bad_mix_rule({.cutmix_alpha = 1e4}) != nullptr);
  CHECK(bad_mix_rule({.p = 1.5f}) != nullptr);
  CHECK(bad_mix_rule({.cut_share = -1}) != nullptr);
}

TEST_CASE("image_mix: shares are of Beta(alpha, alpha)", "[data]") {
  for (const double alpha : {0.05, 0.2, 0.5, 0.6, 1.0, 3.0, 40.0, 1000.0}) {
    const int draws = 20'000;
    double mean = 0, second = 0, fourth = 0;
    for (int i = 0; i < draws; ++i) {
      const double x =
          double(draw_mixture({.mixup_alpha = alpha}, 1, i % 5, i, 0, 8, 4, 4).share) - 0.5;
      REQUIRE((x >= -0.5 && x <= 0.5));
      mean += x / draws, second += x * x / draws, fourth += x * x * x * x / draws;
    }
    // Central moments of the distribution: variance v = 1 / (4 (2a + 1)), fourth 3 v^2 (2a + 1) /
    // (2a + 3). Five deviations of what draws' means are off by.
    const double v = 1 / (4 * (2 * alpha + 1)), m4 = 3 * v * v * (2 * alpha + 1) / (2 * alpha + 3);
    CAPTURE(alpha, mean, second, v, fourth, m4);
    CHECK(std::abs(mean) < 5 * std::sqrt(v / draws));
    CHECK(std::abs(second - v) < 5 * std::sqrt((m4 - v * v) / draws) + 1e-9);
    CHECK(std::abs(fourth / m4 - 1) < 0.12);
  }
}

TEST_CASE("image_mix: partners are a permutation, shares of a batch or of samples", "[data]") {
  const i64 n = 50;
  for (const bool per_sample : {false, true}) {
    std::vector<int> seen(size_t(n), 0);
    std::vector<float> shares;
    for (i64 i = 0; i < n; ++i) {
      const Mixture m = draw_mixture({.per_sample = per_sample}, 4, 1, 2, i, n, 8, 8);
      REQUIRE((m.partner >= 0 && m.partner < n));
      ++seen[size_t(m.partner)];
      shares.push_back(m.share);
    }
    CHECK(std::count(seen.begin(), seen.end(), 1) == n);
    std::sort(shares.begin(), shares.end());
    CHECK(std::unique(shares.begin(), shares.end()) - shares.begin() > (per_sample ? 45 : 0));
    CHECK((shares.front() == shares.back()) == !per_sample);
  }
  // Other batches, epochs and seeds: other partners.
  const auto partner = [&](u64 seed, i64 epoch, i64 batch) {
    std::vector<i64> all;
    for (i64 i = 0; i < n; ++i)
      all.push_back(draw_mixture({}, seed, epoch, batch, i, n, 8, 8).partner);
    return all;
  };
  CHECK(partner(1, 0, 0) == partner(1, 0, 0));
  CHECK(partner(1, 0, 0) != partner(2, 0, 0));
  CHECK(partner(1, 0, 0) != partner(1, 1, 0));
  CHECK(partner(1, 0, 0) != partner(1, 0, 1));
}

TEST_CASE("image_mix: boxes have the area that their share says", "[data]") {
  const MixRule rule{.cutmix_alpha = 1, .p = 0.9f, .cut_share = 0.75f};
  const int draws = 20'000;
  int cut = 0, kept = 0;
  double centre = 0;
  for (int i = 0; i < draws; ++i) {
    const Mixture m = draw_mixture(rule, 6, 0, i, 1, 4, 40, 30);
    kept += m.partner == 1 && m.share == 1 && !m.cut;
    if (!m.cut) continue;
    ++cut;
    REQUIRE((m.top >= 0 && m.top <= m.bottom && m.bottom <= 40 && m.left >= 0));
    REQUIRE((m.left <= m.right && m.right <= 30));
    const double area = double(m.bottom - m.top) * (m.right - m.left) / 1200;
    REQUIRE(std::abs(1 - double(m.share) - area) < 1e-6);
    centre += (m.top + m.bottom) / 2.0 / 40;
  }
  CHECK(std::abs(cut - draws * 0.9 * 0.75) < 5 * std::sqrt(draws * 0.22));
  CHECK(std::abs(kept - draws * 0.1) < 5 * std::sqrt(draws * 0.09) + draws * 0.001);
  CHECK(std::abs(centre / cut - 0.5) < 0.02);
}
