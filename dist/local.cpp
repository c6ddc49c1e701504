#include "warptape/dist/local.h"

#include <cstring>
#include <exception>
#include <thread>

#include "warptape/core/error.h"
#include "warptape/core/stream.h"
#include "warptape/core/tensor_impl.h"
#include "warptape/dist/combine.h"
#include "warptape/dist/local_world.h"

namespace wt::dist {

const char* to_string(Algorithm a) {
  constexpr const char* kNames[] = {"automatic", "ring", "tree", "chain"};
  return kNames[int(a)];
}

namespace {

using local::Clock;
using local::World;
using Kind = Call::Kind;

char* bytes_of(const Tensor& t) { return static_cast<char*>(t.impl()->data); }

// A call that was begun: done once `outcome` is not open.
class Item : public Work::Pending {
 public:
  Item(Call c, std::shared_ptr<World> w, std::chrono::milliseconds d)
      : call(std::move(c)), deadline(d), world_(std::move(w)) {}
  bool done() override {
    const std::lock_guard lock(mutex_);
    return outcome_ != Outcome::open;
  }
  void wait() override {
    std::unique_lock lock(mutex_);
    finished_.wait(lock, [&] { return outcome_ != Outcome::open; });
    if (outcome_ == Outcome::failed) throw local::failure_of(*world_->failure(), call);
  }
  void end(bool good) {
    const std::lock_guard lock(mutex_);
    call.in = call.out = Tensor();
    outcome_ = good ? Outcome::done : Outcome::failed;
    finished_.notify_all();
  }

  Call call;
  const std::chrono::milliseconds deadline;

 private:
  enum class Outcome : u8 { open, done, failed };
  std::shared_ptr<World> world_;
  std::mutex mutex_;
  std::condition_variable finished_;
  Outcome outcome_ = Outcome::open;
};

// A contiguous part of `n` elements: the r-th of `ranks`.
struct Part {
  i64 begin, count;
};
Part part_of(i64 n, int r, int ranks) {
  const i64 begin = n * r / ranks;
  return {begin, n * (r + 1) / ranks - begin};
}

class LocalCommunicator : public Communicator {
 public:
  LocalCommunicator(int rank, std::shared_ptr<World> world)
      : Communicator(rank, world->size()), world_(std::move(world)) {
    set_deadline(world_->options().deadline);
    if (size() > 1) thread_ = std::thread([this] { serve(); });
  }
  ~LocalCommunicator() override {
    {
      const std::lock_guard lock(mutex_);
      if (!items_.empty() && std::uncaught_exceptions() > unwinding_)
        abort("its communicator ended by an exception");
      ending_ = true;
    }
    wake_.notify_all();
    if (thread_.joinable()) thread_.join();
    world_->leave(rank());
  }

  const char* backend() const override { return "local"; }
  bool takes(Device d) const override {
    return d.kind == DeviceKind::cpu || d.kind == DeviceKind::simt;
  }
  Communicator& control() override { return *this; }
  void at_step(i64 step) override { world_->at_step(rank(), step); }
  void abort(const std::string& reason) noexcept override { world_->abort(rank(), reason); }

  Work start(const Call& call) override {
    if (const auto f = world_->failure()) throw local::failure_of(*f, call);
    for (const Tensor* t : {&call.in, &call.out})
      if (t->defined()) settle(*t);
    auto item = std::make_shared<Item>(call, world_, deadline());
    if (size() == 1) {
      item->end(carry_out(item->call, Clock::now() + deadline()));
      return Work(item);
    }
    const std::lock_guard lock(mutex_);
    items_.push_back(item);
    wake_.notify_all();
    return Work(item);
  }

 private:
  // Nothing that is queued for the tensor's device, or copies it, is under way.
  static void settle(const Tensor& t) {
    detail::wait_for_host_access(t.impl());
    if (const StreamBackend* b = stream_backend(t.device()); b && b->stream_wait)
      b->stream_wait(t.device(), detail::native_stream(t.device()));
  }

  void serve() {
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [&] { return ending_ || !items_.empty(); });
      if (items_.empty()) return;
      const std::shared_ptr<Item> item = items_.front();
      lock.unlock();
      bool good = false;
      try {
        good = carry_out(item->call, Clock::now() + item->deadline);
      } catch (const std::exception& e) {
        abort(e.what());
      }
      item->end(good);
      lock.lock();
      items_.pop_front();
    }
  }

  bool carry_out(const Call& c, Clock::time_point deadline) {
    if (c.kind == Kind::send) return world_->post(rank(), c);
    if (c.kind == Kind::recv) return world_->fetch(rank(), c, deadline);
    if (!world_->meet(rank(), c, deadline)) return false;
    if (c.kind == Kind::all_gather) gather(c);
    if (c.kind == Kind::broadcast && rank() != c.peer && c.in.numel())
      std::memcpy(bytes_of(c.out), bytes_of(world_->peer(c.peer).in),
                  size_t(c.in.numel() * item_size(c.in.dtype())));
    if (c.kind == Kind::all_reduce || c.kind == Kind::reduce_scatter) return reduce(c, deadline);
    return world_->meet(rank(), c, deadline);
  }

  void gather(const Call& c) {
    const i64 bytes = c.in.numel() * item_size(c.in.dtype());
    for (int r = 0; r < size() && bytes; ++r)
      std::memmove(bytes_of(c.out) + r * bytes, bytes_of(world_->peer(r).in), size_t(bytes));
  }

  bool reduce(const Call& c, Clock::time_point deadline) {
    const DType t = c.in.dtype();
    const i64 n = c.in.numel(), wire = item_size(wire_dtype(t)), item = item_size(t);
    const Part mine = part_of(n, rank(), size());
    scratch_.resize(size_t(mine.count * wire));
    char* const sum = scratch_.data();
    for (int r = 0; r < size(); ++r) {
      const char* const theirs = bytes_of(world_->peer(r).in) + mine.begin * item;
      if (r == 0)
        widen(t, sum, theirs, mine.count);
      else
        combine_own(c.op, t, sum, sum, theirs, mine.count);
    }
    if (!world_->meet(rank(), c, deadline)) return false;
    if (c.kind == Kind::reduce_scatter) {
      finish(c.op, t, bytes_of(c.out), sum, mine.count, size());
      return world_->meet(rank(), c, deadline);
    }
    for (int r = 0; r < size(); ++r)
      finish(c.op, t, bytes_of(world_->peer(r).out) + mine.begin * item, sum, mine.count, size());
    return world_->meet(rank(), c, deadline);
  }

  const std::shared_ptr<World> world_;
  const int unwinding_ = std::uncaught_exceptions();
  std::vector<char> scratch_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::shared_ptr<Item>> items_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> local_world(int n, LocalOptions options, Frame) {
  if (n < 1) throw UsageError(str("[local_world] needs at least 1 rank, got ", n));
  const auto world = std::make_shared<World>(n, options);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int r = 0; r < n; ++r) ranks.push_back(std::make_unique<LocalCommunicator>(r, world));
  return ranks;
}

}  // namespace wt::dist
