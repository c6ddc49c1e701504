#include "warptape/bench/overlap.h"

#include <algorithm>
#include <chrono>
#include <map>

#include "warptape/bench/perceptron.h"
#include "warptape/bench/turns.h"
#include "warptape/core/device.h"
#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/core/random.h"
#include "warptape/dist/data_parallel.h"
#include "warptape/optim/optimizer.h"
#include "warptape/optim/train_step.h"

namespace wt::bench {
namespace {

using tools::SpanKind;
using tools::TimelineSpan;
using Clock = dist::Timeline::Clock;

// Long enough for OpenBLAS's threads to be asleep, which spin when a process begins.
constexpr int kWarmups = 5;

// When the parts of a rank's step began, and when it waited for other ranks.
struct Moments {
  Clock::time_point begin, backward, end;
  std::vector<std::pair<Clock::time_point, Clock::time_point>> waits;
};

// Passes all on, and writes down when.
class Watched : public optim::Reducer {
 public:
  explicit Watched(optim::Reducer& r) : r_(r) {}
  Moments now;
  void sum(const Tensor& t) override {
    timed([&] { r_.sum(t); });
  }
  void max(const Tensor& t) override {
    timed([&] { r_.max(t); });
  }
  void any(std::span<char> reached) override {
    timed([&] { r_.any(reached); });
  }
  void begin_backward(bool last) override {
    now.backward = Clock::now();
    r_.begin_backward(last);
  }
  bool sum_gradients() override {
    bool done = false;
    timed([&] { done = r_.sum_gradients(); });
    return done;
  }
  void give_up() noexcept override { r_.give_up(); }

 private:
  template <class F>
  void timed(const F& f) {
    const auto from = Clock::now();
    f();
    now.waits.emplace_back(from, Clock::now());
  }
  optim::Reducer& r_;
};

double waited_us(const Moments& m) {
  double us = 0;
  for (const auto& [from, to] : m.waits) us += us_between(from, to);
  return us;
}

// Of one rank, and later of all.
struct Measured {
  std::vector<Span> alone, communication, step;
  std::vector<double> forward, last_bucket, exposed;
  std::vector<Moments> moments;  // a step
};

class Rank {
 public:
  Rank(const OverlapOptions& o, dist::Communicator& comm) : o_(o), comm_(comm) {
    manual_seed(1);
    x_ = randn({o.batch, 784}), y_ = randint(0, 10, {o.batch});
  }

  // The three in turns, so that what else the machine does is in all of them.
  void measure(Measured& m, OverlapResult& r) const {
    Perceptron net(o_.width, o_.layers), single(o_.width, o_.layers);
    optim::Sgd opt{net, {.lr = 0.01}}, opt_alone{single, {.lr = 0.01}};
    dist::DataParallel ddp{net, opt, comm_, {.bucket_bytes = o_.bucket_bytes}};
    Watched watched(ddp);
    TrainStep step{net, opt, {.reducer = &watched}}, alone{single, opt_alone};
    std::vector<Tensor> tensors;
    for (int i = 0; i < kWarmups + o_.steps; ++i) {
      const Span alone_span = timed_with_others(comm_, [&] {
        alone(data::Batch{x_, y_}, loss_of(single));
      });
      watched.now = Moments();
      const Span step_span = timed_with_others(comm_, [&] {
        step(data::Batch{x_, y_}, loss_of(net));
      });
      watched.now.begin = step_span.begin, watched.now.end = step_span.end;
      if (i == 0)  // their order was learnt
        for (const auto& b : ddp.buckets()) tensors.push_back(zeros({b.bytes / 4}));
      double last_us = 0;
      const Span communication_span =
          timed_with_others(comm_, [&] { last_us = reduce_all(tensors); });
      if (i < kWarmups) continue;
      m.alone.push_back(alone_span), m.step.push_back(step_span);
      m.communication.push_back(communication_span), m.last_bucket.push_back(last_us);
      m.moments.push_back(watched.now);
      m.exposed.push_back(waited_us(watched.now));
      m.forward.push_back(us_between(watched.now.begin, watched.now.backward));
    }
    if (comm_.rank() != 0) return;
    for (const auto& b : ddp.buckets()) r.buckets.push_back(b.bytes);
    r.early = ddp.launched_early();
  }

 private:
  // What the last one of them takes.
  double reduce_all(const std::vector<Tensor>& tensors) const {
    std::vector<dist::Work> works;
    for (const Tensor& t : tensors) works.push_back(comm_.start_all_reduce(t));
    Clock::time_point before = Clock::now();
    for (size_t i = 0; i < works.size(); ++i) {
      if (i + 1 == works.size()) before = Clock::now();
      works[i].wait();
    }
    return us_between(before, Clock::now());
  }

  const OverlapOptions& o_;
  dist::Communicator& comm_;
  Tensor x_, y_;
};

// Element by element the largest of the ranks.
std::vector<double> slowest(const std::vector<Measured>& ranks,
                            std::vector<double> Measured::*which) {
  std::vector<double> most = ranks[0].*which;
  for (const Measured& m : ranks)
    for (size_t i = 0; i < most.size(); ++i) most[i] = std::max(most[i], (m.*which)[i]);
  return most;
}

std::vector<double> together(const std::vector<Measured>& ranks,
                             std::vector<Span> Measured::*which) {
  std::vector<std::vector<Span>> all;
  for (const Measured& m : ranks) all.push_back(m.*which);
  return together_us(all);
}

// What the ranks and their communicators did in one step.
class OneStep {
 public:
  OneStep(const OverlapResult& r, const std::vector<Measured>& ranks, size_t step,
          Clock::time_point made)
      : buckets_(r.buckets), made_(made) {
    for (const Measured& m : ranks) moments_.push_back(m.moments[step]);
    for (const Moments& m : moments_) zero_ = std::min(zero_, m.begin);
  }

  std::vector<TimelineSpan> spans(const std::vector<dist::TimelineEvent>& events) {
    for (size_t r = 0; r < moments_.size(); ++r) computed(int(r), moments_[r]);
    for (const dist::TimelineEvent& e : events)
      if (e.what == dist::TimelineEvent::What::call && inside(e)) called(e);
    for (const dist::TimelineEvent& e : events)
      if (e.what == dist::TimelineEvent::What::send && bucket_of_.count(e.call)) sent(e);
    return std::move(spans_);
  }

 private:
  double us(Clock::time_point t) const { return us_between(zero_, t); }
  double us(i64 ns) const { return us_between(zero_, made_) + double(ns) * 1e-3; }
  bool inside(const dist::TimelineEvent& e) const {
    const Moments& m = moments_[size_t(e.rank)];
    return us(e.begin) >= us(m.begin) && us(e.begin) <= us(m.end);
  }

  // Forward until the backward begins, backward until the first wait after that, then the
  // optimizer's step; the waits in between.
  void computed(int rank, const Moments& m) {
    Clock::time_point at = m.begin;
    SpanKind kind = SpanKind::forward;
    const auto until = [&](Clock::time_point to, SpanKind next) {
      if (to > at) add(rank, kind, at, to);
      at = to, kind = next;
    };
    bool backward = false;
    for (const auto& [from, to] : m.waits) {
      if (!backward && from >= m.backward) backward = true, until(m.backward, SpanKind::backward);
      until(from, SpanKind::wait);
      until(to, backward ? SpanKind::step : SpanKind::forward);
    }
    until(m.end, kind);
  }
  void add(int rank, SpanKind kind, Clock::time_point from, Clock::time_point to) {
    TimelineSpan s;
    s.kind = kind, s.rank = rank, s.from_us = us(from), s.to_us = us(to);
    spans_.push_back(s);
  }

  // The k-th of the calls that have the next bucket's size is that bucket.
  void called(const dist::TimelineEvent& e) {
    size_t& next = next_[e.rank];
    const bool bucket = e.kind == dist::Call::Kind::all_reduce && next < buckets_.size() &&
                        e.bytes == buckets_[next] &&
                        us(e.begin) >= us(moments_[size_t(e.rank)].backward);
    TimelineSpan s = span_of(bucket ? SpanKind::bucket : SpanKind::other, e);
    if (bucket) s.number = int(next), bucket_of_[e.call] = int(next), ++next;
    spans_.push_back(s);
  }
  void sent(const dist::TimelineEvent& e) {
    TimelineSpan s = span_of(SpanKind::chunk, e);
    s.number = bucket_of_[e.call], s.peer = e.peer;
    spans_.push_back(s);
  }
  TimelineSpan span_of(SpanKind kind, const dist::TimelineEvent& e) const {
    TimelineSpan s;
    s.kind = kind, s.rank = e.rank, s.bytes = e.bytes;
    s.from_us = us(e.begin), s.to_us = us(e.end);
    return s;
  }

  const std::vector<i64>& buckets_;
  Clock::time_point made_, zero_ = Clock::time_point::max();
  std::vector<Moments> moments_;
  std::map<int, size_t> next_;    // by rank
  std::map<i64, int> bucket_of_;  // by the call's number
  std::vector<TimelineSpan> spans_;
};

void check(const OverlapOptions& o) {
  if (ranks_are_processes())
    throw UsageError("[wt bench overlap] its ranks are threads: start it without a launcher");
  if (o.world.ranks < 2) throw UsageError("[wt bench overlap] one rank has nobody to add up with");
  if (o.width < 1 || o.layers < 1 || o.batch < 1 || o.steps < 1 || o.bucket_bytes < 4)
    throw UsageError("[wt bench overlap] sizes and steps begin at 1, buckets at 4 bytes");
}

}  // namespace

OverlapResult measure_overlap(const OverlapOptions& o) {
  check(o);
  const int threads = num_threads();
  set_num_threads(o.threads);
  OverlapResult r;
  std::vector<Measured> ranks(size_t(o.world.ranks));
  WorldOptions world = o.world;
  world.timeline = std::make_shared<dist::Timeline>();
  const auto made = Clock::now();
  on_each_thread(world, [&](dist::Communicator& comm) {
    Measured& m = ranks[size_t(comm.rank())];
    Rank(o, comm).measure(m, r);
  });
  set_num_threads(threads);
  const std::vector<double> alone = together(ranks, &Measured::alone),
                            communication = together(ranks, &Measured::communication),
                            steps = together(ranks, &Measured::step),
                            last = slowest(ranks, &Measured::last_bucket),
                            forward = slowest(ranks, &Measured::forward);
  std::vector<double> larger, possible, nothing_hidden;
  for (size_t i = 0; i < steps.size(); ++i) {
    larger.push_back(std::max(alone[i], communication[i]));
    possible.push_back(std::max(alone[i] + last[i], forward[i] + communication[i]));
    nothing_hidden.push_back(alone[i] + communication[i]);
  }
  r.alone = summarize(alone);
  r.communication = summarize(communication);
  r.step = summarize(steps);
  r.against_floor = median(ratios(steps, larger));
  r.against_possible = median(ratios(steps, possible));
  r.against_serial = median(ratios(steps, nothing_hidden));
  r.exposed = summarize(slowest(ranks, &Measured::exposed));
  OneStep one(r, ranks, place_of_median(steps), made);
  r.timeline.spans = one.spans(world.timeline->events());
  r.timeline.ranks = o.world.ranks;
  r.timeline.wires = wires_text(o.world);
  r.timeline.title =
      str("A step of data parallelism: ", o.world.ranks, " ranks, perceptron 784-", o.width, "x",
          o.layers, "-10, batch ", o.batch, " a rank, ", r.buckets.size(), " buckets");
  return r;
}

}  // namespace wt::bench
