// SavePolicy::invert of the library's operators: a slot that holds the output, which the next
// operator saves anyway, and a bit an element instead of operand 0. Custom operators: custom.cpp.
#include "warptape/autograd/backward.h"
#include "warptape/autograd/ops/internal/inverses.h"
#include "warptape/autograd/save_policy.h"
#include "warptape/core/factories.h"
#include "warptape/kernels/activation_inverse.h"
#include "warptape/kernels/bit_mask.h"
#include "warptape/kernels/run.h"

namespace wt {

Tensor elementwise::inverse_activation(InvertedActivation f, const Tensor& y, const Tensor& bits) {
  Tensor x(new_in_order(y.impl(), y.dtype()));
  run(ActivationInverseArgs{view_of(x.impl()), view_of(y.impl()), view_of(bits.impl()), f},
      Launch{mode.op, mode.native_stream, nullptr, y.device()});
  return x;
}

namespace detail {
namespace {

struct OutputAndBits final : PackedSlot {
  const Inverse& inverse;
  Tensor y, bits;
  u32 version;
  OutputAndBits(const Inverse& i, Tensor out, Tensor b, u32 v)
      : inverse(i), y(std::move(out)), bits(std::move(b)), version(v) {}
  Tensor unpack(Backward& g) override {
    const VersionCell* cell = y.impl()->cell;
    if (cell->version != version)
      throw InplaceError(
          str("[", g.node->info->name,
              ".backward] its output was modified in place, from which its input is told under "
              "SavePolicy::invert: it is at version ",
              cell->version, ", version ", version, " is needed",
              cell->write_frame ? "\n  written at " + describe_frame(cell->write_frame) : "",
              "\n  needed by ", describe(g.node),
              "\n  Try a clone() of it, or writing after backward()"));
    return inverse.operand(y, bits);
  }
};

bool lie_alike(const TensorImpl* a, const TensorImpl* b) {
  if (a->key != b->key || !same_shape(a->geometry, b->geometry)) return false;
  for (int d = 0; d < a->geometry.ndim; ++d)
    if (a->geometry.shape[d] != 1 && a->geometry.strides[d] != b->geometry.strides[d]) return false;
  return is_permuted_dense(a->geometry);
}

}  // namespace

std::unique_ptr<PackedSlot> inverted(const OpInfo& op, const TensorImpl* x, const TensorImpl* y,
                                     u32 version) {
  const OpSaving* saving = saving_of(&op);
  if (!saving || !saving->inverse || !lie_alike(x, y)) return nullptr;
  Tensor bits = empty({(x->geometry.numel + 7) / 8}, {.dtype = DType::u8, .device = device_of(x)});
  run(BitPackArgs{view_of(bits.impl()), view_of(x), saving->inverse->turn, false},
      Launch{&op, mode.native_stream, nullptr, device_of(x)});
  return std::make_unique<OutputAndBits>(*saving->inverse, Tensor(alias_of(y)), std::move(bits),
                                         version);
}

}  // namespace detail
}  // namespace wt
