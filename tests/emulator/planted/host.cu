// Faults of the host's side: attributes, devices, captures, errors.
#include <cassert>

#include "faults.h"

namespace {

__global__ void fill(float* p, float x) { p[threadIdx.x] = x; }
__global__ void __launch_bounds__(128) bounded(float* p) { p[threadIdx.x] = 1; }
__global__ void big_room(float* p) {
  extern __shared__ float room[];
  room[threadIdx.x] = 1;
  p[threadIdx.x] = room[threadIdx.x];
}
__global__ void checks(const float* p) { assert(p[threadIdx.x] == 1); }

// CUDA's error where the call must fail; 0 where it did not.
int code(cudaError_t e) { return int(e); }

int missing_attribute() {
  big_room<<<1, 32, 64 * 1024>>>(take(32));
  return code(cudaGetLastError());
}
int too_many_threads() {
  bounded<<<1, 256>>>(take(256));
  return code(cudaGetLastError());
}
int other_devices_memory() {  // needs two devices
  cudaSetDevice(1);
  float* p = take(32);
  cudaSetDevice(0);
  fill<<<1, 32>>>(p, 1);
  return wait();
}
int other_devices_stream() {
  cudaStream_t s;
  cudaSetDevice(1);
  cudaStreamCreate(&s);
  cudaSetDevice(0);
  fill<<<1, 32, 0, s>>>(take(32), 1);
  return code(cudaGetLastError());
}
int malloc_in_capture() {
  cudaStream_t s;
  cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
  cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
  float* p = nullptr;
  return code(cudaMalloc(&p, 64));
}
int sync_in_capture() {
  cudaStream_t s;
  cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
  cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
  return code(cudaStreamSynchronize(s));
}
int freed_twice() {
  float* p = take(32);
  cudaFree(p);
  return code(cudaFree(p));
}
int copy_the_wrong_way() {
  float host[8] = {};
  return code(cudaMemcpy(host, take(8), 32, cudaMemcpyHostToDevice));
}
int device_assert() {
  checks<<<1, 32>>>(take_zeros(32));
  return wait();
}

}  // namespace

const Fault host_faults[] = {{"missing_attribute", missing_attribute},
                             {"too_many_threads", too_many_threads},
                             {"other_devices_memory", other_devices_memory},
                             {"other_devices_stream", other_devices_stream},
                             {"malloc_in_capture", malloc_in_capture},
                             {"sync_in_capture", sync_in_capture},
                             {"freed_twice", freed_twice},
                             {"copy_the_wrong_way", copy_the_wrong_way},
                             {"device_assert", device_assert},
                             {nullptr, nullptr}};
