// The callers of every operator: each draws arguments that mostly fit, and some that do not.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "warptape/autograd/loss.h"
#include "warptape/autograd/ops.h"
#include "warptape/tests/fuzz/draw.h"

namespace wt_test {

// What an operator gives, whatever it gives.
struct Results {
  std::vector<Tensor> tensors;
  Results(Tensor t) : tensors{std::move(t)} {}                                // NOLINT
  Results(std::vector<Tensor> list) : tensors(std::move(list)) {}             // NOLINT
  Results(const Loss& l) : tensors{l.sum, l.weight} {}                        // NOLINT
  Results(const SortResult& r) : tensors{r.values, r.indices} {}              // NOLINT
  Results(const MaxPool& r) : tensors{r.values, r.indices} {}                 // NOLINT
  Results(const QrResult& r) : tensors{r.q, r.r} {}                           // NOLINT
  Results(const EighResult& r) : tensors{r.values, r.vectors} {}              // NOLINT
  Results(const PlacedResult& r) : tensors{r.values, r.indices} {}            // NOLINT
  Results(const UniqueResult& r) : tensors{r.values, r.inverse, r.counts} {}  // NOLINT
};

using Caller = std::function<Results(Draw&)>;
using Callers = std::map<std::string, Caller>;

void add_pointwise_callers(Callers& to);
void add_shape_callers(Callers& to);
void add_signal_callers(Callers& to);

void add_product_callers(Callers& to);
void add_structured_callers(Callers& to);

}  // namespace wt_test
