// What the grader compiles a kernel with: the compiler that built this wt, the folders of headers
// and the parts that a kernel is linked with. Configure writes it down; in the build tree it lies
// in grade/ beside wt, installed in share/warptape/grade. Internal.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace wt::grade {

// nvcc: for the emulated cuda device; the others are simt's.
enum class Flavour { plain, asan, race, nvcc };
constexpr Flavour kFlavours[] = {Flavour::plain, Flavour::asan, Flavour::race, Flavour::nvcc};
const char* flavour_name(Flavour f);

struct Support {
  std::string compiler;
  std::vector<std::string> includes;   // folders
  std::vector<std::string> libraries;  // files, in the order of the linker's command
  std::vector<std::string> race;       // files, before these, of the race flavour
  std::string nvcc;                    // empty: this wt has no emulated device
  std::vector<std::string> cuda;       // files, instead of these, of what nvcc made
  std::vector<std::string> options;    // of every compilation
  std::map<Flavour, std::vector<std::string>> flavour_options, link_options;
};
// NotAvailable where this wt has none, DataError for a file that is none. `folder`: where it is;
// empty: of the running program.
Support read_support(const std::string& folder = "");

}  // namespace wt::grade
