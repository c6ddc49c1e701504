#include "warptape/tools/wt/measure/machine_view.h"

#include <cstdio>

#include "warptape/core/files/json.h"
#include "warptape/core/input_file.h"
#include "warptape/tools/wt/number_text.h"

namespace wt::tools {
namespace {

using machine::Gpu;
using machine::State;

std::string part_text(double part) { return part < 0 ? "-" : fixed_digits(100 * part, 0) + " %"; }
std::string gib_text(i64 bytes) {
  return bytes < 0 ? "-" : fixed_digits(double(bytes) / 0x1p30, 1);
}
std::string of_most(double now, double most, int digits = 0) {
  return (now < 0 ? "-" : fixed_digits(now, digits)) +
         (most < 0 ? "" : "/" + fixed_digits(most, digits));
}
// What others have named: processes, devices, processors.
std::string shown(const std::string& text, const char* otherwise = "-") {
  return text.empty() ? otherwise : printable(text, 48);
}

std::string throttle_text(const Gpu& g) {
  std::string text;
  for (const std::string& why : g.throttle) text += (text.empty() ? "" : ", ") + why;
  return text;
}

std::string host_rows(const State& s) {
  const machine::Host& h = s.host;
  char row[400];
  std::snprintf(row, sizeof row, "cpu   %s, %d processors\n", shown(h.processor).c_str(),
                h.processors);
  std::string text = row;
  std::snprintf(row, sizeof row,
                "      busy %s   load %.2f %.2f %.2f   clock %s MHz   memory %s of %s GiB "
                "available   swap %s of %s GiB used",
                part_text(h.busy).c_str(), h.load[0], h.load[1], h.load[2],
                of_most(h.mhz, h.most_mhz).c_str(), gib_text(h.memory_available).c_str(),
                gib_text(h.memory_total).c_str(), gib_text(h.swap_used).c_str(),
                gib_text(h.swap_total).c_str());
  text += row;
  if (h.swapped_bytes_s > 0)
    text += str("\n      it swaps: ", three_digits(h.swapped_bytes_s * 1e-6), " MB/s");
  if (h.slowed > 0) text += str("\n      heat has slowed it ", h.slowed, " times");
  return text + "\n";
}

std::string gpu_rows(const Gpu& g) {
  char row[400];
  std::snprintf(row, sizeof row, "gpu %d %s (%s)\n", g.number, shown(g.name).c_str(),
                shown(g.bus).c_str());
  std::string text = row;
  std::snprintf(
      row, sizeof row,
      "      busy %s   its memory %s   %s of %s GiB used   clock %s MHz   memory's %s MHz  "
      " %s C   %s W\n",
      part_text(g.busy).c_str(), part_text(g.memory_busy).c_str(), gib_text(g.memory_used).c_str(),
      gib_text(g.memory_total).c_str(), of_most(g.sm_mhz, g.most_sm_mhz).c_str(),
      of_most(g.memory_mhz, g.most_memory_mhz).c_str(),
      g.celsius < 0 ? "-" : fixed_digits(g.celsius, 0).c_str(),
      of_most(g.watts, g.most_watts).c_str());
  text += row;
  if (const std::string why = throttle_text(g); !why.empty())
    text += str("      ", g.slowed ? "HELD DOWN: " : "clock: ", why, "\n");
  for (const machine::GpuProcess& p : g.processes) {
    std::snprintf(
        row, sizeof row, "      %8lld  %-16s %-20s %s MiB%s\n", static_cast<long long>(p.pid),
        shown(p.user, "?").c_str(), shown(p.name, "?").c_str(),
        p.bytes < 0 ? "?" : std::to_string(p.bytes >> 20).c_str(), p.own ? "  (this process)" : "");
    text += row;
  }
  return text;
}

std::string own_rows(const machine::OwnProcess& own) {
  std::string text = str("own   process ", own.pid, ", ", own.threads, " threads, ",
                         own.resident < 0 ? "?" : bytes_text(own.resident), " resident\n");
  for (const auto& [device, stats] : own.memory) {
    text += str("      tensors on ", device_kind_name(device.kind), ": ", bytes_text(stats.live),
                " of ", bytes_text(stats.reserved), " that the pools have");
    for (int c = 0; c < kNumCategories; ++c)
      if (stats.by_category[c])
        text += str(", ", category_name(Category(c)), " ", bytes_text(stats.by_category[c]));
    text += "\n";
  }
  return text;
}

// Numbers that may not be known.
JsonObject& add_known(JsonObject& j, const char* key, double v) {
  return v < 0 ? j.add_null(key) : j.add(key, v);
}
JsonObject& add_known(JsonObject& j, const char* key, i64 v) {
  return v < 0 ? j.add_null(key) : j.add(key, v);
}

std::string host_json(const machine::Host& h) {
  JsonObject j;
  j.add("processor", h.processor).add("processors", h.processors);
  add_known(j, "busy", h.busy);
  add_known(j, "load", h.load[0]);
  add_known(j, "mhz", h.mhz);
  add_known(j, "most_mhz", h.most_mhz);
  add_known(j, "memory_total", h.memory_total);
  add_known(j, "memory_available", h.memory_available);
  add_known(j, "swap_total", h.swap_total);
  add_known(j, "swap_used", h.swap_used);
  add_known(j, "swapped_bytes_s", h.swapped_bytes_s);
  add_known(j, "slowed", h.slowed);
  return j.str();
}

template <class List, class F>
std::string json_list(const List& list, const F& each) {
  std::string text;
  for (const auto& item : list) text += (text.empty() ? "" : ",") + each(item);
  return "[" + text + "]";
}

std::string process_json(const machine::GpuProcess& p) {
  JsonObject j;
  j.add("pid", p.pid).add("user", p.user).add("name", p.name);
  add_known(j, "bytes", p.bytes);
  j.add("own", p.own);
  return j.str();
}

std::string gpu_json(const Gpu& g) {
  JsonObject j;
  j.add("number", g.number).add("name", g.name).add("bus", g.bus);
  add_known(j, "busy", g.busy);
  add_known(j, "memory_busy", g.memory_busy);
  add_known(j, "memory_used", g.memory_used);
  add_known(j, "memory_total", g.memory_total);
  add_known(j, "sm_mhz", i64(g.sm_mhz));
  add_known(j, "most_sm_mhz", i64(g.most_sm_mhz));
  add_known(j, "memory_mhz", i64(g.memory_mhz));
  add_known(j, "most_memory_mhz", i64(g.most_memory_mhz));
  add_known(j, "celsius", g.celsius);
  add_known(j, "watts", g.watts);
  add_known(j, "most_watts", g.most_watts);
  j.add_raw("throttle", json_list(g.throttle, [](const std::string& w) { return json_quote(w); }));
  j.add("slowed", g.slowed);
  j.add_raw("processes", json_list(g.processes, process_json));
  return j.str();
}

std::string own_json(const machine::OwnProcess& own) {
  JsonObject j;
  j.add("pid", own.pid);
  add_known(j, "resident", own.resident);
  add_known(j, "threads", i64(own.threads));
  for (const auto& [device, stats] : own.memory) {
    JsonObject of;
    of.add("live", stats.live).add("reserved", stats.reserved);
    for (int c = 0; c < kNumCategories; ++c)
      of.add(category_name(Category(c)), stats.by_category[c]);
    j.add_raw(device_kind_name(device.kind), of.str());
  }
  return j.str();
}

}  // namespace

std::string machine_table(const State& s) {
  std::string text = host_rows(s);
  for (const Gpu& g : s.gpus) text += gpu_rows(g);
  if (s.gpus.empty()) text += str("gpu   none: ", printable_lines(s.why_no_gpu), "\n");
  if (!s.driver.empty()) text += str("      NVIDIA's driver ", shown(s.driver), "\n");
  return text + own_rows(s.own);
}

std::string machine_line(const State& s) {
  const machine::Host& h = s.host;
  std::string text =
      str("cpu ", part_text(h.busy), " load ", fixed_digits(h.load[0], 2), " ",
          of_most(h.mhz, h.most_mhz), " MHz, memory ", gib_text(h.memory_available), "/",
          gib_text(h.memory_total), " GiB available, swap ", gib_text(h.swap_used), " GiB");
  if (h.swapped_bytes_s > 0) text += str(" (", three_digits(h.swapped_bytes_s * 1e-6), " MB/s)");
  for (const Gpu& g : s.gpus) {
    text += str(" | gpu ", g.number, " ", part_text(g.busy), " ", gib_text(g.memory_used), "/",
                gib_text(g.memory_total), " GiB ", of_most(g.sm_mhz, g.most_sm_mhz), " MHz ",
                g.celsius < 0 ? "-" : fixed_digits(g.celsius, 0), " C ",
                of_most(g.watts, g.most_watts), " W");
    if (g.slowed) text += str(" HELD DOWN: ", throttle_text(g));
  }
  if (s.gpus.empty()) text += " | no gpu: " + printable(s.why_no_gpu, 200);
  return text;
}

std::string machine_json(const State& s) {
  JsonObject j;
  j.add("seconds", s.seconds).add_raw("host", host_json(s.host)).add("driver", s.driver);
  j.add_raw("gpus", json_list(s.gpus, gpu_json)).add("why_no_gpu", s.why_no_gpu);
  return j.add_raw("own", own_json(s.own)).str();
}

}  // namespace wt::tools
