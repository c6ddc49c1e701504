#include "warptape/bench/overlap.h"

#include <algorithm>
#include <chrono>
#include <map>

#include "warptape/autograd/ops.h"
#include "warptape/core/device.h"
#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/core/random.h"
#include "warptape/data/dataset.h"
#include "warptape/dist/data_parallel.h"
#include "warptape/nn/linear.h"
#include "warptape/nn/loss.h"
#include "warptape/optim/optimizer.h"
#include "warptape/optim/train_step.h"

namespace wt::bench {
namespace {

using tools::SpanKind;
using tools::TimelineSpan;
using Clock = dist::Timeline::Clock;

constexpr int kWarmups = 3;

struct Perceptron : nn::Module<Perceptron> {
  std::vector<nn::Linear> hidden;
  nn::Linear out;
  Perceptron(i64 width, i64 layers) : hidden(make(*this, width, layers)), out(last(*this, width)) {}
  Tensor forward(Tensor x) {
    for (nn::Linear& l : hidden) x = relu(l(std::move(x)));
    return out(std::move(x));
  }

 private:
  static std::vector<nn::Linear> make(Perceptron& p, i64 width, i64 layers) {
    std::vector<nn::Linear> all;
    for (i64 i = 0; i < layers; ++i)
      all.push_back(p.add(str("hidden", i), nn::Linear{i ? width : 784, width}));
    return all;
  }
  static nn::Linear last(Perceptron& p, i64 width) { return p.add("out", nn::Linear{width, 10}); }
};

auto loss_of(Perceptron& net) {
  return [&net](const data::Batch& b) { return cross_entropy(net(b.x), b.y); };
}

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

double us_between(Clock::time_point a, Clock::time_point b) {
  return std::chrono::duration<double, std::micro>(b - a).count();
}

double waited_us(const Moments& m) {
  double us = 0;
  for (const auto& [from, to] : m.waits) us += us_between(from, to);
  return us;
}

// Of one rank, and later of all.
struct Measured {
  std::vector<double> alone, communication, step, exposed;
  std::vector<Moments> moments;  // a step
};

class Rank {
 public:
  Rank(const OverlapOptions& o, dist::Communicator& comm) : o_(o), comm_(comm) {
    manual_seed(1);
    x_ = randn({o.batch, 784}), y_ = randint(0, 10, {o.batch});
  }

  void measure_alone(Measured& m) const {
    Perceptron net(o_.width, o_.layers);
    optim::Sgd opt{net, {.lr = 0.01}};
    TrainStep step{net, opt};
    m.alone = times([&] { step(data::Batch{x_, y_}, loss_of(net)); });
  }

  void measure_both(Measured& m, OverlapResult& r) const {
    Perceptron net(o_.width, o_.layers);
    optim::Sgd opt{net, {.lr = 0.01}};
    dist::DataParallel ddp{net, opt, comm_, {.bucket_bytes = o_.bucket_bytes}};
    Watched watched(ddp);
    TrainStep step{net, opt, {.reducer = &watched}};
    m.step = times([&] {
      watched.now = Moments();
      watched.now.begin = Clock::now();
      step(data::Batch{x_, y_}, loss_of(net));
      watched.now.end = Clock::now();
      m.moments.push_back(watched.now);
    });
    m.moments.erase(m.moments.begin(), m.moments.begin() + kWarmups);
    for (const Moments& t : m.moments) m.exposed.push_back(waited_us(t));
    if (comm_.rank() != 0) return;
    for (const auto& b : ddp.buckets()) r.buckets.push_back(b.bytes);
    r.early = ddp.launched_early();
  }

  void measure_communication(Measured& m, const std::vector<i64>& buckets) const {
    std::vector<Tensor> tensors;
    for (const i64 bytes : buckets) tensors.push_back(zeros({bytes / 4}));
    m.communication = times([&] {
      std::vector<dist::Work> works;
      for (const Tensor& t : tensors) works.push_back(comm_.start_all_reduce(t));
      for (const dist::Work& w : works) w.wait();
    });
  }

 private:
  // All ranks begin at once.
  template <class F>
  std::vector<double> times(const F& work) const {
    std::vector<double> us;
    for (int i = 0; i < kWarmups + o_.steps; ++i) {
      comm_.barrier();
      const auto start = Clock::now();
      work();
      if (i >= kWarmups) us.push_back(us_between(start, Clock::now()));
    }
    return us;
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

size_t place_of_median(const std::vector<double>& v) {
  std::vector<size_t> order(v.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return v[a] < v[b]; });
  return order[(order.size() - 1) / 2];
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

double OverlapResult::against_floor() const {
  const double floor = std::max(alone.median_us, communication.median_us);
  return floor > 0 ? step.median_us / floor : 0;
}

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
    const Rank rank(o, comm);
    rank.measure_alone(m);
    rank.measure_both(m, r);
    comm.barrier();  // r.buckets are there
    rank.measure_communication(m, r.buckets);
  });
  set_num_threads(threads);
  const std::vector<double> steps = slowest(ranks, &Measured::step);
  r.alone = summarize(slowest(ranks, &Measured::alone));
  r.communication = summarize(slowest(ranks, &Measured::communication));
  r.step = summarize(steps);
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
