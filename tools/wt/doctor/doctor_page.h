// `wt doctor --html`: an examination as a page.
#pragma once
#include <string>

#include "warptape/tools/wt/doctor/recipe_doctor.h"

namespace wt::tools {

// One HTML file without network, for light and dark: the findings in their order, each with its
// severity, numbers, cost and fix, a search, the search for a rate as a chart, and what was looked
// for. All texts are escaped: they have names of the program's own.
std::string doctor_page(const TrainOptions& o, const RecipeExam& exam);

}  // namespace wt::tools
