// The vector code of the cpu's matrix products, compiled for three instruction sets: the variant
// for small products, which packs nothing, and the inner kernels of the packed one.
#include <algorithm>
#include <utility>

#include "warptape/core/device.h"
#include "warptape/kernels/cpu/packed_tile.h"
#include "warptape/kernels/cpu/threads.h"
#include "warptape/kernels/matmul/matmul_cpu.h"

#define WT_ISA_BODY "warptape/kernels/matmul/matmul_packed_cpu.inc"
#include "warptape/kernels/cpu/vector_isa.inc"

namespace wt {

namespace {

template <class T>
constexpr PackedKernels<T> kPacked[3] = {baseline::packed_kernels<T>(), avx2::packed_kernels<T>(),
                                         avx512::packed_kernels<T>()};

using Kernel = void (*)(const MatmulArgs&);
constexpr Kernel kMultiply[2][3] = {
    {baseline::multiply<float>, avx2::multiply<float>, avx512::multiply<float>},
    {baseline::multiply<double>, avx2::multiply<double>, avx512::multiply<double>}};
constexpr Kernel kRowSums[2][3] = {
    {baseline::row_sums<float>, avx2::row_sums<float>, avx512::row_sums<float>},
    {baseline::row_sums<double>, avx2::row_sums<double>, avx512::row_sums<double>}};

}  // namespace

const char* matmul_tiny_why_not(const MatmulArgs& g) {
  return g.dtype == DType::f32 || g.dtype == DType::f64 ? nullptr : "takes f32 and f64 only";
}

int matmul_tiny_rank(const MatmulArgs& g) {
  return double(g.m) * double(g.n) * double(g.k) <= kTinyWork ? 50 : 2;
}

void matmul_tiny(const MatmulArgs& g, const Launch&) {
  const Kernel multiply = kMultiply[g.dtype == DType::f64][cpu_isa()];
  if (g.batch_ndim == 0) [[likely]] {
    multiply(g);
    if (g.row_sum) matmul_row_sum(g);
    return;
  }
  const i64 batches = g.batches();
  for (i64 i = 0; i < batches; ++i) multiply(matmul_at(g, i));
}

void matmul_row_sum(const MatmulArgs& g) {
  constexpr i64 kWorthAThread = 1 << 16, kColumns = 64;  // elements; a piece
  const Kernel sums = kRowSums[g.dtype == DType::f64][cpu_isa()];
  const int threads = int(std::min<i64>(num_threads(), g.m * g.k / kWorthAThread + 1));
  if (threads == 1 || g.a_row != 1) return sums(g);
  parallel(threads, int((g.m + kColumns - 1) / kColumns), [&](int piece, int) {
    const i64 i = piece * kColumns, offset = i * item_size(g.dtype);
    MatmulArgs part = g;
    part.m = std::min(kColumns, g.m - i);
    part.a = static_cast<const char*>(g.a) + offset;
    part.row_sum = static_cast<char*>(g.row_sum) + offset;
    sums(part);
  });
}

template <class T>
const PackedKernels<T>& matmul_packed_kernels() {
  return kPacked<T>[cpu_isa()];
}
template const PackedKernels<float>& matmul_packed_kernels();
template const PackedKernels<double>& matmul_packed_kernels();

}  // namespace wt
