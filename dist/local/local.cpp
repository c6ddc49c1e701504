#include "warptape/dist/local.h"

#include <cstring>
#include <deque>
#include <exception>
#include <thread>

#include "warptape/core/error.h"
#include "warptape/core/stream.h"
#include "warptape/core/tensor_impl.h"
#include "warptape/dist/captured_call.h"
#include "warptape/dist/local/local_algorithms.h"
#include "warptape/dist/local/local_world.h"
#include "warptape/dist/prompt_thread.h"

namespace wt::dist {

const char* to_string(Algorithm a) {
  constexpr const char* kNames[] = {"automatic", "ring", "tree", "chain"};
  return kNames[int(a)];
}

namespace {

using local::Clock;
using local::World;
using Kind = Call::Kind;
using What = TimelineEvent::What;

// A call that was begun.
class Item : public Work::Pending {
 public:
  Item(Call c, std::shared_ptr<World> w, std::chrono::milliseconds d)
      : call(std::move(c)), deadline(d), world_(std::move(w)) {}
  bool done() override {
    const std::lock_guard lock(mutex_);
    return outcome_ != Outcome::open;
  }
  void wait() override {
    refuse_wait_in_graph();
    std::unique_lock lock(mutex_);
    finished_.wait(lock, [&] { return outcome_ != Outcome::open; });
    if (outcome_ == Outcome::failed) throw local::failure_of(*world_->failure(), call);
  }
  void end(bool good) {
    {
      const std::lock_guard lock(mutex_);
      call.in = call.out = Tensor();
      outcome_ = good ? Outcome::done : Outcome::failed;
    }
    finished_.notify_all();  // with the lock in hand, who wakes up would go to sleep again
  }

  Call call;
  const std::chrono::milliseconds deadline;

 private:
  enum class Outcome : u8 { open, done, failed };
  const std::shared_ptr<World> world_;
  std::mutex mutex_;
  std::condition_variable finished_;
  Outcome outcome_ = Outcome::open;
};

// Of a world of one: out = in.
void copy_to_out(const Call& c) {
  const void* const from = c.in.impl()->data;
  void* const to = c.out.impl()->data;
  if (to != from && c.in.numel())
    std::memmove(to, from, size_t(c.in.numel() * item_size(c.in.dtype())));
}

// Nothing that is queued for the tensor's device on the current stream, and no copy of it, is under
// way any more.
void settle(const Call& call) {
  for (const Tensor* t : {&call.in, &call.out}) {
    if (!t->defined()) continue;
    wt::detail::wait_for_host_access(t->impl());
    const Device d = t->device();
    const StreamBackend* const b = stream_backend(d);
    if (mode.capture || (b && b->stream_wait)) wt::detail::before_wait(to_string(call.kind), d);
    if (b && b->stream_wait) b->stream_wait(d, wt::detail::native_stream(d));
  }
}

class LocalCommunicator : public Communicator {
 public:
  LocalCommunicator(int rank, std::shared_ptr<World> world)
      : Communicator(rank, world->size()), world_(std::move(world)) {
    set_deadline(world_->options().deadline);
    if (size() > 1) thread_ = std::thread([this] { serve(); });
  }
  // What was begun is carried out, unless an exception ends the rank: others may never come to it.
  ~LocalCommunicator() override {
    {
      const std::lock_guard lock(mutex_);
      if (!idle() && std::uncaught_exceptions() > exceptions_) abort("an exception ended it");
      ending_ = true;
      wake_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
    world_->end(rank());
  }

  const char* backend() const override { return "local"; }
  bool takes(Device d) const override {
    return d.kind == DeviceKind::cpu || d.kind == DeviceKind::simt;
  }
  Communicator& control() override { return *this; }
  void at_step(i64 step) override { world_->at_step(rank(), step); }
  void abort(const std::string& reason) noexcept override { world_->abort(rank(), reason); }
  bool failed() const noexcept override { return world_->failure().has_value(); }
  bool captures() const override { return true; }

  Work start(const Call& call) override {
    if (const auto f = world_->failure()) throw local::failure_of(*f, call);
    if (goes_into_graph(call)) return record_call(*this, call);
    if (size() == 1) return alone(call);
    settle(call);
    if (call.waited && !world_->modelled() && nothing_begun()) return here(call);
    auto item = std::make_shared<Item>(call, world_, deadline());
    {
      const std::lock_guard lock(mutex_);
      items_.push_back(item);
    }
    wake_.notify_all();
    return Work(std::move(item));
  }

  std::unique_ptr<Communicator> make_group(const Group& g) override {
    return std::make_unique<LocalCommunicator>(g.place,
                                               world_->group(g.number, g.color, g.members));
  }

 private:
  Work alone(const Call& c) {
    if (c.kind == Kind::reduce_scatter || c.kind == Kind::all_gather) {
      settle(c);
      copy_to_out(c);
    }
    return {};
  }

  bool idle() const { return items_.empty() && !busy_; }
  bool nothing_begun() {
    const std::lock_guard lock(mutex_);
    return idle();
  }
  // In the caller's thread: two changes of threads less, which are most of a small call. Nothing
  // else can be begun meanwhile. Not with modelled links, which are waited for by a prompt thread.
  Work here(const Call& call) {
    if (!carry_out(call, Clock::now() + deadline()))
      throw local::failure_of(*world_->failure(), call);
    return {};
  }

  // The communicator's own thread.
  void serve() {
    be_prompt();
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [&] { return ending_ || !items_.empty(); });
      if (items_.empty()) return;
      const std::shared_ptr<Item> item = std::move(items_.front());
      items_.pop_front();
      busy_ = true;
      lock.unlock();
      const bool good = carry_out(item->call, Clock::now() + item->deadline);
      lock.lock();
      busy_ = false;
      lock.unlock();
      item->end(good);  // its caller finds this thread idle
      lock.lock();
    }
  }

  // False: the world has failed.
  bool carry_out(const Call& c, Clock::time_point deadline) {
    Timeline* const t = world_->options().timeline.get();
    const Clock::time_point begin = t ? Clock::now() : Clock::time_point();
    try {
      if (c.kind == Kind::send)
        world_->post(rank(), c);
      else if (c.kind == Kind::recv)
        world_->fetch(rank(), c, deadline);
      else
        collective(c, deadline, begin);
    } catch (const local::Ended&) {
      return false;
    } catch (const std::exception& e) {  // no memory
      abort(e.what());
      return false;
    }
    if (t) t->add(event(What::call, c), begin, Clock::now());
    return true;
  }

  void collective(const Call& c, Clock::time_point deadline, Clock::time_point begin) {
    if (world_->enter(rank(), c, deadline)) return;
    try {
      if (Timeline* const t = world_->options().timeline.get())
        t->add(event(What::wait, c), begin, Clock::now());
      local::carry_out(*world_, rank(), c, scratch_);
    } catch (const local::Ended&) {  // leave() throws it again
    } catch (const std::exception& e) {
      abort(e.what());
    }
    world_->leave(rank());
  }

  TimelineEvent event(What what, const Call& c) const {
    const i64 bytes = c.out.defined() ? c.out.numel() * item_size(c.out.dtype()) : 0;
    return {.what = what, .kind = c.kind, .rank = rank(), .call = c.number, .bytes = bytes};
  }

  const std::shared_ptr<World> world_;
  const int exceptions_ = std::uncaught_exceptions();
  std::vector<std::byte> scratch_;  // of whoever carries a call out
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::shared_ptr<Item>> items_;
  bool busy_ = false;  // the thread, with one that is not in items_ any more
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> local_world(int n, LocalOptions options) {
  if (n < 1) throw UsageError(str("[local_world] must have at least 1 rank, got ", n));
  if (options.latency.count() < 0)
    throw UsageError(
        str("[local_world] latency must be at least 0, got ", options.latency.count(), " ns"));
  if (!(options.bandwidth >= 0))
    throw UsageError(
        str("[local_world] bandwidth must be at least 0 bytes a second, got ", options.bandwidth));
  const auto world = std::make_shared<World>(n, options);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int r = 0; r < n; ++r) ranks.push_back(std::make_unique<LocalCommunicator>(r, world));
  return ranks;
}

}  // namespace wt::dist
