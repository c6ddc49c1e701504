// The networks of steps.h with what they are trained with. Internal.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "warptape/autograd/loss.h"
#include "warptape/bench/steps/steps.h"
#include "warptape/data/dataset.h"
#include "warptape/nn/module.h"
#include "warptape/optim/optimizer.h"

namespace wt::bench {

struct StepModel {
  std::string shape;
  double flops = 0;  // of one step
  nn::ModuleBase net;
  std::function<Tensor(const Tensor&)> logits;  // [samples, classes] of data::Batch::x
  data::Batch batch;                            // y is flat or not; as many labels as logits' rows
  bool is_regression = false;                   // y are the numbers that `logits` should be
  int check_steps = 20;                         // after which its loss is compared
  double clip = 0;                              // of the gradients' norm; 0: none
  std::unique_ptr<optim::Optimizer> optimizer;

  Loss loss(const data::Batch& b) const;
};

// What StepOptions names, on its device, with the numbers of bench/peers.
StepModel make_step_model(const StepOptions& o);

// n floats in [-scale, scale), and indices below `count`: hashes of the index, as in
// bench/peers/common.py.
Tensor step_numbers(const Shape& shape, i64 seed, double scale);
Tensor step_indices(const Shape& shape, i64 seed, i64 count);
Tensor step_labels(i64 n, i64 classes);  // 7 i modulo classes
// A parameter's seed is its place in the network, from 1; it lies in [-s, s), s = 1 / sqrt(inputs),
// a bias as the weight before it. Norms stay 1 and 0.
void set_step_numbers(const nn::ModuleBase& net);

// These are made on the default device, still without an optimizer.
struct StepGptSizes {
  i64 layers, heads, channels, context, vocabulary, batch;
};
StepModel make_step_gpt(const StepGptSizes& s);     // GPT-2's
StepModel make_step_charlm(const StepGptSizes& s);  // of `wt train charlm`

// Models by name (steps_named.cpp): whether a name is one of theirs, and StepOptions' one on the
// default device; it has its optimizer. Throws UsageError where channels_last meets no pictures.
// Its FLOPs are three times a forward's, as counted by the kernels' contracts.
bool is_named_step(const std::string& name);
StepModel make_named_step(const StepOptions& o);

}  // namespace wt::bench
