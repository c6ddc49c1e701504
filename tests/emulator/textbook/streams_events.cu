// Work in several streams: pieces copied from pinned memory, one stream waiting for another's
// event, a call of the host between kernels, memory allocated in stream order.
#include <cstdio>
#include <vector>

#define CHECK(call)                                             \
  if (const cudaError_t e = (call); e != cudaSuccess) {         \
    std::printf("streams_events: %s\n", cudaGetErrorString(e)); \
    return 1;                                                   \
  }

__global__ void twice_plus(const int* in, int* out, int n, int add) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = 2 * in[i] + add;
}

__global__ void store(int* where, int value) { *where = value; }

int overlapped_pieces() {
  const int streams = 4, piece = 5000, n = streams * piece;
  int *in, *out, *d;
  CHECK(cudaMallocHost(&in, n * sizeof(int)));
  CHECK(cudaHostAlloc(&out, n * sizeof(int), cudaHostAllocDefault));
  CHECK(cudaMalloc(&d, 2 * n * sizeof(int)));
  for (int i = 0; i < n; ++i) in[i] = i;
  cudaStream_t s[streams];
  cudaEvent_t start, stop;
  CHECK(cudaEventCreate(&start));
  CHECK(cudaEventCreate(&stop));
  for (cudaStream_t& each : s) CHECK(cudaStreamCreate(&each));
  CHECK(cudaEventRecord(start));
  for (int k = 0; k < streams; ++k) {
    const int at = k * piece;
    CHECK(cudaMemcpyAsync(d + at, in + at, piece * sizeof(int), cudaMemcpyHostToDevice, s[k]));
    twice_plus<<<(piece + 127) / 128, 128, 0, s[k]>>>(d + at, d + n + at, piece, k);
    CHECK(cudaMemcpyAsync(out + at, d + n + at, piece * sizeof(int), cudaMemcpyDeviceToHost, s[k]));
  }
  CHECK(cudaEventRecord(stop));  // in the default stream, which waits for the others
  CHECK(cudaEventSynchronize(stop));
  float ms = -1;
  CHECK(cudaEventElapsedTime(&ms, start, stop));
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < n; ++i) {
    if (out[i] != 2 * i + i / piece) {
      std::printf("streams_events: wrong at %d\n", i);
      return 1;
    }
  }
  if (ms < 0) {
    std::printf("streams_events: %g ms\n", ms);
    return 1;
  }
  for (cudaStream_t& each : s) CHECK(cudaStreamDestroy(each));
  CHECK(cudaEventDestroy(start));
  CHECK(cudaEventDestroy(stop));
  CHECK(cudaFreeHost(in));
  CHECK(cudaFreeHost(out));
  CHECK(cudaFree(d));
  return 0;
}

struct Note {
  const int* from;
  int seen;
};

int ordered_by_events() {
  cudaStream_t a, b;
  cudaEvent_t ready;
  CHECK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithPriority(&b, cudaStreamNonBlocking, 0));
  CHECK(cudaEventCreateWithFlags(&ready, cudaEventDisableTiming));
  int *host, *d;
  CHECK(cudaMallocHost(&host, sizeof(int)));
  *host = 0;
  CHECK(cudaMallocAsync(&d, 2 * sizeof(int), a));
  store<<<1, 1, 0, a>>>(d, 20);
  CHECK(cudaEventRecord(ready, a));
  CHECK(cudaStreamWaitEvent(b, ready));
  twice_plus<<<1, 1, 0, b>>>(d, d + 1, 1, 2);
  CHECK(cudaMemcpyAsync(host, d + 1, sizeof(int), cudaMemcpyDeviceToHost, b));
  Note note = {host, 0};
  CHECK(cudaLaunchHostFunc(
      b,
      [](void* p) {
        Note* n = static_cast<Note*>(p);
        n->seen = *n->from;
      },
      &note));
  CHECK(cudaFreeAsync(d, b));
  CHECK(cudaStreamSynchronize(b));
  if (note.seen != 42 || cudaStreamQuery(b) != cudaSuccess ||
      cudaEventQuery(ready) != cudaSuccess) {
    std::printf("streams_events: the host function saw %d\n", note.seen);
    return 1;
  }
  CHECK(cudaStreamDestroy(a));
  CHECK(cudaStreamDestroy(b));
  CHECK(cudaEventDestroy(ready));
  CHECK(cudaFreeHost(host));
  return 0;
}

int mapped_memory() {
  int *host, *device;
  CHECK(cudaHostAlloc(&host, sizeof(int), cudaHostAllocMapped));
  CHECK(cudaHostGetDevicePointer(&device, host, 0));
  store<<<1, 1>>>(device, 7);
  CHECK(cudaDeviceSynchronize());
  const int seen = *host;
  CHECK(cudaFreeHost(host));
  if (seen != 7) std::printf("streams_events: mapped memory holds %d\n", seen);
  return seen != 7;
}

int main() {
  if (overlapped_pieces() || ordered_by_events() || mapped_memory()) return 1;
  std::printf("streams_events: ok\n");
}
