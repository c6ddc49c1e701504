// Lab 15: a ring, buckets, and data parallelism that overlaps. page.md says what is asked, ddp.h
// what each function promises.
#include "ddp.h"

#include <utility>

#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/core/factories.h"
#include "warptape/core/mode.h"

namespace ddp {

using namespace wt;

void ring_all_reduce(Communicator& comm, const Tensor& t) {
  const NoGrad no_grad;
  (void)comm;
  (void)t;  // yours
}

std::vector<std::vector<size_t>> make_buckets(const std::vector<i64>& bytes, i64 limit) {
  (void)limit;
  std::vector<std::vector<size_t>> all(1);
  for (size_t i = 0; i < bytes.size(); ++i) all[0].push_back(i);
  return all;  // yours: this is one bucket for all, in the wrong order
}

namespace {

class Mine : public Replica {
 public:
  Mine(Communicator& comm, std::vector<Tensor> parameters, i64 bucket_bytes)
      : comm_(comm), parameters_(std::move(parameters)) {
    (void)bucket_bytes;
    for (size_t i = 0; i < parameters_.size(); ++i)
      hooks_.push_back(register_hook(parameters_[i], [this, i](const Tensor& gradient) {
        arrived(i, gradient);
        return Tensor();  // the gradient stays as it is
      }));
  }
  ~Mine() override {
    for (size_t i = 0; i < hooks_.size(); ++i) remove_hook(parameters_[i], hooks_[i]);
  }
  void backward(const Tensor& loss, bool last) override {
    (void)last;
    for (const Tensor& p : parameters_) p.zero_grad();
    loss.backward();  // yours
  }

 private:
  // The whole gradient of parameter i by this backward, once: it was added up over all its uses.
  void arrived(size_t i, const Tensor& gradient) {
    (void)i;
    (void)gradient;  // yours
  }

  [[maybe_unused]] Communicator& comm_;
  std::vector<Tensor> parameters_;
  std::vector<u64> hooks_{};
};

}  // namespace

std::unique_ptr<Replica> make_replica(Communicator& comm, std::vector<Tensor> parameters,
                                      i64 bucket_bytes) {
  return std::make_unique<Mine>(comm, std::move(parameters), bucket_bytes);
}

}  // namespace ddp
