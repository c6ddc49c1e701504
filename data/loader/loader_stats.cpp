#include "warptape/data/loader_stats.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "warptape/core/str.h"
#include "warptape/data/loader/loader_times.h"
#include "warptape/data/samples.h"

namespace wt::data {
namespace {

i64 now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

constinit thread_local i64 collated = 0;  // by this thread, ever

std::string figure(const char* format, double v) {
  char text[32];
  std::snprintf(text, sizeof text, format, v);
  return text;
}
std::string seconds(double s) { return s < 1 ? figure("%.3g ms", 1e3 * s) : figure("%.3g s", s); }

}  // namespace

const char* LoaderStats::dearest() const {
  const std::pair<double, const char*> stages[] = {
      {dataset, "dataset"}, {collate, "collate"}, {pin, "pin"}, {copy, "copy"}};
  return std::max_element(std::begin(stages), std::end(stages),
                          [](const auto& a, const auto& b) { return a.first < b.first; })
      ->second;
}

std::string LoaderStats::text() const {
  std::string t =
      str(batches, " batches in ", seconds(elapsed), ": the caller waited ",
          figure("%.0f %%", 100 * stall_share()), " of it (", seconds(next), "; for workers ",
          seconds(worker_wait), ", copies ", seconds(copy), "); all threads: dataset ",
          seconds(dataset), ", collate ", seconds(collate), ", pin ", seconds(pin));
  if (bytes_to_device > 0 && batches > 0)
    t += str("; ", bytes_to_device / batches, " bytes to the device a batch");
  return t;
}

namespace detail {

void LoaderTimes::reset() {
  for (auto& ns : ns_) ns = 0;
  bytes_ = 0;
  batches_ = 0;
  begin_ = now_ns();
}

LoaderStats LoaderTimes::stats() const {
  const auto of = [&](LoaderStage s) { return 1e-9 * double(ns_[int(s)].load()); };
  return {.batches = batches_,
          .bytes_to_device = bytes_,
          .elapsed = 1e-9 * double(now_ns() - begin_),
          .next = of(LoaderStage::next),
          .dataset = of(LoaderStage::dataset),
          .collate = of(LoaderStage::collate),
          .pin = of(LoaderStage::pin),
          .worker_wait = of(LoaderStage::worker_wait),
          .copy = of(LoaderStage::copy)};
}

StageTimer::StageTimer(LoaderTimes& t, LoaderStage s)
    : times_(t), stage_(s), begin_(now_ns()), collated_(collated) {}

StageTimer::~StageTimer() {
  i64 ns = now_ns() - begin_;
  if (stage_ == LoaderStage::dataset) {
    const i64 of_it = collated - collated_;
    if (of_it > 0) times_.add(LoaderStage::collate, of_it);
    ns -= of_it;
  }
  times_.add(stage_, ns);
}

CollateTimer::CollateTimer() : begin_(now_ns()) {}
CollateTimer::~CollateTimer() { collated += now_ns() - begin_; }

}  // namespace detail
}  // namespace wt::data
