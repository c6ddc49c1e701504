#include <cstdlib>
#include <cstring>

#include "warptape/kernels/simt/runtime.h"

namespace wt {
namespace {

SimtOptions options_from_environment() {
  SimtOptions o;
  if (const char* order = std::getenv("WT_SIMT_ORDER"); order && *order) {
    const char* colon = std::strchr(order, ':');
    const std::string name(order, colon ? size_t(colon - order) : std::strlen(order));
    char* end = nullptr;
    if (colon) o.seed = std::strtoull(colon + 1, &end, 10);
    const bool seeded = colon && end != colon + 1 && *end == 0;
    if (name == "forward" && !colon)
      o.order = SimtOrder::forward;
    else if (name == "reverse" && !colon)
      o.order = SimtOrder::reverse;
    else if (name == "random" && (!colon || seeded))
      o.order = SimtOrder::random;
    else
      throw UsageError(
          std::string("WT_SIMT_ORDER must be forward, reverse or random[:seed], got ") + order);
  }
  if (const char* protect = std::getenv("WT_SIMT_PROTECT"); protect && *protect) {
    if (std::strcmp(protect, "0") != 0 && std::strcmp(protect, "1") != 0)
      throw UsageError(std::string("WT_SIMT_PROTECT must be 0 or 1, got ") + protect);
    if (*protect == '1') simt_protect(true);
  }
  return o;
}

}  // namespace

SimtOptions& simt_options() {
  static SimtOptions options = options_from_environment();
  return options;
}

}  // namespace wt
