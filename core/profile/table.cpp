// A profile's rows as text, JSON and CSV.
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "warptape/core/error.h"
#include "warptape/core/files/csv_field.h"
#include "warptape/core/files/json.h"
#include "warptape/core/memory_limit.h"
#include "warptape/core/profile/sorted.h"

namespace wt::profiler {
namespace {

std::string printed(const char* format, double v) {
  char text[48];
  std::snprintf(text, sizeof text, format, v);
  return text;
}

std::string time_text(double ns) {
  if (ns >= 1e9) return printed("%.3fs", ns * 1e-9);
  if (ns >= 1e6) return printed("%.3fms", ns * 1e-6);
  return printed("%.3fus", ns * 1e-3);
}

std::string percent(double part, double whole) {
  return whole > 0 ? printed("%.2f%%", 100 * part / whole) : "0.00%";
}

// "12.3 G"; "-" for nothing.
std::string scaled(double v) {
  if (v == 0) return "-";
  const char* const units[] = {"", " k", " M", " G", " T", " P"};
  size_t u = 0;
  while (v >= 1000 && u + 1 < std::size(units)) v /= 1000, ++u;
  return printed(u ? "%.2f" : "%.0f", v) + units[u];
}

std::string ratio(double a, double b) { return b > 0 ? printed("%.2f", a / b) : "-"; }

std::string signed_bytes(i64 b) {
  return b < 0 ? "-" + memory::bytes_text(-b) : memory::bytes_text(b);
}

std::string average_text(i64 ns, i64 calls) {
  return calls ? time_text(double(ns) / double(calls)) : "-";
}

struct Column {
  std::string head;
  int keep;  // where there is no room, those with low numbers go first
  std::function<std::string(const Row&)> text;
  bool left = false;
};

class Columns {
 public:
  Columns(const Sheet& s, const Profile::Data& d, const TableOptions& o)
      : sheet_(s), data_(d), options_(o) {
    add_host();
    if (!s.device.empty()) add_device();
    if (d.options.memory) add_memory();
    add("# of Calls", 95, [](const Row& r) { return r.calls ? str(r.calls) : std::string("-"); });
    add_work();
  }
  std::vector<Column> take() { return std::move(all_); }

 private:
  template <class F>
  void add(std::string head, int keep, F f, bool left = false) {
    all_.push_back({std::move(head), keep, std::move(f), left});
  }
  void add_host() {
    const double whole = double(sheet_.total.self_ns);
    add(
        "Name", 100, [](const Row& r) { return std::string(size_t(2 * r.depth), ' ') + r.name; },
        true);
    add("Self CPU %", 94, [=](const Row& r) { return percent(double(r.self_ns), whole); });
    add("Self CPU", 96, [](const Row& r) { return time_text(double(r.self_ns)); });
    add("CPU total %", 60, [=](const Row& r) { return percent(double(r.total_ns), whole); });
    add("CPU total", 90, [](const Row& r) { return time_text(double(r.total_ns)); });
    const Row* const all = &sheet_.total;
    add("CPU time avg", 70,
        [=](const Row& r) { return average_text(r.total_ns, &r == all ? 0 : r.calls); });
  }
  void add_device() {
    const std::string& name = sheet_.device;
    const double whole = double(sheet_.total.device_self_ns);
    add("Self " + name, 93, [](const Row& r) { return time_text(double(r.device_self_ns)); });
    add("Self " + name + " %", 65,
        [=](const Row& r) { return percent(double(r.device_self_ns), whole); });
    add(name + " total %", 50,
        [=](const Row& r) { return percent(double(r.device_total_ns), whole); });
    add(name + " total", 80, [](const Row& r) { return time_text(double(r.device_total_ns)); });
    const Row* const all = &sheet_.total;
    add(name + " time avg", 55,
        [=](const Row& r) { return average_text(r.device_total_ns, &r == all ? 0 : r.calls); });
  }
  void add_memory() {
    const std::string of = sheet_.device.empty() ? "CPU Mem" : "Mem";
    add(of, 40, [](const Row& r) { return signed_bytes(r.memory_total); });
    add("Self " + of, 62, [](const Row& r) { return signed_bytes(r.allocated - r.released); });
  }
  void add_work() {
    const double whole = sheet_.total.flops;
    add("FLOPs", 85, [](const Row& r) { return scaled(r.flops); });
    add("FLOPs %", 35, [=](const Row& r) { return percent(r.flops, whole); });
    add("FLOPs total %", 30, [=](const Row& r) { return percent(r.flops_total, whole); });
    add("FLOPs total", 45, [](const Row& r) { return scaled(r.flops_total); });
    add("Bytes", 75, [](const Row& r) { return scaled(r.bytes); });
    add("FLOP/byte", 57, [](const Row& r) { return ratio(r.flops, r.bytes); });
    if (sheet_.no_roof.empty())
      add("% of roof", 82, [](const Row& r) {
        return r.roof > 0 ? printed("%.0f%%", 100 * r.roof) : std::string("-");
      });
    add(
        "Bound by", 83, [](const Row& r) { return r.bound.empty() ? "-" : r.bound; }, true);
    if (data_.options.counters) add_accesses();
    if (data_.options.shapes)
      add(
          "Inputs", options_.shapes ? 86 : 58, [](const Row& r) { return r.inputs; }, true);
    if (options_.group_by != "line" && !options_.nested)
      add(
          "Line", 68, [](const Row& r) { return r.line; }, true);
  }
  void add_accesses() {
    add("Sectors", 81, [](const Row& r) { return scaled(r.accesses.sectors); });
    add("Sectors / least", 80,
        [](const Row& r) { return ratio(r.accesses.sectors, r.accesses.least_sectors); });
    add("Bank conflicts", 79,
        [](const Row& r) { return scaled(r.accesses.passes - r.accesses.least_passes); });
    add("Lanes of 32", 78,
        [](const Row& r) { return ratio(r.accesses.lanes, r.accesses.requests); });
  }

  const Sheet& sheet_;
  const Profile::Data& data_;
  const TableOptions& options_;
  std::vector<Column> all_{};
};

constexpr size_t kWidestName = 55, kWidestText = 60;

std::string cut(std::string text, size_t most) {
  if (text.size() <= most) return text;
  text.resize(most - 3);
  return text + "...";
}

// Of stdout, 0: it is no terminal.
int terminal_width() {
  winsize w{};
  if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) != 0) return 0;
  return w.ws_col;
}

class Printer {
 public:
  Printer(const Sheet& s, std::vector<Column> columns, int width) : columns_(std::move(columns)) {
    for (const Row& r : s.rows) add(r);
    add(s.total);
    widths_.resize(columns_.size());
    for (size_t c = 0; c < columns_.size(); ++c) {
      widths_[c] = columns_[c].head.size();
      for (const std::vector<std::string>& line : cells_)
        widths_[c] = std::max(widths_[c], line[c].size());
    }
    while (width > 0 && line_width() > size_t(width) && drop_least()) {}
    if (width > 0 && line_width() > size_t(width)) narrow_name(size_t(width));
  }
  std::string text() const {
    std::string out = rule();
    std::vector<std::string> heads;
    for (const Column& c : columns_) heads.push_back(c.head);
    out += line(heads) + rule();
    for (size_t i = 0; i + 1 < cells_.size(); ++i) out += line(cells_[i]);
    return out + rule() + line(cells_.back()) + rule();
  }

 private:
  void add(const Row& r) {
    std::vector<std::string> cells;
    for (const Column& c : columns_)
      cells.push_back(cut(c.text(r), c.head == "Name" ? kWidestName : kWidestText));
    cells_.push_back(std::move(cells));
  }
  size_t line_width() const {
    size_t sum = 0;
    for (const size_t w : widths_) sum += w + 2;
    return sum - 2;
  }
  bool drop_least() {
    const auto least =
        std::min_element(columns_.begin(), columns_.end(),
                         [](const Column& a, const Column& b) { return a.keep < b.keep; });
    if (columns_.size() <= 4) return false;
    const auto c = least - columns_.begin();
    columns_.erase(least);
    widths_.erase(widths_.begin() + c);
    for (std::vector<std::string>& l : cells_) l.erase(l.begin() + c);
    return true;
  }
  void narrow_name(size_t width) {
    const size_t over = line_width() - width;
    widths_[0] = widths_[0] > over + 12 ? widths_[0] - over : 12;
    for (std::vector<std::string>& l : cells_) l[0] = cut(l[0], widths_[0]);
  }
  std::string rule() const {
    std::string out;
    for (const size_t w : widths_) out += (out.empty() ? "" : "  ") + std::string(w, '-');
    return out + "\n";
  }
  std::string line(const std::vector<std::string>& cells) const {
    std::string out;
    for (size_t c = 0; c < cells.size(); ++c) {
      const std::string space(widths_[c] - cells[c].size(), ' ');
      if (c) out += "  ";
      out += columns_[c].left ? cells[c] + space : space + cells[c];
    }
    while (!out.empty() && out.back() == ' ') out.pop_back();
    return out + "\n";
  }

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> cells_{};
  std::vector<size_t> widths_{};
};

std::string source_text(const Profile::Data& d) {
  if (d.times_from == "cupti") return "Times of the device: CUPTI's records\n";
  return str("Times of the device: events around launches (no CUPTI: ", d.no_records, ")\n");
}

std::string totals(const Sheet& s, const Profile::Data& d) {
  std::string out = str("Self CPU time total: ", time_text(double(d.length_ns)));
  if (d.steps > 1)
    out += str(", ", d.steps, " steps of ", time_text(double(d.length_ns) / double(d.steps)));
  out += "\n";
  if (!s.device.empty() && (s.queued || s.device == "simt"))
    out +=
        str("Self ", s.device, " time total: ", time_text(double(s.total.device_self_ns)),
            s.device == "simt" ? ", host time of the executor that stands in for a GPU" : "", "\n");
  if (d.options.counters)
    out +=
        "Sectors and bank conflicts are counted on simt, by kernels that are slower for it: times "
        "say nothing of the program\n";
  if (s.device == "CUDA" && !s.queued) out += "No times of the device were taken\n";
  if (s.device == "CUDA" && s.queued) out += source_text(d);
  if (s.several_threads)
    out += "Rows of other threads are beside the total, which is the profiling thread's time\n";
  if (!s.no_roof.empty()) out += str("No % of roof: ", s.no_roof, "\n");
  return out;
}

constexpr size_t kMostTransfers = 10;

// What moved between memories, and who waited: a line a place of the program.
std::string transfers_text(const std::vector<Transfer>& all) {
  if (all.empty()) return "";
  std::string out = "Copies and waits, by line:\n";
  for (size_t i = 0; i < std::min(all.size(), kMostTransfers); ++i) {
    const Transfer& t = all[i];
    std::string what = str(t.what(), t.kind == Transfer::Kind::wait ? " for " : ", ",
                           to_string(t.device), t.pageable ? ", pageable" : "");
    what.resize(std::max<size_t>(what.size(), 30), ' ');
    std::string much = str(t.count, " x");
    if (t.bytes) much += str(", ", memory::bytes_text(t.bytes));
    much.resize(std::max<size_t>(much.size(), 24), ' ');
    std::string time = time_text(double(t.host_ns));
    time.insert(0, 10 - std::min<size_t>(time.size(), 10), ' ');
    out += str("  ", what, " ", much, " ", time, "  ",
               t.frame ? describe_frame(t.frame) : std::string("no line"), "\n");
  }
  if (all.size() > kMostTransfers) out += str("  and ", all.size() - kMostTransfers, " more\n");
  return out;
}

std::string transfers_json(const std::vector<Transfer>& all) {
  std::string out;
  for (const Transfer& t : all) {
    JsonObject o;
    o.add("what", t.what()).add("pageable", t.pageable).add("device", to_string(t.device));
    o.add("line", t.frame ? describe_frame(t.frame) : std::string()).add("count", t.count);
    out += (out.empty() ? "" : ",\n") + o.add("bytes", t.bytes).add("host_ns", t.host_ns).str();
  }
  return "[" + out + "]";
}

std::string row_json(const Row& r) {
  JsonObject o;
  o.add("name", r.name).add("depth", r.depth).add("module", r.module).add("line", r.line);
  o.add("inputs", r.inputs).add("backward", r.backward).add("other_thread", r.other_thread);
  o.add("outside", r.outside).add("calls", r.calls);
  o.add("self_cpu_ns", r.self_ns).add("cpu_ns", r.total_ns);
  o.add("self_device_ns", r.device_self_ns).add("device_ns", r.device_total_ns);
  o.add("kernel_ns", r.kernel_ns).add("allocated", r.allocated).add("released", r.released);
  o.add("memory", r.memory_total).add("bytes", r.bytes).add("bytes_total", r.bytes_total);
  o.add("flops", r.flops).add("flops_total", r.flops_total).add("roof", r.roof);
  o.add("waited_ns", r.waited_ns);
  if (const Accesses& a = r.accesses; a.requests > 0) {
    o.add("requests", a.requests).add("lanes", a.lanes).add("sectors", a.sectors);
    o.add("least_sectors", a.least_sectors).add("passes", a.passes);
    o.add("least_passes", a.least_passes);
  }
  return o.add("bound", r.bound).str();
}

}  // namespace

std::vector<Row> Profile::rows(const TableOptions& o) const { return sheet_of(*data_, o).rows; }

std::string Profile::table(const TableOptions& o) const {
  const Sheet s = sheet_of(*data_, o);
  if (o.width < 0) throw UsageError(str("[profiler] width ", o.width, " is less than 0"));
  const Printer printer(s, Columns(s, *data_, o).take(), o.width ? o.width : terminal_width());
  std::string out = printer.text();
  if (s.more) out += str("and ", s.more, " more rows\n");
  out += totals(s, *data_) + transfers_text(data_->transfers);
  for (const std::string& note : data_->notes) out += "Note: " + note + "\n";
  return out;
}

std::string Profile::json(const TableOptions& o) const {
  const Sheet s = sheet_of(*data_, o);
  std::string rows, notes;
  for (const Row& r : s.rows) rows += (rows.empty() ? "" : ",\n") + row_json(r);
  for (const std::string& n : data_->notes) notes += (notes.empty() ? "" : ",") + json_quote(n);
  JsonObject all;
  all.add("seconds", seconds()).add("steps", steps()).add("dropped", dropped());
  all.add("group_by", o.group_by).add("device", s.device.empty() ? "CPU" : s.device);
  all.add("device_times", s.queued).add("device_times_from", device_times_from());
  all.add("no_cupti", data_->no_records).add("no_roof", s.no_roof);
  all.add_raw("transfers", transfers_json(data_->transfers));
  all.add_raw("notes", "[" + notes + "]").add_raw("rows", "[\n" + rows + "]");
  return all.add_raw("total", row_json(s.total)).str() + "\n";
}

std::string Profile::csv(const TableOptions& o) const {
  std::string out =
      "name,depth,module,line,inputs,backward,other_thread,calls,self_cpu_ns,cpu_ns,"
      "self_device_ns,device_ns,allocated,released,memory,bytes,bytes_total,flops,flops_total,"
      "roof,waited_ns,requests,lanes,sectors,least_sectors,passes,least_passes,bound\r\n";
  for (const Row& r : sheet_of(*data_, o).rows) {
    out += str(csv_field(r.name), ",", r.depth, ",", csv_field(r.module), ",", csv_field(r.line),
               ",", csv_field(r.inputs), ",", int(r.backward), ",", int(r.other_thread), ",",
               r.calls, ",", r.self_ns, ",", r.total_ns, ",", r.device_self_ns, ",",
               r.device_total_ns, ",", r.allocated, ",", r.released, ",", r.memory_total);
    const Accesses& a = r.accesses;
    for (const double v :
         {r.bytes, r.bytes_total, r.flops, r.flops_total, r.roof, double(r.waited_ns), a.requests,
          a.lanes, a.sectors, a.least_sectors, a.passes, a.least_passes})
      out += "," + json_number(v);
    out += "," + r.bound + "\r\n";
  }
  return out;
}

}  // namespace wt::profiler
