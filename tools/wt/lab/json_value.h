// A JSON text as a tree: lab.json, reports and the state of a lab's folder are small. Internal.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "warptape/core/types.h"

namespace wt::labs {

struct Json {
  enum class Kind { null, boolean, number, string, list, object };
  Kind kind = Kind::null;
  std::string text{};  // of a string, number or boolean
  std::vector<Json> list{};
  std::vector<std::pair<std::string, Json>> fields{};

  const Json* find(std::string_view key) const;
  // Of a field, `otherwise` where there is none of this kind.
  std::string string(std::string_view key, const std::string& otherwise = "") const;
  i64 whole(std::string_view key, i64 otherwise = 0) const;
  u64 seed(std::string_view key) const;
  bool flag(std::string_view key) const;
  const std::vector<Json>& items(std::string_view key) const;
};

// DataError with the file's name and the byte.
Json read_json(std::string_view text, const std::string& source);
std::string json_list(const std::vector<std::string>& values);  // of JSON values

// A whole file of at most `most` bytes. DataError.
std::string read_text(const std::string& path, u64 most = u64{4} << 20);
// Of a text that mail programs, editors and version control may have turned into another system's.
std::string without_carriage_returns(std::string text);

}  // namespace wt::labs
