// Attention, pooling and batch norm as the real cuDNN plans and compiles them for an H100
// (cudnn_described.h).
#include "warptape/core/device.h"
#include "warptape/kernels/contract.h"
#include "warptape/tests/kernels/cuda/cudnn_described.h"
#include "warptape/tests/support/catch.h"

using namespace wt;
using wt_test::DescribedH100;
using wt_test::image_at;

namespace {

const Launch kLaunch{.workspace = reinterpret_cast<void*>(u64{1} << 40), .device = Device::cuda(0)};

// An operand that is never touched: a place in memory of its own, sizes and the order of its axes
// from the outermost inwards.
struct Operand {
  Geometry g{};
  void* data = nullptr;
  Operand(DType t, std::vector<i64> sizes, std::vector<int> order = {}) {
    static u64 next = u64{1} << 41;
    data = reinterpret_cast<void*>(next += u64{1} << 32);
    g.dtype = t, g.ndim = u8(sizes.size());
    for (int d = 0; d < g.ndim; ++d) g.shape[d] = sizes[size_t(d)];
    i64 stride = 1;
    for (int i = g.ndim - 1; i >= 0; --i) {
      const int d = order.empty() ? i : order[size_t(i)];
      g.strides[d] = stride, stride *= g.shape[d];
    }
    finish_geometry(g);
  }
  View view() const { return {data, &g}; }
};

struct Heads {
  const char* name;
  i64 heads, groups, queries, keys, depth, width;
  bool causal = false, turned = false;
};

void plan_attention(const Heads& c, DType t, bool with_lse) {
  const std::vector<int> order = c.turned ? std::vector<int>{0, 2, 1, 3} : std::vector<int>{};
  const Operand q(t, {2, c.heads, c.queries, c.depth}, order),
      k(t, {2, c.groups, c.keys, c.depth}, order), v(t, {2, c.groups, c.keys, c.width}, order),
      out(t, {2, c.heads, c.queries, c.width}, order), lse(f32, {2, c.heads, c.queries});
  AttentionScores s{.q = q.view(), .k = k.view(), .mask = {}};
  s.causal = c.causal;
  const AttentionForwardArgs f{out.view(), with_lse ? lse.view() : View{}, v.view(), s};
  REQUIRE(attention_forward_cudnn_why_not(f) == nullptr);
  attention_forward_cudnn(f, kLaunch);
  if (!with_lse) return;
  const AttentionBackwardArgs b{q.view(),   k.view(),   v.view(), out.view(),
                                out.view(), lse.view(), v.view(), s};
  REQUIRE(attention_backward_cudnn_why_not(b) == nullptr);
  attention_backward_cudnn(b, kLaunch);
}

}  // namespace

TEST_CASE("cudnn: the real library compiles attention for an H100") {
  const wt_test::CompilingTest test;
  if (test.h100.why_not()) SKIP_TEST(test.h100.why_not());
  const Heads cases[] = {
      {"square", 8, 8, 512, 512, 64, 64},
      {"causal, rows first", 8, 8, 512, 512, 128, 128, true, true},
      {"groups", 8, 2, 256, 256, 64, 64, true, true},
      {"odd", 3, 1, 100, 77, 40, 24},
      {"more queries than keys", 2, 2, 77, 50, 8, 8, true},
      {"one query", 4, 4, 1, 300, 64, 64},
      {"one key", 4, 4, 3, 1, 64, 64},
  };
  int graphs = 0;
  for (const Heads& c : cases) {
    CAPTURE(c.name);
    plan_attention(c, graphs % 4 ? bf16 : f16, true);
    graphs += 2;
  }
  plan_attention(cases[1], f16, false);
  CHECK(DescribedH100::executed() == graphs + 1);
  for (const std::string& line : wt_test::warnings()) WARN(line);
  CHECK(wt_test::warnings().empty());
}

TEST_CASE("cudnn: the real library compiles pooling for an H100") {
  const wt_test::CompilingTest test;
  if (test.h100.why_not()) SKIP_TEST(test.h100.why_not());
  int graphs = 0;
  for (const DType t : {f32, f16})
    for (const bool last : {false, true})
      for (const bool inside : {false, true})
        for (const int axes : {2, 3}) {
          // With and without the padding in crosswise: it is a flag of the same engines.
          if (inside != ((t == f16) == (axes == 3))) continue;
          CAPTURE(int(t), last, inside, axes);
          PoolShape s;
          s.batch = 4, s.channels = 32, s.dtype = t, s.count_padding = !inside;
          for (int d = 0; d < 3; ++d) {
            const bool missing = d < 3 - axes;
            s.in[d] = missing ? 1 : 15, s.out[d] = missing ? 1 : 8;
            s.kernel[d] = missing ? 1 : last ? 2 : 3, s.stride[d] = missing ? 1 : 2;
            s.padding[d] = !missing, s.dilation[d] = 1;
          }
          const ConvTensor x = image_at(1 << 20, s.channels, s.in, last),
                           y = image_at(1 << 24, s.channels, s.out, last);
          // With channels last the engine that takes a gradient, or three axes, may use tensor
          // cores by its notes, and nobody says for what: not in f32.
          const bool whole = last && t == f32;
          if (!whole || axes == 2) {
            const AvgPoolForwardArgs f{s, y, x};
            REQUIRE(avg_pool_forward_cudnn_why_not(f) == nullptr);
            avg_pool_forward_cudnn(f, kLaunch);
            const MaxPoolForwardArgs m{s, y, {}, {}, x};
            REQUIRE(max_pool_forward_cudnn_why_not(m) == nullptr);
            max_pool_forward_cudnn(m, kLaunch);
            graphs += 2;
          }
          if (!whole) {
            const AvgPoolBackwardArgs b{s, x, y};
            REQUIRE(avg_pool_backward_cudnn_why_not(b) == nullptr);
            avg_pool_backward_cudnn(b, kLaunch);
            ++graphs;
          }
        }
  CHECK(DescribedH100::executed() == graphs);
  CHECK(wt_test::warnings().empty());
}

TEST_CASE("cudnn: the real library compiles batch norm for an H100") {
  const wt_test::CompilingTest test;
  if (test.h100.why_not()) SKIP_TEST(test.h100.why_not());
  int graphs = 0;
  for (const DType t : {f32, bf16})
    for (const bool columns : {false, true})
      for (const i64 inside : {196, 1})
        for (const bool whole : {false, true}) {
          // The dtype crosswise: the other three choose the graph.
          if ((t == bf16) != (columns != (inside == 1) != whole)) continue;
          CAPTURE(int(t), columns, inside, whole);
          const std::vector<int> order =
              columns ? std::vector<int>{0, 2, 1} : std::vector<int>{0, 1, 2};
          const Operand x(t, {8, 64, inside}, order), y(t, {8, 64, inside}, order),
              gy(t, {8, 64, inside}, order), stats(f32, {3, 64}), sums(f32, {2, 64}),
              weight(t, {64}), bias(t, {64});
          const ChannelNormForwardArgs f{y.view(),
                                         x.view(),
                                         stats.view(),
                                         whole ? weight.view() : View{},
                                         whole ? bias.view() : View{},
                                         0};
          REQUIRE(channel_norm_forward_cudnn_why_not(f) == nullptr);
          channel_norm_forward_cudnn(f, kLaunch);
          const ChannelNormBackwardArgs b{y.view(),
                                          gy.view(),
                                          x.view(),
                                          stats.view(),
                                          whole ? weight.view() : View{},
                                          whole ? sums.view() : View{},
                                          0};
          REQUIRE(channel_norm_backward_cudnn_why_not(b) == nullptr);
          channel_norm_backward_cudnn(b, kLaunch);
          graphs += 2;
        }
  CHECK(DescribedH100::executed() == graphs);
  CHECK(wt_test::warnings().empty());
}
