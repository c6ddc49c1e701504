// The gradient of residual and normalisation on simt and cuda: the rows of layer_norm and rms_norm
// (device/), told to add what has reached the sum by the way beside the norm.
#include "warptape/kernels/add_norm.h"
#include "warptape/kernels/norm/layer_norm_gradient.cuh"
#include "warptape/kernels/norm/rms_norm.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

// Args: of either norm. Base: its rows.
template <class T, class Args, template <class, bool> class Base>
struct AddNormGradient : Base<T, true> {
  static Rows<4> rows_of(const Args& a) {
    return rows_along<4>(a.gx.ndim() - 1, {{a.gx}, {a.gy}, {a.x}, {a.gsum}});
  }
  static bool packs_fit(const Args& a, i64 pack) {
    return rows_aligned(rows_of(a), {a.gx.data, a.gy.data, a.x.data, a.gsum.data}, pack) &&
           aligned_16(a.weight.data);
  }
  static AddNormGradient of(const Args& a) {
    return {{rows_of(a), a.gx.template as<T>(), a.gy.template as<const T>(),
             a.x.template as<const T>(), a.weight.template as<const T>(),
             a.stats.template as<const ComputeType<T>>(), a.gsum.template as<const T>()}};
  }
};
// Of one parameter, for the ladder, and with names that a profiler's line holds.
template <class T>
struct AddLayerNormGradient
    : AddNormGradient<T, AddLayerNormBackwardInputArgs, NormBackwardInputRows> {
  static AddLayerNormGradient of(const AddLayerNormBackwardInputArgs& a) {
    return {AddNormGradient<T, AddLayerNormBackwardInputArgs, NormBackwardInputRows>::of(a)};
  }
};
template <class T>
struct AddRmsNormGradient : AddNormGradient<T, AddRmsNormBackwardInputArgs, RmsBackwardInputRows> {
  static AddRmsNormGradient of(const AddRmsNormBackwardInputArgs& a) {
    return {AddNormGradient<T, AddRmsNormBackwardInputArgs, RmsBackwardInputRows>::of(a)};
  }
};

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, add_layer_norm_backward_input, AddLayerNormBackwardInputArgs,
            WT_LAYER_NORM_LADDER(AddLayerNormGradient, AddLayerNormBackwardInputArgs));
WT_VARIANTS(WT_DEVICE_NS, add_rms_norm_backward_input, AddRmsNormBackwardInputArgs,
            WT_LAYER_NORM_LADDER(AddRmsNormGradient, AddRmsNormBackwardInputArgs));

}  // namespace wt
