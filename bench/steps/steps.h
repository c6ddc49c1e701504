// Whole training steps: of four networks written for this, and of the models by name; and what an
// operator costs to queue. PyTorch's side: bench/peers/gpu_steps.py.
#pragma once
#include "warptape/bench/gpu/measure.h"
#include "warptape/bench/gpu/problems.h"

namespace wt::bench {

struct StepOptions {
  Device device{};
  std::string model{};            // of step_bench_models() or named_step_models()
  std::string precision = "f32";  // f32, tf32, f16 (its loss scaled), bf16
  bool captured = false;          // one graph a step
  Scale scale = Scale::real;      // small: sizes for a test, of the same layers; not by name
  i64 batch = 0;                  // samples a step; 0: the usual number
  i64 image = 0;                  // side of the pictures of a model by name; 0: the usual one
  bool recompute = false;         // SavePolicy::recompute: backward makes cheap results again
  bool channels_last = false;     // the pictures of a model by name, and so all behind them
  double window_s = 2;            // wall time of a window, the device waited for at its end
  int windows = 3;
};

// The most telling first: gpt, mlp_small, charlm, fashion.
const std::vector<std::string>& step_bench_models();
// gpt2_block, one block of GPT-2 over 4 x 256 tokens, and the names of models::all_models().
// Without dropout; AdamW for networks of attention, SGD with momentum for the others, gradients
// clipped at norm 1; the loss is cross-entropy with made-up labels, mean squared error where
// outputs are numbers.
std::vector<std::string> named_step_models();

// The loss after 20 steps (by name: 1) from the numbers that PyTorch's side begins with (`more`:
// check_loss), then the time of a step in windows. flops: 2 for each multiplication and addition of
// the products forward, three times that with backward; attention counts the pairs under the
// diagonal, and a first layer's input needs no gradient. Throws UsageError for an unknown name,
// NotAvailable with the reason where the device has no such precision or no graphs.
Row training_step(const StepOptions& o);

// add of one element: host time an operator, without and with a gradient recorded.
std::vector<Row> dispatch_rows(Device d);

}  // namespace wt::bench
