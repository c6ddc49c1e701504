// A file that grows by whole records: metrics and event files of a run. What an append that failed
// has left of its record is cut off again, at once or before the next one. Its record is kept and
// goes into the file with the next append or flush that succeeds: a disk that was full for a while
// leaves no gap.
#pragma once
#include <string>
#include <string_view>

#include "warptape/core/types.h"

namespace wt::tools {

class AppendFile {
 public:
  // Opens `path`, with what it holds, or creates it; fresh: it must not exist. CheckpointError if
  // it cannot be opened or is no regular file.
  explicit AppendFile(const std::string& path, bool fresh = false);
  ~AppendFile();
  AppendFile(AppendFile&&) noexcept;
  AppendFile& operator=(AppendFile&&) = delete;

  // These throw CheckpointError. The record is in the file when append() returns, and survives a
  // power loss once flush() has returned. More than 16 MiB of records that wait are not kept.
  void append(std::string_view record);
  void cut(u64 size);
  void flush();

  u64 size() const noexcept { return size_; }  // of the whole records

 private:
  bool cut_back() noexcept;
  void write_waiting();
  [[noreturn]] void fail(const char* action, int error) const;

  std::string path_;
  std::string waiting_;  // records that are not in the file yet
  u64 size_ = 0;
  int fd_ = -1;
  bool torn_ = false;  // a part of a record lies behind size_
};

}  // namespace wt::tools
