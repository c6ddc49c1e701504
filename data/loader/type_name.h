// The name of a type as a person writes it, for messages. Internal.
#pragma once
#include <string>
#include <typeinfo>

namespace wt::data::detail {
std::string type_name(const std::type_info& t);
}  // namespace wt::data::detail
