// What is wrong with a training program, and what it costs: runs some of its steps, watches them,
// and returns ranked findings, each with numbers and the line of code that mends it.
//
//   doctor::Report r = doctor::examine(
//       {.net = &net, .optimizers = {&opt}, .planned_steps = 10'000},
//       [&] { data::Batch b; loader.next(b); return b; },
//       [&](const data::Batch& b) {
//         return step(b, [&](const data::Batch& p) { return cross_entropy(net(p.x), p.y); });
//       });
//   std::cout << r.text();
//
// The program's steps are real ones: parameters, optimizer and loader are afterwards where these
// steps have brought them. What the doctor is not told it does not judge: without a net nothing is
// said about modules, without batches nothing about data. `wt doctor RECIPE` does this for a
// recipe; docs/doctor.md lists the rules.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "warptape/core/machine_state.h"
#include "warptape/optim/train_step.h"

namespace wt::doctor {

// How bad a finding is, the worst first.
enum class Severity : u8 {
  wrong,  // what is trained is not what was meant, or nothing is trained
  waste,  // time or memory is lost
  hint    // worth a look
};
// "wrong", "waste" or "hint".
WT_API const char* severity_name(Severity s);

// One thing that is wrong, and what mends it.
struct Finding {
  std::string rule{};                  // "data-wait"
  Severity severity = Severity::hint;  // how bad it is
  std::string title{}, evidence{};     // one sentence; the numbers that it follows from
  double cost_us = -1;        // microseconds of a step; -1: it costs no time, or nobody can tell
  std::string gain{}, fix{};  // what to expect; a line of code or of the shell
};

// What a rule is called and looks for.
struct RuleInfo {
  const char* id;       // Finding::rule
  const char* subject;  // "data", "inputs", "device", ...
  const char* finds;    // one line
};
// All rules, in the order in which docs/doctor.md lists them.
WT_API const std::vector<RuleInfo>& rules();

// What an examination found.
struct Report {
  std::vector<Finding> findings{};  // what is wrong first, then by cost, then in the rules' order
  i64 steps = 0;                    // that were measured
  double step_us = 0;               // microseconds of these, the median
  // Losses by learning rate, where the loss was found not to fall: (rate, loss).
  std::vector<std::pair<double, double>> rate_curve{};

  // Whether nothing was found.
  bool healthy() const { return findings.empty(); }
  // The finding of a rule; null: there is none. It is part of the report.
  WT_API const Finding* find(std::string_view rule) const;
  // A numbered list for people: each finding with evidence, cost, gain and fix.
  WT_API std::string text() const;
  // One object: {"steps", "step_us", "findings": [{"rule", "severity", "title", "evidence",
  // "cost_us", "gain", "fix"}], "rate_curve": [[rate, loss], ...]}; what is not known is null.
  WT_API std::string json() const;
};

// What the program is made of. All of it lives longer than the call.
struct Subject {
  const nn::ModuleBase* net = nullptr;          // null: nothing is said about modules
  std::vector<optim::Optimizer*> optimizers{};  // none of them null
  i64 micro_batches = 1;                        // that a step cuts its batch into
  DType precision = DType::f32;                 // of the forward: TrainStepOptions::precision
  optim::Schedule schedule{};                   // that the rate is meant to follow
  i64 planned_steps = 0;                        // of the whole training; 0: not known
  int workers = -1;                             // of the loader; -1: not known
  bool captures = false;                        // the step is a graph already
  // Evaluates, as the program does; a part of the held-out data will do.
  std::function<void()> evaluate{};
  // One step of the same training as a captured graph (TrainStepOptions::graph): is timed beside
  // the steps as they are.
  std::function<void()> captured{};
  // Seconds so far in which each rank waited for the others, by rank: dist::DataParallel::waited().
  std::function<std::vector<double>()> waited{};
};

// How an examination goes.
struct Options {
  i64 warmup = 3;  // steps that are not measured: memory is taken, kernels are chosen
  i64 steps = 17;  // measured ones, at least 2
  // Try rates where the loss does not fall. Model, optimizer, rate and random numbers are put back;
  // a loss scale of the program's is not.
  bool find_rate = true;
  // clock_us, machine: for tests, microseconds of a clock, and what the machine does.
  std::function<double()> clock_us{};
  std::function<machine::State()> machine{};
};

namespace detail {

// What a step has said of itself.
struct Outcome {
  std::optional<double> loss{}, scale{}, rate{};
  bool skipped = false;
};
inline Outcome outcome_of(const StepResult& r) {
  const StepRecord done = r.read();
  return {done.loss, done.scale, done.lr, done.skipped != 0};
}
inline Outcome outcome_of(const Tensor& loss) { return {.loss = loss.detach().item()}; }
inline Outcome outcome_of(double loss) { return {.loss = loss}; }

// A program behind functions.
struct Program {
  // Makes the next batch and gives its tensors; first: keeps it for again().
  std::function<std::vector<Tensor>(bool first)> next{};
  // A step with that batch, or with the first one; what it returns is asked for what came of it.
  std::function<std::function<Outcome()>(bool first)> step{};
};
WT_API Report examine(const Subject& s, const Program& p, const Options& o);

template <class F>
concept MakesBatches = std::is_invocable_v<F&> && !std::is_void_v<std::invoke_result_t<F&>>;

template <class R>
std::function<Outcome()> reader_of(R&& result) {
  if constexpr (LossLike<R>) {
    if constexpr (std::convertible_to<decltype(result.weight), double>)
      return [sum = Tensor(result.sum).detach(), weight = double(result.weight)] {
        return Outcome{.loss = sum.item() / weight};
      };
    else
      return [sum = Tensor(result.sum).detach(), weight = Tensor(result.weight)] {
        return Outcome{.loss = sum.item() / weight.item()};
      };
  } else {
    return [r = std::decay_t<R>(std::forward<R>(result))] { return outcome_of(r); };
  }
}
template <class F, class... A>
std::function<Outcome()> run_step(F& step, const A&... batch) {
  if constexpr (std::is_void_v<std::invoke_result_t<F&, const A&...>>) {
    step(batch...);
    return [] { return Outcome(); };
  } else {
    return reader_of(step(batch...));
  }
}

}  // namespace detail

// Examines a program whose next() makes a batch (of a type that TrainStep takes: core/batch.h),
// step(batch) trains with it and returns a StepResult, a loss, a number or nothing. Runs warmup +
// steps of them, and one more on the first batch; Subject::captured and Options::find_rate take
// more. What next(), a step or the evaluation throws ends the examination and is the first finding.
// Throws UsageError for options out of range, a null optimizer, and where the profiler has no room
// for an observer.
template <class Next, class Step>
requires(detail::MakesBatches<Next> && !std::same_as<std::decay_t<Step>, Options>) Report
    examine(const Subject& s, Next&& next, Step&& step, const Options& o = {}) {
  using Batch = std::decay_t<std::invoke_result_t<Next&>>;
  std::optional<Batch> batch, first;
  detail::Program p;
  p.next = [&](bool is_first) {
    batch.emplace(next());
    if (is_first) first = *batch;
    std::vector<Tensor> tensors;
    wt::detail::for_each_tensor(*batch, [&](Tensor& t) { tensors.push_back(t); });
    return tensors;
  };
  p.step = [&](bool of_first) { return detail::run_step(step, of_first ? *first : *batch); };
  return detail::examine(s, p, o);
}

// Examines a program whose step gets its data itself: nothing is said about batches.
template <class Step>
requires(std::is_invocable_v<Step&>) Report
    examine(const Subject& s, Step&& step, const Options& o = {}) {
  detail::Program p;
  p.step = [&](bool) { return detail::run_step(step); };
  return detail::examine(s, p, o);
}

}  // namespace wt::doctor
