// Faults that a rehearsal of tools/gpu_gate.sh plants into a device that works: what a broken
// kernel does to the process that runs it.
#pragma once
#include <string>

#include "warptape/bench/gpu/problems.h"

namespace wt::bench {

class Plant {
 public:
  // No fault.
  Plant() = default;
  // "KIND@PLACE", where PLACE is a contract or, of a step, a model. Kinds:
  //   fail    InternalError
  //   hang    does not come back
  //   crash   writes to an address that is none, which ends CUDA's context; DeviceError
  //   nan     the result is NaN
  //   memory  asks for more memory than there is; OutOfMemory
  // Throws UsageError.
  explicit Plant(const std::string& text);

  const std::string& place() const { return place_; }
  // At the begin of what is measured at `place`.
  void before(const std::string& place, Device d) const;
  // After a launch: overwrites its first output.
  void after(const std::string& place, const Problem& p) const;
  bool gives_nan(const std::string& place) const { return kind_ == "nan" && place == place_; }

 private:
  std::string kind_, place_;
};

}  // namespace wt::bench
