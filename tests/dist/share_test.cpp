// What one rank has for all; evaluation of which every rank has a part.
#include "warptape/dist/share.h"

#include "warptape/autograd/ops/loss.h"
#include "warptape/core/factories.h"
#include "warptape/core/random.h"
#include "warptape/dist/metrics.h"
#include "warptape/dist/spawn.h"
#include "warptape/tests/support/catch.h"

using namespace wt;

TEST_CASE("dist share: text of any kind, from any rank") {
  for (const int ranks : {1, 2, 3})
    for (int root = 0; root < ranks; ++root)
      for (const std::string& text : {std::string(), std::string("one\ntwo"),
                                      std::string("zero\0byte", 9), std::string(70'000, 'x')})
        dist::spawn(ranks, [&](dist::Communicator& comm) {
          const std::string mine = comm.rank() == root ? text : "other";
          if (dist::share_text(comm, mine, root) != text)
            throw std::runtime_error("another text arrived");
        });
}

TEST_CASE("dist share: tensors with names, of every shape and dtype") {
  std::vector<nn::NamedTensor> all;
  for (int t = 0; t < kNumDTypes; ++t)
    all.push_back({str("w ", dtype_name(DType(t)), "\n.x"),
                   arange(6, {.dtype = DType::i64}).to(DType(t)).reshape({2, 3})});
  all.push_back({"", zeros({0, 4})});
  all.push_back({"scalar", tensor(2.5)});
  all.push_back({"strided", rand({4, 3}).t()});
  all.push_back({"needs grad", rand({3}).set_requires_grad()});
  for (const int ranks : {1, 3}) {
    std::atomic<int> right = 0;
    dist::spawn(ranks, [&](dist::Communicator& comm) {
      const int root = ranks - 1;
      const auto got = dist::share_tensors(
          comm, comm.rank() == root ? all : std::vector<nn::NamedTensor>(), root);
      if (got.size() != all.size()) return;
      int same = 0;
      for (size_t i = 0; i < all.size(); ++i)
        same += got[i].name == all[i].name && got[i].tensor.dtype() == all[i].tensor.dtype() &&
                got[i].tensor.shape() == all[i].tensor.shape() &&
                got[i].tensor.to(DType::f64).to_vector<double>() ==
                    all[i].tensor.detach().to(DType::f64).to_vector<double>();
      right += same == int(all.size());
    });
    CHECK(right == ranks);
  }
}

TEST_CASE("dist metrics: every sample once, and every rank reads the whole", "[trap][T12]") {
  manual_seed(1);
  const Tensor logits = rand({11, 4}), labels = randint(0, 4, {11}, {.dtype = DType::i64});
  const auto loss = [](const Tensor& out, const Tensor& y) { return cross_entropy(out, y); };
  metrics::Accuracy accuracy;
  metrics::MeanLoss mean("loss", loss);
  accuracy.update(logits, labels);
  mean.update(logits, labels);
  for (const int ranks : {1, 2, 4, 13}) {  // of 13 two have no sample
    CAPTURE(ranks);
    std::vector<double> accuracies(size_t(ranks), -1), losses(size_t(ranks), -1);
    std::vector<i64> counts(size_t(ranks), 0);
    dist::spawn(ranks, [&](dist::Communicator& comm) {
      const auto part = dist::share_of(comm, 11);
      metrics::Accuracy a;
      metrics::MeanLoss m("loss", loss);
      if (part.count > 0)
        for (metrics::Metric* metric : std::initializer_list<metrics::Metric*>{&a, &m})
          metric->update(logits.narrow(0, part.begin, part.count),
                         labels.narrow(0, part.begin, part.count));
      dist::sum_metrics(comm, {&a, &m});
      const auto r = size_t(comm.rank());
      accuracies[r] = a.value(), losses[r] = m.value(), counts[r] = part.count;
    });
    i64 total = 0;
    for (const i64 n : counts) total += n;
    CHECK(total == 11);
    for (const double a : accuracies) CHECK(a == accuracy.value());
    for (const double l : losses) {
      CHECK(l == losses[0]);  // the same bits
      CHECK(l == Approx(mean.value()).epsilon(1e-6));
    }
  }
}
