// Attention through cuDNN's graphs, over a fake cuDNN on a fake runtime: values, what is built, and
// what it does not take.
#include "warptape/core/device.h"
#include "warptape/core/factories.h"
#include "warptape/core/tensor_impl.h"
#include "warptape/kernels/run.h"
#include "warptape/tests/kernels/cuda/cudnn_support.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/fake_cuda.h"
#include "warptape/tests/support/fake_cudnn.h"
#include "warptape/tests/support/variants.h"

using namespace wt;
using wt_test::Environment;
using wt_test::FakeCuda;
using wt_test::FakeCudnn;
using wt_test::worst;

namespace {

const Device kCuda = Device::cuda(0);

struct Case {
  const char* name;
  i64 batch, heads, groups, queries, keys, depth, width;
  bool causal = false;
  bool turned = false;  // memory is [batch, rows, heads, elements]
  DType type = DType::f16;
};

// A tensor [batch, heads, rows, elements] and the memory that it lies in.
struct Laid {
  Tensor memory, seen;
  View view() const { return view_of(seen.impl()); }
  std::vector<double> values() const {
    return memory.to(Device::cpu()).to(f64).to_vector<double>();
  }
};
Laid operand(const Case& c, i64 heads, i64 rows, i64 elements, u64 seed, Device d) {
  const i64 n = c.batch * heads * rows * elements;
  Laid o;
  o.memory = tensor(wt_test::random_values(n, seed)).to(c.type).to(d);
  o.seen = c.turned ? o.memory.reshape({c.batch, rows, heads, elements}).transpose(1, 2)
                    : o.memory.reshape({c.batch, heads, rows, elements});
  return o;
}

struct Results {
  std::vector<double> out, lse, gq, gk, gv;
};
Results both_passes(const Case& c, bool with_lse, Device d) {
  const bool cudnn = d.kind == DeviceKind::cuda;
  const Launch l{.device = d};
  const Laid q = operand(c, c.heads, c.queries, c.depth, 1, d),
             k = operand(c, c.groups, c.keys, c.depth, 2, d),
             v = operand(c, c.groups, c.keys, c.width, 3, d);
  AttentionScores s{.q = q.view(), .k = k.view(), .mask = {}};
  s.scale = 0.7, s.causal = c.causal;
  const auto rows = [&] {
    return tensor(wt_test::random_values(c.batch * c.heads * c.queries, 4))
        .to(f32)
        .to(d)
        .reshape({c.batch, c.heads, c.queries});
  };
  Results r;
  {
    const Laid out = operand(c, c.heads, c.queries, c.width, 5, d);
    const Tensor lse = rows();
    const AttentionForwardArgs a{out.view(), with_lse ? view_of(lse.impl()) : View{}, v.view(), s};
    if (cudnn) REQUIRE(attention_forward_cudnn_why_not(a) == nullptr);
    cudnn ? attention_forward_cudnn(a, l) : run(a, l);
    r.out = out.values();
    r.lse = lse.to(Device::cpu()).to(f64).to_vector<double>();
  }
  // The backward's operands are the same on both devices.
  Laid out = operand(c, c.heads, c.queries, c.width, 5, Device::cpu());
  Tensor lse = full({c.batch, c.heads, c.queries}, 0, {.dtype = f32});
  {
    const Device cpu = Device::cpu();
    const Laid q = operand(c, c.heads, c.queries, c.depth, 1, cpu),
               k = operand(c, c.groups, c.keys, c.depth, 2, cpu),
               v = operand(c, c.groups, c.keys, c.width, 3, cpu);
    AttentionScores on_cpu = s;
    on_cpu.q = q.view(), on_cpu.k = k.view();
    run(AttentionForwardArgs{out.view(), view_of(lse.impl()), v.view(), on_cpu},
        Launch{.device = cpu});
  }
  Laid there = operand(c, c.heads, c.queries, c.width, 5, d);
  there.memory = out.memory.to(d);
  there.seen = c.turned
                   ? there.memory.reshape({c.batch, c.queries, c.heads, c.width}).transpose(1, 2)
                   : there.memory.reshape({c.batch, c.heads, c.queries, c.width});
  const Tensor lse_there = lse.to(d);
  const Laid gout = operand(c, c.heads, c.queries, c.width, 6, d),
             gq = operand(c, c.heads, c.queries, c.depth, 7, d),
             gk = operand(c, c.groups, c.keys, c.depth, 8, d),
             gv = operand(c, c.groups, c.keys, c.width, 9, d);
  const AttentionBackwardArgs a{
      gq.view(), gk.view(), gv.view(), gout.view(), there.view(), view_of(lse_there.impl()),
      v.view(),  s};
  if (cudnn) {
    REQUIRE(attention_backward_cudnn_why_not(a) == nullptr);
    const Tensor workspace =
        full({attention_backward_cudnn_workspace(a) / 4}, 7, {.dtype = f32}).to(d);
    attention_backward_cudnn(a, Launch{.workspace = workspace.impl()->data, .device = d});
  } else {
    run(a, l);
  }
  r.gq = gq.values(), r.gk = gk.values(), r.gv = gv.values();
  return r;
}

const Case kCases[] = {
    {"plain", 2, 3, 3, 5, 7, 8, 16},
    {"causal", 1, 2, 2, 6, 6, 16, 8, true},
    {"more queries than keys", 1, 2, 2, 7, 4, 8, 8, true},
    {"shared keys", 2, 4, 2, 5, 6, 8, 8, true, true},
    {"one group", 1, 3, 1, 4, 5, 8, 8, false, true, DType::bf16},
    {"single query", 1, 2, 2, 1, 9, 8, 8},
    {"single key", 2, 1, 1, 3, 1, 8, 8, true},
};

}  // namespace

TEST_CASE("cudnn: attention's two passes") {
  const Environment off("WT_CUDNN_PLANS", "off");
  FakeCuda cuda;
  FakeCudnn cudnn;
  for (const Case& c : kCases)
    for (const bool with_lse : {true, false}) {
      CAPTURE(c.name, with_lse);
      const int before = cudnn.calls("execute");
      const Results cpu = both_passes(c, with_lse, Device::cpu()),
                    gpu = both_passes(c, with_lse, kCuda);
      CHECK(cudnn.calls("execute") == before + 2);
      const double bound = c.type == DType::f16 ? 1e-2 : 6e-2;
      CHECK(worst(cpu.out, gpu.out) < bound);
      CHECK(worst(cpu.lse, gpu.lse) < 1e-4);
      CHECK(worst(cpu.gq, gpu.gq) < bound);
      CHECK(worst(cpu.gk, gpu.gk) < bound);
      CHECK(worst(cpu.gv, gpu.gv) < bound);
    }
  CHECK(cudnn.violations() == std::vector<std::string>{});
  CHECK(cuda.violations() == std::vector<std::string>{});
}

TEST_CASE("cudnn: attention that it does not take") {
  const Environment off("WT_CUDNN_PLANS", "off");
  FakeCuda cuda;
  FakeCudnn cudnn;
  const Case c = kCases[0];
  const Laid q = operand(c, c.heads, c.queries, c.depth, 1, kCuda),
             k = operand(c, c.groups, c.keys, c.depth, 2, kCuda),
             v = operand(c, c.groups, c.keys, c.width, 3, kCuda),
             out = operand(c, c.heads, c.queries, c.width, 4, kCuda);
  AttentionForwardArgs a{out.view(), {}, v.view(), {.q = q.view(), .k = k.view(), .mask = {}}};
  REQUIRE(attention_forward_cudnn_why_not(a) == nullptr);
  const auto refuses = [&](auto change, const char* why) {
    AttentionForwardArgs changed = a;
    std::vector<Laid> keep;
    change(changed, keep);
    const char* said = attention_forward_cudnn_why_not(changed);
    REQUIRE(said != nullptr);
    CHECK(std::string(said) == why);
  };
  const auto other = [&](Case like, i64 elements, std::vector<Laid>& keep) {
    keep.push_back(operand(like, like.heads, like.queries, elements, 1, kCuda));
    return keep.back().view();
  };
  refuses(
      [&](auto& x, auto& keep) {
        Case f = c;
        f.type = DType::f32;
        x.scores.q = other(f, c.depth, keep);
      },
      "takes f16 and bf16 only");
  refuses([&](auto& x, auto&) { x.scores.mask = q.view(); }, "takes no mask beside the causal one");
  refuses([&](auto& x, auto&) { x.scores.threshold = 5; },
          "drops nothing out: cuDNN would draw other numbers");
  refuses([&](auto& x, auto& keep) { x.scores.q = other(c, 12, keep); },
          "takes heads of 8, 16, 24 ... 128 elements only");
  refuses([&](auto& x, auto& keep) { x.scores.q = other(c, 136, keep); },
          "takes heads of 8, 16, 24 ... 128 elements only");
  refuses([&](auto& x, auto&) { x.out.data = static_cast<char*>(x.out.data) + 2; },
          "takes rows without gaps that begin at multiples of 16 bytes only");
  refuses(
      [&](auto& x, auto& keep) {
        Laid turned = operand(c, c.heads, c.depth, c.queries, 1, kCuda);
        turned.seen = turned.seen.transpose(2, 3);
        keep.push_back(turned);
        x.scores.q = keep.back().view();
      },
      "takes rows without gaps that begin at multiples of 16 bytes only");
  CHECK(cudnn.calls("execute") == 0);

  // Nothing in the graph but a plan that repeats itself; scale is no part of it.
  for (const double scale : {0.5, 0.25}) {
    a.scores.scale = scale;
    attention_forward_cudnn(a, Launch{.device = kCuda});
  }
  CHECK(cudnn.calls("plan") == 1);
  CHECK(cudnn.calls("execute") == 2);
  CHECK(
      cudnn.last() ==
      "matmul pointwise1 max pointwise9 pointwise13 sum pointwise15 pointwise0 pointwise6 matmul");
  CHECK(cudnn.violations() == std::vector<std::string>{});
}
