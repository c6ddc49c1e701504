// Integers of more than 64 bits: powers modulo a prime by 128-bit products, and 256-bit sums and
// products whose carries go through inline PTX.
#include <cstdio>
#include <cstring>
#include <vector>

#define CHECK(call)                                           \
  if (const cudaError_t e = (call); e != cudaSuccess) {       \
    std::printf("big_integers: %s\n", cudaGetErrorString(e)); \
    return 1;                                                 \
  }

using u32 = unsigned int;
using u64 = unsigned long long;
using u128 = unsigned __int128;

constexpr u64 kPrime = 0xFFFFFFFF00000001ull;  // 2^64 - 2^32 + 1

__host__ __device__ u64 power(u64 base, u64 exponent) {
  u64 result = 1;
  for (; exponent; exponent >>= 1) {
    if (exponent & 1) result = u64(u128(result) * base % kPrime);
    base = u64(u128(base) * base % kPrime);
  }
  return result;
}

struct Big {
  u32 word[8];
};

__device__ Big add(const Big& a, const Big& b) {
  Big c;
  asm("add.cc.u32 %0, %8, %16;\n\t"
      "addc.cc.u32 %1, %9, %17;\n\t"
      "addc.cc.u32 %2, %10, %18;\n\t"
      "addc.cc.u32 %3, %11, %19;\n\t"
      "addc.cc.u32 %4, %12, %20;\n\t"
      "addc.cc.u32 %5, %13, %21;\n\t"
      "addc.cc.u32 %6, %14, %22;\n\t"
      "addc.u32 %7, %15, %23;"
      : "=&r"(c.word[0]), "=&r"(c.word[1]), "=&r"(c.word[2]), "=&r"(c.word[3]), "=&r"(c.word[4]),
        "=&r"(c.word[5]), "=&r"(c.word[6]), "=r"(c.word[7])
      : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "r"(a.word[4]),
        "r"(a.word[5]), "r"(a.word[6]), "r"(a.word[7]), "r"(b.word[0]), "r"(b.word[1]),
        "r"(b.word[2]), "r"(b.word[3]), "r"(b.word[4]), "r"(b.word[5]), "r"(b.word[6]),
        "r"(b.word[7]));
  return c;
}

__device__ u64 pair(const Big& a, int i) { return a.word[2 * i] | u64(a.word[2 * i + 1]) << 32; }

// With carries of 64-bit words.
__device__ Big subtract(const Big& a, const Big& b) {
  u64 d[4];
  asm("sub.cc.u64 %0, %4, %8;\n\t"
      "subc.cc.u64 %1, %5, %9;\n\t"
      "subc.cc.u64 %2, %6, %10;\n\t"
      "subc.u64 %3, %7, %11;"
      : "=&l"(d[0]), "=&l"(d[1]), "=&l"(d[2]), "=l"(d[3])
      : "l"(pair(a, 0)), "l"(pair(a, 1)), "l"(pair(a, 2)), "l"(pair(a, 3)), "l"(pair(b, 0)),
        "l"(pair(b, 1)), "l"(pair(b, 2)), "l"(pair(b, 3)));
  Big c;
  for (int i = 0; i < 8; ++i) c.word[i] = u32(d[i / 2] >> 32 * (i % 2));
  return c;
}

// The low 256 bits of a times one word.
__device__ Big times(const Big& a, u32 w) {
  Big c;
  u32 high = 0;
  for (int i = 0; i < 8; ++i) {
    asm("{\n\t"
        ".reg .u32 low;\n\t"
        "mul.lo.u32 low, %2, %3;\n\t"
        "add.cc.u32 %0, low, %1;\n\t"
        "madc.hi.u32 %1, %2, %3, 0;\n\t"
        "}"
        : "=&r"(c.word[i]), "+r"(high)
        : "r"(a.word[i]), "r"(w));
  }
  return c;
}

__global__ void powers(const u64* bases, u64* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  out[2 * i] = power(bases[i], kPrime - 1);  // Fermat: 1
  out[2 * i + 1] = power(bases[i], i + 3);
}

__global__ void identities(Big* out) {
  const u32 t = threadIdx.x;
  Big a, b;
  for (u32 i = 0; i < 8; ++i) {
    a.word[i] = ~0u - (t * 0x9E3779B9u >> (i + t % 3));
    b.word[i] = (t + 1) * 0x85EBCA6Bu * (i + 1);
  }
  a.word[3] = 0xffffffffu;
  // (a + b) * 7 - (a * 7 + b * 6) - b: zero, whatever overflowed.
  const Big left = times(add(a, b), 7);
  out[t] = subtract(subtract(left, add(times(a, 7), times(b, 6))), b);
}

int main() {
  const int n = 64;
  std::vector<u64> bases(n), out(2 * n);
  for (int i = 0; i < n; ++i) bases[i] = (i + 2) * 0x123456789ABCDEFull % kPrime;
  u64 *dbases, *dout;
  Big* dbig;
  CHECK(cudaMalloc(&dbases, n * sizeof(u64)));
  CHECK(cudaMalloc(&dout, 2 * n * sizeof(u64)));
  CHECK(cudaMalloc(&dbig, n * sizeof(Big)));
  CHECK(cudaMemcpy(dbases, bases.data(), n * sizeof(u64), cudaMemcpyHostToDevice));
  powers<<<1, n>>>(dbases, dout, n);
  identities<<<1, n>>>(dbig);
  CHECK(cudaGetLastError());
  std::vector<Big> big(n);
  CHECK(cudaMemcpy(out.data(), dout, out.size() * sizeof(u64), cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(big.data(), dbig, n * sizeof(Big), cudaMemcpyDeviceToHost));
  const Big zero = {};
  for (int i = 0; i < n; ++i) {
    if (out[2 * i] != 1 || out[2 * i + 1] != power(bases[i], i + 3)) {
      std::printf("big_integers: powers of %llu are wrong\n", bases[i]);
      return 1;
    }
    if (std::memcmp(&big[i], &zero, sizeof zero) != 0) {
      std::printf("big_integers: the identity does not hold for %d\n", i);
      return 1;
    }
  }
  std::printf("big_integers: ok\n");
}
