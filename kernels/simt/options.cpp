#include <cstdlib>
#include <cstring>

#include "warptape/kernels/simt/runtime.h"

namespace wt {

SimtOptions simt_runtime::parse_options(const char* order, const char* protect, bool& protect_on) {
  SimtOptions o;
  if (order && *order) {
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
      throw UsageError(std::string("WT_SIMT_ORDER is forward, reverse or random[:seed]: got ") +
                       order);
  }
  if (protect && *protect) {
    if (std::strcmp(protect, "0") != 0 && std::strcmp(protect, "1") != 0)
      throw UsageError(std::string("WT_SIMT_PROTECT is 0 or 1: got ") + protect);
    protect_on = *protect == '1';
  }
  return o;
}

simt_runtime::StreamOptions simt_runtime::parse_streams(const char* text) {
  StreamOptions o;
  if (!text || !*text || !std::strcmp(text, "eager")) return o;
  o.mode = SimtStreams::lazy;
  if (!std::strcmp(text, "lazy")) return o;
  char* end = nullptr;
  if (!std::strncmp(text, "lazy:", 5) && text[5] >= '0' && text[5] <= '9')
    o.seed = std::strtoull(text + 5, &end, 10);
  if (!end || *end)
    throw UsageError(std::string("WT_SIMT_STREAMS is eager or lazy[:seed]: got ") + text);
  return o;
}

SimtOptions& simt_options() {
  static SimtOptions options = [] {
    bool protect = false;
    const SimtOptions o = simt_runtime::parse_options(std::getenv("WT_SIMT_ORDER"),
                                                      std::getenv("WT_SIMT_PROTECT"), protect);
    if (protect) simt_protect(true);
    return o;
  }();
  return options;
}

}  // namespace wt
