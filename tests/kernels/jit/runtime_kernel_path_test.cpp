// A kernel that is text, from its source to its results: NVRTC compiles it, the device runs it, the
// cpu says what is right. Needs NVRTC, and a GPU or an emulated one.
#include "warptape/autograd/runtime_kernel.h"

#include "warptape/autograd/capture.h"
#include "warptape/autograd/custom.h"
#include "warptape/autograd/ops.h"
#include "warptape/autograd/saved_graph.h"
#include "warptape/core/factories.h"
#include "warptape/kernels/jit/kernel.h"
#include "warptape/kernels/jit/nvrtc.h"
#include "warptape/tests/support/ambient.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/temp_dir.h"

using namespace wt;
using wt_test::Environment;

namespace {

const Device kCuda = Device::cuda(0);

#define NEED_CUDA_AND_NVRTC()                                    \
  if (!cuda::is_available()) SKIP_TEST(cuda::why_not().c_str()); \
  if (!jit::nvrtc().api) SKIP_TEST(jit::nvrtc().why_not.c_str())

// y += a * x
const RuntimeKernel& axpy() {
  static const RuntimeKernel kernel{R"(
extern "C" __global__ void axpy(float* y, const float* x, float a, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * x[i];
})",
                                    "axpy"};
  return kernel;
}

std::vector<float> counting(i64 n) {
  std::vector<float> v(static_cast<size_t>(n));
  for (size_t i = 0; i < v.size(); ++i) v[i] = float(int(i * 7) % 31 - 15) / 16;
  return v;
}

}  // namespace

TEST_CASE("row 94: a kernel that is text computes what the cpu does, and is found on disk again") {
  NEED_CUDA_AND_NVRTC();
  const TempDir dir;
  const Environment folder("WT_KERNEL_CACHE", dir.path.c_str());
  jit::forget_kernels();
  for (int round = 0; round < 2; ++round) {
    CAPTURE(round);
    for (const i64 n : {1, 255, 256, 1000}) {
      const Tensor x = tensor(counting(n)), before = ones({n});
      const Tensor y = before.to(kCuda);
      axpy().launch({.blocks = (n + 255) / 256, .threads = 256},
                    {written(y), x.to(kCuda), 0.5f, n});
      CHECK(y.to_vector<float>() == (before + 0.5 * x).to_vector<float>());  // exact in f32
    }
    const RuntimeKernel::Stats s = RuntimeKernel::stats();
    CHECK(s.memory_hits == 0);
    CHECK((round == 0 ? s.compiled : s.disk_hits) >= 1);
    CHECK((round == 0 ? s.disk_hits : s.compiled) == 0);
    jit::forget_kernels();  // as the next process
  }
}

TEST_CASE("row 94: a template, options and dynamic shared memory") {
  NEED_CUDA_AND_NVRTC();
  const Environment folder("WT_KERNEL_CACHE", "off");
  const RuntimeKernel sums{R"(
template <class T>
__global__ void sums(T* y, const T* x, int n) {
  extern __shared__ unsigned char raw[];
  T* part = reinterpret_cast<T*>(raw);
  T sum = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum += FACTOR * x[blockIdx.x * n + i];
  part[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    T all = 0;
    for (int i = 0; i < blockDim.x; ++i) all += part[i];
    y[blockIdx.x] = all;
  }
})",
                           "sums<double>",
                           {.options = {"-DFACTOR=4"}}};
  const Tensor x = tensor(counting(3 * 100)).to(f64).reshape({3, 100});
  const Tensor y = zeros({3}, {.dtype = f64, .device = kCuda});
  sums.launch({.blocks = 3, .threads = 64, .shared = 64 * 8}, {written(y), x.to(kCuda), 100});
  CHECK(y.to_vector<double>() == (sum(x, 1) * 4.0).to_vector<double>());  // exact
  CHECK(mentions(message_of([&] {
                   sums.launch({}, {written(y), x.to(kCuda), i64{100}});
                 }),
                 "argument 3 has 8 bytes, the parameter 4"));
}

namespace {
// The kernel inside of an operator, which the tape knows.
struct Scaled {
  float a = 2;
  static constexpr OpInfo info{.name = "scaled"};
  Tensor forward(Save&, const Tensor& x) const {
    const Tensor y = zeros_like(x);
    axpy().launch({.blocks = 1, .threads = 64}, {written(y), x, a, x.numel()});
    return y;
  }
  Grads backward(const Saved&, const Tensor& gy) const { return {double(a) * gy}; }
};
}  // namespace

TEST_CASE("row 94: inside a custom operator it has a gradient, and a captured step replays it") {
  NEED_CUDA_AND_NVRTC();
  const Environment folder("WT_KERNEL_CACHE", "off");
  jit::forget_kernels();
  Tensor x = tensor(counting(64)).to(kCuda);
  x.set_requires_grad();
  apply(Scaled{3}, x).sum().backward();
  CHECK(x.grad().to_vector<float>() == std::vector<float>(64, 3.0f));

  const NoGrad off;
  auto f = capture([](const Tensor& t) { return apply(Scaled{2}, t) + 1.0; }, x.detach());
  for (int call = 0; call < 5; ++call) {
    CAPTURE(call);
    const Tensor in = tensor(counting(64 + call)).narrow(0, call, 64).contiguous();
    CHECK(f(in.to(kCuda)).to_vector<float>() == (in * 2.0 + 1.0).to_vector<float>());
  }
  CHECK(f.why_eager() == "");
  const TempDir dir;
  CHECK(mentions(message_of([&] {
                   save_graph(
                       dir / "f", [](const Tensor& t) { return apply(Scaled{2}, t); }, x.detach());
                 }),
                 "a file has kernels of the library alone"));
}
