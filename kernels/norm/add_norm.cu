// Residual and normalisation on simt and cuda: the rows of layer_norm and rms_norm (device/), told
// to add first; their ladder. Memory is read and written once: two tensors in, two out.
#include "warptape/kernels/add_norm.h"

#include "warptape/kernels/norm/layer_norm_forward.cuh"
#include "warptape/kernels/norm/rms_norm.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

template <class Args>
Rows<4> addend_rows(const Args& a) {
  return rows_along<4>(a.x.ndim() - 1, {{a.y}, {a.x}, {a.residual}, {a.sum}});
}
template <class Args>
bool addends_aligned(const Args& a, i64 pack) {
  return rows_aligned(addend_rows(a), {a.y.data, a.x.data, a.residual.data, a.sum.data}, pack) &&
         aligned_16(a.weight.data);
}

template <class T>
struct AddLayerNormForward : NormForwardRows<T, true> {
  static Rows<4> rows_of(const AddLayerNormForwardArgs& a) { return addend_rows(a); }
  static bool packs_fit(const AddLayerNormForwardArgs& a, i64 pack) {
    return addends_aligned(a, pack) && aligned_16(a.bias.data);
  }
  static AddLayerNormForward of(const AddLayerNormForwardArgs& a) {
    using A = ComputeType<T>;
    return {{addend_rows(a), a.y.as<T>(), a.x.as<const T>(), a.weight.as<const T>(),
             a.bias.as<const T>(), a.stats.as<A>(), A(a.eps), a.residual.as<const T>(),
             a.sum.as<T>()}};
  }
};

template <class T>
struct AddRmsNormForward : RmsForwardRows<T, true> {
  static Rows<4> rows_of(const AddRmsNormForwardArgs& a) { return addend_rows(a); }
  static bool packs_fit(const AddRmsNormForwardArgs& a, i64 pack) {
    return addends_aligned(a, pack);
  }
  static AddRmsNormForward of(const AddRmsNormForwardArgs& a) {
    using A = ComputeType<T>;
    return {{addend_rows(a), a.y.as<T>(), a.x.as<const T>(), a.weight.as<const T>(),
             a.stats.as<A>(), A(a.eps), a.residual.as<const T>(), a.sum.as<T>()}};
  }
};

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, add_layer_norm_forward, AddLayerNormForwardArgs,
            WT_LAYER_NORM_LADDER(AddLayerNormForward, AddLayerNormForwardArgs));
WT_VARIANTS(WT_DEVICE_NS, add_rms_norm_forward, AddRmsNormForwardArgs,
            WT_LAYER_NORM_LADDER(AddRmsNormForward, AddRmsNormForwardArgs));

}  // namespace wt
