// An image whose rows are padded: copies in two dimensions, and Sobel's edges of a colour picture.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                          \
  if (const cudaError_t e = (call); e != cudaSuccess) {      \
    std::printf("image_pitch: %s\n", cudaGetErrorString(e)); \
    return 1;                                                \
  }

__host__ __device__ int gray(uchar4 c) { return (77 * c.x + 150 * c.y + 29 * c.z) >> 8; }

__global__ void to_gray(const uchar4* in, size_t in_pitch, unsigned char* out, size_t out_pitch,
                        int width, int height) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  const uchar4* row = (const uchar4*)((const char*)in + y * in_pitch);
  out[y * out_pitch + x] = (unsigned char)gray(row[x]);
}

__global__ void edges(const unsigned char* in, unsigned char* out, size_t pitch, int width,
                      int height) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < 1 || y < 1 || x >= width - 1 || y >= height - 1) return;
  const auto p = [&](int dx, int dy) { return int(in[(y + dy) * pitch + x + dx]); };
  const int gx = p(1, -1) + 2 * p(1, 0) + p(1, 1) - p(-1, -1) - 2 * p(-1, 0) - p(-1, 1);
  const int gy = p(-1, 1) + 2 * p(0, 1) + p(1, 1) - p(-1, -1) - 2 * p(0, -1) - p(1, -1);
  out[y * pitch + x] = (unsigned char)min(255, abs(gx) + abs(gy));
}

int main() {
  const int width = 101, height = 67;
  std::vector<uchar4> in(width * height);
  std::vector<unsigned char> out(width * height);
  for (int i = 0; i < width * height; ++i) {
    const int x = i % width, y = i / width;
    const bool disc = (x - 50) * (x - 50) + (y - 30) * (y - 30) < 400;
    in[i] = make_uchar4((unsigned char)(x * 2), disc ? 200 : 20, (unsigned char)(y * 3), 255);
  }
  uchar4* din;
  unsigned char *dgray, *dout;
  size_t in_pitch = 0, pitch = 0, same = 0;
  CHECK(cudaMallocPitch(&din, &in_pitch, width * sizeof(uchar4), height));
  CHECK(cudaMallocPitch(&dgray, &pitch, width, height));
  CHECK(cudaMallocPitch(&dout, &same, width, height));
  if (pitch < size_t(width) || pitch % 32 != 0 || same != pitch) {
    std::printf("image_pitch: a pitch of %d bytes\n", int(pitch));
    return 1;
  }
  CHECK(cudaMemcpy2D(din, in_pitch, in.data(), width * sizeof(uchar4), width * sizeof(uchar4),
                     height, cudaMemcpyHostToDevice));
  CHECK(cudaMemset2D(dout, pitch, 9, width, height));
  const dim3 block(32, 4), grid((width + 31) / 32, (height + 3) / 4);
  to_gray<<<grid, block>>>(din, in_pitch, dgray, pitch, width, height);
  edges<<<grid, block>>>(dgray, dout, pitch, width, height);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy2D(out.data(), width, dout, pitch, width, height, cudaMemcpyDeviceToHost));
  const auto p = [&](int x, int y) { return gray(in[y * width + x]); };
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      int expected = 9;
      if (x > 0 && y > 0 && x < width - 1 && y < height - 1) {
        const int gx = p(x + 1, y - 1) + 2 * p(x + 1, y) + p(x + 1, y + 1) - p(x - 1, y - 1) -
                       2 * p(x - 1, y) - p(x - 1, y + 1);
        const int gy = p(x - 1, y + 1) + 2 * p(x, y + 1) + p(x + 1, y + 1) - p(x - 1, y - 1) -
                       2 * p(x, y - 1) - p(x + 1, y - 1);
        expected = std::abs(gx) + std::abs(gy);
        expected = expected > 255 ? 255 : expected;
      }
      if (out[y * width + x] != expected) {
        std::printf("image_pitch: %d instead of %d at %d, %d\n", out[y * width + x], expected, x,
                    y);
        return 1;
      }
    }
  }
  std::printf("image_pitch: ok\n");
}
