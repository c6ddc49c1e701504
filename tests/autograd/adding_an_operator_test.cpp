// The operator of docs/adding_an_operator.md, with a contract of this file's own: x(a) = a^2 / 2,
// whose gradient is grad * a.
#include "warptape/autograd/backward.h"
#include "warptape/autograd/grad_check.h"
#include "warptape/autograd/op_scope.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/factories.h"
#include "warptape/core/operators.h"
#include "warptape/kernels/dispatch/run_erased.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/values.h"

namespace wt {
namespace page {
namespace {

struct XArgs {
  View y, x;  // f64, contiguous
  i64 bytes() const { return y.bytes() + x.bytes(); }
  i64 flops() const { return 2 * x.numel(); }
};

void x_reference(const XArgs& args, const Launch&) {
  const double* x = args.x.as<const double>();
  for (i64 i = 0; i < args.x.numel(); ++i) args.y.as<double>()[i] = x[i] * x[i] / 2;
}

constexpr Variant<XArgs> kRows[] = {{.name = "reference", .launch = x_reference}};
constexpr Variants<XArgs> kOnCpu{kRows, 1};

}  // namespace
}  // namespace page

template <>
struct ContractTable<page::XArgs> {
  static constexpr const char* kName = "x";
  static constexpr const Variants<page::XArgs>* rows[kNumDeviceKinds] = {&page::kOnCpu};
  static const detail::ErasedContract erased;
};
constinit const detail::ErasedContract ContractTable<page::XArgs>::erased =
    detail::erased_contract<page::XArgs>();

namespace page {

namespace info {
constexpr OpInfo x{.name = "x", .autocast = Autocast::f32};
}

namespace {
void x_backward(Backward& g) {  // written in differentiable operators
  if (g.wants(0)) g.put(0, g.take_grad() * g.saved(0));
}
}  // namespace

Tensor x(const In& a) {
  OpScope s(info::x, a);  // 1 checks, promotion, owner tag
  if (s.geometry(0).ndim < 1) s.fail<ShapeError>("needs at least one dimension");
  s.save_input(0);                              // 2 what backward will read
  Result y = s.result_like();                   // 3 outputs; takes over an rvalue's storage
  s.record(x_backward);                         // 4 the node, if anybody wants a gradient
  run(XArgs{y.view(), s.view(0)}, s.launch());  // 5 the best variant
  return s.finish(std::move(y));                // 6 edges, slots, versions: never throws
}

}  // namespace page
}  // namespace wt

using namespace wt;

TEST_CASE("the operator of docs/adding_an_operator.md has values, both derivatives and its error") {
  const Tensor a = leaf({3, -1.5, 0});
  const Tensor y = page::x(a);
  CHECK(values(y) == Values{4.5, 1.125, 0});
  sum(y).backward();
  CHECK(values(a.grad()) == Values{3, -1.5, 0});
  const auto f = [](std::span<const Tensor> in) { return sum(page::x(in[0])); };
  const GradCheck first = grad_check(f, {a}), second = grad_grad_check(f, {a});
  INFO(first.message << second.message);
  CHECK(first);
  CHECK(second);
  const std::string said = message_of([] { (void)page::x(tensor(1.0, {.dtype = f64})); });
  CHECK(said.starts_with("ShapeError: [x] needs at least one dimension"));
}
