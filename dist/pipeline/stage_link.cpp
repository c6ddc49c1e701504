#include "warptape/dist/pipeline/stage_link.h"

#include <utility>

#include "warptape/autograd/custom.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/core/mode.h"
#include "warptape/core/tensor_impl.h"

namespace wt::dist::detail {

// --- messages ---

namespace {

// wants_gradient, dtype, dimensions, sizes.
constexpr i64 kHeader = 3 + kMaxDims;

Tensor host_i64(std::span<const i64> values) {
  return tensor(values, {.dtype = DType::i64, .device = Device::cpu()});
}

}  // namespace

void StageLink::Sending::wait() {
  for (const Work& w : works) w.wait();
  works.clear();
  tensors.clear();
}

void StageLink::send(Sending& s, int to, const Tensor& header, const Tensor& payload) {
  s.wait();
  s.tensors = {header, payload};
  s.works.push_back(comm_.control().start_send(header, to));
  if (payload.defined()) s.works.push_back(comm_.start_send(payload, to));
}

void StageLink::finish() {
  forward_.wait();
  backward_.wait();
}

void StageLink::send_activation(const Activation& a) {
  i64 header[kHeader] = {a.wants_gradient, i64(a.value.dtype()), a.value.ndim()};
  for (int i = 0; i < a.value.ndim(); ++i) header[3 + i] = a.value.size(i);
  send(forward_, comm_.rank() + 1, host_i64(header), a.value.detach().contiguous());
}

StageLink::Activation StageLink::receive_activation() {
  const Tensor header = zeros({kHeader}, {.dtype = DType::i64, .device = Device::cpu()});
  comm_.control().recv(header, comm_.rank() - 1);
  const i64* h = header.data<i64>();
  Tensor t = empty(Shape(h + 3, int(h[2])), {.dtype = DType(h[1]), .device = device_});
  comm_.recv(t, comm_.rank() - 1);
  return {std::move(t), h[0] != 0};
}

void StageLink::send_gradient(const Tensor& g) {
  const i64 header[] = {g.defined()};
  send(backward_, comm_.rank() - 1, host_i64(header),
       g.defined() ? g.detach().contiguous() : Tensor());
}

Tensor StageLink::receive_gradient(const Shape& shape, DType dtype) {
  const Tensor header = zeros({1}, {.dtype = DType::i64, .device = Device::cpu()});
  comm_.control().recv(header, comm_.rank() + 1);
  if (header.data<i64>()[0] == 0) return {};
  Tensor g = empty(shape, {.dtype = dtype, .device = device_});
  comm_.recv(g, comm_.rank() + 1);
  return g;
}

// --- the ends of a stage's graph ---

namespace {

struct Handover {
  Tensor value, gradient;
};

// Where a received activation enters the graph. An operator and no leaf: the stage may work in its
// storage, and its gradient is left in `at` without a copy.
struct Arrive {
  static constexpr OpInfo info{.name = "pipeline_input", .derivative = Derivative::linear};
  std::shared_ptr<Handover> at;
  Tensor forward(Save&, const Tensor&) const { return std::move(at->value); }
  Grads backward(const Saved&, const Tensor& gy) const {
    at->gradient = gy;
    return {Tensor()};
  }
};

// Where the graph ends: a root that needs no memory, while the result itself can go once it was
// sent. Its backward begins with the gradient that was left in `at`.
struct Depart {
  static constexpr OpInfo info{.name = "pipeline_output", .derivative = Derivative::linear};
  std::shared_ptr<Handover> at;
  Tensor forward(Save&, const Tensor& y) const {
    return zeros({}, {.dtype = y.dtype(), .device = y.device()});
  }
  Grads backward(const Saved&, const Tensor&) const { return {std::move(at->gradient)}; }
};

// What a stage holds of a micro-batch between its actions.
struct Flight {
  Tensor input{};   // received
  Tensor output{};  // to be sent
  Tensor root{};    // where its backward begins
  Shape shape{};    // of what was sent
  DType dtype{};
  std::shared_ptr<Handover> arrived{};   // null: the stage before wants no gradient
  std::shared_ptr<Handover> departed{};  // null: none will come
};

class StageStep {
 public:
  StageStep(StageLink& link, const StageCalls& calls) : link_(link), calls_(calls) {}

  void act(const PipelineAction& a) {
    if (size_t(a.micro_batch) >= flights_.size()) flights_.resize(size_t(a.micro_batch) + 1);
    Flight& f = flights_[size_t(a.micro_batch)];
    using Kind = PipelineAction::Kind;
    switch (a.kind) {
      case Kind::recv_forward:
        return receive(f);
      case Kind::forward:
        return forward(f, a.micro_batch);
      case Kind::send_forward:
        return send(f);
      case Kind::recv_backward:
        if (f.departed) f.departed->gradient = link_.receive_gradient(f.shape, f.dtype);
        return;
      case Kind::backward:
        return backward(f);
      case Kind::send_backward:
        if (f.arrived) link_.send_gradient(std::exchange(f.arrived->gradient, Tensor()));
        f.arrived.reset();
        return;
    }
  }

 private:
  void receive(Flight& f) {
    StageLink::Activation a = link_.receive_activation();
    f.input = std::move(a.value);
    if (a.wants_gradient) f.arrived = std::make_shared<Handover>();
  }

  Tensor input_of(Flight& f) {
    if (!f.arrived) return std::move(f.input);
    const Tensor start =
        empty({0}, {.dtype = f.input.dtype(), .device = f.input.device(), .requires_grad = true});
    f.arrived->value = std::move(f.input);
    return apply(Arrive{f.arrived}, start);
  }

  void forward(Flight& f, i64 k) {
    f.output = calls_.stage(link_.is_first() ? calls_.input(k) : input_of(f));
    if (!f.output.defined())
      throw UsageError(
          str("[Pipeline] the stage of rank ", link_.rank(), " returned an undefined tensor"));
    if (f.output.device() != link_.device())
      throw PlacementError(str("[Pipeline] the stage of rank ", link_.rank(), " computes on ",
                               to_string(link_.device()), " and returned ", describe(f.output),
                               "\n  Try PipelineOptions::device"));
    if (!link_.is_last()) return;
    f.root = calls_.loss(f.output, k);
    f.output = Tensor();
  }

  void send(Flight& f) {
    Tensor y = std::exchange(f.output, Tensor());
    if (y.requires_grad()) {
      f.departed = std::make_shared<Handover>();
      f.shape = y.shape();
      f.dtype = y.dtype();
      f.root = apply(Depart{f.departed}, y);
    }
    link_.send_activation({y, f.departed != nullptr});
  }

  void backward(Flight& f) {
    const Tensor root = std::exchange(f.root, Tensor());
    const bool reached =
        link_.is_last() ? root.requires_grad() : f.departed && f.departed->gradient.defined();
    if (reached) root.backward({}, Frame{});
    f.departed.reset();
  }

  StageLink& link_;
  const StageCalls& calls_;
  std::vector<Flight> flights_;
};

}  // namespace

void run_actions(StageLink& link, const std::vector<PipelineAction>& actions,
                 const StageCalls& calls) {
  StageStep step(link, calls);
  for (const PipelineAction& a : actions) step.act(a);
  link.finish();
}

void add_loss(Tensor& total, const Loss& loss, Device device) {
  const NoGrad no_grad;
  const auto part = [&](const char* what, const Tensor& t) {
    if (!t.defined() || t.numel() != 1 || t.device() != device)
      throw UsageError(str("[Pipeline] the ", what, " of the loss must be one element on ",
                           to_string(device), ", got ", describe(t)));
    return reshape(t.detach(), {1}).to(DType::f64);
  };
  total.add_(cat({part("sum", loss.sum), part("weight", loss.weight)}));
}

}  // namespace wt::dist::detail
