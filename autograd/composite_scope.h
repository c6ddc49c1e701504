// The scope of an operator that is made of others: it has no node and no kernel of its own.
//
//   Tensor roll(const In& x, i64 shift, i64 axis) {
//     CompositeScope s(info::roll, x);             // checks, autocast, the user's line, a range
//     const int a = s.axis(axis, s.geometry(0).ndim);
//     Tensor t = s.operand(0);                     // a handle: the user's rvalue stays whole
//     ...
//     return s.finish(std::move(y));               // empties the rvalues
//   }
//
// Check the arguments first, with s.fail(): users then read this operator's name. An rvalue is
// untouched when something throws, and therefore no operator inside works in its storage.
#pragma once
#include "warptape/autograd/op_scope.h"
#include "warptape/core/mode.h"

namespace wt {

class CompositeScope : public OpScope {
 public:
  CompositeScope(const OpInfo& info, const In& a, Types types = Types::any)
      : OpScope(info, a, types), lines_(frame()) {}
  CompositeScope(const OpInfo& info, const In& a, const In& b, Types types = Types::any)
      : OpScope(info, a, b, types), lines_(frame()) {}
  CompositeScope(const OpInfo& info, const In& a, const In& b, const In& c,
                 Types types = Types::any)
      : OpScope(info, a, b, c, types), lines_(frame()) {}
  CompositeScope(const OpInfo& info, const In* const* inputs, int n, Types types = Types::any)
      : OpScope(info, inputs, n, types), lines_(frame()) {}

  Tensor operand(int i) const { return Tensor(detail::retained(impl(i))); }
  Tensor finish(Tensor y) {
    finish_composite();
    return y;
  }
  std::vector<Tensor> finish(std::vector<Tensor> y) {
    finish_composite();
    return y;
  }

 private:
  FrameScope lines_;  // nodes inside bear the user's line
};

}  // namespace wt
