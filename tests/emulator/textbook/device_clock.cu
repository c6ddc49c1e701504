// Clocks on the device go forward, longer work takes more of them, and registers say where a thread
// runs.
#include <cstdio>

#define CHECK(call)                                           \
  if (const cudaError_t e = (call); e != cudaSuccess) {       \
    std::printf("device_clock: %s\n", cudaGetErrorString(e)); \
    return 1;                                                 \
  }

__device__ long long timed(int rounds, volatile float* sink) {
  const long long start = clock64();
  float x = 1;
  for (int i = 0; i < rounds; ++i) x = x * 0.999f + *sink;
  *sink = x * 0;
  return clock64() - start;
}

__global__ void run(volatile float* sink, long long* out) {
  out[0] = timed(10, sink);
  out[1] = timed(2000, sink);
  const clock_t a = clock();
  __nanosleep(200);
  out[2] = clock() - a;
  unsigned long long before, after;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(before));
  out[1] += timed(10, sink) > 0 ? 0 : -1000000000;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(after));
  out[3] = (long long)(after - before);
  unsigned int lane, warp, sm, mask, size;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  asm("mov.u32 %0, %%warpid;" : "=r"(warp));
  asm("mov.u32 %0, %%smid;" : "=r"(sm));
  asm("mov.u32 %0, %%lanemask_le;" : "=r"(mask));
  asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(size));
  out[4] = lane;
  out[5] = warp;
  out[6] = sm;
  out[7] = mask;
  out[8] = size;
}

int main() {
  float* sink;
  long long *out, got[9];
  CHECK(cudaMalloc(&sink, sizeof(float)));
  CHECK(cudaMalloc(&out, sizeof got));
  CHECK(cudaMemset(sink, 0, sizeof(float)));
  run<<<1, 1, 64>>>(sink, out);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost));
  int processors = 0;
  CHECK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0));
  if (got[0] <= 0 || got[1] <= got[0] || got[2] < 0 || got[3] < 0) {
    std::printf("device_clock: %lld and %lld clocks, %lld asleep, %lld ns\n", got[0], got[1],
                got[2], got[3]);
    return 1;
  }
  if (got[4] != 0 || got[5] < 0 || got[5] > 63 || got[6] < 0 || got[6] >= processors ||
      got[7] != 1 || got[8] != 64) {
    std::printf("device_clock: lane %lld, warp %lld, processor %lld, mask %lld, %lld bytes\n",
                got[4], got[5], got[6], got[7], got[8]);
    return 1;
  }
  std::printf("device_clock: ok\n");
}
