#include "warptape/nn/metrics.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "warptape/autograd/ops/loss.h"
#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/factories.h"
#include "warptape/core/input_file.h"
#include "warptape/core/suggest.h"

namespace wt::metrics {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr i64 kRows = 1 << 16;  // of one-hot rows at a time; f32 counts them exactly

void check_operands(const char* metric, const Tensor& output, const Tensor& target) {
  if (is_floating(target.dtype()))
    throw DtypeError(
        str("[", metric, "] targets must be classes, integers\n  target ", describe(target)));
  Shape wanted = output.shape();
  if (is_floating(output.dtype())) {
    Shape without;
    for (size_t i = 0; i < wanted.size(); ++i)
      if (i != 1) without.push_back(wanted[int(i)]);
    if (output.ndim() >= 2 && without == target.shape()) return;
  } else if (wanted == target.shape()) {
    return;
  }
  throw ShapeError(str("[", metric,
                       "] outputs are [B, classes, ...] or classes of the target's shape [B, ...]"
                       "\n  output ",
                       describe(output), "\n  target ", describe(target)));
}

// The classes that the model chose, as i64.
Tensor chosen(const Tensor& output) {
  return is_floating(output.dtype()) ? argmax(output, 1) : output.to(DType::i64);
}

i64 classes_of(const Tensor& output) { return is_floating(output.dtype()) ? output.size(1) : 0; }

// Two counts, as Accuracy and TopK have them.
std::vector<double> counted(const Tensor& right, const Tensor& count) {
  if (!right.defined()) return {0, 0};
  return {right.item(), count.item()};
}
void check_sums(const char* metric, const std::vector<double>& sums, size_t wanted) {
  if (sums.size() != wanted)
    throw UsageError(str("[", metric, "] there are ", sums.size(), " sums, it has ", wanted));
}
Tensor count_of(double n) { return tensor(i64(n), {.dtype = DType::i64, .device = Device::cpu()}); }

void accumulate(Tensor& total, const Tensor& more) {
  total = total.defined() ? total + more : more;
}

double part(const Tensor& right, const Tensor& count) {
  if (!right.defined()) return kNone;
  const double n = count.item();
  return n > 0 ? right.item() / n : kNone;
}

void check_classes(const char* metric, i64& classes, const Tensor& output) {
  const i64 now = classes_of(output);
  if (classes > 0 && now > 0 && classes != now)
    throw ShapeError(str("[", metric, "] outputs with ", now, " classes after outputs with ",
                         classes, "\n  output ", describe(output)));
  classes = std::max(classes, now);
}

}  // namespace

Metric::Metric(std::string name) : name_(std::move(name)) {}
void Metric::update(const Tensor& output, const Tensor& target, Frame at) {
  const FrameScope frame(at);
  const NoGrad no_grad;
  add(output, target);
}

std::vector<double> Metric::sums() const {
  throw NotAvailable(str("[", name_,
                         "] this metric does not say what it counts in sums: it cannot ",
                         "be shared between ranks\n  Try overriding sums() and set_sums()"));
}
void Metric::set_sums(const std::vector<double>&) { (void)sums(); }

void detail::LabelRange::add(const Tensor& labels) {
  if (labels.numel() == 0) return;
  const Tensor low = min(labels), high = max(labels);
  low_ = low_.defined() ? minimum(low_, low) : low;
  high_ = high_.defined() ? maximum(high_, high) : high;
}

void detail::LabelRange::check(const char* metric, const char* what, i64 classes) const {
  if (!low_.defined()) return;
  for (const double label : {low_.item(), high_.item()})
    if (label < 0 || label >= double(classes))
      throw IndexError(
          str("[", metric, "] ", what, " ", i64(label), " is outside [0, ", classes, ")"));
}

// --- accuracy ---

Accuracy::Accuracy(const AccuracyOptions& o) : Metric("accuracy"), o_(o) {}
void Accuracy::add(const Tensor& output, const Tensor& target) {
  check_operands("Accuracy", output, target);
  check_classes("Accuracy", classes_, output);
  const Tensor y = target.to(DType::i64), counts = ne(y, o_.ignore_index);
  accumulate(right_, sum(logical_and(eq(chosen(output), y), counts)));
  accumulate(count_, sum(counts));
  if (classes_ > 0) labels_.add(where(counts, y, 0));
}

double Accuracy::value() const {
  if (classes_ > 0) labels_.check("Accuracy", "label", classes_);
  return part(right_, count_);
}

std::vector<double> Accuracy::sums() const {
  if (classes_ > 0) labels_.check("Accuracy", "label", classes_);
  return counted(right_, count_);
}

void Accuracy::set_sums(const std::vector<double>& sums) {
  check_sums("Accuracy", sums, 2);
  right_ = count_of(sums[0]);
  count_ = count_of(sums[1]);
  labels_.reset();
}

void Accuracy::reset() {
  right_ = count_ = Tensor();
  labels_.reset();
  classes_ = 0;
}

TopK::TopK(i64 k, const AccuracyOptions& o) : Metric(str("top", k)), k_(k), o_(o) {
  if (k < 1) throw UsageError(str("[TopK] k must be at least 1, got ", k));
}

// The target's place among the outputs, by comparisons and sums: these run on every device, a sort
// does not.
void TopK::add(const Tensor& output, const Tensor& target) {
  if (!is_floating(output.dtype()))
    throw DtypeError(str("[TopK] needs outputs of each class\n  output ", describe(output)));
  check_operands("TopK", output, target);
  check_classes("TopK", classes_, output);
  if (k_ > classes_)
    throw UsageError(str("[TopK] k is ", k_, ", there are ", classes_, " classes"));
  const Tensor y = target.to(DType::i64), counts = ne(y, o_.ignore_index);
  const Tensor label = unsqueeze(where(counts, y, 0), 1);
  Shape along;
  for (int i = 0; i < output.ndim(); ++i) along.push_back(i == 1 ? classes_ : 1);
  const Tensor index =
      reshape(arange(classes_, {.dtype = DType::i64, .device = output.device()}), along);
  const Tensor own = sum(where(eq(index, label), output, 0.0), 1, {.keep_dim = true});
  const Tensor ties = logical_and(eq(output, own), lt(index, label));
  const Tensor before = logical_or(logical_or(gt(output, own), ties), isnan(output));
  const Tensor among = lt(sum(before, 1), k_);
  const Tensor number = logical_not(isnan(squeeze(own, 1)));
  accumulate(right_, sum(logical_and(logical_and(among, number), counts)));
  accumulate(count_, sum(counts));
  labels_.add(label);
}

double TopK::value() const {
  labels_.check("TopK", "label", classes_);
  return part(right_, count_);
}

std::vector<double> TopK::sums() const {
  labels_.check("TopK", "label", classes_);
  return counted(right_, count_);
}

void TopK::set_sums(const std::vector<double>& sums) {
  check_sums("TopK", sums, 2);
  right_ = count_of(sums[0]);
  count_ = count_of(sums[1]);
  labels_.reset();
}

void TopK::reset() {
  right_ = count_ = Tensor();
  labels_.reset();
  classes_ = 0;
}

// --- confusion matrix ---

ConfusionMatrix::ConfusionMatrix(i64 classes, const AccuracyOptions& o)
    : Metric("confusion_matrix"), classes_(classes), o_(o) {
  if (classes < 1)
    throw UsageError(str("[ConfusionMatrix] there must be at least 1 class, got ", classes));
}

void ConfusionMatrix::add(const Tensor& output, const Tensor& target) {
  check_operands("ConfusionMatrix", output, target);
  if (const i64 n = classes_of(output); n > 0 && n != classes_)
    throw ShapeError(
        str("[ConfusionMatrix] made for ", classes_, " classes\n  output ", describe(output)));
  const Tensor y = flatten(target.to(DType::i64)), counts = ne(y, o_.ignore_index);
  const Tensor p = flatten(chosen(output));
  const Tensor classes = arange(classes_, {.dtype = DType::i64, .device = y.device()});
  for (i64 at = 0; at < y.numel(); at += kRows) {
    const i64 n = std::min(kRows, y.numel() - at);
    const auto rows = [&](const Tensor& t) { return unsqueeze(t.narrow(0, at, n), 1); };
    const Tensor is = logical_and(eq(rows(y), classes), rows(counts)).to(DType::f32);
    const Tensor was = eq(rows(p), classes).to(DType::f32);
    accumulate(counts_, matmul(is.t(), was).to(DType::i64));
  }
  labels_.add(where(counts, y, 0));
  predicted_.add(where(counts, p, 0));
}

Tensor ConfusionMatrix::counts() const {
  labels_.check("ConfusionMatrix", "label", classes_);
  predicted_.check("ConfusionMatrix", "prediction", classes_);
  if (!counts_.defined())
    return zeros({classes_, classes_}, {.dtype = DType::i64, .device = Device::cpu()});
  return counts_.to(Device::cpu()).clone();
}

double ConfusionMatrix::value() const {
  const std::vector<i64> n = counts().to_vector<i64>();
  double right = 0, all = 0;
  for (size_t i = 0; i < n.size(); ++i) {
    all += double(n[i]);
    if (i % size_t(classes_ + 1) == 0) right += double(n[i]);
  }
  return all > 0 ? right / all : kNone;
}

std::vector<double> ConfusionMatrix::sums() const { return counts().to_vector<double>(); }

void ConfusionMatrix::set_sums(const std::vector<double>& sums) {
  check_sums("ConfusionMatrix", sums, size_t(classes_ * classes_));
  const std::vector<i64> counts(sums.begin(), sums.end());
  counts_ =
      reshape(tensor(counts, {.dtype = DType::i64, .device = Device::cpu()}), {classes_, classes_});
  labels_.reset();
  predicted_.reset();
}

ClassificationReport ConfusionMatrix::report(const ReportOptions& o) const {
  return report_of_counts(counts().to_vector<i64>(), o);
}

std::string ConfusionMatrix::text(const std::vector<std::string>& names) const {
  if (!names.empty() && i64(names.size()) != classes_)
    throw UsageError(str("[ConfusionMatrix] ", names.size(), " names for ", classes_, " classes"));
  const std::vector<i64> n = counts().to_vector<i64>();
  const auto letters = [](const std::string& s) {
    return size_t(std::count_if(s.begin(), s.end(), [](char c) { return (c & 0xC0) != 0x80; }));
  };
  std::vector<std::string> heads = names;
  for (i64 i = i64(heads.size()); i < classes_; ++i) heads.push_back(std::to_string(i));
  size_t first = letters("true \\ predicted");
  std::vector<size_t> widths;
  for (size_t k = 0; k < heads.size(); ++k) {
    first = std::max(first, letters(heads[k]));
    size_t w = letters(heads[k]);
    for (size_t i = 0; i < heads.size(); ++i)
      w = std::max(w, std::to_string(n[i * heads.size() + k]).size());
    widths.push_back(w);
  }
  const auto pad = [&](const std::string& s, size_t w) {
    return std::string(w - std::min(w, letters(s)), ' ') + s;
  };
  std::string out = pad("true \\ predicted", first);
  for (size_t k = 0; k < heads.size(); ++k) out += "  " + pad(heads[k], widths[k]);
  out += "\n";
  for (size_t i = 0; i < heads.size(); ++i) {
    out += pad(heads[i], first);
    for (size_t k = 0; k < heads.size(); ++k)
      out += "  " + pad(std::to_string(n[i * heads.size() + k]), widths[k]);
    out += "\n";
  }
  return out;
}

void ConfusionMatrix::reset() {
  counts_ = Tensor();
  labels_.reset();
  predicted_.reset();
}

MeanLoss::MeanLoss(std::string name, Function loss)
    : Metric(std::move(name)), loss_(std::move(loss)) {}
double MeanLoss::value() const { return mean_.value(); }
void MeanLoss::reset() { mean_.reset(); }
std::vector<double> MeanLoss::sums() const { return mean_.sums(); }
void MeanLoss::set_sums(const std::vector<double>& sums) { mean_.set_sums(sums); }
void MeanLoss::add(const Tensor& output, const Tensor& target) { mean_.add(loss_(output, target)); }

std::unique_ptr<Metric> make_metric(std::string_view name) {
  if (name == "accuracy") return std::make_unique<Accuracy>();
  if (name == "loss")
    return std::make_unique<MeanLoss>(
        "loss", [](const Tensor& x, const Tensor& y) { return cross_entropy(x, y); });
  if (name == "mse")
    return std::make_unique<MeanLoss>(
        "mse", [](const Tensor& x, const Tensor& y) { return mse_loss(x, y); });
  if (name.starts_with("top")) {
    i64 k = 0;
    const auto r = std::from_chars(name.data() + 3, name.data() + name.size(), k);
    if (r.ec == std::errc{} && r.ptr == name.data() + name.size() && k >= 1)
      return std::make_unique<TopK>(k);
  }
  const std::vector<std::string_view> known{"accuracy", "loss", "mse", "top5"};
  throw UsageError(str("there is no metric '", printable(name),
                       "'; there are accuracy, loss, mse "
                       "and top1, top2, ...",
                       did_you_mean(name, known)));
}

}  // namespace wt::metrics
