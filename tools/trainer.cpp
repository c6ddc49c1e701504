#include "warptape/tools/trainer.h"

#include <chrono>
#include <cmath>
#include <cstdio>

#include "warptape/autograd/ops_dropout.h"
#include "warptape/autograd/ops_pointwise.h"
#include "warptape/autograd/ops_reduce.h"
#include "warptape/core/factories.h"
#include "warptape/core/json.h"
#include "warptape/core/memory.h"
#include "warptape/core/progress.h"
#include "warptape/core/random.h"
#include "warptape/nn/checkpoint.h"
#include "warptape/optim/optimizer.h"
#include "warptape/optim/schedule.h"
#include "warptape/tools/run_dir.h"
#include "warptape/tools/run_metrics.h"
#include "warptape/tools/run_report.h"
#include "warptape/tools/run_signals.h"
#include "warptape/version.h"

namespace wt::tools {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point t) {
  return std::chrono::duration<double>(Clock::now() - t).count();
}

std::string fixed(double v, int digits) {
  char b[40];
  std::snprintf(b, sizeof b, "%.*f", digits, v);
  return b;
}
std::string short_number(double v) {
  char b[40];
  std::snprintf(b, sizeof b, "%.3g", v);
  return b;
}
std::string bytes_text(i64 b) {
  return b < (10 << 20) ? str(b / 1024, " KiB") : str(b >> 20, " MiB");
}

NonFinite policy_of(const std::string& name) {
  return name == "skip" ? NonFinite::skip : name == "ignore" ? NonFinite::ignore : NonFinite::stop;
}

// 0-d i64 on the cpu, as checkpoints keep scalars.
nn::NamedTensor scalar(const std::string& name, i64 v) {
  return {name, tensor(v, {.dtype = DType::i64, .device = Device::cpu()})};
}

constexpr RandomStream kStreams[] = {RandomStream::init, RandomStream::dropout,
                                     RandomStream::shuffle, RandomStream::augment,
                                     RandomStream::user};
const char* stream_name(RandomStream s) {
  static constexpr const char* kNames[] = {"", "init", "dropout", "shuffle", "augment", "user"};
  return kNames[u32(s)];
}

class Trainer {
 public:
  explicit Trainer(const TrainOptions& o);
  int run();

 private:
  std::unique_ptr<optim::Optimizer> make_optimizer();
  void make_step();
  RunHeader header() const;
  void resume();
  void evaluate();
  void log_step(const StepResult& r, double rate);
  void save();
  void write_page();
  void print_summary();
  bool train_one(Progress& bar);
  double epoch_now() const;
  void dry_run();
  // Evaluating and saving are no training: counted, they would show as dips of the throughput.
  template <class F>
  void not_training(F&& f) {
    const Clock::time_point begin = Clock::now();
    f();
    const Clock::duration spent = Clock::now() - begin;
    logged_at_ += spent;
    start_ += spent;
  }
  std::vector<nn::NamedTensor> state() const;

  TrainOptions o_;
  Device device_;
  const RecipeInfo& info_;
  std::unique_ptr<Recipe> recipe_;
  Recipe::Defaults d_;
  i64 total_ = 0;  // steps
  i64 step_ = 0;   // done so far
  i64 last_saved_ = -1, last_eval_ = -1;
  std::unique_ptr<optim::Optimizer> opt_;
  std::unique_ptr<TrainStep> train_step_;
  std::optional<RunDirectory> run_;
  std::optional<MetricsWriter> metrics_;
  std::optional<EvalResult> eval_;
  std::optional<VariantScope> kernels_;
  double loss_ = NAN;
  Clock::time_point begin_ = Clock::now();                 // of the run
  Clock::time_point start_ = begin_, logged_at_ = start_;  // of training, moved on by what is none
  i64 logged_step_ = 0, first_step_ = 0;
  i64 batch_items_ = 0;
  i64 peak_ = 0;  // bytes during training steps (evaluations use larger batches)
  RunSignals signals_;
};

Trainer::Trainer(const TrainOptions& o)
    : o_(o), device_(Device::parse(o.device.c_str())), info_(find_recipe(o.recipe)) {
  require_available(device_);
  if (o.precision != "f32")
    throw NotAvailable(str("precision ", o.precision, " is not there yet: f32 only"));
  if (o.threads > 0) set_num_threads(o.threads);
  manual_seed(o.seed);
  const RecipeOptions ro{
      .data = o.data, .batch = o.batch, .seed = o.seed, .shapes_only = o.dry_run};
  if (o.dry_run) {
    const DefaultDevice meta(Device::meta(device_.kind));
    recipe_ = info_.make(ro);
  } else {
    recipe_ = info_.make(ro);
  }
  d_ = recipe_->defaults();
  if (o.lr > 0) d_.lr = o.lr;
  if (o.weight_decay >= 0) d_.weight_decay = o.weight_decay;
  if (o.clip >= 0) d_.clip = o.clip;
  batch_items_ = o.batch ? o.batch : d_.batch;
}

std::unique_ptr<optim::Optimizer> Trainer::make_optimizer() {
  if (o_.optimizer == "sgd")
    return std::make_unique<optim::Sgd>(
        recipe_->model(),
        optim::SgdOptions{.lr = d_.lr, .momentum = o_.momentum, .weight_decay = d_.weight_decay});
  return std::make_unique<optim::AdamW>(
      recipe_->model(), optim::AdamWOptions{.lr = d_.lr, .weight_decay = d_.weight_decay});
}

void Trainer::make_step() {
  recipe_->model().train();
  opt_ = make_optimizer();
  const i64 decay = std::max<i64>(1, total_ - d_.warmup);
  TrainStepOptions so;
  so.micro_batches = o_.micro_batches;
  so.clip_norm = d_.clip;
  so.schedule = d_.warmup > 0 ? optim::warmup(d_.warmup, optim::cosine(decay, 0.01))
                              : optim::cosine(decay, 0.01);
  so.graph = o_.graph;
  so.on_nonfinite = policy_of(o_.on_nan);
  train_step_ = std::make_unique<TrainStep>(recipe_->model(), *opt_, so);
}

double Trainer::epoch_now() const { return double(step_) / double(recipe_->batches_per_epoch()); }

RunHeader Trainer::header() const {
  RunHeader h{.version = WARPTAPE_VERSION_STRING,
              .recipe = o_.recipe,
              .device = to_string(device_),
              .seed = o_.seed,
              .options = {}};
  h.options = {{"batch", batch_items_},
               {"steps", total_},
               {"lr", d_.lr},
               {"optimizer", o_.optimizer},
               {"weight_decay", d_.weight_decay},
               {"clip_norm", d_.clip},
               {"warmup", d_.warmup},
               {"micro_batches", o_.micro_batches},
               {"precision", o_.precision},
               {"parameters", recipe_->model().parameter_count()}};
  if (!o_.data.empty()) h.options.emplace_back("data", o_.data);
  return h;
}

// --- checkpoints ---------------------------------------------------------------------------------

std::vector<nn::NamedTensor> Trainer::state() const {
  std::vector<nn::NamedTensor> all = nn::add_prefix(recipe_->model().state_dict(), "model.");
  for (nn::NamedTensor& t : opt_->state()) all.push_back(std::move(t));
  train_step_->sync_random();
  const Generator& g = generator();
  all.push_back(scalar("rng.seed", i64(g.seed())));
  all.push_back(scalar("rng.fork", i64(g.fork())));
  for (RandomStream s : kStreams)
    all.push_back(scalar(str("rng.", stream_name(s)), i64(g.calls(s))));
  const data::LoaderState l = recipe_->position();
  all.push_back(scalar("loader.epoch", l.epoch));
  all.push_back(scalar("loader.batch", l.batch));
  all.push_back(scalar("train.step", step_));
  return all;
}

void Trainer::save() {
  if (!run_ || last_saved_ == step_) return;
  metrics_->flush();  // records up to step k are on disk before checkpoint k exists
  nn::save_tensors(run_->checkpoint_path(step_), state(),
                   {{"format", "warptape.checkpoint.1"},
                    {"version", WARPTAPE_VERSION_STRING},
                    {"recipe", o_.recipe},
                    {"batch", std::to_string(batch_items_)},
                    {"steps", std::to_string(total_)},
                    {"optimizer", o_.optimizer}});
  run_->published(step_, o_.keep);
  last_saved_ = step_;
}

void Trainer::resume() {
  const std::optional<FoundCheckpoint> found = run_->newest_valid();
  if (!found) return;
  for (const std::string& why : found->rejected)
    std::fprintf(stderr, "not used: %s\n", why.c_str());
  const nn::LoadedTensors file = nn::load_tensors(found->checkpoint.path);
  const auto number = [&](const char* name) -> i64 {
    const Tensor* t = file.find(name);
    if (!t) throw DataError(str(found->checkpoint.path, ": has no ", name));
    return i64(t->item());
  };
  for (const auto& [key, value] : file.metadata) {
    const std::string mine = key == "recipe"      ? o_.recipe
                             : key == "batch"     ? std::to_string(batch_items_)
                             : key == "optimizer" ? o_.optimizer
                             : key == "steps"     ? std::to_string(total_)
                                                  : value;
    if (value != mine)
      throw UsageError(str("the run in ", o_.out, " was started with ", key, " ", value, ", not ",
                           mine, "\n  Try the same options, or another --out"));
  }
  recipe_->model().load_state_dict(nn::with_prefix(file.tensors, "model."));
  opt_->load_state(nn::add_prefix(nn::with_prefix(file.tensors, "optim."), "optim."));
  Generator g(u64(number("rng.seed")), u64(number("rng.fork")));
  for (RandomStream s : kStreams) g.set_calls(s, u64(number(str("rng.", stream_name(s)).c_str())));
  generator() = g;
  recipe_->set_position({number("loader.epoch"), number("loader.batch")});
  step_ = last_saved_ = number("train.step");
  std::fprintf(stderr, "resumed %s (step %lld of %lld)\n", found->checkpoint.path.c_str(),
               static_cast<long long>(step_), static_cast<long long>(total_));
}

// --- one step ------------------------------------------------------------------------------------

bool Trainer::train_one(Progress& bar) {
  data::Batch batch;
  if (!recipe_->next(batch) && !recipe_->next(batch)) throw DataError("the data has no batch");
  if (!o_.kernels.empty() && step_ >= o_.kernels_from && !kernels_) {
    const size_t colon = o_.kernels.find(':');
    if (colon == std::string::npos)
      throw UsageError(str("--kernel ", o_.kernels, " is not CONTRACT:VARIANT"));
    kernels_.emplace(o_.kernels.substr(0, colon), o_.kernels.substr(colon + 1));
  }
  const StepResult r =
      (*train_step_)(batch, [&](const data::Batch& b) { return recipe_->loss(b); });
  ++step_;
  peak_ = std::max(peak_, memory::stats(device_).peak);
  const i64 every = o_.log_every ? o_.log_every : std::max<i64>(1, total_ / 500);
  if (step_ % every == 0 || step_ == total_ || step_ == first_step_ + 1) {
    const double seconds = seconds_since(logged_at_);
    const double rate = double((step_ - logged_step_) * batch_items_) / std::max(seconds, 1e-9);
    logged_at_ = Clock::now();
    logged_step_ = step_;
    log_step(r, rate);
    bar.set_postfix(str("loss ", fixed(loss_, 4), " lr ", short_number(r.lr()), " |g| ",
                        short_number(r.grad_norm()), " mem ",
                        bytes_text(memory::stats(device_).live)));
  }
  bar.update();
  return step_ < total_;
}

void Trainer::log_step(const StepResult& r, double rate) {
  loss_ = r.loss();
  if (!metrics_) return;
  StepRecord record{.step = step_, .epoch = epoch_now(), .loss = loss_, .lr = r.lr()};
  if (!std::isnan(r.grad_norm())) record.grad_norm = r.grad_norm();
  record.items_per_second = rate;
  record.bytes = u64(memory::stats(device_).live);
  metrics_->log(record);
}

void Trainer::evaluate() {
  if (last_eval_ == step_) return;
  eval_ = recipe_->evaluate(device_);
  last_eval_ = step_;
  memory::reset_peak(device_);
  if (metrics_)
    metrics_->log(EvalRecord{.step = step_,
                             .epoch = epoch_now(),
                             .eval_loss = eval_->loss,
                             .accuracy = eval_->accuracy});
}

void Trainer::write_page() {
  if (!run_) return;
  ReportOptions ro;
  ro.title = o_.recipe + " on " + to_string(device_);
  ro.item = recipe_->item();
  if (const auto b = recipe_->baseline()) ro.baseline = ReportBaseline{b->label, b->loss};
  if (eval_) {
    ro.summary.emplace_back("held-out loss", fixed(eval_->loss, 4));
    if (eval_->accuracy)
      ro.summary.emplace_back("accuracy", fixed(100 * *eval_->accuracy, 2) + " %");
  }
  ro.summary.emplace_back("steps", str(step_, " of ", total_));
  ro.summary.emplace_back("peak memory", bytes_text(peak_));
  write_report(run_->report_path(), run_->metrics_path(), ro);
}

// --- the run -------------------------------------------------------------------------------------

int Trainer::run() {
  const i64 per_epoch = o_.dry_run ? 1 : recipe_->batches_per_epoch();
  total_ = o_.steps    ? o_.steps
           : o_.epochs ? o_.epochs * per_epoch
           : d_.steps  ? d_.steps
                       : d_.epochs * per_epoch;
  if (o_.dry_run) {
    dry_run();
    return 0;
  }
  if (!o_.out.empty()) run_.emplace(o_.out);
  recipe_->model().to(device_);
  make_step();
  if (run_ && o_.resume) resume();
  if (run_)
    metrics_.emplace(o_.resume ? MetricsWriter::resume(run_->metrics_path(), header(), last_saved_)
                               : MetricsWriter::create(run_->metrics_path(), header()));
  if (!o_.quiet) std::fputs(recipe_->model().summary().c_str(), stderr);
  first_step_ = logged_step_ = step_;
  const i64 eval_every = o_.eval_every ? o_.eval_every : std::max<i64>(1, total_ / d_.evals);
  const i64 save_every = o_.save_every ? o_.save_every : std::max<i64>(1, total_ / 10);
  if (step_ == 0) evaluate();
  if (!o_.quiet && eval_ && step_ == 0)
    std::fprintf(stderr, "before step 1: held-out loss %.4f\n", eval_->loss);
  {
    Progress bar({.desc = o_.recipe, .total = total_, .unit = "step", .disable = o_.quiet});
    if (step_ > 0) bar.update(step_);
    begin_ = start_ = logged_at_ = Clock::now();
    while (step_ < total_ && !signals_.stop_requested()) {
      const bool more = train_one(bar);
      if (step_ % eval_every == 0 || !more) {
        not_training([&] { evaluate(); });
        if (!o_.quiet)
          bar.write(
              str("step ", step_, "  train loss ", fixed(loss_, 4), "  held-out loss ",
                  fixed(eval_->loss, 4),
                  eval_->accuracy ? "  accuracy " + fixed(100 * *eval_->accuracy, 2) + " %" : ""));
      }
      if (step_ % save_every == 0 || !more || signals_.take_checkpoint_request())
        not_training([&] { save(); });
    }
  }
  not_training([&] {
    save();
    write_page();
  });
  print_summary();
  if (signals_.stop_requested())
    std::fprintf(stderr, "interrupted after step %lld; %s\n", static_cast<long long>(step_),
                 run_ ? "the checkpoint is written, go on with --resume auto" : "nothing was kept");
  return signals_.exit_code();
}

void Trainer::print_summary() {
  const double seconds = seconds_since(begin_), training = seconds_since(start_);
  if (const auto b = recipe_->baseline(); b && eval_ && !o_.quiet)
    std::fprintf(stderr, "held-out loss %.4f nats, %s %.4f nats\n", eval_->loss, b->label.c_str(),
                 b->loss);
  JsonObject j;
  j.add("recipe", o_.recipe);
  j.add("device", to_string(device_));
  j.add("precision", o_.precision);
  j.add("seed", o_.seed);
  j.add("steps", step_);
  j.add("epochs", epoch_now());
  if (std::isnan(loss_))
    j.add_null("train_loss");
  else
    j.add("train_loss", loss_);
  if (eval_)
    j.add("eval_loss", eval_->loss);
  else
    j.add_null("eval_loss");
  if (eval_ && eval_->accuracy)
    j.add("accuracy", *eval_->accuracy);
  else
    j.add_null("accuracy");
  j.add("seconds", seconds);
  j.add("items_per_second",
        double((step_ - first_step_) * batch_items_) / std::max(training, 1e-9));
  j.add("peak_bytes", peak_);
  j.add("skipped_steps", opt_ ? opt_->attempted() - opt_->applied() : 0);
  if (run_)
    j.add("checkpoint", run_->checkpoint_path(step_));
  else
    j.add_null("checkpoint");
  std::printf("%s\n", j.str().c_str());
  std::fflush(stdout);
}

// Shapes only: the model, its optimizer and three steps on the meta device.
void Trainer::dry_run() {
  const Device meta = Device::meta(device_.kind);
  make_step();
  memory::reset_peak(meta);
  const data::Batch b = recipe_->shape_batch();
  for (int i = 0; i < 3; ++i)
    (*train_step_)(b, [&](const data::Batch& part) { return recipe_->loss(part); });
  const memory::Stats s = memory::stats(meta);
  i64 peak = s.peak;
  if (device_.kind == DeviceKind::cpu) peak += recipe_->dataset_bytes();
  std::fputs(recipe_->model().summary().c_str(), stderr);
  JsonObject by;
  for (int c = 0; c < kNumCategories; ++c)
    if (s.peak_by_category[c]) by.add(category_name(Category(c)), s.peak_by_category[c]);
  JsonObject j;
  j.add("recipe", o_.recipe);
  j.add("device", to_string(device_));
  j.add("precision", o_.precision);
  j.add("batch", batch_items_);
  j.add("predicted_bytes", peak);
  j.add_null("measured_bytes");
  j.add_raw("categories", by.str());
  std::printf("%s\n", j.str().c_str());
}

}  // namespace

int train(const TrainOptions& options) { return Trainer(options).run(); }

}  // namespace wt::tools
