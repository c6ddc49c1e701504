// Cooperative groups: tiles of a warp, the threads that happen to be together, and their
// reductions.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

#include <cstdio>
#include <vector>

namespace cg = cooperative_groups;

#define CHECK(call)                                     \
  if (const cudaError_t e = (call); e != cudaSuccess) { \
    std::printf("groups: %s\n", cudaGetErrorString(e)); \
    return 1;                                           \
  }

// Each tile of 16 threads sums 16 values; its first thread writes.
__global__ void tile_sums(const int* in, int* sums, int* scans, int* largest) {
  const cg::thread_block block = cg::this_thread_block();
  const auto tile = cg::tiled_partition<16>(block);
  const int i = int(cg::this_grid().thread_rank());
  const int x = in[i];
  int sum = x;
  for (unsigned d = tile.size() / 2; d > 0; d /= 2) sum += tile.shfl_xor(sum, d);
  const int most = cg::reduce(tile, x, cg::greater<int>());
  scans[i] = cg::inclusive_scan(tile, x, cg::plus<int>());
  if (tile.thread_rank() == 0) {
    const int t = i / 16;
    sums[t] = sum;
    largest[t] = most;
  }
}

// Counts of the values below 4: threads of a warp with the same value add once, together.
__global__ void aggregated_counts(const int* in, int n, int* counts) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || in[i] % 5 == 4) return;
  const cg::coalesced_group active = cg::coalesced_threads();
  const auto same = cg::labeled_partition(active, in[i] % 5);
  if (same.thread_rank() == 0) atomicAdd(&counts[in[i] % 5], int(same.size()));
}

// A filter that keeps what is odd, one atomic a warp: the order is not kept.
__global__ void filter(const int* in, int n, int* out, int* count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || in[i] % 2 == 0) return;
  const cg::coalesced_group active = cg::coalesced_threads();
  int at = 0;
  if (active.thread_rank() == 0) at = atomicAdd(count, int(active.size()));
  out[active.shfl(at, 0) + active.thread_rank()] = in[i];
}

int main() {
  const int n = 1024, m = 1000;
  std::vector<int> in(n), sums(n / 16), scans(n), largest(n / 16), odd(n);
  int expected[4] = {}, counts[4], kept = 0;
  long long odd_sum = 0, got_sum = 0;
  for (int i = 0; i < n; ++i) in[i] = (i * 37 + i / 9) % 101;
  for (int i = 0; i < m; ++i) {
    if (in[i] % 5 < 4) ++expected[in[i] % 5];
    if (in[i] % 2) {
      ++kept;
      odd_sum += in[i];
    }
  }
  int* d;
  CHECK(cudaMalloc(&d, 8 * n * sizeof(int)));
  int *din = d, *dsums = d + n, *dscans = d + 2 * n, *dlargest = d + 3 * n, *dcounts = d + 4 * n;
  int *dodd = d + 5 * n, *dkept = d + 6 * n;
  CHECK(cudaMemset(d, 0, 8 * n * sizeof(int)));
  CHECK(cudaMemcpy(din, in.data(), n * sizeof(int), cudaMemcpyHostToDevice));
  tile_sums<<<n / 128, 128>>>(din, dsums, dscans, dlargest);
  aggregated_counts<<<8, 128>>>(din, m, dcounts);
  filter<<<8, 128>>>(din, m, dodd, dkept);
  CHECK(cudaGetLastError());
  int got_kept = 0;
  CHECK(cudaMemcpy(sums.data(), dsums, sums.size() * sizeof(int), cudaMemcpyDefault));
  CHECK(cudaMemcpy(scans.data(), dscans, scans.size() * sizeof(int), cudaMemcpyDefault));
  CHECK(cudaMemcpy(largest.data(), dlargest, largest.size() * sizeof(int), cudaMemcpyDefault));
  CHECK(cudaMemcpy(counts, dcounts, sizeof counts, cudaMemcpyDefault));
  CHECK(cudaMemcpy(odd.data(), dodd, n * sizeof(int), cudaMemcpyDefault));
  CHECK(cudaMemcpy(&got_kept, dkept, sizeof got_kept, cudaMemcpyDefault));
  for (int t = 0; t < n / 16; ++t) {
    int sum = 0, most = 0;
    for (int i = 16 * t; i < 16 * t + 16; ++i) {
      sum += in[i];
      most = in[i] > most ? in[i] : most;
      if (scans[i] != sum) {
        std::printf("groups: the scan is wrong at %d\n", i);
        return 1;
      }
    }
    if (sums[t] != sum || largest[t] != most) {
      std::printf("groups: tile %d is wrong\n", t);
      return 1;
    }
  }
  for (int i = 0; i < 4; ++i) {
    if (counts[i] != expected[i]) {
      std::printf("groups: counted %d of %d instead of %d\n", counts[i], i, expected[i]);
      return 1;
    }
  }
  for (int i = 0; i < got_kept; ++i) got_sum += odd[i] % 2 ? odd[i] : 1000000;
  if (got_kept != kept || got_sum != odd_sum) {
    std::printf("groups: the filter is wrong\n");
    return 1;
  }
  std::printf("groups: ok\n");
}
