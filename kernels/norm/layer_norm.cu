// Layer normalisation on simt and cuda, forward; kernels/norm/layer_norm.cuh has the ladder.
#include "warptape/kernels/layer_norm.h"

#include "warptape/kernels/norm/layer_norm_forward.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

template <class T>
struct NormForward : NormForwardRows<T, false> {
  static Rows<2> rows_of(const LayerNormForwardArgs& a) {
    return rows_along<2>(a.x.ndim() - 1, {{a.y}, {a.x}});
  }
  static bool packs_fit(const LayerNormForwardArgs& a, i64 pack) {
    return rows_aligned(rows_of(a), {a.y.data, a.x.data}, pack) && aligned_16(a.weight.data) &&
           aligned_16(a.bias.data);
  }
  static NormForward of(const LayerNormForwardArgs& a) {
    return {{rows_of(a), a.y.as<T>(), a.x.as<const T>(), a.weight.as<const T>(),
             a.bias.as<const T>(), a.stats.as<ComputeType<T>>(), ComputeType<T>(a.eps)}};
  }
};

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, layer_norm_forward, LayerNormForwardArgs,
            WT_LAYER_NORM_LADDER(NormForward, LayerNormForwardArgs));

}  // namespace wt
