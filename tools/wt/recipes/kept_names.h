// Names of what the places of a model stand for, as a folder gives them in order: its classes, or
// the shapes that it has a latent of. Checkpoints keep them, or one more file would shift them all.
#pragma once
#include <string>
#include <vector>

#include "warptape/core/types.h"
#include "warptape/nn/checkpoint_file.h"

namespace wt::tools {

class KeptNames {
 public:
  // `what` they are, "classes", is their key in the metadata; the model has `count`.
  KeptNames(const char* what, i64 count) : what_(what), count_(count) {}

  // Those of the data. Throws DataError where they are not those that are known already.
  void keep(std::vector<std::string> names);
  bool known() const { return !names_.empty(); }
  // Of folders and files, or of a stranger's checkpoint: as a terminal may show them.
  std::vector<std::string> shown() const;

  // As Recipe::kept() and take_kept(); names have no '/' and are UTF-8.
  nn::Metadata kept() const;
  void take(const nn::Metadata& kept, const std::string& path);

 private:
  const char* what_;
  i64 count_;
  std::vector<std::string> names_;
};

}  // namespace wt::tools
