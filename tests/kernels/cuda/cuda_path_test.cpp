// The host's path to cuda devices, end to end: which device and stream work goes to, what a
// device's limits make of a launch, what cuBLASLt refuses. Needs a GPU or an emulated one
// (docs/emulator.md); there with two devices, and with the limits of smaller GPUs.
#include <cmath>
#include <cstdlib>
#include <exception>
#include <limits>
#include <thread>
#include <vector>

#include "warptape/autograd/ops.h"
#include "warptape/core/async_copy.h"
#include "warptape/core/device.h"
#include "warptape/core/factories.h"
#include "warptape/core/matmul_precision.h"
#include "warptape/core/random.h"
#include "warptape/core/stream.h"
#include "warptape/kernels/matmul.h"
#include "warptape/kernels/run.h"
#include "warptape/nn/layers.h"
#include "warptape/optim/clip.h"
#include "warptape/optim/optimizer.h"
#include "warptape/tests/support/catch.h"

using namespace wt;

namespace {

const Device kFirst = Device::cuda(0), kSecond = Device::cuda(1);

#define NEED_GPUS(n)                                             \
  if (!cuda::is_available()) SKIP_TEST(cuda::why_not().c_str()); \
  if (cuda::device_count() < (n)) SKIP_TEST("there are too few cuda devices")

// Values that are exact in f32 and differ by row and column.
Tensor counting(const Shape& shape, int from = 0) {
  std::vector<float> v(static_cast<size_t>(numel_of(shape)));
  for (size_t i = 0; i < v.size(); ++i) v[i] = float((int(i) * 7 + from) % 31 - 15) / 16;
  return tensor(v).reshape(shape);
}

double worst_difference(const Tensor& a, const Tensor& b) {
  const std::vector<float> x = a.to_vector<float>(), y = b.to_vector<float>();
  REQUIRE(x.size() == y.size());
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double d = std::abs(double(x[i]) - y[i]);
    if (!(d <= worst)) worst = d;  // NaN too
  }
  return worst;
}

struct Net : nn::Module<Net> {
  nn::Linear hidden = add("hidden", nn::Linear(5, 16));
  nn::Linear out = add("out", nn::Linear(16, 3));
  Tensor forward(Tensor x) { return out(relu(hidden(x))); }
};

// Parameters after some steps; between those, `elsewhere` is used.
std::vector<Tensor> trained(Device d, Device elsewhere) {
  manual_seed(3);
  Net net;
  net.to(d);
  optim::AdamW opt(net, {.lr = 0.05});
  const Tensor x = counting({12, 5}).to(d);
  std::vector<i64> classes(12);
  for (size_t i = 0; i < 12; ++i) classes[i] = i64(i % 3);
  const Tensor labels = tensor(classes).to(d);
  for (int step = 0; step < 4; ++step) {
    Loss loss = cross_entropy(net(x), labels);
    const Tensor other =
        counting({64}).to(elsewhere);  // its device is the thread's current one now
    loss.sum.backward();
    (void)(other + 1.0).to_vector<float>();
    (void)optim::clip_grad_norm_(net, 1.0);
    const Tensor again = ones({32}, {.device = elsewhere});
    opt.step();
    opt.zero_grad();
  }
  std::vector<Tensor> values;
  for (const auto& t : net.state_dict()) values.push_back(t.tensor.to(Device::cpu()));
  return values;
}

// Runs f where cuBLASLt answers so on the emulated device; nothing else happens on hardware. In a
// thread of its own, because what was answered is remembered by each.
template <class F>
void where_cublaslt_answers(const char* answer, F f) {
  setenv("WT_EMU_HEURISTIC", answer, 1);
  std::exception_ptr thrown;
  std::thread([&] {
    try {
      f();
    } catch (...) {
      thrown = std::current_exception();
    }
  }).join();
  unsetenv("WT_EMU_HEURISTIC");
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace

TEST_CASE("cuda path: a model on one device trains while the thread uses another") {
  NEED_GPUS(2);
  const std::vector<Tensor> cpu = trained(Device::cpu(), kFirst), second = trained(kSecond, kFirst),
                            first = trained(kFirst, kSecond);
  for (size_t i = 0; i < cpu.size(); ++i) {
    CHECK(worst_difference(cpu[i], second[i]) < 1e-4);
    CHECK(worst_difference(cpu[i], first[i]) < 1e-4);
  }
}

TEST_CASE("cuda path: what a side stream still reads is not handed out again") {
  NEED_GPUS(1);
  const Stream side(kFirst), normal = Stream::current(kFirst);
  const Tensor at = tensor(std::vector<i64>{2, 0, 1});
  for (int round = 0; round < 10; ++round) {
    CAPTURE(round);
    const Tensor host = counting({3, 400}, round), labels = tensor(std::vector<i64>{5, 0, 399});
    const auto all = [&](Device d) {
      Tensor w = host.clone().to(d).set_requires_grad();
      const Tensor l = labels.to(d), rows = at.to(d);
      if (d == kFirst) side.wait(normal);
      std::vector<Tensor> out;
      {
        const StreamScope on(d == kFirst ? side : Stream::current(d));
        // Each of these reads a tensor whose last handle goes while the stream is behind.
        Tensor moved = index_put(w * 2.0, {rows}, w * 3.0);
        Loss loss = cross_entropy(moved + w, l);
        moved = Tensor();
        loss.sum.backward();
        (w * w).sum().backward();  // adds to the gradient that is there
        out = {w.grad() + 0.0, norm(w.grad()), std::move(loss.sum)};
        w = Tensor();
        for (Tensor& t : out) t = copy_async(t.detach(), Device::cpu());
      }
      const Tensor fresh = full({3, 400}, -1.0, {.device = d});  // on the other stream
      CHECK(fresh.to_vector<float>()[7] == -1);
      return out;
    };
    const std::vector<Tensor> cpu = all(Device::cpu()), gpu = all(kFirst);
    for (size_t i = 0; i < cpu.size(); ++i) CHECK(worst_difference(cpu[i], gpu[i]) < 1e-4);
  }
}

TEST_CASE("cuda path: rows beyond what a block can share are taken another way") {
  NEED_GPUS(1);
  // 100 KiB and 200 KiB of f32: more than a block's shared memory on an RTX 4090 (99 KiB) and on an
  // A100 (163 KiB).
  for (const i64 columns : {100 * 256, 200 * 256}) {
    CAPTURE(columns);
    const auto both = [&](Device d) {
      Tensor x = counting({2, columns}).clone().to(d).set_requires_grad();
      const Tensor weight = counting({columns}, 5).to(d), g = counting({2, columns}, 9).to(d);
      const Tensor y = softmax(x, 1) * double(columns),
                   z = layer_norm(x, {columns}, weight, weight);
      ((y * g).sum() + (z * g).sum()).backward();
      return std::vector<Tensor>{y.detach(), z.detach(), x.grad()};
    };
    const std::vector<Tensor> cpu = both(Device::cpu()), gpu = both(kFirst);
    for (size_t i = 0; i < cpu.size(); ++i) CHECK(worst_difference(cpu[i], gpu[i]) < 1e-4);
  }
}

TEST_CASE("cuda path: layers of one input, one output and one row") {
  NEED_GPUS(1);
  struct Sizes {
    i64 rows, in, out;
  };
  for (const Sizes s : {Sizes{8, 1, 4}, {8, 4, 1}, {1, 4, 4}, {1, 1, 1}, {1, 1, 5}, {7, 1, 1}}) {
    CAPTURE(s.rows, s.in, s.out);
    const auto layer = [&](Device d) {
      manual_seed(1);
      nn::Linear fc(s.in, s.out);
      fc.to(d);
      Tensor x = counting({s.rows, s.in}, 3).clone().to(d).set_requires_grad();
      const Tensor y = fc(x);
      (y * y).sum().backward();
      return std::vector<Tensor>{y.detach(), x.grad(), fc.weight.tensor().grad(),
                                 fc.bias.tensor().grad()};
    };
    const std::vector<Tensor> cpu = layer(Device::cpu()), gpu = layer(kFirst);
    for (size_t i = 0; i < cpu.size(); ++i) CHECK(worst_difference(cpu[i], gpu[i]) < 1e-4);
  }
}

TEST_CASE("cuda path: row sums by cuBLASLt's epilogue, or by our kernel where it has none") {
  NEED_GPUS(1);
  constexpr i64 kOut = 40, kIn = 24;
  for (const DType t : {DType::f32, DType::f16, DType::bf16})
    for (const i64 rows : {i64{1}, i64{33}, i64{200}}) {
      // Of a linear layer: dW = dy^T x, and the bias's. Sixteenths, whose sums are exact in f32.
      const Tensor dy = counting({rows, kOut}).to(t), x = counting({rows, kIn}, 4).to(t);
      const std::vector<double> want_w =
                                    matmul(dy.to(f64).t(), x.to(f64)).to(t).to_vector<double>(),
                                want_b = dy.to(f64).sum({0}).to(t).to_vector<double>();
      for (const char* answer : {"", "none", "status"}) {
        CAPTURE(dtype_name(t), rows, answer);
        std::vector<double> got_w, got_b;
        where_cublaslt_answers(answer, [&] {
          const VariantScope by_epilogue("matmul", "vendor_epilogues");
          const Tensor on_device = dy.to(kFirst), inputs = x.to(kFirst);
          const Tensor dw = zeros({kOut, kIn}, {.dtype = t, .device = kFirst});
          const Tensor db = zeros({kOut}, {.dtype = t, .device = kFirst});
          MatmulArgs g;
          g.out = dw.impl()->data, g.a = on_device.impl()->data, g.b = inputs.impl()->data;
          g.row_sum = db.impl()->data;
          g.m = kOut, g.n = kIn, g.k = rows, g.dtype = t;
          g.out_row = kIn, g.a_row = 1, g.a_column = kOut, g.b_row = kIn, g.b_column = 1;
          run(g, Launch{.device = kFirst});
          got_w = dw.to_vector<double>(), got_b = db.to_vector<double>();
        });
        CHECK(got_w == want_w);
        CHECK(got_b == want_b);
      }
    }
}

TEST_CASE("cuda path: f32 products are rounded to TF32 only where that is asked for") {
  NEED_GPUS(1);
  // 12 bits behind the point: TF32 has ten.
  const double fine = 1 + 0x1p-12;
  const auto product = [&](DType t) {
    const Tensor x = full({16, 32}, fine, {.dtype = t, .device = kFirst});
    const Tensor y = eye(32, {.dtype = t, .device = kFirst});
    return matmul(x, y).to_vector<double>();
  };
  CHECK(matmul_precision() == MatmulPrecision::highest);
  const std::vector<double> exact(16 * 32, fine);
  // In one thread: what it remembers of a problem must say which precision it was for.
  CHECK(product(DType::f32) == exact);
  set_matmul_precision(MatmulPrecision::high);
  const std::vector<double> rounded = product(DType::f32), wide = product(DType::f64);
  set_matmul_precision(MatmulPrecision::highest);
  CHECK(wide == exact);
  for (const double v : rounded) CHECK(std::fabs(v - fine) <= 0x1p-11);
  // A GPU's heuristic may have no TF32 kernel for this size; the emulated device always rounds.
  if (std::getenv("WT_EMU_SUMMARY")) CHECK(rounded != exact);
  CHECK(product(DType::f32) == exact);
}

TEST_CASE("cuda path: a product works whatever cuBLASLt makes of it") {
  NEED_GPUS(1);
  const Tensor x = counting({24, 32}), w = counting({40, 32}, 4), b = counting({41}, 8);
  const auto product = [&](Device d) {
    // The bias begins 4 bytes into its block: cuBLASLt's epilogue wants 16.
    return linear(x.to(d), w.to(d), b.to(d).narrow(0, 1, 40)).to(Device::cpu());
  };
  const Tensor want = product(Device::cpu());
  for (const char* answer : {"", "none", "state", "status"}) {
    CAPTURE(answer);
    Tensor linear_there, plain_there;
    where_cublaslt_answers(answer, [&] {
      linear_there = product(kFirst);
      plain_there = matmul(x.to(kFirst), w.to(kFirst).t()).to(Device::cpu());
    });
    CHECK(worst_difference(linear_there, want) < 1e-4);
    CHECK(worst_difference(plain_there, matmul(x, w.t())) < 1e-4);
  }
}
