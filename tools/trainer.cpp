#include "warptape/tools/trainer.h"

#include <chrono>
#include <cmath>
#include <cstdio>

#include "warptape/core/json.h"
#include "warptape/core/memory.h"
#include "warptape/core/progress.h"
#include "warptape/core/random.h"
#include "warptape/kernels/run.h"
#include "warptape/tools/dry_run.h"
#include "warptape/tools/evaluation.h"
#include "warptape/tools/generate.h"
#include "warptape/tools/optimizers.h"
#include "warptape/tools/run_output.h"
#include "warptape/tools/run_signals.h"
#include "warptape/tools/std_output.h"
#include "warptape/tools/training.h"
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
std::string percent(double part) { return fixed(100 * part, 2) + " %"; }

// What the trainer itself counts; the checkpoint keeps it.
struct Counters {
  i64 step = 0;       // done so far
  i64 best_step = 0;  // of the best evaluation; 0: none yet
  i64 worse = 0;      // evaluations since then
  double best = NAN;  // what `monitor` names
};

class Trainer {
 public:
  explicit Trainer(const TrainOptions& o);
  int run();

 private:
  void load_data();
  nn::Metadata metadata() const;
  RunHeader header() const;
  void begin_output();
  void resume(const nn::LoadedTensors& file);
  std::vector<nn::NamedTensor> state();
  bool train_one(Progress& bar);
  void use_kernels();
  void log_step(const StepResult& r, double rate);
  void measure_held_out();
  void evaluate();
  void judge();
  void save();
  void loop();
  void keep_what_there_is(bool no_output) noexcept;
  ReportOptions report() const;
  void write_sample();
  void print_summary() const;
  void print_doubts() const;
  double epoch_now() const { return double(c_.step) / double(loader_->size()); }
  double monitored() const { return o_.monitor == "loss" ? eval_->loss : eval_->accuracy; }
  bool out_of_patience() const { return o_.patience > 0 && c_.worse >= o_.patience; }
  // Evaluating and saving are no training: counted, they would show as dips of the throughput.
  template <class F>
  void not_training(F&& f) {
    const Clock::time_point begin = Clock::now();
    f();
    const Clock::duration spent = Clock::now() - begin;
    logged_at_ += spent;
    start_ += spent;
  }

  TrainOptions o_;
  Device device_;
  std::unique_ptr<Recipe> recipe_;
  RecipeDefaults d_;
  std::optional<RecipeData> data_;
  std::optional<data::Loader<data::AnyDataset>> loader_;
  i64 total_ = 0;  // steps
  Counters c_;
  std::unique_ptr<Training> training_;
  std::optional<RunOutput> out_;
  std::optional<EvalResult> eval_;
  std::optional<VariantScope> kernels_;
  std::string sample_;
  double loss_ = NAN;
  i64 last_saved_ = -1, last_eval_ = -1;
  Clock::time_point begin_ = Clock::now();                 // of the run
  Clock::time_point start_ = begin_, logged_at_ = start_;  // of training, moved on by what is none
  i64 logged_step_ = 0, first_step_ = 0;
  i64 peak_ = 0;  // bytes during training steps (evaluations use larger batches)
  RunSignals signals_;
};

Trainer::Trainer(const TrainOptions& o)
    : o_(o), device_(Device::parse(o.device.c_str())), recipe_() {
  require_available(device_);
  if (o.precision != "f32")
    throw NotAvailable(str("precision ", o.precision, " is not there yet: f32 only"));
  if (o.threads > 0) set_num_threads(o.threads);
  manual_seed(o.seed);
  recipe_ = find_recipe(o.recipe).make(Settings(o.set));
  d_ = resolve(o, *recipe_);
}

void Trainer::load_data() {
  data_.emplace(recipe_->load(o_.data));
  check_samples(o_.data, "training", data_->train.size());
  check_samples(o_.data, "held-out", data_->held_out.size());
  loader_.emplace(make_loader(d_, *data_, o_.seed, o_.workers));
  total_ = o_.steps    ? o_.steps
           : o_.epochs ? o_.epochs * loader_->size()
           : d_.steps  ? d_.steps
                       : d_.epochs * loader_->size();
}

// --- what is kept --------------------------------------------------------------------------------

// All that a run which goes on must have in common with its beginning. What optimizer and schedule
// keep in the checkpoint would win over a new value, the rest of the step would take it: a mixture.
nn::Metadata Trainer::metadata() const {
  nn::Metadata m{{"recipe", o_.recipe},
                 {"set", recipe_->settings()},
                 {"data", o_.data},
                 {"batch", std::to_string(d_.batch)},
                 {"micro_batches", std::to_string(o_.micro_batches)},
                 {"steps", std::to_string(total_)},
                 {"seed", std::to_string(o_.seed)},
                 {"optimizer", o_.optimizer},
                 {"lr", json_number(d_.lr)},
                 {"weight_decay", json_number(d_.weight_decay)},
                 {"clip_norm", json_number(d_.clip)},
                 {"schedule", o_.schedule},
                 {"warmup", std::to_string(d_.warmup)},
                 {"monitor", o_.monitor},
                 {"ema", json_number(o_.ema)}};
  if (find_optimizer(o_.optimizer).momentum) m.emplace_back("momentum", json_number(o_.momentum));
  return m;
}

RunHeader Trainer::header() const {
  RunHeader h{.version = WARPTAPE_VERSION_STRING,
              .recipe = o_.recipe,
              .device = to_string(device_),
              .seed = o_.seed,
              .options = {}};
  h.options = {{"batch", d_.batch},
               {"steps", total_},
               {"lr", d_.lr},
               {"optimizer", o_.optimizer},
               {"schedule", o_.schedule},
               {"weight_decay", d_.weight_decay},
               {"clip_norm", d_.clip},
               {"warmup", d_.warmup},
               {"micro_batches", o_.micro_batches},
               {"precision", o_.precision},
               {"set", recipe_->settings()},
               {"parameters", recipe_->model().parameter_count()}};
  if (o_.ema > 0) h.options.emplace_back("ema", o_.ema);
  if (!o_.data.empty()) h.options.emplace_back("data", o_.data);
  return h;
}

std::vector<nn::NamedTensor> Trainer::state() {
  std::vector<nn::NamedTensor> all = training_->state();
  const data::LoaderState at = loader_->state();
  all.push_back(named_number("loader.epoch", at.epoch));
  all.push_back(named_number("loader.batch", at.batch));
  all.push_back(named_number("train.step", c_.step));
  all.push_back(named_number("train.best_step", c_.best_step));
  all.push_back(named_number("train.worse", c_.worse));
  all.push_back(named_number("train.best", c_.best));
  return all;
}

void Trainer::resume(const nn::LoadedTensors& file) {
  const std::vector<nn::NamedTensor>& t = file.tensors;
  const Counters c{.step = integer_of(t, "train.step"),
                   .best_step = integer_of(t, "train.best_step"),
                   .worse = integer_of(t, "train.worse"),
                   .best = number_of(t, "train.best")};
  const data::LoaderState at{integer_of(t, "loader.epoch"), integer_of(t, "loader.batch")};
  training_->load_state(t);
  loader_->set_state(at);
  c_ = c;
  last_saved_ = c.step;
}

void Trainer::begin_output() {
  if (!out_) return;
  std::optional<nn::LoadedTensors> file;
  if (o_.resume && (file = out_->resume())) resume(*file);
  out_->begin(header(), o_.resume ? std::optional(last_saved_) : std::nullopt);
}

void Trainer::save() {
  if (!out_ || last_saved_ == c_.step) return;
  out_->save(c_.step, state(), o_.keep);
  last_saved_ = c_.step;
}

// --- one step ------------------------------------------------------------------------------------

void Trainer::use_kernels() {
  if (o_.kernels.empty() || c_.step < o_.kernels_from || kernels_) return;
  const size_t colon = o_.kernels.find(':');
  if (colon == std::string::npos)
    throw UsageError(str("--kernel ", o_.kernels, " is not CONTRACT:VARIANT"));
  kernels_.emplace(o_.kernels.substr(0, colon), o_.kernels.substr(colon + 1));
}

bool Trainer::train_one(Progress& bar) {
  const data::LoaderState before = loader_->state();
  data::Batch batch;
  if (!loader_->next(batch) && !loader_->next(batch)) throw DataError("the data has no batch");
  use_kernels();
  StepResult r;
  try {
    r = training_->step(batch);
  } catch (...) {
    loader_->set_state(before);  // the step has not been: its batch is still to come
    throw;
  }
  ++c_.step;
  peak_ = std::max(peak_, memory::stats(device_).peak);
  const i64 every = o_.log_every ? o_.log_every : std::max<i64>(1, total_ / 500);
  if (c_.step % every == 0 || c_.step == total_ || c_.step == first_step_ + 1) {
    const double seconds = std::max(seconds_since(logged_at_), 1e-9);
    log_step(r, double(c_.step - logged_step_) / seconds);
    logged_at_ = Clock::now();
    logged_step_ = c_.step;
    bar.set_postfix(str("loss ", fixed(loss_, 4), " lr ", short_number(r.lr()), " |g| ",
                        short_number(r.grad_norm()), " mem ",
                        bytes_text(memory::stats(device_).live)));
  }
  bar.update();
  return c_.step < total_;
}

// rate: steps a second
void Trainer::log_step(const StepResult& r, double rate) {
  loss_ = r.loss();
  if (!out_) return;
  StepRecord record{.step = c_.step, .epoch = epoch_now(), .loss = loss_, .lr = r.lr()};
  if (!std::isnan(r.grad_norm())) record.grad_norm = r.grad_norm();
  record.items_per_second = rate * double(d_.batch * recipe_->items_per_sample());
  record.bytes = u64(memory::stats(device_).live);
  out_->log(record, 1e3 / rate);
}

// --- evaluation ----------------------------------------------------------------------------------

// By the average of the weights, where there is one.
void Trainer::measure_held_out() {
  std::optional<optim::EmaScope> averaged;
  if (o_.ema > 0) averaged.emplace(training_->optimizer());
  eval_ = tools::evaluate(*recipe_, data_->held_out);
}

void Trainer::evaluate() {
  if (last_eval_ == c_.step) return;
  measure_held_out();
  last_eval_ = c_.step;
  memory::reset_peak(device_);
  if (out_)
    out_->log(EvalRecord{.step = c_.step,
                         .epoch = epoch_now(),
                         .eval_loss = eval_->loss,
                         .accuracy = eval_->accuracy});
}

// What follows from an evaluation.
void Trainer::judge() {
  const double now = monitored();
  training_->evaluated(now);
  // A model whose loss is no number is never the best, whatever it guesses right.
  const bool counts = std::isfinite(eval_->loss);
  const bool first = c_.best_step == 0 || std::isnan(c_.best);
  const bool better = counts && (first || (o_.monitor == "loss" ? now < c_.best : now > c_.best));
  if (!better) {
    ++c_.worse;
    return;
  }
  c_.best = now;
  c_.best_step = c_.step;
  c_.worse = 0;
  if (out_) out_->save_best(state());
}

ReportOptions Trainer::report() const {
  ReportOptions ro;
  ro.title = o_.recipe + " on " + to_string(device_);
  ro.item = recipe_->item();
  if (const auto& b = data_->baseline) ro.baseline = ReportBaseline{b->label, b->loss};
  if (eval_) {
    ro.summary.emplace_back("held-out loss", fixed(eval_->loss, 4));
    ro.summary.emplace_back("accuracy", percent(eval_->accuracy));
  }
  if (c_.best_step > 0)
    ro.summary.emplace_back("best " + o_.monitor,
                            (o_.monitor == "loss" ? fixed(c_.best, 4) : percent(c_.best)) +
                                " at step " + std::to_string(c_.best_step));
  if (c_.best_step > 0) ro.best_step = c_.best_step;
  if (eval_ && eval_->confusion) add_classes(ro, *eval_->confusion, recipe_->class_names());
  if (!sample_.empty()) ro.samples.push_back({"after step " + std::to_string(c_.step), sample_});
  ro.summary.emplace_back("steps", str(c_.step, " of ", total_));
  ro.summary.emplace_back("peak memory", bytes_text(peak_));
  return ro;
}

void Trainer::write_sample() {
  if (recipe_->context() == 0 || o_.sample <= 0 || !out_ || signals_.stop_requested()) return;
  std::optional<optim::EmaScope> averaged;
  if (o_.ema > 0) averaged.emplace(training_->optimizer());
  sample_ = generate(*recipe_, {.bytes = o_.sample, .seed = o_.seed},
                     [&](char) { return !signals_.stop_requested(); });
  if (!o_.quiet) std::fprintf(stderr, "--- sampled text\n%s\n---\n", sample_.c_str());
}

// --- the run -------------------------------------------------------------------------------------

void Trainer::loop() {
  const i64 eval_every = o_.eval_every ? o_.eval_every : std::max<i64>(1, total_ / d_.evals);
  const i64 save_every = o_.save_every ? o_.save_every : std::max<i64>(1, total_ / 10);
  Progress bar({.desc = o_.recipe,
                .total = total_,
                .unit = "step",
                .disable = o_.quiet,
                .initial = c_.step});
  begin_ = start_ = logged_at_ = Clock::now();
  bool more = c_.step < total_ && !out_of_patience();
  while (more && !signals_.stop_requested()) {
    more = train_one(bar);
    if (c_.step % eval_every == 0 || !more) {
      not_training([&] {
        evaluate();
        judge();
      });
      if (!o_.quiet)
        bar.write(str("step ", c_.step, "  train loss ", fixed(loss_, 4), "  held-out loss ",
                      fixed(eval_->loss, 4), "  accuracy ", percent(eval_->accuracy),
                      c_.best_step == c_.step ? "  best" : ""));
      more = more && !out_of_patience();
    }
    if (c_.step % save_every == 0 || !more || signals_.take_checkpoint_request())
      not_training([&] { save(); });
  }
}

// A step that throws has changed nothing: what was trained before it is whole. no_output: the run
// ends because it cannot write, which its caller says.
void Trainer::keep_what_there_is(bool no_output) noexcept try {
  if (!out_ || c_.step == first_step_) return;
  save();
  out_->write_report(report());
  end_progress_line();
  std::fprintf(stderr, "after step %lld; its checkpoint and the report are written\n",
               static_cast<long long>(c_.step));
} catch (const std::exception& e) {
  std::fprintf(stderr, "nothing was saved after step %lld%s%s\n", static_cast<long long>(c_.step),
               no_output ? "" : ": ", no_output ? "" : e.what());
}

int Trainer::run() {
  check_convolutions(*recipe_, device_);
  load_data();
  if (!o_.out.empty()) out_.emplace(o_.out, metadata());
  recipe_->model().to(device_);
  training_ = std::make_unique<Training>(o_, d_, *recipe_, total_);
  begin_output();
  if (!o_.quiet) std::fputs(recipe_->model().summary().c_str(), stderr);
  first_step_ = logged_step_ = c_.step;
  if (c_.step > 0)
    std::fprintf(stderr, "going on at step %lld of %lld\n", static_cast<long long>(c_.step),
                 static_cast<long long>(total_));
  else
    evaluate();
  if (!o_.quiet && c_.step == 0)
    std::fprintf(stderr, "before step 1: held-out loss %.4f\n", eval_->loss);
  try {
    loop();
  } catch (const CheckpointError&) {
    keep_what_there_is(true);
    throw;
  } catch (...) {
    keep_what_there_is(false);
    throw;
  }
  not_training([&] {
    save();
    // A run that was over when it was resumed: its metrics have this, the report and summary not.
    if (!eval_ && !signals_.stop_requested()) measure_held_out();
    write_sample();
    if (out_) out_->write_report(report());
  });
  print_doubts();
  print_summary();
  if (signals_.stop_requested())
    std::fprintf(stderr, "interrupted after step %lld; %s\n", static_cast<long long>(c_.step),
                 out_ ? "the checkpoint is written, go on with --resume auto" : "nothing was kept");
  else if (out_of_patience() && !o_.quiet)
    std::fprintf(stderr, "stopped after step %lld: no better %s for %lld evaluations\n",
                 static_cast<long long>(c_.step), o_.monitor.c_str(),
                 static_cast<long long>(c_.worse));
  return signals_.exit_code();
}

// What else would look like a success, --quiet or not.
void Trainer::print_doubts() const {
  if (c_.step > first_step_ && !std::isfinite(loss_))
    std::fprintf(stderr, "the last training loss is not finite (%g)\n", loss_);
  if (eval_ && !std::isfinite(eval_->loss))
    std::fprintf(stderr, "the held-out loss is not finite (%g)\n", eval_->loss);
  const i64 tried = training_->optimizer().attempted();
  if (const i64 skipped = tried - training_->optimizer().applied())
    std::fprintf(stderr, "%lld of %lld steps were skipped: loss or gradient was not finite\n",
                 static_cast<long long>(skipped), static_cast<long long>(tried));
}

void Trainer::print_summary() const {
  const double seconds = seconds_since(begin_), training = seconds_since(start_);
  if (const auto& b = data_->baseline; b && eval_ && !o_.quiet)
    std::fprintf(stderr, "held-out loss %.4f nats, %s %.4f nats\n", eval_->loss, b->label.c_str(),
                 b->loss);
  JsonObject j;
  const auto add = [&](const char* key, bool known, double v) {
    if (known)
      j.add(key, v);
    else
      j.add_null(key);
  };
  j.add("recipe", o_.recipe);
  j.add("device", to_string(device_));
  j.add("precision", o_.precision);
  j.add("seed", o_.seed);
  j.add("steps", c_.step);
  j.add("epochs", epoch_now());
  add("train_loss", !std::isnan(loss_), loss_);
  add("eval_loss", eval_.has_value(), eval_ ? eval_->loss : 0);
  add("accuracy", eval_.has_value(), eval_ ? eval_->accuracy : 0);
  j.add("seconds", seconds);
  const double items = double((c_.step - first_step_) * d_.batch * recipe_->items_per_sample());
  j.add("items_per_second", items / std::max(training, 1e-9));
  j.add("peak_bytes", peak_);
  j.add("skipped_steps", training_->optimizer().attempted() - training_->optimizer().applied());
  if (out_)
    j.add("checkpoint", out_->checkpoint_path(c_.step));
  else
    j.add_null("checkpoint");
  std::printf("%s\n", j.str().c_str());
  flush_stdout();
}

}  // namespace

int train(const TrainOptions& options) {
  if (!options.dry_run) return Trainer(options).run();
  dry_run(options);
  return 0;
}

}  // namespace wt::tools
