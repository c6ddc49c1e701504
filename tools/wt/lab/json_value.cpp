#include "warptape/tools/wt/lab/json_value.h"

#include <cmath>
#include <cstdlib>

#include "warptape/core/error.h"
#include "warptape/core/files/json.h"
#include "warptape/core/input_file.h"

namespace wt::labs {
namespace {

constexpr int kDeepest = 16;

Json value_of(JsonReader& in, int depth) {
  Json v;
  if (depth > kDeepest) in.fail("nested too deeply");
  if (in.accept('{')) {
    v.kind = Json::Kind::object;
    if (in.accept('}')) return v;
    do {
      std::string key = in.string();
      in.expect(':');
      v.fields.emplace_back(std::move(key), value_of(in, depth + 1));
    } while (in.accept(','));
    in.expect('}');
  } else if (in.accept('[')) {
    v.kind = Json::Kind::list;
    if (in.accept(']')) return v;
    do v.list.push_back(value_of(in, depth + 1));
    while (in.accept(','));
    in.expect(']');
  } else {
    const JsonScalar s = in.scalar();
    v.kind = s.kind == JsonScalar::Kind::null      ? Json::Kind::null
             : s.kind == JsonScalar::Kind::boolean ? Json::Kind::boolean
             : s.kind == JsonScalar::Kind::number  ? Json::Kind::number
                                                   : Json::Kind::string;
    v.text = s.text;
  }
  return v;
}

}  // namespace

const Json* Json::find(std::string_view key) const {
  for (const auto& [name, value] : fields)
    if (name == key) return &value;
  return nullptr;
}

std::string Json::string(std::string_view key, const std::string& otherwise) const {
  const Json* const v = find(key);
  return v && v->kind == Kind::string ? v->text : otherwise;
}

i64 Json::whole(std::string_view key, i64 otherwise) const {
  const Json* const v = find(key);
  if (!v || v->kind != Kind::number) return otherwise;
  const double d = std::strtod(v->text.c_str(), nullptr);
  return std::abs(d) < 1e15 ? i64(d) : otherwise;
}

u64 Json::seed(std::string_view key) const {
  const Json* const v = find(key);
  return v && v->kind == Kind::number ? std::strtoull(v->text.c_str(), nullptr, 10) : 0;
}

bool Json::flag(std::string_view key) const {
  const Json* const v = find(key);
  return v && v->kind == Kind::boolean && v->text == "true";
}

const std::vector<Json>& Json::items(std::string_view key) const {
  static const std::vector<Json> none;
  const Json* const v = find(key);
  return v && v->kind == Kind::list ? v->list : none;
}

Json read_json(std::string_view text, const std::string& source) {
  JsonReader in(text, source);
  Json v = value_of(in, 0);
  in.finish();
  return v;
}

std::string json_list(const std::vector<std::string>& values) {
  std::string text;
  for (const std::string& v : values) text += (text.empty() ? "" : ",") + v;
  return "[" + text + "]";
}

std::string read_text(const std::string& path, u64 most) {
  const InputFile in(path);
  if (in.size() > most) data_error(path, 0, str("a file of more than ", most, " bytes"));
  std::string text(size_t(in.size()), '\0');
  in.read(0, text.data(), in.size(), "the file");
  return text;
}

std::string without_carriage_returns(std::string text) {
  std::erase(text, '\r');
  return text;
}

}  // namespace wt::labs
