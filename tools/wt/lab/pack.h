// What a teacher hands out. Internal.
#pragma once
#include <string>
#include <vector>

#include "warptape/tools/wt/lab/class_key.h"
#include "warptape/tools/wt/lab/lab.h"

namespace wt::labs {

// Pages, stubs, headers and check archives of `labs` in the folder OUT/labs, with the class's key;
// beside it OUT/teacher.json, with key and seed, for the teacher alone. UsageError where OUT is
// there already. Ended in the middle it leaves nothing.
void make_pack(const std::vector<Lab>& labs, const ClassKey& c, const std::string& out);

}  // namespace wt::labs
