// A sparse matrix in compressed rows times a vector: a thread a row, and a warp a row.
#include <cmath>
#include <cstdio>
#include <vector>

#define CHECK(call)                                     \
  if (const cudaError_t e = (call); e != cudaSuccess) { \
    std::printf("spmv: %s\n", cudaGetErrorString(e));   \
    return 1;                                           \
  }

struct Csr {
  const int* starts;
  const int* columns;
  const double* values;
  int rows;
};

__global__ void by_thread(Csr m, const double* x, double* y) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= m.rows) return;
  double sum = 0;
  for (int i = m.starts[row]; i < m.starts[row + 1]; ++i) sum += m.values[i] * x[m.columns[i]];
  y[row] = sum;
}

__global__ void by_warp(Csr m, const double* x, double* y) {
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (row >= m.rows) return;
  double sum = 0;
  for (int i = m.starts[row] + lane; i < m.starts[row + 1]; i += 32) {
    sum += m.values[i] * __ldg(&x[m.columns[i]]);
  }
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
  if (lane == 0) y[row] = sum;
}

int main() {
  const int rows = 500, columns = 400;
  std::vector<int> starts(1, 0), where;
  std::vector<double> values, x(columns), expected(rows), y(rows);
  for (int c = 0; c < columns; ++c) x[c] = 1.0 / (c + 1);
  for (int r = 0; r < rows; ++r) {
    const int length = r % 50 == 7 ? 120 : r % 6;  // empty rows, and a few long ones
    for (int k = 0; k < length; ++k) {
      where.push_back((r * 11 + k * 3) % columns);
      values.push_back(double(k - 2) / (r + 1));
      expected[r] += values.back() * x[where.back()];
    }
    starts.push_back(int(where.size()));
  }
  int *dstarts, *dcolumns;
  double *dvalues, *dx, *dy;
  CHECK(cudaMalloc(&dstarts, starts.size() * sizeof(int)));
  CHECK(cudaMalloc(&dcolumns, where.size() * sizeof(int)));
  CHECK(cudaMalloc(&dvalues, values.size() * sizeof(double)));
  CHECK(cudaMalloc(&dx, columns * sizeof(double)));
  CHECK(cudaMalloc(&dy, rows * sizeof(double)));
  CHECK(cudaMemcpy(dstarts, starts.data(), starts.size() * sizeof(int), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(dcolumns, where.data(), where.size() * sizeof(int), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(dvalues, values.data(), values.size() * sizeof(double), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(dx, x.data(), columns * sizeof(double), cudaMemcpyHostToDevice));
  const Csr m = {dstarts, dcolumns, dvalues, rows};
  for (int way = 0; way < 2; ++way) {
    if (way == 0) {
      by_thread<<<(rows + 63) / 64, 64>>>(m, dx, dy);
    } else {
      by_warp<<<(rows + 3) / 4, 128>>>(m, dx, dy);
    }
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(y.data(), dy, rows * sizeof(double), cudaMemcpyDeviceToHost));
    for (int r = 0; r < rows; ++r) {
      if (std::fabs(y[r] - expected[r]) > 1e-12) {
        std::printf("spmv: way %d gave %g instead of %g in row %d\n", way, y[r], expected[r], r);
        return 1;
      }
    }
  }
  std::printf("spmv: ok\n");
}
