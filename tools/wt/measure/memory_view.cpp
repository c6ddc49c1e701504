#include "warptape/tools/wt/measure/memory_view.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "warptape/core/plot.h"
#include "warptape/tools/wt/number_text.h"
#include "warptape/tools/wt/reports/terminal_text.h"

namespace wt::tools {
namespace {

// One letter a category, from the bottom of the stack up: what stays is below what comes and goes.
constexpr std::pair<Category, char> kStack[] = {
    {Category::parameter, 'p'}, {Category::optimizer, 'o'}, {Category::buffer, 'b'},
    {Category::dataset, 'd'},   {Category::gradient, 'g'},  {Category::activation, 'a'},
    {Category::workspace, 'w'}, {Category::other, '.'}};

template <class... A>
std::string line(const char* format, A... a) {
  char text[400];
  std::snprintf(text, sizeof text, format, a...);
  return std::string(text) + "\n";
}

double mib(i64 bytes) { return double(bytes) / 0x1p20; }

std::string change(i64 predicted, i64 measured) {
  if (measured == 0) return "";
  const double off = 100.0 * double(predicted - measured) / double(measured);
  char text[40];
  std::snprintf(text, sizeof text, "%+.2f %%", off);
  return predicted == measured ? "exact" : text;
}

bool is_activation(const memory::Holder& h) {
  return h.category == Category::activation || h.category == Category::workspace;
}

}  // namespace

std::string category_table(const MemoryUse& predicted, const MemoryUse* measured) {
  std::string text = measured ? line("%-12s %14s %14s", "at the peak", "predicted", "measured")
                              : line("%-12s %14s", "at the peak", "predicted");
  const auto row = [&](const char* name, i64 p, i64 m) {
    text += measured ? line("%-12s %10.2f MiB %10.2f MiB  %s", name, mib(p), mib(m),
                            change(p, m).c_str())
                     : line("%-12s %10.2f MiB", name, mib(p));
  };
  for (const auto& [category, letter] : kStack) {
    const i64 p = predicted.peak.by_category[size_t(category)];
    const i64 m = measured ? measured->peak.by_category[size_t(category)] : 0;
    if (p || m) row(category_name(category), p, m);
  }
  row("sum", predicted.peak.bytes, measured ? measured->peak.bytes : 0);
  if (measured)
    text += line("%-12s %14s %10.2f MiB  kept by the pools, in no tensor", "cache", "",
                 mib(measured->pooled));
  return text;
}

std::string holder_tables(const MemoryUse& use, int rows) {
  struct Sum {
    i64 bytes = 0, blocks = 0;
  };
  std::map<std::string, Sum> by_operator;
  i64 activations = 0;
  for (const memory::Holder& h : use.holders) {
    if (!is_activation(h)) continue;
    const OpInfo* op = h.backward ? h.backward : h.op;
    Sum& s =
        by_operator[(op ? std::string(op->name) : "no operator") + (h.backward ? ".backward" : "")];
    s.bytes += h.bytes, s.blocks += h.blocks, activations += h.bytes;
  }
  std::vector<std::pair<std::string, Sum>> sorted(by_operator.begin(), by_operator.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  const auto row = [](i64 bytes, i64 blocks, i64 of, const std::string& name) {
    std::string text =
        line("%10.2f MiB %5.1f %% %6lld", mib(bytes),
             100.0 * double(bytes) / double(std::max<i64>(of, 1)), static_cast<long long>(blocks));
    text.back() = ' ';
    return str(text, " ", printable_lines(name), "\n");
  };
  std::string text = line("activations at the peak, by operator: %.2f MiB", mib(activations));
  for (size_t i = 0; i < std::min(sorted.size(), size_t(rows)); ++i)
    text += row(sorted[i].second.bytes, sorted[i].second.blocks, activations, sorted[i].first);
  text += "\nall at the peak, by place\n";
  for (size_t i = 0; i < std::min(use.holders.size(), size_t(rows)); ++i) {
    const memory::Holder& h = use.holders[i];
    text += row(h.bytes, h.blocks, use.peak.bytes, str(category_name(h.category), "  ", h.title()));
  }
  return text;
}

std::string spared_table(const memory::SavedByRule& spared) {
  std::string text = line("spared in a step, by rule"), idle;
  for (int r = 0; r < memory::kNumSavingRules; ++r) {
    const auto rule = memory::SavingRule(r);
    const memory::SavedBytes& s = spared[rule];
    if (s.tensors == 0)
      idle += str(idle.empty() ? "" : ", ", memory::saving_rule_name(rule));
    else
      text += line("%10.2f MiB %6lld tensors  %s", mib(s.bytes), static_cast<long long>(s.tensors),
                   memory::saving_rule_name(rule));
  }
  return idle.empty() ? text : text + line("nothing by %s", idle.c_str());
}

std::string draw_timeline(const std::vector<memory::Level>& levels, int columns, int rows) {
  i64 most = 1;
  for (const memory::Level& l : levels) most = std::max(most, l.bytes);
  const auto n = i64(levels.size());
  columns = int(std::min<i64>(columns, std::max<i64>(n, 1)));
  std::vector<std::string> grid(size_t(rows), std::string(size_t(columns), ' '));
  for (i64 c = 0; c < columns && n > 0; ++c) {
    const auto from = levels.begin() + n * c / columns, to = levels.begin() + n * (c + 1) / columns;
    const memory::Level& l = *std::max_element(
        from, to, [](const memory::Level& a, const memory::Level& b) { return a.bytes < b.bytes; });
    i64 below = 0;
    for (const auto& [category, letter] : kStack) {
      const i64 above = below + std::max<i64>(0, l.by_category[size_t(category)]);
      // A cell belongs to what lies at its middle.
      for (int r = 0; r < rows; ++r) {
        const double middle = (r + 0.5) * double(most) / rows;
        if (middle > double(below) && middle <= double(above)) grid[size_t(r)][size_t(c)] = letter;
      }
      below = above;
    }
  }
  std::string text;
  for (int r = rows - 1; r >= 0; --r) {
    const bool labelled = r == rows - 1 || r == rows / 2 || r == 0;
    char label[32];
    std::snprintf(label, sizeof label, "%10.2f", mib(most) * (r + 1) / rows);
    text += str(labelled ? label : "          ", " |", grid[size_t(r)], "\n");
  }
  text += "       MiB +" + std::string(size_t(columns), '-') + "\n           ";
  for (const auto& [category, letter] : kStack)
    for (const memory::Level& l : levels)
      if (l.by_category[size_t(category)] > 0) {
        text += str(" ", std::string(1, letter), " ", category_name(category));
        break;
      }
  return text + "; to the right: allocations and releases\n";
}

void write_timeline(const std::string& path, const std::string& title,
                    const std::vector<memory::Level>& levels) {
  std::vector<PlotSeries> series;
  const auto add = [&](const char* name, const auto& of) {
    std::vector<double> values;
    for (const memory::Level& l : levels) values.push_back(mib(of(l)));
    if (*std::max_element(values.begin(), values.end()) > 0) series.emplace_back(name, values);
  };
  add("all", [](const memory::Level& l) { return l.bytes; });
  for (const auto& [category, letter] : kStack)
    add(category_name(category),
        [c = size_t(category)](const memory::Level& l) { return l.by_category[c]; });
  plot(std::move(series), {.title = title,
                           .x = "allocations and releases, in stretches",
                           .y = "MiB",
                           .from_zero = true})
      .svg(path);
}

}  // namespace wt::tools
