#include "warptape/core/build_info.h"

#include <cctype>
#include <cstring>

#include "warptape/core/error.h"

namespace wt {

std::string why_without(const Feature& part) {
  if (part.on()) return {};
  if (std::strcmp(part.state, "off") != 0)
    return str("configure found none that can be used: ", part.how_to_get);
  std::string option;
  for (const char* c = part.name; *c; ++c)
    option += char(std::toupper(static_cast<unsigned char>(*c)));
  return str("it was switched off (-DWARPTAPE_WITH_", option, "=OFF): ", part.how_to_get);
}

std::string why_without(const char* name) {
  const Feature* part = find_feature(name);
  return part ? why_without(*part) : std::string();
}

}  // namespace wt
