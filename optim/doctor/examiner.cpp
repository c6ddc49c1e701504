// Runs the steps, and fills in the evidence.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <exception>

#include "warptape/core/machine/cpu_threads.h"
#include "warptape/core/matmul_precision.h"
#include "warptape/core/memory.h"
#include "warptape/core/stream.h"
#include "warptape/optim/doctor/batches.h"
#include "warptape/optim/doctor/listener.h"
#include "warptape/optim/doctor/rate_search.h"
#include "warptape/optim/doctor/rule.h"

namespace wt::doctor {
namespace {

class Examiner {
 public:
  Examiner(const Subject& s, const detail::Program& p, const Options& o);
  Report run();

 private:
  void describe_subject();
  void run_steps();
  void run_one(i64 number);
  void repeat_first();
  void look_at_gradients();
  void look_at_machine(const machine::State& now);
  void time_captured();
  double time_of(const std::function<void()>& step);
  void evaluate();
  void search_rate();
  bool survives(const std::function<void()>& f);
  double now() const { return o_.clock_us(); }
  double rate() const { return s_.optimizers.empty() ? NAN : s_.optimizers.front()->rate(); }
  std::vector<double> waited() const { return s_.waited ? s_.waited() : std::vector<double>(); }
  void wait() const {
    if (!e_.device.is_meta && stream_backend(e_.device)) Stream::current(e_.device).synchronize();
  }

  const Subject& s_;
  const detail::Program& p_;
  Options o_;
  Evidence e_;
  BatchWatch batches_;
  std::optional<machine::Watcher> watcher_;
  std::optional<Listener> listener_;
  std::string place_;  // what runs
  Report report_;
};

std::function<double()> steady_clock_us() {
  return [] {
    return std::chrono::duration<double, std::micro>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  };
}

Examiner::Examiner(const Subject& s, const detail::Program& p, const Options& o)
    : s_(s), p_(p), o_(o) {
  if (o.steps < 2 || o.warmup < 0)
    throw UsageError(str("[doctor] at least 2 steps and no less than 0 before them, got ", o.steps,
                         " and ", o.warmup));
  for (const optim::Optimizer* optimizer : s.optimizers)
    if (!optimizer) throw UsageError("[doctor] an optimizer of the subject is null");
  if (!o_.clock_us) o_.clock_us = steady_clock_us();
  if (!o_.machine) {
    watcher_.emplace();
    o_.machine = [this] { return watcher_->look(); };
  }
  describe_subject();
  listener_.emplace(s_, e_);
}

void Examiner::describe_subject() {
  e_.precision = s_.precision;
  e_.micro_batches = s_.micro_batches;
  e_.workers = s_.workers;
  e_.planned_steps = s_.planned_steps;
  e_.captures = s_.captures;
  e_.tf32 = matmul_precision() == MatmulPrecision::high;
  const char* const kernels = std::getenv("WT_KERNEL");
  e_.forced_kernels = (kernels && *kernels) || mode.overrides;
  e_.anomaly = mode.anomaly;
  e_.has_net = s_.net != nullptr;
  if (s_.net) {
    const std::vector<Tensor> parameters = s_.net->parameters();
    if (!parameters.empty()) e_.device = parameters.front().device();
    for (const nn::ModuleBase& m : s_.net->modules()) {
      e_.dropout_modules += m.type().starts_with("Dropout");
      e_.batch_norm_modules += m.type().starts_with("BatchNorm");
    }
  } else if (!s_.optimizers.empty()) {
    e_.device = s_.optimizers.front()->device();
  }
  if (!s_.schedule) return;
  constexpr i64 kPlan = 64;
  for (i64 i = 0; s_.planned_steps >= kPlan && i < kPlan; ++i)
    e_.plan.push_back(s_.schedule.at(i * s_.planned_steps / kPlan));
}

void Examiner::run_one(i64 number) {
  const bool measured = number >= o_.warmup;
  const double rate_now = rate();
  const i64 applied = s_.optimizers.empty() ? number : s_.optimizers.front()->applied();
  wait();
  listener_->begin_step();
  const double begin = now();
  std::vector<Tensor> batch;
  if (p_.next) batch = p_.next(number == 0);
  const double got = now();
  batches_.add(batch);  // before a step that may fail because of it
  const double ready = now();
  std::function<detail::Outcome()> outcome;
  {
    const SyncGuard waits(measured ? OnSync::count : mode.on_sync);
    outcome = p_.step(false);
    if (measured) e_.waits.insert(e_.waits.end(), waits.waits().begin(), waits.waits().end());
  }
  wait();
  const double end = now();
  StepSeen seen = listener_->end_step();
  seen.us = end - ready + got - begin, seen.data_us = got - begin;
  seen.rate = rate_now;
  seen.live_bytes = memory::stats(e_.device).live;
  seen.live_nodes = memory::live_objects().nodes;
  const detail::Outcome o = outcome();
  outcome = nullptr;
  seen.told_loss = o.loss.has_value();
  seen.loss = o.loss.value_or(NAN), seen.scale = o.scale.value_or(NAN), seen.skipped = o.skipped;
  if (number == 0) e_.first_loss = p_.next ? seen.loss : NAN;
  if (!measured) return;
  if (s_.schedule) e_.schedule.push_back(s_.schedule.at(applied));
  e_.steps.push_back(seen);
}

void Examiner::run_steps() {
  std::vector<double> before;
  for (i64 i = 0; i < o_.warmup + o_.steps; ++i) {
    if (i == o_.warmup) listener_->measure(), before = waited();
    place_ = str("step ", i + 1);
    run_one(i);
  }
  const std::vector<double> after = waited();
  for (size_t i = 0; i < std::min(before.size(), after.size()); ++i)
    e_.waited_us.push_back(1e6 * (after[i] - before[i]) / double(o_.steps));
}

// The same waits of several steps are one.
void merge(std::vector<SyncGuard::Wait>& waits) {
  std::vector<SyncGuard::Wait> all;
  for (const SyncGuard::Wait& w : waits) {
    const auto same = std::find_if(all.begin(), all.end(), [&](const SyncGuard::Wait& o) {
      return o.what == w.what && o.at.file == w.at.file && o.at.line == w.at.line;
    });
    if (same == all.end())
      all.push_back(w);
    else
      same->count += w.count;
  }
  waits = std::move(all);
}

void Examiner::repeat_first() {
  if (p_.next && std::isfinite(e_.first_loss))
    e_.first_loss_again = p_.step(true)().loss.value_or(NAN);
}

void Examiner::look_at_gradients() {
  const NoGrad no_grad;
  for (size_t i = 0; i < e_.parameters.size(); ++i) {
    ParameterSeen& row = e_.parameters[i];
    const Tensor& p = listener_->parameters()[i];
    const Tensor g = p.requires_grad() && row.elements > 0 ? p.grad() : Tensor();
    if (!g.defined()) continue;
    double squares = 0;
    for (const double v : g.detach().to_vector<double>()) squares += v * v;
    row.gradient_rms = std::sqrt(squares / double(row.elements));
  }
  if (e_.precision != DType::f16 || s_.optimizers.empty() || e_.steps.empty()) return;
  // They carry the loss scale.
  const ExponentRow exponents = optim::gradient_exponents(*s_.optimizers.front()).total();
  const double scale = e_.steps.back().scale;
  // What a backward in f16 has rounded to 0 is 0 here: where all of it is, nothing else is left.
  const auto below_normal = [](const DTypeShares& s) {
    return s.lost + s.subnormal + (s.zero > 0.95 ? s.zero : 0);
  };
  e_.scaled_underflow = below_normal(exponents.in(DType::f16));
  e_.underflow = below_normal(exponents.in(DType::f16, scale > 0 ? 1 / scale : 1));
}

void Examiner::look_at_machine(const machine::State& now) {
  MachineSeen& m = e_.machine;
  m.processors = wt::detail::processors();
  m.threads = num_threads();
  m.swapped_bytes_s = now.host.swapped_bytes_s;
  m.slowed = now.host.slowed;
  m.cuda = cuda::is_available();
  for (const machine::Gpu& g : now.gpus)
    if (g.slowed)
      m.gpus.push_back(
          {g.name, g.throttle.empty() ? "" : g.throttle.front(), g.sm_mhz, g.most_sm_mhz});
}

void Examiner::evaluate() {
  if (!s_.evaluate) return;
  e_.evaluation.there = true;
  place_ = "evaluation";
  const profiler::ObserverScope watch(*listener_);
  const u64 sequence = mode.sequence;
  listener_->evaluate(true);
  s_.evaluate();
  listener_->evaluate(false);
  e_.evaluation.recorded = i64(mode.sequence - sequence);
}

// Of a step, over as many as were measured.
double Examiner::time_of(const std::function<void()>& step) {
  wait();
  const double begin = now();
  for (i64 i = 0; i < o_.steps; ++i) step();
  wait();
  return (now() - begin) / double(o_.steps);
}

void Examiner::time_captured() {
  if (!s_.captured || e_.captures) return;
  // Both with the newest batch.
  e_.eager_us = time_of([this] { (void)p_.step(false); });
  for (i64 i = 0; i < 3 + o_.warmup; ++i) s_.captured();  // the third one is captured
  e_.captured_us = time_of(s_.captured);
}

void Examiner::search_rate() {
  if (!o_.find_rate || !p_.next || !s_.net || s_.optimizers.size() != 1) return;
  const std::vector<Finding> so_far = findings_of(e_);
  const bool bad = std::any_of(so_far.begin(), so_far.end(), [](const Finding& f) {
    return f.rule == "loss-flat" || f.rule == "loss-rises";
  });
  if (!bad) return;
  const RateCurve curve = search_for_rate(*s_.net, *s_.optimizers.front(),
                                          [&] { return p_.step(true)().loss.value_or(NAN); });
  report_.rate_curve = curve.points;
  e_.steepest_rate = curve.rate, e_.steepest_loss = curve.loss;
  if (!curve.points.empty()) e_.highest_rate = curve.points.back().first;
}

// What f throws is a finding: false.
bool Examiner::survives(const std::function<void()>& f) {
  if (!e_.failure.empty()) return false;
  try {
    f();
    return true;
  } catch (const std::exception& error) {
    e_.failure = str(place_, ": ", error.what());
    return false;
  }
}

Report Examiner::run() {
  (void)o_.machine();
  {
    const profiler::ObserverScope watch(*listener_);
    survives([&] { run_steps(); });
  }
  merge(e_.waits);
  listener_->finish();
  e_.batches = batches_.seen();
  look_at_machine(o_.machine());
  survives([&] {
    look_at_gradients();
    place_ = "the first batch again";
    repeat_first();
    search_rate();
    evaluate();
    place_ = "the step as a graph";
    time_captured();
  });
  report_.findings = findings_of(e_);
  report_.steps = i64(e_.steps.size());
  report_.step_us = step_us(e_);
  return std::move(report_);
}

}  // namespace

namespace detail {

Report examine(const Subject& s, const Program& p, const Options& o) {
  return Examiner(s, p, o).run();
}

}  // namespace detail
}  // namespace wt::doctor
