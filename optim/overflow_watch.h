// Where inf or NaN first appears when a step is made once more: what TrainStep::explain() is made
// of.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "warptape/core/error.h"
#include "warptape/core/owned.h"
#include "warptape/nn/module.h"

namespace wt {

// The first place with inf or NaN, in the order of computing.
struct OverflowReport {
  // What was inf or NaN first. nowhere: nothing; forward: what a module returned; backward: a
  // gradient within an operator's backward; gradient: a parameter's.
  enum class Where : u8 { nowhere, forward, backward, gradient };
  Where where = Where::nowhere;  // nowhere: the step that was made again was finite
  std::string name;              // the module; the operator's backward with its line; the parameter
  double scale = 1;              // of the loss, in the step that was looked at
  // One line: "inf or NaN first in what conv1 (Conv2d) returns".
  WT_API std::string text() const;
};

namespace optim::detail {

// Looks at what each module of `net` returns. Waits for the device.
class OverflowWatch {
 public:
  explicit OverflowWatch(const nn::ModuleBase& net);
  ~OverflowWatch();
  OverflowWatch(const OverflowWatch&) = delete;
  OverflowWatch& operator=(const OverflowWatch&) = delete;

  // AnomalyMode found it: a gradient in backward.
  void backward(const NumericError& e);
  // Nothing was found on the way: the parameters' gradients.
  void look_at_gradients(const std::vector<nn::NamedTensor>& parameters);
  const OverflowReport& report() const { return report_; }

 private:
  void look(const std::string& module, const Tensor& y);

  OverflowReport report_;
  struct Hooks;
  Owned<Hooks> hooks_;
};

}  // namespace optim::detail
}  // namespace wt
