// Normalisation by channels on the cpu, eight floats at a time, with threads. Either each channel
// of a sample lies in one piece (a plane; NCHW), or neighbouring elements are the channels (a row
// of them for each place; NHWC). Every sum has one order, whatever the number of threads.
#include "warptape/kernels/channel_norm_cpu.h"

#include <algorithm>
#include <cmath>

#include "warptape/core/device.h"
#include "warptape/kernels/cpu_moments.h"
#include "warptape/kernels/cpu_pool.h"

namespace wt {
#if WT_X86
namespace {

// --- layouts -------------------------------------------------------------------------------------

enum class Layout : u8 { planes, rows, other };

Layout layout_of(std::initializer_list<View> operands) {
  bool planes = true, rows = true;
  for (const View& v : operands) {
    planes &= v.size(2) > 1 && v.stride(2) == 1;
    rows &= v.stride(1) == 1 || v.size(1) == 1;
  }
  return planes ? Layout::planes : rows ? Layout::rows : Layout::other;
}
const char* why_not(const View& x, Layout layout) {
  if (!cpu_has_avx2()) return "this processor has no AVX2 with FMA";
  if (x.dtype() != DType::f32) return "f32 only";
  if (x.numel() == 0) return "there is no element";
  return layout == Layout::other ? "channels or what is in them must be neighbours" : nullptr;
}

int threads_for(const ChannelShape& s) {
  constexpr i64 kWorkAThread = 1 << 16;
  const i64 worth = s.samples * s.channels * s.size / kWorkAThread + 1;
  return int(std::min(i64(num_threads()), worth));
}
// f(begin, end) for parts of [0, n), whose results must not depend on where the parts begin.
template <class F>
void in_parts(const ChannelShape& s, i64 n, const F& f) {
  const int threads = threads_for(s), parts = int(std::min(n, i64(threads) * 4));
  parallel(threads, parts, [&](int part, int) { f(n * part / parts, n * (part + 1) / parts); });
}

// Past the caches, where what is written is not read first (put8).
bool streams(const View& out, i64 run) {
  return run >= 8 && run % 8 == 0 && out.bytes() > (i64(64) << 20) &&
         reinterpret_cast<uintptr_t>(out.data) % 32 == 0 && out.stride(0) % 8 == 0 &&
         (out.stride(1) == 1 || out.stride(1) % 8 == 0) &&
         (out.stride(2) == 1 || out.stride(2) % 8 == 0);
}

// Of rows of channels: pieces of rows, whose sums are kept apart and then added in order. Of a
// batch a piece is some rows whatever their samples; else it is a sample.
constexpr i64 kPieceRows = 512, kMostPieces = 64;
constexpr i64 kColumns = 512;  // channels at a time: their sums stay in the first level cache
struct Pieces {
  const ChannelShape& s;
  i64 rows, count;  // of a piece; pieces
  explicit Pieces(const ChannelShape& shape) : s(shape) {
    const i64 all = s.samples * s.size;
    rows = s.batch() ? std::max(kPieceRows, (all + kMostPieces - 1) / kMostPieces) : s.size;
    count = s.batch() ? (all + rows - 1) / rows : s.samples;
  }
  i64 begin(i64 piece) const { return piece * rows; }
  i64 end(i64 piece) const { return std::min((piece + 1) * rows, s.samples * s.size); }
  i64 sample(i64 piece) const { return s.batch() ? 0 : piece; }
  // A row's channels from `column` on.
  template <class T>
  T* row(const Cells<T>& x, i64 r, i64 column) const {
    if (x.sample == s.size * x.step) return x.data + r * x.step + column;
    return x.data + r / s.size * x.sample + r % s.size * x.step + column;
  }
};

// Elements [i, i + 8) of n; 0 past the end.
WT_AVX2_HOT f32x8 eight(const float* p, i64 i, i64 n) {
  return i + 8 <= n ? load8(p + i) : load_part8(p + i, n - i, 0);
}
template <bool Stream>
WT_AVX2_HOT void put_eight(float* p, i64 i, i64 n, f32x8 v) {
  if (i + 8 <= n)
    put8<Stream>(p + i, v);
  else
    store_part8(p + i, v, n - i);
}

// --- mean and variance ---------------------------------------------------------------------------

// Parts, joined as in Chan, Golub, LeVeque 1983.
struct Total {
  double count = 0, mean = 0, squares = 0;
  void join(double n, double part_mean, double part_squares) {
    const double distance = part_mean - mean, share = n / (count + n);
    mean += distance * share;
    squares += part_squares + distance * distance * share * count;
    count += n;
  }
};
void put_statistic(const ChannelStatsArgs& a, const ChannelShape& s, i64 k, const Total& t) {
  float* stats = a.stats.as<float>();
  const double variance = t.squares / t.count;
  stats[k] = float(t.mean);
  stats[s.statistics() + k] = float(t.mean - double(stats[k]));
  stats[2 * s.statistics() + k] = float(1 / std::sqrt(variance + a.eps));
  if (a.variance) a.variance.as<float>()[k] = float(variance);
}

void add_plane(Total& total, const float* x, i64 n, float first) {
  for (i64 i = 0; i < n; i += kMomentsPart) {
    const i64 count = std::min(n - i, kMomentsPart);
    const Moments m = moments_of_part(x + i, count, first);
    total.join(double(count), double(first) + double(m.mean), double(m.squares));
  }
}
void stats_of_planes(const ChannelStatsArgs& a, const ChannelShape& s) {
  const Cells<const float> x(a.x);
  const bool one_piece = x.channel == s.size;  // the channels of a sample
  in_parts(s, s.statistics(), [&](i64 begin, i64 end) {
    for (i64 k = begin; k < end; ++k) {
      const i64 n0 = s.batch() ? 0 : k / s.groups, c0 = s.batch() ? k : k % s.groups * s.width();
      Total total;
      for (i64 n = n0; n < (s.batch() ? s.samples : n0 + 1); ++n)
        for (i64 c = c0; c < c0 + s.width(); c += one_piece ? s.width() : 1)
          add_plane(total, x.at(n, c), one_piece ? s.width() * s.size : s.size, *x.at(n0, c0));
      put_statistic(a, s, k, total);
    }
  });
}

// Sums over rows [begin, end) of what `term` makes of eight channels, four rows at a time.
template <class Row, class Term>
WT_AVX2_HOT void add_rows(float* sum, i64 n, i64 begin, i64 end, const Row& row, const Term& term) {
  i64 r = begin;
  for (; r + 4 <= end; r += 4) {
    const auto p0 = row(r), p1 = row(r + 1), p2 = row(r + 2), p3 = row(r + 3);
    for (i64 i = 0; i < n; i += 8)
      store8(sum + i, load8(sum + i) + ((term(p0, i) + term(p1, i)) + (term(p2, i) + term(p3, i))));
  }
  for (; r < end; ++r) {
    const auto p = row(r);
    for (i64 i = 0; i < n; i += 8) store8(sum + i, load8(sum + i) + term(p, i));
  }
}

// Of channels [column, column + n) in a piece: distances of the mean from `first`, and squares.
WT_TARGET_AVX2 void moments_of_rows(const Pieces& pieces, const Cells<const float>& x, i64 piece,
                                    i64 column, i64 n, const float* first, float* mean_out,
                                    float* squares_out) {
  alignas(32) float start[kColumns] = {}, mean[kColumns] = {}, squares[kColumns] = {};
  alignas(32) float part[kColumns], rest[kColumns], part_squares[kColumns];
  for (i64 i = 0; i < n; ++i) start[i] = first[i];
  const i64 begin = pieces.begin(piece), end = pieces.end(piece);
  const i64 block = std::clamp<i64>(4096 / n, 8, 128);  // rows that stay in the first level cache
  const auto row = [&](i64 r) WT_TARGET_AVX2 { return pieces.row(x, r, column); };
  for (i64 r = begin; r < end; r += block) {
    const i64 stop = std::min(r + block, end);
    const float count = float(stop - r), share = count / float(stop - begin);
    for (i64 i = 0; i < n; i += 8)
      store8(part + i, splat8(0)), store8(rest + i, splat8(0)), store8(part_squares + i, splat8(0));
    add_rows(part, n, r, stop, row, [&](const float* p, i64 i) WT_TARGET_AVX2 {
      return eight(p, i, n) - load8(start + i);
    });
    for (i64 i = 0; i < n; i += 8) store8(part + i, load8(part + i) / count);
    for (i64 k = r; k < stop; ++k) {
      const float* p = row(k);
      for (i64 i = 0; i < n; i += 8) {
        const f32x8 d = eight(p, i, n) - load8(start + i) - load8(part + i);
        store8(rest + i, load8(rest + i) + d);
        store8(part_squares + i, load8(part_squares + i) + d * d);
      }
    }
    for (i64 i = 0; i < n; i += 8) {
      const f32x8 left = load8(rest + i) / count, m = load8(part + i) + left;
      const f32x8 distance = m - load8(mean + i);
      const f32x8 s = load8(part_squares + i) - left * left * count;
      store8(mean + i, load8(mean + i) + distance * share);
      store8(squares + i,
             load8(squares + i) + s + distance * distance * (share * float(r - begin)));
    }
  }
  for (i64 i = 0; i < n; ++i) mean_out[i] = mean[i], squares_out[i] = squares[i];
}

void stats_of_rows(const ChannelStatsArgs& a, const ChannelShape& s, float* found) {
  const Cells<const float> x(a.x);
  const Pieces pieces(s);
  const auto mean_of = [&](i64 piece) { return found + 2 * piece * s.channels; };
  in_parts(s, pieces.count, [&](i64 begin, i64 end) {
    for (i64 piece = begin; piece < end; ++piece)
      for (i64 c = 0; c < s.channels; c += kColumns)
        moments_of_rows(pieces, x, piece, c, std::min(kColumns, s.channels - c),
                        x.at(pieces.sample(piece), c), mean_of(piece) + c,
                        mean_of(piece) + s.channels + c);
  });
  for (i64 k = 0; k < s.statistics(); ++k) {
    const i64 p0 = s.batch() ? 0 : k / s.groups, p1 = s.batch() ? pieces.count : p0 + 1;
    const i64 c0 = s.batch() ? k : k % s.groups * s.width();
    Total total;
    for (i64 piece = p0; piece < p1; ++piece)
      for (i64 c = c0; c < c0 + s.width(); ++c)
        total.join(double(pieces.end(piece) - pieces.begin(piece)),
                   double(*x.at(pieces.sample(piece), c)) + double(mean_of(piece)[c]),
                   double(mean_of(piece)[s.channels + c]));
    put_statistic(a, s, k, total);
  }
}

// --- forward -------------------------------------------------------------------------------------

// y = ((x - mean) - rest) * scale + shift
struct PlaneScale {
  float mean, rest, scale, shift;
};
PlaneScale scale_of(const ChannelNormForwardArgs& a, const ChannelShape& s, i64 n, i64 c) {
  const Centre<float> centre(s, a.stats.as<const float>(), s.statistic(n, c));
  const float *weight = a.weight.as<const float>(), *bias = a.bias.as<const float>();
  return {centre.mean, centre.rest, centre.rstd * (weight ? weight[c] : 1), bias ? bias[c] : 0};
}

template <bool Stream>
WT_TARGET_AVX2 void scale_plane(float* y, const float* x, i64 n, const PlaneScale& k) {
  for (i64 i = 0; i < n; i += 8)
    put_eight<Stream>(y, i, n, (eight(x, i, n) - k.mean - k.rest) * k.scale + k.shift);
}

// The scales of kColumns channels.
struct alignas(32) RowScale {
  float mean[kColumns], rest[kColumns], scale[kColumns], shift[kColumns];
};
template <bool Stream>
WT_TARGET_AVX2 void scale_row(float* y, const float* x, i64 n, const RowScale& k) {
  for (i64 i = 0; i < n; i += 8) {
    const f32x8 d = eight(x, i, n) - load8(k.mean + i) - load8(k.rest + i);
    put_eight<Stream>(y, i, n, d * load8(k.scale + i) + load8(k.shift + i));
  }
}

template <bool Stream>
void forward_planes(const ChannelNormForwardArgs& a, const ChannelShape& s) {
  const Cells<const float> x(a.x);
  const Cells<float> y(a.y);
  in_parts(s, s.samples * s.channels, [&](i64 begin, i64 end) {
    for (i64 k = begin; k < end; ++k) {
      const i64 n = k / s.channels, c = k % s.channels;
      scale_plane<Stream>(y.at(n, c), x.at(n, c), s.size, scale_of(a, s, n, c));
    }
    _mm_sfence();
  });
}
template <bool Stream>
void forward_rows(const ChannelNormForwardArgs& a, const ChannelShape& s) {
  const Cells<const float> x(a.x);
  const Cells<float> y(a.y);
  const Pieces pieces(s);
  in_parts(s, pieces.count, [&](i64 begin, i64 end) {
    RowScale scale{};
    for (i64 piece = begin; piece < end; ++piece)
      for (i64 c = 0; c < s.channels; c += kColumns) {
        const i64 n = std::min(kColumns, s.channels - c);
        for (i64 i = 0; i < n; ++i) {
          const PlaneScale k = scale_of(a, s, pieces.sample(piece), c + i);
          scale.mean[i] = k.mean, scale.rest[i] = k.rest;
          scale.scale[i] = k.scale, scale.shift[i] = k.shift;
        }
        for (i64 r = pieces.begin(piece); r < pieces.end(piece); ++r)
          scale_row<Stream>(pieces.row(y, r, c), pieces.row(x, r, c), n, scale);
      }
    _mm_sfence();
  });
}

// --- sums of gradients ---------------------------------------------------------------------------

struct GradientSums {
  double plain = 0, product = 0;  // of gy; of gy * (x - mean)
};
WT_TARGET_AVX2 GradientSums sums_of_part(const float* gy, const float* x, i64 n, float mean,
                                         float rest) {
  f32x8 s0 = splat8(0), s1 = s0, p0 = s0, p1 = s0;
  i64 i = 0;
  for (; i + 16 <= n; i += 16) {
    const f32x8 g = load8(gy + i), k = load8(gy + i + 8);
    s0 += g, s1 += k;
    p0 += g * (load8(x + i) - mean - rest), p1 += k * (load8(x + i + 8) - mean - rest);
  }
  for (; i < n; i += 8) {
    const f32x8 g = eight(gy, i, n);
    s0 += g, p0 += g * (eight(x, i, n) - mean - rest);
  }
  return {double(sum_of8(s0 + s1)), double(sum_of8(p0 + p1))};
}
void sums_of_planes(const ChannelNormSumsArgs& a, const ChannelShape& s) {
  const Cells<const float> x(a.x), gy(a.gy);
  const i64 all = s.batch() ? s.channels : s.samples * s.channels;
  in_parts(s, all, [&](i64 begin, i64 end) {
    for (i64 cell = begin; cell < end; ++cell) {
      const i64 c = cell % s.channels, n0 = cell / s.channels;
      const Centre<float> centre(s, a.stats.as<const float>(), s.statistic(n0, c));
      GradientSums sums;
      for (i64 n = n0; n < (s.batch() ? s.samples : n0 + 1); ++n)
        for (i64 i = 0; i < s.size; i += kMomentsPart) {
          const GradientSums part =
              sums_of_part(gy.at(n, c) + i, x.at(n, c) + i, std::min(s.size - i, kMomentsPart),
                           centre.mean, centre.rest);
          sums.plain += part.plain, sums.product += part.product;
        }
      a.sums.as<float>()[cell] = float(sums.plain);
      a.sums.as<float>()[all + cell] = float(sums.product * double(centre.rstd));
    }
  });
}

struct alignas(32) RowCentres {
  float mean[kColumns], rest[kColumns];
};
// Of channels [column, column + n) in a piece.
WT_TARGET_AVX2 void sums_of_piece(const Pieces& pieces, const Cells<const float>& gy,
                                  const Cells<const float>& x, i64 piece, i64 column, i64 n,
                                  const RowCentres& centres, float* plain_out, float* product_out) {
  alignas(32) float plain[kColumns] = {}, product[kColumns] = {};
  alignas(32) float block_plain[kColumns], block_product[kColumns];
  constexpr i64 kBlock = 64;  // few roundings follow each other
  const i64 begin = pieces.begin(piece), end = pieces.end(piece);
  for (i64 r = begin; r < end; r += kBlock) {
    for (i64 i = 0; i < n; i += 8)
      store8(block_plain + i, splat8(0)), store8(block_product + i, splat8(0));
    for (i64 k = r; k < std::min(r + kBlock, end); ++k) {
      const float *g = pieces.row(gy, k, column), *v = pieces.row(x, k, column);
      for (i64 i = 0; i < n; i += 8) {
        const f32x8 e = eight(g, i, n);
        const f32x8 d = eight(v, i, n) - load8(centres.mean + i) - load8(centres.rest + i);
        store8(block_plain + i, load8(block_plain + i) + e);
        store8(block_product + i, load8(block_product + i) + e * d);
      }
    }
    for (i64 i = 0; i < n; i += 8) {
      store8(plain + i, load8(plain + i) + load8(block_plain + i));
      store8(product + i, load8(product + i) + load8(block_product + i));
    }
  }
  for (i64 i = 0; i < n; ++i) plain_out[i] = plain[i], product_out[i] = product[i];
}

void sums_of_rows(const ChannelNormSumsArgs& a, const ChannelShape& s, float* found) {
  const Cells<const float> x(a.x), gy(a.gy);
  const Pieces pieces(s);
  const float* stats = a.stats.as<const float>();
  in_parts(s, pieces.count, [&](i64 begin, i64 end) {
    RowCentres centres{};
    for (i64 piece = begin; piece < end; ++piece)
      for (i64 c = 0; c < s.channels; c += kColumns) {
        const i64 n = std::min(kColumns, s.channels - c);
        for (i64 i = 0; i < n; ++i) {
          const Centre<float> centre(s, stats, s.statistic(pieces.sample(piece), c + i));
          centres.mean[i] = centre.mean, centres.rest[i] = centre.rest;
        }
        float* to = found + 2 * piece * s.channels + c;
        sums_of_piece(pieces, gy, x, piece, c, n, centres, to, to + s.channels);
      }
  });
  const i64 all = s.batch() ? s.channels : s.samples * s.channels;
  for (i64 cell = 0; cell < all; ++cell) {
    const i64 c = cell % s.channels, p0 = s.batch() ? 0 : cell / s.channels;
    double plain = 0, product = 0;
    for (i64 piece = p0; piece < (s.batch() ? pieces.count : p0 + 1); ++piece) {
      plain += double(found[2 * piece * s.channels + c]);
      product += double(found[(2 * piece + 1) * s.channels + c]);
    }
    const Centre<float> centre(s, stats, s.statistic(p0, c));
    a.sums.as<float>()[cell] = float(plain);
    a.sums.as<float>()[all + cell] = float(product * double(centre.rstd));
  }
}

// --- backward ------------------------------------------------------------------------------------

// gx = gy * scale - ((x - mean) - rest) * slope - shift
struct PlaneSlope {
  float mean, rest, scale, slope, shift;
};
using Means = MeanGradients<float, float>;
PlaneSlope slope_of(const ChannelNormBackwardArgs& a, const ChannelShape& s, Means& means, i64 n,
                    i64 c) {
  const Centre<float> centre(s, a.stats.as<const float>(), s.statistic(n, c));
  const float* weight = a.weight.as<const float>();
  means.go_to(n, c);
  return {centre.mean, centre.rest, centre.rstd * (weight ? weight[c] : 1),
          centre.rstd * centre.rstd * means.gh, centre.rstd * means.g};
}

template <bool Stream>
WT_TARGET_AVX2 void slope_plane(float* gx, const float* gy, const float* x, i64 n,
                                const PlaneSlope& k) {
  for (i64 i = 0; i < n; i += 8) {
    const f32x8 d = eight(x, i, n) - k.mean - k.rest;
    put_eight<Stream>(gx, i, n, eight(gy, i, n) * k.scale - d * k.slope - k.shift);
  }
}
struct alignas(32) RowSlope {
  float mean[kColumns], rest[kColumns], scale[kColumns], slope[kColumns], shift[kColumns];
};
template <bool Stream>
WT_TARGET_AVX2 void slope_row(float* gx, const float* gy, const float* x, i64 n,
                              const RowSlope& k) {
  for (i64 i = 0; i < n; i += 8) {
    const f32x8 d = eight(x, i, n) - load8(k.mean + i) - load8(k.rest + i);
    const f32x8 g = eight(gy, i, n) * load8(k.scale + i);
    put_eight<Stream>(gx, i, n, g - d * load8(k.slope + i) - load8(k.shift + i));
  }
}

template <bool Stream>
void backward_planes(const ChannelNormBackwardArgs& a, const ChannelShape& s) {
  const Cells<const float> x(a.x), gy(a.gy);
  const Cells<float> gx(a.gx);
  in_parts(s, s.samples * s.channels / s.width(), [&](i64 begin, i64 end) {
    Means means(s, a.sums.as<const float>(), a.weight.as<const float>());
    for (i64 k = begin * s.width(); k < end * s.width(); ++k) {
      const i64 n = k / s.channels, c = k % s.channels;
      slope_plane<Stream>(gx.at(n, c), gy.at(n, c), x.at(n, c), s.size,
                          slope_of(a, s, means, n, c));
    }
    _mm_sfence();
  });
}
template <bool Stream>
void backward_rows(const ChannelNormBackwardArgs& a, const ChannelShape& s) {
  const Cells<const float> x(a.x), gy(a.gy);
  const Cells<float> gx(a.gx);
  const Pieces pieces(s);
  in_parts(s, pieces.count, [&](i64 begin, i64 end) {
    Means means(s, a.sums.as<const float>(), a.weight.as<const float>());
    RowSlope slope{};
    for (i64 piece = begin; piece < end; ++piece)
      for (i64 c = 0; c < s.channels; c += kColumns) {
        const i64 n = std::min(kColumns, s.channels - c);
        for (i64 i = 0; i < n; ++i) {
          const PlaneSlope k = slope_of(a, s, means, pieces.sample(piece), c + i);
          slope.mean[i] = k.mean, slope.rest[i] = k.rest, slope.scale[i] = k.scale;
          slope.slope[i] = k.slope, slope.shift[i] = k.shift;
        }
        for (i64 r = pieces.begin(piece); r < pieces.end(piece); ++r)
          slope_row<Stream>(pieces.row(gx, r, c), pieces.row(gy, r, c), pieces.row(x, r, c), n,
                            slope);
      }
    _mm_sfence();
  });
}

i64 pieces_workspace(const View& x, i64 groups, Layout layout) {
  const ChannelShape s(x, groups);
  return layout == Layout::rows ? 2 * Pieces(s).count * s.channels * i64(sizeof(float)) : 0;
}

}  // namespace

const char* channel_stats_why_not(const ChannelStatsArgs& a) {
  return why_not(a.x, layout_of({a.x}));
}
const char* channel_forward_why_not(const ChannelNormForwardArgs& a) {
  return why_not(a.x, layout_of({a.x, a.y}));
}
const char* channel_sums_why_not(const ChannelNormSumsArgs& a) {
  return why_not(a.x, layout_of({a.x, a.gy}));
}
const char* channel_backward_why_not(const ChannelNormBackwardArgs& a) {
  return why_not(a.x, layout_of({a.x, a.gy, a.gx}));
}
i64 channel_stats_workspace(const ChannelStatsArgs& a) {
  return pieces_workspace(a.x, a.groups, layout_of({a.x}));
}
i64 channel_sums_workspace(const ChannelNormSumsArgs& a) {
  return pieces_workspace(a.x, a.groups, layout_of({a.x, a.gy}));
}

void channel_stats_vector(const ChannelStatsArgs& a, const Launch& l) {
  const ChannelShape s(a.x, a.groups);
  if (layout_of({a.x}) == Layout::planes)
    stats_of_planes(a, s);
  else
    stats_of_rows(a, s, static_cast<float*>(l.workspace));
}
void channel_forward_vector(const ChannelNormForwardArgs& a, const Launch&) {
  const ChannelShape s(a.x, a.groups);
  const bool planes = layout_of({a.x, a.y}) == Layout::planes;
  if (streams(a.y, planes ? s.size : s.channels))
    planes ? forward_planes<true>(a, s) : forward_rows<true>(a, s);
  else
    planes ? forward_planes<false>(a, s) : forward_rows<false>(a, s);
}
void channel_sums_vector(const ChannelNormSumsArgs& a, const Launch& l) {
  const ChannelShape s(a.x, a.groups);
  if (layout_of({a.x, a.gy}) == Layout::planes)
    sums_of_planes(a, s);
  else
    sums_of_rows(a, s, static_cast<float*>(l.workspace));
}
void channel_backward_vector(const ChannelNormBackwardArgs& a, const Launch&) {
  const ChannelShape s(a.x, a.groups);
  const bool planes = layout_of({a.x, a.gy, a.gx}) == Layout::planes;
  if (streams(a.gx, planes ? s.size : s.channels))
    planes ? backward_planes<true>(a, s) : backward_rows<true>(a, s);
  else
    planes ? backward_planes<false>(a, s) : backward_rows<false>(a, s);
}
#endif

}  // namespace wt
