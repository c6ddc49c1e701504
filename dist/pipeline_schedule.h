// When the stages of a pipeline do what: schedules as lists, and what they cost.
//
// A model is cut into stages, a rank each, and a batch into micro-batches, which follow one another
// through the stages.
//
//   gpipe        all forwards, then all backwards (Huang et al. 2019). Every stage holds the
//                activations of all micro-batches.
//   one_f_one_b  a stage does as many forwards as there are stages behind it, then forward and
//                backward by turns (Narayanan et al. 2019, PipeDream-Flush). Stage s of p holds
//                those of p - s micro-batches at most.
//
// Either leaves a stage idle for (p - 1) / (m + p - 1) of a step of m micro-batches, where all
// stages are equally fast and transfers cost nothing. Both do the backwards of all micro-batches in
// order: gradients are added in the order of one process.
//
// A send here may wait until the other side receives, and what a rank begins is carried out in its
// order. Where two neighbours have something for each other, the earlier stage therefore sends
// first and the later one receives first; no rank waits for one that waits for it.
#pragma once
#include <vector>

#include "warptape/core/macros.h"
#include "warptape/core/types.h"

namespace wt::dist {

// In which order a stage does forwards and backwards. gpipe: all forwards, then all backwards.
// one_f_one_b: by turns, which holds fewer activations.
enum class PipelineSchedule : u8 { gpipe, one_f_one_b };
// The name, "gpipe" or "one_f_one_b".
WT_API const char* to_string(PipelineSchedule s);

// One thing that a stage does in a step: of which kind, with which micro-batch.
struct PipelineAction {
  // What is done: tensors come from and go to the stages beside, forward and backward compute.
  enum class Kind : u8 {
    recv_forward,   // the activations of a micro-batch, from the stage before
    forward,        // of this stage
    send_forward,   // to the stage behind
    recv_backward,  // the gradient of what was sent, from there
    backward,       // of this stage
    send_backward   // of what was received, to the stage before
  };
  Kind kind;        // what is done
  i64 micro_batch;  // from 0 on
  // Whether kind and micro_batch are the same.
  friend bool operator==(const PipelineAction&, const PipelineAction&) = default;
};
// The name of the value, "recv_forward" and so on.
WT_API const char* to_string(PipelineAction::Kind k);

// What stage `stage` of `stages` does in a step, in order. The first one receives no activations,
// the last one no gradients. Throws UsageError unless 0 <= stage < stages and micro_batches >= 1.
WT_API std::vector<PipelineAction> pipeline_actions(PipelineSchedule schedule, int stage,
                                                    int stages, i64 micro_batches);

// What the actions of one micro-batch take on every stage, in any unit; a backward takes about
// twice a forward.
struct PipelineCosts {
  double forward = 1, backward = 2, transfer = 0;  // transfer: of a tensor to a stage beside
};
// What a step takes, in the unit of the costs.
struct PipelineTimes {
  double total = 0;   // until the last stage is done
  double bubble = 0;  // the part of it, 0 to 1, in which the average stage computes nothing
  std::vector<i64> activations{};  // most micro-batches that a stage holds at once, a stage each
};
// A step as it would go where a send waits for its receiver. Throws UsageError unless stages and
// micro_batches are at least 1.
WT_API PipelineTimes pipeline_times(PipelineSchedule schedule, int stages, i64 micro_batches,
                                    const PipelineCosts& costs = {});

}  // namespace wt::dist
