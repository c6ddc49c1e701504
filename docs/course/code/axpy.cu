// The kernels that docs/course/3_ptx_and_machine_code.md reads: y += a * x, an element a thread and four.
extern "C" __global__ void axpy(float* y, const float* x, float a, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * x[i];
}

extern "C" __global__ void axpy4(float4* y, const float4* x, float a, long long packs) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i >= packs) return;
  const float4 u = x[i];
  float4 v = y[i];
  v.x += a * u.x, v.y += a * u.y, v.z += a * u.z, v.w += a * u.w;
  y[i] = v;
}
