// Root mean square normalisation on simt and cuda, with layer normalisation's ladder
// (kernels/norm/layer_norm.cuh): a mean less to take off, and one sum a row instead of three.
#include "warptape/kernels/rms_norm.h"

#include "warptape/kernels/norm/rms_norm.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

template <class T>
struct RmsForward : RmsForwardRows<T, false> {
  static Rows<2> rows_of(const RmsNormForwardArgs& a) {
    return rows_along<2>(a.x.ndim() - 1, {{a.y}, {a.x}});
  }
  static bool packs_fit(const RmsNormForwardArgs& a, i64 pack) {
    return rows_aligned(rows_of(a), {a.y.data, a.x.data}, pack) && aligned_16(a.weight.data);
  }
  static RmsForward of(const RmsNormForwardArgs& a) {
    return {{rows_of(a), a.y.as<T>(), a.x.as<const T>(), a.weight.as<const T>(),
             a.stats.as<ComputeType<T>>(), ComputeType<T>(a.eps)}};
  }
};

template <class T>
struct RmsBackwardInput : RmsBackwardInputRows<T, false> {
  static Rows<3> rows_of(const RmsNormBackwardInputArgs& a) {
    return rows_along<3>(a.x.ndim() - 1, {{a.gx}, {a.gy}, {a.x}});
  }
  static bool packs_fit(const RmsNormBackwardInputArgs& a, i64 pack) {
    return rows_aligned(rows_of(a), {a.gx.data, a.gy.data, a.x.data}, pack) &&
           aligned_16(a.weight.data);
  }
  static RmsBackwardInput of(const RmsNormBackwardInputArgs& a) {
    return {{rows_of(a), a.gx.as<T>(), a.gy.as<const T>(), a.x.as<const T>(),
             a.weight.as<const T>(), a.stats.as<const ComputeType<T>>()}};
  }
};

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, rms_norm_forward, RmsNormForwardArgs,
            WT_LAYER_NORM_LADDER(RmsForward, RmsNormForwardArgs));
WT_VARIANTS(WT_DEVICE_NS, rms_norm_backward_input, RmsNormBackwardInputArgs,
            WT_LAYER_NORM_LADDER(RmsBackwardInput, RmsNormBackwardInputArgs));

}  // namespace wt
