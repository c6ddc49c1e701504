#include "warptape/core/profile/sorted.h"

#include <algorithm>
#include <array>
#include <functional>

#include "warptape/core/error.h"
#include "warptape/core/profile/rows.h"
#include "warptape/core/suggest.h"

namespace wt::profiler {
namespace {

struct SortKey {
  const char* name;
  double (*of)(const Row& r);  // the largest first; null: names
};
double per_call(i64 ns, i64 calls) { return calls ? double(ns) / double(calls) : 0; }
constexpr std::array kSortKeys = {
    SortKey{"self_cpu_time_total", [](const Row& r) { return double(r.self_ns); }},
    SortKey{"cpu_time_total", [](const Row& r) { return double(r.total_ns); }},
    SortKey{"cpu_time", [](const Row& r) { return per_call(r.total_ns, r.calls); }},
    SortKey{"self_cuda_time_total", [](const Row& r) { return double(r.device_self_ns); }},
    SortKey{"cuda_time_total", [](const Row& r) { return double(r.device_total_ns); }},
    SortKey{"cuda_time", [](const Row& r) { return per_call(r.device_total_ns, r.calls); }},
    SortKey{"self_device_time_total", [](const Row& r) { return double(r.device_self_ns); }},
    SortKey{"device_time_total", [](const Row& r) { return double(r.device_total_ns); }},
    SortKey{"device_time", [](const Row& r) { return per_call(r.device_total_ns, r.calls); }},
    SortKey{"self_cpu_memory_usage", [](const Row& r) { return double(r.allocated - r.released); }},
    SortKey{"cpu_memory_usage", [](const Row& r) { return double(r.memory_total); }},
    SortKey{"self_cuda_memory_usage",
            [](const Row& r) { return double(r.allocated - r.released); }},
    SortKey{"cuda_memory_usage", [](const Row& r) { return double(r.memory_total); }},
    SortKey{"self_device_memory_usage",
            [](const Row& r) { return double(r.allocated - r.released); }},
    SortKey{"device_memory_usage", [](const Row& r) { return double(r.memory_total); }},
    SortKey{"allocated", [](const Row& r) { return double(r.allocated); }},
    SortKey{"count", [](const Row& r) { return double(r.calls); }},
    SortKey{"flops", [](const Row& r) { return r.flops; }},
    SortKey{"bytes", [](const Row& r) { return r.bytes; }},
    SortKey{"name", nullptr},
};
constexpr std::array<std::string_view, 4> kGroups = {"operator", "module", "kernel", "line"};

const SortKey& sort_key(const std::string& name) {
  for (const SortKey& k : kSortKeys)
    if (name == k.name) return k;
  std::vector<std::string_view> names;
  std::string list;
  for (const SortKey& k : kSortKeys) {
    names.push_back(k.name);
    list += str(list.empty() ? "" : ", ", k.name);
  }
  throw UsageError(
      str("[profiler] sort_by \"", name, "\"", did_you_mean(name, names), "\n  Try one of ", list));
}

void check_group(const std::string& name) {
  if (std::find(kGroups.begin(), kGroups.end(), name) == kGroups.end())
    throw UsageError(str("[profiler] group_by \"", name, "\"", did_you_mean(name, kGroups),
                         "\n  Try operator, module, kernel or line"));
}

bool before(const Row& a, const Row& b, const SortKey& key) {
  return key.of ? key.of(a) > key.of(b) : a.name < b.name;
}

// Time that is in no range, or in ranges that are not kept.
Row rest(const char* name, i64 ns) {
  Row r;
  r.name = name;
  r.outside = true;
  r.self_ns = r.total_ns = ns;
  return r;
}

// Each row after the one that it is in.
std::vector<Row> depth_first(std::vector<Row> rows, const std::vector<u32>& parents,
                             const SortKey& key) {
  constexpr u32 kNone = Profile::Data::kNone;
  std::vector<std::vector<u32>> children(rows.size() + 1);  // the last: outermost ones
  for (u32 i = 0; i < rows.size(); ++i)
    children[i < parents.size() && parents[i] != kNone ? parents[i] : rows.size()].push_back(i);
  for (std::vector<u32>& c : children)
    std::stable_sort(c.begin(), c.end(),
                     [&](u32 a, u32 b) { return before(rows[a], rows[b], key); });
  std::vector<Row> out;
  std::vector<u32> open(children.back().rbegin(), children.back().rend());
  while (!open.empty()) {
    const u32 i = open.back();
    open.pop_back();
    out.push_back(std::move(rows[i]));
    open.insert(open.end(), children[i].rbegin(), children[i].rend());
  }
  return out;
}

void add_total(Sheet& s, const std::vector<Row>& rows) {
  Row& t = s.total;
  t.name = "Total";
  for (const Row& r : rows) {
    s.several_threads |= r.other_thread;
    if (!r.other_thread) t.self_ns += r.self_ns;
    t.calls += r.calls;
    t.kernel_ns += r.kernel_ns;
    t.device_self_ns += r.device_self_ns;
    t.allocated += r.allocated;
    t.released += r.released;
    t.bytes += r.bytes;
    t.flops += r.flops;
    t.waited_ns += r.waited_ns;
    t.accesses += r.accesses;
  }
  t.total_ns = t.self_ns;
  t.device_total_ns = t.device_self_ns;
  t.memory_total = t.allocated - t.released;
  t.bytes_total = t.bytes;
  t.flops_total = t.flops;
}

void look_at_devices(Sheet& s, const Profile::Data& d) {
  bool kernels = false;
  for (const Event& e : d.events) {
    if (e.kind != Kind::kernel || e.device.is_meta) continue;
    kernels = true;
    if (e.device.kind == DeviceKind::cuda) s.device = "CUDA";
    if (e.device.kind == DeviceKind::simt && s.device.empty()) s.device = "simt";
    s.queued |= has_device_times(e);
  }
  if (!kernels) return;
  const machine::Known known = machine::measured();
  if (!known.there())
    s.no_roof = known.why_not;
  else if (s.device == "simt")
    s.no_roof = "simt stands in for a GPU: its times say nothing of one";
}

// A module has no time of its own, so rows that are nested are sorted by the whole.
std::string usual_key(const Sheet& s, const TableOptions& o) {
  return str(o.nested ? "" : "self_", s.device == "CUDA" && s.queued ? "cuda" : "cpu",
             "_time_total");
}

}  // namespace

Sheet sheet_of(const Profile::Data& d, const TableOptions& o) {
  check_group(o.group_by);
  Sheet s;
  look_at_devices(s, d);
  const SortKey& key = sort_key(o.sort_by.empty() ? usual_key(s, o) : o.sort_by);
  std::vector<u32> parents;
  Gathered g = o.nested ? gather_nested(d, parents) : gather(d, o);
  g.rows.push_back(rest("(outside of operators)", d.length_ns - d.in_ranges_ns));
  g.rows.back().allocated = d.allocated;
  g.rows.back().released = d.released;
  g.rows.back().memory_total = d.allocated - d.released;
  g.rows.back().waited_ns = d.waited_ns;
  if (mostly_waits(g.rows.back())) g.rows.back().bound = "waiting";
  if (d.dropped > 0) g.rows.push_back(rest("(ranges that are not kept)", d.lost_ns));
  add_total(s, g.rows);
  s.rows = depth_first(std::move(g.rows), parents, key);
  if (o.rows > 0 && s.rows.size() > size_t(o.rows)) {
    s.more = i64(s.rows.size()) - o.rows;
    s.rows.resize(size_t(o.rows));
  }
  return s;
}

}  // namespace wt::profiler
