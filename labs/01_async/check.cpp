// Hidden cases of the lab on asynchronous launches. simt's streams are late here: what is queued
// runs when the host waits, and no earlier. Time is what a made-up clock says, which knows what has
// run and what has not; nothing here depends on how fast anything is.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "async.h"
#include "warptape/autograd/ops/gather.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/core/mode.h"
#include "warptape/core/stream.h"
#include "warptape/kernels/simt/executor.h"
#include "warptape/labs/support/cases.h"

using namespace wt;
using wt::lab::Draws;
using wt::lab::expect;

namespace {

const Device kSimt = Device::simt();

struct Late {
  Late() { set_simt_streams(SimtStreams::lazy, 1); }
  ~Late() {
    try {
      set_simt_streams(SimtStreams::eager);
    } catch (const Error&) {  // what nobody waited for
    }
  }
};

// The first float of device memory as it is now: no wait.
float as_it_is(const Tensor& t) {
  float v;
  std::memcpy(&v, t.impl()->data, sizeof v);
  return v;
}

// Work that can be seen to have run: each call ends with a number that is NaN before.
class Work {
 public:
  Work() : ready_(ones({1}, {.device = kSimt})) { Stream::current(kSimt).synchronize(); }
  void queue() {
    (void)((ready_ + 2.0) * 3.0);
    ended_.push_back(ready_ + 1.0);
  }
  i64 queued() const { return i64(ended_.size()); }
  i64 ran() const {
    i64 n = 0;
    while (n < queued() && as_it_is(ended_[size_t(n)]) == 2) ++n;
    return n;
  }

 private:
  const Tensor ready_;
  std::vector<Tensor> ended_{};
};

// A call costs the host 0.001 s, and a run the device 0.5 s, the first two of them 40 s more.
class MadeUpClock : public honest::Clock {
 public:
  explicit MadeUpClock(const Work& work) : work_(work) {}
  double now() override {
    reads.push_back({work_.queued(), work_.ran()});
    const double ran = double(work_.ran());
    return 7 + 0.001 * double(work_.queued()) + 0.5 * ran + 40 * std::fmin(ran, 2);
  }
  struct Read {
    i64 queued, ran;
  };
  std::vector<Read> reads{};

 private:
  const Work& work_;
};

}  // namespace

WT_LAB_CASE("seconds_per_run: of work that has run, without what came before", 20) {
  const Late late;
  for (int round = 0; round < 3; ++round) {
    Work work;
    MadeUpClock clock(work);
    const int warm_up = int(draws.whole(2, 5)), runs = int(draws.whole(3, 9));
    for (i64 before = draws.whole(0, 3); before > 0; --before) work.queue();
    const i64 first = work.queued() + warm_up;
    const double got = honest::seconds_per_run([&] { work.queue(); }, kSimt, warm_up, runs, clock);
    expect(work.queued() == first + runs,
           str("work() was called ", work.queued() - first + warm_up, " times, not ", warm_up,
               " + ", runs),
           "calls");
    expect(clock.reads.size() == 2,
           str("the clock was read ", clock.reads.size(), " times, not twice"), "clock");
    const MadeUpClock::Read begin = clock.reads[0], end = clock.reads[1];
    expect(end.ran == end.queued,
           str("at the second reading ", end.queued - end.ran, " of ", end.queued,
               " calls had not run"),
           "end");
    expect(begin.queued == first,
           str("at the first reading work() had been called ", begin.queued, " times, not ", first),
           "begin");
    expect(begin.ran == begin.queued,
           str("at the first reading ", begin.queued - begin.ran, " earlier calls had not run yet"),
           "begin");
    wt::lab::expect_close("the time of a run", got, 0.501, 1e-9, "calls");
  }
}

WT_LAB_CASE("seconds_per_run: the host waits twice", 5) {
  const Late late;
  Work work;
  MadeUpClock clock(work);
  const SyncGuard guard(OnSync::count);
  honest::seconds_per_run([&] { work.queue(); }, kSimt, 2, 20, clock);
  expect(guard.count() <= 2,
         str("for 20 runs the host waited ", guard.count(), " times: ", guard.describe()), "each");
  expect(!clock.reads.empty() && clock.reads.back().ran == 22, "not all of the runs had run",
         "end");
}

namespace {

// Steps with losses that are known. The loss is one tensor that each step writes, or a new one.
class Training {
 public:
  Training(Draws& draws, int steps, bool one_tensor)
      : one_(one_tensor), last_(zeros({}, {.device = kSimt})) {
    for (int i = 0; i < steps; ++i) losses.push_back(float(draws.whole(1, 64)));
    all_ = tensor(losses).to(kSimt);
    Stream::current(kSimt).synchronize();
  }
  Tensor step() {
    const NoGrad no_grad;
    const i64 i = work.queued();
    expect(i < i64(losses.size()), str("step() was called more than ", losses.size(), " times"),
           "windows");
    over_at_call.push_back(work.ran());
    const Tensor now = all_.select(0, i) * 1.0;
    if (one_) last_.copy_(now);
    work.queue();
    return one_ ? last_ : now;
  }
  std::vector<double> means(int every) const {
    std::vector<double> all;
    for (size_t i = 0; i < losses.size(); i += size_t(every)) {
      double sum = 0;
      const size_t end = std::min(losses.size(), i + size_t(every));
      for (size_t k = i; k < end; ++k) sum += losses[k];
      all.push_back(sum / double(end - i));
    }
    return all;
  }
  std::vector<float> losses{};
  std::vector<i64> over_at_call{};  // steps that had run when this one was queued
  Work work{};

 private:
  const bool one_;
  Tensor all_{}, last_;
};

void compare_losses(const std::vector<double>& got, const std::vector<double>& want, int every,
                    const char* hint) {
  expect(got.size() == want.size(),
         str("in windows of ", every, " there are ", got.size(), " means, not ", want.size()),
         "windows");
  for (size_t i = 0; i < got.size(); ++i)
    wt::lab::expect_close(str("the mean loss of window ", i, " of ", every, " steps"), got[i],
                          want[i], 1e-4, hint);
}

}  // namespace

WT_LAB_CASE("mean_losses: the means, of the last window too, whatever tensor step() gives", 15) {
  const Late late;
  for (const bool one_tensor : {false, true})
    for (const int every : {1, int(draws.whole(2, 4)), 50}) {
      const int steps = int(draws.whole(9, 14));
      Training training(draws, steps, one_tensor);
      compare_losses(honest::mean_losses([&] { return training.step(); }, steps, every),
                     training.means(every), every, one_tensor ? "same_tensor" : "windows");
    }
  expect(honest::mean_losses([] { return Tensor(); }, 0, 3).empty(), "of no steps there is a mean",
         "windows");
}

WT_LAB_CASE("mean_losses: the host waits once a window", 25) {
  const Late late;
  const int every = int(draws.whole(4, 6)), steps = 4 * every;
  Training training(draws, steps, false);
  const SyncGuard guard(OnSync::count);
  const std::vector<double> got =
      honest::mean_losses([&] { return training.step(); }, steps, every);
  expect(guard.count() <= 4,
         str("in 4 windows of ", every, " steps the host waited ", guard.count(),
             " times: ", guard.describe()),
         "each_step");
  const SyncGuard over(OnSync::allow);
  compare_losses(got, training.means(every), every, "windows");
}

namespace {

// Launches of which one looks up a row that is not there.
std::vector<std::function<void()>> launches(i64 count, i64 faulty) {
  const Tensor table = ones({4, 3}, {.device = kSimt});
  const Tensor good = tensor({1, 2}).to(kSimt), bad = tensor({1, 77}).to(kSimt);
  Stream::current(kSimt).synchronize();
  std::vector<std::function<void()>> all;
  for (i64 i = 0; i < count; ++i)
    all.push_back([=] { (void)(index_select(table, 0, i == faulty ? bad : good) * 2.0); });
  return all;
}

i64 culprit_of(const std::vector<std::function<void()>>& all, const char* threw) {
  try {
    return honest::culprit(all, kSimt);
  } catch (const Error& e) {
    wt::lab::fail(str("culprit() threw: ", e.what()), threw);
  }
}

}  // namespace

WT_LAB_CASE("culprit: the launch that failed, not the one at which it was heard of", 20) {
  const Late late;
  const i64 count = draws.whole(6, 12);
  for (const i64 faulty : {draws.whole(1, count - 2), i64(0), count - 1}) {
    const i64 got = culprit_of(launches(count, faulty), "where");
    expect(got == faulty,
           str("of ", count, " launches number ", got, " was named, and number ", faulty,
               " is the faulty one"),
           "where");
  }
  const i64 none = culprit_of(launches(count, -1), "where");
  expect(none == -1, str("all launches are well, and number ", none, " was named"), "where");
  expect(culprit_of({}, "where") == -1, "of no launches one was named", "where");
}

WT_LAB_CASE("culprit: what had failed before is no launch's fault", 15) {
  const Late late;
  for (const i64 faulty : {i64(-1), i64(2)}) {
    const auto earlier = launches(1, 0), all = launches(5, faulty);
    earlier[0]();
    const i64 got = culprit_of(all, "before");
    expect(got == faulty,
           str("work before the call had failed; number ", got,
               " was named, and the faulty one is ", faulty),
           "before");
  }
}

WT_LAB_CHALLENGE("mean_losses: while the host waits, the next window is queued already") {
  const Late late;
  const int every = int(draws.whole(3, 5)), windows = 5, steps = windows * every;
  Training training(draws, steps, false);
  const std::vector<double> got =
      honest::mean_losses([&] { return training.step(); }, steps, every);
  compare_losses(got, training.means(every), every, "windows");
  for (int k = 1; k < windows; ++k) {
    const i64 over = training.over_at_call[size_t(k * every)];
    expect(over < k * every,
           str("when window ", k, " began, all ", over,
               " steps before it had run: the device was idle"),
           "ahead");
  }
}
