#include "warptape/tools/wt/look/look_sections.h"

#include <algorithm>

#include "warptape/tools/wt/look/look_figures.h"
#include "warptape/tools/wt/look/phase_picture.h"
#include "warptape/tools/wt/number_text.h"

namespace wt::tools {
namespace {

using chart::html_escape;

std::string look_card(const char* title, const std::string& body, const char* style = "") {
  return str("<section class=\"card", style, "\"><h2>", title, "</h2>", body, "</section>\n");
}

std::string total_row(const AccessTotal& t) {
  const AccessSum& s = t.sum;
  return str("<tr data-total=\"", t.what, "\"><td>", t.what, "</td><td>", s.requests, "</td><td>",
             fixed_digits(s.lanes / s.requests, 1), "</td><td",
             is_waste(s.units, s.least) ? " class=\"waste\"" : "", ">",
             fixed_digits(s.units / s.requests, 2), "</td><td>",
             fixed_digits(s.least / s.requests, 2), "</td></tr>");
}

std::string joined_words(const std::vector<std::string>& words) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i)
    out += (i == 0 ? "" : i + 1 == words.size() ? " and " : ", ") + words[i];
  return out;
}

}  // namespace

std::string totals_card(const SimtKernelCounts& k) {
  std::string rows;
  for (const AccessTotal& t : totals_of(k)) rows += total_row(t);
  if (rows.empty()) rows = "<tr><td>no access to memory</td></tr>";
  return look_card(
      "Totals", str("<table class=\"numbers\"><thead><tr><th></th><th>requests</th><th>lanes</th>"
                    "<th>sectors or passes</th><th>of</th></tr></thead><tbody>",
                    rows, "</tbody></table><p class=\"note\">", k.blocks,
                    k.blocks == 1 ? " block, " : " blocks, ", k.threads, " threads, ", k.barriers,
                    k.barriers == 1 ? " barrier" : " barriers", "; ", k.read, " bytes read and ",
                    k.written, " written, each sector once</p>"));
}

std::string occupancy_card(const LookKernel& k) {
  const BlockNeeds needs = needs_of(k);
  if (needs.threads < 1) return "";
  const Occupancy o = occupancy_of(needs);
  std::string rows;
  for (const OccupancyLimit& l : o.limits) {
    const std::string asks = l.what == "threads"     ? str(needs.threads, " a block")
                             : l.what == "registers" ? str(needs.registers, " a thread")
                             : l.what == "blocks"    ? "any"
                                                     : str(needs.shared, " bytes a block");
    const bool binds = std::find(o.limiters.begin(), o.limiters.end(), l.what) != o.limiters.end();
    rows += str("<tr data-limit=\"", l.what, "\"><td>", l.what, "</td><td>", asks, "</td><td",
                binds ? " class=\"waste\"" : "", ">", l.blocks, "</td></tr>");
  }
  const i64 part = o.most_warps ? 100 * o.warps / o.most_warps : 0;
  const std::string said =
      str(o.blocks, o.blocks == 1 ? " block, " : " blocks, ", o.warps, " of ", o.most_warps,
          " warps: ", part, " %. ",
          o.limiters.empty() ? "Nothing keeps a warp out."
                             : str("Limited by ", joined_words(o.limiters), "."),
          k.code ? ""
                 : " Registers are not known: the table of machine code has no such kernel; they "
                   "may allow less.");
  return look_card(
      "Occupancy",
      str("<p class=\"note\" data-occupancy=\"", part, "\">", said,
          "</p><div class=\"warps\"><i style=\"width:", part,
          "%\"></i></div><table class=\"numbers\"><thead><tr><th>limit</th><th>needed</th>"
          "<th>blocks that fit</th></tr></thead><tbody>",
          rows, "</tbody></table>"));
}

std::string phase_card(const SimtKernelCounts& k) {
  const std::string picture = phase_picture(k);
  if (picture.empty()) return "";
  const std::string more =
      k.all_phases > 48 ? str(" The first 48 of ", k.all_phases, " stretches are drawn.") : "";
  return str(
      "<section class=\"card wide\"><figcaption><h2>Warps of the first block</h2><span "
      "class=\"legend\"><span><i class=\"swatch d\"></i>device memory</span><span><i "
      "class=\"swatch s\"></i>shared memory</span><span><i class=\"swatch l\"></i>between "
      "lanes</span><span><i class=\"swatch w\"></i>waits"
      "</span></span></figcaption><p class=\"note\">Not a time: the length of a bar is how many "
      "instructions of each kind a warp executed between two barriers (dashed), in no order "
      "within. "
      "Who has fewer waits for the warp with most.",
      more, "</p>", picture, "</section>\n");
}

// "12 alu, 2 lsu" of "alu:12,lsu:2".
static std::string mix_text(const std::string& mix) {
  std::string text;
  for (const auto& [pipe, instructions] : parts_of_mix(mix))
    text += str(text.empty() ? "" : ", ", instructions, " ", pipe);
  return text.empty() ? mix : text;
}

std::string code_card(const LookKernel& k) {
  if (!k.code)
    return look_card("Machine code",
                     "<p class=\"note\">The committed table (bench/sass) has the kernels that "
                     "operators take by default on cuda; this one is not among them.</p>",
                     " wide");
  const LookCode& c = *k.code;
  std::string rows;
  const auto row = [&](const char* name, const std::string& value) {
    rows += str("<tr><th scope=\"row\">", name, "</th><td>", html_escape(value), "</td></tr>");
  };
  row("kernel", c.kernel);
  row("registers of a thread", str(c.registers));
  row("stack frame", c.stack ? str(c.stack, " bytes: spills or indexed arrays") : "none");
  row("widest access", c.store ? str("loads of ", c.load, ", stores of ", c.store, " bytes a lane")
                               : str("loads of ", c.load, " bytes a lane"));
  row("issue slots a KiB", three_digits(c.slots));
  row("busiest pipe", c.pipe);
  if (!c.mix.empty()) row("instructions of a turn, by pipe", mix_text(c.mix));
  row("loads under way on a processor", str(three_digits(c.flight), " KiB"));
  for (const LookCode::Modelled& m : c.modelled)
    row((m.gpu + ", modelled").c_str(),
        str(three_digits(100 * m.fraction), m.of_product ? " % of the peak" : " % of a copy",
            ", bound by ", m.bound));
  return look_card("Machine code", str("<table>", rows, "</table>"), " wide");
}

}  // namespace wt::tools
