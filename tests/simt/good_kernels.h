// Launchers of good_kernels.cu, on simt for the tests. All pointers are device memory.
#pragma once
#include <cstddef>
#include <cstdint>

namespace wt {
#ifdef WT_DEVICE_NS
inline namespace WT_DEVICE_NS {
#else
inline namespace simt {
#endif

void test_vector_add(float* c, const float* a, const float* b, int n);
// out[0] = sum of x[n], one block of 128 threads.
void test_block_sum(float* out, const float* x, int n);
// One warp: out[lane + 32 * k] for the shuffles k = idx(3), up(2), down(5), xor(7), each in f32;
// then xor(1) in f64, u64 (as double), half and bfloat16, down(1) of width 8.
void test_shuffles(double* out);
// One warp: out = ballot(lane % 3 == 0), any(lane == 40), any(lane == 4), all(lane < 32),
// all(lane < 31), ballot of the lower half by itself, activemask.
void test_votes(unsigned* out);
// One block of 96: out = __syncthreads_count, _and, _or of thread < 40.
void test_barrier_votes(int* out);
// c[16][8] = a[16][16] * b[16][8]; a row-major, b row-major, 16-bit patterns of f16 or bf16.
void test_mma(float* c, const uint16_t* a, const uint16_t* b, bool bf16);
// The same, fragments loaded by ldmatrix.
void test_ldmatrix_mma(float* c, const uint16_t* a, const uint16_t* b);
// out[i] = counts: i32 add, u32 max, i32 min, u64 add, exch, cas-increment; f[0] f32 add, d[0] f64
// add of 1 by 4 blocks of 64 threads.
void test_atomics(int* i, unsigned* u, unsigned long long* l, float* f, double* d);
// out[i] = in[n - 1 - i] through dynamic shared memory of n floats, n <= 56 * 1024.
void test_reverse(float* out, const float* in, int n);
// out[i] = sum of in[tile][i], i below 256, rows of 256; through a ring of 3 asynchronous stages of
// 16, 8 and 4 bytes a copy. What lies beyond `n` elements is not read and counts as zero.
void test_copy_pipeline(float* out, const float* in, int n);
// out[0] = sum over blocks of part[block], computed by the last block to arrive.
void test_last_block(float* out, float* part, unsigned* ticket, int blocks);
// order[i] = which block ran as the i-th, of blocks of one thread; ticket[0] is zero before.
void test_block_order(unsigned* order, unsigned* ticket, int blocks);
// log[count++] = id: who ran when.
void test_append(unsigned* log, unsigned* count, unsigned id, void* stream);
// Every thread writes its linear index; grid and block are three-dimensional.
void test_indices(unsigned* out, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                  unsigned bz);
// A warp passes values through shared memory with __syncwarp only. out[64], two warps.
void test_syncwarp(float* out);
// Adjacent threads write adjacent bytes and halves: no race.
void test_small_types(unsigned char* bytes, uint16_t* halves, int n);
// 16-bit conversions and scalar intrinsics, one thread; see the test for the values.
void test_scalars(float* out);
// out[i] = x[i] with the pointers inside a struct that lists them.
void test_struct_copy(float* out, const float* x, int n);
// row_sum.cu, the kernel of docs/simt.md: out[row] = sum of x[row][columns], columns % 4 == 0.
void row_sum_launch(float* out, const float* x, int rows, int columns, void* stream);
// Launches nothing: one dimension of the grid is zero.
void test_empty_grid();

}  // namespace simt
}  // namespace wt
