// Pictures side by side, as one PNG or as a page that opens offline.
#pragma once
#include <string>
#include <vector>

#include "warptape/tools/wt/data/pictures.h"

namespace wt::tools {

struct SheetCell {
  std::string label;
  // u8 [C, H, W], C = 1 or 3: as it is, then as it becomes.
  std::vector<Tensor> pixels;
};

// A grid, u8 [H, W, 3]: what belongs to one cell side by side, small pictures enlarged by whole
// numbers, large ones resized to at most `side` pixels. Without labels.
Tensor contact_sheet(const std::vector<SheetCell>& cells, i64 side);

// All cells with their labels, as a list of a page that allows pictures and has kSheetStyle.
inline constexpr char kSheetStyle[] =
    "ul.sheet{display:flex;flex-wrap:wrap;gap:12px;list-style:none;margin:16px 0 0;padding:0}"
    ".sheet li{text-align:center;overflow-wrap:anywhere}"
    ".sheet img{image-rendering:pixelated;margin:0 1px}";
std::string sheet_list(const std::vector<SheetCell>& cells, i64 side);

// A page with the title, the notes and all cells with their labels.
std::string contact_page(const std::string& title, const std::vector<std::string>& notes,
                         const std::vector<SheetCell>& cells, i64 side);

}  // namespace wt::tools
