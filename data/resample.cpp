#include "warptape/data/resample.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace wt::data::detail {
namespace {

// What a pixel of the result takes: `weights` of the pixels from `first` on.
struct Taps {
  i64 first = 0;
  std::vector<float> weights;
};

std::vector<Taps> taps_of(i64 size, double begin, double length, i64 to) {
  const double scale = length / double(to), reach = std::max(scale, 1.0);
  std::vector<Taps> all(static_cast<size_t>(to));
  for (i64 i = 0; i < to; ++i) {
    const double centre = begin + (double(i) + 0.5) * scale;
    const i64 first = std::max<i64>(i64(std::floor(centre - reach + 0.5)), 0),
              end = std::min(i64(std::floor(centre + reach + 0.5)), size);
    Taps& t = all[size_t(i)];
    t.first = std::min(first, size - 1);
    double sum = 0;
    std::vector<double> w;
    for (i64 k = t.first; k < std::max(end, t.first + 1); ++k) {
      w.push_back(std::max(1 - std::abs(double(k) + 0.5 - centre) / reach, 0.0));
      sum += w.back();
    }
    if (!(sum > 0)) w.assign(1, sum = 1);
    for (const double x : w) t.weights.push_back(float(x / sum));
  }
  return all;
}

}  // namespace

ImageBox middle_box(i64 image_height, i64 image_width, i64 height, i64 width, bool keep_aspect) {
  const double h = double(image_height), w = double(image_width);
  ImageBox box{0, 0, h, w};
  if (!keep_aspect) return box;
  const double scale = std::min(h / double(height), w / double(width));
  box.height = std::min(double(height) * scale, h), box.width = std::min(double(width) * scale, w);
  box.top = (h - box.height) / 2, box.left = (w - box.width) / 2;
  return box;
}

void resample(const u8* from, i64 height, i64 width, i64 channels, const ImageBox& box, u8* to,
              i64 to_height, i64 to_width) {
  if (box.height == double(to_height) && box.width == double(to_width) &&
      box.top == std::floor(box.top) && box.left == std::floor(box.left)) {
    const u8* const corner = from + (i64(box.top) * width + i64(box.left)) * channels;
    for (i64 c = 0; c < channels; ++c)
      for (i64 y = 0; y < to_height; ++y)
        for (i64 x = 0; x < to_width; ++x) *to++ = corner[(y * width + x) * channels + c];
    return;
  }
  // Rows first: their sums are whole rows side by side, and what is left to sum along x is little.
  const std::vector<Taps> rows = taps_of(height, box.top, box.height, to_height),
                          columns = taps_of(width, box.left, box.width, to_width);
  const i64 begin = columns.front().first * channels,
            end = (columns.back().first + i64(columns.back().weights.size())) * channels;
  std::vector<float> sum(size_t(width * channels));
  float* const s = sum.data();
  const i64 plane = to_height * to_width;
  for (i64 y = 0; y < to_height; ++y) {
    const Taps& r = rows[size_t(y)];
    std::fill(s + begin, s + end, 0.0f);
    for (size_t k = 0; k < r.weights.size(); ++k) {
      const u8* const line = from + (r.first + i64(k)) * width * channels;
      const float weight = r.weights[k];
      for (i64 x = begin; x < end; ++x) s[x] += weight * float(line[x]);
    }
    for (i64 x = 0; x < to_width; ++x) {
      const Taps& t = columns[size_t(x)];
      for (i64 c = 0; c < channels; ++c) {
        const float* const v = s + t.first * channels + c;
        float all = 0;
        for (size_t k = 0; k < t.weights.size(); ++k) all += t.weights[k] * v[i64(k) * channels];
        to[c * plane + y * to_width + x] = u8(std::clamp(all + 0.5f, 0.0f, 255.0f));
      }
    }
  }
}

}  // namespace wt::data::detail
