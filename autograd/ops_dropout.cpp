#include "warptape/autograd/engine.h"
#include "warptape/autograd/op_scope.h"
#include "warptape/autograd/ops.h"
#include "warptape/core/random.h"
#include "warptape/kernels/dropout.h"

namespace wt {
namespace info {
constexpr OpInfo dropout{.name = "dropout", .derivative = Derivative::linear};
}

namespace {

// Which draw: taken once, when the operator is called. Backward and recomputation reuse it and
// never advance the generator.
struct Draw {
  PhiloxKey key;
  u64 call;
  double p;
};

Tensor dropout_with(const In& x, Draw d);

// The mask times a constant is linear: the gradient is dropped at the same places.
void dropout_backward(Backward& g) { g.put(0, dropout_with(g.take_grad(), g.attribute<Draw>())); }

Tensor dropout_with(const In& x, Draw d) {
  if (x.impl() && !x.impl()->geometry.dense) {
    const FrameScope frame(x.frame());
    x.replace(contiguous(Tensor(detail::retained(x.impl()))));
  }
  OpScope s(info::dropout, x);
  if (!is_floating(s.dtype()) || !computes(s.dtype()))
    s.fail<DtypeError>("needs a floating tensor");
  Result y = s.result_like();
  s.record(dropout_backward);
  s.set_attribute(d);
  run(DropoutArgs{y.view(), s.view(0), d.key, d.call, d.p}, s.launch());
  return s.finish(std::move(y));
}

}  // namespace

Tensor dropout(const In& x, double p, bool training) {
  if (!(p >= 0 && p <= 1)) throw UsageError(str("[dropout] p must be in [0, 1], got ", p));
  if (!x.impl()) detail::use_of_undefined();
  if (!training || p == 0) {
    x.take();
    return x.is_rvalue() ? Tensor(x.give()) : Tensor(detail::retained(x.impl()));
  }
  Generator& g = generator();
  return dropout_with(x, Draw{g.key(RandomStream::dropout), g.next_call(RandomStream::dropout), p});
}

}  // namespace wt
