// The pictures of a folder for training: which can be read, which are held out, what is said of
// them.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "warptape/data/image_folder.h"

namespace wt::tools {

// Pictures that cannot be read, of all parts of a data set. For several threads.
class UnreadablePictures {
 public:
  explicit UnreadablePictures(i64 most) : most_(most) {}
  // `said`: on stderr, the first time.
  void note(const std::string& path, const std::string& reason, bool said);
  // Throws DataError, which names the first of them, where there are more than the most.
  void check() const;
  i64 count() const;
  std::string remark() const;  // empty: there are none

 private:
  std::string first(size_t most, const char* between, bool reasons) const;  // under the lock
  i64 most_;
  mutable std::mutex mutex_;
  std::map<std::string, std::string> reasons_;  // by path
};

// Some pictures of a folder. In place of one that proves unreadable when it is decoded the next of
// the part is given, with its own label.
class FolderPictures {
 public:
  FolderPictures(data::ImageFolder folder, std::vector<i64> samples,
                 std::shared_ptr<UnreadablePictures> unreadable)
      : folder_(std::move(folder)),
        samples_(std::make_shared<const std::vector<i64>>(std::move(samples))),
        unreadable_(std::move(unreadable)) {}
  i64 size() const { return i64(samples_->size()); }
  // Throws DataError where too many are unreadable, or all.
  data::Batch batch(std::span<const i64> samples, i64 epoch = 0) const;

 private:
  bool replace_unreadable(std::vector<i64>& places) const;
  data::ImageFolder folder_;
  std::shared_ptr<const std::vector<i64>> samples_;
  std::shared_ptr<UnreadablePictures> unreadable_;
};

// Where the classes are: ROOT/train and ROOT/val, or ROOT alone, of which a part is held out.
struct PictureRoots {
  std::string train, held_out;  // the same: a part of it
  bool split() const { return train == held_out; }
};
PictureRoots picture_roots(const std::string& root);
// Names of the folders that are classes, in order. Throws DataError for a folder that is not there,
// without folders, or with one alone.
std::vector<std::string> picture_classes(const std::string& root);

struct PictureSplit {
  double held_out = 0.1;  // part of each class that is held out, at least one picture of two
  u64 seed = 1;
  i64 unreadable = 0;  // pictures that may be left out
};
struct PictureSets {
  FolderPictures train, held_out;
  std::vector<std::string> classes;
  std::vector<std::string> remarks;
};
// `open` makes the folder of a part: the training's, or the one that is held out. Only the headers
// of the files are read. Throws DataError for what the folders lack.
PictureSets open_pictures(
    const std::string& root, const PictureSplit& split,
    const std::function<data::ImageFolder(const std::string& root, bool train)>& open);

}  // namespace wt::tools
