// A file that grows by whole records: metrics and event files of a run. What an append that failed
// has left of its record is cut off again, at once or before the next one.
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
  // power loss once flush() has returned.
  void append(std::string_view record);
  void cut(u64 size);
  void flush();

  u64 size() const noexcept { return size_; }  // of the whole records

 private:
  bool cut_back() noexcept;
  [[noreturn]] void fail(const char* action, int error) const;

  std::string path_;
  u64 size_ = 0;
  int fd_ = -1;
  bool torn_ = false;  // a part of a record lies behind size_
};

}  // namespace wt::tools
