// A student's file, compiled in each flavour when it is first asked for. Internal.
#pragma once
#include <map>
#include <string>

#include "warptape/tools/wt/grade/compile.h"

namespace wt::grade {

class Build {
 public:
  Build(std::string file, std::string folder, double seconds)
      : support_(read_support()),
        file_(std::move(file)),
        folder_(std::move(folder)),
        seconds_(seconds) {}

  const Compiled& in(Flavour f) {
    const auto [at, added] = compiled_.try_emplace(f);
    if (!added) return at->second;
    const confined::Clock::time_point begin = confined::Clock::now();
    at->second = compile_kernel(support_, file_, folder_, f, seconds_);
    spent_ += confined::Clock::now() - begin;
    return at->second;
  }
  // Time that compilations have taken so far.
  confined::Clock::duration spent() const { return spent_; }
  const Support& support() const { return support_; }
  const std::string& file() const { return file_; }
  const std::string& folder() const { return folder_; }

 private:
  Support support_;
  std::string file_, folder_;
  double seconds_;
  std::map<Flavour, Compiled> compiled_;
  confined::Clock::duration spent_{};
};

}  // namespace wt::grade
