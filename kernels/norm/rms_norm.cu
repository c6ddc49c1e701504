// Root mean square normalisation on simt and cuda, with layer normalisation's ladder
// (kernels/norm/layer_norm.cuh): a mean less to take off, and one sum a row instead of three.
#include "warptape/kernels/rms_norm.h"

#include "warptape/kernels/norm/rms_norm.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

template <class T>
struct RmsForward : NormForwardRows<T, RmsScale, false> {};
template <class T>
struct RmsBackwardInput : NormGradientRows<T, RmsGradient, false> {};

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, rms_norm_forward, RmsNormForwardArgs,
            WT_LAYER_NORM_LADDER(RmsForward, RmsNormForwardArgs));
WT_VARIANTS(WT_DEVICE_NS, rms_norm_backward_input, RmsNormBackwardInputArgs,
            WT_LAYER_NORM_LADDER(RmsBackwardInput, RmsNormBackwardInputArgs));

}  // namespace wt
