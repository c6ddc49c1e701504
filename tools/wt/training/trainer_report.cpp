// What a run says about itself: the report's summary, a sample of text, doubts, the last JSON line.
#include <cmath>
#include <cstdio>

#include "warptape/core/files/json.h"
#include "warptape/core/input_file.h"
#include "warptape/core/machine/cpu_threads.h"
#include "warptape/core/memory.h"
#include "warptape/tools/wt/number_text.h"
#include "warptape/tools/wt/recipes/generate.h"
#include "warptape/tools/wt/std_output.h"
#include "warptape/tools/wt/training/trainer.h"

namespace wt::tools {

// Nothing for a run of three steps or fewer.
std::string Trainer::data_wait() const {
  const std::optional<double> share = times_.data_share();
  if (!share) return {};
  // What could stay on the device still has its copy on the host.
  return data_wait_text(*share, o_.workers, wt::detail::processors(),
                        device_.kind != DeviceKind::cpu && bool(data_->resident));
}

std::string Trainer::monitored_text(double v) const {
  if (o_.monitor == "bleu") return fixed_digits(v, 2);
  if (o_.monitor != "loss") return percent_text(v);
  return loss_text(v);
}
std::string Trainer::loss_text(double v) const {
  return recipe_->classifies() ? fixed_digits(v, 4) : three_digits(v);
}

// "  perplexity 41.2, 2.31 bits a byte" of the last evaluation; nothing for what is no text in
// tokens.
std::string Trainer::text_loss() const {
  const double bits = bits_per_byte(*recipe_, eval_->loss);
  if (std::isnan(bits)) return {};
  return str("  perplexity ", three_digits(std::exp(eval_->loss)), ", ", fixed_digits(bits, 3),
             " bits a byte");
}

// " on 640 of 10,000"; nothing where evaluations take all of the held-out samples.
std::string Trainer::on_samples() const {
  return eval_sample().is_part() ? " on " + sample_text(eval_sample()) : "";
}

ReportOptions Trainer::report() const {
  ReportOptions ro;
  ro.title = o_.recipe + " on " + to_string(device_);
  ro.item = recipe_->item();
  if (const auto& b = data_->baseline) ro.baseline = ReportBaseline{b->label, b->loss};
  if (!recipe_->classifies()) {
    ro.loss_unit = "";
    if (eval_) ro.held_out = eval_->measures.at(0).label;
  }
  if (eval_) {
    if (eval_sample().is_part())
      ro.summary.emplace_back("evaluations",
                              "on " + sample_text(eval_sample()) + " held-out samples");
    if (recipe_->classifies())
      ro.summary.emplace_back("held-out loss", fixed_digits(eval_->loss, 4) + text_loss());
    if (eval_->accuracy) ro.summary.emplace_back("accuracy", percent_text(*eval_->accuracy));
    if (eval_->top5) ro.summary.emplace_back("among the first five", percent_text(*eval_->top5));
    if (eval_->bleu) ro.summary.emplace_back("BLEU", eval_->bleu->text());
    for (const auto* list : {&eval_->measures, &outcome_.measures})
      for (const Measure& m : *list) ro.summary.emplace_back(m.label, three_digits(m.value));
  }
  for (const RecipeFile& f : outcome_.files) ro.summary.emplace_back("file", f.name);
  if (c_.best_step > 0)
    ro.summary.emplace_back("best " + o_.monitor,
                            monitored_text(c_.best) + " at step " + std::to_string(c_.best_step));
  if (c_.best_step > 0) ro.best_step = c_.best_step;
  if (eval_ && eval_->confusion) add_classes(ro, *eval_->confusion, recipe_->class_names());
  if (!sample_.empty()) ro.samples.push_back({"after step " + std::to_string(c_.step), sample_});
  ro.summary.emplace_back("steps", str(c_.step, " of ", total_));
  ro.summary.emplace_back("peak memory", bytes_text(peak_));
  if (times_.count() > 0) ro.summary.emplace_back("step time", times_.text());
  if (const std::string waiting = data_wait(); !waiting.empty()) {
    const size_t colon = waiting.find(": ");
    ro.summary.emplace_back(waiting.substr(0, colon), waiting.substr(colon + 2));
  }
  if (!shares_.empty()) {
    const std::string text = shares_text(shares_);
    const size_t colon = text.find(": ");
    ro.summary.emplace_back(text.substr(0, colon), text.substr(colon + 2));
  }
  for (const auto& skip : skips_) ro.summary.push_back(skip);
  ro.exponents = exponents_.kept();
  return ro;
}

void Trainer::write_sample() {
  if (recipe_->context() == 0 || o_.sample <= 0 || !out_ || signals_.interrupted()) return;
  std::optional<optim::EmaScope> averaged;
  if (o_.ema > 0) averaged.emplace(training_->optimizer());
  sample_ = generate(*recipe_, {.tokens = o_.sample, .seed = o_.seed},
                     [&](char) { return !signals_.interrupted(); });
  if (!o_.quiet)
    std::fprintf(stderr, "--- sampled text\n%s\n---\n", printable_lines(sample_).c_str());
}

// What the recipe makes of its result. An average of the weights is what is judged. What cannot be
// made of it is thrown at the end of the run, whose report and summary do without.
void Trainer::write_outcome() {
  if (signals_.interrupted() || !is_first()) return;
  std::optional<optim::EmaScope> averaged;
  if (o_.ema > 0) averaged.emplace(training_->optimizer());
  try {
    outcome_ = outcome_of(*recipe_, data_->held_out);
  } catch (const Error&) {
    no_outcome_ = std::current_exception();
  }
  if (out_)
    for (const RecipeFile& f : outcome_.files)
      if (write([&] { out_->write_file(f.name, f.bytes); }) && !o_.quiet)
        std::fprintf(stderr, "%s\n", printable_path(o_.out + "/" + f.name).c_str());
}

void Trainer::print_exponents() const {
  if (o_.quiet || exponents_.kept().empty()) return;
  const GradientExponents& newest = exponents_.kept().back().exponents;
  std::fputs(newest.text({.colour = colour_on_stderr()}).c_str(), stderr);
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
  if (failed_writes_ > 0)
    std::fprintf(stderr, "%lld times something could not be written (see above)\n",
                 static_cast<long long>(failed_writes_));
}

void Trainer::print_summary() const {
  const double seconds = seconds_since(begin_), training = seconds_since(start_);
  if (const auto& b = data_->baseline; b && eval_ && !o_.quiet)
    std::fprintf(stderr, "held-out loss %.4f nats%s, %s %.4f nats\n", eval_->loss,
                 on_samples().c_str(), b->label.c_str(), b->loss);
  if (eval_ && eval_->bleu && !o_.quiet)
    std::fprintf(stderr, "%s%s\n", eval_->bleu->text().c_str(), on_samples().c_str());
  if (times_.count() > 0 && !o_.quiet)
    std::fprintf(stderr, "step time: %s\n", times_.text().c_str());
  if (const std::string waiting = data_wait(); !waiting.empty() && !o_.quiet)
    std::fprintf(stderr, "%s\n", waiting.c_str());
  if (!shares_.empty() && !o_.quiet) std::fprintf(stderr, "%s\n", shares_text(shares_).c_str());
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
  j.add("ranks", ranks_.size());
  j.add("steps", c_.step);
  j.add("epochs", epoch_now());
  add("train_loss", !std::isnan(loss_), loss_);
  add("eval_loss", eval_.has_value(), eval_ ? eval_->loss : 0);
  add("accuracy", eval_ && eval_->accuracy, eval_ ? eval_->accuracy.value_or(0) : 0);
  if (eval_ && eval_->top5) j.add("top5", *eval_->top5);
  if (eval_ && eval_->bleu) j.add("bleu", eval_->bleu->score);
  if (const double bits = eval_ ? bits_per_byte(*recipe_, eval_->loss) : NAN; !std::isnan(bits))
    j.add("perplexity", std::exp(eval_->loss)).add("bits_per_byte", bits);
  if (eval_)
    for (const auto* list : {&eval_->measures, &outcome_.measures})
      for (const Measure& m : *list) j.add(m.key, m.value);
  if (const EvalSample s = eval_sample(); eval_ && s.is_part())
    j.add("eval_samples", s.taken).add("held_out_samples", s.of);
  j.add("seconds", seconds);
  const double items = double((c_.step - first_step_) * d_.batch * recipe_->items_per_sample());
  j.add("items_per_second", items / std::max(training, 1e-9));
  const std::optional<SlowStep> slowest = times_.worst();
  add("step_ms_p50", slowest.has_value(), 1e3 * times_.quantile(0.5));
  add("step_ms_p99", slowest.has_value(), 1e3 * times_.quantile(0.99));
  add("step_ms_slowest", slowest.has_value(), slowest ? 1e3 * slowest->time.total : 0);
  if (slowest) {
    j.add("slowest_step", slowest->time.step);
    j.add("slowest_with", cause_text(slowest->cause));
  } else {
    j.add_null("slowest_step").add_null("slowest_with");
  }
  const std::optional<double> waiting = times_.data_share();
  add("data_wait", waiting.has_value(), waiting.value_or(0));
  if (!shares_.empty()) {
    std::string own, waited;
    for (const StepTimes::Shares& s : shares_) {
      own += (own.empty() ? "[" : ",") + json_number(1e3 * s.own);
      waited += (waited.empty() ? "[" : ",") + json_number(1e3 * s.waited);
    }
    j.add_raw("rank_own_ms", own + "]").add_raw("rank_waited_ms", waited + "]");
  }
  j.add("peak_bytes", peak_);
  j.add("skipped_steps", training_->optimizer().attempted() - training_->optimizer().applied());
  if (out_)
    j.add("checkpoint", out_->checkpoint_path(c_.step));
  else
    j.add_null("checkpoint");
  std::printf("%s\n", j.str().c_str());
  flush_stdout();
}

}  // namespace wt::tools
