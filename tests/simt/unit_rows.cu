// The kernels of docs/writing_kernels.md.
#include "warptape/tests/simt/unit_rows.h"

#include "warptape/kernels/device/block_reduce.cuh"
#include "warptape/kernels/device/row_kernels.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr int kWarps = 4;  // a block

// naive: one thread a row. Neighbouring lanes read a whole row apart, so that each of them needs a
// sector of its own.
__global__ void __launch_bounds__(64)
    unit_rows_naive(float* y, const float* x, int rows, int columns) {
  const int row = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (row >= rows) return;  // no barrier follows
  float sum = 0;
  for (int i = 0; i < columns; ++i) sum += fabsf(x[i64(row) * columns + i]);
  for (int i = 0; i < columns; ++i) y[i64(row) * columns + i] = x[i64(row) * columns + i] / sum;
}

// warp: one warp a row. What naive asks for in 32 sectors comes in 4: neighbouring lanes read
// neighbouring elements. The second read of x finds the row in L1.
__global__ void __launch_bounds__(kWarps * 32)
    unit_rows_warp(float* y, const float* x, int rows, int columns) {
  const int row = int(blockIdx.x) * kWarps + int(threadIdx.x) / 32;
  if (row >= rows) return;  // a whole warp leaves: the others have no barrier to meet it at
  x += i64(row) * columns, y += i64(row) * columns;
  float sum = 0;
  for (int i = int(threadIdx.x) % 32; i < columns; i += 32) sum += fabsf(x[i]);
  sum = warp_reduce(sum, Plus());  // every lane, in one order
  for (int i = int(threadIdx.x) % 32; i < columns; i += 32) y[i] = x[i] / sum;
}

template <auto Kernel>
void launch_rows(const UnitRowsArgs& args, const Launch& l, int rows_a_block, int threads) {
  const i64 rows = args.x.geometry->shape[0];
  launch<Kernel>(grid_of(l, ceil_div(rows, rows_a_block), threads), args.y.as<float>(),
                 args.x.as<const float>(), int(rows), int(args.x.geometry->shape[1]));
}
void naive(const UnitRowsArgs& args, const Launch& l) {
  launch_rows<unit_rows_naive>(args, l, 64, 64);
}
void warp(const UnitRowsArgs& args, const Launch& l) {
  launch_rows<unit_rows_warp>(args, l, kWarps, kWarps * 32);
}
const char* why_not_warp(const UnitRowsArgs& args) {
  return args.x.geometry->shape[1] >= 8 ? nullptr : "rows of fewer than 8 elements";
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, unit_rows, UnitRowsArgs,
            {.name = "warp", .rank = 20, .why_not = why_not_warp, .launch = warp},
            {.name = "naive", .rank = 10, .launch = naive});

}  // namespace wt
