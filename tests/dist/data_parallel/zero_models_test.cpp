// Models of all kinds whose ranks keep parts, against ranks that keep all.
#include "warptape/nn/norms.h"
#include "warptape/tests/dist/data_parallel/data_parallel_ranks.h"
#include "warptape/tests/support/catch.h"

using namespace wt_test;

namespace {

// Parameters of 0, 1 and many elements, of two dtypes, tied and frozen ones, batch statistics.
struct Mixed : nn::Module<Mixed> {
  nn::Linear fc1 = add("fc1", nn::Linear{6, 70});
  nn::BatchNorm1d norm = add("norm", nn::BatchNorm1d{70});
  nn::Linear fc2 = add("fc2", nn::Linear{70, 70});
  nn::Linear frozen = add("frozen", nn::Linear{70, 70});
  nn::Linear fc3 = add("fc3", nn::Linear{70, 4});
  nn::Param one = add("one", ones({}));
  nn::Param none = add("none", zeros({0, 3}));
  nn::Param wide = add("wide", full({4}, 0.5, {.dtype = DType::f64}));
  Tensor forward(Tensor x) {
    Tensor h = tanh(norm(fc1(std::move(x))));
    h = frozen(tanh(fc2(fc2(std::move(h)))));
    return fc3(std::move(h)) * one + (wide.tensor() * 2.0).to(DType::f32) + none.tensor().sum();
  }
};

struct Ended {
  Weights model, averages;
};
Ended train_mixed(Communicator& c, int zero, Device d) {
  manual_seed(7);
  Mixed net;
  optim::AdamW opt{net,
                   {.lr = 0.01, .eps = 0.1, .groups = {{.names = {"*.bias"}, .weight_decay = 0}}}};
  DataParallel ddp{net, opt, c, {.bucket_bytes = 9000, .first_bucket_bytes = 100, .zero = zero}};
  TrainStep step{net, opt, {.reducer = &ddp, .ema_decay = 0.5}};
  net.frozen.requires_grad_(false);
  const auto loss = [&](const Batch& b) { return squares(net, b); };
  const auto one = [&](i64 i) { step(part_of(Mlp::data(12, i), c.rank(), c.size()), loss); };
  for (i64 i = 0; i < 2; ++i) one(i);
  net.to(d);
  net.frozen.requires_grad_(true);
  one(2);
  net.fc3.requires_grad_(false);
  net.fc3.requires_grad_(true);  // another leaf
  one(3);
  Ended e;
  for (const auto& t : net.state_dict()) e.model.push_back(t.tensor.to_vector<double>());
  for (const auto& t : opt.ema()) e.averages.push_back(t.tensor.to_vector<double>());
  return e;
}

}  // namespace

TEST_CASE(
    "zero: averages, buffers, two dtypes, groups, tied, frozen and empty parameters, another "
    "device",
    "[dist]") {
  for (const Device d : {Device::cpu(), Device::simt()}) {
    std::vector<Ended> whole(2);
    all_ranks(2, [&](Communicator& c) { whole[size_t(c.rank())] = train_mixed(c, 0, d); });
    for (const int zero : {1, 2}) {
      CAPTURE(zero, to_string(d));
      std::vector<Ended> parts(2);
      all_ranks(2, [&](Communicator& c) { parts[size_t(c.rank())] = train_mixed(c, zero, d); });
      for (const Ended& e : parts) {
        CHECK(e.model == whole[0].model);
        CHECK(e.averages == whole[0].averages);
        CHECK(e.averages != Weights());
      }
    }
  }
}
