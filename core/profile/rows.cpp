#include "warptape/core/profile/rows.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "warptape/core/str.h"

namespace wt::profiler {

i64 time_on_device(const Event& e) {
  if (e.kind != Kind::kernel) return 0;
  return e.device_ns() > 0 ? e.device_ns() : e.device.kind == DeviceKind::cuda ? 0 : e.host_ns();
}
bool has_device_times(const Event& e) { return e.device_ns() > 0; }

namespace {

constexpr u32 kNone = Profile::Data::kNone;

// What an event has with those inside of it.
struct Inclusive {
  double bytes = 0, flops = 0;
  i64 device_ns = 0, memory = 0;
};

std::vector<Inclusive> with_those_inside(const Profile::Data& d) {
  std::vector<Inclusive> all(d.events.size());
  for (size_t i = d.events.size(); i-- > 0;) {  // what is inside has a higher place
    const Event& e = d.events[i];
    Inclusive& own = all[i];
    own.bytes += e.bytes;
    own.flops += e.flops;
    own.device_ns += time_on_device(e);
    own.memory += e.allocated - e.released;
    if (d.parents[i] == kNone) continue;
    Inclusive& outer = all[d.parents[i]];
    outer.bytes += own.bytes;
    outer.flops += own.flops;
    outer.device_ns += own.device_ns;
    outer.memory += own.memory;
  }
  return all;
}

// What a row's ranges have in common or not: a name that they all have, or the first and how many.
class Common {
 public:
  void add(u32 id) {
    if (id && std::find(ids_.begin(), ids_.end(), id) == ids_.end() && ids_.size() < 1000)
      ids_.push_back(id);
  }
  size_t size() const { return ids_.size(); }
  u32 first() const { return ids_.empty() ? 0 : ids_[0]; }

 private:
  std::vector<u32> ids_{};
};

// A kernel of a graph whose operator is known.
bool of_replay(const Event& e) { return e.device_only && e.op; }

class Gatherer {
 public:
  explicit Gatherer(const Profile::Data& d) : d_(d), inclusive_(with_those_inside(d)) {
    backward_.resize(d.events.size());
    for (u32 i = 0; i < d.events.size(); ++i)  // those around come first
      backward_[i] = d.events[i].kind == Kind::backward || d.events[i].of_backward ||
                     (d.parents[i] != kNone && backward_[d.parents[i]]);
  }
  bool backward(u32 i) const { return backward_[i]; }

  // The row of a key, made at its first use.
  u32 row(const std::string& key, const std::string& name, u32 event) {
    const auto [at, fresh] = numbers_.try_emplace(key, u32(out_.rows.size()));
    if (fresh) {
      Row r;
      r.name = name;
      r.other_thread = d_.events[event].thread != 0;
      r.backward = backward_[event];
      add(std::move(r));
    }
    return at->second;
  }
  u32 add(Row r) {
    out_.rows.push_back(std::move(r));
    out_.loads.emplace_back();
    lines_.emplace_back();
    modules_.emplace_back();
    shapes_.emplace_back();
    return u32(out_.rows.size() - 1);
  }
  void count(u32 event, u32 to, bool call) {
    out_.of_event.push_back(to);
    const Event& e = d_.events[event];
    Row& r = out_.rows[to];
    r.calls += call;
    r.self_ns += e.self_ns();
    r.allocated += e.allocated;
    r.released += e.released;
    r.bytes += e.bytes;
    r.flops += e.flops;
    r.waited_ns += e.waited_ns;
    if (e.accesses) r.accesses += d_.accesses[e.accesses];
    lines_[to].add(e.frame);
    if (e.kind != Kind::kernel || of_replay(e)) {
      modules_[to].add(e.mode_id);
      shapes_[to].add(e.shapes);
    }
    count_load(event, r, out_.loads[to]);
  }
  // Its time is a part of the row's total, unless it is inside of another one of the row.
  void count_total(u32 event, u32 to) {
    Row& r = out_.rows[to];
    const Inclusive& all = inclusive_[event];
    r.total_ns += d_.events[event].host_ns();
    r.device_total_ns += all.device_ns;
    r.bytes_total += all.bytes;
    r.flops_total += all.flops;
    r.memory_total += all.memory;
  }
  bool inside_of_row(u32 event, u32 row) const {
    for (u32 p = d_.parents[event]; p != kNone; p = d_.parents[p])
      if (out_.of_event[p] == row) return true;
    return false;
  }
  Gathered finish() {
    for (size_t i = 0; i < out_.rows.size(); ++i) {
      Row& r = out_.rows[i];
      const Common& lines = lines_[i];
      if (lines.size()) r.line = describe_frame(lines.first());
      if (lines.size() > 1) r.line += str(" and ", lines.size() - 1, " more");
      if (modules_[i].size() == 1) r.module = module_path_of(modules_[i].first());
      if (shapes_[i].size()) r.inputs = d_.shapes[shapes_[i].first()];
      if (shapes_[i].size() > 1) r.inputs += str(" and ", shapes_[i].size() - 1, " more");
      judge(r, out_.loads[i]);
    }
    return std::move(out_);
  }
  Gathered& out() { return out_; }

 private:
  void count_load(u32 event, Row& r, Load& load) {
    const Event& e = d_.events[event];
    if (e.kind != Kind::kernel) return;
    r.kernel_ns += e.host_ns();
    const i64 own = time_on_device(e);
    r.device_self_ns += own;
    ++load.kernels;
    // A graph's launch has the time of its kernels to be weighed against.
    const i64 ns = own ? own : inclusive_[event].device_ns;
    load.queued |= has_device_times(e) || ns > own;
    load.untimed |= e.device.kind == DeviceKind::cuda && ns == 0;
    load.kernel_ns += ns;
    if (e.device_only && !e.op) return;  // nobody knows what it has to do
    const Roofs::Least least = roofs_.least(e);
    load.memory_ns += least.memory_ns;
    load.arithmetic_ns += least.arithmetic_ns;
  }

  const Profile::Data& d_;
  std::vector<Inclusive> inclusive_;
  std::vector<char> backward_{};
  Roofs roofs_{};
  Gathered out_{};
  std::unordered_map<std::string, u32> numbers_{};
  std::vector<Common> lines_{}, modules_{}, shapes_{};
};

std::string kernel_name(const Event& e) {
  return e.variant ? str(e.name, ":", e.variant) : std::string(e.name);
}
std::string operator_name(const Event& e) {
  return e.kind == Kind::backward ? str(e.name, ".backward") : std::string(e.name);
}
const char* thread_mark(const Event& e) { return e.thread ? " (other threads)" : ""; }

bool of_library(const Event& e) { return e.kind == Kind::op || e.kind == Kind::backward; }

// Names of rows by the fields that decide them; texts are made once.
class Names {
 public:
  using Key = std::tuple<int, const void*, const void*, u64, bool>;
  template <class F>
  u32 row(Gatherer& g, const Key& key, u32 event, const F& name) {
    const auto at = rows_.find(key);
    if (at != rows_.end()) return at->second;
    const std::string text = name();
    // Equal names may lie at several addresses.
    const u32 row = g.row(str(std::get<0>(key), "|", std::get<3>(key), "|", text), text, event);
    rows_.emplace(key, row);
    return row;
  }

 private:
  std::map<Key, u32> rows_{};
};

// Of a graph's kernel the row that its operator has where it runs by itself.
u32 row_of_replayed(Gatherer& g, Names& names, u32 i, const Event& e) {
  const int kind = int(e.of_backward ? Kind::backward : Kind::op);
  return names.row(g, {kind, e.op->name, nullptr, 0, e.thread != 0}, i, [&] {
    return str(e.op->name, e.of_backward ? ".backward" : "", thread_mark(e));
  });
}

// A kernel is its operator's, and all that a backward runs is the backward's own.
Gathered by_operator(const Profile::Data& d, const TableOptions& o) {
  Gatherer g(d);
  Names names;
  for (u32 i = 0; i < d.events.size(); ++i) {
    const Event& e = d.events[i];
    const u32 p = d.parents[i];
    const bool in_graph = e.device_only && p != kNone && d.events[p].kind == Kind::kernel;
    const bool inside = p != kNone && d.events[p].kind != Kind::user && !in_graph;
    const bool folded =
        inside && (e.kind == Kind::kernel ||
                   (e.kind == Kind::op && g.out().rows[g.out().of_event[p]].backward));
    const u64 shapes = o.shapes && of_library(e) ? e.shapes : 0;
    const u32 row = folded ? g.out().of_event[p]
                    : of_replay(e)
                        ? row_of_replayed(g, names, i, e)
                        : names.row(g, {int(e.kind), e.name, nullptr, shapes, e.thread != 0}, i,
                                    [&] { return operator_name(e) + thread_mark(e); });
    if (!folded) g.out().rows[row].backward = e.kind == Kind::backward || e.of_backward;
    const bool nested = g.inside_of_row(i, row);
    g.count(i, row, !folded);
    if (!nested) g.count_total(i, row);
  }
  return g.finish();
}

// Kernels, and one row for the host's own time around them.
Gathered by_kernel(const Profile::Data& d) {
  Gatherer g(d);
  Names names;
  for (u32 i = 0; i < d.events.size(); ++i) {
    const Event& e = d.events[i];
    const bool kernel = e.kind == Kind::kernel;
    const u32 row = names.row(
        g, {kernel, kernel ? e.name : nullptr, kernel ? e.variant : nullptr, 0, e.thread != 0}, i,
        [&] {
          return (kernel ? kernel_name(e) : "(host, around kernels)") + std::string(thread_mark(e));
        });
    const bool nested = g.inside_of_row(i, row);
    g.count(i, row, true);
    if (!nested) g.count_total(i, row);
  }
  return g.finish();
}

Gathered by_line(const Profile::Data& d) {
  Gatherer g(d);
  Names names;
  for (u32 i = 0; i < d.events.size(); ++i) {
    const Event& e = d.events[i];
    const bool backward = g.backward(i);
    const u32 row = names.row(g, {backward, nullptr, nullptr, e.frame, e.thread != 0}, i, [&] {
      const std::string line = e.frame ? describe_frame(e.frame) : "(no line)";
      return line + (backward ? ".backward" : "") + thread_mark(e);
    });
    const bool nested = g.inside_of_row(i, row);
    g.count(i, row, e.kind != Kind::kernel);
    if (!nested) g.count_total(i, row);
  }
  return g.finish();
}

// A module's total has its submodules in it, though they are no ranges.
class ModuleRows {
 public:
  ModuleRows(Gatherer& g, const Profile::Data& d) : g_(g), d_(d) {}
  // Rows of the module and of those around it, the innermost one first.
  const std::vector<u32>& rows_of(u32 event) {
    const Event& e = d_.events[event];
    const auto key = std::make_tuple(e.mode_id, g_.backward(event), e.thread != 0);
    const auto at = rows_.find(key);
    if (at != rows_.end()) return at->second;
    std::vector<u32> rows;
    std::string path = module_path_of(e.mode_id);
    const std::string end = str(g_.backward(event) ? ".backward" : "", thread_mark(e));
    if (path.empty()) path = "(no module)";
    for (;;) {
      rows.push_back(g_.row(path + end, path + end, event));
      g_.out().rows[rows.back()].module = path;
      const size_t dot = path.rfind('.');
      if (dot == std::string::npos) break;
      path.resize(dot);
    }
    return rows_.emplace(key, std::move(rows)).first->second;
  }

 private:
  Gatherer& g_;
  const Profile::Data& d_;
  std::map<std::tuple<u32, bool, bool>, std::vector<u32>> rows_{};
};

Gathered by_module(const Profile::Data& d) {
  Gatherer g(d);
  ModuleRows modules(g, d);
  for (u32 i = 0; i < d.events.size(); ++i) {
    const std::vector<u32> rows = modules.rows_of(i);
    std::vector<u32> around;
    for (u32 p = d.parents[i]; p != kNone; p = d.parents[p]) {
      const std::vector<u32>& outer = modules.rows_of(p);
      around.insert(around.end(), outer.begin(), outer.end());
    }
    g.count(i, rows[0], d.events[i].kind != Kind::kernel);
    for (const u32 row : rows)
      if (std::find(around.begin(), around.end(), row) == around.end()) g.count_total(i, row);
  }
  return g.finish();
}

// --- nested ---

class Tree {
 public:
  Tree(Gatherer& g, const Profile::Data& d) : g_(g), d_(d) {}
  // The row of an event, under that of the one around it and the modules between both.
  u32 row_of(u32 i) {
    const Event& e = d_.events[i];
    const u32 p = d_.parents[i];
    u32 at = p == kNone ? kNone : g_.out().of_event[p];
    const std::string path = module_path_of(e.mode_id);
    const std::string around = p == kNone ? "" : module_path_of(d_.events[p].mode_id);
    if (e.kind != Kind::kernel && path != around) at = enter(at, around, path, i);
    const std::string name = e.kind == Kind::kernel ? kernel_name(e) : operator_name(e);
    return child(at, e.kind == Kind::kernel ? "k" : "o", name, i);
  }
  bool is_module(u32 row) const { return module_[row]; }
  u32 parent(u32 row) const { return parents_[row]; }

 private:
  u32 child(u32 of, const char* kind, const std::string& name, u32 event) {
    const std::string mark = of == kNone ? thread_mark(d_.events[event]) : "";
    const u32 row = g_.row(str(of, "|", kind, "|", name, mark), name + mark, event);
    if (row == parents_.size()) {
      parents_.push_back(of);
      module_.push_back(*kind == 'm');
      Row& r = g_.out().rows[row];
      r.depth = of == kNone ? 0 : g_.out().rows[of].depth + 1;
      if (*kind == 'm') r.backward = false;
    }
    return row;
  }
  u32 enter(u32 at, const std::string& around, const std::string& path, u32 event) {
    size_t begin = 0;
    if (!around.empty() && path.size() > around.size() && path[around.size()] == '.' &&
        path.compare(0, around.size(), around) == 0)
      begin = around.size() + 1;
    while (begin < path.size()) {
      const size_t dot = std::min(path.find('.', begin), path.size());
      at = child(at, "m", path.substr(begin, dot - begin), event);
      begin = dot + 1;
    }
    return at;
  }

  Gatherer& g_;
  const Profile::Data& d_;
  std::vector<u32> parents_{};
  std::vector<char> module_{};
};

}  // namespace

Gathered gather(const Profile::Data& d, const TableOptions& o) {
  if (o.group_by == "module") return by_module(d);
  if (o.group_by == "kernel") return by_kernel(d);
  if (o.group_by == "line") return by_line(d);
  return by_operator(d, o);
}

Gathered gather_nested(const Profile::Data& d, std::vector<u32>& parents) {
  Gatherer g(d);
  Tree tree(g, d);
  for (u32 i = 0; i < d.events.size(); ++i) {
    const u32 row = tree.row_of(i);
    g.count(i, row, true);
    g.count_total(i, row);
    // Modules between this one and the range around it have no range of their own.
    for (u32 up = tree.parent(row); up != kNone && tree.is_module(up); up = tree.parent(up))
      g.count_total(i, up);
  }
  parents.clear();
  for (u32 r = 0; r < g.out().rows.size(); ++r) parents.push_back(tree.parent(r));
  return g.finish();
}

}  // namespace wt::profiler
