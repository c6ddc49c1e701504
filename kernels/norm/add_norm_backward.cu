// The gradient of residual and normalisation on simt and cuda: the rows of layer_norm and rms_norm
// (device/), told to add what has reached the sum by the way beside the norm.
#include "warptape/kernels/add_norm.h"
#include "warptape/kernels/norm/layer_norm_gradient.cuh"
#include "warptape/kernels/norm/rms_norm.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

template <class T>
struct AddLayerNormGradient : NormGradientRows<T, LayerNormGradient, true> {};
template <class T>
struct AddRmsNormGradient : NormGradientRows<T, RmsGradient, true> {};

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, add_layer_norm_backward_input, AddLayerNormBackwardInputArgs,
            WT_LAYER_NORM_LADDER(AddLayerNormGradient, AddLayerNormBackwardInputArgs));
WT_VARIANTS(WT_DEVICE_NS, add_rms_norm_backward_input, AddRmsNormBackwardInputArgs,
            WT_LAYER_NORM_LADDER(AddRmsNormGradient, AddRmsNormBackwardInputArgs));

}  // namespace wt
