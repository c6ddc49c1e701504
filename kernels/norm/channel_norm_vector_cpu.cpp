// Normalisation by channels on the cpu, eight floats at a time, with threads: everything but the
// statistics.
#include <algorithm>

#include "warptape/kernels/norm/activation_eight_cpu.h"
#include "warptape/kernels/norm/channel_norm_vector_cpu.h"
#include "warptape/kernels/norm/moments_cpu.h"

namespace wt {
#if WT_X86
using namespace channel_vector;
namespace {

// --- what is behind the norm ---

struct NoActivation {
  WT_AVX2_HOT f32x8 value(f32x8 z) const { return z; }
  WT_AVX2_HOT f32x8 gradient(f32x8 gy, f32x8) const { return gy; }
};
struct ReluEight {
  WT_AVX2_HOT f32x8 value(f32x8 z) const { return z < 0.0f ? splat8(0) : z; }
  WT_AVX2_HOT f32x8 gradient(f32x8 gy, f32x8 z) const { return z <= 0.0f ? splat8(0) : gy; }
};
struct Relu6Eight {
  WT_AVX2_HOT f32x8 value(f32x8 z) const { return z < 0.0f ? splat8(0) : z > 6.0f ? splat8(6) : z; }
  WT_AVX2_HOT f32x8 gradient(f32x8 gy, f32x8 z) const {
    return z <= 0.0f ? splat8(0) : z < 6.0f ? gy : splat8(0);
  }
};
struct SmoothEight {
  Activation f;
  WT_AVX2_HOT f32x8 value(f32x8 z) const {
    alignas(32) float v[8];
    store8(v, z);
    activate_eight(f, v);
    return load8(v);
  }
  WT_AVX2_HOT f32x8 gradient(f32x8 gy, f32x8 z) const {
    alignas(32) float v[8], before[8];
    store8(v, gy), store8(before, z);
    activation_gradient_eight(f, v, before);
    return load8(v);
  }
};
template <class Call>
void with_activation(Activation f, const Call& call) {
  if (f == Activation::none)
    call(NoActivation{});
  else if (f == Activation::relu)
    call(ReluEight{});
  else if (f == Activation::relu6)
    call(Relu6Eight{});
  else
    call(SmoothEight{f});
}

// --- forward ---

// z = ((x - mean) - rest) * scale + shift
struct PlaneScale {
  float mean, rest, scale, shift;
};
template <class Args>
PlaneScale scale_of(const Args& a, const ChannelShape& s, i64 n, i64 c) {
  const Centre<float> centre(s, a.stats.template as<const float>(), s.statistic(n, c));
  const float *weight = a.weight.template as<const float>(),
              *bias = a.bias.template as<const float>();
  return {centre.mean, centre.rest, centre.rstd * (weight ? weight[c] : 1), bias ? bias[c] : 0};
}

template <bool Stream, class F>
WT_TARGET_AVX2 void scale_plane(float* y, const float* x, i64 n, const PlaneScale& k, const F& f) {
  for (i64 i = 0; i < n; i += 8)
    put_eight<Stream>(y, i, n, f.value((eight(x, i, n) - k.mean - k.rest) * k.scale + k.shift));
}

// The scales of kColumns channels.
struct alignas(32) RowScale {
  float mean[kColumns], rest[kColumns], scale[kColumns], shift[kColumns];
};
// Of channels [c, c + n) of sample `sample`.
template <class Args>
void set_scales(RowScale& to, const Args& a, const ChannelShape& s, i64 sample, i64 c, i64 n) {
  for (i64 i = 0; i < n; ++i) {
    const PlaneScale k = scale_of(a, s, sample, c + i);
    to.mean[i] = k.mean, to.rest[i] = k.rest;
    to.scale[i] = k.scale, to.shift[i] = k.shift;
  }
}
template <bool Stream, class F>
WT_TARGET_AVX2 void scale_row(float* y, const float* x, i64 n, const RowScale& k, const F& f) {
  for (i64 i = 0; i < n; i += 8) {
    const f32x8 d = eight(x, i, n) - load8(k.mean + i) - load8(k.rest + i);
    put_eight<Stream>(y, i, n, f.value(d * load8(k.scale + i) + load8(k.shift + i)));
  }
}

template <bool Stream, class F>
void forward_planes(const ChannelNormForwardArgs& a, const ChannelShape& s, const F& f) {
  const Cells<const float> x(a.x);
  const Cells<float> y(a.y);
  in_parts(s, s.samples * s.channels, [&](i64 begin, i64 end) {
    i64 n = begin / s.channels, c = begin % s.channels;
    for (i64 k = begin; k < end; ++k) {
      scale_plane<Stream>(y.at(n, c), x.at(n, c), s.size, scale_of(a, s, n, c), f);
      if (++c == s.channels) c = 0, ++n;
    }
    _mm_sfence();
  });
}
template <bool Stream, class F>
void forward_rows(const ChannelNormForwardArgs& a, const ChannelShape& s, const F& f) {
  const Cells<const float> x(a.x);
  const Cells<float> y(a.y);
  const Pieces pieces(s);
  in_parts(s, pieces.count, [&](i64 begin, i64 end) {
    RowScale scale{};
    for (i64 piece = begin; piece < end; ++piece)
      for (i64 c = 0; c < s.channels; c += kColumns) {
        const i64 n = std::min(kColumns, s.channels - c);
        set_scales(scale, a, s, pieces.sample(piece), c, n);
        for (i64 r = pieces.begin(piece); r < pieces.end(piece); ++r)
          scale_row<Stream>(pieces.row(y, r, c), pieces.row(x, r, c), n, scale, f);
      }
    _mm_sfence();
  });
}

// --- sums of gradients ---

struct GradientSums {
  double plain = 0, product = 0;  // of gz; of gz * (x - mean)
};
template <class F>
WT_TARGET_AVX2 GradientSums sums_of_part(const float* gy, const float* x, i64 n,
                                         const PlaneScale& k, const F& f) {
  f32x8 s0 = splat8(0), s1 = s0, p0 = s0, p1 = s0;
  i64 i = 0;
  for (; i + 16 <= n; i += 16) {
    const f32x8 d0 = load8(x + i) - k.mean - k.rest, d1 = load8(x + i + 8) - k.mean - k.rest;
    const f32x8 g0 = f.gradient(load8(gy + i), d0 * k.scale + k.shift);
    const f32x8 g1 = f.gradient(load8(gy + i + 8), d1 * k.scale + k.shift);
    s0 += g0, s1 += g1;
    p0 += g0 * d0, p1 += g1 * d1;
  }
  for (; i < n; i += 8) {
    const f32x8 d = eight(x, i, n) - k.mean - k.rest;
    const f32x8 g = f.gradient(eight(gy, i, n), d * k.scale + k.shift);
    s0 += g, p0 += g * d;
  }
  return {double(sum_of8(s0 + s1)), double(sum_of8(p0 + p1))};
}
// A batch's sums go to `found` first, [N, C] of each kind, in memory's order.
template <class F>
void sums_of_planes(const ChannelNormSumsArgs& a, const ChannelShape& s, float* found, const F& f) {
  const Cells<const float> x(a.x), gy(a.gy);
  const i64 cells = s.samples * s.channels;
  float* const to = s.batch() ? found : a.sums.as<float>();
  in_parts(s, cells, [&](i64 begin, i64 end) {
    i64 n = begin / s.channels, c = begin % s.channels;
    for (i64 cell = begin; cell < end; ++cell) {
      const Centre<float> centre(s, a.stats.as<const float>(), s.statistic(n, c));
      const PlaneScale scale = scale_of(a, s, n, c);
      GradientSums sums;
      for (i64 i = 0; i < s.size; i += kMomentsPart) {
        const GradientSums part = sums_of_part(gy.at(n, c) + i, x.at(n, c) + i,
                                               std::min(s.size - i, kMomentsPart), scale, f);
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

// Of channels [column, column + n) in a piece.
template <class F>
WT_TARGET_AVX2 void sums_of_piece(const Pieces& pieces, const Cells<const float>& gy,
                                  const Cells<const float>& x, i64 piece, i64 column, i64 n,
                                  const RowScale& scale, const F& f, float* plain_out,
                                  float* product_out) {
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
        const f32x8 d = eight(v, i, n) - load8(scale.mean + i) - load8(scale.rest + i);
        const f32x8 z = d * load8(scale.scale + i) + load8(scale.shift + i);
        const f32x8 e = f.gradient(eight(g, i, n), z);
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

template <class F>
void sums_of_rows(const ChannelNormSumsArgs& a, const ChannelShape& s, float* found, const F& f) {
  const Cells<const float> x(a.x), gy(a.gy);
  const Pieces pieces(s);
  const float* stats = a.stats.as<const float>();
  in_parts(s, pieces.count, [&](i64 begin, i64 end) {
    RowScale scale{};
    for (i64 piece = begin; piece < end; ++piece)
      for (i64 c = 0; c < s.channels; c += kColumns) {
        const i64 n = std::min(kColumns, s.channels - c);
        set_scales(scale, a, s, pieces.sample(piece), c, n);
        float* to = found + 2 * piece * s.channels + c;
        sums_of_piece(pieces, gy, x, piece, c, n, scale, f, to, to + s.channels);
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

// gx = gz * scale - ((x - mean) - rest) * slope - shift
struct PlaneSlope {
  float mean, rest, scale, slope, shift, bias;
};
using Means = MeanGradients<float, float>;
PlaneSlope slope_of(const ChannelNormBackwardArgs& a, const ChannelShape& s, Means& means, i64 n,
                    i64 c) {
  const Centre<float> centre(s, a.stats.as<const float>(), s.statistic(n, c));
  const PlaneScale z = scale_of(a, s, n, c);
  means.go_to(n, c);
  return {z.mean, z.rest, z.scale, centre.rstd * centre.rstd * means.gh, centre.rstd * means.g,
          z.shift};
}

template <bool Stream, class F>
WT_TARGET_AVX2 void slope_plane(float* gx, const float* gy, const float* x, i64 n,
                                const PlaneSlope& k, const F& f) {
  for (i64 i = 0; i < n; i += 8) {
    const f32x8 d = eight(x, i, n) - k.mean - k.rest;
    const f32x8 g = f.gradient(eight(gy, i, n), d * k.scale + k.bias);
    put_eight<Stream>(gx, i, n, g * k.scale - d * k.slope - k.shift);
  }
}
struct alignas(32) RowSlope {
  float mean[kColumns], rest[kColumns], scale[kColumns], slope[kColumns], shift[kColumns],
      bias[kColumns];
};
template <bool Stream, class F>
WT_TARGET_AVX2 void slope_row(float* gx, const float* gy, const float* x, i64 n, const RowSlope& k,
                              const F& f) {
  for (i64 i = 0; i < n; i += 8) {
    const f32x8 d = eight(x, i, n) - load8(k.mean + i) - load8(k.rest + i);
    const f32x8 scale = load8(k.scale + i);
    const f32x8 g = f.gradient(eight(gy, i, n), d * scale + load8(k.bias + i));
    put_eight<Stream>(gx, i, n, g * scale - d * load8(k.slope + i) - load8(k.shift + i));
  }
}

// Of a batch, some channels at a time, whose slopes are found once for all samples of a part.
template <bool Stream, class F>
void backward_batch(const ChannelNormBackwardArgs& a, const ChannelShape& s, const F& f) {
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
        slope_plane<Stream>(gx.at(n, c + i), gy.at(n, c + i), x.at(n, c + i), s.size, slopes[i], f);
    }
    _mm_sfence();
  });
}

template <bool Stream, class F>
void backward_planes(const ChannelNormBackwardArgs& a, const ChannelShape& s, const F& f) {
  if (s.batch()) return backward_batch<Stream>(a, s, f);
  const Cells<const float> x(a.x), gy(a.gy);
  const Cells<float> gx(a.gx);
  in_parts(s, s.samples * s.channels / s.width(), [&](i64 begin, i64 end) {
    Means means(s, a.sums.as<const float>(), a.weight.as<const float>());
    i64 n = begin * s.width() / s.channels, c = begin * s.width() % s.channels;
    for (i64 k = begin * s.width(); k < end * s.width(); ++k) {
      slope_plane<Stream>(gx.at(n, c), gy.at(n, c), x.at(n, c), s.size, slope_of(a, s, means, n, c),
                          f);
      if (++c == s.channels) c = 0, ++n;
    }
    _mm_sfence();
  });
}
template <bool Stream, class F>
void backward_rows(const ChannelNormBackwardArgs& a, const ChannelShape& s, const F& f) {
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
          slope.slope[i] = k.slope, slope.shift[i] = k.shift, slope.bias[i] = k.bias;
        }
        for (i64 r = pieces.begin(piece); r < pieces.end(piece); ++r)
          slope_row<Stream>(pieces.row(gx, r, c), pieces.row(gy, r, c), pieces.row(x, r, c), n,
                            slope, f);
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
  with_activation(a.activation, [&](const auto& f) {
    if (streams(a.y, planes ? s.size : s.channels))
      planes ? forward_planes<true>(a, s, f) : forward_rows<true>(a, s, f);
    else
      planes ? forward_planes<false>(a, s, f) : forward_rows<false>(a, s, f);
  });
}
void channel_sums_vector(const ChannelNormSumsArgs& a, const Launch& l) {
  const ChannelShape s(a.x, a.groups);
  float* const found = static_cast<float*>(l.workspace);
  with_activation(a.activation, [&](const auto& f) {
    if (layout_of({a.x, a.gy}) == Layout::planes)
      sums_of_planes(a, s, found, f);
    else
      sums_of_rows(a, s, found, f);
  });
}
void channel_backward_vector(const ChannelNormBackwardArgs& a, const Launch&) {
  const ChannelShape s(a.x, a.groups);
  const bool planes = layout_of({a.x, a.gy, a.gx}) == Layout::planes;
  with_activation(a.activation, [&](const auto& f) {
    if (streams(a.gx, planes ? s.size : s.channels))
      planes ? backward_planes<true>(a, s, f) : backward_rows<true>(a, s, f);
    else
      planes ? backward_planes<false>(a, s, f) : backward_rows<false>(a, s, f);
  });
}
#endif

}  // namespace wt
