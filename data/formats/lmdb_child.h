// The process that reads an LMDB file. Internal.
#pragma once
#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "warptape/core/types.h"

namespace wt::data::detail {

// What it is asked and what it answers, each with its bytes.
enum class LmdbAsk : u8 { open, databases, first, next, get };
enum class LmdbAnswer : u8 { found, none, error };

// Forked from this process, with pipes between them. For one thread.
class LmdbChild {
 public:
  // Checks the file's meta pages; DataError, also for a file that is cut short.
  LmdbChild(const std::string& file, double timeout, u64 most_bytes);
  ~LmdbChild();
  LmdbChild(const LmdbChild&) = delete;
  LmdbChild& operator=(const LmdbChild&) = delete;

  // False where there is none; DataError for errors of LMDB, a child that died or that takes too
  // long; none of its answers comes after that.
  bool ask(LmdbAsk what, std::string_view with, std::string& key, std::string& value);
  const std::string& file() const { return file_; }

 private:
  [[noreturn]] void fail(const std::string& what);
  [[noreturn]] void died();
  void receive(void* to, u64 n);
  void close_pipes();
  int end_child(bool kill);  // its status
  std::string receive_text(u64 n);

  std::string file_;
  double timeout_;
  u64 most_bytes_, file_bytes_ = 0;
  pid_t child_ = -1;
  int to_ = -1, from_ = -1;
};

}  // namespace wt::data::detail
