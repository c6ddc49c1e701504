// Whole error messages against a file of tests/golden. Line numbers and the name of the scratch
// folder are blotted out. WT_WRITE_GOLDEN=1 writes the file instead of comparing it: read the
// difference as a user would.
#pragma once
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "warptape/tests/support/temp_dir.h"

namespace golden {

// A mistake: what throws, and what the user did.
struct Example {
  const char* title;
  std::function<void(const TempDir&)> make;
};
using Examples = std::vector<Example>;

void compare(const std::string& file, std::initializer_list<const Examples*> lists);

}  // namespace golden
