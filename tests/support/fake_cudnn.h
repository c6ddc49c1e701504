// A cuDNN without a GPU: it notes the descriptors that are made, complains of what cuDNN would
// refuse (attributes that the descriptor does not have, wrong types and counts, what is missing
// when it is finalized, what refers to something unfinished), and computes graphs of convolutions,
// resampling, products, reductions and pointwise steps on the host over the tensors that a variant
// pack names, through the CUDA runtime in use: a fake or an emulated one.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "warptape/kernels/cuda/cudnn_api.h"

namespace wt_test {

struct FakeEngine {
  int mode = wt::kHeuristicA;   // which heuristics name it
  std::vector<int> notes = {};  // numerical
  wt::i64 workspace = 0;
  int plan_status = 0;     // of finalizing its plan
  int execute_status = 0;  // of executing it
  bool fuses = true;       // takes graphs of more than one operation
};

class FakeCudnn {
 public:
  FakeCudnn();
  ~FakeCudnn();
  static const wt::CudnnApi& api();

  std::vector<FakeEngine> engines{FakeEngine{}};
  size_t version = 90800;
  int create_status = 0;

  // What the code under test did wrong.
  const std::vector<std::string>& violations() const { return violations_; }
  // How often a function was called: "execute", and "plan" for a plan finalized by its engine,
  // "restored" for one by its text.
  int calls(const std::string& name) const;
  // Of the last graph executed, "forward x=[2,3,5,5]/[75,25,5,1]/16 ..."; of one without windows
  // the operations' names.
  const std::string& last() const { return last_; }
  int last_engine() const { return last_engine_; }
  static int live_descriptors();

 private:
  friend struct FakeCudnnCalls;
  void complain(std::string text) { violations_.push_back(std::move(text)); }
  std::vector<std::string> violations_;
  std::map<std::string, int> calls_;
  std::string last_;
  int last_engine_ = -1;
  std::vector<std::shared_ptr<const struct FakeGraph>> written_;  // plans that have a text
};

}  // namespace wt_test
