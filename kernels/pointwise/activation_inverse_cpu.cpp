#include "warptape/kernels/pointwise/activation_inverse_cpu.h"

#include "warptape/kernels/cpu/pieces.h"

namespace wt {

void activation_inverse_threaded(const ActivationInverseArgs& a, const Launch&) {
  in_pieces(a.x.numel(), [&](i64 from, i64 to) { activation_inverse_part(a, from, to); });
}

}  // namespace wt
