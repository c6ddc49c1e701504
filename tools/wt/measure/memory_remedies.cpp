#include "warptape/tools/wt/measure/memory_remedies.h"

#include <algorithm>
#include <optional>

#include "warptape/core/memory_fit.h"
#include "warptape/core/memory_limit.h"
#include "warptape/data/plan.h"
#include "warptape/tools/wt/measure/memory_use.h"
#include "warptape/tools/wt/recipes/recipe_device.h"
#include "warptape/tools/wt/recipes/recipe_training.h"
#include "warptape/tools/wt/reports/error_words.h"

namespace wt::tools {
namespace {

// The largest of the jobs that the options stand for.
i64 peak_of(const TrainOptions& o) {
  i64 most = 0;
  for (const MemoryJob& job : memory_jobs(o, !o.data.empty()))
    most = std::max(most, predicted_peak(job));
  return most;
}

// Nothing where the model cannot be trained on so few samples, as batch norm of one value.
std::optional<i64> peak_if_any(const TrainOptions& o) {
  try {
    return peak_of(o);
  } catch (const ShapeError&) {
    return {};
  }
}

struct Facts {
  i64 batch;
  bool can_checkpoint;  // a setting that is still off
};
Facts facts_of(const TrainOptions& o) {
  const DefaultDevice nothing(Device::meta());
  const std::unique_ptr<Recipe> r = memory_jobs(o, false).front().make();
  return {resolve(o, *r).batch, r->settings().find("checkpoint=false") != std::string::npos};
}

// The options with the smallest power of two of parts that is enough.
std::optional<Remedy> in_parts(TrainOptions o, i64 batch, i64 bytes) {
  for (i64 parts = 2 * o.micro_batches; parts <= batch; parts *= 2) {
    o.micro_batches = parts;
    if (const auto peak = peak_if_any(o); peak && *peak <= bytes)
      return Remedy{str("--micro-batches ", parts), *peak, "the same batch in parts"};
  }
  return {};
}

// Not with checkpoints: what they keep, their inputs, is not offloaded.
std::optional<Remedy> in_host_memory(TrainOptions o, i64 bytes) {
  if (o.offload || device_for(o.device).kind == DeviceKind::cpu) return {};
  o.offload = true;
  if (const i64 peak = peak_of(o); peak <= bytes)
    return Remedy{"--offload", peak, "the same numbers, activations wait in host memory"};
  return {};
}

std::optional<Remedy> in_16_bits(TrainOptions o, i64 bytes) {
  if (o.precision != "f32") return {};
  o.precision = "bf16";
  try {
    if (const i64 peak = peak_of(o); peak <= bytes)
      return Remedy{"--precision bf16", peak, "activations of 16 bits"};
  } catch (const NotAvailable&) {  // of a build or model without it
  }
  return {};
}

}  // namespace

std::vector<Remedy> remedies(const TrainOptions& o, i64 bytes) {
  std::vector<Remedy> found;
  if (bytes < 1) return found;
  const Facts facts = facts_of(o);
  if (auto r = in_parts(o, facts.batch, bytes)) found.push_back(*r);
  if (facts.can_checkpoint) {
    TrainOptions c = o;
    std::erase(c.set, "checkpoint=false");
    c.set.push_back("checkpoint=true");
    if (const i64 peak = peak_of(c); peak <= bytes)
      found.push_back(
          {"--set checkpoint=true", peak, "the same numbers, each block computed twice"});
    else if (auto r = in_parts(c, facts.batch, bytes); r && found.empty())
      found.push_back({"--set checkpoint=true " + r->change, r->peak, r->meaning});
  }
  if (auto r = in_host_memory(o, bytes)) found.push_back(*r);
  if (auto r = in_16_bits(o, bytes)) found.push_back(*r);
  const memory::BatchFit fit = memory::fit_batch_by(
      [&](i64 n) {
        TrainOptions smaller = o;
        smaller.batch = n;
        return peak_if_any(smaller).value_or(0);
      },
      bytes, facts.batch);
  if (fit.bytes > 0 && fit.batch > 0 && fit.batch < facts.batch)
    found.push_back({str("--batch ", fit.batch), fit.bytes, "the largest that fits"});
  return found;
}

static std::string advice(const TrainOptions& o, i64 bytes) {
  std::string text;
  for (const Remedy& r : remedies(o, bytes))
    text += str(text.empty() ? "\n  Try " : " \xc2\xb7 ", r.change, " (predicted peak ",
                memory::bytes_text(r.peak), ", ", r.meaning, ")");
  if (!text.empty()) return text;
  TrainOptions one = o;
  one.batch = one.micro_batches = 1;
  const std::optional<i64> least = peak_if_any(one);
  if (!least) return "\n  Try a smaller model";
  return str("\n  Try a smaller model: a batch of one sample is predicted to take ",
             memory::bytes_text(*least), ", and there are ", memory::bytes_text(bytes));
}

OutOfMemory with_remedies(const OutOfMemory& e, const TrainOptions& o) noexcept {
  try {
    const memory::Failure f = memory::last_failure();
    if (f.asked == 0 || !(f.device == device_for(o.device))) return e;
    std::string text = without_kind(e);
    text = text.substr(0, text.find("\n  Try "));
    return OutOfMemory(text + advice(o, f.held + f.room));
  } catch (...) {  // of the advice: what has failed is said
    return e;
  }
}

void foresee(const TrainOptions& o) {
  const Device device = device_for(o.device);
  const i64 room = o.memory_limit ? o.memory_limit : data::capacity_of(device).device;
  if (room < 1) return;  // nobody knows
  if (const i64 peak = peak_of(o); peak > room)
    throw OutOfMemory(str("a batch of ", facts_of(o).batch, " of ", o.recipe,
                          " is predicted to take ", memory::bytes_text(peak), ", and ",
                          to_string(device), " has ", memory::bytes_text(room), advice(o, room)));
}

}  // namespace wt::tools
