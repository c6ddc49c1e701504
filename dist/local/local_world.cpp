#include "warptape/dist/local/local_world.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <tuple>

#include "warptape/core/frame.h"
#include "warptape/core/tensor_impl.h"
#include "warptape/dist/local/local_small.h"

namespace wt::dist::local {

namespace {

using Kind = Call::Kind;

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

// "all_reduce (sum) of 10 f32": what has to be the same on all ranks.
std::string in_words(const Call& c) {
  std::string text = to_string(c.kind);
  if (c.kind == Kind::barrier) return text;
  if (c.kind == Kind::all_reduce || c.kind == Kind::reduce_scatter)
    text += str(" (", to_string(c.op), ")");
  text += str(" of ", c.in.numel(), " ", dtype_name(c.in.dtype()));
  if (c.kind == Kind::broadcast) text += str(" from rank ", c.peer);
  return text;
}

// in_words(a) == in_words(b)
bool same(const Call& a, const Call& b) {
  if (a.kind != b.kind) return false;
  if (a.kind == Kind::barrier) return true;
  const bool reduces = a.kind == Kind::all_reduce || a.kind == Kind::reduce_scatter;
  return a.in.numel() == b.in.numel() && a.in.dtype() == b.in.dtype() &&
         (!reduces || a.op == b.op) && (a.kind != Kind::broadcast || a.peer == b.peer);
}

// Without its tensors, which are the rank's own.
Call bare(const Call& c) {
  return {.kind = c.kind,
          .op = c.op,
          .peer = c.peer,
          .in = {},
          .out = {},
          .number = c.number,
          .frame = c.frame};
}

std::string list(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i)
    text += str(i == 0 ? "" : i + 1 == ranks.size() ? " and " : ", ", ranks[i]);
  return text;
}

}  // namespace

PeerFailure failure_of(const Failure& f, const Call& call) {
  std::string text = str("[", to_string(call.kind), "] ", f.reason);
  if (call.frame) text += "\n  at " + describe(frame_of(call.frame));
  return PeerFailure(text, f.rank, host_name(), f.step, f.reason);
}

World::World(int n, const LocalOptions& options)
    : options_(options),
      modelled_(options.latency.count() > 0 || options.bandwidth > 0),
      ranks_(size_t(n)),
      links_(size_t(n) * size_t(n)) {}

// --- failures; the mutex is held ---
void World::fail(int rank, std::string reason) {
  if (failure_) return;
  failure_ = Failure{rank, at(rank).step, std::move(reason)};
  for (Rank& r : ranks_) r.bell.notify_all();
}

std::string World::step_of(int rank) const {
  const i64 step = ranks_[size_t(rank)].step;
  return step < 0 ? "before its first step" : str("at step ", step);
}

// "at step 811, in recv from rank 1".
std::string World::place(int rank) const {
  const Rank& r = ranks_[size_t(rank)];
  if (!r.waits_in) return step_of(rank);
  return str(step_of(rank), ", in ", to_string(r.waits_in->kind),
             r.waits_in->kind == Kind::recv ? str(" from rank ", r.waits_in->peer) : "");
}

// The call that fewer ranks made is the wrong one; of as many, that without the lowest rank.
void World::fail_unless_same() {
  const Call& first = *at(0).asked;
  if (std::all_of(ranks_.begin(), ranks_.end(),
                  [&](const Rank& r) { return same(*r.asked, first); }))
    return;
  std::vector<std::string> said;
  for (const Rank& r : ranks_) said.push_back(in_words(*r.asked));
  const auto votes = [&](const std::string& s) { return std::count(said.begin(), said.end(), s); };
  const auto most = std::max_element(
      said.begin(), said.end(),
      [&](const std::string& a, const std::string& b) { return votes(a) < votes(b); });
  const int right = int(most - said.begin());
  for (int r = 0; r < size(); ++r)
    if (said[size_t(r)] != *most)
      return fail(r, str("rank ", r, " called ", said[size_t(r)], " ", step_of(r), ", rank ", right,
                         " called ", *most, " ", step_of(right)));
}

void World::fail_ended(const Call& call) {
  for (int r = 0; r < size(); ++r)
    if (at(r).ended && !at(r).here)
      fail(r, str("rank ", r, " ended ", step_of(r), " while others wait for it in ",
                  to_string(call.kind)));
}

void World::fail_missing(const Call& call) {
  std::vector<int> missing, there;
  for (int r = 0; r < size(); ++r) (at(r).here ? there : missing).push_back(r);
  std::string where;
  for (const int r : missing) where += str(where.empty() ? "" : ", ", "rank ", r, " is ", place(r));
  where += there.size() == 1 ? str(", rank ", there[0], " is ") : std::string(", others are ");
  fail(missing[0], str(list(missing), " did not come to ", to_string(call.kind),
                       " in time: ", where, step_of(there[0])));
}

// All have come, so that nothing but links (or a machine with too much to do) makes them late.
void World::fail_late(int from, int to) {
  fail(from, str("what rank ", from, " sends to rank ", to, " in ", to_string(at(to).call.kind),
                 " did not come in time, ", step_of(to)));
}

// --- collectives ---
void World::open_meeting() {
  for (Rank& r : ranks_) {
    r.here = false;
    r.waits_in = nullptr;
  }
  for (Link& l : links_) l.number = 0;
  arrived_ = 0;
  ++meetings_;
}

// Where a message costs more than adding up what it brings, and nobody wants to see it sent.
bool World::for_all_at_once(const Call& call) const {
  return !modelled_ && !options_.timeline && options_.algorithm == Algorithm::automatic &&
         is_small(call);
}

// Last of them, which finds the others waiting.
void World::all_have_come(Lock& lock, Rank& last) {
  fail_unless_same();
  if (failure_) throw Ended();
  if (for_all_at_once(*last.asked)) {
    std::vector<const Call*> calls;
    for (const Rank& r : ranks_) calls.push_back(r.asked);
    carry_out_small(calls, rows_);
  } else {
    inside_ = size();
  }
  open_meeting();
  lock.unlock();
  for (Rank& r : ranks_)
    if (&r != &last) r.bell.notify_all();
}

bool World::enter(int rank, const Call& call, Clock::time_point deadline) {
  Lock lock(mutex_);
  if (failure_) throw Ended();
  Rank& me = at(rank);
  me.call = bare(call);
  me.waits_in = &me.call;
  me.asked = &call;
  me.deadline = deadline;
  me.here = true;
  const u64 meeting = meetings_;
  const bool at_once = for_all_at_once(call);
  if (++arrived_ == size()) {
    all_have_come(lock, me);
    return at_once;
  }
  while (meetings_ == meeting) {
    fail_ended(call);
    if (failure_) throw Ended();
    if (me.bell.wait_until(lock, deadline) == std::cv_status::timeout && meetings_ == meeting)
      fail_missing(call);
  }
  return at_once;
}

// When a message that is sent now begins, and when it is there.
std::pair<Clock::time_point, Clock::time_point> World::carry(Link& l, i64 bytes) const {
  if (!modelled_ && !options_.timeline) return {};
  const Clock::time_point now = Clock::now(), begin = std::max(now, l.free);
  if (!modelled_) return {now, {}};
  const double seconds = options_.bandwidth > 0 ? double(bytes) / options_.bandwidth : 0;
  l.free = begin + std::chrono::nanoseconds(i64(seconds * 1e9));
  return {begin, l.free + options_.latency};
}

void World::send(int from, int to, const void* data, i64 bytes) {
  Lock lock(mutex_);
  Link& l = link(from, to);
  const auto [begin, arrival] = carry(l, bytes);
  l.chunks.push_back({data, bytes, l.number++, begin, arrival});
  ++at(from).unread;
  lock.unlock();
  at(to).bell.notify_all();
}

void World::await(Lock& lock, int from, int to, Clock::time_point arrival,
                  Clock::time_point deadline) {
  if (arrival == Clock::time_point{}) return;
  for (Clock::time_point now; (now = Clock::now()) < arrival;) {
    if (now >= deadline) fail_late(from, to);
    if (failure_) throw Ended();
    at(to).bell.wait_until(lock, std::min(arrival, deadline));  // a timer, no processor
  }
}

const void* World::receive(int from, int to) {
  Lock lock(mutex_);
  Rank& me = at(to);
  Link& l = link(from, to);
  while (l.chunks.empty()) {
    if (failure_) throw Ended();
    if (me.bell.wait_until(lock, me.deadline) == std::cv_status::timeout && l.chunks.empty())
      fail_late(from, to);
  }
  const Chunk& c = l.chunks.front();
  await(lock, from, to, c.arrival, me.deadline);
  if (failure_) throw Ended();
  note_send(me.call, from, to, c.number, c.bytes, c.begin, c.arrival);
  return c.data;
}

void World::note_send(const Call& call, int from, int to, i64 chunk, i64 bytes,
                      Clock::time_point begin, Clock::time_point arrival) {
  if (!options_.timeline) return;
  options_.timeline->add({.what = TimelineEvent::What::send,
                          .kind = call.kind,
                          .rank = from,
                          .peer = to,
                          .call = call.number,
                          .chunk = chunk,
                          .bytes = bytes},
                         begin, modelled_ ? arrival : Clock::now());
}

void World::took(int from, int to) {
  Lock lock(mutex_);
  link(from, to).chunks.pop_front();
  const bool last = --at(from).unread == 0;
  lock.unlock();
  if (last) at(from).bell.notify_all();
}

void World::leave(int rank) {
  Lock lock(mutex_);
  Rank& me = at(rank);
  while (me.unread > 0 && !failure_) me.bell.wait(lock);
  --inside_;
  if (!failure_) return;
  // Others may be reading what this rank sent. They wait for nothing any more.
  for (Rank& r : ranks_) r.bell.notify_all();
  while (inside_ > 0) me.bell.wait(lock);
  throw Ended();
}

// --- between two ranks ---
void World::post(int from, const Call& call) {
  const i64 bytes = call.in.numel() * item_size(call.in.dtype());
  Letter letter{call.in.dtype(), call.in.numel(), std::vector<std::byte>(size_t(bytes)), {}, {}};
  if (bytes) std::memcpy(letter.bytes.data(), call.in.impl()->data, size_t(bytes));
  Lock lock(mutex_);
  if (failure_) throw Ended();
  Link& l = link(from, call.peer);
  std::tie(letter.begin, letter.arrival) = carry(l, bytes);
  l.letters.push_back(std::move(letter));
  lock.unlock();
  at(call.peer).bell.notify_all();
}

void World::fetch(int to, const Call& call, Clock::time_point deadline) {
  Lock lock(mutex_);
  Rank& me = at(to);
  const int from = call.peer;
  Link& l = link(from, to);
  me.call = bare(call);
  me.waits_in = &me.call;
  while (l.letters.empty()) {
    if (at(from).ended)
      fail(from, str("rank ", from, " ended ", step_of(from), " while rank ", to,
                     " waits for what it sends"));
    if (failure_) throw Ended();
    if (me.bell.wait_until(lock, deadline) == std::cv_status::timeout && l.letters.empty())
      fail(from, str("rank ", from, " sent nothing to rank ", to, " in time: it is ", place(from),
                     ", rank ", to, " is ", step_of(to)));
  }
  await(lock, from, to, l.letters.front().arrival, deadline);
  if (failure_) throw Ended();
  const Letter letter = std::move(l.letters.front());
  l.letters.pop_front();
  if (letter.dtype != call.out.dtype() || letter.count != call.out.numel()) {
    fail(from, str("rank ", from, " sent ", letter.count, " ", dtype_name(letter.dtype), " ",
                   step_of(from), ", rank ", to, " receives ", call.out.numel(), " ",
                   dtype_name(call.out.dtype()), " ", step_of(to)));
    throw Ended();
  }
  me.waits_in = nullptr;
  lock.unlock();
  note_send(call, from, to, 0, i64(letter.bytes.size()), letter.begin, letter.arrival);
  if (!letter.bytes.empty())
    std::memcpy(call.out.impl()->data, letter.bytes.data(), letter.bytes.size());
}

// --- the rest ---
void World::at_step(int rank, i64 step) {
  const Lock lock(mutex_);
  at(rank).step = step;
}

void World::abort(int rank, const std::string& reason) noexcept {
  const Lock lock(mutex_);
  fail(rank, str("rank ", rank, " gave up ", step_of(rank), ": ", reason));
  for (const Group& g : groups_) {
    const auto in_it = std::find(g.members.begin(), g.members.end(), rank);
    if (const auto world = g.world.lock(); world && in_it != g.members.end())
      world->abort(int(in_it - g.members.begin()), reason);
  }
}

std::shared_ptr<World> World::group(i64 number, int color, const std::vector<int>& members) {
  const Lock lock(mutex_);
  auto g = std::find_if(groups_.begin(), groups_.end(),
                        [&](const Group& o) { return o.number == number && o.color == color; });
  if (g == groups_.end()) {
    std::erase_if(groups_, [](const Group& o) { return o.world.expired(); });
    LocalOptions options = options_;
    options.timeline = nullptr;  // its ranks have other numbers
    const auto world = std::make_shared<World>(int(members.size()), options);
    groups_.push_back({number, color, members, world, world});
    g = std::prev(groups_.end());
  }
  std::shared_ptr<World> world = g->held;
  if (++g->joined == members.size()) g->held.reset();
  return world;
}

void World::end(int rank) noexcept {
  const Lock lock(mutex_);
  at(rank).ended = true;
  for (Rank& r : ranks_) r.bell.notify_all();
}

std::optional<Failure> World::failure() const {
  const Lock lock(mutex_);
  return failure_;
}

}  // namespace wt::dist::local
