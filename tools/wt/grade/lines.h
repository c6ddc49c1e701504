// Places in a program that its executor could not name itself, as lines of the source. Internal.
#pragma once
#include <string>

namespace wt::grade {

// "kernel.race+0x1f40" in the text becomes "softmax.cu:41": of the functions that are inlined there
// the innermost one in `own`, the student's file, else the innermost of all. What nobody knows
// stays.
std::string with_lines(const std::string& text, const std::string& program, const std::string& own);

// The first "softmax.cu:41" of this file in the text; 0: none.
int first_line(const std::string& text, const std::string& own);

}  // namespace wt::grade
