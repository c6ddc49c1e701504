// What batches hold: figures of their inputs and labels.
#pragma once
#include <set>
#include <vector>

#include "warptape/core/tensor.h"
#include "warptape/optim/doctor/evidence.h"

namespace wt::doctor {

// Adds up the figures of all batches it is shown.
class BatchWatch {
 public:
  // Takes the tensors of a batch: the first one is the input, the last one, if it is of integers,
  // the labels. Waits for a device that they are on.
  void add(const std::vector<Tensor>& batch);
  // The figures so far.
  BatchesSeen seen() const;

 private:
  void look_at_input(const Tensor& x);
  void look_at_labels(const Tensor& y);

  BatchesSeen seen_;
  std::vector<double> before_;  // the input of the batch before
  double sum_ = 0, squares_ = 0;
  bool all_alike_ = true;
  std::set<i64> classes_, filling_;
};

}  // namespace wt::doctor
