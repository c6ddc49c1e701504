// Ranks as threads over a fake NCCL and a fake CUDA.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/core/tensor_impl.h"
#include "warptape/dist/nccl.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/fake_cuda.h"
#include "warptape/tests/support/fake_nccl.h"

namespace wt_test {

// The control ranks of a process: the calls that the nccl backend makes of it, and failures.
class ThreadControl final : public wt::dist::Communicator {
 public:
  using Call = wt::dist::Call;
  struct World {
    explicit World(int size) : tensors(size_t(size)) {}
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<wt::Tensor> tensors;
    size_t arrived = 0, round = 0;
    std::optional<wt::PeerFailure> failure;
  };
  ThreadControl(std::shared_ptr<World> w, int rank)
      : Communicator(rank, int(w->tensors.size())), world_(std::move(w)) {}

  const char* backend() const override { return "threads"; }
  bool takes(wt::Device d) const override { return d == wt::Device::cpu(); }
  Communicator& control() override { return *this; }
  void at_step(wt::i64 step) override { step_ = step; }
  void abort(const std::string& reason) noexcept override {
    fail({wt::str("rank ", rank(), " gave up: ", reason), rank(), "here", step_, reason});
  }
  bool failed() const noexcept override {
    const std::lock_guard lock(world_->mutex);
    return world_->failure.has_value();
  }
  wt::dist::Work start(const Call& call) override {
    {
      const std::lock_guard lock(world_->mutex);
      if (world_->failure) throw wt::PeerFailure(*world_->failure);
    }
    meet(call.in);
    char* out =
        call.kind == Call::Kind::barrier ? nullptr : static_cast<char*>(call.out.impl()->data);
    const size_t bytes =
        call.in.defined() ? size_t(call.in.numel() * item_size(call.in.dtype())) : 0;
    for (size_t r = 0; out && r < size_t(size()); ++r) {
      const void* in = world_->tensors[r].impl()->data;
      if (call.kind == Call::Kind::all_gather) std::memcpy(out + r * bytes, in, bytes);
      if (call.kind == Call::Kind::broadcast && int(r) == call.peer) std::memmove(out, in, bytes);
    }
    meet(call.in);
    return {};
  }

 private:
  void fail(const wt::PeerFailure& e) noexcept {
    const std::lock_guard lock(world_->mutex);
    if (!world_->failure) world_->failure = e;
    world_->changed.notify_all();
  }
  void meet(const wt::Tensor& t) {
    std::unique_lock lock(world_->mutex);
    world_->tensors[size_t(rank())] = t;
    const size_t round = world_->round;
    if (++world_->arrived == world_->tensors.size()) {
      world_->arrived = 0;
      ++world_->round;
      world_->changed.notify_all();
    }
    const bool met = world_->changed.wait_for(
        lock, deadline(), [&] { return world_->round != round || world_->failure; });
    if (world_->round != round) return;
    if (!met)
      world_->failure = wt::PeerFailure("the control ranks did not meet", -1, "", -1, "late");
    throw wt::PeerFailure(*world_->failure);
  }

  std::shared_ptr<World> world_;
  wt::i64 step_ = -1;
};

// What each rank's thread threw: kind and text, empty for nothing.
struct Ended {
  std::string kind, text;
  int code = 0;
};

// Runs f on `ranks` threads, each with a control rank of one world.
inline std::vector<Ended> on_threads(int ranks, const std::function<void(ThreadControl&)>& f) {
  const auto world = std::make_shared<ThreadControl::World>(ranks);
  std::vector<Ended> ended(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      ThreadControl control(world, r);
      control.set_deadline(std::chrono::seconds(60));
      try {
        f(control);
      } catch (const wt::Error& e) {
        ended[size_t(r)] = {e.kind(), e.what(), e.exit_code()};
      }
    });
  for (std::thread& t : threads) t.join();
  return ended;
}

// A fake machine; ranks over it.
struct NcclWorld {
  explicit NcclWorld(int devices = 4) : cuda(devices), nccl(cuda) {
    std::ignore = wt::empty({1}, {.device = wt::Device::cuda(0)});  // starts what threads share
  }
  // Each rank has its device.
  std::vector<Ended> run(int ranks, const std::function<void(wt::dist::Communicator&)>& f,
                         wt::dist::NcclOptions options = {.deadline = std::chrono::seconds(60)}) {
    return on_threads(ranks, [&](ThreadControl& control) {
      const auto comm =
          wt::dist::nccl_communicator(control, wt::Device::cuda(control.rank()), options);
      f(*comm);
    });
  }
  // Nothing is said against how NCCL and CUDA were used, and nothing is left of NCCL's.
  void check_clean() const {
    CHECK(cuda.violations() == std::vector<std::string>{});
    CHECK(nccl.violations() == std::vector<std::string>{});
    CHECK(nccl.live_comms() == 0);
  }
  FakeCuda cuda;
  FakeNccl nccl;
};

inline void check_quiet(const std::vector<Ended>& ended) {
  for (size_t r = 0; r < ended.size(); ++r) {
    INFO("rank " << r << ": " << ended[r].text);
    CHECK(ended[r].kind == "");
  }
}

// On the rank's device, of the dtype; checks of Catch2 are for the main thread, so values go back.
inline wt::Tensor on_device(const wt::dist::Communicator& c, std::vector<double> v,
                            wt::DType t = wt::f32) {
  return wt::tensor(v).to(t).to(wt::Device::cuda(c.rank()));
}
inline std::vector<double> back(const wt::Tensor& t) {
  return t.to(wt::Device::cpu()).to_vector<double>();
}
using PerRank = std::vector<std::vector<double>>;

}  // namespace wt_test
