// Lanes of a warp that go separate ways: a switch, loops of different length, early returns, and
// calls of functions that are not inlined.
#include <cstdio>
#include <vector>

#define CHECK(call)                                         \
  if (const cudaError_t e = (call); e != cudaSuccess) {     \
    std::printf("divergence: %s\n", cudaGetErrorString(e)); \
    return 1;                                               \
  }

__host__ __device__ __noinline__ unsigned int gcd(unsigned int a, unsigned int b) {
  while (b != 0) {
    const unsigned int r = a % b;
    a = b;
    b = r;
  }
  return a;
}

__host__ __device__ __noinline__ int collatz(unsigned long long n) {
  int steps = 0;
  while (n != 1) {
    n = n % 2 ? 3 * n + 1 : n / 2;
    ++steps;
  }
  return steps;
}

__host__ __device__ int evaluate(int op, int x, int y) {
  switch (op) {
    case 0:
      return x + y;
    case 1:
      return x - y;
    case 2:
      return x * y;
    case 3:
      return y == 0 ? -1 : x / y;
    case 4:
      return y == 0 ? -1 : x % y;
    case 5:
      return x & y;
    case 6:
      return x << (y & 7);
    case 7:
      return int(gcd(x, y));
    case 8:
      return collatz(x + 1);
    case 9: {
      int bits = 0;
      for (int i = x; i != 0; i &= i - 1) {
        if (bits > 5) break;
        if (i & 64) continue;
        ++bits;
      }
      return bits;
    }
    default:
      return -op;
  }
}

// The 8 queens: a search with a stack of its own, for a first row given; solutions are counted.
__host__ __device__ int queens(int first) {
  int column[8];
  int row = 1, found = 0;
  column[0] = first;
  column[1] = -1;
  while (row > 0) {
    bool placed = false;
    while (!placed && ++column[row] < 8) {
      placed = true;
      for (int r = 0; r < row && placed; ++r) {
        const int d = column[row] - column[r];
        placed = d != 0 && d != row - r && d != r - row;
      }
    }
    if (!placed) {
      --row;
    } else if (row == 7) {
      ++found;
    } else {
      column[++row] = -1;
    }
  }
  return found;
}

__global__ void run(const int* op, const int* x, const int* y, int* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  out[i] = evaluate(op[i], x[i], y[i]);
  if (i % 3 == 0) return;
  out[i] += (i & 1) ? collatz(i) : int(gcd(i, 360));
}

__global__ void all_queens(int* out) { out[threadIdx.x] = queens(threadIdx.x); }

int main() {
  const int n = 3000;
  std::vector<int> op(n), x(n), y(n), out(n);
  for (int i = 0; i < n; ++i) {
    op[i] = (i * 7) % 12;
    x[i] = (i * 131) % 1000;
    y[i] = (i * 17) % 63;
  }
  int* d;
  CHECK(cudaMalloc(&d, 4 * n * sizeof(int)));
  CHECK(cudaMemcpy(d, op.data(), n * sizeof(int), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(d + n, x.data(), n * sizeof(int), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(d + 2 * n, y.data(), n * sizeof(int), cudaMemcpyHostToDevice));
  run<<<(n + 127) / 128, 128>>>(d, d + n, d + 2 * n, d + 3 * n, n);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(out.data(), d + 3 * n, n * sizeof(int), cudaMemcpyDeviceToHost));
  for (int i = 0; i < n; ++i) {
    int expected = evaluate(op[i], x[i], y[i]);
    if (i % 3 != 0) expected += (i & 1) ? collatz(i) : int(gcd(i, 360));
    if (out[i] != expected) {
      std::printf("divergence: %d instead of %d at %d\n", out[i], expected, i);
      return 1;
    }
  }
  all_queens<<<1, 8>>>(d);
  CHECK(cudaMemcpy(out.data(), d, 8 * sizeof(int), cudaMemcpyDeviceToHost));
  int solutions = 0;
  for (int i = 0; i < 8; ++i) solutions += out[i];
  if (solutions != 92) {
    std::printf("divergence: %d solutions of 92\n", solutions);
    return 1;
  }
  std::printf("divergence: ok\n");
}
