// The Mandelbrot set, in float and in double. A step's rounding differs where the compiler fuses,
// so single pixels at the edge may differ from the host's; the area must not.
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                         \
  if (const cudaError_t e = (call); e != cudaSuccess) {     \
    std::printf("mandelbrot: %s\n", cudaGetErrorString(e)); \
    return 1;                                               \
  }

constexpr int kWidth = 120, kHeight = 80, kMost = 100;

template <class T>
__host__ __device__ int steps(T cx, T cy) {
  T x = 0, y = 0;
  int n = 0;
  while (n < kMost && x * x + y * y < T(4)) {
    const T next = x * x - y * y + cx;
    y = T(2) * x * y + cy;
    x = next;
    ++n;
  }
  return n;
}

template <class T>
__global__ void draw(unsigned char* image) {
  const int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
  if (px >= kWidth || py >= kHeight) return;
  image[py * kWidth + px] = steps(T(px) * T(3) / kWidth - T(2), T(py) * T(2) / kHeight - T(1));
}

template <class T>
int check(unsigned char* device, const char* name) {
  std::vector<unsigned char> image(kWidth * kHeight);
  draw<T><<<dim3((kWidth + 31) / 32, (kHeight + 7) / 8), dim3(32, 8)>>>(device);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(image.data(), device, image.size(), cudaMemcpyDeviceToHost));
  int differ = 0, inside = 0, inside_host = 0;
  for (int py = 0; py < kHeight; ++py) {
    for (int px = 0; px < kWidth; ++px) {
      const int host = steps(T(px) * T(3) / kWidth - T(2), T(py) * T(2) / kHeight - T(1));
      const int got = image[py * kWidth + px];
      differ += got != host;
      inside += got == kMost;
      inside_host += host == kMost;
    }
  }
  if (differ > kWidth * kHeight / 50 || std::abs(inside - inside_host) > 20 || inside < 1000) {
    std::printf("mandelbrot: %s differs at %d pixels; inside %d and %d\n", name, differ, inside,
                inside_host);
    return 1;
  }
  return 0;
}

int main() {
  unsigned char* image;
  CHECK(cudaMalloc(&image, kWidth * kHeight));
  if (check<float>(image, "float") || check<double>(image, "double")) return 1;
  std::printf("mandelbrot: ok\n");
}
