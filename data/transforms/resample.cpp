#include "warptape/data/resample.h"

#include <algorithm>
#include <cmath>
#include <vector>

// The loops below are most of what an image costs beside decoding it: -O2 leaves them as they are.
#pragma GCC push_options
#pragma GCC optimize("O3")

namespace wt::data::detail {
namespace {

// Sums are whole numbers: the same on every machine, with whatever instructions. A weight has 14
// bits behind the point, what is kept between the two directions 7; both sums stay below 2^31.
constexpr int kWeightBits = 14, kKeptBits = 7;

// What a pixel of the result takes: `weights` of the pixels from `first` on, 2^14 in all.
struct Taps {
  i64 first = 0;
  std::vector<i32> weights;
};

Taps taps_at(i64 size, double centre, double reach) {
  const i64 first = std::clamp<i64>(i64(std::floor(centre - reach + 0.5)), 0, size - 1),
            end = std::clamp<i64>(i64(std::floor(centre + reach + 0.5)), first + 1, size);
  std::vector<double> share;
  double sum = 0;
  for (i64 k = first; k < end; ++k) {
    share.push_back(std::max(1 - std::abs(double(k) + 0.5 - centre) / reach, 0.0));
    sum += share.back();
  }
  if (!(sum > 0)) share.assign(1, sum = 1);
  Taps t{.first = first, .weights = {}};
  // Each is rounded so that all before it and it are right, which leaves none over.
  double up_to = 0;
  i32 given = 0;
  for (const double x : share) {
    up_to += x / sum;
    t.weights.push_back(i32(std::lround(up_to * (1 << kWeightBits))) - given);
    given += t.weights.back();
  }
  return t;
}

std::vector<Taps> taps_of(i64 size, double begin, double length, i64 to) {
  const double scale = length / double(to), reach = std::max(scale, 1.0);
  std::vector<Taps> all;
  for (i64 i = 0; i < to; ++i)
    all.push_back(taps_at(size, begin + (double(i) + 0.5) * scale, reach));
  return all;
}

// sum[i] += weight * line[i].
[[gnu::always_inline]] inline void add_line_of(i32* __restrict sum, const u8* __restrict line,
                                               i32 weight, i64 n) {
  for (i64 i = 0; i < n; ++i) sum[i] += weight * i32(line[i]);
}
void add_line_plain(i32* sum, const u8* line, i32 weight, i64 n) {
  add_line_of(sum, line, weight, n);
}
#ifdef __x86_64__
[[gnu::target("avx2")]] void add_line_avx2(i32* sum, const u8* line, i32 weight, i64 n) {
  add_line_of(sum, line, weight, n);
}
void add_line(i32* sum, const u8* line, i32 weight, i64 n) {
  static const bool avx2 = __builtin_cpu_supports("avx2");
  avx2 ? add_line_avx2(sum, line, weight, n) : add_line_plain(sum, line, weight, n);
}
#else
void add_line(i32* sum, const u8* line, i32 weight, i64 n) { add_line_plain(sum, line, weight, n); }
#endif

// One row of the result, of kept sums of whole rows.
template <i64 kChannels>
void sum_columns(const i32* kept, const std::vector<Taps>& columns, u8* to, i64 plane) {
  constexpr int kShift = kWeightBits + kKeptBits;
  for (const Taps& t : columns) {
    i32 sum[kChannels];
    std::fill_n(sum, kChannels, 1 << (kShift - 1));
    const i32* v = kept + t.first * kChannels;
    for (const i32 weight : t.weights) {
#pragma GCC unroll 4
      for (i64 c = 0; c < kChannels; ++c) sum[c] += weight * v[c];
      v += kChannels;
    }
#pragma GCC unroll 4
    for (i64 c = 0; c < kChannels; ++c) to[c * plane] = u8(sum[c] >> kShift);
    ++to;
  }
}

void sum_columns(i64 channels, const i32* kept, const std::vector<Taps>& columns, u8* to,
                 i64 plane) {
  switch (channels) {
    case 1:
      return sum_columns<1>(kept, columns, to, plane);
    case 2:
      return sum_columns<2>(kept, columns, to, plane);
    case 3:
      return sum_columns<3>(kept, columns, to, plane);
    default:
      return sum_columns<4>(kept, columns, to, plane);
  }
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
  std::vector<i32> sum(size_t(width * channels));
  for (i64 y = 0; y < to_height; ++y) {
    const Taps& r = rows[size_t(y)];
    std::fill(sum.begin() + begin, sum.begin() + end, 1 << (kWeightBits - kKeptBits - 1));
    for (size_t k = 0; k < r.weights.size(); ++k)
      add_line(sum.data() + begin, from + (r.first + i64(k)) * width * channels + begin,
               r.weights[k], end - begin);
    for (i64 i = begin; i < end; ++i) sum[size_t(i)] >>= kWeightBits - kKeptBits;
    sum_columns(channels, sum.data(), columns, to + y * to_width, to_height * to_width);
  }
}

}  // namespace wt::data::detail

#pragma GCC pop_options
