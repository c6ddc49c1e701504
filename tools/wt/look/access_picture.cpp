#include "warptape/tools/wt/look/access_picture.h"

#include <algorithm>
#include <bit>
#include <map>

#include "warptape/core/chart.h"
#include "warptape/core/str.h"

namespace wt::tools {
namespace {

using chart::fixed;

constexpr double kAccessWidth = 700, kAccessMargin = 6, kLaneTop = 18, kBox = 16;

// Lanes that a bit stands for: "0-7, 9".
std::string lane_text(u32 lanes) {
  std::string text;
  for (int i = 0; i < 32; ++i) {
    if (!(lanes >> i & 1)) continue;
    int last = i;
    while (last < 31 && lanes >> (last + 1) & 1) ++last;
    text += str(text.empty() ? "" : ", ", i, last > i ? str("-", last) : "");
    i = last;
  }
  return text;
}

std::string access_box(double x, double y, double w, double h, const std::string& style,
                       const std::string& title) {
  return str("<rect class=\"", style, "\" x=\"", fixed(x), "\" y=\"", fixed(y), "\" width=\"",
             fixed(w), "\" height=\"", fixed(h), "\" rx=\"2\"><title>", title, "</title></rect>");
}
std::string access_label(double x, double y, const std::string& style, const std::string& text) {
  return str("<text class=\"", style, "\" x=\"", fixed(x), "\" y=\"", fixed(y), "\">", text,
             "</text>");
}

double lane_x(int i) { return kAccessMargin + i * (kAccessWidth - 2 * kAccessMargin) / 32; }
double lane_width() { return (kAccessWidth - 2 * kAccessMargin) / 32 - 2; }

std::string lane_row(const SimtRequest& r) {
  std::string out = access_label(kAccessMargin, 11, "tick", "lanes");
  for (int i = 0; i < 32; ++i) {
    const bool on = r.lanes >> i & 1;
    out += access_box(
        lane_x(i), kLaneTop, lane_width(), kBox, on ? "lane" : "lane off",
        on ? str("lane ", i, ": byte ", r.offset[size_t(i)]) : str("lane ", i, ": idle"));
    out += access_label(lane_x(i) + lane_width() / 2, kLaneTop + 12, on ? "in on" : "in", str(i));
  }
  return out;
}

std::string access_svg(double height, const std::string& name, const std::string& body) {
  return str("<svg class=\"access\" viewBox=\"0 0 ", fixed(kAccessWidth), " ", fixed(height),
             "\" role=\"img\" aria-label=\"", chart::html_escape(name), "\">", body, "</svg>");
}

// --- device memory ---

std::string byte_runs(u32 bytes, double x, double y, double width, double height) {
  std::string out;
  for (int b = 0; b < kSectorBytes; ++b) {
    if (!(bytes >> b & 1)) continue;
    int last = b;
    while (last < kSectorBytes - 1 && bytes >> (last + 1) & 1) ++last;
    out += str("<rect class=\"used\" x=\"", fixed(x + width * b / kSectorBytes), "\" y=\"",
               fixed(y), "\" width=\"", fixed(width * (last + 1 - b) / kSectorBytes),
               "\" height=\"", fixed(height), "\"/>");
    b = last;
  }
  return out;
}

std::string sector_picture(const LineAccess& a) {
  const std::vector<PicturedSector> sectors = sectors_of(a.first, a.bytes);
  const double top = kLaneTop + kBox + 64, height = 18;
  // Where sectors are not neighbours there is a gap, of one width whatever lies between.
  double gaps = 0;
  for (size_t i = 1; i < sectors.size(); ++i)
    gaps += sectors[i].offset != sectors[i - 1].offset + kSectorBytes;
  const double gap = std::min(14.0, gaps > 0 ? 160 / gaps : 0);
  const double room = kAccessWidth - 2 * kAccessMargin - gaps * gap;
  const double width = std::min(44.0, room / double(std::max<size_t>(sectors.size(), 1)));
  const double used = width * double(sectors.size()) + gaps * gap;
  double x = (kAccessWidth - used) / 2;
  std::string lines, boxes;
  for (size_t i = 0; i < sectors.size(); ++i) {
    const PicturedSector& s = sectors[i];
    if (i > 0 && s.offset != sectors[i - 1].offset + kSectorBytes) x += gap;
    for (u32 rest = s.lanes; rest; rest &= rest - 1)
      lines += str(
          "<path class=\"wire\" d=\"M", fixed(lane_x(std::countr_zero(rest)) + lane_width() / 2),
          " ", fixed(kLaneTop + kBox), "L", fixed(x + (width - 1) / 2), " ", fixed(top), "\"/>");
    boxes +=
        access_box(x, top, width - 1, height, "sector",
                   str("bytes ", s.offset, " to ", s.offset + kSectorBytes - 1, ": ",
                       std::popcount(s.bytes), " of 32 asked for, by lanes ", lane_text(s.lanes)));
    boxes += byte_runs(s.bytes, x, top, width - 1, height);
    x += width;
  }
  u64 asked = 0;
  for (const PicturedSector& s : sectors) asked += u64(std::popcount(s.bytes));
  const std::string said =
      str(sectors.size(), sectors.size() == 1 ? " sector" : " sectors", " of 32 bytes, ", asked,
          " of ", sectors.size() * kSectorBytes, " bytes asked for");
  return access_svg(top + height + 22, a.name() + ": " + said,
                    lines + lane_row(a.first) + boxes +
                        access_label(kAccessMargin, top + height + 16, "tick", said));
}

// --- shared memory ---

std::string bank_picture(const LineAccess& a) {
  const bool atomic = a.kind == SimtAccess::Kind::atomic;
  const std::vector<PicturedPass> passes = passes_of(a.first, a.bytes, atomic);
  std::string out =
      access_label(kAccessMargin, 11, "tick", "banks; in each the lane that it serves");
  for (int bank = 0; bank < kBanks; ++bank)
    out += access_label(lane_x(bank) + lane_width() / 2, 26, "in", str(bank));
  double y = 32;
  for (size_t pass = 0; pass < passes.size(); ++pass, y += kBox + 2) {
    for (int bank = 0; bank < kBanks; ++bank) {
      const PicturedWord& w = passes[pass].banks[size_t(bank)];
      const int lanes = std::popcount(w.lanes);
      out += access_box(lane_x(bank), y, lane_width(), kBox,
                        lanes == 0              ? "bank off"
                        : passes[pass].conflict ? "bank later"
                                                : "bank",
                        lanes == 0 ? str("bank ", bank, " rests in pass ", pass + 1)
                                   : str("pass ", pass + 1, ", bank ", bank, ": word ", w.word,
                                         " for lanes ", lane_text(w.lanes)));
      if (lanes == 1)
        out += access_label(lane_x(bank) + lane_width() / 2, y + 12, "in on",
                            str(std::countr_zero(w.lanes)));
      if (lanes > 1)
        out += access_label(lane_x(bank) + lane_width() / 2, y + 12, "in on", str(lanes, "x"));
    }
  }
  const std::string said =
      str(passes.size(), passes.size() == 1 ? " pass" : " passes", " over the banks for ",
          std::popcount(a.first.lanes), std::popcount(a.first.lanes) == 1 ? " lane" : " lanes");
  out += access_label(kAccessMargin, y + 12, "tick", said);
  return access_svg(y + 18, a.name() + ": " + said, out);
}

}  // namespace

std::vector<PicturedSector> sectors_of(const SimtRequest& r, unsigned bytes) {
  std::map<u64, PicturedSector> all;
  for (u32 rest = r.lanes; rest; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    for (u64 b = r.offset[size_t(lane)]; b < r.offset[size_t(lane)] + bytes; ++b) {
      PicturedSector& s = all[b / kSectorBytes];
      s.offset = b / kSectorBytes * kSectorBytes;
      s.lanes |= 1u << lane;
      s.bytes |= 1u << (b % kSectorBytes);
    }
  }
  std::vector<PicturedSector> sectors;
  for (const auto& [number, s] : all) sectors.push_back(s);
  return sectors;
}

std::vector<PicturedPass> passes_of(const SimtRequest& r, unsigned bytes, bool atomic) {
  const int group = bytes <= 4 ? 32 : bytes <= 8 ? 16 : 8;
  std::vector<PicturedPass> passes;
  for (int from = 0; from < 32; from += group) {
    std::map<u64, u32> banks[kBanks];  // words, and their lanes
    for (int lane = from; lane < from + group; ++lane) {
      if (!(r.lanes >> lane & 1)) continue;
      const u64 at = r.offset[size_t(lane)];
      for (u64 w = at / kBankBytes; w <= (at + bytes - 1) / kBankBytes; ++w)
        banks[w % kBanks][atomic ? w << 5 | u64(lane) : w] |= 1u << lane;
    }
    const size_t begin = passes.size();
    for (int bank = 0; bank < kBanks; ++bank) {
      size_t pass = begin;
      for (const auto& [word, lanes] : banks[bank]) {
        if (pass == passes.size())
          passes.push_back({std::vector<PicturedWord>(kBanks), pass > begin});
        passes[pass++].banks[size_t(bank)] = {atomic ? word >> 5 : word, lanes};
      }
    }
  }
  return passes;
}

std::string access_picture(const LineAccess& a) {
  return a.shared ? bank_picture(a) : sector_picture(a);
}

}  // namespace wt::tools
