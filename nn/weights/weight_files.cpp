#include "warptape/nn/weight_files.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "warptape/core/factories.h"
#include "warptape/core/files/file_shape.h"
#include "warptape/core/tensor_impl.h"
#include "warptape/nn/weights/weight_index.h"

namespace wt::nn {
namespace {

constexpr size_t kShownProblems = 50;  // of what is wrong: a file may have any number of names

// "dir/model.safetensors" or the index of a folder; what is none stays as it is.
std::string file_of(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return path;
  for (const char* name : {detail::kOneFile, detail::kIndexFile})
    if (const fs::path file = fs::path(path) / name; fs::exists(file, ignored))
      return file.string();
  throw DataError(str(printable_path(path), ": at byte 0: the folder has neither ",
                      detail::kOneFile, " nor ", detail::kIndexFile));
}

std::string in_quotes(std::string_view name) { return str("'", printable(name), "'"); }

}  // namespace

struct WeightFiles::Contents {
  struct Place {
    const TensorEntry* entry;
    u32 file;
  };
  std::string path;
  ParseLimits limits;
  std::vector<SafetensorsFile> files{};
  std::vector<Place> places{};  // file by file
  std::vector<u32> by_name{};   // indices into places
  Metadata metadata{};

  void add_places() {
    for (u32 f = 0; f < files.size(); ++f)
      for (const TensorEntry& e : files[f].entries()) places.push_back({&e, f});
    by_name.resize(places.size());
    for (u32 i = 0; i < by_name.size(); ++i) by_name[i] = i;
    std::stable_sort(by_name.begin(), by_name.end(),
                     [&](u32 a, u32 b) { return places[a].entry->name < places[b].entry->name; });
  }
};

namespace {

// Opens the files of an index and says all that is wrong with them.
class Checker {
 public:
  Checker(const detail::WeightIndex& index, const std::string& path) : index_(index), path_(path) {}

  void open_files(std::vector<SafetensorsFile>& files, const ParseLimits& limits) {
    std::map<std::string, size_t> names;  // file, tensors that it is to have
    for (const auto& [tensor, file] : index_.weight_map) ++names[file];
    const std::filesystem::path folder = std::filesystem::path(path_).parent_path();
    for (const auto& [name, tensors] : names) {
      const std::string file = (folder / name).string();
      std::error_code ignored;
      if (!std::filesystem::exists(file, ignored)) {
        wrong(str("missing file ", in_quotes(name), " with ", tensors,
                  tensors == 1 ? " tensor" : " tensors"));
        continue;
      }
      try {
        files.push_back(SafetensorsFile::open(file, limits));
        names_.push_back(name);
      } catch (const DataError& e) {
        wrong(std::string_view(e.what()).substr(sizeof "DataError: " - 1));
      }
    }
    opened_all_ = names_.size() == names.size();
  }

  void compare(const std::vector<SafetensorsFile>& files) {
    for (const std::string& name : index_.twice)
      wrong(str("tensor ", in_quotes(name), " is in the index twice"));
    std::map<std::string_view, std::string_view> where;  // tensor, file that has it
    for (size_t f = 0; f < files.size(); ++f)
      for (const TensorEntry& e : files[f].entries()) {
        const auto [at, first] = where.emplace(e.name, names_[f]);
        if (!first)
          wrong(str("tensor ", in_quotes(e.name), " is in ", in_quotes(at->second), " and in ",
                    in_quotes(names_[f])));
      }
    for (const auto& [tensor, file] : index_.weight_map) {
      const auto at = where.find(tensor);
      if (at == where.end()) {
        if (is_open(file)) wrong(str("tensor ", in_quotes(tensor), " is not in ", in_quotes(file)));
      } else if (at->second != file) {
        wrong(str("tensor ", in_quotes(tensor), " is in ", in_quotes(at->second),
                  ", the index says ", in_quotes(file)));
      }
    }
    for (const auto& [tensor, file] : where)
      if (!indexed(tensor))
        wrong(str("tensor ", in_quotes(tensor), " of ", in_quotes(file), " is not in the index"));
  }

  void finish() const {
    if (count_ == 0) return;
    const std::string more =
        count_ > kShownProblems ? str("\n  and ", count_ - kShownProblems, " more") : std::string();
    data_error(path_, 0, "the index and its files do not fit" + said_ + more);
  }

 private:
  void wrong(std::string_view what) {
    if (++count_ <= kShownProblems) said_ += str("\n  ", what);
  }
  bool is_open(const std::string& file) const {
    return opened_all_ || std::find(names_.begin(), names_.end(), file) != names_.end();
  }
  bool indexed(std::string_view tensor) const {
    const auto at =
        std::lower_bound(index_.weight_map.begin(), index_.weight_map.end(), tensor,
                         [](const auto& pair, std::string_view name) { return pair.first < name; });
    return at != index_.weight_map.end() && at->first == tensor;
  }

  const detail::WeightIndex& index_;
  const std::string& path_;
  std::vector<std::string> names_;  // of the files that could be opened
  std::string said_;
  size_t count_ = 0;
  bool opened_all_ = false;
};

}  // namespace

WeightFiles::WeightFiles(Owned<Contents> in) : in_(std::move(in)) {}
WeightFiles::~WeightFiles() = default;
WeightFiles::WeightFiles(WeightFiles&&) noexcept = default;
WeightFiles& WeightFiles::operator=(WeightFiles&&) noexcept = default;

WeightFiles WeightFiles::open(const std::string& path, const ParseLimits& limits) {
  Owned<Contents> in(new Contents{.path = file_of(path), .limits = limits});
  if (in->path.ends_with(".json")) {
    detail::WeightIndex index = detail::read_weight_index(in->path, limits);
    Checker checker(index, in->path);
    checker.open_files(in->files, limits);
    checker.compare(in->files);
    checker.finish();
    in->metadata = std::move(index.metadata);
  } else {
    in->files.push_back(SafetensorsFile::open(in->path, limits));
    in->metadata = in->files[0].metadata();
  }
  in->add_places();
  return WeightFiles(std::move(in));
}

size_t WeightFiles::size() const noexcept { return in_->places.size(); }
const TensorEntry& WeightFiles::entry(size_t i) const { return *in_->places[i].entry; }
const Metadata& WeightFiles::metadata() const noexcept { return in_->metadata; }
const std::string& WeightFiles::path() const noexcept { return in_->path; }

const std::string* WeightFiles::find_metadata(std::string_view key) const noexcept {
  for (const auto& [name, value] : in_->metadata)
    if (name == key) return &value;
  return nullptr;
}

size_t WeightFiles::find(std::string_view name) const noexcept {
  const auto at = std::lower_bound(in_->by_name.begin(), in_->by_name.end(), name,
                                   [&](u32 i, std::string_view n) { return entry(i).name < n; });
  return at != in_->by_name.end() && entry(*at).name == name ? *at : kNone;
}

Shape WeightFiles::shape(size_t i) const {
  const TensorEntry& e = entry(i);
  const auto refuse = [&](const std::string& why) {
    data_error(in_->files[in_->places[i].file].path(), 8,
               "tensor " + in_quotes(e.name) + " " + why);
  };
  if (e.shape.size() > size_t(kMaxDims))
    refuse(str("has ", e.shape.size(), " dimensions, at most ", kMaxDims, " are possible"));
  if (!wt::detail::strides_fit(e.dtype, e.shape))
    refuse(wt::detail::shape_text(e.shape) + " is too large to address");
  return Shape(e.shape);
}

Tensor WeightFiles::read(size_t i) {
  Tensor t = empty(shape(i), {.dtype = entry(i).dtype, .device = Device::cpu()});
  in_->files[in_->places[i].file].read(entry(i), t.impl()->data);
  return t;
}

Tensor WeightFiles::read(std::string_view name) {
  const size_t i = find(name);
  if (i == kNone) data_error(path(), 0, "there is no tensor " + in_quotes(name));
  return read(i);
}

void WeightFiles::check_total(u64 bytes) const {
  if (bytes > in_->limits.max_bytes)
    data_error(path(), 8,
               str("the tensors to load have ", bytes, " bytes, the limit is ",
                   in_->limits.max_bytes, " (ParseLimits::max_bytes)"));
}

}  // namespace wt::nn
