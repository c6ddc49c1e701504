// What a step of each optimizer reads and writes on simt, counted access by access, against the
// count by hand: one read and one write a value.
#include "warptape/kernels/muon.h"
#include "warptape/kernels/optim_rule.h"
#include "warptape/kernels/simt/counters.h"
#include "warptape/tests/kernels/optim/optim_buffers.h"

using namespace wt;
using namespace wt_test;

namespace {

constexpr i64 kElements = i64{1} << 15;

template <class Args>
SimtKernelCounts counted(const Args& a) {
  simt_start_counting();
  run(a, Launch{.device = Device::simt()});
  const std::vector<SimtKernelCounts> all = simt_stop_counting(false);
  REQUIRE(all.size() == 1);
  return all[0];
}

// Bytes a parameter of f32: `read` and `written` by hand. The block's scalars, the factor and the
// flag are some sectors more for the whole launch.
void check_bytes(const SimtKernelCounts& k, i64 read, i64 written) {
  CAPTURE(k.kernel, k.read, k.written);
  CHECK(i64(k.read) >= kElements * read);
  CHECK(i64(k.read) <= kElements * read + 512);
  CHECK(i64(k.written) == kElements * written);
}

// `states`: a bit for each that is there.
template <class Args>
void check_rule_bytes(unsigned states, i64 read, i64 written) {
  const Device d = Device::simt();
  const Values x(size_t(kElements), 0.5);
  const Buffer p(x, f32, d, 0), g(x, f32, d, 0);
  std::vector<Buffer> state;
  for (int k = 0; k < kRuleStates; ++k) state.emplace_back(x, f32, d, 0);
  const OnDevice<OptimBlock> block(packed({.beta1 = 0.5, .beta2 = 0.5, .eps = 1}), d);
  const OnDevice<double> factor(0.5, d);
  const OnDevice<i32> lowered(0, d), raised(1, d);
  Args a;
  a.param = p.data();
  a.grad = g.data();
  for (int k = 0; k < kRuleStates; ++k)
    if (states >> k & 1) a.state[k] = state[size_t(k)].data();
  a.n = kElements;
  a.block = block.get();
  a.grad_factor = factor.get();
  a.flags.flag[0] = lowered.get();
  CAPTURE(ContractTable<Args>::kName, states);
  CHECK(a.bytes() == kElements * (read + written));
  check_bytes(counted(a), read, written);
  a.flags.flag[1] = raised.get();
  CHECK(counted(a).written == 0);
}

}  // namespace

TEST_CASE("bytes a parameter: every rule reads and writes each value once") {
  if (!simt_can_count()) SKIP_TEST("kernels are not instrumented in this flavour");
  check_rule_bytes<SgdStepArgs>(0, 8, 4);
  check_rule_bytes<SgdStepArgs>(1, 12, 8);
  check_rule_bytes<AdamwStepArgs>(3, 16, 12);  // 28 bytes a parameter
  check_rule_bytes<AdamwStepArgs>(7, 20, 16);
  check_rule_bytes<AdamStepArgs>(3, 16, 12);
  check_rule_bytes<AdamStepArgs>(7, 20, 16);
  check_rule_bytes<AdagradStepArgs>(1, 12, 8);
  check_rule_bytes<RmspropStepArgs>(1, 12, 8);
  check_rule_bytes<RmspropStepArgs>(3, 16, 12);
  check_rule_bytes<RmspropStepArgs>(7, 20, 16);
  check_rule_bytes<LionStepArgs>(1, 12, 8);
  check_rule_bytes<NadamStepArgs>(3, 16, 12);
  check_rule_bytes<RadamStepArgs>(3, 16, 12);
  check_rule_bytes<AdamaxStepArgs>(3, 16, 12);
  check_rule_bytes<AdadeltaStepArgs>(3, 16, 12);
  check_rule_bytes<RpropStepArgs>(3, 16, 12);
  check_rule_bytes<EmaStepArgs>(0, 8, 4);
  check_rule_bytes<MuonStepArgs>(3, 16, 8);  // the direction is only read
}

TEST_CASE("bytes an element: Muon's elementwise kernels") {
  if (!simt_can_count()) SKIP_TEST("kernels are not instrumented in this flavour");
  const Device d = Device::simt();
  const Values x(size_t(kElements), 0.5);
  const Buffer out(x, f32, d, 0), a(x, f32, d, 0), b(x, f32, d, 0);
  const OnDevice<OptimBlock> block(packed({.momentum = 0.5}), d);
  const OnDevice<double> norm(4, d);
  check_bytes(counted(MuonDirectionArgs{out.data(), a.data(), b.data(), kElements, f32, block.get(),
                                        norm.get(), true}),
              8, 4);
  check_bytes(counted(MuonNormalizeArgs{out.data(), a.data(), kElements, f32, norm.get(), 1, 1e-7}),
              4, 4);
  const i64 rows = 128;
  const SimtKernelCounts k = counted(MuonPolynomialArgs{out.data(), a.data(), rows, f32, 3, -4, 2});
  CHECK(i64(k.read) == rows * rows * 8);
  CHECK(i64(k.written) == rows * rows * 4);
}
