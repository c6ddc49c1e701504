#include "ddp.h"

#include <utility>

#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/core/factories.h"
#include "warptape/core/mode.h"

namespace ddp {

using namespace wt;

// Part by part: n - 1 times around until each rank has one part's whole sum, and n - 1 times around
// with the sums. Every part is added up in one order, so the bits are the same everywhere.
void ring_all_reduce(Communicator& comm, const Tensor& t) {
  const NoGrad no_grad;
  const int n = comm.size(), rank = comm.rank(), right = (rank + 1) % n, left = (rank + n - 1) % n;
  const i64 count = t.numel();
  const auto part = [&](int k) {
    const i64 p = (k + 2 * n) % n, begin = count * p / n;
    return t.narrow(0, begin, count * (p + 1) / n - begin);
  };
  const auto exchange = [&](const Tensor& out, const Tensor& in) {
    const dist::Work sent = comm.start_send(out, right);
    comm.recv(in, left);
    sent.wait();
  };
  for (int s = 0; s < n - 1; ++s) {
    Tensor mine = part(rank - s - 1);
    const Tensor theirs = empty_like(mine);
    exchange(part(rank - s), theirs);
    mine += theirs;
  }
  for (int s = 0; s < n - 1; ++s) exchange(part(rank + 1 - s), part(rank - s));
}

std::vector<std::vector<size_t>> make_buckets(const std::vector<i64>& bytes, i64 limit) {
  std::vector<std::vector<size_t>> all;
  i64 filled = 0;
  for (size_t i = bytes.size(); i-- > 0;) {
    if (all.empty() || filled + bytes[i] > limit) {
      all.emplace_back();
      filled = 0;
    }
    all.back().push_back(i);
    filled += bytes[i];
  }
  return all;
}

namespace {

class Mine : public Replica {
 public:
  Mine(Communicator& comm, std::vector<Tensor> parameters, i64 bucket_bytes)
      : comm_(comm), parameters_(std::move(parameters)), seats_(parameters_.size()) {
    std::vector<i64> bytes;
    for (const Tensor& p : parameters_) bytes.push_back(p.numel() * i64(sizeof(float)));
    for (const std::vector<size_t>& members : make_buckets(bytes, bucket_bytes)) add(members);
    for (size_t i = 0; i < parameters_.size(); ++i)
      hooks_.push_back(register_hook(parameters_[i], [this, i](const Tensor& gradient) {
        arrived(i, gradient);
        return Tensor();
      }));
  }
  ~Mine() override {
    for (size_t i = 0; i < hooks_.size(); ++i) remove_hook(parameters_[i], hooks_[i]);
  }

  void backward(const Tensor& loss, bool last) override {
    for (const Tensor& p : parameters_) p.zero_grad();
    for (Bucket& b : buckets_) b.missing = b.members;
    begun_ = 0;
    sends_ = last;
    loss.backward();
    if (!last) return;
    while (begun_ < buckets_.size()) begin_next();  // with parameters that were not reached
    const NoGrad no_grad;
    for (Bucket& b : buckets_) b.work.wait();
    for (size_t i = 0; i < parameters_.size(); ++i)
      parameters_[i].set_grad(seat(i).reshape(parameters_[i].shape()));
    for (Bucket& b : buckets_) b.flat.zero_();
  }

 private:
  struct Bucket {
    Tensor flat;  // zeros between steps
    size_t members = 0, missing = 0;
    dist::Work work{};
  };
  struct Seat {
    size_t bucket = 0;
    i64 begin = 0;
  };

  void add(const std::vector<size_t>& members) {
    i64 count = 0;
    for (const size_t i : members) {
      seats_[i] = {buckets_.size(), count};
      count += parameters_[i].numel();
    }
    buckets_.push_back({.flat = zeros({count}, {.dtype = DType::f32}), .members = members.size()});
  }
  Tensor seat(size_t i) const {
    const Seat& s = seats_[i];
    return buckets_[s.bucket].flat.narrow(0, s.begin, parameters_[i].numel());
  }
  void arrived(size_t i, const Tensor& gradient) {
    const NoGrad no_grad;
    Tensor here = seat(i);
    here += gradient.reshape({-1});
    --buckets_[seats_[i].bucket].missing;
    while (sends_ && begun_ < buckets_.size() && buckets_[begun_].missing == 0) begin_next();
  }
  // Bucket after bucket: which one is complete first may differ between ranks.
  void begin_next() {
    const NoGrad no_grad;
    Bucket& b = buckets_[begun_++];
    b.work = comm_.start_all_reduce(b.flat, dist::ReduceOp::mean);
  }

  Communicator& comm_;
  std::vector<Tensor> parameters_;
  std::vector<Bucket> buckets_{};
  std::vector<Seat> seats_;
  std::vector<u64> hooks_{};
  size_t begun_ = 0;
  bool sends_ = false;
};

}  // namespace

std::unique_ptr<Replica> make_replica(Communicator& comm, std::vector<Tensor> parameters,
                                      i64 bucket_bytes) {
  return std::make_unique<Mine>(comm, std::move(parameters), bucket_bytes);
}

}  // namespace ddp
