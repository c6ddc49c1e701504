// What the process writes to stdout and stderr, kept in a file for the life of this.
#pragma once
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "warptape/tests/support/temp_dir.h"

class CapturedOutput {
 public:
  CapturedOutput() {
    std::fflush(stdout);
    const int file = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0666);
    for (int i = 0; i < 2; ++i) {
      before_[i] = ::dup(i + 1);
      ::dup2(file, i + 1);
    }
    ::close(file);
  }
  ~CapturedOutput() {
    std::fflush(stdout);
    for (int i = 0; i < 2; ++i) {
      ::dup2(before_[i], i + 1);
      ::close(before_[i]);
    }
  }
  CapturedOutput(const CapturedOutput&) = delete;
  CapturedOutput& operator=(const CapturedOutput&) = delete;

  std::string text() const {
    std::fflush(stdout);
    return slurp(path_);
  }

 private:
  TempDir dir_;
  std::string path_ = dir_ / "text";
  int before_[2];
};
