// The 16-bit copy that every rule's every variant writes beside the parameters.
#include "warptape/core/half.h"
#include "warptape/kernels/optim_rule.h"
#include "warptape/tests/kernels/optim/optim_buffers.h"

using namespace wt;
using namespace wt_test;

namespace {

template <class Args>
void check_copies(int states) {
  for (const DType t : {f16, bf16})
    for (const Sizes s : {Sizes{1, 0}, {300, 0}, {5003, 0}, {70'001, 0}, {300, 1}})
      for (const bool skipped : {false, true})
        for_each_variant<Args>([&](Device d, auto launch) {
          CAPTURE(dtype_name(t), s.n, s.skip, skipped);
          const Buffer param(numbers(s.n, 1), f32, d, s.skip),
              grad(numbers(s.n, 2), f32, d, s.skip);
          const Buffer half(Values(size_t(s.n), 55.0), t, d, s.skip);
          std::vector<Buffer> state;
          for (int k = 0; k < states; ++k)
            state.emplace_back(Values(size_t(s.n), 0.5), f32, d, s.skip);
          const OnDevice<OptimBlock> block(packed(OptimBlock{.lr = 0.1,
                                                             .weight_decay = 0.01,
                                                             .beta1 = 0.9,
                                                             .beta2 = 0.99,
                                                             .eps = 1e-8,
                                                             .alpha = 0.9,
                                                             .ema_decay = 0.9,
                                                             .rate = 0.1,
                                                             .bias1 = 0.5,
                                                             .bias2_sqrt = 0.5}),
                                           d);
          const OnDevice<i32> flag(skipped, d);
          Args a;
          a.param = param.data(), a.grad = grad.data(), a.n = s.n, a.block = block.get();
          for (int k = 0; k < states; ++k) a.state[k] = state[size_t(k)].data();
          a.flags.flag[0] = flag.get();
          a.half = half.data(), a.half_dtype = t;
          if (!launch(a)) return;
          Values want(size_t(s.n), 55.0);
          if (!skipped) {
            want = param.values();
            for (double& v : want)
              v = t == f16 ? double(float(Half(float(v)))) : double(float(BFloat16(float(v))));
            CHECK(param.values() != numbers(s.n, 1));
          }
          CHECK(half.values() == want);
        });
}

}  // namespace

TEST_CASE("rules write the rounded parameters beside them, unless the step is skipped") {
  check_copies<SgdStepArgs>(1);
  check_copies<AdamwStepArgs>(2);
  check_copies<AdamStepArgs>(2);
  check_copies<AdagradStepArgs>(1);
  check_copies<RmspropStepArgs>(3);
  check_copies<LionStepArgs>(1);
  check_copies<EmaStepArgs>(0);
  check_copies<NadamStepArgs>(2);
  check_copies<RadamStepArgs>(2);
  check_copies<AdamaxStepArgs>(2);
  check_copies<AdadeltaStepArgs>(2);
  check_copies<RpropStepArgs>(2);
  check_copies<MuonStepArgs>(2);
}

TEST_CASE("a 16-bit copy is of f32 parameters") {
  for_each_variant<AdamwStepArgs>([&](Device d, auto launch) {
    const OnDevice<OptimBlock> block(OptimBlock{}, d);
    const Buffer b(Values(4, 1.0), f64, d, 0);
    AdamwStepArgs a;
    a.param = b.data(), a.grad = b.data(), a.state[0] = a.state[1] = b.data();
    a.n = 4, a.dtype = f64, a.block = block.get(), a.half = b.data();
    CHECK(!launch(a));
  });
}
