// Ranks of this lab: threads that send each other what they are told to and write down everything.
// A send waits until its message was received; that nobody can go on any more is found at once and
// without a clock. Internal to check.cpp.
#pragma once
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "warptape/core/str.h"
#include "warptape/core/tensor.h"
#include "warptape/dist/communicator.h"
#include "warptape/dist/spawn.h"
#include "warptape/labs/support/cases.h"

namespace ranks {

using namespace wt;
using dist::Call;

inline thread_local i64 nodes_walked = 0;  // by this thread's backward: an observer counts

struct Begun {  // a call, as it was begun
  Call::Kind kind;
  int peer;
  i64 bytes;
  const void* data;
  i64 nodes;              // that this rank had walked over
  i64 waited_nodes = -1;  // the same when it was first waited for; -1: never
};

struct World {
  explicit World(int n) : size(n), alive(size_t(n), true), waits(size_t(n)), calls(size_t(n)) {}
  const int size;
  std::string stuck_hint = "deadlock";  // of a world in which nobody can go on
  bool sums = false;                    // all_reduce is offered, and nothing else

  std::mutex mutex;
  std::condition_variable bell;
  std::vector<bool> alive;
  std::vector<std::function<bool()>> waits;  // what a rank waits for; empty: it does not
  std::vector<std::vector<Begun>> calls;
  std::string problem, hint;  // the first

  struct Letter {
    std::vector<float> numbers;
    bool taken = false;
  };
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<Letter>>> links;
  struct Sum {
    std::vector<std::vector<float>> parts;
    dist::ReduceOp op = dist::ReduceOp::sum;
    int arrived = 0;
  };
  std::vector<std::shared_ptr<Sum>> all_sums;

  // The mutex is held in all of these.
  void broken(const std::string& what, const std::string& id) {
    if (problem.empty()) problem = what, hint = id;
    bell.notify_all();
  }
  [[noreturn]] void refuse(const std::string& what, const std::string& id) {
    broken(what, id);
    throw PeerFailure("[lab] " + problem);
  }
  void look_whether_stuck() {
    std::string who;
    for (int r = 0; r < size; ++r) {
      if (!alive[size_t(r)]) continue;
      if (!waits[size_t(r)] || waits[size_t(r)]()) return;
      const std::vector<Begun>& mine = calls[size_t(r)];
      who += str(who.empty() ? "" : ", ", "rank ", r, " in its call ", mine.size(), " (",
                 mine.empty() ? "none" : to_string(mine.back().kind), ")");
    }
    if (!who.empty()) broken("nobody can go on: " + who, stuck_hint);
  }
  void wait_for(std::unique_lock<std::mutex>& lock, int rank, const std::function<bool()>& there) {
    waits[size_t(rank)] = there;
    look_whether_stuck();
    bell.wait(lock, [&] { return !problem.empty() || there(); });
    waits[size_t(rank)] = nullptr;
    if (!problem.empty()) throw PeerFailure("[lab] " + problem);
  }
};

class Comm : public dist::Communicator {
 public:
  Comm(World& world, std::unique_ptr<dist::Communicator> local)
      : Communicator(local->rank(), local->size()), world_(world), local_(std::move(local)) {}
  ~Comm() override {
    const std::lock_guard lock(world_.mutex);
    world_.alive[size_t(rank())] = false;
    world_.look_whether_stuck();
  }
  const char* backend() const override { return "lab"; }
  bool takes(Device d) const override { return d == Device::cpu(); }
  Communicator& control() override { return *this; }
  void at_step(i64) override {}
  void abort(const std::string& reason) noexcept override {
    const std::lock_guard lock(world_.mutex);
    world_.broken(str("rank ", rank(), " threw: ", reason), "threw");
  }

  dist::Work start(const Call& call) override {
    std::unique_lock lock(world_.mutex);
    if (!world_.problem.empty()) throw PeerFailure("[lab] " + world_.problem);
    const bool letter = call.kind == Call::Kind::send || call.kind == Call::Kind::recv;
    if (letter == world_.sums || (!letter && call.kind != Call::Kind::all_reduce))
      world_.refuse(
          str("rank ", rank(), " called ", to_string(call.kind), ", which is not offered"), "own");
    std::vector<Begun>& mine = world_.calls[size_t(rank())];
    mine.push_back({call.kind, call.peer, call.in.numel() * item_size(call.in.dtype()),
                    call.in.impl()->data, nodes_walked});
    auto pending = std::make_shared<Pending>(*this, call, mine.size() - 1);
    if (call.kind == Call::Kind::send) {
      pending->letter = std::make_shared<World::Letter>(World::Letter{numbers(call.in)});
      world_.links[{rank(), call.peer}].push_back(pending->letter);
    } else if (call.kind == Call::Kind::all_reduce) {
      pending->sum = join_sum(call);
    }
    world_.bell.notify_all();
    return dist::Work(pending);
  }

 private:
  struct Pending : dist::Work::Pending {
    Pending(Comm& c, const Call& k, size_t p) : comm(c), call(k), place(p) {}
    Comm& comm;
    Call call;
    size_t place;
    std::shared_ptr<World::Letter> letter{};
    std::shared_ptr<World::Sum> sum{};
    bool over = false;

    bool done() override {
      const std::lock_guard lock(comm.world_.mutex);
      return over || there();
    }
    void wait() override { comm.finish(*this); }
    bool there() const {
      World& w = comm.world_;
      if (call.kind == Call::Kind::send) return letter->taken;
      if (call.kind == Call::Kind::recv) return !w.links[{call.peer, comm.rank()}].empty();
      return sum->arrived == w.size;
    }
  };

  static std::vector<float> numbers(const Tensor& t) {
    const float* p = static_cast<const float*>(t.impl()->data);
    return {p, p + t.numel()};
  }
  static void write(const Tensor& t, const std::vector<float>& v) {
    if (!v.empty()) std::memcpy(t.impl()->data, v.data(), v.size() * sizeof(float));
  }

  std::shared_ptr<World::Sum> join_sum(const Call& call) {
    size_t number = 0;
    for (const Begun& b : world_.calls[size_t(rank())]) number += b.kind == Call::Kind::all_reduce;
    while (world_.all_sums.size() < number) {
      world_.all_sums.push_back(std::make_shared<World::Sum>());
      world_.all_sums.back()->parts.resize(size_t(size()));
    }
    const std::shared_ptr<World::Sum> s = world_.all_sums[number - 1];
    const std::vector<float> mine = numbers(call.in);
    for (const std::vector<float>& other : s->parts)
      if (s->arrived > 0 && !other.empty() && (other.size() != mine.size() || s->op != call.op))
        world_.refuse(str("all_reduce ", number, " is of ", mine.size(), " numbers on rank ",
                          rank(), " and of ", other.size(), " on another rank"),
                      "order");
    s->op = call.op;
    s->parts[size_t(rank())] = mine;
    ++s->arrived;
    write(call.out, std::vector<float>(mine.size(), __builtin_nanf("")));  // who reads it too early
    return s;
  }

  void finish(Pending& p) {
    std::unique_lock lock(world_.mutex);
    Begun& b = world_.calls[size_t(rank())][p.place];
    if (b.waited_nodes < 0) b.waited_nodes = nodes_walked;
    if (p.over) return;
    world_.wait_for(lock, rank(), [&] { return p.there(); });
    p.over = true;
    if (p.call.kind == Call::Kind::recv) {
      auto& link = world_.links[{p.call.peer, rank()}];
      const auto letter = link.front();
      link.pop_front();
      letter->taken = true;
      if (i64(letter->numbers.size()) != p.call.out.numel())
        world_.refuse(str("rank ", rank(), " receives ", p.call.out.numel(), " numbers, and rank ",
                          p.call.peer, " sent ", letter->numbers.size()),
                      "parts");
      write(p.call.out, letter->numbers);
    } else if (p.call.kind == Call::Kind::all_reduce) {
      std::vector<float> total(p.sum->parts[0].size(), 0.0f);
      for (const std::vector<float>& part : p.sum->parts)
        for (size_t i = 0; i < total.size(); ++i) total[i] += part[i];
      if (p.sum->op == dist::ReduceOp::mean)
        for (float& x : total) x /= float(size());
      write(p.call.out, total);
    }
    world_.bell.notify_all();
  }

  World& world_;
  std::unique_ptr<dist::Communicator> local_;
};

// fn on every rank of the world. What went wrong in it fails the case.
inline void run(World& world, const std::function<void(dist::Communicator&)>& fn) {
  std::string thrown;
  try {
    dist::spawn(world.size, fn, {.wrap = [&](std::unique_ptr<dist::Communicator> local) {
                  return std::unique_ptr<dist::Communicator>(new Comm(world, std::move(local)));
                }});
  } catch (const std::exception& e) {
    thrown = e.what();
  }
  if (!world.problem.empty()) lab::fail(world.problem, world.hint);
  if (!thrown.empty()) lab::fail("it threw: " + thrown, "threw");
}

}  // namespace ranks
