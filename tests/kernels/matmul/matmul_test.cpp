// Every variant of the matrix product on every device against a triple loop in double: odd sizes,
// strides, transposes, batches, bias, accumulation and row sums.
#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/tests/kernels/matmul/matmul_problems.h"

using namespace wt;
using namespace matmul_test;

namespace {

std::vector<Setting> every_isa_and_threads(const Setting& best) {
  std::vector<Setting> all;
  for (int isa = 0; isa <= best.isa; ++isa)
    for (int threads : {1, 3}) all.push_back({isa, threads});
  return all;
}

}  // namespace

TEST_CASE("matmul: every cpu variant against a triple loop in double") {
  if (!walks_cpu()) return;
  Tally tally(Device::cpu());
  for (DType t : kAll) {
    tally.check_all(shapes(t, kCpuSizes));
    tally.check_all(empty_problems(t));
    tally.check_all(batched_problems(t));
    if (is_floating(t)) tally.check_all(epilogue_problems(t));
  }
  tally.everyone_ran();
}

TEST_CASE("matmul: the cpu's vector kernels in the copies for older machines") {
  if (!walks_cpu()) return;
  const Setting before;
  Tally tally(Device::cpu());
  tally.settings.clear();
  for (int isa = 0; isa <= before.isa; ++isa) tally.settings.push_back({isa, 1});
  for (DType t : {DType::f64, DType::f32}) {
    tally.check_all(shapes(t, kCpuSizes));
    tally.check_all(empty_problems(t));
  }
  apply(before);
}

TEST_CASE("matmul: blocks, cache conflicts and threads of the packed kernel") {
  if (!walks_cpu()) return;
  const Setting before;
  Tally tally(Device::cpu());
  tally.settings = every_isa_and_threads(before);
  // Longer than a block; rows a multiple of 4 KiB apart, either way round; few rows.
  std::vector<Problem> all;
  const std::vector<std::vector<i64>> sizes = {{15, 150, 1030}, {29, 140, 1024}, {140, 15, 1024}};
  for (const auto& size : sizes)
    for (int flags = 0; flags < 4; ++flags)
      all.push_back({.m = size[0],
                     .n = size[1],
                     .k = size[2],
                     .ta = (flags & 1) != 0,
                     .tb = (flags & 2) != 0,
                     .pad = flags == 1 ? 3 : 0,
                     .bias = flags > 1,
                     .accumulate = flags == 2});
  all.push_back({.m = 15, .n = 70, .k = 1030, .dtype = DType::f64});
  all.push_back({.m = 70, .n = 15, .k = 1030, .dtype = DType::f64, .ta = true, .tb = true});
  tally.check_all(all);
  apply(before);
}

TEST_CASE("matmul: an OpenBLAS whose kernels are older than the processor is passed by") {
  // What openblas_get_corename() says on a fifth generation Xeon: it does not know it.
  CHECK(blas_is_behind("Prescott", kAvx512));
  CHECK(blas_is_behind("Nehalem", kAvx2));
  CHECK(blas_is_behind("Haswell", kAvx512));
  CHECK_FALSE(blas_is_behind("Haswell", kAvx2));
  CHECK_FALSE(blas_is_behind("Zen", kAvx512));
  CHECK_FALSE(blas_is_behind("SkylakeX", kAvx512));
  CHECK_FALSE(blas_is_behind("Prescott", kBaseline));
  // The large product that OpenBLAS would otherwise have.
  MatmulArgs g{};
  g.m = g.n = g.k = 1000;
  CHECK(matmul_packed_rank(g) == (cpu_isa() >= kAvx2 && blas_is_behind() ? 40 : 15));
}

TEST_CASE("matmul: few rows by a large matrix, in pieces and on threads") {
  if (!walks_cpu()) return;
  const Setting before;
  Tally tally(Device::cpu());
  tally.settings = every_isa_and_threads(before);
  std::vector<Problem> all;
  for (const DType t : {DType::f32, DType::f64, DType::f16, DType::bf16})
    for (i64 m = 1; m <= 4; ++m)
      for (int flags = 0; flags < 4; ++flags) {
        if (t == DType::f64 && m != 3) continue;
        all.push_back({.m = m,
                       .n = 301 + m,
                       .k = 127 + 3 * m,
                       .dtype = t,
                       .ta = (flags & 1) != 0,
                       .tb = (flags & 2) != 0,
                       .pad = flags == 3 ? 5 : 0,
                       .bias = flags % 2 == 0,
                       .accumulate = flags == 3,
                       .row_sum = flags > 1});
      }
  for (const DType t : {DType::f32, DType::bf16})
    for (const bool tb : {false, true})
      all.push_back({.m = 1, .n = 2100, .k = 20, .dtype = t, .tb = tb});
  for (const DType t : {DType::f16, DType::bf16})
    for (const bool tb : {false, true}) {
      all.push_back({.m = 2, .n = 70, .k = 33, .dtype = t, .tb = tb, .bias = true});
      all.back().activation = Activation::gelu_tanh;
      all.back().residual = all.back().aux = true;
      all.push_back({.m = 3, .n = 35, .k = 17, .dtype = t, .tb = tb, .accumulate = true});
      all.back().batch = {{2, 1, 1, 0}, {2, 1, 0, 1}};
    }
  tally.check_all(all);
  apply(before);
  // What a model that writes a token multiplies is theirs.
  MatmulArgs token{};
  token.m = 1;
  token.n = token.k = token.out_row = token.a_row = token.b_row = 768;
  CHECK(choose(token, Device::cpu()).name == std::string("few_rows"));
  for (const DType t : {DType::f16, DType::bf16}) {
    token.dtype = t;
    CHECK(choose(token, Device::cpu()).name == std::string("few_rows"));
  }
  token.m = 5;
  CHECK(choose(token, Device::cpu()).name != std::string("few_rows"));
}

namespace {

// a [1, 40] by b, each of whose columns is `column`, by few_rows: b as it lies or transposed.
std::vector<double> few_rows_of(const Tensor& a, const std::vector<double>& column, bool transposed,
                                i64 columns) {
  const VariantScope few_rows("matmul", "few_rows");
  const Tensor rows = tensor(column).to(a.dtype()).unsqueeze(0).expand({columns, 40}).contiguous();
  return (transposed ? matmul(a, rows.transpose(0, 1))
                     : matmul(a, rows.transpose(0, 1).contiguous()))
      .to(f64)
      .to_vector<double>();
}

}  // namespace

TEST_CASE("matmul: few rows of 16-bit floats are rounded once, and have infinities and NaN") {
  if (!walks_cpu()) return;
  const Setting before;
  constexpr double kInf = std::numeric_limits<double>::infinity();
  for (int isa = 0; isa <= before.isa; ++isa)
    for (const DType t : {DType::f16, DType::bf16})
      for (const bool transposed : {false, true})
        for (const i64 columns : {1, 16, 37}) {
          INFO("instruction set " << isa << " " << dtype_name(t) << " " << transposed);
          apply({isa, 1});
          const Tensor a = ones({1, 40}, {.dtype = t});
          const auto all = [&](double v) { return std::vector<double>(size_t(columns), v); };
          std::vector<double> column(40);
          // Neither type has 4097; f16's smallest number is 2^-24.
          column[0] = 4096, column[20] = 1, column[39] = -4096;
          CHECK(few_rows_of(a, column, transposed, columns) == all(1));
          column = std::vector<double>(40, std::ldexp(1, -24));
          CHECK(few_rows_of(a, column, transposed, columns) == all(40 * std::ldexp(1, -24)));
          column[33] = -kInf;
          CHECK(few_rows_of(a, column, transposed, columns) == all(-kInf));
          column[2] = kInf;
          for (const double x : few_rows_of(a, column, transposed, columns)) CHECK(std::isnan(x));
        }
  apply(before);
}

TEST_CASE("matmul: every variant of simt and cuda against a triple loop in double") {
  for (const Device d : wt_test::kernel_devices()) {
    if (d == Device::cpu()) continue;  // above, with more shapes
    INFO(to_string(d));
    if (!ContractTable<MatmulArgs>::rows[int(d.kind)]) SKIP_TEST("no kernels there");
    Tally tally(d);
    for (DType t : kAll) {
      tally.check_all(shapes(t, kDeviceSizes));
      tally.check_all(shapes(t, kAlignedSizes, true));
      tally.check_all(empty_problems(t));
      tally.check_all(batched_problems(t));
      if (is_floating(t)) tally.check_all(epilogue_problems(t));
    }
    for (DType t : {DType::f32, DType::bf16}) tally.check_all(large_epilogue_problems(t));
    tally.check_all(large_problems(DType::f32, {0, 3}));
    tally.check_all(large_problems(DType::f16, {0, 1, 2, 3}));
    tally.check_all(large_problems(DType::bf16, {2}));
    tally.check_all(long_problems());
    for (DType t : {DType::f32, DType::f16, DType::bf16}) tally.check_all(split_problems(t));
    tally.everyone_ran();
  }
}
