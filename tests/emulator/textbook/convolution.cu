// A 5 x 5 convolution: the filter in constant memory, the image's tile with its margin in shared.
#include <cmath>
#include <cstdio>
#include <vector>

#define CHECK(call)                                          \
  if (const cudaError_t e = (call); e != cudaSuccess) {      \
    std::printf("convolution: %s\n", cudaGetErrorString(e)); \
    return 1;                                                \
  }

constexpr int kRadius = 2, kSide = 2 * kRadius + 1, kTile = 16;

__constant__ float filter[kSide * kSide];
__constant__ float edge = 0.5f;  // what lies outside the image

__global__ void convolve(const float* in, float* out, int width, int height) {
  __shared__ float tile[kTile + 2 * kRadius][kTile + 2 * kRadius];
  const int x0 = blockIdx.x * kTile - kRadius, y0 = blockIdx.y * kTile - kRadius;
  for (int y = threadIdx.y; y < kTile + 2 * kRadius; y += kTile) {
    for (int x = threadIdx.x; x < kTile + 2 * kRadius; x += kTile) {
      const int ix = x0 + x, iy = y0 + y;
      const bool inside = ix >= 0 && ix < width && iy >= 0 && iy < height;
      tile[y][x] = inside ? in[iy * width + ix] : edge;
    }
  }
  __syncthreads();
  const int x = blockIdx.x * kTile + threadIdx.x, y = blockIdx.y * kTile + threadIdx.y;
  if (x >= width || y >= height) return;
  float sum = 0;
  for (int j = 0; j < kSide; ++j) {
    for (int i = 0; i < kSide; ++i) {
      sum += filter[j * kSide + i] * tile[threadIdx.y + j][threadIdx.x + i];
    }
  }
  out[y * width + x] = sum;
}

int main() {
  const int width = 75, height = 53;
  float weights[kSide * kSide], back[kSide * kSide];
  for (int i = 0; i < kSide * kSide; ++i) weights[i] = float(i % 7 - 3) / 4;
  CHECK(cudaMemcpyToSymbol(filter, weights, sizeof weights));
  const float last = 2.0f;
  weights[kSide * kSide - 1] = last;
  CHECK(cudaMemcpyToSymbol(filter, &last, sizeof last, sizeof weights - sizeof last));
  CHECK(cudaMemcpyFromSymbol(back, filter, sizeof back));
  for (int i = 0; i < kSide * kSide; ++i) {
    if (back[i] != weights[i]) {
      std::printf("convolution: the filter came back changed\n");
      return 1;
    }
  }
  std::vector<float> in(width * height), out(width * height);
  for (int i = 0; i < width * height; ++i) in[i] = float((i * 29) % 64) / 64;
  float *din, *dout;
  CHECK(cudaMalloc(&din, in.size() * sizeof(float)));
  CHECK(cudaMalloc(&dout, in.size() * sizeof(float)));
  CHECK(cudaMemcpy(din, in.data(), in.size() * sizeof(float), cudaMemcpyHostToDevice));
  convolve<<<dim3((width + kTile - 1) / kTile, (height + kTile - 1) / kTile), dim3(kTile, kTile)>>>(
      din, dout, width, height);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(out.data(), dout, out.size() * sizeof(float), cudaMemcpyDeviceToHost));
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      double sum = 0;
      for (int j = -kRadius; j <= kRadius; ++j) {
        for (int i = -kRadius; i <= kRadius; ++i) {
          const bool inside = x + i >= 0 && x + i < width && y + j >= 0 && y + j < height;
          const double v = inside ? in[(y + j) * width + x + i] : 0.5;
          sum += v * weights[(j + kRadius) * kSide + i + kRadius];
        }
      }
      if (std::fabs(sum - out[y * width + x]) > 1e-5) {
        std::printf("convolution: wrong at %d, %d\n", x, y);
        return 1;
      }
    }
  }
  std::printf("convolution: ok\n");
}
