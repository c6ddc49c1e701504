// Elementwise operators of two tensors, of the lists in kernels/pointwise.h, which has the maths.
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/ops/internal/pointwise_call.h"
#include "warptape/kernels/copy.h"

namespace wt {
namespace {

// An integer to a negative power is no integer: refused as in PyTorch (among tensors it truncates).
void check_power(const Operand& base, const Operand& exponent) {
  if (base.is_scalar() || !exponent.is_scalar() || !base.impl()) return;
  const Scalar v = exponent.scalar();
  const DType t = dtype_of(base.impl());
  if (v.kind == Scalar::Kind::integer && v.i < 0 && is_integral(t) && computes(t))
    throw UsageError(str(
        "[pow] integers to the negative power ", v.i, ": the base is ", dtype_name(t), "\n  at ",
        describe(mode.frame ? frame_of(mode.frame) : base.frame()), "\n  Try a floating exponent"));
}

}  // namespace

#define WT_DEFINE_BINARY(M, name, F)                                                \
  Tensor name(const Operand& a, const Operand& b) {                                 \
    if constexpr (std::is_same_v<pw::F, pw::Pow>) check_power(a, b);                \
    if constexpr (pw::F::kHot)                                                      \
      return elementwise::binary_inline(elementwise::kEntry<pw::F>,                 \
                                        elementwise::LaunchInlined<pw::F>{}, a, b); \
    else                                                                            \
      return elementwise::binary(elementwise::kEntry<pw::F>, a, b);                 \
  }
WT_POINTWISE_BINARY(WT_DEFINE_BINARY, )
WT_POINTWISE_BINARY_PLAIN(WT_DEFINE_BINARY, )

Tensor div(const Operand& a, const Operand& b, const DivOptions& o) {
  switch (o.rounding) {
    case Rounding::trunc:
      return div_trunc(a, b);
    case Rounding::floor:
      return floor_divide(a, b);
    default:
      return div(a, b);
  }
}

// --- what the engine needs ---
namespace detail {

void add_into(const View& dst, const TensorImpl* src) {
  run(PointwiseArgs<pw::Add>{dst, {dst, view_of(src)}},
      Launch{&elementwise::kEntry<pw::Add>.info, mode.native_stream, nullptr, device_of(src)});
}
void add_into(TensorImpl* dst, const TensorImpl* src) {
  add_into(view_of(dst), src);
  ++dst->cell->version;
}

void copy_into(TensorImpl* dst, const TensorImpl* src) {
  run(CopyArgs{view_of(dst), view_of(src)},
      Launch{&elementwise::kEntry<pw::Add>.info, mode.native_stream, nullptr, device_of(dst)});
  ++dst->cell->version;
}

void accumulate(TensorImpl*& have, Tensor t) {
  Tensor sum(have);
  have = nullptr;
  have = add(std::move(sum), std::move(t)).release_impl();
}

OpInfos pointwise_binary_ops() {
  // clang-format off
#define WT_OP(M, name, F) &elementwise::kEntry<pw::F>.info,
  static constexpr const OpInfo* kOps[] = {
      WT_POINTWISE_BINARY(WT_OP, )
      WT_POINTWISE_BINARY_PLAIN(WT_OP, )};
#undef WT_OP
  // clang-format on
  return kOps;
}

}  // namespace detail
}  // namespace wt
