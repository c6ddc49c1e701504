// What wt diff prints and writes of two runs' differences.
#pragma once
#include <string>

#include "warptape/tools/wt/reports/run_diff.h"

namespace wt::tools {

struct DiffNames {
  std::string a, b;              // as given
  std::string label_a, label_b;  // what the recordings say of themselves
  int rank = 0;
};

std::string diff_text(const RunDiff& d, const DiffNames& names, std::size_t rows = 20);
std::string diff_json(const RunDiff& d, const DiffNames& names);  // one line
// One file without network, light and dark.
std::string diff_page(const RunDiff& d, const DiffNames& names);

}  // namespace wt::tools
