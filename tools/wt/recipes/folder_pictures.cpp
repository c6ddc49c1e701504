#include "warptape/tools/wt/recipes/folder_pictures.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <set>

#include "warptape/core/input_file.h"
#include "warptape/core/progress.h"
#include "warptape/data/combine.h"
#include "warptape/tools/wt/reports/error_words.h"

namespace wt::tools {
namespace {

namespace fs = std::filesystem;

constexpr size_t kNamed = 5;  // of a list that may be long

std::string name_list(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < std::min(kNamed, names.size()); ++i)
    text += (i ? ", " : "") + printable(names[i]);
  return names.size() <= kNamed ? text : str(text, " and ", names.size() - kNamed, " more");
}

// Those whose headers can be read, class by class.
using ByClass = std::vector<std::vector<i64>>;
ByClass readable_by_class(const data::ImageFolder& folder, UnreadablePictures& unreadable) {
  ByClass all(folder.classes().size());
  for (i64 i = 0; i < folder.size(); ++i) {
    try {
      (void)data::image_info(folder.path(i));
      all[size_t(folder.label(i))].push_back(i);
    } catch (const DataError& e) {
      unreadable.note(folder.path(i), without_kind(e), false);
    }
  }
  return all;
}

void check_classes(const std::string& root, const data::ImageFolder& folder, const ByClass& all) {
  std::vector<std::string> empty;
  for (size_t c = 0; c < all.size(); ++c)
    if (all[c].empty()) empty.push_back(folder.classes()[c]);
  if (!empty.empty())
    throw DataError(
        str(printable_path(root), ": no picture can be read of the class ", name_list(empty)));
}

void check_same_classes(const PictureRoots& roots, const data::ImageFolder& train,
                        const data::ImageFolder& held_out) {
  const auto missing = [](const data::ImageFolder& in, const data::ImageFolder& of) {
    std::vector<std::string> names;
    std::set_difference(of.classes().begin(), of.classes().end(), in.classes().begin(),
                        in.classes().end(), std::back_inserter(names));
    return names;
  };
  const auto in_train = missing(train, held_out), in_held_out = missing(held_out, train);
  if (in_train.empty() && in_held_out.empty()) return;
  std::string text = "both must have the same classes";
  if (!in_train.empty())
    text += str("\n  ", printable_path(roots.train), " lacks ", name_list(in_train));
  if (!in_held_out.empty())
    text += str("\n  ", printable_path(roots.held_out), " lacks ", name_list(in_held_out));
  throw DataError(text);
}

std::vector<i64> joined(const ByClass& all) {
  std::vector<i64> samples;
  for (const std::vector<i64>& of_class : all)
    samples.insert(samples.end(), of_class.begin(), of_class.end());
  return samples;
}

// Takes a part of each class out of `all`; of a class of one picture, none.
std::vector<i64> hold_out(ByClass& all, const PictureSplit& split) {
  std::vector<i64> held;
  for (size_t c = 0; c < all.size(); ++c) {
    const i64 n = i64(all[c].size());
    if (n < 2) continue;
    const i64 part = std::clamp<i64>(i64(double(n) * split.held_out + 0.5), 1, n - 1);
    const Scalar lengths[] = {n - part, part};
    std::vector<i64> rest;
    const auto places = data::detail::split_indices(lengths, n, split.seed + c);
    for (const i64 i : places[1]) held.push_back(all[c][size_t(i)]);
    for (const i64 i : places[0]) rest.push_back(all[c][size_t(i)]);
    std::sort(rest.begin(), rest.end());
    all[c] = std::move(rest);
  }
  std::sort(held.begin(), held.end());
  return held;
}

// Of the classes that training has one picture of; `held_out` are samples of `folder`, whose
// classes are training's.
void remark_single(const data::ImageFolder& folder, const ByClass& train,
                   const std::vector<i64>& held_out, std::vector<std::string>& remarks) {
  std::set<i64> judged;
  for (const i64 i : held_out) judged.insert(folder.label(i));
  std::vector<std::string> single, unjudged;
  for (size_t c = 0; c < train.size(); ++c) {
    if (train[c].size() != 1) continue;
    (judged.contains(i64(c)) ? single : unjudged).push_back(folder.classes()[c]);
  }
  if (!single.empty())
    remarks.push_back("one picture to learn from: the class " + name_list(single));
  if (!unjudged.empty())
    remarks.push_back("one picture in all, which is learned from and not judged: the class " +
                      name_list(unjudged));
}

}  // namespace

void UnreadablePictures::note(const std::string& path, const std::string& reason, bool said) {
  const std::lock_guard lock(mutex_);
  if (!reasons_.emplace(path, reason).second || !said) return;
  end_progress_line();
  std::fprintf(stderr, "left out: %s\n", printable_lines(reason).c_str());
}

i64 UnreadablePictures::count() const {
  const std::lock_guard lock(mutex_);
  return i64(reasons_.size());
}

std::string UnreadablePictures::first(size_t most, const char* between, bool reasons) const {
  std::string text;
  size_t i = 0;
  for (const auto& [path, reason] : reasons_) {
    if (i++ == most) return str(text, between, "and ", reasons_.size() - most, " more");
    text += (text.empty() && !reasons ? "" : between) + (reasons ? reason : printable_path(path));
  }
  return text;
}

void UnreadablePictures::check() const {
  const std::lock_guard lock(mutex_);
  const i64 n = i64(reasons_.size());
  if (n > most_)
    throw DataError(str(n, n == 1 ? " picture" : " pictures", " cannot be read, at most ", most_,
                        " may be", first(2 * kNamed, "\n  ", true), "\n  Try --set unreadable=", n,
                        ", which leaves them out"));
}

std::string UnreadablePictures::remark() const {
  const std::lock_guard lock(mutex_);
  if (reasons_.empty()) return {};
  return str(reasons_.size(), reasons_.size() == 1 ? " picture" : " pictures",
             " cannot be read and ", reasons_.size() == 1 ? "is" : "are",
             " left out: ", first(kNamed, ", ", false));
}

data::Batch FolderPictures::batch(std::span<const i64> samples, i64 epoch) const {
  std::vector<i64> places(samples.begin(), samples.end());
  for (const i64 i : places) data::detail::check_sample("FolderPictures", i, size());
  replace_unreadable(places);  // those known to be bad, or each batch with one is decoded twice
  for (;;) {
    std::vector<i64> of_folder;
    for (const i64 i : places) of_folder.push_back((*samples_)[size_t(i)]);
    try {
      return folder_.batch(of_folder, epoch);
    } catch (const DataError&) {
      if (!replace_unreadable(places)) throw;  // it vanished, or changed
    }
  }
}

// Whether any was replaced.
bool FolderPictures::replace_unreadable(std::vector<i64>& places) const {
  std::set<i64> bad;
  for (const data::BadImage& b : folder_.bad_images()) {
    bad.insert(b.sample);
    std::string reason = b.reason;
    if (reason.starts_with("DataError: ")) reason.erase(0, std::strlen("DataError: "));
    unreadable_->note(b.path, reason, true);
  }
  unreadable_->check();
  bool replaced = false;
  for (i64& place : places) {
    for (i64 tried = 0; bad.contains((*samples_)[size_t(place)]); ++tried) {
      if (tried == size()) throw DataError("no picture of this part of the data can be read");
      place = (place + 1) % size();
      replaced = true;
    }
  }
  return replaced;
}

PictureRoots picture_roots(const std::string& root) {
  std::error_code ec;
  const fs::path train = fs::path(root) / "train", val = fs::path(root) / "val";
  if (fs::is_directory(train, ec) && fs::is_directory(val, ec))
    return {train.string(), val.string()};
  return {root, root};
}

std::vector<std::string> picture_classes(const std::string& root) {
  const std::string folder = picture_roots(root).train;
  std::error_code ec;
  std::vector<std::string> names;
  fs::directory_iterator at(folder, ec);
  for (; !ec && at != fs::directory_iterator(); at.increment(ec)) {
    const std::string name = at->path().filename().string();
    std::error_code unknown;
    if (!name.starts_with('.') && fs::is_directory(at->path(), unknown)) names.push_back(name);
  }
  if (ec)
    throw DataError(str(printable_path(folder), ": the folder cannot be read: ", ec.message()));
  std::sort(names.begin(), names.end());
  if (names.empty())
    throw DataError(str(printable_path(folder),
                        ": no folders are in it, each of which would be a class\n  Try "
                        "ROOT/CLASS/PICTURE.jpg, or ROOT/train and ROOT/val with such folders"));
  if (names.size() == 1)
    throw DataError(
        str(printable_path(folder), ": one class, ", printable(names[0]),
            ", and nothing to tell it from\n  Try ROOT/CLASS/PICTURE.jpg, or ROOT/train "
            "and ROOT/val with such folders"));
  return names;
}

PictureSets open_pictures(
    const std::string& root, const PictureSplit& split,
    const std::function<data::ImageFolder(const std::string& root, bool train)>& open) {
  (void)picture_classes(root);  // what is wrong with the folders, in this recipe's words
  const PictureRoots roots = picture_roots(root);
  const data::ImageFolder train = open(roots.train, true), judged = open(roots.held_out, false);
  if (!roots.split()) check_same_classes(roots, train, judged);
  const auto unreadable = std::make_shared<UnreadablePictures>(split.unreadable);
  ByClass learned = readable_by_class(train, *unreadable);
  std::vector<i64> held_out;
  if (roots.split()) {
    unreadable->check();
    check_classes(roots.train, train, learned);
    held_out = hold_out(learned, split);
  } else {
    const ByClass judged_by_class = readable_by_class(judged, *unreadable);
    unreadable->check();
    check_classes(roots.train, train, learned);
    check_classes(roots.held_out, judged, judged_by_class);
    held_out = joined(judged_by_class);
  }
  std::vector<std::string> remarks;
  if (std::string text = unreadable->remark(); !text.empty()) remarks.push_back(std::move(text));
  if (const i64 other = train.left_out() + (roots.split() ? 0 : judged.left_out()))
    remarks.push_back(str(other, other == 1 ? " file is" : " files are", " no picture"));
  remark_single(judged, learned, held_out, remarks);
  return {FolderPictures(train, joined(learned), unreadable),
          FolderPictures(judged, held_out, unreadable), train.classes(), std::move(remarks)};
}

}  // namespace wt::tools
