#include "warptape/bench/counters.h"

#include <algorithm>
#include <cstdio>
#include <map>

namespace wt::bench {
namespace {

CounterRow count(const Problem& p, const VariantRun& v) {
  CounterRow row{.contract = p.contract,
                 .variant = v.name,
                 .shape = p.shape,
                 .dtype = dtype_name(p.dtype),
                 .bytes = p.bytes,
                 .flops = p.flops};
  simt_start_counting();
  try {
    v.launch(0);
  } catch (...) {
    simt_stop_counting();
    throw;
  }
  row.kernels = simt_stop_counting();
  for (const SimtKernelCounts& k : row.kernels) {
    row.threads += double(k.threads), row.barriers += double(k.barriers);
    row.read += double(k.read), row.written += double(k.written);
    for (const SimtAccess& a : k.accesses)
      (a.shared ? row.shared : a.kind == SimtAccess::Kind::load ? row.loads : row.stores).add(a);
  }
  return row;
}

struct Place {
  std::string path;
  int line = 0;
};
Place place_of(const std::string& where) {
  const size_t colon = where.rfind(':');
  if (colon == where.npos) return {where, 0};
  return {where.substr(0, colon), std::atoi(where.c_str() + colon + 1)};
}
std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// The kernel's own line: the outermost in a .cu file.
Place kernel_line(const SimtAccess& a) {
  for (auto w = a.where.rbegin(); w != a.where.rend(); ++w)
    if (const Place p = place_of(*w); p.path.ends_with(".cu")) return p;
  return a.where.empty() ? Place{"?", 0} : place_of(a.where.back());
}

// What one line of a listing says: instructions of the same kind at the same place are one.
struct LineKey {
  std::string path;
  int line;
  std::string via;  // the helper that makes the access
  bool shared;
  SimtAccess::Kind kind;
  unsigned bytes;
  auto operator<=>(const LineKey&) const = default;
};

std::string annotation(const LineKey& key, const AccessSums& s) {
  static const char* const names[] = {"load", "store", "atomic"};
  char text[160];
  std::snprintf(text, sizeof text, "%-6s %-6s %2u B %8.0f x %4.1f lanes %6.2f of %5.2f%s",
                key.shared ? "shared" : "device", names[int(key.kind)], key.bytes, s.requests,
                s.lanes / s.requests, s.units / s.requests, s.least / s.requests,
                s.units > 1.5 * s.least ? " <-" : "   ");
  return text;
}

using Lines = std::map<LineKey, AccessSums>;

Lines lines_of(const SimtKernelCounts& k) {
  Lines lines;
  for (const SimtAccess& a : k.accesses) {
    const Place at = kernel_line(a);
    const Place inner = a.where.empty() ? at : place_of(a.where.front());
    const bool own = inner.path == at.path && inner.line == at.line;
    lines[{at.path, at.line, own ? "" : str(base_name(inner.path), ":", inner.line), a.shared,
           a.kind, a.bytes}]
        .add(a);
  }
  return lines;
}

constexpr int kAround = 2;  // lines of source before and behind one with accesses
constexpr int kWidth = 62;  // of an annotation

std::string text_of(const std::vector<std::string>& source, int line) {
  return line >= 1 && size_t(line) <= source.size() ? source[size_t(line) - 1] : "";
}

}  // namespace

void count_kernels(const CounterOptions& o, const std::function<void(const CounterRow&)>& done) {
  for (const ProblemRow& row : problem_rows()) {
    if (!o.only.empty() && std::find(o.only.begin(), o.only.end(), row.contract) == o.only.end())
      continue;
    if (std::find(row.dtypes.begin(), row.dtypes.end(), o.dtype) == row.dtypes.end()) continue;
    for (int shape = 0; shape < row.shapes; ++shape) {
      if (o.shape >= 0 && o.shape != shape) continue;
      const Problem p = row.make(Device::simt(), o.dtype, o.scale, shape, 1);
      for (auto v = p.variants.rbegin(); v != p.variants.rend(); ++v)  // the plainest first
        if (!v->why_not() && (o.variant.empty() || o.variant == v->name) &&
            (!o.defaults || v->name == p.chosen))
          done(count(p, *v));
    }
  }
}

std::string annotated_listing(
    const CounterRow& row,
    const std::function<std::vector<std::string>(const std::string& path)>& find) {
  std::string text;
  char buffer[256];
  for (const SimtKernelCounts& k : row.kernels) {
    std::snprintf(buffer, sizeof buffer, "%llu x, %llu blocks, %llu threads",
                  (unsigned long long)k.launches, (unsigned long long)k.blocks,
                  (unsigned long long)k.threads);
    text += str("\n", k.kernel, ": ", buffer, "\n");
    const Lines lines = lines_of(k);
    std::string path;
    std::vector<std::string> source;
    int shown = 0;
    const auto show_source = [&](int from, int to) {
      for (int i = std::max(from, shown + 1); i <= to && size_t(i) <= source.size(); ++i) {
        std::snprintf(buffer, sizeof buffer, "%*s|%5d| ", kWidth, "", i);
        text += buffer + text_of(source, i) + "\n";
      }
      shown = std::max(shown, to);
    };
    for (auto l = lines.begin(); l != lines.end(); ++l) {
      const LineKey& key = l->first;
      if (key.path != path) {
        if (!path.empty()) show_source(shown + 1, shown + kAround);
        path = key.path;
        source = find(path);
        shown = 0;
        text += base_name(path) + "\n";
      }
      if (key.line > shown) {
        if (shown) show_source(shown + 1, std::min(shown + kAround, key.line - 1));
        if (shown && key.line - kAround > shown + 1) text += std::string(kWidth, ' ') + "|  ...|\n";
        show_source(key.line - kAround, key.line - 1);
      }
      const bool first = key.line > shown;
      std::snprintf(buffer, sizeof buffer, "%-*s|", kWidth, annotation(key, l->second).c_str());
      text += buffer;
      if (first) {
        std::snprintf(buffer, sizeof buffer, "%5d| ", key.line);
        text += buffer + text_of(source, key.line);
      } else {
        text += "     |";
      }
      if (!key.via.empty()) text += "  // in " + key.via;
      text += "\n";
      shown = std::max(shown, key.line);
    }
    if (!path.empty()) show_source(shown + 1, shown + kAround);
  }
  return text;
}

}  // namespace wt::bench
