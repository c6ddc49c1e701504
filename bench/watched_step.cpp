// watched_step: what it costs to watch a training step. gpt_small's step as it is, under the
// profiler, recorded for `wt diff` at every tenth step, and by the doctor; in turns, so that what
// else the machine does is in all of them.
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "warptape/autograd/recorder.h"
#include "warptape/bench/overhead_rows.h"
#include "warptape/core/profile.h"
#include "warptape/core/str.h"
#include "warptape/optim/doctor.h"

namespace wt::bench {
namespace {

constexpr i64 kSteps = 20;  // a window of each: two are recorded
constexpr i64 kEvery = 10;

using Step = std::function<void()>;

double us_of(const std::function<void()>& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
      .count();
}

void bare(const Step& step) {
  for (i64 i = 0; i < kSteps; ++i) step();
}

void profiled(const Step& step) {
  (void)profiler::profile([&] { bare(step); });
}

// Into a file of its own, which goes with it.
void recorded(const Step& step) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / str("wt-watched-", getpid(), ".wtd");
  {
    record::Recorder r(file.string(), {.every = kEvery});
    for (i64 i = 0; i < kSteps; ++i) r.step(i + kEvery, step);  // 10 and 20
  }
  std::filesystem::remove(file);
}

// The median of the steps that the doctor has looked at.
double examined_us(const Step& step) {
  return doctor::examine({}, step, {.warmup = 1, .steps = kSteps, .find_rate = false}).step_us;
}

struct Way {
  const char* shape;
  std::function<double(const Step&)> us;  // a step
};

}  // namespace

std::vector<OverheadRow> watched_step(const OverheadOptions& o) {
  const auto a_step = [](void (*run)(const Step&)) {
    return [run](const Step& s) { return us_of([&] { run(s); }) / double(kSteps); };
  };
  const Way ways[] = {{"bare", a_step(bare)},
                      {"profiled", a_step(profiled)},
                      {"recorded, N = 10", a_step(recorded)},
                      {"examined", examined_us}};
  std::vector<OverheadRow> rows;
  OverheadOptions inner = o;
  inner.take_step = [&](const Step& step) {
    bare(step);
    std::vector<std::vector<double>> us(std::size(ways)), ratios(std::size(ways));
    for (int w = 0; w < (o.fixed_calls ? 1 : o.windows); ++w)
      for (size_t i = 0; i < std::size(ways); ++i) {
        us[i].push_back(ways[i].us(step));
        ratios[i].push_back(us[i].back() / us[0].back());
      }
    for (size_t i = 0; i < std::size(ways); ++i) {
      OverheadRow row{.bench = "watched_step", .shape = str("gpt_small, ", ways[i].shape)};
      row.median_us = quantile(us[i], 0.5), row.min_us = quantile(us[i], 0);
      row.p10_us = quantile(us[i], 0.1), row.p90_us = quantile(us[i], 0.9);
      row.mallocs = -1, row.calls = kSteps, row.of_bare = quantile(ratios[i], 0.5);
      rows.push_back(std::move(row));
    }
  };
  gpt_small(inner);
  return rows;
}

}  // namespace wt::bench
