// Lab 4: sums. page.md says what each of the three is to be; what is below compiles, and writes
// nothing yet.
#include "warptape/kernels/simt/simt.h"
//
#include "warptape/kernels/reduce.h"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr int kThreads = 256;

// --- what the variants take: nothing to do here ---
const char* of_f32(const SumArgs& a) {
  if (a.f.divide_by != 1 || a.f.accumulate) return "means";
  return a.in.dtype() == DType::f32 && a.in.dense() && a.out.dtype() == DType::f32 && a.out.dense()
             ? nullptr
             : "anything but contiguous f32";
}
const char* not_all(const SumArgs& a) {
  return a.mask == (1u << a.in.ndim()) - 1 ? of_f32(a) : "some axes alone";
}
const char* not_rows(const SumArgs& a) {
  return a.in.ndim() == 2 && a.mask == 2 ? of_f32(a) : "other axes than the last of two";
}
Config grid(const Launch& l, int blocks, int threads) {
  return {.grid = unsigned(blocks),
          .block = unsigned(threads),
          .stream = l.stream,
          .op_name = l.op->name};
}

// --- 1: all elements, by atomicAdd, in whatever order the hardware likes ---
__global__ void atomics(float* out, const float* x, int n) {
  // yours
}
void launch_atomics(const SumArgs& a, const Launch& l) {
  // yours: what is in `out` before the first atomicAdd?
  launch<atomics>(grid(l, 1, 32), a.out.as<float>(), a.in.as<const float>(), int(a.in.numel()));
}

// --- 2: all elements in two launches, with the same bits every time ---
__global__ void sum_blocks(float* parts, const float* x, int n) {
  // yours: block b leaves its sum in parts[b]. WT_SHARED(float, warps, [32]); is an array that the
  // block shares
}
__global__ void sum_parts(float* out, const float* parts, int n) {
  // yours: one block
}
constexpr int kParts = 8;
i64 parts_bytes(const SumArgs&) { return kParts * i64(sizeof(float)); }
void launch_two_stages(const SumArgs& a, const Launch& l) {
  float* const parts = static_cast<float*>(l.workspace);  // parts_bytes() of device memory
  launch<sum_blocks>(grid(l, kParts, kThreads), parts, a.in.as<const float>(), int(a.in.numel()));
  launch<sum_parts>(grid(l, 1, 32), a.out.as<float>(), static_cast<const float*>(parts), kParts);
}

// --- 3: each row of a matrix ---
__global__ void rows(float* out, const float* x, int count, int columns) {
  // yours
}
void launch_rows(const SumArgs& a, const Launch& l) {
  const int count = int(a.in.size(0)), columns = int(a.in.size(1));
  launch<rows>(grid(l, count, 32), a.out.as<float>(), a.in.as<const float>(), count, columns);
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(
    WT_DEVICE_NS, sum, SumArgs,
    {.name = "atomics", .why_not = not_all, .launch = launch_atomics, .deterministic = false},
    {.name = "two_stages",
     .why_not = not_all,
     .workspace = parts_bytes,
     .launch = launch_two_stages},
    {.name = "rows", .why_not = not_rows, .launch = launch_rows});

}  // namespace wt
