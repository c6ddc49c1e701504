#include "warptape/data/synthetic.h"

#include <cmath>
#include <numbers>
#include <set>

#include "warptape/core/factories.h"
#include "warptape/core/philox.h"

namespace wt::data {
namespace {

constexpr double kPi = std::numbers::pi;

// What the draws of one thing are told apart by: a fork of the key.
enum class Draws : u64 { patterns = 1, images, followers, tokens, centres, points };

// Numbers 0, 1, 2, ... of one sample.
class SampleDraws {
 public:
  SampleDraws(u64 seed, Draws what, i64 sample)
      : key_(philox_key(seed, RandomStream::augment, u64(what))), sample_(u64(sample)) {}
  u32 bits() {
    if (at_ % 4 == 0) block_ = philox(key_, at_ / 4, sample_);
    return block_.v[at_++ % 4];
  }
  double uniform() { return double(bits()) * 0x1p-32; }
  // 0, 1, ..., n - 1
  i64 below(i64 n) { return i64(u64(bits()) * u64(n) >> 32); }
  // The sum of four uniforms, scaled to deviation 1: nearly normal, and exact arithmetic, so the
  // bits are the same everywhere.
  float noise() {
    const u32 a = bits(), b = bits();
    const i64 sum = i64(a >> 16) + i64(a & 0xffff) + i64(b >> 16) + i64(b & 0xffff);
    return float(sum - 2 * 65535) * float(1.7320508 / 65536);
  }

 private:
  PhiloxKey key_;
  u64 sample_, at_ = 0;
  PhiloxBlock block_{};
};

void check(const char* name, bool fine, const char* what) {
  if (!fine) throw UsageError(str("[", name, "] ", what));
}
void check_range(const char* name, i64 samples, i64 first, double noise) {
  check(name, samples >= 0 && first >= 0 && first <= INT64_MAX - samples,
        "samples and first must not be negative");
  check(name, noise >= 0 && std::isfinite(noise), "the noise must be a number of 0 or more");
}

Batch make_batch(const Shape& x, DType dtype, const Shape& y) {
  return {empty(x, {.dtype = dtype, .device = Device::cpu()}),
          empty(y, {.dtype = DType::i64, .device = Device::cpu()})};
}

}  // namespace

// --- images ---

SyntheticImages::SyntheticImages(const SyntheticImagesOptions& o) : o_(o) {
  constexpr const char* kName = "SyntheticImages";
  check_range(kName, o.samples, o.first, o.noise);
  check(kName, o.classes > 0 && o.channels > 0 && o.height > 0 && o.width > 0,
        "classes, channels, height and width must be at least 1");
  const i64 pixels = numel_of({o.classes, o.channels, o.height, o.width});
  check(kName, pixels <= i64{1} << 32, "the classes' patterns need more than 2^32 numbers");
  patterns_.resize(size_t(pixels));
  // Waves of few periods, so that neighbours resemble each other as in a picture.
  for (i64 plane = 0; plane < o.classes * o.channels; ++plane) {
    SampleDraws draws(o.seed, Draws::patterns, plane);
    float* to = patterns_.data() + plane * o.height * o.width;
    for (int wave = 0; wave < 4; ++wave) {
      const double fy = double(draws.below(7) - 3) * 2 * kPi / double(o.height);
      const double fx = double(draws.below(4)) * 2 * kPi / double(o.width);
      const double phase = draws.uniform() * 2 * kPi;
      for (i64 r = 0; r < o.height; ++r)
        for (i64 c = 0; c < o.width; ++c)
          to[r * o.width + c] +=
              float(std::sqrt(0.5) * std::cos(fy * double(r) + fx * double(c) + phase));
    }
  }
}

Batch SyntheticImages::batch(std::span<const i64> indices) const {
  const i64 n = i64(indices.size()), h = o_.height, w = o_.width, pixels = o_.channels * h * w;
  Batch b = make_batch({n, o_.channels, h, w}, DType::f32, {n});
  float* x = b.x.mutable_data<float>();
  i64* y = b.y.mutable_data<i64>();
  for (i64 i = 0; i < n; ++i) {
    detail::check_sample("SyntheticImages", indices[size_t(i)], size());
    SampleDraws draws(o_.seed, Draws::images, o_.first + indices[size_t(i)]);
    y[i] = draws.below(o_.classes);
    const i64 dy = draws.below(h / 8 + 1), dx = draws.below(w / 8 + 1);
    const float* from = patterns_.data() + y[i] * pixels;
    for (i64 c = 0; c < o_.channels; ++c)
      for (i64 r = 0; r < h; ++r)
        for (i64 k = 0; k < w; ++k)
          *x++ = from[(c * h + (r + dy) % h) * w + (k + dx) % w] + float(o_.noise) * draws.noise();
  }
  return b;
}

// --- tokens ---

SyntheticTokens::SyntheticTokens(const SyntheticTokensOptions& o) : o_(o) {
  constexpr const char* kName = "SyntheticTokens";
  check_range(kName, o.samples, o.first, 0);
  check(kName, o.context > 0 && o.vocabulary > 0, "context and vocabulary must be at least 1");
  check(kName, o.choices > 0 && o.choices <= std::min<i64>(o.vocabulary, 30),
        "choices must be at least 1, and at most the vocabulary and 30");
  check(kName, o.vocabulary <= i64{1} << 24, "the vocabulary must have at most 2^24 tokens");
  for (i64 token = 0; token < o.vocabulary; ++token) {
    SampleDraws draws(o.seed, Draws::followers, token);
    std::set<i64> seen;
    while (i64(seen.size()) < o.choices)
      if (const i64 next = draws.below(o.vocabulary); seen.insert(next).second)
        followers_.push_back(next);
  }
}

// Choice k has probability 2^-(k+1), the last one what is left.
Batch SyntheticTokens::batch(std::span<const i64> indices) const {
  const i64 n = i64(indices.size()), length = o_.context;
  Batch b = make_batch({n, length}, DType::i64, {n, length});
  i64* x = b.x.mutable_data<i64>();
  i64* y = b.y.mutable_data<i64>();
  for (i64 i = 0; i < n; ++i) {
    detail::check_sample("SyntheticTokens", indices[size_t(i)], size());
    SampleDraws draws(o_.seed, Draws::tokens, o_.first + indices[size_t(i)]);
    i64 token = draws.below(o_.vocabulary);
    for (i64 t = 0; t < length; ++t) {
      x[i * length + t] = token;
      i64 choice = 0;
      for (u32 bits = draws.bits(); choice + 1 < o_.choices && (bits & 1); bits >>= 1) ++choice;
      token = followers_[size_t(token * o_.choices + choice)];
      y[i * length + t] = token;
    }
  }
  return b;
}

double SyntheticTokens::entropy() const {
  double h = 0, p = 1;
  for (i64 k = 0; k < o_.choices; ++k) {
    if (k + 1 < o_.choices) p /= 2;
    h -= p * std::log(p);
  }
  return h;
}

// --- points ---

SyntheticPoints::SyntheticPoints(const SyntheticPointsOptions& o) : o_(o) {
  constexpr const char* kName = "SyntheticPoints";
  check_range(kName, o.samples, o.first, o.noise);
  check(kName, o.classes > 0 && o.dimensions > 0, "classes and dimensions must be at least 1");
  if (o.shape == PointShape::moons || o.shape == PointShape::circles)
    check(kName, o.classes == 2, "moons and circles have 2 classes");
  if (o.shape != PointShape::blobs) {
    check(kName, o.dimensions == 2, "only blobs have other dimensions than 2");
    return;
  }
  centres_.resize(size_t(numel_of({o.classes, o.dimensions})));
  for (i64 k = 0; k < o.classes; ++k) {
    SampleDraws draws(o.seed, Draws::centres, k);
    for (i64 d = 0; d < o.dimensions; ++d)
      centres_[size_t(k * o.dimensions + d)] = float(4 * draws.uniform() - 2);
  }
}

Batch SyntheticPoints::batch(std::span<const i64> indices) const {
  const i64 n = i64(indices.size()), dims = o_.dimensions;
  Batch b = make_batch({n, dims}, DType::f32, {n});
  float* x = b.x.mutable_data<float>();
  i64* y = b.y.mutable_data<i64>();
  for (i64 i = 0; i < n; ++i, x += dims) {
    detail::check_sample("SyntheticPoints", indices[size_t(i)], size());
    SampleDraws draws(o_.seed, Draws::points, o_.first + indices[size_t(i)]);
    const i64 k = y[i] = draws.below(o_.classes);
    const double t = draws.uniform();
    double px = 0, py = 0;
    if (o_.shape == PointShape::moons) {
      px = k ? 1 - std::cos(kPi * t) : std::cos(kPi * t);
      py = k ? 0.5 - std::sin(kPi * t) : std::sin(kPi * t);
    } else if (o_.shape == PointShape::circles) {
      px = (k ? 0.5 : 1.0) * std::cos(2 * kPi * t);
      py = (k ? 0.5 : 1.0) * std::sin(2 * kPi * t);
    } else if (o_.shape == PointShape::spirals) {
      const double angle = 3.5 * kPi * t + 2 * kPi * double(k) / double(o_.classes);
      px = (0.1 + t) * std::cos(angle);
      py = (0.1 + t) * std::sin(angle);
    }
    for (i64 d = 0; d < dims; ++d) {
      const float centre = o_.shape == PointShape::blobs ? centres_[size_t(k * dims + d)]
                           : d == 0                      ? float(px)
                                                         : float(py);
      x[d] = centre + float(o_.noise) * draws.noise();
    }
  }
  return b;
}

}  // namespace wt::data
