// Where what was found out once about this machine is kept for the next process.
#pragma once
#include <string>

namespace wt {

// $XDG_CACHE_HOME/warptape or ~/.cache/warptape, which need not exist; "" where neither is an
// absolute path.
std::string user_cache_folder();

}  // namespace wt
