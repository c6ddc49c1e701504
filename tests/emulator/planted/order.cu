// Faults of order: between streams, between the host and its copies, between blocks.
#include "faults.h"

namespace {

__global__ void write_ones(float* p, int n) {
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) p[i] = 1;
}
__global__ void double_it(const float* p, float* out, int n) {
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) out[i] = 2 * p[i];
}
struct Streams {
  cudaStream_t a, b;
  Streams() {
    cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
  }
};

int missing_event() {
  Streams s;
  float *p = take_zeros(256), *out = take_zeros(256);
  cudaDeviceSynchronize();
  write_ones<<<1, 256, 0, s.a>>>(p, 256);
  double_it<<<1, 256, 0, s.b>>>(p, out, 256);  // nothing makes b wait for a
  return wait() || differs(out, 256, 2);
}
int event_recorded_too_early() {
  Streams s;
  float *p = take_zeros(256), *out = take_zeros(256);
  cudaEvent_t e;
  cudaEventCreateWithFlags(&e, cudaEventDisableTiming);
  cudaDeviceSynchronize();
  cudaEventRecord(e, s.a);
  write_ones<<<1, 256, 0, s.a>>>(p, 256);  // after the record
  cudaStreamWaitEvent(s.b, e, 0);
  double_it<<<1, 256, 0, s.b>>>(p, out, 256);
  return wait() || differs(out, 256, 2);
}
int overwritten_too_early() {  // the next batch is copied over the one that is still read
  Streams s;
  float *p = take_zeros(256), *out = take_zeros(256);
  float* host = nullptr;
  cudaMallocHost(&host, 1024);
  for (int i = 0; i < 256; ++i) host[i] = 7;
  cudaDeviceSynchronize();
  double_it<<<1, 256, 0, s.a>>>(p, out, 256);
  cudaMemcpyAsync(p, host, 1024, cudaMemcpyHostToDevice, s.b);
  return wait() || differs(out, 256, 0);
}
int source_changed() {
  Streams s;
  float *p = take_zeros(64), *host = nullptr;
  cudaMallocHost(&host, 256);
  for (int i = 0; i < 64; ++i) host[i] = 1;
  cudaDeviceSynchronize();
  cudaMemcpyAsync(p, host, 256, cudaMemcpyHostToDevice, s.a);
  for (int i = 0; i < 64; ++i) host[i] = 2;  // the copy may not have run
  return wait() || differs(p, 64, 1);
}
int source_freed() {
  Streams s;
  float *p = take_zeros(64), *host = nullptr;
  cudaMallocHost(&host, 256);
  for (int i = 0; i < 64; ++i) host[i] = 1;
  cudaDeviceSynchronize();
  cudaMemcpyAsync(p, host, 256, cudaMemcpyHostToDevice, s.a);
  cudaFreeHost(host);
  return wait();
}
int result_read_early() {
  Streams s;
  float *p = take_zeros(64), *host = nullptr;
  cudaMallocHost(&host, 256);
  cudaDeviceSynchronize();
  cudaMemcpyAsync(host, p, 256, cudaMemcpyDeviceToHost, s.a);
  const bool right = host[5] == 0;  // before anything waited
  return wait() || !right;
}

__global__ void racy_count(int* counter) { *counter += 1; }
int missing_atomic() {
  int *p = nullptr, n = 0;
  cudaMalloc(&p, 4);
  cudaMemset(p, 0, 4);
  racy_count<<<8, 64>>>(p);
  cudaMemcpy(&n, p, 4, cudaMemcpyDeviceToHost);
  return n != 512;
}
__global__ void from_the_block_before(float* p) {
  p[blockIdx.x + 1] = p[blockIdx.x] + 1;  // as if blocks ran one after another
}
int order_of_blocks() {
  float* p = take_zeros(65);
  from_the_block_before<<<64, 1>>>(p);
  return differs(p + 64, 1, 64);
}

}  // namespace

const Fault order_faults[] = {{"missing_event", missing_event},
                              {"event_recorded_too_early", event_recorded_too_early},
                              {"overwritten_too_early", overwritten_too_early},
                              {"source_changed", source_changed},
                              {"source_freed", source_freed},
                              {"result_read_early", result_read_early},
                              {"missing_atomic", missing_atomic},
                              {"order_of_blocks", order_of_blocks},
                              {nullptr, nullptr}};
