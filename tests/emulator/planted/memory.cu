// Faults of addresses and of memory that was never written.
#include "faults.h"

namespace {

__global__ void add_one(float* p, int n) {
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i <= n) p[i] += 1;  // the last thread is one too far
}
int out_of_bounds() {
  float* p = take_zeros(1000);
  add_one<<<4, 256>>>(p, 1000);
  return wait();
}

__global__ void store_far(float* p) { p[threadIdx.x + (1 << 28)] = 1; }
int far_away() {
  store_far<<<1, 32>>>(take_zeros(64));
  return wait();
}

__global__ void fill(float* p, float x) { p[threadIdx.x] = x; }
int use_after_free() {
  float* p = take(64);
  cudaFree(p);
  fill<<<1, 64>>>(p, 1);
  return wait();
}
int null_pointer() {
  fill<<<1, 32>>>(nullptr, 1);
  return wait();
}

__global__ void load_four(const float* p, float* out) {
  out[threadIdx.x] = reinterpret_cast<const float4*>(p + 1)[threadIdx.x].x;
}
int misaligned() {
  load_four<<<1, 16>>>(take_zeros(128), take_zeros(16));
  return wait();
}

__global__ void local_array(float* out, const int* at) {
  float room[8];
  for (int i = 0; i < 8; ++i) room[i] = float(i);
  room[at[0]] = 5;  // 100
  out[threadIdx.x] = room[at[1]];
}
int local_out_of_bounds() {
  const int at[2] = {100, 3};
  int* p = nullptr;
  cudaMalloc(&p, sizeof at);
  cudaMemcpy(p, at, sizeof at, cudaMemcpyHostToDevice);
  local_array<<<1, 32>>>(take(32), p);
  return wait();
}

__global__ void shared_too_far(float* out, int n) {
  extern __shared__ float room[];
  room[threadIdx.x + n] = 1;
  __syncthreads();
  out[threadIdx.x] = room[threadIdx.x];
}
int shared_out_of_bounds() {
  shared_too_far<<<1, 64, 256>>>(take(64), 1);
  return wait();
}

__global__ void sum_all(const float* p, int n, float* out) {
  float s = 0;
  for (int i = 0; i < n; ++i) s += p[i];
  *out = s;
}
int uninitialised() {
  float* p = take(64);
  fill<<<1, 63>>>(p, 1);  // one of 64 is forgotten
  float* out = take_zeros(1);
  sum_all<<<1, 1>>>(p, 64, out);
  return differs(out, 1, 64);
}

__global__ void shared_not_written(float* out) {
  __shared__ float room[64];
  if (threadIdx.x < 63) room[threadIdx.x] = 1;
  __syncthreads();
  float s = 0;
  for (int i = 0; i < 64; ++i) s += room[i];
  out[threadIdx.x] = s;
}
int uninitialised_shared() {
  float* out = take_zeros(64);
  shared_not_written<<<1, 64>>>(out);
  return differs(out, 64, 64);
}

int host_reads_device() {
  float* p = take_zeros(64);
  cudaDeviceSynchronize();
  volatile float* q = p;
  return q[3] != 0;  // never comes back
}

}  // namespace

const Fault memory_faults[] = {{"out_of_bounds", out_of_bounds},
                               {"far_away", far_away},
                               {"use_after_free", use_after_free},
                               {"null_pointer", null_pointer},
                               {"misaligned", misaligned},
                               {"local_out_of_bounds", local_out_of_bounds},
                               {"shared_out_of_bounds", shared_out_of_bounds},
                               {"uninitialised", uninitialised},
                               {"uninitialised_shared", uninitialised_shared},
                               {"host_reads_device", host_reads_device},
                               {nullptr, nullptr}};
