// The first CUDA program: one thread an element, with a tail that the last block must not touch.
#include <cstdio>
#include <vector>

#define CHECK(call)                                         \
  if (const cudaError_t e = (call); e != cudaSuccess) {     \
    std::printf("vector_add: %s\n", cudaGetErrorString(e)); \
    return 1;                                               \
  }

template <class T>
__global__ void add(const T* a, const T* b, T* c, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}

template <class T>
int run(int n) {
  std::vector<T> a(n), b(n), c(n + 1);
  for (int i = 0; i < n; ++i) {
    a[i] = T(i);
    b[i] = T(3 * i + 1);
  }
  const size_t bytes = n * sizeof(T);
  T *da, *db, *dc;
  CHECK(cudaMalloc(&da, bytes));
  CHECK(cudaMalloc(&db, bytes));
  CHECK(cudaMalloc(&dc, bytes + sizeof(T)));
  CHECK(cudaMemcpy(da, a.data(), bytes, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(db, b.data(), bytes, cudaMemcpyHostToDevice));
  CHECK(cudaMemset(dc, 0, bytes + sizeof(T)));
  add<<<(n + 255) / 256, 256>>>(da, db, dc, n);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(c.data(), dc, bytes + sizeof(T), cudaMemcpyDeviceToHost));
  CHECK(cudaFree(da));
  CHECK(cudaFree(db));
  CHECK(cudaFree(dc));
  for (int i = 0; i < n; ++i) {
    if (c[i] != T(4 * i + 1)) {
      std::printf("vector_add: wrong at %d\n", i);
      return 1;
    }
  }
  if (c[n] != T(0)) {
    std::printf("vector_add: wrote past the end\n");
    return 1;
  }
  return 0;
}

int main() {
  if (run<float>(100003) || run<double>(1000) || run<int>(257) || run<long long>(1)) return 1;
  std::printf("vector_add: ok\n");
}
