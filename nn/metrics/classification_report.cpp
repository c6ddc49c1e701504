#include "warptape/nn/classification_report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <ostream>

namespace wt::metrics {
namespace {

using Report = ClassificationReport;

struct Counts {
  i64 right = 0, predicted = 0, support = 0;
};

double divide(i64 a, i64 b, double zero_division) {
  return b == 0 ? zero_division : double(a) / double(b);
}

Report::Row row_of(std::string name, const Counts& c, double zero_division) {
  return {std::move(name), divide(c.right, c.predicted, zero_division),
          divide(c.right, c.support, zero_division),
          divide(2 * c.right, c.predicted + c.support, zero_division), c.support};
}

// The mean over classes without NaN; by support if that is asked for and there is any.
double average(const std::vector<Report::Row>& rows, double Report::Row::*member, bool weighted) {
  double sum = 0, weights = 0, plain = 0;
  i64 n = 0;
  for (const Report::Row& r : rows) {
    const double v = r.*member;
    if (std::isnan(v)) continue;
    ++n;
    plain += v;
    sum += v * double(r.support);
    weights += double(r.support);
  }
  if (n == 0) return std::numeric_limits<double>::quiet_NaN();
  return weighted && weights > 0 ? sum / weights : plain / double(n);
}

Report::Row average_row(std::string name, const std::vector<Report::Row>& rows, bool weighted,
                        i64 support) {
  return {std::move(name), average(rows, &Report::Row::precision, weighted),
          average(rows, &Report::Row::recall, weighted), average(rows, &Report::Row::f1, weighted),
          support};
}

void check_options(const ReportOptions& o, size_t labels) {
  if (!o.target_names.empty() && o.target_names.size() != labels)
    throw UsageError(str("[classification_report] ", o.target_names.size(), " target_names for ",
                         labels, " labels"));
  if (o.digits < 0 || o.digits > 30)
    throw UsageError(str("[classification_report] digits must be 0 to 30, got ", o.digits));
}

Report build(const std::vector<i64>& labels, const std::vector<Counts>& counts,
             const ReportOptions& o) {
  Report r{.classes = {}, .digits = o.digits};
  Counts total;
  for (size_t i = 0; i < labels.size(); ++i) {
    r.classes.push_back(
        row_of(o.target_names.empty() ? std::to_string(labels[i]) : o.target_names[i], counts[i],
               o.zero_division));
    total.right += counts[i].right;
    total.predicted += counts[i].predicted;
    total.support += counts[i].support;
  }
  r.micro = row_of("micro avg", total, o.zero_division);
  r.macro = average_row("macro avg", r.classes, false, total.support);
  r.weighted = average_row("weighted avg", r.classes, true, total.support);
  return r;
}

size_t letters(const std::string& text) {
  return size_t(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string right_aligned(const std::string& text, size_t width) {
  const size_t n = letters(text);
  return std::string(width - std::min(n, width), ' ') + text;
}

std::string number(double v, int digits) {
  if (std::isnan(v)) return "nan";
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, v);
  return text;
}

}  // namespace

ClassificationReport classification_report(const std::vector<i64>& y_true,
                                           const std::vector<i64>& y_pred, const ReportOptions& o) {
  if (y_true.size() != y_pred.size())
    throw ShapeError(str("[classification_report] ", y_true.size(), " true labels and ",
                         y_pred.size(), " predicted ones"));
  if (y_true.empty()) throw UsageError("[classification_report] there is no sample");
  std::map<i64, Counts> all;
  bool any_right = false;
  for (size_t i = 0; i < y_true.size(); ++i) {
    ++all[y_true[i]].support;
    ++all[y_pred[i]].predicted;
    if (y_true[i] != y_pred[i]) continue;
    ++all[y_true[i]].right;
    any_right = true;
  }
  std::vector<i64> labels = o.labels;
  if (labels.empty())
    for (const auto& [label, c] : all) labels.push_back(label);
  check_options(o, labels.size());
  std::vector<Counts> counts;
  std::map<i64, Counts> left = all;
  for (const i64 label : labels) {
    if (std::count(labels.begin(), labels.end(), label) > 1)
      throw UsageError(str("[classification_report] label ", label, " is listed twice"));
    const auto at = all.find(label);
    counts.push_back(at == all.end() ? Counts() : at->second);
    left.erase(label);
  }
  ClassificationReport r = build(labels, counts, o);
  r.covers_all = left.empty();
  r.any_right = any_right;
  return r;
}

ClassificationReport classification_report(const Tensor& y_true, const Tensor& y_pred,
                                           const ReportOptions& o) {
  for (const Tensor* t : {&y_true, &y_pred})
    if (is_floating(t->dtype()))
      throw DtypeError(str("[classification_report] labels must be integers\n  ",
                           t == &y_true ? "y_true " : "y_pred ", describe(*t),
                           "\n  Try argmax(logits, 1)"));
  if (y_true.shape() != y_pred.shape())
    throw ShapeError(str("[classification_report] y_true and y_pred need equal shapes\n  y_true ",
                         describe(y_true), "\n  y_pred ", describe(y_pred)));
  return classification_report(y_true.to_vector<i64>(), y_pred.to_vector<i64>(), o);
}

ClassificationReport report_of_counts(const std::vector<i64>& counts, const ReportOptions& o) {
  const size_t n = size_t(std::llround(std::sqrt(double(counts.size()))));
  if (n * n != counts.size())
    throw ShapeError(str("[report_of_counts] ", counts.size(), " counts are no square"));
  if (std::all_of(counts.begin(), counts.end(), [](i64 c) { return c == 0; }))
    throw UsageError("[classification_report] there is no sample");
  std::vector<i64> labels = o.labels;
  if (labels.empty())
    for (size_t i = 0; i < n; ++i) labels.push_back(i64(i));
  check_options(o, labels.size());
  std::vector<Counts> of_labels;
  std::vector<bool> listed(n);
  bool any_right = false;
  for (size_t i = 0; i < n; ++i) any_right |= counts[i * n + i] > 0;
  for (const i64 label : labels) {
    Counts c;
    if (label >= 0 && label < i64(n)) {
      if (listed[size_t(label)])
        throw UsageError(str("[classification_report] label ", label, " is listed twice"));
      listed[size_t(label)] = true;
      for (size_t k = 0; k < n; ++k) {
        c.support += counts[size_t(label) * n + k];
        c.predicted += counts[k * n + size_t(label)];
      }
      c.right = counts[size_t(label) * n + size_t(label)];
    }
    of_labels.push_back(c);
  }
  ClassificationReport r = build(labels, of_labels, o);
  for (size_t i = 0; i < n; ++i)
    for (size_t k = 0; k < n; ++k)
      if (counts[i * n + k] > 0 && !(listed[i] && listed[k])) r.covers_all = false;
  r.any_right = any_right;
  return r;
}

std::string ClassificationReport::text() const {
  size_t width = std::max(letters("weighted avg"), size_t(digits));
  for (const Row& r : classes) width = std::max(width, letters(r.name));
  const auto cell = [](const std::string& text) { return " " + right_aligned(text, 9); };
  // Without a single right prediction scikit-learn counts in floats, which its table shows.
  const auto support = [&](i64 n) { return cell(std::to_string(n) + (any_right ? "" : ".0")); };
  const auto line = [&](const Row& r) {
    return right_aligned(r.name, width) + " " + cell(number(r.precision, digits)) +
           cell(number(r.recall, digits)) + cell(number(r.f1, digits)) + support(r.support) + "\n";
  };
  std::string out = std::string(width, ' ') + " ";
  for (const char* head : {"precision", "recall", "f1-score", "support"}) out += cell(head);
  out += "\n\n";
  for (const Row& r : classes) out += line(r);
  out += "\n";
  if (covers_all)
    out += right_aligned("accuracy", width) + " " + cell("") + cell("") +
           cell(number(micro.f1, digits)) + support(micro.support) + "\n";
  else
    out += line(micro);
  return out + line(macro) + line(weighted);
}

std::ostream& operator<<(std::ostream& out, const ClassificationReport& r) {
  return out << r.text();
}

}  // namespace wt::metrics
