// The variants that divide the reference's loops among threads (kernels/*/*_cpu.cpp).
#include <functional>

#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/arrange.h"
#include "warptape/autograd/ops/ctc.h"
#include "warptape/autograd/ops/gather.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/resize.h"
#include "warptape/autograd/ops/scan.h"
#include "warptape/autograd/ops/softmax.h"
#include "warptape/autograd/ops/sort.h"
#include "warptape/core/device.h"
#include "warptape/core/factories.h"
#include "warptape/core/mode.h"
#include "warptape/core/random.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/values.h"

using namespace wt;

namespace {

struct Work {
  const char* name;
  std::function<Tensor()> run;
};

// Large enough for three threads; along both axes, so that outer and inner loops are divided.
std::vector<Work> all_work() {
  manual_seed(3);
  const Tensor x = randn({300, 400}), half = x.to(f16), index = randint(0, 300, {300, 400});
  const Tensor image = randn({2, 3, 150, 160});
  const Tensor p = log_softmax(randn({200, 5, 40}), 2), labels = randint(1, 40, {5, 12});
  const Tensor steps = full({5}, 200, {.dtype = DType::i64}),
               length = full({5}, 12, {.dtype = DType::i64});
  std::vector<Work> all;
  for (const i64 axis : {0, 1}) {
    all.push_back({"gather", [=] { return gather(x, axis, index); }});
    all.push_back({"scatter", [=] { return scatter(x, axis, index, square(x)); }});
    all.push_back({"scatter_add", [=] { return scatter_add(x, axis, index, x); }});
    all.push_back({"scatter_add of f16", [=] { return scatter_add(half, axis, index, half); }});
    all.push_back({"cumsum", [=] { return cumsum(x, axis); }});
    all.push_back({"sort", [=] { return sort(x, axis).values; }});
    all.push_back({"argsort", [=] { return argsort(x, axis); }});
    all.push_back({"resize", [=] {
                     return resize_axis(image, 2 + axis, 333, {.mode = ResizeMode::linear});
                   }});
    all.push_back({"resize_backward", [=] {
                     return resize_axis_backward(image, 2 + axis, 70, {.mode = ResizeMode::linear});
                   }});
    all.push_back({"unfold_backward", [=] {
                     const Tensor windows = unfold(x, axis, 5, 2);
                     return unfold_backward(windows, x.shape(), axis, 5, 2);
                   }});
  }
  all.push_back({"ctc", [=] {
                   Tensor leaf = p.clone().set_requires_grad();
                   return grad(ctc_loss(leaf, labels, steps, length), leaf);
                 }});
  return all;
}

}  // namespace

TEST_CASE("threaded variants give the reference's bits", "[kernels]") {
  const int before = num_threads();
  for (const Work& w : all_work()) {
    CAPTURE(w.name);
    Values want;
    {
      const VariantScope scope("*", "reference");
      want = values(w.run());
    }
    for (const int threads : {1, 3}) {
      CAPTURE(threads);
      set_num_threads(threads);
      const VariantScope scope("*", "threaded");
      CHECK(values(w.run()) == want);
      set_num_threads(before);
    }
  }
}
