// Right and wrong kernels for batch_norm_backward. "REJECT variant kind" as in softmax_bad.cu; the
// others have to pass.
#include "warptape/tests/grade/kernels.h"
//
#include "warptape/kernels/channel_norm.h"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

struct Element {
  float* gx;
  const float *gy, *x, *stats, *weight, *sums;
  int samples, channels, inside;
};
enum class Wrong { nothing, ignores_left, ignores_weight, always_sums };

template <Wrong What>
__global__ void element(Element a) {
  const int e = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (e >= a.samples * a.channels * a.inside) return;
  const int c = e / a.inside % a.channels;
  const float mean = a.stats[c], left = What == Wrong::ignores_left ? 0 : a.stats[a.channels + c];
  const float rstd = a.stats[2 * a.channels + c], m = float(a.samples * a.inside);
  const float w = a.weight && What != Wrong::ignores_weight ? a.weight[c] : 1;
  const float h = (a.x[e] - mean - left) * rstd;
  float sum = 0, dot = 0;
  if (What == Wrong::always_sums || a.sums) {
    sum = a.sums[c];
    dot = a.sums[a.channels + c];
  }
  a.gx[e] = rstd * w * (a.gy[e] - sum / m - h * dot / m);
}
// The mean alone is nearly right where little is left of it.
// REJECT ignores_left values
// REJECT ignores_weight values
// Without sums the statistics are constants.
// REJECT always_sums null

template <Wrong What>
void simply(const ChannelNormBackwardArgs& a, const Launch& l) {
  launch<element<What>>(
      grid(l, blocks_for(int(a.x.numel()), 128), 128),
      Element{a.gx.as<float>(), a.gy.as<const float>(), a.x.as<const float>(),
              a.stats.as<const float>(), a.weight.as<const float>(), a.sums.as<const float>(),
              int(a.x.size(0)), int(a.x.size(1)), int(a.x.size(2))});
}
const char* plain(const ChannelNormBackwardArgs& a) {
  if (a.groups || a.activation != Activation::none) return "groups, or an activation behind it";
  const bool all = plain_f32(a.gx) && plain_f32(a.gy) && plain_f32(a.x);
  return all ? nullptr : "anything but contiguous f32";
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, channel_norm_backward, ChannelNormBackwardArgs,
            {.name = "element", .why_not = plain, .launch = simply<Wrong::nothing>},
            {.name = "ignores_left", .why_not = plain, .launch = simply<Wrong::ignores_left>},
            {.name = "ignores_weight", .why_not = plain, .launch = simply<Wrong::ignores_weight>},
            {.name = "always_sums", .why_not = plain, .launch = simply<Wrong::always_sums>});

}  // namespace wt
