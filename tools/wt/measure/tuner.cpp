#include "warptape/tools/wt/measure/tuner.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "warptape/core/error.h"
#include "warptape/core/files/atomic_file.h"
#include "warptape/core/files/html_page.h"
#include "warptape/tools/wt/reports/report_style.h"
#include "warptape/tools/wt/reports/svg_chart.h"

namespace wt::tools {
namespace {

constexpr int kRepeats = 3;             // launches whose values have to be equal to the last bit
constexpr double kLongSeconds = 0.3;    // a launch that takes longer is not repeated for that
constexpr const char* kOperands = "-";  // tried before the variants of a task

// What is tried right now, beside the file: whoever finds it knows what was tried as a process
// ended.
class Note {
 public:
  explicit Note(const std::string& path) : path_(path + ".trying") {}
  void write(const TuneRow& r, const std::string& fault = {}) const {
    write_file_atomically(
        path_, str(r.contract, "\t", r.dtype, "\t", r.size, "\t", r.variant, "\t", fault, "\n"),
        {.durable = false});
  }
  void remove() const {
    std::error_code gone;
    std::filesystem::remove(path_, gone);
  }
  bool read(TuneRow& r, std::string& fault) const {
    std::ifstream in(path_);
    return std::getline(in, r.contract, '\t') && std::getline(in, r.dtype, '\t') &&
           std::getline(in, r.size, '\t') && std::getline(in, r.variant, '\t') &&
           std::getline(in, fault);
  }

 private:
  std::string path_;
};

using TaskKey = std::string;
TaskKey key_of(const std::string& contract, const std::string& dtype, const std::string& size) {
  return str(contract, "\t", dtype, "\t", size);
}

class Tuner {
 public:
  Tuner(TuneFile& file, const TuneOptions& o) : file_(file), o_(o), note_(o.path) {
    for (const TuneRow& r : file.rows) {
      if (!ended_process(r)) done_.insert(key_of(r.contract, r.dtype, r.size));
      if (r.verdict != TuneVerdict::right) bad_.insert({r.contract, r.variant});
    }
    take_note();
  }

  bool run(const std::vector<TuneTask>& tasks) {
    size_t n = 0;
    for (const TuneTask& t : tasks) {
      if (o_.stopped && o_.stopped()) break;
      if (!done_.contains(key_of(t.contract, t.dtype, t.size))) one(t);
      ++n;
      if (o_.done) o_.done(n);
    }
    file_.complete = n == tasks.size();
    write();
    return file_.complete;
  }

 private:
  void write() const { write_file_atomically(o_.path, file_.text()); }

  // Its row goes into the file at once: the task has none yet, and may end this process too.
  void take_note() {
    TuneRow r;
    std::string fault;
    if (!note_.read(r, fault)) return;
    if (!fault.empty()) {
      r.verdict = TuneVerdict::failed, r.shape = fault;
      bad_.insert({r.contract, r.variant});
      if (r.variant == kOperands) done_.insert(key_of(r.contract, r.dtype, r.size));
      if (o_.found) o_.found(r);
      file_.rows.push_back(r);
      write();
    }
    note_.remove();
  }
  // The other variants of such a row's task have still to be tried.
  static bool ended_process(const TuneRow& r) {
    return r.variant != kOperands && (r.shape == kTuneEnded || r.shape == kTuneHung);
  }

  void one(const TuneTask& t) {
    TuneRow r;
    r.contract = t.contract, r.dtype = t.dtype, r.size = t.size, r.variant = kOperands;
    std::vector<TuneRow> rows;
    try {
      const auto noted = [&](const auto& work) {
        note_.write(r);
        with_blame(r, work);
        note_.remove();
      };
      TuneSubject s;
      noted([&] { s = t.make(); });
      r.shape = s.shape, r.bytes = s.bytes;
      std::optional<std::vector<double>> want;
      if (!s.first_is_right) want = s.want;
      for (const TuneVariant& v : s.variants) {
        if (bad_.contains({t.contract, v.name})) continue;
        TuneRow mine = r;
        mine.variant = r.variant = v.name;
        noted([&] { judge(s, v, want, mine); });
        if (mine.verdict != TuneVerdict::right) bad_.insert({t.contract, v.name});
        if (o_.found) o_.found(mine);
        rows.push_back(mine);
      }
    } catch (const OutOfMemory& e) {  // of operands: a smaller device has the other sizes
      note_.remove();
      std::fprintf(stderr, "%s %s %s: out of memory\n", t.contract.c_str(), t.dtype.c_str(),
                   t.size.c_str());
    }
    if (rows.empty()) return;
    file_.rows.insert(file_.rows.end(), rows.begin(), rows.end());
    file_.complete = false;
    write();
  }

  // This process gets nothing more done on a device that is lost.
  template <class Work>
  void with_blame(const TuneRow& r, const Work& work) const {
    try {
      work();
    } catch (const DeviceError&) {
      note_.write(r, kTuneEnded);
      throw;
    }
  }

  void judge(const TuneSubject& s, const TuneVariant& v, std::optional<std::vector<double>>& want,
             TuneRow& r) const {
    try {
      const auto begin = std::chrono::steady_clock::now();
      const std::vector<double> first = v.values();
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      if (!want) want = first;
      if (!(tune_error(first, *want) <= s.tolerance)) {
        r.verdict = TuneVerdict::wrong;
        return;
      }
      const int repeats = v.deterministic && took.count() < kLongSeconds ? kRepeats : 1;
      for (int i = 1; i < repeats; ++i)
        if (!same_bits(v.values(), first)) r.verdict = TuneVerdict::unequal;
      if (r.verdict != TuneVerdict::right || !v.time) return;
      const TuneTime t = v.time();
      r.median_us = t.median_us, r.spread = t.spread, r.fraction = t.fraction, r.bound = t.bound;
    } catch (const DeviceError&) {
      throw;
    } catch (const OutOfMemory&) {
      r.shape += ", out of memory";  // says nothing of the variant
    } catch (const Error&) {
      r.verdict = TuneVerdict::failed;
    }
  }
  static bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
    return a.size() == b.size() &&
           std::equal(a.begin(), a.end(), b.begin(), [](double x, double y) {
             return x == y || (std::isnan(x) && std::isnan(y));
           });
  }

  TuneFile& file_;
  const TuneOptions& o_;
  Note note_;
  std::set<TaskKey> done_;
  std::set<std::pair<std::string, std::string>> bad_;  // contract, variant
};

// Rows of one task, the fastest first and what is wrong last.
std::vector<std::vector<TuneRow>> by_task(const TuneFile& file) {
  std::vector<std::vector<TuneRow>> groups;
  std::map<TaskKey, size_t> at;
  for (const TuneRow& r : file.rows) {
    const auto [where, is_new] = at.try_emplace(key_of(r.contract, r.dtype, r.size), groups.size());
    if (is_new) groups.emplace_back();
    groups[where->second].push_back(r);
  }
  for (std::vector<TuneRow>& g : groups)
    std::stable_sort(g.begin(), g.end(), [](const TuneRow& a, const TuneRow& b) {
      const bool timed_a = a.median_us > 0, timed_b = b.median_us > 0;
      return timed_a != timed_b ? timed_a : a.median_us < b.median_us;
    });
  return groups;
}

// Groups that say something: timed, or with a variant that is not right.
bool is_news(const std::vector<TuneRow>& g) {
  return std::any_of(g.begin(), g.end(), [](const TuneRow& r) {
    return r.median_us > 0 || r.verdict != TuneVerdict::right;
  });
}

std::string percent(double v) {
  char text[16];
  std::snprintf(text, sizeof text, "%.0f %%", 100 * v);
  return text;
}
std::string microseconds(double us) {
  char text[32];
  std::snprintf(text, sizeof text, us < 100 ? "%.1f us" : "%.0f us", us);
  return text;
}

}  // namespace

const std::vector<std::string>& tune_order() {
  static const std::vector<std::string> kOrder{"matmul",
                                               "attention_forward",
                                               "attention_backward",
                                               "layer_norm_forward",
                                               "layer_norm_backward_input",
                                               "layer_norm_backward_params",
                                               "add_layer_norm_forward",
                                               "add_layer_norm_backward_input",
                                               "rms_norm_forward",
                                               "rms_norm_backward_input",
                                               "softmax_forward",
                                               "softmax_backward",
                                               "cross_entropy_forward",
                                               "cross_entropy_backward",
                                               "conv_forward",
                                               "conv_backward_input",
                                               "conv_backward_weight",
                                               "channel_stats",
                                               "channel_norm_forward",
                                               "channel_norm_sums",
                                               "channel_norm_backward",
                                               "adamw_step",
                                               "adam_step",
                                               "sgd_step",
                                               "grad_norm",
                                               "gelu_tanh",
                                               "gelu_tanh_backward",
                                               "gelu",
                                               "gelu_backward",
                                               "relu",
                                               "relu_backward",
                                               "add",
                                               "mul",
                                               "copy",
                                               "embedding_forward",
                                               "embedding_backward",
                                               "sum",
                                               "dropout",
                                               "max_pool_forward",
                                               "max_pool_backward",
                                               "image_batch"};
  return kOrder;
}

double tune_error(const std::vector<double>& got, const std::vector<double>& want) {
  if (got.size() != want.size()) return std::numeric_limits<double>::infinity();
  double error = 0, norm = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(want[i]) && std::isnan(got[i])) continue;
    if (std::isinf(want[i]) && got[i] == want[i]) continue;
    error += (got[i] - want[i]) * (got[i] - want[i]);
    norm += want[i] * want[i];
  }
  if (!(error >= 0)) return std::numeric_limits<double>::infinity();
  return error == 0 ? 0 : std::sqrt(error / std::max(norm, 1e-300));
}

void blame_noted(const std::string& path, const std::string& fault) {
  const Note note(path);
  TuneRow r;
  std::string old;
  if (note.read(r, old)) note.write(r, fault);
}

bool tune(const std::vector<TuneTask>& tasks, TuneFile& file, const TuneOptions& o) {
  return Tuner(file, o).run(tasks);
}

std::string tune_table(const TuneFile& file) {
  std::string out;
  char line[256];
  int right = 0, off = 0;
  for (const TuneRow& r : file.rows) (r.verdict == TuneVerdict::right ? right : off) += 1;
  for (const std::vector<TuneRow>& g : by_task(file)) {
    if (!is_news(g)) continue;
    for (const TuneRow& r : g) {
      const bool first = &r == &g[0], timed = r.median_us > 0;
      std::snprintf(line, sizeof line, "%-26s %-5s %-24s %-14s %10s %8s  %s\n",
                    first ? r.contract.c_str() : "", first ? r.dtype.c_str() : "",
                    first ? r.shape.c_str() : "", r.variant.c_str(),
                    timed ? microseconds(r.median_us).c_str() : "-",
                    r.fraction > 0 ? percent(r.fraction).c_str() : "",
                    r.verdict == TuneVerdict::right
                        ? r.bound.c_str()
                        : str("OFF: ", tune_verdict_name(r.verdict)).c_str());
      out += line;
    }
  }
  return out + str(right, " results right, ", off, " variants off\n");
}

std::string tune_page(const TuneFile& file) {
  std::string rows;
  for (const std::vector<TuneRow>& g : by_task(file)) {
    if (!is_news(g)) continue;
    for (const TuneRow& r : g) {
      const bool first = &r == &g[0], good = r.verdict == TuneVerdict::right;
      const double width = std::min(100.0, 100 * r.fraction);
      rows += str("<tr><th scope=\"row\">", first ? html_escape(r.contract) : "", "</th><td>",
                  first ? r.dtype : "", "</td><td>", first ? html_escape(r.shape) : "", "</td><td>",
                  html_escape(r.variant), "</td><td>",
                  r.median_us > 0 ? microseconds(r.median_us) : "-", "</td><td class=\"bar\">");
      if (good && r.fraction > 0)
        rows += str("<i style=\"width:", width, "%\"></i><span>", percent(r.fraction), " of ",
                    html_escape(r.bound), "</span>");
      else if (!good)
        rows += str("<b class=\"code\">off: ", tune_verdict_name(r.verdict), "</b>");
      rows += "</td></tr>\n";
    }
  }
  const std::string bars =
      str(kReportStyle,
          ".bar{position:relative;min-width:220px;text-align:left}"
          ".bar i{position:absolute;left:12px;top:5px;bottom:5px;background:var(--train);"
          "opacity:.35;border-radius:3px;max-width:calc(100% - 12px)}.bar span{position:relative;"
          "padding-left:6px}");
  return str(
      page_begin({.title = "wt tune", .style = bars}), "<main><h1>Variants on ",
      html_escape(file.device), "</h1>\n<p class=\"sub\">warptape ", html_escape(file.version),
      ", driver for CUDA ", html_escape(file.driver.empty() ? "-" : file.driver), ", ",
      html_escape(file.date),
      file.copy_gb_s > 0 ? str(", a copy reaches ", std::llround(file.copy_gb_s), " GB/s") : "",
      "</p>\n<section class=\"card wide\"><table class=\"numbers\"><thead><tr><th>kernel</th>"
      "<th>dtype</th><th>shape</th><th>variant</th><th>median</th><th class=\"bar\">of the "
      "ceiling</th></tr></thead><tbody>\n",
      rows, "</tbody></table></section></main>", page_end());
}

}  // namespace wt::tools
