#include "warptape/dist/fault.h"

#include <csignal>

#include <condition_variable>
#include <mutex>
#include <utility>

#include "warptape/core/memory/copy_bytes.h"
#include "warptape/core/mode.h"
#include "warptape/core/tensor_impl.h"

namespace wt::dist {

const char* to_string(Fault::What w) {
  constexpr const char* kNames[] = {"delay", "hang", "die", "kill", "drop", "corrupt"};
  return kNames[int(w)];
}

namespace {

using FaultKind = Fault::What;

void flip_lowest_bit(const Tensor& t) {
  if (!t.defined() || t.numel() == 0) return;
  const i64 size = item_size(t.dtype());
  void* const byte = static_cast<char*>(t.impl()->data) + t.numel() / 2 * size;
  u8 value = 0;
  copy_bytes(&value, Device::cpu(), byte, t.device(), 1);
  value ^= 1;
  copy_bytes(byte, t.device(), &value, Device::cpu(), 1);
}

class FaultyCommunicator : public Communicator {
 public:
  FaultyCommunicator(std::unique_ptr<Communicator> inner, std::vector<Fault> faults)
      : Communicator(inner->rank(), inner->size()),
        inner_(std::move(inner)),
        faults_(std::move(faults)) {
    set_deadline(inner_->deadline());
  }

  const char* backend() const override { return inner_->backend(); }
  bool takes(Device d) const override { return inner_->takes(d); }
  Communicator& control() override {
    Communicator& c = inner_->control();
    return &c == inner_.get() ? *this : c;
  }
  void at_step(i64 step) override { inner_->at_step(step); }
  void abort(const std::string& reason) noexcept override {
    {
      const std::lock_guard lock(mutex_);
      given_up_ = true;
      wake_.notify_all();
    }
    inner_->abort(reason);
  }
  bool failed() const noexcept override { return inner_->failed(); }

  Work start(const Call& call) override {
    inner_->set_deadline(deadline());
    bool corrupt = false;
    for (const Fault& f : faults_) {
      if ((f.rank >= 0 && f.rank != rank()) || (f.call >= 0 && f.call != call.number)) continue;
      if (f.what == FaultKind::drop) return {};
      if (f.what == FaultKind::corrupt)
        corrupt = true;
      else
        suffer(f, call);
    }
    return corrupt ? corrupted(call) : inner_->start(call);
  }

  // Without faults of its own.
  std::unique_ptr<Communicator> make_group(const Group& g) override {
    return inner_->make_group(g);
  }

 private:
  void suffer(const Fault& f, const Call& call) {
    if (f.what == FaultKind::kill) ::raise(SIGKILL);
    if (f.what == FaultKind::die)
      throw RankDied(str("[", to_string(call.kind), "] rank ", rank(), " dies at call ",
                         call.number, ", as it was told to"));
    std::unique_lock lock(mutex_);
    if (f.what == FaultKind::delay)
      wake_.wait_for(lock, f.time, [&] { return given_up_; });
    else
      while (!given_up_ && !inner_->failed()) wake_.wait_for(lock, std::chrono::milliseconds(2));
  }

  Work corrupted(Call call) {
    if (call.kind == Call::Kind::send) {
      const NoGrad no_grad;
      call.in = call.out = call.in.clone();
      flip_lowest_bit(call.in);
      return inner_->start(call);
    }
    const Work work = inner_->start(call);
    work.wait();
    flip_lowest_bit(call.out);
    return work;
  }

  const std::unique_ptr<Communicator> inner_;
  const std::vector<Fault> faults_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool given_up_ = false;
};

}  // namespace

std::unique_ptr<Communicator> with_faults(std::unique_ptr<Communicator> inner,
                                          std::vector<Fault> faults) {
  return std::make_unique<FaultyCommunicator>(std::move(inner), std::move(faults));
}

}  // namespace wt::dist
