// The matrix product in every order of blocks: the same bits, and which variant is the default.
#include "warptape/tests/kernels/matmul/matmul_problems.h"

using namespace wt;
using namespace matmul_test;

namespace {

const Variant<MatmulArgs>& simt_variant(const char* name) {
  const Variants<MatmulArgs>& list = *ContractTable<MatmulArgs>::rows[int(DeviceKind::simt)];
  for (int i = 0; i < list.count; ++i)
    if (std::string(list.rows[i].name) == name) return list.rows[i];
  throw UsageError(str("no variant ", name));
}

// The bits that a variant of simt writes, of the row sums too.
std::vector<u64> bits_of(const Setup& s, const char* variant) {
  const Device d = Device::simt();
  const Buffer out(s.out.values, s.p.dtype, d), sums(s.row_sum.values, s.p.dtype, d);
  MatmulArgs g = s.args;
  g.out = out.data();
  if (g.row_sum) g.row_sum = sums.data();
  const Variant<MatmulArgs>& v = simt_variant(variant);
  REQUIRE(refusal(v, g, d) == nullptr);
  const Tensor workspace =
      empty({v.workspace ? v.workspace(g) : 1}, {.dtype = DType::u8, .device = d});
  v.launch(g, {.workspace = workspace.impl()->data, .device = d});
  std::vector<u64> all;  // padding is NaN, which is not equal to itself
  for (const Tensor& t : {out.tensor, sums.tensor})
    for (const double x : t.to_vector<double>()) all.push_back(std::bit_cast<u64>(x));
  return all;
}

// The same bits, in whatever order blocks and warps run.
void check_orders(const Setup& s, const char* variant) {
  const SimtOptions before = simt_options();
  const std::vector<u64> first = bits_of(s, variant);
  for (const SimtOrder order : {SimtOrder::reverse, SimtOrder::random, SimtOrder::forward}) {
    simt_options().order = order;
    CHECK(bits_of(s, variant) == first);
  }
  simt_options() = before;
}

}  // namespace

TEST_CASE("matmul: k in parts gives the same bits in every order, and where it is the default") {
  if (!ContractTable<MatmulArgs>::rows[int(DeviceKind::simt)]) SKIP_TEST("no simt here");
  for (const DType t : {DType::f32, DType::f16}) {
    const Setup s = set_up({.m = 70,
                            .n = 66,
                            .k = 1033,
                            .dtype = t,
                            .ta = true,
                            .align = true,
                            .bias = true,
                            .row_sum = true},
                           Device::simt());
    INFO(text(s.p));
    check_orders(s, "split_k");
    if (t == DType::f16) check_orders(s, "pipelined_split_k");
    CHECK(std::string(choose(s.args, Device::simt()).name) == "split_k");  // four parts
  }
  // Two parts may not be worth the second kernel: only who names it gets it. Products of one part,
  // of a short k or of tiles that fill a GPU by themselves, have the lowest rank.
  MatmulArgs g;
  g.m = g.n = 64, g.k = 512;
  const auto rank = [&] { return simt_variant("split_k").rank_of(g); };
  CHECK(rank() == 5);
  CHECK(std::string(choose(g, Device::simt()).name) == "tiled");
  g.k = 511;
  CHECK(rank() == 0);
  g.k = 4096, g.m = g.n = 64 * 12;  // 144 tiles: two blocks each would be more than 264
  CHECK(rank() == 0);
  g.m = g.n = 64 * 11;
  CHECK(rank() == 5);
  g.m = g.n = 64 * 8;
  CHECK(rank() == 55);
}

TEST_CASE("matmul: an epilogue in the kernel gets sums that were not rounded") {
  if (!ContractTable<MatmulArgs>::rows[int(DeviceKind::simt)]) SKIP_TEST("no simt here");
  const Device d = Device::simt();
  // 2048 + 1 - 2048: f16 has no 2049, so that a pass behind the product makes 0 of it.
  std::vector<double> rows(64);
  for (size_t i = 0; i < 8; ++i) rows[8 * i] = 2048, rows[8 * i + 1] = 1;
  const Tensor a = tensor(rows).to(f16).to(d), b = ones({8, 8}, {.dtype = f16, .device = d});
  const Tensor residual = full({8, 8}, -2048, {.dtype = f16, .device = d});
  for (const char* rung : {"naive", "tiled", "tensor_core", "pipelined", "hopper"}) {
    INFO(rung);
    const Tensor out = empty({8, 8}, {.dtype = f16, .device = d});
    MatmulArgs g;
    g.out = out.impl()->data, g.a = a.impl()->data, g.b = b.impl()->data;
    g.m = g.n = g.k = g.a_row = g.b_row = g.out_row = 8;
    g.a_column = g.b_column = 1;
    g.dtype = f16;
    g.epilogue.residual = residual.impl()->data;
    g.epilogue.activation = Activation::relu;
    const Variant<MatmulArgs>& v = simt_variant(rung);
    REQUIRE(refusal(v, g, d) == nullptr);
    v.launch(g, {.device = d});
    CHECK(out.to_vector<double>() == std::vector<double>(64, 1));
  }
}

TEST_CASE("matmul: Hopper's rung gives the same bits in every order, and only to who names it") {
  if (!ContractTable<MatmulArgs>::rows[int(DeviceKind::simt)]) SKIP_TEST("no simt here");
  // One stage, all of them, and a second and third round; tiles that end in the middle.
  for (const i64 k : {8, 64, 192, 200, 456})
    for (const DType t : {DType::f16, DType::bf16}) {
      const bool ta = k % 3 == 0, tb = k % 64 == 0;
      const Problem p{
          .m = 130, .n = 72, .k = k, .dtype = t, .ta = ta, .tb = tb, .align = true, .bias = true};
      const Setup s = set_up(p, Device::simt());
      INFO(text(p));
      check_orders(s, "hopper");
      CHECK(std::string(choose(s.args, Device::simt()).name) != "hopper");
      if (ta) continue;
      Problem ends = p;
      ends.activation = Activation::silu, ends.residual = ends.aux = true;
      check_orders(set_up(ends, Device::simt()), "hopper");
    }
  // In the words of a user who named it on another GPU.
  const MatmulArgs any{};
  const Variant<MatmulArgs>& rung = simt_variant("hopper");
  const auto refuses = [&](const DeviceLimits& d, const char* why) {
    const char* said = rung.why_not_on(any, d);
    CHECK(std::string(said ? said : "").find(why) != std::string::npos);
  };
  refuses({8, 0, 108, 163 * 1024}, "compute capability 9.0");
  refuses({10, 0, 148, 227 * 1024}, "compute capability 9.0");
  refuses({9, 0, 132, 48 * 1024}, "shared memory");
  CHECK(rung.why_not_on(any, {9, 0, 132, 227 * 1024}) == nullptr);
  CHECK(rung.rank_of(any) == 0);
}
