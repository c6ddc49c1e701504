// The ambient generator as it was, whatever was drawn meanwhile. Internal.
#pragma once
#include "warptape/core/random.h"

namespace wt::models::detail {

// For models that are made to be compared or overwritten: layers on a meta device make no numbers,
// and count their draws all the same.
class KeepGenerator {
 public:
  KeepGenerator() : before_(generator()) {}
  ~KeepGenerator() {
    if (keeps_) generator() = before_;
  }
  KeepGenerator(const KeepGenerator&) = delete;
  KeepGenerator& operator=(const KeepGenerator&) = delete;
  void let_go() { keeps_ = false; }

 private:
  const Generator before_;
  bool keeps_ = true;
};

}  // namespace wt::models::detail
