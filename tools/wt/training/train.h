// `wt train` as a function and its options. The run itself is class Trainer
// (tools/wt/training/trainer.h).
#pragma once
#include <string>
#include <vector>

#include "warptape/core/types.h"

namespace wt::tools {

// Steps of a training that are profiled, and the table of them (core/profile.h).
struct ProfileRequest {
  i64 steps = 0;      // 0: none
  bool only = false;  // no evaluation, no checkpoint: `wt profile`
  std::string out{};  // folder for table, JSON, CSV, trace and timeline; empty: none
  std::string sort_by{};
  std::string group_by = "operator";
  int rows = 0;
  bool shapes = false, nested = false, counters = false;
};

struct TrainOptions {
  std::string recipe;
  std::string device = "auto";
  std::string data{};
  std::string out{};               // run folder; empty: nothing is written
  std::string init_from{};         // weights to begin with; empty: random ones
  std::vector<std::string> set{};  // the recipe's settings, KEY=VALUE
  std::string precision = "f32";
  std::string optimizer = "adamw";
  std::string schedule{};  // empty: the recipe's
  std::string on_nan = "stop";
  std::string on_write_error = "stop";
  std::string monitor = "loss";          // what best, patience and plateau look at
  i64 epochs = 0, steps = 0, batch = 0;  // 0: the recipe's
  i64 micro_batches = 1;
  double lr = 0, weight_decay = -1, clip = -1, momentum = 0.9;  // lr 0, others -1: the recipe's
  i64 warmup = -1;                                              // steps; -1: the recipe's
  double ema = 0;                                               // decay; 0: no average
  i64 patience = 0;                                             // evaluations; 0: no early stopping
  i64 eval_every = 0, save_every = 0, log_every = 0;            // steps; 0: chosen
  // Batches of the held-out set that an evaluation takes; 0: all of it; -1: as many samples as all
  // evaluations of the run can take in a fifth of its time.
  i64 eval_batches = -1;
  i64 memory_limit = 0;  // bytes of the device; 0: all there are
  i64 sample = 240;      // bytes of text in the report
  int keep = 2, threads = 0, workers = 0;
  u64 seed = 1;
  bool resume = false, dry_run = false, quiet = false, graph = false, curve = false;
  bool offload = false;   // what backward needs lies in host memory until then
  std::string kernels{};  // CONTRACT:VARIANT for the run from step `kernels_from` on
  i64 kernels_from = 0;
  // The training data on the device: on, off, or auto: where the device has memory of its own and
  // the data takes at most a tenth of what is free.
  std::string resident = "auto";
  // Ranks as threads of this process, which share every batch; 0: one, or as many as mpirun
  // started.
  int ranks = 0;
  // 1: each rank keeps the optimizer's state for its part of the parameters alone; 2: gradients
  // too.
  int zero = 0;
  double deadline = 120;  // seconds that a rank waits for the others
  i64 exponents = 0;      // steps between two records of the gradients' exponents; 0: none
  ProfileRequest profile{};
  i64 log_tensors = 0;  // steps between two whose results are recorded (wt diff); 0: none
};

// Trains and prints the summary's JSON line last on stdout. Returns the process's exit code (0, 130
// or 143); throws for everything else.
int train(const TrainOptions& options);

}  // namespace wt::tools
