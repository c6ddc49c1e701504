// What must and what must not compile. check.sh compiles this file as it is, which must work, and
// once for each `#ifdef WT_TRAP_x` (and -Werror=unused-result), which must fail, in the trap's own
// line; what stands behind `// error:` must be part of what the compiler says.
#include <warptape/autograd/engine.h>
#include <warptape/autograd/loss.h>
#include <warptape/autograd/ops.h>
#include <warptape/core/factories.h>

#include <vector>

using namespace wt;

void must_compile(Tensor x, Tensor y, const std::vector<int>& v) {
  Tensor a = sum(x, 0);  // one conversion hop
  a = sum(x);
  a = sum(x, {});
  a = sum(x, {0, -1}, {.keep_dim = true});
  a = zeros({v.size(), 10});  // no narrowing
  a = tensor({1, 2.5});
  a = relu(x);
  a = x + 2;
  a = 2 + x;
  a = 1.5 * -x / y;
  a = maximum(x, 0);
  a = eq(x, y);
  a = x[0];
  x.index_put_({0}, y);
  x.add_(y);              // in place: nothing to forget
  a = add(x, y).relu_();  // a value from an rvalue
  if (x.defined()) a = grad(sum(x), x);
  const std::vector<Tensor> g = grads({sum(x)}, {x, y}, {.allow_unused = true});
  const Loss loss = mse_loss(x, y);
  a = loss + 1;
  const Loss scaled = 0.5 * loss;
  scaled.backward();
}

void must_not_compile(Tensor x, Tensor y) {
#ifdef WT_TRAP_bool_as_axis
  // error: Dims
  (void)sum(x, true);
#endif
#ifdef WT_TRAP_bool_among_axes
  // error: Dims
  (void)sum(x, {true});
#endif
#ifdef WT_TRAP_bool_as_dims
  // error: conver
  Dims dims = true;
  (void)dims;
#endif
#ifdef WT_TRAP_assign_to_element
  // error: operator=
  x[0] = y;
#endif
#ifdef WT_TRAP_assign_number_to_element
  // error: operator=
  x[0] = 1.0;
#endif
#ifdef WT_TRAP_function_of_number
  // error: In
  (void)relu(2.0);
#endif
#ifdef WT_TRAP_reduction_of_number
  // error: In
  (void)sum(2.0);
#endif
#ifdef WT_TRAP_compare_in_condition
  // error: operator==
  if (x == y) return;
#endif
#ifdef WT_TRAP_compare_with_number
  // error: operator==
  if (x == 0) return;
#endif
#ifdef WT_TRAP_less_in_condition
  // error: operator<
  if (x < y) return;
#endif
#ifdef WT_TRAP_tensor_as_condition
  // error: bool
  if (x) return;
#endif
#ifdef WT_TRAP_not_tensor
  // error: operator!
  if (!x) return;
#endif
#ifdef WT_TRAP_discarded_result
  // error: nodiscard
  relu(x);
#endif
#ifdef WT_TRAP_discarded_sum
  // error: nodiscard
  x + y;
#endif
#ifdef WT_TRAP_discarded_to
  // error: nodiscard
  x.to(Device::cpu());
#endif
#ifdef WT_TRAP_discarded_loss
  // error: nodiscard
  mse_loss(x, y);
#endif
#ifdef WT_TRAP_copied_operand
  // error: deleted
  const In a(x), b(a);
#endif
#ifdef WT_TRAP_ragged_floats_as_shape
  // error: Shape
  (void)zeros({2.5, 3});
#endif
  (void)x, (void)y;
}
