// What `wt tune` proves and times: bench's problems as tasks of the tuner. Internal to the command.
#pragma once
#include <chrono>
#include <string>
#include <vector>

#include "warptape/bench/gpu/measure.h"
#include "warptape/core/device.h"
#include "warptape/tools/wt/measure/tuner.h"

namespace wt::tools {

struct WtTuneOptions {
  std::string device = "cuda:0", output;
  std::vector<std::string> only;
  bool quick = false, fresh = false, small = false;
  double seconds = 0.15;  // of one measurement
  double most = 0;        // of all; 0: as long as it takes
  double patience = 60;   // with one variant
  std::string json;       // rows are appended to it
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();

  bool time_is_over() const {
    const std::chrono::duration<double> gone = std::chrono::steady_clock::now() - begin;
    return most > 0 && gone.count() > most;
  }
};

// What the file o.json has of them, as tools/gpu_gate.sh puts them there.
bench::Ceilings known_ceilings(const WtTuneOptions& o, Device d);
// In the order in which they are done. Without a known ceiling of products the best one so far is
// it.
std::vector<TuneTask> tune_tasks(const WtTuneOptions& o, Device d, const TuneFile& file);

}  // namespace wt::tools
