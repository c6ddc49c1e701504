// Hidden cases of the lab on streams. simt's streams are late here: work runs when the host waits
// and no earlier, in an order of the streams that a seed draws; so a missing wait shows as a wrong
// number, and what need not have run yet is seen not to have run.
#include <cmath>
#include <cstring>
#include <set>

#include "streams.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/async_copy.h"
#include "warptape/core/factories.h"
#include "warptape/core/mode.h"
#include "warptape/kernels/simt/executor.h"
#include "warptape/labs/support/cases.h"

using namespace wt;
using wt::lab::Draws;
using wt::lab::expect;

namespace streams {

void copy_to(const Tensor& device, const Tensor& host, const Stream& stream) {
  if (!is_pinned(host)) throw UsageError("[copy_to] the host's tensor is not of pin()");
  if (device.numel() != host.numel() || device.device() != stream.device())
    throw UsageError("[copy_to] the tensors have other sizes, or another device than the stream");
  const StreamBackend* const b = stream_backend(stream.device());
  void* const to = device.impl()->data;
  b->use(stream.device(), to, stream.native());
  b->from_host(to, stream.device(), host.impl()->data, host.numel() * i64(sizeof(float)),
               stream.native());
}

}  // namespace streams

namespace {

const Device kSimt = Device::simt();
constexpr int kSeeds = 12;

// Late streams for a scope that leaves no tensors behind.
struct Late {
  explicit Late(u64 seed) { set_simt_streams(SimtStreams::lazy, seed); }
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

// Batches whose elements are all one number.
class Numbers : public streams::Job {
 public:
  Numbers(Draws& draws, i64 batches, i64 size, i64 lag)
      : size_(size), lag_(lag), ready_(ones({1}, {.device = kSimt})) {
    for (i64 i = 0; i < batches; ++i) numbers_.push_back(float(100 * (i + 1) + draws.whole(1, 50)));
    Stream::current(kSimt).synchronize();
  }
  i64 batches() const override { return i64(numbers_.size()); }
  i64 size() const override { return size_; }
  void fill(i64 i, float* host) override {
    hosts.insert(host);
    if (i >= 1) after_one += has_run(i - 1);
    if (i >= lag_) ++asked, over += has_run(i - lag_);
    for (i64 k = 0; k < size_; ++k) host[k] = numbers_[size_t(i)];
  }
  void compute(i64 i, const Tensor& batch) override {
    expect(i == i64(least_.size()), str("batch ", i, " was computed on as number ", least_.size()),
           "order");
    buffers.insert(batch.impl()->data);
    least_.push_back(min(((batch + 1.0) * 2.0) * 0.5 - 1.0));
    most_.push_back(max(batch));
    ran_.push_back(ready_ + 1.0);
  }

  // What the work saw, now that feed() has returned.
  void compare(u64 seed) const {
    const std::string when = str("with seed ", seed, " ");
    expect(i64(least_.size()) == batches(),
           str(least_.size(), " of ", batches(), " batches were computed on"), "order");
    for (i64 i = 0; i < batches(); ++i)
      expect(has_run(i), str(when, "the work on batch ", i, " had not run when feed() returned"),
             "end");
    for (size_t i = 0; i < least_.size(); ++i)
      for (const float x : {as_it_is(least_[i]), as_it_is(most_[i])}) {
        const std::string what = str(when, "the work on batch ", i, " saw ");
        for (size_t k = i + 1; k < numbers_.size(); ++k)
          expect(x != numbers_[k], str(what, "batch ", k, ", which came too early"), "buffer");
        expect(x == numbers_[i], str(what, "what was in its buffer before it (", x, ")"), "copied");
      }
  }

  // Of all calls of fill(i): whether the work on batch i - lag, and on i - 1, had run by then.
  i64 asked = 0, over = 0, after_one = 0;
  std::set<const void*> hosts{}, buffers{};

 private:
  // Each batch's work ends with a number of its own, which is NaN before.
  bool has_run(i64 i) const { return size_t(i) < ran_.size() && as_it_is(ran_[size_t(i)]) == 2; }

  const i64 size_, lag_;
  const Tensor ready_;
  std::vector<float> numbers_{};
  std::vector<Tensor> least_{}, most_{}, ran_{};
};

struct Seen {
  i64 asked = 0, over = 0, after_one = 0, fills = 0, waits = 0;
  size_t hosts = 0, buffers = 0;
};

const char* hint_of(const std::string& text) {
  if (text.find("not of pin()") != std::string::npos) return "pageable";
  return text.find("the host changed") != std::string::npos ? "pinned" : "threw";
}

// feed() under one seed after another.
Seen feed(Draws& draws, i64 batches, int buffers) {
  Seen seen;
  for (u64 seed = 1; seed <= kSeeds; ++seed) {
    const Late late(seed + draws.seed % 1000);
    Numbers job(draws, batches, draws.whole(20, 90), buffers + 1);
    try {
      const SyncGuard guard(OnSync::count);
      streams::feed(job, kSimt, buffers);
      seen.waits = std::max(seen.waits, guard.count());
    } catch (const Error& e) {
      wt::lab::fail(str("with seed ", seed, ": ", e.what()), hint_of(e.what()));
    }
    job.compare(seed);
    seen.asked += job.asked;
    seen.over += job.over;
    seen.after_one += job.after_one;
    seen.fills += batches - 1;
    seen.hosts = std::max(seen.hosts, job.hosts.size());
    seen.buffers = std::max(seen.buffers, job.buffers.size());
  }
  return seen;
}

void compare_overlap(const Seen& s, int buffers) {
  expect(s.after_one < s.fills,
         "whenever the host began a batch, the work on the one before it was over: somebody waits "
         "for all of it",
         "drained");
  expect(s.over < s.asked,
         str("whenever the host began batch i, the work on batch i - ", buffers + 1,
             " was over, under every seed: copies wait for work that they do not need"),
         "serial");
}

}  // namespace

WT_LAB_CASE("feed: every batch is computed on, under all orders of the streams", 30) {
  feed(draws, draws.whole(7, 10), 2);
  feed(draws, 1, 2);
}

WT_LAB_CASE("feed: copies, work and the host go on beside each other", 25) {
  compare_overlap(feed(draws, 10, 2), 2);
}

WT_LAB_CASE("feed: two buffers, used in turn, and few waits of the host", 10) {
  const i64 batches = draws.whole(8, 10);
  const Seen s = feed(draws, batches, 2);
  expect(s.hosts == 2, str("fill() was given ", s.hosts, " different buffers, not 2"), "two");
  expect(s.buffers == 2, str("compute() was given ", s.buffers, " different buffers, not 2"),
         "two");
  expect(s.waits <= batches + 6,
         str("for ", batches, " batches the host waited ", s.waits, " times"), "drained");
}

namespace {

struct Beside {
  i64 left_wrong = 0, right_wrong = 0, sum_wrong = 0, same_stream = 0, waits = 0;
};

bool wrong(const Tensor& t, double want) { return !(std::fabs(as_it_is(t) - want) < 1e-3); }

Beside run_beside(Draws& draws) {
  Beside b;
  for (u64 seed = 1; seed <= kSeeds; ++seed) {
    const Late late(seed + draws.seed % 1000);
    const double a = draws.real(1, 2), c = draws.real(2, 3), x = a + 1;
    void *left_stream = nullptr, *right_stream = nullptr;
    Tensor left, right, total;
    const Tensor begin = ones({40}, {.device = kSimt});
    Stream::current(kSimt).synchronize();
    {
      const SyncGuard guard(OnSync::count);
      const Tensor queued = begin * a + 1.0;
      const Tensor y = streams::beside(
          [&](const Tensor& t) {
            left_stream = Stream::current(kSimt).native();
            return left = (t * 2.0) * 3.0;
          },
          [&](const Tensor& t) {
            right_stream = Stream::current(kSimt).native();
            return right = t * c;
          },
          queued);
      total = y * 2.0;
      b.waits += guard.count();
    }
    expect(left.defined() && right.defined(), "left or right was not called", "beside");
    b.same_stream += left_stream == right_stream;
    Stream::current(kSimt).synchronize();
    b.sum_wrong += wrong(total, 2 * (6 * x + c * x));
    const SimtUnprotect all;  // runs what nobody has waited for
    b.left_wrong += wrong(left, 6 * x);
    b.right_wrong += wrong(right, c * x);
  }
  return b;
}

}  // namespace

WT_LAB_CASE("beside: x is there for the left side, and its result for the sum", 25) {
  const Beside b = run_beside(draws);
  expect(b.same_stream == 0, "left and right ran on one stream", "beside");
  expect(b.left_wrong == 0,
         str("under ", b.left_wrong, " of ", kSeeds,
             " seeds the left side computed with an x that was not there yet"),
         "fork");
  expect(b.right_wrong == 0, "the right side computed with a wrong x", "fork");
  expect(b.sum_wrong == 0,
         str("under ", b.sum_wrong, " of ", kSeeds,
             " seeds both sides were right and the sum was not: it was computed too early"),
         "join");
}

WT_LAB_CASE("beside: the host waits for nothing", 10) {
  const Beside b = run_beside(draws);
  expect(b.same_stream == 0, "left and right ran on one stream", "beside");
  expect(b.waits == 0, str("the host waited ", b.waits, " times in ", kSeeds, " calls"),
         "host_waits");
}

WT_LAB_CHALLENGE("feed: one buffer, three and four, each as far ahead as it can be") {
  feed(draws, 5, 1);
  for (const int buffers : {3, 4}) {
    const Seen s = feed(draws, 14, buffers);
    compare_overlap(s, buffers);
    expect(s.hosts == size_t(buffers) && s.buffers == size_t(buffers),
           str("of ", buffers, " buffers, ", s.hosts, " and ", s.buffers, " were used"), "two");
  }
}
