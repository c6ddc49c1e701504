#include "warptape/bench/step_ladder.h"

#include <algorithm>
#include <chrono>

#include "warptape/bench/overhead.h"
#include "warptape/core/memory/copy_bytes.h"
#include "warptape/core/mode.h"
#include "warptape/core/profiler.h"
#include "warptape/kernels/run.h"

namespace wt::bench {
namespace {

using Step = std::function<void()>;

// The variants that a contract's launches take, in the order of their first launch.
struct StepLaunches : profiler::Observer {
  explicit StepLaunches(StepLadder& l) : ladder(l) {}
  void begin(const profiler::Range& r) noexcept override {
    if (r.kind != profiler::Kind::kernel || ladder.contract != r.name) return;
    ++ladder.launches;
    std::vector<std::string>& names = ladder.chosen;
    if (std::find(names.begin(), names.end(), r.variant) == names.end()) names.push_back(r.variant);
  }
  StepLadder& ladder;
};

// Of one of `steps` in a row.
double step_us(const Step& step, Device d, int steps) {
  synchronize(d);
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < steps; ++i) step();
  synchronize(d);
  const std::chrono::duration<double, std::micro> us = std::chrono::steady_clock::now() - start;
  return us.count() / steps;
}
// So many take a millisecond.
int steps_of(double us) { return std::max(1, int(1e3 / std::max(us, 1.0))); }

// A rung and the times of its steps so far.
struct TimedRung {
  StepRung rung;
  const char* contract;
  std::vector<double> us{};

  void once(const Step& step, Device d) {
    const VariantScope scope(contract, rung.variant.c_str());
    us.push_back(step_us(step, d, us.empty() ? 1 : steps_of(us[0])));
  }
};

// Of "UsageError: [matmul] variant ... does not take these arguments: takes f16 only" the end.
std::string reason_of(const std::string& error) {
  const std::string before = "these arguments: ";
  const size_t at = error.find(before);
  return at == std::string::npos ? error : error.substr(at + before.size());
}

// The first step, which also fills caches.
void begin_with(TimedRung& t, const Step& step, Device d) {
  try {
    t.once(step, d);
  } catch (const UsageError& e) {
    t.rung.why_not = reason_of(e.what());
  } catch (const NotAvailable& e) {
    t.rung.why_not = reason_of(e.what());
  }
}

std::vector<TimedRung> rungs_of(const StepLadder& l, DeviceKind kind) {
  std::vector<TimedRung> rungs;
  for (const ContractInfo& c : all_contracts())
    for (int i = c.count(kind) - 1; l.contract == c.name && i >= 0; --i)
      rungs.push_back({{c.variant(kind, i).name}, c.name});
  return rungs;
}

void climb(StepLadder& l, const StepLadderOptions& o, const Step& step) {
  {
    StepLaunches launches(l);
    const profiler::ObserverScope watch(launches);
    step();
  }
  if (l.launches == 0) return;
  std::vector<TimedRung> rungs = rungs_of(l, o.device.kind);
  for (TimedRung& t : rungs) begin_with(t, step, o.device);
  const int steps = steps_of(step_us(step, o.device, 1));
  std::vector<double> chosen_us;
  for (int round = 0; round < o.rounds; ++round) {
    chosen_us.push_back(step_us(step, o.device, steps));
    for (TimedRung& t : rungs)
      if (t.rung.why_not.empty() && t.us[0] < 1e6) t.once(step, o.device);
  }
  l.step = summarize(chosen_us);
  for (TimedRung& t : rungs) {
    if (t.us.size() > 1) t.us.erase(t.us.begin());
    if (!t.us.empty()) t.rung.time = summarize(t.us);
    l.rungs.push_back(t.rung);
  }
}

}  // namespace

const std::vector<std::string>& step_models() {
  static const std::vector<std::string> names{"mlp_tiny", "mlp_small", "mnist_cnn", "fashion_cnn",
                                              "gpt_small"};
  return names;
}

StepLadders time_step_ladders(const StepLadderOptions& o) {
  StepLadders all;
  for (const std::string& name : o.contracts) all.ladders.push_back({name});
  const DefaultDevice device(o.device);
  OverheadOptions options{.only = {o.model}};
  options.take_step = [&](const Step& step) {
    for (int i = 0; i < 3; ++i) step();
    for (StepLadder& l : all.ladders) climb(l, o, step);
  };
  all.shape = overhead(options).at(0).shape;
  return all;
}

}  // namespace wt::bench
