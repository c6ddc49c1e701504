// Mixed precision by operator class. In the scope, operators of class `lower` (matmul, linear) take
// their f32 operands as `t`, those of class `f32` (softmax, exp, sums, losses) take 16-bit operands
// as f32, and those of class `promote` the widest of theirs; the rest take operands as they come.
// f64 stays f64. OpInfo says the class; `wt ops` lists it.
//
//   auto loss = [&] {
//     const AutocastScope autocast(DType::bf16);
//     return cross_entropy(net(x), y);
//   }();
//   loss.backward();                           // casts are recorded: f32 leaves get f32 gradients
//
// The cast of a leaf is made once in the outermost scope and again when the leaf was written.
// Backward never casts, whether it runs in the scope or not; a checkpoint's second run casts as its
// first did.
#pragma once
#include "warptape/core/in.h"
#include "warptape/core/mode.h"
#include "warptape/core/owned.h"

namespace wt {

class WT_GUARD AutocastScope {
 public:
  // `t`: f16 or bf16, else DtypeError. on = false: no autocast in the scope.
  [[nodiscard]] explicit AutocastScope(DType t = DType::f16, bool on = true);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  Owned<AutocastCache> cache_;  // of the outermost scope
  DType before_;
  bool on_before_;
};

namespace detail {
// For the prologue: replaces the operands that `info`'s class wants otherwise.
void autocast_operands(const OpInfo& info, const In* const* in, int n);
}  // namespace detail
}  // namespace wt
