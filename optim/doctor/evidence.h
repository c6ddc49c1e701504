// What the doctor has seen of a program: plain numbers, which rules look at. A test makes its own.
#pragma once
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "warptape/core/device.h"
#include "warptape/core/dtype.h"
#include "warptape/core/mode.h"
#include "warptape/core/types.h"

namespace wt::doctor {

// What was counted in one step.
struct StepSeen {
  double us = 0, data_us = 0;    // microseconds of the whole turn, and of its wait for the batch
  i64 launches = 0;              // of kernels
  double launched_bytes = 0;     // that the kernels read and write
  i64 recorded = 0, walked = 0;  // nodes of the tape, and those that a backward came to
  i64 updates = 0;               // of optimizers
  i64 live_bytes = 0, live_nodes = 0;          // behind the step
  i64 new_shapes = 0;                          // of convolutions
  i64 lookups = 0;                             // of parameters by name, and lists of them
  double lookup_us = 0;                        // that these took
  double loss = NAN, scale = NAN, rate = NAN;  // NaN: not told
  bool told_loss = false;                      // the step said what its loss was
  bool skipped = false;                        // it changed nothing
};

// Figures of all batches, those before the measured steps too.
struct BatchesSeen {
  i64 count = 0, samples = 0;  // batches; samples of the last one
  i64 repeated = 0;            // batches that are the one before, byte by byte
  i64 pageable_bytes = 0;      // of a batch, in memory that a device cannot copy from directly
  // floating: inputs are. elements, not_finite: of such inputs, over all batches; mean, deviation:
  // of the finite ones; rows_alike: every sample of a batch is its first one.
  bool floating = false;
  i64 elements = 0, not_finite = 0;
  double mean = 0, deviation = 0;
  bool rows_alike = false;
  bool labels = false;  // there were some, of integers
  // label_count, without ignored ones, distinct values, least and most of them; ignored: -100.
  i64 label_count = 0, distinct = 0, least = 0, most = 0, ignored = 0;
  i64 of_one_class = 0;  // batches of several samples that have one label alone
  i64 filling = 0;       // different labels that fill such a batch
};

// A parameter and its last gradient.
struct ParameterSeen {
  std::string name;            // in the net or optimizer
  i64 elements = 0, axes = 0;  // numbers of them
  DType dtype = DType::f32;    // of the parameter
  bool wants_gradient = true;  // requires_grad()
  bool reached = false;        // a gradient was there in one of the steps
  double gradient_rms = NAN;   // of the last step
  int optimizers = 0;          // that hold it
  bool of_net = true;          // else of an optimizer alone
};

// What went through one relu.
struct ReluSeen {
  std::string place;        // "fc1 at net.cpp:12"
  std::vector<char> alive;  // by unit: it was above 0 once
  // Channels or features.
  i64 units() const { return i64(alive.size()); }
  // Units that were never above 0.
  i64 dead() const {
    i64 n = 0;
    for (const char a : alive) n += !a;
    return n;
  }
};

// FLOPs of matrix products and convolutions, a step.
struct ProductsSeen {
  double f64 = 0, f32 = 0, half = 0;  // by dtype of the operands; half: f16 and bf16
  double odd = 0;                     // of the 16-bit ones: with a size that is no multiple of 8
  std::string odd_example{};          // "128 x 10 x 51 at net.cpp:12"
  // Of all dtypes.
  double all() const { return f64 + f32 + half; }
};

// The evaluation, where there was one.
struct EvaluationSeen {
  bool there = false;                // there was one
  i64 recorded = 0;                  // nodes of the tape
  i64 dropouts = 0, statistics = 0;  // launches that draw masks, that move running statistics
};

// The machine while the steps ran.
struct MachineSeen {
  int processors = 0;           // that this process may use
  i64 threads = 0;              // of kernels: OMP_NUM_THREADS, --threads
  double swapped_bytes_s = -1;  // bytes a second, in and out; -1: nobody tells
  i64 slowed = -1;              // how often heat held the processor down meanwhile
  // A GPU that is held down.
  struct Slowed {
    std::string name, why;        // "NVIDIA H200"; what holds it down
    int mhz = -1, most_mhz = -1;  // of its processors, now and at most; -1: nobody tells
  };
  std::vector<Slowed> gpus{};  // those that are
  bool cuda = false;           // there is a device
};

// All that the rules look at.
struct Evidence {
  std::string failure{};          // where and what was thrown: "step 3: ShapeError: ..."
  Device device{};                // of the parameters
  DType precision = DType::f32;   // of the forward
  bool tf32 = false;              // matmul_precision() is high
  std::vector<StepSeen> steps{};  // measured ones
  BatchesSeen batches{};          // all of them
  // micro_batches, workers, planned_steps and captures: as Subject has them.
  i64 micro_batches = 1;
  int workers = -1;
  i64 planned_steps = 0;
  bool captures = false;
  // Microseconds of a step as a graph, and of one as it is, measured alike: unwatched, with one
  // wait for all.
  double captured_us = NAN, eager_us = NAN;
  std::vector<SyncGuard::Wait> waits{};  // over all measured steps
  std::vector<double> waited_us{};       // microseconds for other ranks, by rank, a step
  ProductsSeen products{};               // the mean of the measured steps
  double upscaled = 1;                   // the largest resize of the forward: pixels out a pixel in
  std::string upscaled_at{};             // its line
  i64 classes = 0;                       // of the loss; 0: none that was seen
  i64 class_items = 0;                   // rows that the loss had
  i64 class_losses = 0;                  // different ones a step, by line and module
  // Labels outside the classes that a loss got, where the host can read them.
  struct OutsideLabels {
    bool seen = false, read = false;       // there were some; read: some loss's could be
    i64 least = 0, most = 0, classes = 0;  // of the labels; how many classes the loss had
  } outside{};
  bool probabilities = false;                       // the loss got probabilities in place of logits
  bool has_net = false, net_training = true;        // Subject::net is given; it was in train()
  i64 dropout_modules = 0, batch_norm_modules = 0;  // of the net
  i64 not_zeroed = 0;  // steps of an optimizer whose gradients hold those of the step before
  i64 walks = 0, updates = 0;  // backwards, and optimizer steps, over all measured steps
  i64 scaled_walks = 0;        // backwards that begin with a factor
  i64 added_up = 0;            // backwards that each parameter has got before an update, added up
  bool factor = false;         // updates multiply by a factor of the gradient
  double last_factor = 1;      // the last update's; NaN: the host cannot read it
  bool anomaly = false, forced_kernels = false;  // AnomalyMode is on; WT_KERNEL or overrides are
  std::vector<ParameterSeen> parameters{};       // of the net, then those of optimizers alone
  std::vector<ReluSeen> relus{};                 // by place
  // What f16 rounds badly: underflow without the loss scale, scaled_underflow with it.
  double underflow = 0,
         scaled_underflow = 0;     // share of gradients below f16's normal numbers; with the scale
  std::vector<double> schedule{};  // factors of the steps that were measured, as they should be
  std::vector<double> plan{};      // 64 factors over the planned steps
  double first_loss = NAN, first_loss_again = NAN;  // of the first batch
  double steepest_rate = NAN, steepest_loss = NAN;  // what the search for a rate found; NaN: none
  double highest_rate = NAN;                        // that it tried
  EvaluationSeen evaluation{};                      // of Subject::evaluate
  MachineSeen machine{};                            // while the steps ran
};

}  // namespace wt::doctor
