// Squared error on the cpu.
#include "warptape/kernels/mse.h"

#include "warptape/kernels/common/dtypes.h"
#include "warptape/kernels/common/strided.h"
#include "warptape/kernels/loss/mse_cpu.h"

namespace wt {
namespace {

// Each run of the innermost loop is summed in the accumulator, the runs in double.
void forward_reference(const MseForwardArgs& args, const Launch&) {
  const LoopNest<2> nest = loop_nest({args.a, args.b});
  const i64 n = nest.inner(), as = nest.inner_stride(0), bs = nest.inner_stride(1);
  dispatch_floating(args.a.dtype(), [&]<class T>() {
    using A = ComputeType<T>;
    double sum = 0;
    for_each_row(nest, [&](const i64(&at)[2]) {
      const T* a = args.a.as<const T>() + at[0];
      const T* b = args.b.as<const T>() + at[1];
      for (i64 i = 0; i < n; ++i) {
        const A d = A(a[i * as]) - A(b[i * bs]);
        sum += double(d) * double(d);
      }
    });
    *args.loss_sum.as<A>() = A(sum);
    *args.weight.as<A>() = A(args.a.numel());
  });
}

void backward_reference(const MseBackwardArgs& args, const Launch&) {
  const LoopNest<3> nest = loop_nest({args.ga, args.a, args.b});
  const i64 n = nest.inner(), gs = nest.inner_stride(0), as = nest.inner_stride(1),
            bs = nest.inner_stride(2);
  dispatch_floating(args.a.dtype(), [&]<class T>() {
    using A = ComputeType<T>;
    const A scale = A(args.factor) * *args.grad.as<const A>();
    for_each_row(nest, [&](const i64(&at)[3]) {
      T* g = args.ga.as<T>() + at[0];
      const T* a = args.a.as<const T>() + at[1];
      const T* b = args.b.as<const T>() + at[2];
      for (i64 i = 0; i < n; ++i) g[i * gs] = T(scale * (A(a[i * as]) - A(b[i * bs])));
    });
  });
}

}  // namespace

WT_VARIANTS(cpu, mse_forward, MseForwardArgs,
            WT_AVX2_ROW(.name = "avx2", .rank = 20, .why_not = mse_forward_why_not,
                        .launch = mse_forward_avx2)  //
            {.name = "reference", .rank = 10, .launch = forward_reference});
WT_VARIANTS(cpu, mse_backward, MseBackwardArgs,
            WT_AVX2_ROW(.name = "avx2", .rank = 20, .why_not = mse_backward_why_not,
                        .launch = mse_backward_avx2)  //
            {.name = "reference", .rank = 10, .launch = backward_reference});

}  // namespace wt
