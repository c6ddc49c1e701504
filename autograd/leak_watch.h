// Memory that grows from step to step because somebody keeps what each step makes.
//
//   memory::LeakWatch watch;
//   for (const auto& batch : loader) {
//     const StepResult r = step(batch, loss_of);
//     history.push_back(loss);                  // keeps the graph of every step: item() would not
//     watch.step();
//   }
//   std::fputs(watch.report().c_str(), stderr);
//
//   leak: mean <- train.cpp:33: 20 results are kept, 1 more each step: 20 graphs of 80 nodes ...
#pragma once
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "warptape/core/memory_trace.h"

namespace wt::memory {

struct LeakWatchOptions {
  Device device = {};  // whose tensors are watched; graphs are, wherever they are
  int steps = 5;       // that something must grow in, one after another, to be a leak
};

struct Leak {
  std::string what;      // "mean <- train.cpp:33"
  bool graph = false;    // results with their graphs; false: tensors outside of any growing graph
  i64 results = 0;       // tensors, or graphs, that are kept now
  i64 nodes = 0;         // of the graphs
  i64 bytes = 0;         // of the tensors, or of what the graphs saved
  i64 bytes_a_step = 0;  // in the last step
  WT_API std::string text() const;
};

// Knows the graphs that this thread recorded and all tensors that were made on the device since it
// began. While it exists every allocation makes a detour, and step() looks at all live nodes: for
// looking for leaks, not for every run.
class WT_API LeakWatch {
 public:
  explicit LeakWatch(LeakWatchOptions options = {});
  // At the end of each step.
  void step();
  // What grew in each of the last `steps` steps, the largest first. Where graphs grow, the tensors
  // that they keep are not listed once more.
  std::vector<Leak> leaks() const;
  // A line a leak, each with what to do; empty: none.
  std::string report() const;

 private:
  struct Grown {
    Leak now;
    i64 measure = 0;  // nodes, or blocks
    int rising = 0;   // steps in a row
    bool seen = false;
  };
  using Place = std::tuple<const OpInfo*, FrameId, u32, const OpInfo*, Category>;
  void measure(std::map<Place, Grown>& all, const std::map<Place, Leak>& found) const;

  LeakWatchOptions options_;
  Trace trace_;
  std::map<Place, Grown> graphs_, tensors_;
};

}  // namespace wt::memory
