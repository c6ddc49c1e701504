// Residual and normalisation, with vectors, by the loops of layer_norm and rms_norm: a few rows at
// a time are added and then normalised, while they are in the first level cache.
#include "warptape/kernels/norm/add_norm_cpu.h"

#include "warptape/kernels/norm/layer_norm_cpu.h"
#include "warptape/kernels/norm/norm_rows_cpu.h"
#include "warptape/kernels/norm/rms_norm_cpu.h"

namespace wt {
#if WT_X86
namespace {

// out = a + b, a row of each; out may be either.
WT_TARGET_AVX2 void add_row(float* out, const float* a, const float* b, i64 n) {
  for (i64 i = 0; i < n; i += 8) put_eight<false>(out, i, n, eight(a, i, n) + eight(b, i, n));
}

// `norm(begin, end)` normalises rows of the sum.
template <class Args, class Norm>
void forward(const Args& a, const Norm& norm) {
  enum { Y, X, Residual, Sum };  // the operands of `rows`
  const auto rows = norm_rows(a);
  constexpr i64 kFloats = 2048;  // of each of four operands: together the first level cache
  const i64 most = rows.length < kFloats / 2 ? kFloats / (rows.length + 1) : 1;  // rows at a time
  in_norm_pieces(a, [&](i64 first, i64 last) {
    for (i64 begin = first; begin < last; begin += most) {
      const i64 end = begin + most < last ? begin + most : last;
      for (i64 row = begin; row < end; ++row)
        add_row(rows.row(Sum, a.sum.template as<float>(), row).data,
                rows.row(X, a.x.template as<const float>(), row).data,
                rows.row(Residual, a.residual.template as<const float>(), row).data, rows.length);
      norm(begin, end);
    }
  });
}
}  // namespace

void add_layer_norm_forward_avx2(const AddLayerNormForwardArgs& a, const Launch&) {
  const LayerNormForwardArgs norm{a.y, a.stats, a.sum, a.weight, a.bias, a.eps};
  forward(a, [&](i64 begin, i64 end) { layer_norm_forward_rows(norm, begin, end); });
}
void add_layer_norm_backward_input_avx2(const AddLayerNormBackwardInputArgs& a, const Launch&) {
  const LayerNormBackwardInputArgs norm{a.gx, a.gy, a.x, a.stats, a.weight};
  in_norm_pieces(
      a, [&](i64 begin, i64 end) { layer_norm_backward_input_rows(norm, a.gsum, begin, end); });
}
void add_rms_norm_forward_avx2(const AddRmsNormForwardArgs& a, const Launch&) {
  const RmsNormForwardArgs norm{a.y, a.stats, a.sum, a.weight, a.eps};
  forward(a, [&](i64 begin, i64 end) { rms_norm_forward_rows(norm, begin, end); });
}
void add_rms_norm_backward_input_avx2(const AddRmsNormBackwardInputArgs& a, const Launch&) {
  const RmsNormBackwardInputArgs norm{a.gx, a.gy, a.x, a.stats, a.weight};
  in_norm_pieces(
      a, [&](i64 begin, i64 end) { rms_norm_backward_input_rows(norm, a.gsum, begin, end); });
}
#endif
}  // namespace wt
