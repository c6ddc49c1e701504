// Launchers of access_patterns.cu: one warp each, on simt for the tests. Pointers are device
// memory.
#pragma once

namespace wt {
#ifdef WT_DEVICE_NS
inline namespace WT_DEVICE_NS {
#else
inline namespace simt {
#endif

// out[lane] = x[offset + lane * stride].
void test_strided(float* out, const float* x, int stride, int offset);
void test_vector_copy(float* out, const float* x);  // 16 bytes a lane
// out = the transpose of a 32 x 32 matrix: rows are read, columns written.
void test_transpose(float* out, const float* x);
// The same through shared memory, whose rows have 32 or 33 elements.
void test_transpose_shared(float* out, const float* x, bool padded);
void test_vector_shared(float* out, const float* x);  // 16 bytes a lane of shared memory
void test_odd_lanes(float* out, const float* x);      // odd lanes read, even ones write zeros
void test_triangle(float* out, const float* x);       // lane i reads i + 1 elements of a row
void test_one_counter(int* out);                      // every lane adds to one shared number

}  // namespace WT_DEVICE_NS or simt
}  // namespace wt
