// How the images of a batch are mixed in pairs: mixup and cutmix, drawn from (seed, epoch, batch,
// and where asked for the place in the batch) alone, with the same bits on every device. No STL:
// kernels include this.
#pragma once
#include "warptape/core/permutation.h"
#include "warptape/kernels/image/image_draws.h"

namespace wt {

struct MixRule {
  // Of Beta(alpha, alpha), from which an image's share of its mixture is drawn.
  double mixup_alpha = 1, cutmix_alpha = 1;
  float p = 1;              // probability that a batch (or sample) is mixed at all
  float cut_share = 0;      // of what is mixed, the part that is cut; the rest is mixed up
  bool per_sample = false;  // a share for each sample instead of one for the batch
};

// out = share * image + (1 - share) * partner's image, or the partner's within a box.
struct Mixture {
  i64 partner;
  float share;  // of the image's own label; of a cut one by the area that is left
  i32 top, bottom, left, right;
  bool cut;
};

namespace detail {

inline constexpr double kMixAlphaMost = 1000;

// e^x to float precision, for any x but NaN.
WT_HD inline float exp_in_range(double x) {
  return exp_of_ratio(x < -87 ? -87.0f : x > 87 ? 87.0f : float(x));
}

// A number of Beta(alpha, alpha). For alpha > 1/2 a projection of a direction (Ulrich's method),
// else by rejection (Jöhnk), which takes at most 1.28 tries on average: Devroye, "Non-Uniform
// Random Variate Generation", 1986, IX.3.
WT_HD inline float draw_beta(double alpha, PhiloxKey key, u64 who) {
  for (u64 attempt = 1; attempt <= 64; ++attempt) {
    const PhiloxBlock b = philox(key, who, attempt);
    const double u = uniform53(b.v[0], b.v[1]), v = uniform53(b.v[2], b.v[3]),
                 log_u = normal_math::log(1 - u);
    if (alpha > 0.5) {
      const double power = double(exp_in_range(log_u * 2 / (2 * alpha - 1)));
      return float(float_math::fused(0.5 * normal_math::square_root(1 - power),
                                     normal_math::on_circle(v).cosine, 0.5));
    }
    // In logarithms: the powers of 1 / alpha leave the range of numbers.
    const double x = log_u / alpha, y = normal_math::log(1 - v) / alpha;
    if (exp_in_range(x) + exp_in_range(y) <= 1) return 1 / (1 + exp_in_range(y - x));
  }
  return 0.5f;  // once in 10^42 batches
}

}  // namespace detail

// Of place `sample` of the `batch`-th batch of an epoch: n images of height x width pixels.
WT_HD inline Mixture draw_mixture(const MixRule& rule, u64 seed, i64 epoch, i64 batch, i64 sample,
                                  i64 n, i32 height, i32 width) {
  const PhiloxBlock own =
      philox(philox_key(seed, RandomStream::augment, 4), u64(batch), u64(epoch));
  const PhiloxKey key{own.v[0], own.v[1]};
  const u64 who = rule.per_sample ? u64(sample) + 1 : 0;
  const PhiloxBlock b = philox(key, who, 0);
  Mixture m{sample, 1, 0, 0, 0, 0, false};
  if (uniform24(b.v[0]) >= rule.p) return m;
  m.partner = i64(permute(PermutationKey{own.v[2], own.v[3]}, u64(sample), u64(n)));
  m.cut = uniform24(b.v[1]) < rule.cut_share;
  m.share = detail::draw_beta(m.cut ? rule.cutmix_alpha : rule.mixup_alpha, key, who);
  if (!m.cut) return m;
  const double half = 0.5 * normal_math::square_root(1.0 - double(m.share));
  const i32 down = i32(half * height), along = i32(half * width),
            y = detail::draw_below(b.v[2], height), x = detail::draw_below(b.v[3], width);
  m.top = y < down ? 0 : y - down, m.bottom = y > height - down ? height : y + down;
  m.left = x < along ? 0 : x - along, m.right = x > width - along ? width : x + along;
  const i64 all = i64(height) * width, box = i64(m.bottom - m.top) * (m.right - m.left);
  m.share = all ? float(double(all - box) / double(all)) : 1;
  return m;
}

// A class's part of a smoothed label (Szegedy et al., arXiv:1512.00567).
WT_HD inline float smooth_label(bool is_class, float off, float smoothing) {
  return is_class ? 1.0f - smoothing + off : off;
}

// Null, or what is wrong with it.
constexpr const char* bad_mix_rule(const MixRule& r) {
  if (!(r.mixup_alpha > 0 && r.mixup_alpha <= detail::kMixAlphaMost && r.cutmix_alpha > 0 &&
        r.cutmix_alpha <= detail::kMixAlphaMost))
    return "alpha must be above 0, and at most 1000";
  if (!(r.p >= 0 && r.p <= 1)) return "the probability of mixing must be in [0, 1]";
  if (!(r.cut_share >= 0 && r.cut_share <= 1)) return "the part that is cut must be in [0, 1]";
  return nullptr;
}

}  // namespace wt
