#include "warptape/bench/steps/steps.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "warptape/autograd/autocast.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/bench/steps/steps_models.h"
#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/core/matmul_precision.h"
#include "warptape/core/memory.h"
#include "warptape/core/memory/copy_bytes.h"
#include "warptape/core/suggest.h"
#include "warptape/optim/clip.h"
#include "warptape/optim/train_step.h"

namespace wt::bench {
namespace {

DType dtype_of(const std::string& precision) {
  if (precision == "f32" || precision == "tf32") return DType::f32;
  if (precision == "f16") return DType::f16;
  if (precision == "bf16") return DType::bf16;
  const std::vector<std::string> known{"f32", "tf32", "f16", "bf16"};
  throw UsageError(str("no precision is called '", precision, "'", did_you_mean(precision, known)));
}

void check(const StepOptions& o) {
  std::vector<std::string> models = step_bench_models();
  for (std::string& name : named_step_models()) models.push_back(std::move(name));
  if (std::find(models.begin(), models.end(), o.model) == models.end())
    throw UsageError(
        str("no training step is called '", o.model, "'", did_you_mean(o.model, models)));
  (void)dtype_of(o.precision);
  if (o.precision == "tf32" && o.device.kind != DeviceKind::cuda)
    throw NotAvailable(str("tf32: only cuda has it, and this is ", to_string(o.device)));
  if (o.captured && o.device.kind == DeviceKind::cpu)
    throw NotAvailable("captured steps: a graph needs a device that launches, and this is cpu");
}

struct ProductScope {
  explicit ProductScope(bool tf32) {
    if (tf32) set_matmul_precision(MatmulPrecision::high);
  }
  ~ProductScope() { set_matmul_precision(before); }
  const MatmulPrecision before = matmul_precision();
};

// What is repeated: the loop by hand, or where it needs loss scaling, 16-bit copies of the weights
// or a graph, TrainStep.
class Steps {
 public:
  Steps(StepModel& m, const StepOptions& o)
      : m_(m), precision_(dtype_of(o.precision)), recompute_(o.recompute) {
    if (precision_ != DType::f32 || o.captured)
      step_.emplace(
          m.net, *m.optimizer,
          TrainStepOptions{.precision = precision_, .clip_norm = m.clip, .graph = o.captured});
  }

  void operator()() {
    if (step_) {
      last_ = (*step_)(m_.batch, [&](const data::Batch& b) { return loss_of(b); });
      return;
    }
    Loss loss = loss_of(m_.batch);
    m_.optimizer->zero_grad();
    loss.backward();
    if (m_.clip > 0)
      m_.optimizer->step({.grad_factor = optim::clip_factor(*m_.optimizer, m_.clip)});
    else
      m_.optimizer->step();
  }

  // Throws where a step did not become a graph, or what the last one met.
  void check() {
    if (!step_) return;
    (void)last_.read();
    if (step_->graph() && !step_->why_eager().empty())
      throw NotAvailable("captured steps: " + step_->why_eager());
  }

  double loss_now() const {
    const NoGrad no_grad;
    if (precision_ == DType::f32) return m_.loss(m_.batch).item();
    const AutocastScope autocast(precision_);
    return m_.loss(m_.batch).item();
  }

 private:
  Loss loss_of(const data::Batch& b) const {
    const SaveScope saving(recompute_ ? SavePolicy::recompute : SavePolicy::keep);
    return m_.loss(b);
  }

  StepModel& m_;
  DType precision_;
  bool recompute_;
  std::optional<TrainStep> step_;
  StepResult last_;
};

// Microseconds of a step in each window; `calls` steps make one.
std::vector<double> time_windows(Steps& step, const StepOptions& o, i64& calls) {
  using Clock = std::chrono::steady_clock;
  const auto run = [&] {
    const auto start = Clock::now();
    for (i64 i = 0; i < calls; ++i) step();
    synchronize(o.device);
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  calls = 1;
  double took = run();
  for (; took < o.window_s / 8; took = run()) calls *= 2;
  calls = std::max<i64>(1, i64(double(calls) * o.window_s / took));
  std::vector<double> us;
  for (int w = 0; w < o.windows; ++w) us.push_back(run() * 1e6 / double(calls));
  return us;
}

}  // namespace

const std::vector<std::string>& step_bench_models() {
  static const std::vector<std::string> kNames{"gpt", "mlp_small", "charlm", "fashion"};
  return kNames;
}

Row training_step(const StepOptions& o) {
  check(o);
  const ProductScope products(o.precision == "tf32");
  StepModel m = make_step_model(o);
  memory::reset_peak(o.device);
  Steps step(m, o);
  for (int i = 0; i < m.check_steps; ++i) {
    step();
    if (i == 2) step.check();  // the third is the one that is captured
  }
  step.check();
  const double loss = step.loss_now();
  i64 calls = 0;
  Row r{.bench = o.model,
        .impl = str("warptape ", o.channels_last ? "channels_last " : "",
                    o.captured ? "captured" : "eager", o.recompute ? " recompute" : "")};
  r.shape = m.shape;
  r.dtype = o.precision;
  r.time = summarize(time_windows(step, o, calls));
  step.check();
  r.flops = m.flops;
  r.peak_bytes = memory::stats(o.device).peak;
  r.more = {{"check_loss", loss}, {"windows", double(o.windows)}, {"calls", double(calls)}};
  return r;
}

std::vector<Row> dispatch_rows(Device d) {
  std::vector<Row> rows;
  const Tensor one = ones({1}, {.device = d});
  const Tensor leaf = ones({1}, {.device = d, .requires_grad = true});
  Row r{.bench = "dispatch_add", .impl = "warptape", .shape = "1", .dtype = "f32"};
  const int calls = d.kind == DeviceKind::simt ? 200 : 20'000;
  r.time = time_issue(d, calls, [&](int) { const Tensor y = one + one; });
  rows.push_back(r);
  r.impl = "warptape, recorded";
  r.time = time_issue(d, calls, [&](int) { const Tensor y = leaf + one; });
  rows.push_back(r);
  return rows;
}

}  // namespace wt::bench
