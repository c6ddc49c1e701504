#include "warptape/dist/local_world.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "warptape/core/frame.h"
#include "warptape/core/tensor_impl.h"

namespace wt::dist::local {

namespace {

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

// "all_reduce (sum) of 10 f32": what has to be the same on all ranks.
std::string describe_call(const Call& c) {
  std::string text = to_string(c.kind);
  if (c.kind == Call::Kind::barrier) return text;
  if (c.kind == Call::Kind::all_reduce || c.kind == Call::Kind::reduce_scatter)
    text += str(" (", to_string(c.op), ")");
  text += str(" of ", c.in.numel(), " ", dtype_name(c.in.dtype()));
  if (c.kind == Call::Kind::broadcast) text += str(" from rank ", c.peer);
  return text;
}

}  // namespace

PeerFailure failure_of(const Failure& f, const Call& call) {
  std::string text = str("[", to_string(call.kind), "] ", f.reason);
  if (call.frame) text += "\n  at " + describe(frame_of(call.frame));
  return PeerFailure(text, f.rank, host_name(), f.step, f.reason);
}

World::World(int n, const LocalOptions& options)
    : options_(options), ranks_(size_t(n)), letters_(size_t(n) * size_t(n)) {}

void World::ring_all() {
  for (Rank& r : ranks_) r.bell.notify_all();
}

void World::fail(int rank, std::string reason) {
  if (failure_) return;
  failure_ = Failure{rank, rank < 0 ? -1 : ranks_[size_t(rank)].step, std::move(reason)};
  ring_all();
}

// "at step 811".
std::string World::place(int rank) const {
  const i64 step = ranks_[size_t(rank)].step;
  return step < 0 ? "before its first step" : str("at step ", step);
}

// The call that fewer ranks made is the wrong one; of two, that of the higher rank.
void World::check_same() {
  std::vector<std::string> said;
  for (const Rank& r : ranks_) said.push_back(describe_call(r.call));
  const auto votes = [&](const std::string& s) { return std::count(said.begin(), said.end(), s); };
  std::string most = said[0];
  for (const std::string& s : said)
    if (votes(s) > votes(most)) most = s;
  for (int r = 0; r < size(); ++r)
    if (said[size_t(r)] != most)
      return fail(r, str("rank ", r, " called ", said[size_t(r)], " ", place(r),
                         " where others called ", most));
}

void World::fail_missing(const Call& call) {
  std::string who, where;
  int first = -1, there = -1, n = 0;
  for (int r = 0; r < size(); ++r) {
    if (ranks_[size_t(r)].here) {
      there = r;
      continue;
    }
    who += str(n++ ? ", " : "", r);
    where += str(n > 1 ? ", rank " : "rank ", r, " is ", place(r));
    if (first < 0) first = r;
  }
  fail(first, str("rank", n > 1 ? "s " : " ", who, " did not come to ", describe_call(call),
                  " in time: ", where, ", others ", place(there)));
}

bool World::meet(int rank, const Call& call, Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  if (failure_) return false;
  Rank& me = ranks_[size_t(rank)];
  me.call = call;
  me.here = true;
  const u64 meeting = meetings_;
  if (++arrived_ == size()) {
    check_same();
    if (failure_) return false;
    for (Rank& r : ranks_) r.here = false;
    arrived_ = 0;
    ++meetings_;
    ring_all();
    return true;
  }
  while (meetings_ == meeting && !failure_) {
    for (int r = 0; r < size(); ++r)
      if (ranks_[size_t(r)].left && !ranks_[size_t(r)].here)
        fail(r, str("rank ", r, " ended ", place(r), " while others wait for it in ",
                    to_string(call.kind)));
    if (failure_) break;
    if (me.bell.wait_until(lock, deadline) == std::cv_status::timeout && meetings_ == meeting &&
        !failure_)
      fail_missing(call);
  }
  return meetings_ != meeting;
}

bool World::post(int from, const Call& call) {
  const i64 bytes = call.in.numel() * item_size(call.in.dtype());
  Letter letter{call.in.dtype(), call.in.numel(), std::vector<std::byte>(size_t(bytes))};
  if (bytes) std::memcpy(letter.bytes.data(), call.in.impl()->data, size_t(bytes));
  const std::lock_guard lock(mutex_);
  if (failure_) return false;
  letters_[size_t(from * size() + call.peer)].push_back(std::move(letter));
  ranks_[size_t(call.peer)].bell.notify_all();
  return true;
}

bool World::fetch(int to, const Call& call, Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  const int from = call.peer;
  auto& queue = letters_[size_t(from * size() + to)];
  while (queue.empty() && !failure_) {
    if (ranks_[size_t(from)].left)
      fail(from, str("rank ", from, " ended ", place(from), " while rank ", to,
                     " waits for what it sends"));
    else if (ranks_[size_t(to)].bell.wait_until(lock, deadline) == std::cv_status::timeout &&
             queue.empty())
      fail(from, str("rank ", from, " sent nothing to rank ", to, " in time: it is ", place(from)));
  }
  if (failure_) return false;
  Letter letter = std::move(queue.front());
  queue.pop_front();
  if (letter.dtype != call.out.dtype() || letter.count != call.out.numel()) {
    fail(from,
         str("rank ", from, " sent ", letter.count, " ", dtype_name(letter.dtype), " where rank ",
             to, " receives ", call.out.numel(), " ", dtype_name(call.out.dtype())));
    return false;
  }
  lock.unlock();
  if (!letter.bytes.empty())
    std::memcpy(call.out.impl()->data, letter.bytes.data(), letter.bytes.size());
  return true;
}

void World::at_step(int rank, i64 step) {
  const std::lock_guard lock(mutex_);
  ranks_[size_t(rank)].step = step;
}

void World::abort(int rank, const std::string& reason) noexcept {
  const std::lock_guard lock(mutex_);
  fail(rank, str("rank ", rank, " gave up ", place(rank), ": ", reason));
}

void World::leave(int rank) noexcept {
  const std::lock_guard lock(mutex_);
  ranks_[size_t(rank)].left = true;
  ring_all();
}

std::optional<Failure> World::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

}  // namespace wt::dist::local
