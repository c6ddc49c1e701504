// Prefix sums: Hillis and Steele's (n log n additions, few steps), Blelloch's (a tree up and down),
// and over many blocks in three phases: scan blocks, scan their sums, add these.
#include <cstdio>
#include <vector>

#define CHECK(call)                                     \
  if (const cudaError_t e = (call); e != cudaSuccess) { \
    std::printf("scan: %s\n", cudaGetErrorString(e));   \
    return 1;                                           \
  }

constexpr int kBlock = 256;

// Inclusive. Two buffers take turns, so that no thread reads what another has just written.
__global__ void hillis_steele(const int* in, int* out, int n, int* sums) {
  __shared__ int buffer[2][kBlock];
  const int t = threadIdx.x, i = blockIdx.x * kBlock + t;
  int from = 0;
  buffer[0][t] = i < n ? in[i] : 0;
  __syncthreads();
  for (int d = 1; d < kBlock; d *= 2) {
    buffer[1 - from][t] = buffer[from][t] + (t >= d ? buffer[from][t - d] : 0);
    from = 1 - from;
    __syncthreads();
  }
  if (i < n) out[i] = buffer[from][t];
  if (sums && t == kBlock - 1) sums[blockIdx.x] = buffer[from][t];
}

// Exclusive, of 2 * kBlock elements a block.
__global__ void blelloch(const int* in, int* out, int n) {
  extern __shared__ int tree[];
  const int t = threadIdx.x, base = blockIdx.x * 2 * kBlock;
  const int a = base + 2 * t, b = a + 1;
  tree[2 * t] = a < n ? in[a] : 0;
  tree[2 * t + 1] = b < n ? in[b] : 0;
  int offset = 1;
  for (int d = kBlock; d > 0; d /= 2) {
    __syncthreads();
    if (t < d) tree[offset * (2 * t + 2) - 1] += tree[offset * (2 * t + 1) - 1];
    offset *= 2;
  }
  if (t == 0) tree[2 * kBlock - 1] = 0;
  for (int d = 1; d <= kBlock; d *= 2) {
    offset /= 2;
    __syncthreads();
    if (t < d) {
      const int left = offset * (2 * t + 1) - 1, right = offset * (2 * t + 2) - 1;
      const int x = tree[left];
      tree[left] = tree[right];
      tree[right] += x;
    }
  }
  __syncthreads();
  if (a < n) out[a] = tree[2 * t];
  if (b < n) out[b] = tree[2 * t + 1];
}

__global__ void add_sums(int* out, int n, const int* sums) {
  const int i = blockIdx.x * kBlock + threadIdx.x;
  if (blockIdx.x > 0 && i < n) out[i] += sums[blockIdx.x - 1];
}

int main() {
  const int n = 50021, blocks = (n + kBlock - 1) / kBlock;
  static_assert(kBlock >= (50021 + kBlock - 1) / kBlock, "one block scans the sums");
  std::vector<int> in(n), out(n), inclusive(n);
  for (int i = 0, sum = 0; i < n; ++i) {
    in[i] = (i * 31) % 17 - 5;
    inclusive[i] = sum += in[i];
  }
  int *din, *dout, *sums;
  CHECK(cudaMalloc(&din, n * sizeof(int)));
  CHECK(cudaMalloc(&dout, n * sizeof(int)));
  CHECK(cudaMalloc(&sums, blocks * sizeof(int)));
  CHECK(cudaMemcpy(din, in.data(), n * sizeof(int), cudaMemcpyHostToDevice));
  hillis_steele<<<blocks, kBlock>>>(din, dout, n, sums);
  hillis_steele<<<1, kBlock>>>(sums, sums, blocks, nullptr);
  add_sums<<<blocks, kBlock>>>(dout, n, sums);
  CHECK(cudaMemcpy(out.data(), dout, n * sizeof(int), cudaMemcpyDeviceToHost));
  if (out != inclusive) {
    std::printf("scan: the three phases are wrong\n");
    return 1;
  }
  const int m = 2 * kBlock;
  blelloch<<<1, kBlock, m * sizeof(int)>>>(din, dout, m);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(out.data(), dout, m * sizeof(int), cudaMemcpyDeviceToHost));
  for (int i = 0; i < m; ++i) {
    if (out[i] != inclusive[i] - in[i]) {
      std::printf("scan: Blelloch's is wrong at %d\n", i);
      return 1;
    }
  }
  std::printf("scan: ok\n");
}
