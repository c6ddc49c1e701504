// The lines of `wt bench ... --json` and wt_gpu_bench --json.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "warptape/core/files/json.h"

namespace wt::tools {

struct BenchLine {
  std::map<std::string, JsonScalar> values;  // by key, without those that are objects or lists

  std::string word(const std::string& key) const;  // "" where it is no string
  double number(const std::string& key) const;     // 0 where it is none, or not finite
};
// All but empty ones. Throws DataError with file and place.
std::vector<BenchLine> read_bench_lines(std::string_view text, const std::string& path);
std::vector<BenchLine> read_bench_file(const std::string& path);

}  // namespace wt::tools
