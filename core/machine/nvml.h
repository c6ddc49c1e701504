// NVIDIA's management library, found when the program runs. Internal; users see
// core/machine_state.h.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "warptape/core/machine/load_library.h"
#include "warptape/core/machine_state.h"

namespace wt::machine {

struct NvmlApi;

class Nvml {
 public:
  explicit Nvml(const LibraryLoader& loader);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  const std::string& why_not() const { return why_not_; }  // empty: it answers
  const std::string& driver() const { return driver_; }
  // Processes by number and bytes alone: name_process() has the rest. `why_not` says it where there
  // are none.
  std::vector<Gpu> look(std::string& why_not) const;

 private:
  std::unique_ptr<NvmlApi> api_;  // null where there is none
  std::string why_not_, driver_;
};

// The words for NVML's bits (nvmlClocksThrottleReasons), and whether one of them is against the
// machine's will.
std::vector<std::string> throttle_words(u64 bits);
bool throttle_slows(u64 bits);

}  // namespace wt::machine
