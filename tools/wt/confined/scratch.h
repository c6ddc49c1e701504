// Folders that are gone at the end, however it comes. Internal.
#pragma once
#include <string>

namespace wt::confined {

// While it lives, Ctrl-C, a closed terminal and SIGTERM remove every Scratch and the files that are
// being written, and end the process with 130 or 143. One at a time.
class CleanEnd {
 public:
  CleanEnd();
  ~CleanEnd();
  CleanEnd(const CleanEnd&) = delete;
};

// A folder in TMPDIR, or beside `destination`, whose place it takes by move_to(). CheckpointError.
class Scratch {
 public:
  explicit Scratch(const std::string& destination = "");
  ~Scratch();
  Scratch(const Scratch&) = delete;
  const std::string& path() const { return path_; }
  // The folder becomes this one, which may not be there yet. CheckpointError.
  void move_to(const std::string& destination);

 private:
  std::string path_;
};

}  // namespace wt::confined
