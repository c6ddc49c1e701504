// Layer normalisation on simt and cuda, forward; kernels/norm/layer_norm.cuh has the ladder.
#include "warptape/kernels/layer_norm.h"

#include "warptape/kernels/norm/layer_norm_forward.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

template <class T>
struct NormForward : NormForwardRows<T, LayerNormScale, false> {};

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, layer_norm_forward, LayerNormForwardArgs,
            WT_LAYER_NORM_LADDER(NormForward, LayerNormForwardArgs));

}  // namespace wt
