#include "warptape/tools/wt/data/contact_sheet.h"

#include <algorithm>
#include <cmath>

#include "warptape/autograd/ops/arrange.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/chart.h"
#include "warptape/core/factories.h"
#include "warptape/core/files/html_page.h"
#include "warptape/data/image.h"
#include "warptape/data/transforms.h"

namespace wt::tools {
namespace {

using chart::html_escape;

constexpr i64 kGap = 4, kBackground = 246;

// u8 [H, W, 3] of at most `side` pixels each way.
Tensor tile(const Tensor& chw, i64 side) {
  const NoGrad no_grad;
  Tensor t = chw;
  const i64 longest = std::max(t.size(1), t.size(2));
  if (longest > side) {
    const auto shorter = [&](i64 n) { return std::max<i64>(1, n * side / longest); };
    const data::Compose fit{data::Resize{{shorter(t.size(1)), shorter(t.size(2))}}};
    t = clamp(round(fit(t)), 0, 255).to(DType::u8);
  } else if (const i64 times = side / longest; times > 1) {
    t = repeat_interleave(repeat_interleave(t, times, 1), times, 2);
  }
  if (t.size(0) == 1) t = cat({t, t, t}, 0);
  return permute(t, {1, 2, 0}).contiguous();
}

std::string base64(const std::string& bytes) {
  static constexpr char kDigits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    u32 group = 0;
    const size_t n = std::min<size_t>(3, bytes.size() - i);
    for (size_t k = 0; k < 3; ++k) group = group << 8 | (k < n ? u8(bytes[i + k]) : 0);
    for (size_t k = 0; k < 4; ++k) out += k <= n ? kDigits[group >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

std::string sheet_style(i64 side) {
  return str(
      "body{margin:24px;font-size:14px}h1{font-size:20px;margin:0 0 4px}"
      "p{margin:0 0 4px;color:var(--soft)}",
      kSheetStyle, ".sheet li{max-width:", side * 2 + 8, "px}");
}

}  // namespace

Tensor contact_sheet(const std::vector<SheetCell>& cells, i64 side) {
  if (cells.empty()) throw UsageError("a sheet needs a picture");
  std::vector<std::vector<Tensor>> tiles;
  i64 height = 1, width = 1, parts = 1;
  for (const SheetCell& c : cells) {
    tiles.emplace_back();
    for (const Tensor& p : c.pixels) {
      tiles.back().push_back(tile(p, side));
      height = std::max(height, tiles.back().back().size(0));
      width = std::max(width, tiles.back().back().size(1));
    }
    parts = std::max(parts, i64(c.pixels.size()));
  }
  const i64 n = i64(cells.size());
  const i64 columns =
      std::max<i64>(1, std::min(n, i64(std::ceil(std::sqrt(double(n) * 1.5 / double(parts))))));
  const i64 rows = (n + columns - 1) / columns, cell_width = parts * width + (parts - 1);
  const Tensor sheet =
      full({rows * (height + kGap) + kGap, columns * (cell_width + kGap) + kGap, 3}, kBackground,
           {.dtype = DType::u8, .device = Device::cpu()});
  u8* const out = sheet.mutable_data<u8>();
  const i64 row_bytes = sheet.size(1) * 3;
  for (i64 k = 0; k < n; ++k)
    for (size_t p = 0; p < tiles[size_t(k)].size(); ++p) {
      const Tensor& t = tiles[size_t(k)][p];
      const i64 top = kGap + k / columns * (height + kGap) + (height - t.size(0)) / 2,
                left = kGap + k % columns * (cell_width + kGap) + i64(p) * (width + 1) +
                       (width - t.size(1)) / 2;
      for (i64 y = 0; y < t.size(0); ++y)
        std::copy_n(t.data<u8>() + y * t.size(1) * 3, t.size(1) * 3,
                    out + (top + y) * row_bytes + left * 3);
    }
  return sheet;
}

std::string contact_page(const std::string& title, const std::vector<std::string>& notes,
                         const std::vector<SheetCell>& cells, i64 side) {
  std::string page = str(page_begin({.title = title, .style = sheet_style(side), .pictures = true}),
                         "<h1>", html_escape(title), "</h1>");
  for (const std::string& note : notes) page += "<p>" + html_escape(note) + "</p>";
  return page + sheet_list(cells, side) + page_end();
}

std::string sheet_list(const std::vector<SheetCell>& cells, i64 side) {
  std::string list = "<ul class=\"sheet\">";
  for (const SheetCell& c : cells) {
    list += "<li>";
    for (const Tensor& p : c.pixels) {
      const Tensor t = tile(p, side);
      list += str("<img width=\"", t.size(1), "\" height=\"", t.size(0), "\" alt=\"",
                  html_escape(c.label), "\" src=\"data:image/png;base64,", base64(data::png_of(t)),
                  "\">");
    }
    list += "<br>" + html_escape(c.label) + "</li>";
  }
  return list + "</ul>";
}

}  // namespace wt::tools
