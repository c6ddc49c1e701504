#include "warptape/tools/wt/lab/class_key.h"

#include <filesystem>
#include <random>

#include "warptape/core/build_info.h"
#include "warptape/core/error.h"
#include "warptape/core/files/json.h"
#include "warptape/core/input_file.h"
#include "warptape/tools/wt/lab/json_value.h"
#include "warptape/tools/wt/lab/sha256.h"

namespace wt::labs {
namespace {

std::string class_id(const std::string& key) {
  return hex_of(sha256("class " + key)).substr(0, 12);
}

ClassKey key_in(const std::string& path, const char* mark) {
  const Json j = read_json(read_text(path), path);
  ClassKey c{.key = j.string("key"), .seed = j.seed("seed"), .version = j.string("version")};
  if (!j.find(mark) || c.key.size() != 64) data_error(path, 0, "it has no key of a class");
  c.id = class_id(c.key);
  return c;
}

}  // namespace

ClassKey new_class(u64 seed) {
  std::random_device device;
  std::string bytes;
  while (bytes.size() < 32) {
    const u32 word = device();
    for (int shift = 0; shift < 32; shift += 8) bytes += char(word >> shift);
  }
  ClassKey c{.key = hex_of(bytes), .seed = seed};
  c.id = class_id(c.key);
  return c;
}

ClassKey read_class(const std::string& path) { return key_in(path, "wt_lab_class"); }

std::string class_json(const ClassKey& c) {
  JsonObject j;
  j.add("wt_lab_class", 1).add("class", c.id).add("key", c.key).add("seed", c.seed);
  return j.str() + "\n";
}

ClassKey key_of_labs(const std::string& labs) {
  const std::string path = labs + "/pack.json";
  std::error_code error;
  return std::filesystem::exists(path, error) ? key_in(path, "wt_lab_pack") : ClassKey{};
}

std::string pack_json(const ClassKey& c) {
  JsonObject j;
  j.add("wt_lab_pack", 1).add("class", c.id).add("key", c.key);
  j.add("version", build_info().version);
  return j.str() + "\n";
}

}  // namespace wt::labs
