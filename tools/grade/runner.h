// What launches a student's kernels: one for each device that a program is made for. Internal.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "warptape/tools/grade/case.h"

namespace wt::grade {

constexpr i64 kMostWorkspace = i64{64} << 20;

struct Result {
  Status status = Status::done;
  std::string text{};
  const std::vector<std::vector<u8>>* images = nullptr;  // null: it was not launched
};

class Runner {
 public:
  virtual ~Runner() = default;
  // KernelError, std::bad_alloc, and whatever the student's code throws.
  virtual Result launch(const Request& r, const std::vector<std::vector<u8>>& images) = 0;
  // After an error nothing is known of what lies in memory.
  virtual void forget() = 0;
};
// Of the device that this program is for: simt_runner.cpp or cuda/cuda_runner.cpp.
std::unique_ptr<Runner> make_runner();

}  // namespace wt::grade
