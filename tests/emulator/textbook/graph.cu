// Launches captured once as a graph, with a fork and a join, and replayed.
#include <cstdio>
#include <vector>

#define CHECK(call)                                     \
  if (const cudaError_t e = (call); e != cudaSuccess) { \
    std::printf("graph: %s\n", cudaGetErrorString(e));  \
    return 1;                                           \
  }

__global__ void scale(float* x, int n, float by) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= by;
}

__global__ void add(float* x, int n, float much) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] += much;
}

__global__ void sum(const float* a, const float* b, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a[i] + b[i];
}

int main() {
  const int n = 1000, blocks = 4, threads = 256;
  float *a, *b, *out;
  CHECK(cudaMalloc(&a, n * sizeof(float)));
  CHECK(cudaMalloc(&b, n * sizeof(float)));
  CHECK(cudaMalloc(&out, n * sizeof(float)));
  std::vector<float> start(n), got(n, -1);
  for (int i = 0; i < n; ++i) start[i] = float(i % 10);
  CHECK(cudaMemcpy(a, start.data(), n * sizeof(float), cudaMemcpyHostToDevice));
  CHECK(cudaMemset(out, 0, n * sizeof(float)));

  cudaStream_t main_stream, side;
  cudaEvent_t fork, join;
  CHECK(cudaStreamCreate(&main_stream));
  CHECK(cudaStreamCreate(&side));
  CHECK(cudaEventCreate(&fork));
  CHECK(cudaEventCreate(&join));
  cudaGraph_t graph;
  CHECK(cudaStreamBeginCapture(main_stream, cudaStreamCaptureModeGlobal));
  CHECK(cudaEventRecord(fork, main_stream));
  CHECK(cudaStreamWaitEvent(side, fork));
  CHECK(cudaMemsetAsync(b, 0, n * sizeof(float), side));
  add<<<blocks, threads, 0, side>>>(b, n, 3);
  CHECK(cudaEventRecord(join, side));
  scale<<<blocks, threads, 0, main_stream>>>(a, n, 2);
  add<<<blocks, threads, 0, main_stream>>>(a, n, 1);
  CHECK(cudaStreamWaitEvent(main_stream, join));
  sum<<<blocks, threads, 0, main_stream>>>(a, b, out, n);
  cudaStreamCaptureStatus status;
  CHECK(cudaStreamIsCapturing(main_stream, &status));
  CHECK(cudaStreamEndCapture(main_stream, &graph));

  size_t nodes = 0;
  CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
  CHECK(cudaMemcpy(got.data(), out, n * sizeof(float), cudaMemcpyDeviceToHost));
  if (status != cudaStreamCaptureStatusActive || nodes != 5 || got[1] != 0) {
    std::printf("graph: %d nodes; capturing must not run anything: %g\n", int(nodes), got[1]);
    return 1;
  }
  cudaGraphExec_t exec;
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  CHECK(cudaGraphDestroy(graph));
  for (int again = 0; again < 3; ++again) CHECK(cudaGraphLaunch(exec, main_stream));
  CHECK(cudaStreamSynchronize(main_stream));
  CHECK(cudaMemcpy(got.data(), out, n * sizeof(float), cudaMemcpyDeviceToHost));
  for (int i = 0; i < n; ++i) {
    float expected = start[i];
    for (int again = 0; again < 3; ++again) expected = 2 * expected + 1;
    if (got[i] != expected + 3) {
      std::printf("graph: %g instead of %g at %d\n", got[i], expected + 3, i);
      return 1;
    }
  }
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaStreamDestroy(main_stream));
  CHECK(cudaStreamDestroy(side));
  std::printf("graph: ok\n");
}
