// nan-report.json: what was not finite in the step that ended a run.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "warptape/nn/module.h"

namespace wt::tools {

// A tensor that holds NaN or infinity.
struct NotFinite {
  std::string name;
  Shape shape;
  i64 nan = 0, infinite = 0;  // elements
  i64 first = 0;              // of them, counted in order of the axes
};

// What was looked through, and what of it is not finite.
struct FiniteCensus {
  i64 tensors = 0;
  double largest = 0;  // of the finite values' sizes
  std::string largest_in;
  std::vector<NotFinite> not_finite;

  // A tensor of integers is finite. Copies it to the host, as doubles.
  void add(const std::string& name, const Tensor& t);
};
FiniteCensus finite_census(const std::vector<nn::NamedTensor>& tensors);
std::vector<nn::NamedTensor> buffers_of(const nn::ModuleBase& m);

// What only the step itself sees, before it is taken back.
struct RefusedStep {
  double loss = 0, grad_norm = 0;
  FiniteCensus gradients;
};

struct NanReport {
  i64 step = 0;              // the refused one, from 1
  i64 epoch = 0, batch = 0;  // where its batch is in the data, from 0
  u64 seed = 0;
  std::string recipe, device, error;
  double lr = 0, last_loss = 0;  // the last loss that was logged; NaN: none
  std::optional<RefusedStep> refused = {};
  std::optional<FiniteCensus> inputs = {};  // the batch
  FiniteCensus parameters = {}, buffers = {};
};

// What comes first in the order of cause: the batch, parameters, buffers, the loss, gradients.
std::string first_non_finite(const NanReport& r);
std::string to_json(const NanReport& r);  // one line

}  // namespace wt::tools
