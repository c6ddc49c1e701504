// Winograd's way of convolving by 3 x 3 taps at stride 1, F(2 x 2, 3 x 3) of Lavin and Gray 2015
// (arXiv:1509.09308): 2 x 2 results of 4 x 4 pixels take 16 products where their taps are 36,
//
//   results = A^T [(G w G^T) * (B^T image B)] A        B^T = 1  0 -1  0    G = 1    0   0
//                                                            0  1  1  0        1/2 1/2 1/2
//   w's gradient = G^T [(B^T image B) * (A gy A^T)] G        0 -1  1  0        1/2 -1/2 1/2
//                                                            0  1  0 -1        0    0   1
// with A^T = 1 1 1 0 over 0 1 -1 -1; the products are summed over channels, or over all images, as
// 16 products of matrices. Rounding is that of a sum of as many terms; what is not finite spoils
// all of its 4 x 4 pixels' results. Internal to this room.
#pragma once
#include <type_traits>

#include "warptape/kernels/conv/conv_turn_cpu.h"

namespace wt {

inline constexpr i64 kWinogradPlaces = 16;

// Each walks over `n` channels that lie side by side. `step`: from a place of the 16 to the next.
template <class T>
struct WinogradKernels {
  void (*image)(const T* const* from, T* to, i64 step, i64 n);                  // 16 pixels
  void (*gradient)(const T* const* from, T* to, i64 step, i64 n);               // 4 pixels of gy
  void (*result)(const T* from, i64 step, const T* bias, T* const* to, i64 n);  // 4 pixels
  void (*weight)(const T* from, i64 from_step, T* to, i64 step, i64 n);         // 9 taps
  void (*weight_gradient)(const T* from, i64 step, T* to, i64 to_step, i64 n);  // 9 taps
};
template <class T>
const WinogradKernels<T>& winograd_kernels();  // for the instruction set in use

// The N x N pixels from row y0 and column x0 on; those that lie outside of the image are `outside`.
template <int N, class T, class P>
void winograd_pixels(const ConvImages<T>& images, i64 image, const i64 (&size)[3], i64 y0, i64 x0,
                     std::type_identity_t<P> outside, P (&to)[N * N]) {
  for (int k = 0; k < N * N; ++k) {
    const i64 at[3] = {0, y0 + k / N, x0 + k % N};
    const bool inside = at[1] >= 0 && at[1] < size[1] && at[2] >= 0 && at[2] < size[2];
    to[k] = inside ? images.of(at) + image * images.image : outside;
  }
}

// Two spatial axes, 3 x 3 neighbouring taps, one group.
template <class Args>
const char* winograd_why_not(const Args& a) {
  const ConvShape& s = a.shape;
  if (s.dtype != DType::f32 && s.dtype != DType::f64) return "takes f32 and f64 only";
  if (s.x_numel() == 0 || s.y_numel() == 0 || s.w_numel() == 0) return "takes no empty operands";
  if (s.groups != 1) return "takes one group only";
  if (s.in[0] != 1 || s.out[0] != 1 || s.kernel[0] != 1 || s.padding[0] != 0)
    return "takes two spatial axes only";
  for (int d = 1; d < 3; ++d)
    if (s.kernel[d] != 3 || s.stride[d] != 1 || s.dilation[d] != 1)
      return "takes 3 x 3 taps at stride 1 only";
  if (a.w.at[1] != 3 * a.w.at[2]) return "takes taps at equal steps only";
  if (!conv_can_turn(a.x, s.in, s.in_channels) || !conv_can_turn(a.y, s.out, s.out_channels))
    return "channels, or the pixels of a row, must be neighbours";
  return nullptr;
}

// Where there are many channels to sum over, tiles are seldom cut, and weights, which are
// transformed each time, meet many tiles.
inline bool winograd_pays(const ConvShape& s) {
  constexpr i64 kFewImages = 8, kManyChannels = 32, kSmallestSide = 4, kWeightsATile = 1024;
  const i64 tiles = s.batch * ((s.out[1] + 1) / 2) * ((s.out[2] + 1) / 2);
  return s.dtype == DType::f32 && s.batch >= kFewImages && s.in_channels >= kManyChannels &&
         s.out_channels >= kManyChannels && s.out[1] >= kSmallestSide &&
         s.out[2] >= kSmallestSide && s.in_channels * s.out_channels <= kWeightsATile * tiles;
}

}  // namespace wt
