// Copies of images in another dtype, for the cpu variants that widen 16-bit floats.
#pragma once
#include "warptape/core/half.h"
#include "warptape/kernels/conv.h"
#include "warptape/kernels/cpu/half_rows.h"

namespace wt {

// The sizes of an image, or of a weight between an output channel and all that it reads.
struct ImageExtent {
  i64 channels, at[3];
  i64 numel() const { return channels * at[0] * at[1] * at[2]; }
};
// A copy without gaps of what `t` holds, in its order of channels and pixels.
inline ConvTensor image_copy(const ConvTensor& t, const ImageExtent& e, float* data) {
  const bool inside = e.channels > 1 && t.channel == 1;
  const i64 pixel = inside ? e.channels : 1;
  return {data,
          e.numel(),
          inside ? 1 : e.at[0] * e.at[1] * e.at[2],
          {e.at[1] * e.at[2] * pixel, e.at[2] * pixel, pixel}};
}

inline bool same_steps(const ConvTensor& a, const ConvTensor& b, const ImageExtent& e) {
  for (int d = 0; d < 3; ++d)
    if (e.at[d] > 1 && a.at[d] != b.at[d]) return false;
  return e.channels <= 1 || a.channel == b.channel;
}

// Image n of `from` to `to`, one of which is a copy without gaps.
template <class To, class From>
void convert_image(const ConvTensor& to, const ConvTensor& from, const ImageExtent& e, i64 n) {
  To* const out = static_cast<To*>(to.data) + n * to.batch;
  const From* const in = static_cast<const From*>(from.data) + n * from.batch;
  if (same_steps(to, from, e)) return detail::convert_row(out, in, e.numel());
  const bool row = to.at[2] == 1 && from.at[2] == 1;
  for (i64 c = 0; c < e.channels; ++c)
    for (i64 z = 0; z < e.at[0]; ++z)
      for (i64 y = 0; y < e.at[1]; ++y) {
        To* const o = out + c * to.channel + z * to.at[0] + y * to.at[1];
        const From* const i = in + c * from.channel + z * from.at[0] + y * from.at[1];
        if (row) {
          detail::convert_row(o, i, e.at[2]);
          continue;
        }
        for (i64 x = 0; x < e.at[2]; ++x) o[x * to.at[2]] = To(float(i[x * from.at[2]]));
      }
}

}  // namespace wt
