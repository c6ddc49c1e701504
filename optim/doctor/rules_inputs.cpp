// What is in the batches: inputs and labels.
#include <cmath>

#include "warptape/optim/doctor/rule.h"

namespace wt::doctor {
namespace {

Found inputs_not_finite(const Evidence& e) {
  const BatchesSeen& b = e.batches;
  if (b.not_finite == 0) return {};
  return Finding{.severity = Severity::wrong,
                 .title = "inputs hold NaN or infinity",
                 .evidence = str(b.not_finite, " of ", b.elements, " elements"),
                 .fix = "wt data verify FOLDER; or where(isfinite(x), x, 0.0)"};
}

Found inputs_not_standardised(const Evidence& e) {
  const BatchesSeen& b = e.batches;
  if (!b.floating || b.elements < 64 || b.not_finite > 0 || b.deviation == 0) return {};
  const double rms = std::hypot(b.mean, b.deviation);
  const bool far = std::abs(b.mean) > 1 && std::abs(b.mean) > 5 * b.deviation;
  if (rms <= 10 && rms >= 0.01 && !far) return {};
  return Finding{.severity = Severity::hint,
                 .title = "inputs are not standardised",
                 .evidence = str("mean ", figure(b.mean), ", standard deviation ",
                                 figure(b.deviation), " over ", b.count, " batches"),
                 .gain = "larger rates, fewer steps: initialisers expect about 0 and 1",
                 .fix = str("x = (x - ", figure(b.mean), ") / ", figure(b.deviation), ";")};
}

Found inputs_constant(const Evidence& e) {
  const BatchesSeen& b = e.batches;
  if (!b.floating || !b.rows_alike) return {};
  return Finding{.severity = Severity::wrong,
                 .title = "all samples have the same input",
                 .evidence = str("each of ", b.samples, " samples a batch, over ", b.count,
                                 " batches, is the first one"),
                 .fix = "look at what the dataset returns: wt data show FOLDER"};
}

Found inputs_upscaled(const Evidence& e) {
  if (e.upscaled < 4) return {};
  return Finding{
      .severity = Severity::hint,
      .title = "inputs are enlarged before the model sees them",
      .evidence = str(figure(e.upscaled), " pixels of the resized image for each of the ",
                      "original, at ", e.upscaled_at),
      .gain = str("convolutions on the original size do 1/", figure(e.upscaled), " of the work"),
      .fix = "train at the images' own size, with a smaller stride in the first layer"};
}

// What the losses got. Where the host cannot read that: what the batches have, if one loss alone
// gets as many.
Evidence::OutsideLabels outside_labels(const Evidence& e) {
  const BatchesSeen& b = e.batches;
  if (e.outside.read || !b.labels || e.class_losses != 1 || b.count == 0) return e.outside;
  if (e.class_items * e.micro_batches * b.count != b.label_count + b.ignored) return {};
  return {.seen = b.label_count > 0 && (b.least < 0 || b.most >= e.classes),
          .least = b.least,
          .most = b.most,
          .classes = e.classes};
}

Found labels_outside(const Evidence& e) {
  const Evidence::OutsideLabels o = outside_labels(e);
  if (!o.seen) return {};
  return Finding{.severity = Severity::wrong,
                 .title = "labels that the model has no output for",
                 .evidence = str("labels from ", o.least, " to ", o.most, ", the loss has ",
                                 o.classes, " classes: 0 to ", o.classes - 1),
                 .fix = o.least >= 1 && o.most == o.classes
                            ? std::string("y = y - 1;  // labels begin at 0")
                            : str("nn::Linear{..., ", o.most + 1, "} as the last layer")};
}

Found labels_all_alike(const Evidence& e) {
  const BatchesSeen& b = e.batches;
  if (!b.labels || b.label_count < 32 || b.distinct != 1) return {};
  return Finding{.severity = Severity::wrong,
                 .title = "all labels are the same",
                 .evidence = str("all ", b.label_count, " labels are ", b.least),
                 .fix = "look at what the dataset returns as y: wt data show FOLDER"};
}

Found labels_sorted(const Evidence& e) {
  const BatchesSeen& b = e.batches;
  if (!b.labels || b.distinct < 2 || b.count < 4 || b.samples < 4) return {};
  if (b.of_one_class * 4 < b.count * 3 || b.filling < 2) return {};
  return Finding{.severity = Severity::wrong,
                 .title = "batches have samples of one class alone",
                 .evidence = str(b.of_one_class, " of ", b.count, " batches, of ", b.distinct,
                                 " classes in all: the data is in the order of its classes"),
                 .fix = "data::Loader loader{set, {.shuffle = true}};"};
}

Found head_wide(const Evidence& e) {
  const BatchesSeen& b = e.batches;
  if (!b.labels || b.label_count < 32 || b.least < 0 || e.classes < 8 * (b.most + 1)) return {};
  return Finding{.severity = Severity::hint,
                 .title = "the output is much wider than the labels",
                 .evidence = str("labels use ", b.most + 1, " of ", e.classes, " classes (",
                                 b.label_count, " labels seen)"),
                 .gain = str("a last layer of ", percent(double(b.most + 1) / double(e.classes)),
                             " of its size"),
                 .fix = str("nn::Linear{..., ", b.most + 1, "} as the last layer")};
}

constexpr Rule kInputRules[] = {
    {{"inputs-not-finite", "inputs", "NaN or infinity in a batch"}, inputs_not_finite},
    {{"inputs-not-standardised", "inputs",
      "inputs whose root mean square is above 10 or below 0.01, or far from 0 for their spread"},
     inputs_not_standardised},
    {{"inputs-constant", "inputs", "all samples are alike"}, inputs_constant},
    {{"inputs-upscaled", "inputs", "images enlarged to four times their pixels or more"},
     inputs_upscaled},
    {{"labels-outside", "inputs", "labels below 0, or no smaller than the number of classes"},
     labels_outside},
    {{"labels-all-alike", "inputs", "one label alone in everything that was seen"},
     labels_all_alike},
    {{"labels-sorted", "inputs", "batches of one class each: data in order, not shuffled"},
     labels_sorted},
    {{"head-wide", "inputs", "eight times as many outputs as labels, or more"}, head_wide}};

}  // namespace

std::span<const Rule> input_rules() { return kInputRules; }

}  // namespace wt::doctor
