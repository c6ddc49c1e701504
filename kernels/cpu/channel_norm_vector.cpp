// Normalisation by channels on the cpu, eight floats at a time, with threads: everything but the
// statistics.
#include <algorithm>

#include "warptape/kernels/cpu/channel_norm_vector.h"
#include "warptape/kernels/cpu/moments.h"

namespace wt {
#if WT_X86
using namespace channel_vector;
namespace {

// --- forward ---

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
    i64 n = begin / s.channels, c = begin % s.channels;
    for (i64 k = begin; k < end; ++k) {
      scale_plane<Stream>(y.at(n, c), x.at(n, c), s.size, scale_of(a, s, n, c));
      if (++c == s.channels) c = 0, ++n;
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

// --- sums of gradients ---

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
// A batch's sums go to `found` first, [N, C] of each kind, in memory's order.
void sums_of_planes(const ChannelNormSumsArgs& a, const ChannelShape& s, float* found) {
  const Cells<const float> x(a.x), gy(a.gy);
  const i64 cells = s.samples * s.channels;
  float* const to = s.batch() ? found : a.sums.as<float>();
  in_parts(s, cells, [&](i64 begin, i64 end) {
    i64 n = begin / s.channels, c = begin % s.channels;
    for (i64 cell = begin; cell < end; ++cell) {
      const Centre<float> centre(s, a.stats.as<const float>(), s.statistic(n, c));
      GradientSums sums;
      for (i64 i = 0; i < s.size; i += kMomentsPart) {
        const GradientSums part =
            sums_of_part(gy.at(n, c) + i, x.at(n, c) + i, std::min(s.size - i, kMomentsPart),
                         centre.mean, centre.rest);
        sums.plain += part.plain, sums.product += part.product;
      }
      to[cell] = float(sums.plain);
      to[cells + cell] = float(sums.product * double(centre.rstd));
      if (++c == s.channels) c = 0, ++n;
    }
  });
  for (i64 c = 0; s.batch() && c < s.channels; c += kColumns) {
    const i64 count = std::min(kColumns, s.channels - c);
    double plain[kColumns] = {}, product[kColumns] = {};
    for (i64 row = c; row < cells; row += s.channels)
      for (i64 i = 0; i < count; ++i)
        plain[i] += double(found[row + i]), product[i] += double(found[cells + row + i]);
    for (i64 i = 0; i < count; ++i) {
      a.sums.as<float>()[c + i] = float(plain[i]);
      a.sums.as<float>()[s.channels + c + i] = float(product[i]);
    }
  }
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
        expect8(g + kAhead + i), expect8(v + kAhead + i);
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

// --- backward ---

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

// Of a batch, some channels at a time, whose slopes are found once for all samples of a part.
template <bool Stream>
void backward_batch(const ChannelNormBackwardArgs& a, const ChannelShape& s) {
  const Cells<const float> x(a.x), gy(a.gy);
  const Cells<float> gx(a.gx);
  in_parts(s, s.samples * ((s.channels + kColumns - 1) / kColumns), [&](i64 begin, i64 end) {
    Means means(s, a.sums.as<const float>(), a.weight.as<const float>());
    PlaneSlope slopes[kColumns];
    for (i64 k = begin; k < end; ++k) {
      const i64 n = k % s.samples, c = k / s.samples * kColumns;
      const i64 count = std::min(kColumns, s.channels - c);
      if (k == begin || n == 0)
        for (i64 i = 0; i < count; ++i) slopes[i] = slope_of(a, s, means, n, c + i);
      for (i64 i = 0; i < count; ++i)
        slope_plane<Stream>(gx.at(n, c + i), gy.at(n, c + i), x.at(n, c + i), s.size, slopes[i]);
    }
    _mm_sfence();
  });
}

template <bool Stream>
void backward_planes(const ChannelNormBackwardArgs& a, const ChannelShape& s) {
  if (s.batch()) return backward_batch<Stream>(a, s);
  const Cells<const float> x(a.x), gy(a.gy);
  const Cells<float> gx(a.gx);
  in_parts(s, s.samples * s.channels / s.width(), [&](i64 begin, i64 end) {
    Means means(s, a.sums.as<const float>(), a.weight.as<const float>());
    i64 n = begin * s.width() / s.channels, c = begin * s.width() % s.channels;
    for (i64 k = begin * s.width(); k < end * s.width(); ++k) {
      slope_plane<Stream>(gx.at(n, c), gy.at(n, c), x.at(n, c), s.size,
                          slope_of(a, s, means, n, c));
      if (++c == s.channels) c = 0, ++n;
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

}  // namespace

const char* channel_forward_why_not(const ChannelNormForwardArgs& a) {
  return why_not(a.x, layout_of({a.x, a.y}));
}
const char* channel_sums_why_not(const ChannelNormSumsArgs& a) {
  return why_not(a.x, layout_of({a.x, a.gy}));
}
const char* channel_backward_why_not(const ChannelNormBackwardArgs& a) {
  return why_not(a.x, layout_of({a.x, a.gy, a.gx}));
}
i64 channel_sums_workspace(const ChannelNormSumsArgs& a) {
  const ChannelShape s(a.x, a.groups);
  if (layout_of({a.x, a.gy}) == Layout::rows) return pieces_workspace(s);
  return s.batch() ? 2 * s.samples * s.channels * i64(sizeof(float)) : 0;
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
    sums_of_planes(a, s, static_cast<float*>(l.workspace));
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
