// Counts of a kernel by the lines of its source.
#pragma once
#include <string>
#include <vector>

#include "warptape/tools/wt/look/look_figures.h"

namespace wt::tools {

// Sums over instructions that a line makes in one way.
struct LineAccess {
  bool shared = false;
  SimtAccess::Kind kind = SimtAccess::Kind::load;
  unsigned bytes = 0;  // of a lane
  std::string via;     // "row_kernels.cuh:91": the helper that makes it; empty: the line itself
  double requests = 0, lanes = 0, units = 0, least = 0;
  SimtRequest first{};
  bool wasteful() const { return is_waste(units, least); }
  std::string name() const;  // "device load, 4 bytes a lane"
};
struct LineWait {
  std::string what;
  double warps = 0;
};
struct CountedLine {
  int number = 0;
  std::vector<LineAccess> accesses{};
  std::vector<LineWait> waits{};
};
struct CountedFile {
  std::string path;  // as debug information has it
  std::vector<CountedLine> lines{};
};

// The file with most accesses, the kernel's, first.
std::vector<CountedFile> counts_by_line(const SimtKernelCounts& k);

// What a listing shows of a file: the lines that have counts and, where there is a text, those
// around them. The kernel's head, where it is near, belongs to it.
struct ListedLine {
  int number = 0;                       // 0: of accesses without a place
  const CountedLine* counts = nullptr;  // of the file; null: there are none
};
std::vector<ListedLine> listed_lines(const CountedFile& f, const std::vector<std::string>& text);

std::string base_name(const std::string& path);

}  // namespace wt::tools
