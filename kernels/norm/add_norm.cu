// Residual and normalisation on simt and cuda: the rows of layer_norm and rms_norm (device/), told
// to add first; their ladder. Memory is read and written once: two tensors in, two out.
#include "warptape/kernels/add_norm.h"

#include "warptape/kernels/norm/layer_norm_forward.cuh"
#include "warptape/kernels/norm/rms_norm.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

template <class T>
struct AddLayerNormForward : NormForwardRows<T, LayerNormScale, true> {};
template <class T>
struct AddRmsNormForward : NormForwardRows<T, RmsScale, true> {};

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, add_layer_norm_forward, AddLayerNormForwardArgs,
            WT_LAYER_NORM_LADDER(AddLayerNormForward, AddLayerNormForwardArgs));
WT_VARIANTS(WT_DEVICE_NS, add_rms_norm_forward, AddRmsNormForwardArgs,
            WT_LAYER_NORM_LADDER(AddRmsNormForward, AddRmsNormForwardArgs));

}  // namespace wt
