#include "warptape/tools/wt/look/look_page.h"

#include "warptape/core/files/html_page.h"
#include "warptape/tools/wt/look/look_figures.h"
#include "warptape/tools/wt/look/look_sections.h"
#include "warptape/tools/wt/look/look_style.h"
#include "warptape/tools/wt/look/ptx_listing.h"
#include "warptape/tools/wt/look/roof_picture.h"
#include "warptape/tools/wt/number_text.h"
#include "warptape/tools/wt/reports/report_style.h"
#include "warptape/version.h"

namespace wt::tools {
namespace {

using chart::html_escape;

std::string look_tiles(const Look& look) {
  std::string out;
  for (const LookTile& t : tiles_of(look))
    out += str("<li", t.waste ? " class=\"waste\"" : "", "><b>", three_digits(t.value),
               t.ratio ? " x" : "", "</b><span>", t.label, "</span></li>");
  return "<ul class=\"tiles\">" + out + "</ul>\n";
}

std::string size_of_grid(const std::array<unsigned, 3>& s) {
  return s[2] > 1   ? str(s[0], " x ", s[1], " x ", s[2])
         : s[1] > 1 ? str(s[0], " x ", s[1])
                    : str(s[0]);
}

std::string kernel_head(const SimtKernelCounts& k) {
  return str("<h2 class=\"kernel\">", html_escape(k.kernel), "</h2>\n<p class=\"sub\">",
             k.launches > 1 ? str(k.launches, " launches, the first of ") : "", "grid ",
             size_of_grid(k.grid), ", blocks of ", size_of_grid(k.block), " threads, ",
             k.shared_bytes, " bytes of shared memory a block</p>\n");
}

std::string roof_card(const Look& look) {
  const std::string picture = roof_picture(look);
  std::string said;
  if (picture.empty()) {
    said = "The contract counts no FLOPs: memory alone is its roof.";
  } else {
    const RoofPoint p =
        under_roof(look.flops, look.bytes, look.dtype, on_tensor_cores(look), LookGpu{});
    said = str("The contract moves ", chart::short_number(look.bytes), " bytes and computes ",
               chart::short_number(look.flops), " FLOPs: ", three_digits(p.intensity),
               " a byte. There an ", LookGpu{}.name, " allows at most ",
               chart::short_number(p.gflop_s), " GFLOP/s, by its ",
               p.by_memory ? "memory" : "arithmetic", " (datasheet; nothing here is a time).");
  }
  const std::string legend =
      picture.empty()
          ? ""
          : "<span class=\"legend\"><span><i class=\"swatch d\"></i>contract's bytes</span>"
            "<span><i class=\"swatch t\"></i>bytes touched here</span></span>";
  return str("<section class=\"card wide\" id=\"roof\"><figcaption><h2>Roofline</h2>", legend,
             "</figcaption><p class=\"note\">", said, "</p>", picture, "</section>\n");
}

constexpr char kMeaning[] =
    "<section class=\"card wide\"><h2>What these numbers are</h2><p class=\"note\">The kernel ran "
    "on simt, which knows every address: sectors, banks, lanes and waits are exact for the "
    "accesses "
    "of the source. There is no time in them, and none of what a GPU adds or spares: hits of "
    "caches, "
    "bytes of DRAM, what nvcc merges, hoists or unrolls. A sector is 32 bytes of device memory; a "
    "pass "
    "is one turn over shared memory's 32 banks of 4 bytes. \"of\" is as few as these bytes could "
    "do "
    "with. Registers and modelled fractions are those of the machine code that nvcc makes for "
    "compute capability 9.0, committed with warptape.</p></section>\n";

}  // namespace

std::string look_page(const Look& look, const FindSource& find) {
  const std::string title = str(look.contract, ": ", look.variant);
  std::string body;
  for (std::size_t i = 0; i < look.kernels.size(); ++i) {
    const LookKernel& k = look.kernels[i];
    const std::string prefix = str("k", i + 1, "-");
    body += kernel_head(k.counts) + "<div class=\"cards\">\n" + totals_card(k.counts) +
            occupancy_card(k) + source_cards(k.counts, find, prefix) +
            pattern_card(k.counts, find, prefix) + phase_card(k.counts) + code_card(k) + "</div>\n";
  }
  return str(page_begin({.title = title, .style = str(kReportStyle, kLookStyle)}), "<main><h1>",
             html_escape(title), "</h1>\n<p class=\"sub\">", html_escape(look.shape), ", ",
             html_escape(look.dtype), look.chosen ? ", what is taken by default" : "",
             "; counted on simt by warptape " WARPTAPE_VERSION_STRING ", not timed</p>\n",
             look_tiles(look), body, "<div class=\"cards\">\n", ptx_cards(look, find),
             roof_card(look), kMeaning, "</div>\n</main>", page_end());
}

}  // namespace wt::tools
