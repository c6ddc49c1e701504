#include "warptape/tools/wt/look/source_counts.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "warptape/core/str.h"

namespace wt::tools {
namespace {

struct Place {
  std::string path;
  int line = 0;
};
Place place_of(const std::string& where) {
  const size_t colon = where.rfind(':');
  if (colon == where.npos) return {where, 0};
  return {where.substr(0, colon), std::atoi(where.c_str() + colon + 1)};
}

// The kernel's own line: the outermost in a .cu file.
Place kernel_line(const SimtAccess& a) {
  for (auto w = a.where.rbegin(); w != a.where.rend(); ++w)
    if (Place p = place_of(*w); p.path.ends_with(".cu")) return p;
  return a.where.empty() ? Place{"?", 0} : place_of(a.where.back());
}

using Lines = std::map<std::string, std::map<int, CountedLine>>;

CountedLine& line_at(Lines& all, const Place& p) {
  CountedLine& line = all[p.path][p.line];
  line.number = p.line;
  return line;
}

void add(CountedLine& line, const SimtAccess& a, const std::string& via) {
  const auto same = [&](const LineAccess& l) {
    return l.shared == a.shared && l.kind == a.kind && l.bytes == a.bytes && l.via == via;
  };
  auto at = std::find_if(line.accesses.begin(), line.accesses.end(), same);
  if (at == line.accesses.end())
    at = line.accesses.insert(
        at, {.shared = a.shared, .kind = a.kind, .bytes = a.bytes, .via = via, .first = a.first});
  at->requests += double(a.requests), at->lanes += double(a.lanes);
  at->units += double(a.units), at->least += double(a.least);
}

void add(CountedLine& line, const SimtWait& w) {
  for (LineWait& l : line.waits)
    if (l.what == w.what) {
      l.warps += double(w.warps);
      return;
    }
  line.waits.push_back({w.what, double(w.warps)});
}

// Waits know their file by its name alone.
std::string whole_path(const Lines& all, const std::string& name) {
  for (const auto& [path, lines] : all)
    if (base_name(path) == base_name(name)) return path;
  return name;
}

constexpr int kLinesAround = 5, kKernelHead = 60;

// Where the kernel that has this line begins; the line itself if that is not to be seen.
int head_of(const std::vector<std::string>& text, int line) {
  for (int i = line; i >= std::max(1, line - kKernelHead); --i) {
    if (size_t(i) > text.size() || text[size_t(i) - 1].find("__global__") == std::string::npos)
      continue;
    while (i > 1 &&
           (text[size_t(i) - 2].starts_with("template") || text[size_t(i) - 2].starts_with("//")))
      --i;
    return i;
  }
  return line;
}

// Some lines behind one, or where its function ends before that.
int end_near(const std::vector<std::string>& text, int line) {
  const int last = std::min<int>(line + kLinesAround, int(text.size()));
  for (int i = line; i <= last; ++i)
    if (text[size_t(i) - 1] == "}") return i;
  return last;
}

}  // namespace

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string LineAccess::name() const {
  static const char* const kinds[] = {"load", "store", "atomic"};
  return str(shared ? "shared " : "device ", kinds[int(kind)], ", ", bytes,
             bytes == 1 ? " byte a lane" : " bytes a lane");
}

std::vector<CountedFile> counts_by_line(const SimtKernelCounts& k) {
  Lines all;
  for (const SimtAccess& a : k.accesses) {
    const Place at = kernel_line(a);
    const Place inner = a.where.empty() ? at : place_of(a.where.front());
    const bool own = inner.path == at.path && inner.line == at.line;
    add(line_at(all, at), a, own ? "" : str(base_name(inner.path), ":", inner.line));
  }
  for (const SimtWait& w : k.waits) {
    Place at = place_of(w.where);
    at.path = whole_path(all, at.path);
    add(line_at(all, at), w);
  }
  std::vector<CountedFile> files;
  std::vector<double> requests;
  for (auto& [path, lines] : all) {
    CountedFile f{path};
    for (auto& [number, line] : lines) f.lines.push_back(std::move(line));
    files.push_back(std::move(f));
  }
  const auto sum = [](const CountedFile& f) {
    double all = 0;
    for (const CountedLine& l : f.lines)
      for (const LineAccess& a : l.accesses) all += a.requests;
    return all;
  };
  std::stable_sort(files.begin(), files.end(),
                   [&](const CountedFile& a, const CountedFile& b) { return sum(a) > sum(b); });
  return files;
}

std::vector<ListedLine> listed_lines(const CountedFile& f, const std::vector<std::string>& text) {
  std::map<int, const CountedLine*> all;
  for (const CountedLine& l : f.lines) {
    const int last = all.empty() ? 0 : all.rbegin()->first;
    int from = l.number, to = l.number;
    if (l.number >= 1 && !text.empty()) {
      from -= kLinesAround, to = std::max(to, end_near(text, l.number));
      // From a kernel's head to its first count there may be more; what lies before is another's.
      if (const int head = head_of(text, l.number);
          head < l.number && head > from - kKernelHead && head > last)
        from = head;
      if (last > 0 && from == last + 2) --from;  // no gap of one line
    }
    for (int i = std::max(from, 1); i <= to; ++i) all.try_emplace(i);
    all[l.number] = &l;
  }
  std::vector<ListedLine> lines;
  for (const auto& [number, counts] : all) lines.push_back({number, counts});
  return lines;
}

}  // namespace wt::tools
