// Lines of fields that tabs separate, as the files have in which measurements are kept: those of
// `wt tune`, `wt bench machine` and of first uses. Internal.
#pragma once
#include <charconv>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace wt::detail {

// The fields of a line, empty ones too, at least one: views into it.
inline std::vector<std::string_view> fields_of(std::string_view line, char at = '\t') {
  std::vector<std::string_view> fields;
  for (size_t end; (end = line.find(at)) != line.npos; line.remove_prefix(end + 1))
    fields.push_back(line.substr(0, end));
  fields.push_back(line);
  return fields;
}

// A field's text has neither tabs nor ends of lines.
inline std::string as_field(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  return text;
}

// False unless all of it is one number.
template <class T>
bool reads_as(std::string_view field, T& value) {
  const auto [at, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  return error == std::errc() && at == field.data() + field.size();
}

}  // namespace wt::detail
