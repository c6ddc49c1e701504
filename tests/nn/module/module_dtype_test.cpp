// Module::to(dtype): what is converted, what keeps its identity, what is refused.
#include "warptape/autograd/compare.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/memory.h"
#include "warptape/nn/layers.h"
#include "warptape/optim/optimizer.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/values.h"

using namespace wt;

namespace {

struct Net : nn::Module<Net> {
  nn::Linear fc = add("fc", nn::Linear{4, 3});
  nn::BatchNorm1d norm = add("norm", nn::BatchNorm1d{3});
  nn::Linear head = add("head", nn::Linear{3, 2, {.dtype = f64}});
  nn::Buffer mask = add_buffer("mask", tensor({true, false}));
  Tensor forward(Tensor x) { return norm(fc(std::move(x))); }
};

std::vector<DType> dtypes(const nn::ModuleBase& m) {
  std::vector<DType> all;
  for (const nn::NamedTensor& t : m.state_dict()) all.push_back(t.tensor.dtype());
  return all;
}
// dtypes(Net): the mask, fc, norm with its statistics and count, head.
std::vector<DType> of_net(DType body, DType head) {
  return {DType::boolean, body, body, body, body, body, body, DType::i64, head, head};
}

}  // namespace

TEST_CASE("to(dtype) converts what is floating in place", "[modules]") {
  const LeakGuard guard;
  const Net net;
  CHECK(dtypes(net) == of_net(f32, f64));
  net.eval();
  const Tensor w = net.fc.weight, mean = net.norm.running_mean,
               count = net.norm.num_batches_tracked;
  const Values before = values(w);
  const Tensor y = net(ones({2, 4}));
  sum(y).backward();
  const u32 version = w.version(), counted = count.version();
  net.to(f64);
  CHECK(dtypes(net) == of_net(f64, f64));
  CHECK(w.same_as(net.fc.weight));
  CHECK(mean.same_as(net.norm.running_mean));
  CHECK(w.requires_grad());
  CHECK_FALSE(mean.requires_grad());
  CHECK(w.version() > version);
  CHECK(count.version() == counted);  // an integer: not touched
  CHECK_FALSE(w.grad().defined());
  CHECK(values(w) == before);  // f32 in f64 is exact
  const Tensor z = net(ones({2, 4}, {.dtype = f64}));
  CHECK(z.dtype() == f64);
  CHECK(allclose(z.to(f32), y));
  sum(z).backward();
  CHECK(w.grad().dtype() == f64);
  net.to(f32);
  CHECK(dtypes(net) == of_net(f32, f32));
  CHECK(values(w) == before);
  for (const DType t : {f16, bf16}) {
    const nn::Linear fc{4, 3};
    fc.to(t);
    CHECK(fc(ones({1, 4}, {.dtype = t})).dtype() == t);
  }
}

TEST_CASE("to(dtype): layers of all kinds run in the new dtype", "[modules]") {
  const Tensor x = ones({2, 4, 6}, {.dtype = f64});
  nn::LSTM lstm{6, 3, {.batch_first = true}};
  lstm.to(f64);
  CHECK(lstm(x).output.dtype() == f64);
  nn::MultiheadAttention attention{6, 2, {.batch_first = true}};
  attention.to(f64);
  CHECK(attention(x, x, x).output.dtype() == f64);
  nn::Conv1d conv{4, 2, {.kernel = 3}};
  conv.to(f64);
  CHECK(conv(x).dtype() == f64);
  nn::Sequential norms{nn::LayerNorm{{6}}, nn::GroupNorm{2, 4}, nn::RMSNorm{{6}}, nn::PReLU{}};
  norms.to(f64);
  CHECK(norms(x).dtype() == f64);
  nn::Embedding table{5, 3};
  table.to(f64);
  CHECK(table(tensor({1, 2})).dtype() == f64);
}

TEST_CASE("to(dtype): tied parameters stay tied", "[modules]") {
  const LeakGuard guard;
  nn::Linear a{2, 2}, b{2, 2};
  b.weight = a.weight;
  const nn::Sequential net{a, b};
  net.to(f64);
  CHECK(b.weight->same_as(a.weight));
  CHECK(a.weight->dtype() == f64);
  CHECK(net.parameters().size() == 3);
}

TEST_CASE("to(dtype): a pending backward throws, and writes nowhere", "[modules]") {
  const LeakGuard guard;
  const nn::Linear fc{4, 3};
  for (const bool device : {false, true}) {
    // Its backward reads x only: nothing saved tells it that the weight is another one now.
    const Tensor y = sum(fc(ones({2, 4})));
    if (device)
      fc.to(Device::simt());
    else
      fc.to(f16);
    CHECK(mentions(message_of([&] { y.backward(); }), "[linear.backward] gradient of input 1"));
    fc.zero_grad();
    CHECK_FALSE(fc.weight->grad().defined());
    fc.to(f32);
  }
  const Tensor p = ones({3}, {.requires_grad = true});
  struct Bias : nn::Module<Bias> {
    nn::Param p;
    explicit Bias(const Tensor& t) : p(add("p", t)) {}
  } bias{p};
  const Tensor z = sum(zeros({2, 3}) + p);
  bias.to(f64);
  CHECK_THROWS_AS(z.backward(), Error);
}

TEST_CASE("to(dtype) refuses parameters that an optimizer holds, and changes nothing then",
          "[modules]") {
  const LeakGuard guard;
  const Net net;
  const Values before = values(net.fc.weight);
  {
    const optim::Sgd opt{net.head, {.lr = 1}};
    const int line = __LINE__ + 1;
    const std::string text = message_of([&] { net.to(f16); });
    CHECK(mentions(text,
                   "[to] parameter head.weight belongs to an optimizer, which keeps it in "
                   "f64, not f16\n  at module_dtype_test.cpp:" +
                       std::to_string(line)));
    CHECK_THROWS_AS(net.to(Device::simt(), f16), UsageError);
    CHECK(dtypes(net) == of_net(f32, f64));
    CHECK(net.fc.weight->device() == Device::cpu());
    net.requires_grad_(false);  // frozen since: the optimizer has it all the same
    CHECK_THROWS_AS(net.to(f16), UsageError);
    net.requires_grad_(true);
    net.to(f64);  // what it holds is f64 already
    CHECK(dtypes(net) == of_net(f64, f64));
  }
  net.to(f32);
  CHECK(dtypes(net) == of_net(f32, f32));
  {
    const std::vector<nn::NamedTensor> some = net.named_parameters();
    const optim::Sgd opt{some, {.lr = 1}};
    CHECK_THROWS_AS(net.to(f64), UsageError);
  }
  net.to(f64);
  CHECK(values(net.fc.weight) == before);
}

TEST_CASE("to(dtype) that cannot has converted nothing", "[modules]") {
  const LeakGuard guard;
  const Net net;
  const int line = __LINE__ + 1;
  const std::string text = message_of([&] { net.to(DType::i64); });
  CHECK(text ==
        "DtypeError: [to] parameters are f64, f32, f16 or bf16, not i64\n  at "
        "module_dtype_test.cpp:" +
            std::to_string(line));
  CHECK_THROWS_AS(net.to(DType::f8_e4m3), DtypeError);
  CHECK_THROWS_AS(net.to(DType::boolean), DtypeError);
  CHECK_THROWS_AS(net.to(Device::cpu(), DType::u8), DtypeError);
  CHECK_THROWS_AS(net.to(Device::cuda(200), f64), Error);
  for (u64 n = 1; n <= 6; ++n) {
    memory::fail_nth_request(n);
    CHECK_THROWS_AS(net.to(f16), OutOfMemory);
    memory::fail_nth_request(0);
    CHECK(dtypes(net) == of_net(f32, f64));
  }
}

TEST_CASE("to(device, dtype) does both at once", "[modules]") {
  const LeakGuard guard;
  const Net net;
  const Tensor w = net.fc.weight;
  const Values before = values(w);
  net.to(Device::simt(), f64);
  CHECK(dtypes(net) == of_net(f64, f64));
  for (const nn::NamedTensor& t : net.state_dict()) CHECK(t.tensor.device() == Device::simt());
  CHECK(w.same_as(net.fc.weight));
  CHECK(values(w) == before);
  net.to(Device::cpu(), f32);
  CHECK(dtypes(net) == of_net(f32, f32));
  CHECK(w.device() == Device::cpu());
  net.to(Device::meta(), f16);
  CHECK(w.device().is_meta);
  CHECK(w.dtype() == f16);
}
