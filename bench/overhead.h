// What the framework costs beside the arithmetic: the rows of `wt bench overhead`.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "warptape/core/types.h"

namespace wt::bench {

struct OverheadRow {
  // tape_add, mlp_tiny, mlp_small, mnist_cnn, fashion_cnn, gpt_small, adam_step, adam_launches,
  // watched_step
  std::string bench;
  std::string shape;
  double median_us = 0, p10_us = 0, p90_us = 0, min_us = 0;  // over the windows
  double mallocs = 0;  // heap allocations a step (tape_add: an operator) after warm-up; -1: unknown
  i64 calls = 0;       // a window
  i64 peak_bytes = 0;
  double check_loss = -1;  // after 20 steps, of a row that begins with the peers' numbers; -1: none
  double launches = -1;    // of kernels, a step; -1: not counted
  double of_bare = -1;  // the median of its times by the first row's in the same window; -1: none
  double bytes = 0;     // that a step must move; 0: not counted
  double roof_gb_s = 0, roof_best_gb_s = 0;  // memcpy in the same windows, median and best
};

struct OverheadOptions {
  int threads = 1;
  int windows = 11;
  double window_s = 0.1;
  i64 fixed_calls = 0;              // > 0: one window of exactly this many calls (callgrind)
  std::vector<std::string> only{};  // rows; empty: all
  // If there is one it gets the step (tape_add: a chain) in place of the measurement.
  std::function<void(const std::function<void()>&)> take_step{};
};

// tape_add: x = x + one on one f32 element, chains of 100, forward + backward + free, us an
// operator. mlp_tiny: 2-16-16-1, ReLU, MSE, batch 32, SGD; mlp_small: 784-512-512-10, ReLU,
// cross-entropy, batch 128, SGD; mnist_cnn: convolutions 1-32-64 of 3 x 3 over 28 x 28, ReLU,
// pooling by 2, 9216-128-10, cross-entropy, batch 64, AdamW without decay; fashion_cnn: the model
// of `wt train fashion` without dropout (batch norm after each convolution), batch 64, AdamW;
// gpt_small: 4 layers, 4 heads, 128 channels, context 64, batch 12, bytes, AdamW with decay,
// clipped at norm 1: us a whole step. adam_step: 16.8 M parameters in 64 tensors, the norm of their
// gradients, clipping, AdamW with decay, zero_grad. adam_launches, two rows: AdamW with decay of 64
// tensors of 64 x 64 by the optimizer, which launches once for all, and as a loop of operators over
// the tensors, with the same result. watched_step, four rows: gpt_small's step alone, profiled,
// recorded for wt diff at N = 10, and under the doctor.
std::vector<OverheadRow> overhead(const OverheadOptions& o);

// Calls of malloc and its kin in this process so far; -1 where they are not counted.
i64 malloc_count();

}  // namespace wt::bench
