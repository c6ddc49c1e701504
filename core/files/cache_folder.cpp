#include "warptape/core/cache_folder.h"

#include <cstdlib>

namespace wt {

std::string user_cache_folder() {
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg && *xdg == '/')
    return std::string(xdg) + "/warptape";
  if (const char* home = std::getenv("HOME"); home && *home == '/')
    return std::string(home) + "/.cache/warptape";
  return {};
}

}  // namespace wt
