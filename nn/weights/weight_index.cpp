#include "warptape/nn/weights/weight_index.h"

#include <algorithm>
#include <set>

#include "warptape/core/files/json.h"
#include "warptape/core/input_file.h"

namespace wt::nn::detail {
namespace {

// The name becomes a part of a path that is opened.
std::string file_name(JsonReader& json) {
  const u64 at = json.offset();
  if (json.peek() != '"') json.fail("a tensor's file is not a string");
  std::string name = json.string();
  const auto refuse = [&](const char* why) {
    json.fail(str("the file '", printable(name), "' of byte ", at, " ", why));
  };
  if (name.find('/') != name.npos || name.find('\0') != name.npos || name.starts_with('.'))
    refuse("is no plain name: an index names files of its own folder");
  if (name.ends_with(".bin") || name.ends_with(".pt") || name.ends_with(".pth"))
    refuse("is a PyTorch file; pickles are never read\n  Try tools/convert_pt.py for each of them");
  if (!name.ends_with(".safetensors")) refuse("does not end in .safetensors");
  return name;
}

void check_new(JsonReader& json, std::set<std::string>& seen, const std::string& key) {
  if (!seen.insert(key).second) json.fail(str("'", printable(key), "' appears twice"));
}

void read_metadata(JsonReader& json, WeightIndex& index, const ParseLimits& limits) {
  json.expect('{');
  if (json.accept('}')) return;
  std::set<std::string> seen;
  do {
    if (seen.size() >= limits.max_items)
      json.fail(str("more metadata than the limit of ", limits.max_items));
    std::string key = json.string();
    check_new(json, seen, key);
    json.expect(':');
    if (json.peek() == '"')
      index.metadata.emplace_back(std::move(key), json.string());
    else
      json.skip_value();  // total_size counts tied weights once or twice, as its writer likes
  } while (json.accept(','));
  json.expect('}');
}

void read_weight_map(JsonReader& json, WeightIndex& index, const ParseLimits& limits) {
  json.expect('{');
  if (json.accept('}')) return;
  do {
    if (index.weight_map.size() >= limits.max_items)
      json.fail(str("more tensors than the limit of ", limits.max_items));
    std::string name = json.string();
    json.expect(':');
    index.weight_map.emplace_back(std::move(name), file_name(json));
  } while (json.accept(','));
  json.expect('}');
}

bool less_by_name(const StringPairs::value_type& a, const StringPairs::value_type& b) {
  return a.first < b.first;
}

WeightIndex parsed(std::string_view text, const std::string& path, const ParseLimits& limits) {
  JsonReader json(text, path, 0, limits);
  WeightIndex index;
  std::set<std::string> seen;
  json.expect('{');
  if (!json.accept('}')) {
    do {
      if (seen.size() >= limits.max_items)
        json.fail(str("more keys than the limit of ", limits.max_items));
      const std::string key = json.string();
      check_new(json, seen, key);
      json.expect(':');
      if (key == "metadata")
        read_metadata(json, index, limits);
      else if (key == "weight_map")
        read_weight_map(json, index, limits);
      else
        json.skip_value();
    } while (json.accept(','));
    json.expect('}');
  }
  json.finish();
  if (!seen.contains("weight_map"))
    json.fail("there is no 'weight_map': this is no index of weights");
  StringPairs& map = index.weight_map;
  std::stable_sort(map.begin(), map.end(), less_by_name);
  const auto same = [](const auto& a, const auto& b) { return a.first == b.first; };
  for (auto at = map.begin(); (at = std::adjacent_find(at, map.end(), same)) != map.end(); ++at)
    if (index.twice.empty() || index.twice.back() != at->first) index.twice.push_back(at->first);
  map.erase(std::unique(map.begin(), map.end(), same), map.end());
  return index;
}

}  // namespace

WeightIndex read_weight_index(const std::string& path, const ParseLimits& limits) {
  const InputFile file(path);
  if (file.size() > limits.max_header)
    data_error(path, 0,
               str("the index has ", file.size(), " bytes, the limit is ", limits.max_header));
  std::string text(file.size(), '\0');
  file.read(0, text.data(), text.size(), "the index");
  return parsed(text, path, limits);
}

}  // namespace wt::nn::detail
