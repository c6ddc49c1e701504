// Atomic operations of every kind, in global and shared memory, and one that CUDA lacks built from
// compare-and-swap. Each is used so that the result does not depend on the order.
#include <cmath>
#include <cstdio>

#define CHECK(call)                                      \
  if (const cudaError_t e = (call); e != cudaSuccess) {  \
    std::printf("atomics: %s\n", cudaGetErrorString(e)); \
    return 1;                                            \
  }

struct Results {
  double sum, most, shared_sum;
  float fsum;
  int isum, least, exchanged, taken;
  unsigned int and_bits, or_bits, xor_bits, wrapped_up, wrapped_down, system_sum, locked;
  int lock;
  unsigned long long wide_sum, wide_max, wide_cas, wide_or;
  long long wide_min;
};

__device__ double atomic_max(double* at, double x) {
  unsigned long long* bits = reinterpret_cast<unsigned long long*>(at);
  unsigned long long seen = *bits;
  while (__longlong_as_double(seen) < x) {
    const unsigned long long before = atomicCAS(bits, seen, __double_as_longlong(x));
    if (before == seen) break;
    seen = before;
  }
  return __longlong_as_double(seen);
}

__global__ void run(Results* r) {
  __shared__ double sum;
  __shared__ unsigned int count;
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (threadIdx.x == 0) {
    sum = 0;
    count = 0;
  }
  __syncthreads();
  atomicAdd(&r->sum, 0.5 * i);
  atomic_max(&r->most, double((i * 7) % 501));
  atomicAdd(&sum, 0.25);
  atomicAdd(&r->fsum, 1.0f);
  atomicSub(&r->isum, i);
  atomicMin(&r->least, 1000 - i);
  atomicAnd(&r->and_bits, ~(1u << i % 16));
  atomicOr(&r->or_bits, 1u << i % 20);
  atomicXor(&r->xor_bits, i);
  atomicInc(&r->wrapped_up, 6);
  atomicDec(&r->wrapped_down, 9);
  atomicAdd_system(&r->system_sum, 2u);
  atomicAdd_block(&count, 1u);
  atomicAdd(&r->wide_sum, 1ull << 33);
  atomicMax(&r->wide_max, 1ull << (i % 45));
  atomicMin(&r->wide_min, -(1ll << (i % 40)));
  atomicOr(&r->wide_or, 1ull << (i % 64));
  atomicCAS(&r->wide_cas, 5ull, 77ull);
  if (atomicExch(&r->exchanged, 1) == 0) atomicAdd(&r->taken, 1);
  __syncthreads();
  if (threadIdx.x == 0) {
    atomicAdd(&r->shared_sum, sum);
    // A lock, taken by one thread a block.
    while (atomicCAS(&r->lock, 0, 1) != 0) {}
    __threadfence();
    *(volatile unsigned int*)&r->locked = *(volatile unsigned int*)&r->locked + count;
    __threadfence();
    atomicExch(&r->lock, 0);
  }
}

int main() {
  const int blocks = 5, threads = 96, n = blocks * threads;
  Results start = {}, r;
  start.most = -1;
  start.least = 100000;
  start.and_bits = ~0u;
  start.wide_cas = 5;
  Results* d;
  CHECK(cudaMalloc(&d, sizeof(Results)));
  CHECK(cudaMemcpy(d, &start, sizeof start, cudaMemcpyHostToDevice));
  run<<<blocks, threads>>>(d);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(&r, d, sizeof r, cudaMemcpyDeviceToHost));
  int isum = 0;
  unsigned int xor_bits = 0, up = 0, down = 0;
  double most = -1;
  for (int i = 0; i < n; ++i) {
    isum -= i;
    xor_bits ^= i;
    up = up >= 6 ? 0 : up + 1;
    down = down == 0 || down > 9 ? 9 : down - 1;
    most = std::fmax(most, (i * 7) % 501);
  }
  const struct {
    const char* name;
    bool right;
  } checks[] = {
      {"double sum", r.sum == 0.5 * (n * (n - 1) / 2)},
      {"double maximum", r.most == most},
      {"double sum in shared memory", r.shared_sum == 0.25 * n},
      {"float sum", r.fsum == float(n)},
      {"integer difference", r.isum == isum},
      {"minimum", r.least == 1000 - (n - 1)},
      {"and", r.and_bits == 0xffff0000u},
      {"or", r.or_bits == 0x000fffffu},
      {"xor", r.xor_bits == xor_bits},
      {"increment", r.wrapped_up == up},
      {"decrement", r.wrapped_down == down},
      {"sum for the system", r.system_sum == 2u * n},
      {"sum of a block and the lock", r.locked == unsigned(n) && r.lock == 0},
      {"64-bit sum", r.wide_sum == (unsigned long long)n << 33},
      {"64-bit maximum", r.wide_max == 1ull << 44},
      {"64-bit minimum", r.wide_min == -(1ll << 39)},
      {"64-bit or", r.wide_or == ~0ull},
      {"64-bit compare and swap", r.wide_cas == 77},
      {"exchange", r.taken == 1 && r.exchanged == 1},
  };
  for (const auto& c : checks) {
    if (!c.right) {
      std::printf("atomics: wrong %s\n", c.name);
      return 1;
    }
  }
  std::printf("atomics: ok\n");
}
