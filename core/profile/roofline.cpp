// The roofline page: what roofline_page.h draws, as compact JSON.
#include <algorithm>
#include <utility>
#include <vector>

#include "warptape/core/build_info.h"
#include "warptape/core/chart.h"
#include "warptape/core/files/atomic_file.h"
#include "warptape/core/files/html_page.h"
#include "warptape/core/files/json.h"
#include "warptape/core/machine.h"
#include "warptape/core/profile/roofline_page.h"
#include "warptape/core/profile_roofline.h"
#include "warptape/core/str.h"

namespace wt::profiler {
namespace {

void join(std::string& list, const std::string& one) { list += (list.empty() ? "" : ",") + one; }

// Where kernels ran, and what they computed in.
struct Used {
  std::vector<Device> devices{};
  std::vector<std::pair<Device, DType>> products{};
};

Used used_by(const Profile& p) {
  Used u;
  const auto note = [](auto& list, const auto& one) {
    if (std::find(list.begin(), list.end(), one) == list.end()) list.push_back(one);
  };
  for (const Event& e : p.events()) {
    if (e.kind != Kind::kernel) continue;
    note(u.devices, e.device);
    if (e.flops > 0) note(u.products, std::pair(e.device, e.dtype));
  }
  return u;
}

std::string roof_json(const std::string& name, double gb_s, double gflop_s) {
  return JsonObject().add("name", name).add("gb", gb_s).add("gf", gflop_s).str();
}

// What was measured of the devices: rates of copies, and of products of the dtypes that were used.
std::string roofs_json(const Used& u, const machine::Measured& m) {
  std::string list;
  for (const Device d : u.devices) {
    if (m.stands_in(d)) continue;
    const std::string of = u.devices.size() > 1 ? " of " + to_string(d) : "";
    const double copy = m.copy_gb_s(d);
    if (copy > 0) join(list, roof_json("copy" + of, copy, 0));
    std::vector<DType> dtypes{f32};  // what was not measured is held against it
    for (const auto& [at, dtype] : u.products)
      if (at == d && dtype != f32) dtypes.push_back(dtype);
    for (const DType t : dtypes)
      if (const double rate = m.product_gflop_s(d, t); rate > 0)
        join(list, roof_json(str(dtype_name(t), of), copy, rate));
    if (const double rate = m.product_gflop_s(d, f32, true); rate > 0)
      join(list, roof_json("tf32" + of, copy, rate));
  }
  return "[" + list + "]";
}

// Why there is no roof, or not of all that ran; empty: there is.
std::string why_not(const Used& u, const machine::Known& known) {
  if (!known.there()) return known.why_not;
  std::string text;
  for (const Device d : u.devices)
    if (known.figures.stands_in(d))
      text +=
          str(to_string(d), " stands in for a GPU: its times are the host's, and it has no roof. ");
    else if (known.figures.copy_gb_s(d) <= 0)
      text +=
          str(known.path, " says nothing of ", to_string(d), ": wt bench machine measures it. ");
  return text;
}

std::string rows_json(const Profile& p, const std::string& group) {
  std::string list;
  TableOptions o;
  o.group_by = group;
  for (const Row& r : p.rows(o)) {
    if (r.device_self_ns <= 0) continue;
    join(list, str("[", json_quote(r.name), ",", json_quote(r.module), ",", json_quote(r.line), ",",
                   group == "kernel" ? 2 : int(r.backward), ",", r.calls, ",", r.device_self_ns,
                   ",", json_number(r.bytes), ",", json_number(r.flops), ",", json_number(r.roof),
                   ",", json_quote(r.bound), "]"));
  }
  return "[" + list + "]";
}

std::string page_json(const Profile& p) {
  const Used u = used_by(p);
  const machine::Known known = machine::measured();
  std::string groups;
  for (const char* group : {"operator", "kernel", "module", "line"})
    join(groups, str("[\"", group, "\",", rows_json(p, group), "]"));
  return JsonObject()
      .add_raw("roofs", known.there() ? roofs_json(u, known.figures) : "[]")
      .add("why", why_not(u, known))
      .add("steps", p.steps())
      .add("dropped", p.dropped())
      .add_raw("groups", "[" + groups + "]")
      .str();
}

}  // namespace

void write_roofline(const std::string& path, const Profile& p, const RooflineOptions& options) {
  const std::string page =
      str(page_begin({.title = options.title, .style = kRooflineStyle, .script = true}),
          "<main><h1>", chart::html_escape(options.title), "</h1>\n<p class=\"sub\">",
          chart::html_escape(options.subtitle), options.subtitle.empty() ? "" : ", ", "warptape ",
          chart::html_escape(build_info().version), "</p>\n", kRooflineBody,
          page_data(page_json(p)), page_end(kRooflineScript));
  write_file_atomically(path, page);
}

}  // namespace wt::profiler
