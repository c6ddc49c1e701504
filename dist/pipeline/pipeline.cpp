#include "warptape/dist/pipeline.h"

#include <algorithm>
#include <cstring>

#include "warptape/autograd/ops/shape.h"
#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/core/mailbox.h"
#include "warptape/core/mode.h"
#include "warptape/core/stream.h"
#include "warptape/dist/pipeline/stage_link.h"

namespace wt::dist {

struct Pipeline::State {
  Communicator& comm;
  PipelineOptions options;
  Device device;
  i64 step = 0;
};

namespace {

// What the stage and the loss compute bears their own lines.
struct OwnLines {
  const FrameId before = std::exchange(mode.frame, 0);
  ~OwnLines() { mode.frame = before; }
};

// What all ranks must find the same, as its largest and its smallest value over the ranks.
struct OverRanks {
  i64 least, most;
};
OverRanks range_over(Communicator& comm, i64 value) {
  const Tensor t = tensor({value, -value}, {.dtype = DType::i64, .device = Device::cpu()});
  comm.control().all_reduce(t, ReduceOp::max);
  const i64* v = t.data<i64>();
  return {-v[1], v[0]};
}

// So that every rank refuses the same batch.
struct Sizes {
  i64 inputs, targets;
};
Sizes largest_over(Communicator& comm, Sizes s) {
  const Tensor t = tensor({s.inputs, s.targets}, {.dtype = DType::i64, .device = Device::cpu()});
  comm.control().all_reduce(t, ReduceOp::max);
  const i64* v = t.data<i64>();
  return {v[0], v[1]};
}

std::string first_line(const char* text) { return std::string(text, std::strcspn(text, "\n")); }

// Runs f. Other ranks wait for what this one will not send any more: they are told.
template <class F>
auto or_abort(Communicator& comm, F f) {
  try {
    return f();
  } catch (const PeerFailure&) {
    throw;
  } catch (const std::exception& e) {
    comm.abort(str("stage ", comm.rank(), " of a pipeline threw ", first_line(e.what())));
    throw;
  } catch (...) {
    comm.abort(str("stage ", comm.rank(), " of a pipeline threw"));
    throw;
  }
}

}  // namespace

Pipeline::Pipeline(Communicator& comm, const PipelineOptions& options, Device device)
    : state_(new State{comm, options, device}) {
  if (options.micro_batches < 1)
    throw UsageError(
        str("[Pipeline] micro_batches must be at least 1, got ", options.micro_batches, at_line()));
  if (device.is_meta || !comm.takes(device))
    throw PlacementError(str("[Pipeline] the stage of rank ", comm.rank(), " computes on ",
                             to_string(device), ", whose tensors the backend ", comm.backend(),
                             " does not send", at_line()));
  if (const OverRanks r = range_over(comm, options.micro_batches); r.least != r.most)
    throw UsageError(str("[Pipeline] micro_batches must be the same on every rank: from ", r.least,
                         " to ", r.most, at_line()));
  if (const OverRanks r = range_over(comm, i64(options.schedule)); r.least != r.most)
    throw UsageError(str("[Pipeline] the schedule must be the same on every rank: both ",
                         to_string(PipelineSchedule(r.least)), " and ",
                         to_string(PipelineSchedule(r.most)), at_line()));
}

Pipeline::~Pipeline() = default;
Pipeline::Pipeline(Pipeline&&) noexcept = default;

bool Pipeline::is_first() const { return state_->comm.rank() == 0; }
bool Pipeline::is_last() const { return state_->comm.rank() == state_->comm.size() - 1; }
Device Pipeline::device() const { return state_->device; }

Device Pipeline::device_of(const nn::ModuleBase* stage, const PipelineOptions& options) {
  if (options.device) return *options.device;
  if (stage)
    for (const Tensor& p : stage->parameters())
      if (p.defined()) return p.device();
  return mode.default_device;
}

void Pipeline::move_to_device(Tensor& t) const {
  if (t.defined() && t.device() != state_->device) t = t.to(state_->device);
}

namespace {

// Micro-batch k of `parts`: samples [begin(k), begin(k + 1)).
struct MicroBatches {
  i64 size, parts;
  i64 begin(i64 k) const { return size * k / parts; }
  i64 count(i64 k) const { return begin(k + 1) - begin(k); }
};

MicroBatches agreed_cut(Communicator& comm, Sizes mine, bool with_targets, i64 micro_batches) {
  const Sizes s = largest_over(comm, mine);
  if (s.inputs < 0)
    throw UsageError(
        str("[Pipeline] x is undefined on rank 0, which has the first stage", at_line()));
  if (with_targets && s.targets < 0)
    throw UsageError(str("[Pipeline] y is undefined on rank ", comm.size() - 1,
                         ", which has the last stage", at_line()));
  if (s.inputs == 0) throw UsageError(str("[Pipeline] the batch is empty", at_line()));
  if (with_targets && s.inputs != s.targets)
    throw ShapeError(str("[Pipeline] x has ", s.inputs, " samples on rank 0, y ", s.targets,
                         " on rank ", comm.size() - 1, at_line()));
  return {s.inputs, std::min(micro_batches, s.inputs)};
}

i64 size_of_inputs(const Tensor& x) { return x.ndim() ? x.size(0) : 0; }

}  // namespace

Loss Pipeline::run(const Tensor& x, i64 targets, const LossOf& loss_of) {
  State& s = *state_;
  if (!mode.grad)
    throw UsageError(str("[Pipeline] backward() under NoGrad", at_line(), "\n  Try forward()"));
  s.comm.at_step(s.step++);
  const i64 inputs = !is_first() ? kElsewhere : x.defined() ? size_of_inputs(x) : kUndefined;
  const MicroBatches cut = agreed_cut(s.comm, {inputs, targets}, true, s.options.micro_batches);
  return or_abort(s.comm, [&] {
    detail::StageLink link(s.comm, s.device);
    // Sums as TrainStep makes them: in f64, in the order of the micro-batches.
    Tensor total = zeros({2}, {.dtype = DType::f64, .device = s.device});
    const auto input = [&](i64 k) {
      Tensor part = cut.parts == 1 ? x : x.narrow(0, cut.begin(k), cut.count(k));
      move_to_device(part);
      return part;
    };
    const auto finish = [&](const Tensor& output, i64 k) {
      Loss loss = [&] {
        const OwnLines own_lines;
        return loss_of(output, cut.begin(k), cut.count(k));
      }();
      detail::add_loss(total, loss, s.device);
      return loss.sum;
    };
    const auto call = [&](Tensor t) {
      const OwnLines own_lines;
      return stage_(std::move(t));
    };
    detail::run_actions(
        link, pipeline_actions(s.options.schedule, s.comm.rank(), s.comm.size(), cut.parts),
        {.input = input, .stage = call, .loss = finish});
    // A bad label or token: where it was met, and before anybody steps.
    if (!stream_backend(s.device)) check_mailbox(s.device);
    s.comm.broadcast(total, s.comm.size() - 1);
    return Loss(total[0], total[1]);
  });
}

Tensor Pipeline::forward(const Tensor& x, Frame at) {
  const FrameScope frame(at);
  const NoGrad no_grad;
  State& s = *state_;
  const i64 inputs = !is_first() ? kElsewhere : x.defined() ? size_of_inputs(x) : kUndefined;
  const MicroBatches cut = agreed_cut(s.comm, {inputs, kElsewhere}, false, s.options.micro_batches);
  return or_abort(s.comm, [&] {
    detail::StageLink link(s.comm, s.device);
    std::vector<Tensor> outputs;
    for (i64 k = 0; k < cut.parts; ++k) {
      Tensor t =
          is_first() ? x.narrow(0, cut.begin(k), cut.count(k)) : link.receive_activation().value;
      move_to_device(t);
      {
        const OwnLines own_lines;
        t = stage_(std::move(t));
      }
      if (is_last())
        outputs.push_back(std::move(t));
      else
        link.send_activation({t, false});
    }
    link.finish();
    if (outputs.empty()) return Tensor();
    return outputs.size() == 1 ? outputs[0] : cat(outputs, 0);
  });
}

}  // namespace wt::dist
