// Tensor cores through nvcuda::wmma: a warp multiplies 16 x 16 tiles of half into float, or of
// bfloat16, or with half sums; rows and columns of the factors in either order.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

#include <cmath>
#include <cstdio>
#include <type_traits>
#include <vector>

using namespace nvcuda;

#define CHECK(call)                                        \
  if (const cudaError_t e = (call); e != cudaSuccess) {    \
    std::printf("wmma_gemm: %s\n", cudaGetErrorString(e)); \
    return 1;                                              \
  }

constexpr int kM = 48, kN = 32, kK = 64;

// c = a b + c / 2. One warp a tile of c.
template <class T, class Sum, class LayoutA, class LayoutB>
__global__ void gemm(const T* a, const T* b, Sum* c) {
  constexpr bool a_rows = std::is_same<LayoutA, wmma::row_major>::value;
  constexpr bool b_rows = std::is_same<LayoutB, wmma::row_major>::value;
  const int row = blockIdx.y * 16, column = blockIdx.x * 16;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, T, LayoutA> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, T, LayoutB> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, Sum> fc, old;
  wmma::fill_fragment(fc, Sum(0.0f));
  for (int k = 0; k < kK; k += 16) {
    const T* at = a_rows ? a + row * kK + k : a + k * kM + row;
    const T* bt = b_rows ? b + k * kN + column : b + column * kK + k;
    wmma::load_matrix_sync(fa, at, a_rows ? kK : kM);
    wmma::load_matrix_sync(fb, bt, b_rows ? kN : kK);
    wmma::mma_sync(fc, fa, fb, fc);
  }
  wmma::load_matrix_sync(old, c + row * kN + column, kN, wmma::mem_row_major);
  for (int i = 0; i < fc.num_elements; ++i) fc.x[i] = fc.x[i] + old.x[i] * Sum(0.5f);
  wmma::store_matrix_sync(c + row * kN + column, fc, kN, wmma::mem_row_major);
}

template <class T, class Sum, class LayoutA, class LayoutB>
int check(const char* name, double tolerance) {
  constexpr bool a_rows = std::is_same<LayoutA, wmma::row_major>::value;
  constexpr bool b_rows = std::is_same<LayoutB, wmma::row_major>::value;
  std::vector<T> a(kM * kK), b(kK * kN);
  std::vector<Sum> c(kM * kN), before(kM * kN);
  for (int i = 0; i < kM * kK; ++i) a[i] = T(float((i * 17) % 31 - 15) / 16);
  for (int i = 0; i < kK * kN; ++i) b[i] = T(float((i * 5) % 23 - 11) / 32);
  for (int i = 0; i < kM * kN; ++i) before[i] = Sum(float(i % 9));
  T *da, *db;
  Sum* dc;
  CHECK(cudaMalloc(&da, a.size() * sizeof(T)));
  CHECK(cudaMalloc(&db, b.size() * sizeof(T)));
  CHECK(cudaMalloc(&dc, c.size() * sizeof(Sum)));
  CHECK(cudaMemcpy(da, a.data(), a.size() * sizeof(T), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(db, b.data(), b.size() * sizeof(T), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(dc, before.data(), c.size() * sizeof(Sum), cudaMemcpyHostToDevice));
  gemm<T, Sum, LayoutA, LayoutB><<<dim3(kN / 16, kM / 16), 32>>>(da, db, dc);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(c.data(), dc, c.size() * sizeof(Sum), cudaMemcpyDeviceToHost));
  for (int r = 0; r < kM; ++r) {
    for (int s = 0; s < kN; ++s) {
      double sum = double(float(before[r * kN + s])) / 2;
      for (int k = 0; k < kK; ++k) {
        sum += double(float(a[a_rows ? r * kK + k : k * kM + r])) *
               double(float(b[b_rows ? k * kN + s : s * kK + k]));
      }
      if (!(std::fabs(double(float(c[r * kN + s])) - sum) <= tolerance)) {
        std::printf("wmma_gemm: %s: %g instead of %g at %d, %d\n", name, float(c[r * kN + s]), sum,
                    r, s);
        return 1;
      }
    }
  }
  CHECK(cudaFree(da));
  CHECK(cudaFree(db));
  CHECK(cudaFree(dc));
  return 0;
}

int main() {
  using Row = wmma::row_major;
  using Column = wmma::col_major;
  if (check<__half, float, Row, Row>("half, rows and rows", 1e-4) ||
      check<__half, float, Row, Column>("half, rows and columns", 1e-4) ||
      check<__half, float, Column, Row>("half, columns and rows", 1e-4) ||
      check<__half, __half, Row, Column>("half sums", 0.05) ||
      check<__nv_bfloat16, float, Row, Row>("bfloat16", 1e-4)) {
    return 1;
  }
  std::printf("wmma_gemm: ok\n");
}
