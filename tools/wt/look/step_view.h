// A block of a launch, walked step by step in a terminal: what `wt step` shows and takes.
#pragma once
#include <string>

#include "warptape/core/dtype.h"
#include "warptape/kernels/simt/steps.h"
#include "warptape/tools/wt/look/look.h"

namespace wt::tools {

class StepView {
 public:
  // `dtype`: of the launch; what 4 or more bytes of it are shown as.
  StepView(SimtSteps steps, DType dtype, FindSource find);

  // Kernel, grid, block and how many steps there are.
  std::string head() const;
  // The step that the view is at: source, what its lanes did, and what that costs.
  std::string text() const;
  // Does what a line of the user's says and sets `answer` to what is to be shown. False: the user
  // has had enough.
  bool command(const std::string& line, std::string& answer);
  static std::string help();

  size_t at() const { return at_; }

 private:
  const SimtStep& now() const { return steps_.steps[at_]; }
  bool shown(const SimtStep& s) const;
  // Some shown steps on, or back; false if there are not so many: then it is at the last of them.
  bool move(i64 by);
  bool to_line(int line);
  std::string moved(bool well, const char* end) const;
  std::string source_text() const;
  std::string lanes_text(const SimtStep& s) const;
  std::string cost_text(const SimtStep& s) const;
  std::string lane_history() const;
  std::string place_of(const SimtStep& s) const;  // "softmax.cu:61"
  std::string value_text(const SimtStep& s, unsigned lane) const;

  SimtSteps steps_;
  DType dtype_;
  FindSource find_;
  size_t at_ = 0;
  int warp_ = -1, lane_ = -1;  // -1: all
};

}  // namespace wt::tools
