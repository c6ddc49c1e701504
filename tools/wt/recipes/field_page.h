// A function of place and time beside its reference, as a page and as a picture.
#pragma once
#include <string>
#include <vector>

#include "warptape/tools/wt/recipes/burgers.h"

namespace wt::tools {

// u8 [H, W, 3], time upwards, place to the right: the reference, what was predicted (values as f.u)
// and their difference side by side.
Tensor field_picture(const BurgersField& f, const std::vector<double>& predicted);
// The same with its scales, and slices at t = 0.25, 0.5 and 0.75; `notes` are lines of text.
std::string field_page(const std::string& title, const std::vector<std::string>& notes,
                       const BurgersField& f, const std::vector<double>& predicted);

}  // namespace wt::tools
