#include "warptape/tools/wt/reports/run_diff.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace wt::tools {
namespace {

// The step of one unit in the last place at 1.
double epsilon_of(DType t) {
  switch (t) {
    case DType::f64:
      return 0x1p-52;
    case DType::f32:
      return 0x1p-23;
    case DType::f16:
      return 0x1p-10;
    case DType::bf16:
      return 0x1p-7;
    case DType::f8_e4m3:
      return 0x1p-3;
    case DType::f8_e5m2:
      return 0x1p-2;
    default:
      return 0;
  }
}

std::string what_of(const record::Step& s, const record::Entry& e) {
  const std::string& op = s.text(e.op);
  if (e.what == record::What::noted) return op;
  if (e.what == record::What::gradient)
    return str("gradient of input ", e.index, " of ", op, e.sum ? ", and of others before" : "");
  std::string text = e.index ? str(op, ", output ", e.index) : op;
  return e.backward ? str(text, ", in the backward of ", s.text(e.inside)) : text;
}

DiffSide side_of(const record::Step& s, const record::Entry& e) {
  return {s.text(e.line), s.text(e.kernel), e.dtype, e.shape, e.digest};
}

double relative_difference(const record::Entry& a, const record::Entry& b) {
  const record::Digest &x = a.digest, &y = b.digest;
  if (a.dtype == b.dtype && x.hash == y.hash) return 0;
  if (x.nonfinite != y.nonfinite) return std::numeric_limits<double>::infinity();
  double squares = 0;
  for (size_t k = 0; k < x.sketch.size(); ++k) {
    const double d = x.sketch[k] - y.sketch[k];
    squares += d * d;
  }
  const double size = std::sqrt(double(a.numel())) * std::max(x.rms, y.rms);
  return size > 0 ? std::sqrt(squares) / size : 0;
}

class RunComparison {
 public:
  RunComparison(record::RecordingFile& a, record::RecordingFile& b, const RunDiffOptions& o)
      : a_(a), b_(b), o_(o) {
    out_.partial_batches = a.header().ranks != b.header().ranks;
  }

  RunDiff run() {
    record::Step a, b;
    bool more_a = a_.next(a), more_b = b_.next(b);
    while (more_a && more_b) {
      if (a.number == b.number) compare(a, b);
      const bool next_a = a.number <= b.number, next_b = b.number <= a.number;
      if (!next_b) ++out_.steps_only_a;
      if (!next_a) ++out_.steps_only_b;
      if (next_a) more_a = a_.next(a);
      if (next_b) more_b = b_.next(b);
    }
    for (; more_a; more_a = a_.next(a)) ++out_.steps_only_a;
    for (; more_b; more_b = b_.next(b)) ++out_.steps_only_b;
    out_.cut_a = a_.cut_off();
    out_.cut_b = b_.cut_off();
    return std::move(out_);
  }

 private:
  // Of other numbers of ranks, what is computed of a part of a batch has its own values on each.
  bool left_out(const record::Entry& e) const {
    return out_.partial_batches && e.what != record::What::noted;
  }

  void compare(const record::Step& a, const record::Step& b) {
    const std::vector<AlignedPair> pairs = align(a, b);
    DiffStep sum{.step = a.number};
    for (const AlignedPair& p : pairs) {
      if (p.a < 0 || p.b < 0) {
        ++(p.a < 0 ? sum.only_b : sum.only_a);
        const record::Entry& one = p.a < 0 ? b.entries[size_t(p.b)] : a.entries[size_t(p.a)];
        coarsest_ = coarser(coarsest_, one.dtype);
        continue;
      }
      const record::Entry &x = a.entries[size_t(p.a)], &y = b.entries[size_t(p.b)];
      coarsest_ = coarser(coarsest_, coarser(x.dtype, y.dtype));
      ++sum.aligned;
      if (!left_out(x)) count(sum, a, p.a, x, b, y);
    }
    if (out_.steps.empty()) say_where_it_ends(a, b, pairs, sum.aligned);
    out_.steps.push_back(sum);
  }

  void count(DiffStep& sum, const record::Step& a, i64 place, const record::Entry& x,
             const record::Step& b, const record::Entry& y) {
    const bool comparable = x.shape == y.shape;
    const bool same_bits = comparable && x.dtype == y.dtype && x.digest.hash == y.digest.hash;
    if (same_bits) return;
    ++sum.other_bits;
    DiffPlace d{.step = a.number,
                .place = place + 1,
                .what = what_of(a, x),
                .module = a.text(x.module),
                .backward = x.backward,
                .a = side_of(a, x),
                .b = side_of(b, y),
                .same_bits = false,
                .comparable = comparable,
                .relative = comparable ? relative_difference(x, y) : 0,
                .judged_as = coarsest_,
                .bound = o_.bound * bound_of(coarsest_)};
    double& most = x.what == record::What::noted ? sum.noted
                   : x.backward                  ? sum.backward
                                                 : sum.forward;
    most = std::max(most, d.relative);
    if (!out_.first_bits) out_.first_bits = d;
    if (out_.first_bits->step == a.number) grow(d);
    if (!d.beyond()) return;
    ++sum.beyond;
    if (!out_.first_beyond) out_.first_beyond = std::move(d);
  }

  void grow(const DiffPlace& d) {
    if (!d.comparable) return;
    if (d.relative > 0 && std::isfinite(d.relative))
      (d.backward ? out_.backward : out_.forward).emplace_back(double(d.place), d.relative);
    if (out_.growth.empty() || d.relative > out_.growth.back().relative) out_.growth.push_back(d);
  }

  static std::string named(const record::Step& s, i64 place) {
    if (place >= i64(s.entries.size())) return "its end";
    const record::Entry& e = s.entries[size_t(place)];
    std::string text = what_of(s, e);
    if (!s.text(e.module).empty()) text = s.text(e.module) + ": " + text;
    if (!s.text(e.line).empty()) text += " <- " + s.text(e.line);
    return text;
  }

  void say_where_it_ends(const record::Step& a, const record::Step& b,
                         const std::vector<AlignedPair>& pairs, i64 aligned) {
    out_.results_a = i64(a.entries.size());
    out_.results_b = i64(b.entries.size());
    out_.aligned = aligned;
    const i64 shorter = std::min(out_.results_a, out_.results_b);
    out_.related = aligned > 0 && 2 * aligned >= shorter;
    AlignedPair last{-1, -1};
    for (const AlignedPair& p : pairs)
      if (p.a >= 0 && p.b >= 0) last = p;
    const i64 rest = std::max(out_.results_a - last.a, out_.results_b - last.b) - 1;
    if (out_.related && 10 * rest <= shorter) return;  // a cast or two
    out_.ends = last.a < 0 ? std::string("nothing is in both")
                           : str("the last in both is ", named(a, last.a));
    out_.ends += str("; then A has ", named(a, last.a + 1), ", B ", named(b, last.b + 1));
  }

  record::RecordingFile &a_, &b_;
  RunDiffOptions o_;
  DType coarsest_ = DType::i64;
  RunDiff out_;
};

}  // namespace

double bound_of(DType t) {
  switch (t) {
    case DType::f64:
      return 1e-12;
    case DType::f32:
      return 1e-5;
    case DType::f16:
      return 1e-2;
    case DType::bf16:
      return 8e-2;
    default:
      return is_floating(t) ? 0.5 : 0;
  }
}

DType coarser(DType a, DType b) { return epsilon_of(b) > epsilon_of(a) ? b : a; }

RunDiff diff_runs(record::RecordingFile& a, record::RecordingFile& b, const RunDiffOptions& o) {
  return RunComparison(a, b, o).run();
}

}  // namespace wt::tools
