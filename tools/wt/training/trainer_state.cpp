// What a run keeps of itself, and how it goes on from that.
#include <cstdio>

#include "warptape/core/files/json.h"
#include "warptape/core/input_file.h"
#include "warptape/dist/share.h"
#include "warptape/tools/wt/training/nan_report.h"
#include "warptape/tools/wt/training/optimizers.h"
#include "warptape/tools/wt/training/trained_model.h"
#include "warptape/tools/wt/training/trainer.h"
#include "warptape/version.h"

namespace wt::tools {
namespace {

// A file that is no checkpoint of ours is of no step.
i64 step_of(const std::optional<nn::LoadedTensors>& file) {
  try {
    return file ? integer_of(file->tensors, "train.step") : 0;
  } catch (const DataError&) {
    return 0;
  }
}

}  // namespace

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
                 {"precision", o_.precision},
                 {"optimizer", o_.optimizer},
                 {"lr", json_number(d_.lr)},
                 {"weight_decay", json_number(d_.weight_decay)},
                 {"clip_norm", json_number(d_.clip)},
                 {"schedule", d_.schedule},
                 {"warmup", std::to_string(d_.warmup)},
                 {"monitor", o_.monitor},
                 {"ema", json_number(o_.ema)},
                 {"init_from", o_.init_from.empty() ? "nothing" : o_.init_from}};
  if (find_optimizer(o_.optimizer).momentum) m.emplace_back("momentum", json_number(o_.momentum));
  for (auto& kept : recipe_->kept()) m.push_back(std::move(kept));
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
               {"schedule", d_.schedule},
               {"weight_decay", d_.weight_decay},
               {"clip_norm", d_.clip},
               {"warmup", d_.warmup},
               {"micro_batches", o_.micro_batches},
               {"precision", o_.precision},
               {"set", recipe_->settings()},
               {"ranks", ranks_.size()},
               {"parameters", recipe_->model().parameter_count()}};
  if (gathers_state()) h.options.emplace_back("zero", o_.zero);
  if (o_.ema > 0) h.options.emplace_back("ema", o_.ema);
  if (!o_.data.empty()) h.options.emplace_back("data", o_.data);
  if (!o_.init_from.empty()) h.options.emplace_back("init_from", o_.init_from);
  return h;
}

std::vector<nn::NamedTensor> Trainer::state(const Counters& c) {
  std::vector<nn::NamedTensor> all = training_->state(out_.has_value());
  const data::LoaderState at = loader_->state();
  all.push_back(named_number("loader.epoch", at.epoch));
  all.push_back(named_number("loader.batch", at.batch));
  all.push_back(named_number("loader.samples", at.samples));
  all.push_back(named_number("train.step", c.step));
  all.push_back(named_number("train.best_step", c.best_step));
  all.push_back(named_number("train.worse", c.worse));
  all.push_back(named_number("train.best", c.best));
  all.push_back(named_number("train.due", i64{c.due}));
  // Without it evaluations take all samples, as those did that knew no part.
  if (eval_sample().is_part())
    all.push_back(named_number("train.eval_samples", eval_sample().taken));
  return all;
}

// A run that goes on keeps what it began with.
void Trainer::choose_eval_samples() {
  const i64 rounds = recipe_->rounds().rounds, all = data_->held_out.size();
  const i64 taken = o_.eval_batches >= 0
                        ? samples_of_batches(o_.eval_batches, d_.eval_batch, all)
                        : affordable_samples({.steps = total_,
                                              .batch = d_.batch,
                                              .every = eval_every_,
                                              .rounds = total_ > rounds ? rounds : 0,
                                              .cost = recipe_->eval_cost()});
  judged_ = sample_of(data_->held_out, taken);
}

// --- going on ---

void Trainer::resume(const nn::LoadedTensors& file) {
  const std::vector<nn::NamedTensor>& t = file.tensors;
  // Bounds are what a run can reach: what lies outside would end in an endless loop or overflow.
  const i64 step = integer_of(t, "train.step", 0, total_);
  const Counters c{.step = step,
                   .best_step = integer_of(t, "train.best_step", 0, step),
                   .worse = integer_of(t, "train.worse", 0, step),
                   .best = number_of(t, "train.best"),
                   .due = file.find("train.due") && integer_of(t, "train.due", 0, 1) == 1};
  data::LoaderState at{integer_of(t, "loader.epoch", 0, step),
                       integer_of(t, "loader.batch", 0, step)};
  if (file.find("loader.samples")) at.samples = integer_of(t, "loader.samples");
  integer_of(t, "optim.attempted", 0, step);
  const i64 all = data_->held_out.size();
  const i64 judged =
      file.find("train.eval_samples") ? integer_of(t, "train.eval_samples", 1, all) : all;
  training_->load_state(t);
  loader_->set_state(at);
  judged_ = sample_of(data_->held_out, judged);
  c_ = c;
  last_saved_ = c.due ? -1 : c.step;
}

// best.safetensors must be what the state says: it may be gone or damaged, or was never written.
void Trainer::repair_best(const nn::LoadedTensors& resumed) {
  if (c_.best_step == 0) return;
  const std::optional<nn::LoadedTensors> there = out_->best();
  const i64 step = step_of(there);
  if (step >= c_.best_step) return;  // a later one is this run's, from before it was killed
  std::optional<nn::LoadedTensors> kept;
  if (c_.best_step < c_.step) kept = out_->at(c_.best_step);
  if (c_.best_step == c_.step || kept) {
    std::fprintf(stderr, "the best checkpoint, of step %lld, is written anew\n",
                 static_cast<long long>(c_.best_step));
    if (write([&] { out_->save_best((kept ? *kept : resumed).tensors); })) return;
  }
  std::fprintf(stderr, "the best checkpoint, of step %lld, is gone\n",
               static_cast<long long>(c_.best_step));
  c_.best_step = step;
  c_.best = step > 0 ? number_of(there->tensors, "train.best") : NAN;
}

bool Trainer::best_is_of_this_step() const { return step_of(out_->best()) == c_.step; }

void Trainer::begin_weights() {
  if (o_.init_from.empty()) return recipe_->begin(data_->train);
  const std::string file = load_initial_weights(*recipe_, o_.init_from);
  if (!o_.quiet) std::fprintf(stderr, "the weights of %s\n", printable_path(file).c_str());
}

// Rank 0 reads it for all: the others need not see the folder.
std::optional<ResumedCheckpoint> Trainer::resumed_checkpoint() {
  if (o_.out.empty() || !o_.resume) return {};
  std::optional<ResumedCheckpoint> file;
  if (out_) file = out_->resume();
  if (ranks_.size() == 1) return file;
  const std::string path = dist::share_text(ranks_, file ? file->path : "");
  if (path.empty()) return {};
  std::vector<nn::NamedTensor> tensors;
  if (file) tensors = std::move(file->tensors);
  return ResumedCheckpoint{{dist::share_tensors(ranks_, tensors), {}}, path};
}

// From the checkpoint of a run that goes on, else from other weights, else from random ones.
void Trainer::begin() {
  const std::optional<ResumedCheckpoint> file = resumed_checkpoint();
  if (!file) begin_weights();
  recipe_->model().to(device_);
  training_ = std::make_unique<RecipeTraining>(
      o_, d_, *recipe_, total_, [this](const wt::StepRecord& r) { remember_refused(r); }, &ranks_);
  const EvalSample asked = eval_sample();
  if (file) from_file(file->path, [&] { resume(*file); });
  if (o_.eval_batches >= 0 && asked.taken != eval_sample().taken)
    throw UsageError(str("the run in ", printable_path(o_.out), " was started with evaluations on ",
                         sample_text(eval_sample()), " held-out samples, not on ",
                         sample_text(asked), "\n  Try without --eval-batches"));
  if (!out_) return;
  const i64 after = file ? c_.step : -1;
  out_->begin(header(), o_.resume ? std::optional(after) : std::nullopt, !c_.due);
  if (file) repair_best(*file);
}

void Trainer::save() {
  if (!agreed(out_ && last_saved_ != c_.step)) return;
  const std::vector<nn::NamedTensor> all = state(c_);
  if (!out_) return;
  out_->save(c_.step, all, o_.keep);
  last_saved_ = c_.step;
}

// --- when something goes wrong ---

void Trainer::could_not_write(const CheckpointError& e) {
  ++failed_writes_;
  if (!said_.insert(e.what()).second) return;  // a full disk fails at every step
  end_progress_line();
  std::fprintf(stderr, "%s\n  training goes on\n", printable_lines(e.what()).c_str());
}

void Trainer::remember_refused(const wt::StepRecord& r) {
  refused_ = RefusedStep{.loss = r.loss, .grad_norm = r.grad_norm, .gradients = {}};
  if (o_.zero == 2 && ranks_.size() > 1) return;  // no rank has them
  for (const nn::NamedTensor& p : training_->optimizer().parameters())
    if (const Tensor g = p.tensor.grad(); g.defined()) refused_->gradients.add(p.name, g);
}

// After the step was rolled back: model and random state are as before it. batch: null if unknown.
void Trainer::report_non_finite(const NumericError& e, const data::Batch* batch) noexcept try {
  if (!out_ || std::exchange(nan_reported_, true)) return;
  const data::LoaderState at = loader_->state();
  NanReport r{.step = c_.step + 1,
              .epoch = at.epoch,
              .batch = at.batch,
              .seed = o_.seed,
              .recipe = o_.recipe,
              .device = to_string(device_),
              .error = e.what(),
              .lr = training_->optimizer().rate(),
              .last_loss = loss_};
  r.refused = refused_;
  if (batch) r.inputs = finite_census({{"x", batch->x}, {"y", batch->y}});
  r.parameters = finite_census(recipe_->model().named_parameters());
  r.buffers = finite_census(buffers_of(recipe_->model()));
  out_->write_nan_report(r);
  end_progress_line();
  std::fprintf(stderr, "nan-report.json says what was not finite: first %s\n",
               first_non_finite(r).c_str());
} catch (const std::exception& problem) {  // the reason of the end is the other one
  std::fprintf(stderr, "no nan-report.json: %s\n", printable_lines(problem.what()).c_str());
}

// A rank that leaves with an error ends the calls of those that have not got all of its part yet.
void Trainer::wait_for_the_others() noexcept try {
  ranks_.control().barrier();
} catch (const PeerFailure&) {}  // they had it, and have left

// A step that throws has changed nothing: what was trained before it is whole. Ranks whose state is
// in parts must all have come here: alike. no_output: the run ends because it cannot write, which
// its caller says.
void Trainer::keep_what_there_is(End end) noexcept try {
  if (c_.step == first_step_) return;
  if (gathers_state() && end != End::alike) {
    if (!out_) return;
    out_->write_report(report());
    end_progress_line();
    std::fprintf(
        stderr,
        "nothing was saved after step %lld: with --zero the optimizer's state is in parts, "
        "of which this is one%s\n",
        static_cast<long long>(c_.step),
        last_saved_ > 0 ? str("; the checkpoint of step ", last_saved_, " is there").c_str() : "");
    return;
  }
  if (!gathers_state() && !out_) return;
  save();
  if (gathers_state()) wait_for_the_others();
  if (!out_) return;
  out_->write_report(report());
  end_progress_line();
  std::fprintf(stderr, "after step %lld; its checkpoint and the report are written\n",
               static_cast<long long>(c_.step));
} catch (const std::exception& e) {
  if (!out_) return;
  const bool said = end == End::no_output;
  std::fprintf(stderr, "nothing was saved after step %lld%s%s\n", static_cast<long long>(c_.step),
               said ? "" : ": ", said ? "" : printable_lines(e.what()).c_str());
}

}  // namespace wt::tools
