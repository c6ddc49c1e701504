// Model parallelism over layers: each rank has a stage of the model, and a batch goes through the
// stages in micro-batches (dist/pipeline_schedule.h).
//
//   dist::spawn(2, [](dist::Communicator& comm) {
//     nn::Sequential stage = dist::partition(make_net(), comm.size())[size_t(comm.rank())];
//     dist::Pipeline pipe{stage, comm, {.micro_batches = 8}};
//     optim::AdamW opt{stage, {.lr = 1e-3}};
//     for (const auto& [x, y] : loader) {
//       opt.zero_grad();
//       const Loss loss = pipe.backward(x, y, [](const Tensor& out, const Tensor& t) {
//         return cross_entropy(out, t);
//       });
//       opt.step(dist::agree_on_step(&opt, comm, loss, 1.0).options);
//     }
//   });
//
// Gradients are those of one process that makes the same micro-batches one after the other with
// the whole model, to the bit: every stage adds them in the order of the micro-batches.
// (Activations travel contiguous: after a stage whose result is not, one process may choose other
// kernels.)
//
// Stages tell each other shape and dtype of what they send, so these may change from micro-batch to
// micro-batch: the last one may be shorter, and micro-batches of unequal weight add up exactly.
// Stages may lack parameters. What a stage holds of a micro-batch between its forward and its
// backward is what its graph has saved: a result that was sent is dropped.
//
// Each rank draws dropout of its own. A stage may be frozen: no gradient goes where none is wanted.
#pragma once
#include <functional>
#include <memory>
#include <optional>

#include "warptape/autograd/loss.h"
#include "warptape/core/at_line.h"
#include "warptape/core/batch.h"
#include "warptape/dist/communicator.h"
#include "warptape/dist/pipeline_schedule.h"
#include "warptape/nn/containers.h"

namespace wt::dist {

// How a batch goes through the stages; all but the device is the same on every rank.
struct PipelineOptions {
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;  // in which order
  i64 micro_batches = 1;  // at least 1, at most the batch's size; cut as TrainStep cuts
  // Where the stage computes. Default: its parameters' device; of a function or a module without
  // parameters the default device.
  std::optional<Device> device{};
};

// The part that a rank has in a model whose layers lie on several: its stage, and how batches go
// through it.
class WT_API Pipeline {
 public:
  // `stage` is the part of this rank: a module or a callable, from tensor to tensor; of a module a
  // handle is kept. Rank 0 has the first stage. Made by every rank, with the same options: throws
  // UsageError on all of them otherwise, PlacementError where the communicator does not send
  // tensors of the stage's device. `comm` outlives the pipeline.
  template <nn::Step M>
  Pipeline(M stage, Communicator& comm, const PipelineOptions& options = {}, const CallLine& = {})
      : Pipeline(comm, options, device_for(stage, options)) {
    stage_ = [call = std::move(stage)](Tensor x) mutable -> Tensor { return call(std::move(x)); };
  }
  ~Pipeline();
  Pipeline(Pipeline&&) noexcept;
  Pipeline& operator=(Pipeline&&) = delete;

  // Forward and backward of a batch: x counts on the first rank, y on the last one, and they have
  // samples along the first axis of each (y: a Tensor, a range of them, or what TrainStep takes:
  // core/batch.h); elsewhere they may be undefined or the same on every rank. loss_of(output,
  // targets) is called on the last rank for each micro-batch; it returns a Loss, or what has a sum
  // and a weight.
  //
  // Gradients of the sum of all losses are added into the leaves, as TrainStep's are; nothing is
  // divided. Returns that sum and the weight, f64 on the stage's device, the same on every rank,
  // without waiting for a device that has a queue.
  //
  // Every rank calls it. Throws UsageError under NoGrad, UsageError, ShapeError on every rank when
  // the batch is empty or x and y differ in size. What a stage or the loss throws goes on from
  // here; the other ranks get PeerFailure, as does every later call: messages of that batch are
  // still under way.
  template <class Targets, class F>
  Loss backward(const Tensor& x, const Targets& y, F&& loss_of, Frame at = Frame::here()) {
    static_assert(wt::detail::TellsTensors<Targets> && wt::detail::TellsSize<Targets> &&
                      wt::detail::Narrows<Targets>,
                  "Pipeline: targets are a Tensor, a range of them, or what core/batch.h says");
    const FrameScope frame(at);
    const auto loss_of_part = [&](const Tensor& output, i64 begin, i64 n) -> Loss {
      Targets part = wt::detail::narrow_batch(y, begin, n);
      wt::detail::for_each_tensor(part, [&](Tensor& t) { move_to_device(t); });
      return as_loss(loss_of(output, std::as_const(part)));
    };
    return run(x, is_last() ? size_of(y) : kElsewhere, loss_of_part);
  }

  // The outputs of a batch, without gradients, in the same micro-batches: on the last rank,
  // undefined on the others. Every rank calls it; x counts on the first one.
  Tensor forward(const Tensor& x, Frame at = Frame::here());

  // is_first and is_last tell whether this rank has the first or the last stage, device where its
  // stage computes.
  bool is_first() const;
  bool is_last() const;
  Device device() const;

 private:
  using Call = std::function<Tensor(Tensor)>;
  using LossOf = std::function<Loss(const Tensor& output, i64 begin, i64 n)>;
  // What a rank tells of the size of what it has not, and of what it has not been given.
  static constexpr i64 kElsewhere = -2, kUndefined = -1;

  Pipeline(Communicator& comm, const PipelineOptions& options, Device device);
  template <class M>
  static Device device_for(const M& stage, const PipelineOptions& options) {
    if constexpr (std::derived_from<M, nn::ModuleBase>)
      return device_of(&stage, options);
    else
      return device_of(nullptr, options);
  }
  static Device device_of(const nn::ModuleBase* stage, const PipelineOptions& options);
  template <class Targets>
  static i64 size_of(const Targets& y) {
    if constexpr (std::same_as<Targets, Tensor>)
      return y.defined() ? (y.ndim() ? y.size(0) : 0) : kUndefined;
    else
      return wt::detail::batch_size(y);
  }
  template <class L>
  static Loss as_loss(L&& loss) {
    static_assert(
        requires {
          loss.sum;
          loss.weight;
        },
        "Pipeline: loss_of returns a Loss, or what has a sum and a weight (Loss{t, n} of a "
        "tensor)");
    if constexpr (std::same_as<std::remove_cvref_t<L>, Loss>)
      return std::forward<L>(loss);
    else
      return Loss(loss.sum, loss.weight);
  }
  void move_to_device(Tensor& t) const;
  Loss run(const Tensor& x, i64 targets, const LossOf& loss_of);

  struct State;
  std::unique_ptr<State> state_;
  Call stage_;
};

}  // namespace wt::dist
