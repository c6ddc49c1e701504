// The run of `wt train`.
#include "warptape/tools/wt/training/train.h"

#include <chrono>
#include <cmath>
#include <cstdio>

#include "warptape/core/files/json.h"
#include "warptape/core/input_file.h"
#include "warptape/core/memory.h"
#include "warptape/core/random.h"
#include "warptape/core/stream.h"
#include "warptape/tools/wt/measure/memory_remedies.h"
#include "warptape/tools/wt/number_text.h"
#include "warptape/tools/wt/recipes/recipe_device.h"
#include "warptape/tools/wt/training/dry_run.h"
#include "warptape/tools/wt/training/trainer.h"

namespace wt::tools {

namespace {

// Where the run is kept, its checkpoints name these, in safetensors' metadata, which has no other
// texts: said now and not by the first save.
void check_kept(const char* option, const std::string& value) {
  if (is_utf8(value)) return;
  throw UsageError(str(option, " ", printable_path(value), " is not UTF-8, as what the run's ",
                       "checkpoints keep of it must be\n  Try another name, or a symbolic link"));
}

}  // namespace

Trainer::Trainer(const TrainOptions& o, dist::Communicator& ranks)
    : o_(o), ranks_(ranks), signals_(ranks) {
  if (!is_first()) o_.quiet = true, o_.curve = false;
  if (!o.out.empty()) check_kept("--data", o.data), check_kept("--init-from", o.init_from);
  o_.precision = dtype_name(precision_of(o.precision));
  if (o.threads > 0) set_num_threads(o.threads);
  manual_seed(o.seed);
  generator().set_rank(u64(ranks.rank()));
  recipe_ = make_recipe(o.recipe, o.set, o.data);
  if (o.monitor == "bleu" && !recipe_->translates())
    throw UsageError(
        str("--monitor bleu: ", o.recipe, " does not translate\n  Try loss or accuracy"));
  device_ = device_for(o.device);
  if (o.memory_limit && first_of_process(ranks)) limit_.emplace(device_, o.memory_limit);
  d_ = resolve(o, *recipe_);
  if (o.monitor == "accuracy" && !recipe_->classifies())
    throw UsageError(str("--monitor accuracy: ", o.recipe, " has none\n  Try --monitor loss"));
}

// Where --resident says so, the training data moves to the device.
void Trainer::make_resident() {
  if (!keeps_data_on_device(o_, *recipe_, device_)) return;
  data_->train = data_->resident(device_);
  data_->resident = {};  // which held the copy on the host
}

void Trainer::load_data() {
  data_.emplace(recipe_->load(o_.data));
  check_samples(o_.data, "training", data_->train.size());
  check_samples(o_.data, "held-out", data_->held_out.size());
  if (!o_.quiet)
    for (const std::string& remark : data_->remarks)
      std::fprintf(stderr, "%s\n", printable_lines(remark).c_str());
  make_resident();
  loader_.emplace(d_, *data_, o_.seed, o_.workers, ranks_.rank(), ranks_.size());
  total_ = o_.steps    ? o_.steps
           : o_.epochs ? steps_of_epochs(o_.epochs, loader_->size())
           : d_.steps  ? d_.steps
                       : d_.epochs * loader_->size();
  const LbfgsRounds rounds = recipe_->rounds();
  if (!o_.quiet && rounds.rounds > 0 && total_ <= rounds.rounds)
    std::fprintf(stderr, "%lld steps leave none before %lld rounds of L-BFGS: there are none\n",
                 static_cast<long long>(total_), static_cast<long long>(rounds.rounds));
  eval_every_ = o_.eval_every ? o_.eval_every : std::max<i64>(1, total_ / d_.evals);
  choose_eval_samples();
}

// --- one step ---

void Trainer::use_kernels() {
  if (o_.kernels.empty() || c_.step < o_.kernels_from || kernels_) return;
  const size_t colon = o_.kernels.find(':');
  if (colon == std::string::npos)
    throw UsageError(str("--kernel ", printable(o_.kernels), " is not CONTRACT:VARIANT"));
  kernels_.emplace(o_.kernels.substr(0, colon), o_.kernels.substr(colon + 1));
}

// The folder is there by now, and every rank writes a file of its own.
void Trainer::begin_recording() {
  if (o_.log_tensors == 0 || o_.out.empty()) return;
  const std::string name =
      is_first() ? "/tensors.wtd" : str("/tensors.rank", ranks_.rank(), ".wtd");
  std::string label = str(o_.recipe, " on ", to_string(device_), ", ", o_.precision);
  if (!o_.kernels.empty()) label += ", " + o_.kernels;
  recorder_.emplace(o_.out + name,
                    record::RecorderOptions{.every = o_.log_tensors,
                                            .rank = ranks_.rank(),
                                            .ranks = ranks_.size(),
                                            .keep_before = o_.resume ? c_.step + 1 : 0,
                                            .label = std::move(label)});
}

// Recorded where --log-tensors says so, with the parameters as they are before.
RecipeStep Trainer::step(const data::Batch& batch) {
  if (!recorder_) return training_->step(batch);
  recorder_->begin(c_.step + 1);
  if (recorder_->recording())
    for (const nn::NamedTensor& p : recipe_->model().named_parameters())
      recorder_->note(p.name, p.tensor);
  try {
    return training_->step(batch);
  } catch (...) {
    recorder_->abandon();  // what led there is worth the most
    throw;
  }
}

bool Trainer::train_one(Progress& bar) {
  const data::LoaderState before = loader_->state();
  data::Batch batch;
  timed(&StepTime::data, [&] {
    const auto range = profiler::range("data");
    if (!loader_->next(batch) && !loader_->next(batch)) throw DataError("the data has no batch");
  });
  use_kernels();
  RecipeStep r;
  const double waited = training_->waited();
  try {
    r = step(batch);
  } catch (const NumericError& e) {
    loader_->set_state(before);  // the step has not been: its batch is still to come
    report_non_finite(e, &batch);
    throw;
  } catch (...) {
    loader_->set_state(before);
    throw;
  }
  ++c_.step;
  turn_.step = c_.step;
  turn_.others = training_->waited() - waited;
  timed(&StepTime::recording, [&] { record(batch, r, bar); });
  c_.due = !o_.profile.only && (is_turn(eval_every_) || c_.step == total_);
  peak_ = std::max(peak_, memory::stats(device_).peak);
  const i64 every = o_.log_every ? o_.log_every : std::max<i64>(1, total_ / 500);
  if (is_turn(every) || c_.step == total_ || c_.step == first_step_ + 1) {
    const double seconds = std::max(seconds_since(logged_at_), 1e-9);
    const wt::StepRecord done = r.read();  // once: it waits for the device
    log_step(done, double(c_.step - logged_step_) / seconds);
    logged_at_ = Clock::now();
    logged_step_ = c_.step;
    bar.set_postfix(str("loss ", fixed_digits(loss_, 4), " lr ", three_digits(done.lr), " |g| ",
                        three_digits(done.grad_norm), is_scaled() ? str(" scale ", done.scale) : "",
                        " mem ", bytes_text(memory::stats(device_).live)));
    if (curve_) curve_->add(c_.step, loss_);
  }
  bar.update();
  return c_.step < total_;
}

// What is kept of a step beside its numbers. Where work has finished when it is queued, asking
// whether it was skipped costs nothing.
void Trainer::record(const data::Batch& batch, const RecipeStep& r, Progress& bar) {
  turn_.skipped = !stream_backend(device_) && r.skipped();
  if (recorder_) write([&] { recorder_->end(); });
  record_exponents(turn_.skipped);
  if (is_scaled() && turn_.skipped) explain_skip(r.read(), batch, bar);
}

void Trainer::record_exponents(bool skipped) {
  if (o_.exponents == 0 || !(skipped || c_.step % o_.exponents == 0 || c_.step == total_)) return;
  exponents_.add({c_.step, skipped, training_->exponents()});
}

// A scale that is too large is tried every 2000 steps, and a run has some skips of which nobody
// need know more; but a model that overflows by itself shows in the first ones.
void Trainer::explain_skip(const wt::StepRecord& r, const data::Batch& batch, Progress& bar) {
  constexpr size_t kExplained = 20;
  if (skips_.size() == kExplained) return;
  const bool whole = o_.zero < 2 || ranks_.size() == 1;  // a rank's own gradients, once more
  const std::string why = whole ? training_->explain(batch, r.scale).text() : "gradients in parts";
  skips_.emplace_back("skipped step " + std::to_string(c_.step), str("scale ", r.scale, ": ", why));
  if (!o_.quiet) bar.write(str("step ", c_.step, " was skipped at scale ", r.scale, ": ", why));
}

// rate: steps a second
void Trainer::log_step(const wt::StepRecord& r, double rate) {
  loss_ = r.loss;
  if (!out_) return;
  StepRecord record{.step = c_.step, .epoch = epoch_now(), .loss = loss_, .lr = r.lr};
  if (!std::isnan(r.grad_norm)) record.grad_norm = r.grad_norm;
  if (is_scaled()) record.scale = r.scale;
  record.items_per_second = rate * double(d_.batch * recipe_->items_per_sample());
  record.bytes = u64(memory::stats(device_).live);
  record.slowest_ms = 1e3 * std::max(times_.take_longest().value_or(0), seconds_since(turn_begin_));
  write([&] { out_->log(record, 1e3 / rate); });
}

// --- evaluation ---

// By the average of the weights, where there is one.
void Trainer::measure_held_out() {
  std::optional<optim::EmaScope> averaged;
  if (o_.ema > 0) averaged.emplace(training_->optimizer());
  eval_ = tools::evaluate(*recipe_, *judged_, ranks_);
}

void Trainer::evaluate() {
  if (last_eval_ == c_.step) return;
  measure_held_out();
  last_eval_ = c_.step;
  memory::reset_peak(device_);
  if (!out_) return;
  EvalRecord record{
      .step = c_.step, .epoch = epoch_now(), .eval_loss = eval_->loss, .accuracy = eval_->accuracy};
  record.top5 = eval_->top5;
  if (eval_->bleu) record.bleu = eval_->bleu->score;
  if (eval_sample().is_part()) record.sample = eval_sample();
  write([&] { out_->log(record); });
}

double Trainer::monitored() const {
  if (o_.monitor == "bleu") return eval_->bleu->score;
  return o_.monitor == "loss" ? eval_->loss : eval_->accuracy.value_or(NAN);
}

// What follows from an evaluation. The counters say what is on the disk, so they change once the
// best model is there; until then the evaluation stays due, and a checkpoint of this step says so.
void Trainer::judge() {
  const double now = monitored();
  // A model whose loss is no number is never the best, whatever it guesses right.
  const bool counts = std::isfinite(eval_->loss);
  const bool first = c_.best_step == 0 || std::isnan(c_.best);
  const bool better =
      agreed(counts && (first || (o_.monitor == "loss" ? now < c_.best : now > c_.best)));
  Counters next = c_;
  next.due = false;
  ++next.worse;
  if (better) {
    next.best = now;
    next.best_step = c_.step;
    next.worse = 0;
    if (agreed(out_.has_value())) {
      const std::vector<nn::NamedTensor> kept = state(next);
      // It may be there without being synchronised.
      if (out_ && !write([&] { out_->save_best(kept); }) && !best_is_of_this_step()) return;
    }
  }
  training_->evaluated(now);
  c_ = next;
}

// Of an evaluation whose best model could not be written: training changes that model now. It was
// better, so patience begins anew; what is best remains what the disk has.
void Trainer::go_on_without_best() {
  training_->evaluated(monitored());
  c_.worse = 0;
  c_.due = false;
}

// --- the run ---

void Trainer::finish_evaluation(Progress& bar) {
  not_training([&] {
    const auto range = profiler::range("evaluation");
    evaluate();
    judge();
  });
  if (o_.quiet) return;
  bar.write(str("step ", c_.step, "  train loss ", fixed_digits(loss_, 4), "  held-out loss ",
                loss_text(eval_->loss), on_samples(), text_loss(),
                eval_->accuracy ? "  accuracy " + percent_text(*eval_->accuracy) : "",
                eval_->top5 ? "  top 5 " + percent_text(*eval_->top5) : "",
                eval_->bleu ? "  BLEU " + fixed_digits(eval_->bleu->score, 2) : "",
                c_.best_step == c_.step ? "  best" : ""));
}

void Trainer::loop() {
  const i64 save_every = o_.save_every ? o_.save_every : std::max<i64>(1, total_ / 10);
  Progress bar({.desc = o_.recipe,
                .total = total_,
                .unit = "step",
                .disable = o_.quiet,
                .initial = c_.step});
  if (o_.curve) curve_.emplace();
  begin_recording();
  begin_ = start_ = logged_at_ = Clock::now();
  if (c_.due) finish_evaluation(bar);  // of a run that ended in it
  bool more = c_.step < total_ && !out_of_patience();
  while (more && !signals_.stop_requested()) {
    turn_ = {};
    turn_begin_ = Clock::now();
    if (profile_) profile_->begin_step();
    more = train_one(bar);
    if (profile_) profile_->end_step();
    if (c_.due) {
      timed(&StepTime::evaluation, [&] { finish_evaluation(bar); });
    }
    signals_.agree(out_of_patience());
    more = more && !signals_.done();
    if (is_turn(save_every) || !more || signals_.take_checkpoint_request())
      timed(&StepTime::checkpoint, [&] {
        const auto range = profiler::range("checkpoint");
        not_training([&] { write([&] { save(); }); });
      });
    if (c_.due && more) go_on_without_best();
    turn_.total = seconds_since(turn_begin_);
    times_.add(turn_);
  }
  if (curve_) curve_->draw();
}

int Trainer::run() {
  load_data();
  if (!o_.out.empty() && is_first()) out_.emplace(o_.out, metadata());
  begin();
  if (!o_.quiet) std::fputs(recipe_->model().summary().c_str(), stderr);
  if (const std::string text = describe_ranks(ranks_); !o_.quiet && !text.empty())
    std::fprintf(stderr, "%s: each has its part of every batch of %lld\n", text.c_str(),
                 static_cast<long long>(d_.batch));
  if (!o_.quiet && !o_.profile.only && eval_sample().is_part())
    std::fprintf(
        stderr, "evaluations take %s held-out samples, the same each time%s\n",
        sample_text(eval_sample()).c_str(),
        o_.eval_batches < 0 ? ", for a fifth of the run at most (--eval-batches 0: all)" : "");
  first_step_ = logged_step_ = c_.step;
  if (o_.profile.steps > 0 && is_first())
    profile_.emplace(o_.profile, str(o_.recipe, " on ", device_), total_ - c_.step);
  if (c_.step == 0) {
    if (!o_.profile.only) evaluate();
  } else if (is_first()) {
    std::fprintf(stderr, "going on at step %lld of %lld\n", static_cast<long long>(c_.step),
                 static_cast<long long>(total_));
  }
  if (!o_.quiet && c_.step == 0 && eval_)
    std::fprintf(stderr, "before step 1: held-out loss %s%s\n", loss_text(eval_->loss).c_str(),
                 on_samples().c_str());
  try {
    loop();
  } catch (const CheckpointError&) {
    keep_what_there_is(End::no_output);
    throw;
  } catch (const NumericError& e) {
    report_non_finite(e, nullptr);  // of a device that told late
    keep_what_there_is(End::alike);
    throw;
  } catch (...) {
    keep_what_there_is(End::apart);
    throw;
  }
  if (profile_) profile_->finish();
  if (o_.profile.only) return signals_.exit_code();
  not_training([&] {
    if (ranks_.size() > 1) shares_ = gather_shares(ranks_, times_.per_step());
    save();
    // A run that was over when it was resumed: its metrics have this, the report and summary not.
    if (!eval_ && !signals_.stop_requested()) measure_held_out();
    write_sample();
    write_outcome();
    if (out_ && !exponents_.kept().empty()) out_->write_exponents(exponents_.kept());
    if (out_) out_->write_report(report());
  });
  if (!is_first()) return signals_.exit_code();
  print_exponents();
  print_doubts();
  print_summary();
  if (signals_.stop_requested())
    std::fprintf(stderr, "interrupted after step %lld; %s\n", static_cast<long long>(c_.step),
                 out_ ? "the checkpoint is written, go on with --resume auto" : "nothing was kept");
  else if (out_of_patience() && !o_.quiet)
    std::fprintf(stderr, "stopped after step %lld: no better %s for %lld evaluations\n",
                 static_cast<long long>(c_.step), o_.monitor.c_str(),
                 static_cast<long long>(c_.worse));
  if (no_outcome_) std::rethrow_exception(no_outcome_);
  return signals_.exit_code();
}

int train(const TrainOptions& options) {
  return run_ranks({options.ranks, options.device, options.deadline},
                   [&](dist::Communicator& comm, Device device) {
                     TrainOptions own = options;
                     own.device = to_string(device);
                     if (options.dry_run) {
                       if (comm.rank() == 0) dry_run(options);
                       return 0;
                     }
                     if (comm.size() == 1 && find_recipe(own.recipe).foresees) foresee(own);
                     try {
                       return Trainer(own, comm).run();
                     } catch (const OutOfMemory& e) {
                       throw with_remedies(e, options);
                     }
                   });
}

}  // namespace wt::tools
