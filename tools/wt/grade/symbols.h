// What a student's object file has to do with others. Internal.
#pragma once
#include <string>

namespace wt::grade {

// "it defines memcmp, which others call", "it calls write, ..."; empty: nothing of the kind, or no
// nm to ask. A kernel file needs the maths library and what the kernels' headers declare; what the
// runner, the executor and the C library do with memory and descriptors is theirs.
std::string reach_of(const std::string& object);

}  // namespace wt::grade
