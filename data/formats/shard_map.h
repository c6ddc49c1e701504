// Shards in memory that is mapped, once something has found them whole. Internal.
#pragma once
#include <sys/stat.h>

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "warptape/core/types.h"

namespace wt::data::detail {

// What tells whether a file is still the one that was checked. The time of the last change of its
// inode cannot be set by anybody: a stamp that came with somebody's files never fits.
struct FileIdentity {
  u64 size = 0, inode = 0;
  i64 modified = 0, changed = 0;  // ns since the epoch
  static FileIdentity of(const struct stat& info);
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

// A line of the stamp that verify_shards() leaves in a pack's folder.
struct StampLine {
  std::string name{};  // of a file in the folder
  FileIdentity file;
  u32 footer_crc = 0;  // which covers header, index and thereby every record's CRC
  friend bool operator==(const StampLine&, const StampLine&) = default;
};
// The lines of a folder's stamp; none if it is missing, damaged or of another version.
std::vector<StampLine> read_stamp(const std::string& folder);
std::string stamp_path(const std::string& folder);
std::string stamp_text(const std::vector<StampLine>& lines);

// A file that is mapped for reading. Whoever cuts it short meanwhile would end the process by
// SIGBUS: bytes() looks at the file's size and time before it hands anything out, so that only a
// cut between that look and the use of the bytes is left.
class ShardMap {
 public:
  // Null if it cannot be mapped or is not the file that `stamp` is about.
  static std::shared_ptr<ShardMap> of(const std::string& path, const StampLine& stamp);
  ~ShardMap();
  ShardMap(const ShardMap&) = delete;
  ShardMap& operator=(const ShardMap&) = delete;

  // Throws DataError for a file that has changed since it was mapped.
  std::string_view bytes(const std::string& path, u64 begin, u64 n) const;
  // Takes the pages out of this process' memory; the system may keep them.
  void let_go() const;

 private:
  ShardMap(int fd, const char* at, const FileIdentity& file) : fd_(fd), at_(at), file_(file) {}
  int fd_;
  const char* at_;
  FileIdentity file_;
  mutable std::atomic<bool> used_{false};
};

}  // namespace wt::data::detail
