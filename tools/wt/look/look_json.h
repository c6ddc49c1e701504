// What the page of `wt look` shows, for programs.
#pragma once
#include <string>

#include "warptape/tools/wt/look/look.h"

namespace wt::tools {

// One JSON object; docs/look.md has its fields.
std::string look_json(const Look& look, const FindSource& find);

}  // namespace wt::tools
