#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <set>

#include "warptape/core/files/atomic_file.h"
#include "warptape/core/files/json.h"
#include "warptape/nn/weight_files.h"
#include "warptape/nn/weights/weight_index.h"

namespace wt::nn {
namespace {

namespace fs = std::filesystem;
using Names = std::set<std::string>;

// A file of tensors [begin, end).
struct Shard {
  size_t begin, end;
};

u64 bytes_of(const Tensor& t) { return u64(t.numel()) * u64(item_size(t.dtype())); }

std::vector<Shard> split(const std::vector<NamedTensor>& tensors, u64 most) {
  std::vector<Shard> shards{{0, 0}};
  u64 bytes = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const u64 more = bytes_of(tensors[i].tensor);
    if (i > shards.back().begin && (more > most || bytes > most - more))
      shards.push_back({i, i}), bytes = 0;
    bytes += more;
    shards.back().end = i + 1;
  }
  return shards;
}

constexpr const char* kFamilies[] = {"model", "model-b"};

// "model-00001-of-00003.safetensors", ...
std::vector<std::string> names_of(const char* family, size_t count) {
  std::vector<std::string> names;
  for (size_t i = 1; i <= count; ++i) {
    char name[96];
    std::snprintf(name, sizeof name, "%s-%05zu-of-%05zu.safetensors", family, i, count);
    names.emplace_back(name);
  }
  return names;
}

// Where the old index has one of these names, another family.
std::vector<std::string> names_for(size_t count, const Names& taken) {
  for (const char* const family : kFamilies) {
    const std::vector<std::string> names = names_of(family, count);
    if (std::none_of(names.begin(), names.end(), [&](auto& n) { return taken.contains(n); }))
      return names;
  }
  throw CheckpointError("an index has files of both families: move the old model away");
}

// Whether it is a name that names_for() gives.
bool is_shard_name(std::string_view name) {
  if (!name.starts_with("model-") || !name.ends_with(".safetensors")) return false;
  name.remove_prefix(name.starts_with("model-b-") ? 8 : 6);
  name.remove_suffix(sizeof ".safetensors" - 1);
  const size_t of = name.find("-of-");
  if (of == name.npos) return false;
  const auto is_number = [](std::string_view s) {
    return s.size() >= 5 && s.find_first_not_of("0123456789") == s.npos;
  };
  return is_number(name.substr(0, of)) && is_number(name.substr(of + 4));
}

// Files of the model that is there. An index that cannot be read has none.
Names files_in_use(const fs::path& folder) {
  Names names;
  try {
    const std::string path = (folder / detail::kIndexFile).string();
    for (const auto& [tensor, file] : detail::read_weight_index(path).weight_map)
      names.insert(file);
  } catch (const DataError&) {}
  return names;
}

[[noreturn]] void cannot(const fs::path& path, const char* action, int error) {
  throw CheckpointError(str(printable_path(path.string()), " cannot be written: ", action, ": ",
                            std::strerror(error)));
}

// Goes on where there is none. The folder is synchronised: what comes after relies on it.
void remove_file(const fs::path& path) {
  if (::unlink(path.c_str()) != 0) {
    if (errno == ENOENT) return;
    cannot(path, "removing the old model", errno);
  }
  const int fd = ::open(path.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  (void)::fsync(fd);
  ::close(fd);
}

// What the old index has of names that are given here, and what a writer of so many files that was
// cut short may have left under the other family's. No other file is ours, whatever its name. One
// that cannot be removed is in nobody's way.
void remove_others(const fs::path& folder, Names old, const std::vector<std::string>& kept) {
  for (const char* const family : kFamilies)
    for (const std::string& name : names_of(family, kept.size())) old.insert(name);
  for (const std::string& name : kept) old.erase(name);
  std::error_code ignored;
  for (const std::string& name : old)
    if (is_shard_name(name)) fs::remove(folder / name, ignored);
}

std::string index_text(const std::vector<NamedTensor>& tensors, const std::vector<Shard>& shards,
                       const std::vector<std::string>& names, const Metadata& more) {
  JsonObject metadata, map, root;
  u64 total = 0;
  for (const NamedTensor& t : tensors) total += bytes_of(t.tensor);
  metadata.add("total_size", total);
  for (const auto& [key, value] : more) metadata.add(key, value);
  for (size_t s = 0; s < shards.size(); ++s)
    for (size_t i = shards[s].begin; i < shards[s].end; ++i) map.add(tensors[i].name, names[s]);
  root.add_raw("metadata", metadata.str()).add_raw("weight_map", map.str());
  return root.str() + "\n";
}

void check(const std::vector<NamedTensor>& tensors, const SaveShardedOptions& o) {
  if (o.max_shard_bytes == 0) throw UsageError("[save_sharded] max_shard_bytes must be above 0");
  Names names;
  for (const NamedTensor& t : tensors)
    if (!names.insert(t.name).second)
      throw UsageError(str("[save_sharded] two tensors are named '", printable(t.name), "'"));
  names.clear();
  for (const auto& [key, value] : o.metadata)
    if (key == "total_size" || !names.insert(key).second || !is_utf8(key) || !is_utf8(value))
      throw UsageError(str("[save_sharded] the metadata key '", printable(key),
                           "' is taken, there twice or not UTF-8"));
}

void write_shards(const fs::path& folder, const std::vector<NamedTensor>& tensors,
                  const std::vector<Shard>& shards, const std::vector<std::string>& names) {
  for (size_t s = 0; s < shards.size(); ++s)
    save_tensors((folder / names[s]).string(),
                 {tensors.begin() + i64(shards[s].begin), tensors.begin() + i64(shards[s].end)},
                 {{"format", "pt"}});
}

}  // namespace

void save_sharded(const std::string& folder, const std::vector<NamedTensor>& tensors,
                  const SaveShardedOptions& options) {
  check(tensors, options);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) cannot(folder, "making the folder", error.value());
  const fs::path there(folder), index = there / detail::kIndexFile;
  const std::vector<Shard> shards = split(tensors, options.max_shard_bytes);
  const Names old = files_in_use(there);
  if (shards.size() == 1) {  // which counts more than an index: writing it is the change
    Metadata metadata = options.metadata;
    if (std::none_of(metadata.begin(), metadata.end(), [](auto& m) { return m.first == "format"; }))
      metadata.emplace_back("format", "pt");
    save_tensors((there / detail::kOneFile).string(), tensors, metadata);
    remove_file(index);
    remove_others(there, old, {});
    return;
  }
  const std::vector<std::string> names = names_for(shards.size(), old);
  try {
    write_shards(there, tensors, shards, names);
    write_file_atomically(index.string(), index_text(tensors, shards, names, options.metadata));
  } catch (...) {
    const Names in_use = files_in_use(there);  // the new one's where its last step alone has failed
    for (const std::string& name : names)
      if (!in_use.contains(name)) fs::remove(there / name, error);
    throw;
  }
  remove_file(there / detail::kOneFile);
  remove_others(there, old, names);
}

}  // namespace wt::nn
