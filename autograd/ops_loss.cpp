// Losses. Each is one fused operator that returns a sum and a weight; under create_graph its
// backward is a composite of operators that have derivatives themselves.
#include "warptape/autograd/ops_loss.h"
#include "warptape/autograd/bad_index.h"
#include "warptape/autograd/engine.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/ops_pointwise.h"
#include "warptape/autograd/ops_reduce.h"
#include "warptape/autograd/ops_shape.h"
#include "warptape/autograd/ops_softmax.h"
#include "warptape/core/factories.h"
#include "warptape/kernels/cross_entropy.h"
#include "warptape/kernels/mse.h"

namespace wt {
namespace info {
// Reads 16-bit logits as they are and computes in f32: converting them would double the traffic.
constexpr OpInfo cross_entropy{.name = "cross_entropy"};
constexpr OpInfo mse_loss{.name = "mse_loss", .autocast = Autocast::promote};
}  // namespace info

namespace {

DType loss_dtype(DType t) { return t == DType::f64 ? DType::f64 : DType::f32; }

void require_float(const OpScope& s, int operand) {
  const DType t = s.dtype(operand);
  if (!is_floating(t) || !computes(t))
    s.fail<DtypeError>(str("expected a floating dtype that computes, got ", dtype_name(t)),
                       ".to(f32)");
}

// --- cross-entropy -------------------------------------------------------------------------------

struct CrossEntropyAttributes {
  i64 ignore_index;
  double smoothing;
  int axis;
};

void check_cross_entropy(const OpScope& s, int axis) {
  require_float(s, 0);
  const Geometry &x = s.geometry(0), &labels = s.geometry(1);
  if (x.ndim == 0)
    s.fail<ShapeError>("logits must be [N, C], [N, C, ...] or [C], got 0 dimensions");
  if (labels.dtype != DType::i64)
    s.fail<DtypeError>(str("labels must be i64, got ", dtype_name(labels.dtype)),
                       ".to(DType::i64)");
  Shape want(x.shape, x.ndim);
  want.erase(axis);
  if (const Shape got(labels.shape, labels.ndim); got != want)
    s.fail<ShapeError>(
        str("labels must have the shape of the logits without the class axis: expected ", want,
            ", got ", got));
  if (x.shape[axis] == 0 && labels.numel > 0)
    s.fail<ShapeError>(str(labels.numel, " labels but no class"));
}

// 1 at the label, with smoothing; 0 for ignored rows. `like` has the shape and dtype of the logits.
Tensor smoothed_target(const Tensor& labels, const Tensor& valid, const Tensor& like,
                       const CrossEntropyAttributes& a) {
  const i64 classes = like.size(a.axis);
  Shape shape;
  for (int d = 0; d < like.ndim(); ++d) shape.push_back(d == a.axis ? classes : 1);
  const Tensor numbers =
      arange(0, classes, 1, {.dtype = DType::i64, .device = like.device()}).reshape(shape);
  const Tensor hit = to_dtype(eq(labels.unsqueeze(a.axis), numbers), like.dtype());
  return mul(valid, add(mul(hit, 1 - a.smoothing), a.smoothing / double(classes)));
}

// The same gradient as the kernel's, from operators that record.
Tensor cross_entropy_gradient(const Tensor& gsum, const Tensor& logits, const Tensor& labels,
                              const CrossEntropyAttributes& a) {
  const Tensor x = to_dtype(logits, loss_dtype(logits.dtype()));
  const Tensor valid = to_dtype(ne(labels.unsqueeze(a.axis), a.ignore_index), x.dtype());
  const Tensor target = smoothed_target(labels, valid, x, a);
  const Tensor gx = mul(gsum, sub(mul(valid, softmax(x, a.axis)), target));
  return to_dtype(gx, logits.dtype());
}

// No element of it is stored twice (expand).
bool writable(const Tensor& t) {
  const Geometry& g = t.impl()->geometry;
  for (int d = 0; d < g.ndim; ++d)
    if (g.shape[d] > 1 && g.strides[d] == 0) return false;
  return true;
}

void cross_entropy_backward(Backward& g) {
  if (!g.wants(0)) return;
  const auto a = g.attribute<CrossEntropyAttributes>();
  const Tensor &logits = g.saved(0), &labels = g.saved(1);
  if (g.recording()) return g.put(0, cross_entropy_gradient(g.grad(), logits, labels, a));
  const bool over = g.may_overwrite_saved(0) && writable(logits);
  Tensor gx = over ? logits : empty_like(logits);
  run(CrossEntropyBackwardArgs{view_of(gx.impl()), view_of(g.grad().impl()),
                               view_of(g.saved(2).impl()), view_of(logits.impl()),
                               view_of(labels.impl()), a.axis, a.ignore_index, a.smoothing},
      Launch{g.node->info, mode.native_stream, nullptr, gx.device()});
  if (over) gx.impl()->cell->wrote(0);
  g.put(0, std::move(gx));
}

// --- squared error -------------------------------------------------------------------------------

void mse_backward(Backward& g) {
  const Tensor &a = g.saved(0), &b = g.saved(1);
  if (g.recording()) {
    const Tensor gsum = to_dtype(g.grad(), a.dtype());
    const Tensor ga = mul(sub(a, b), mul(gsum, 2.0));
    if (g.wants(0)) g.put(0, ga);
    if (g.wants(1)) g.put(1, neg(ga));
    return;
  }
  for (u32 i = 0; i < 2; ++i) {
    if (!g.wants(i)) continue;
    Tensor out = empty_like(a);
    run(MseBackwardArgs{view_of(out.impl()), view_of(g.grad().impl()), view_of(a.impl()),
                        view_of(b.impl()), i == 0 ? 2.0 : -2.0},
        Launch{g.node->info, mode.native_stream, nullptr, out.device()});
    g.put(i, std::move(out));
  }
}

}  // namespace

Loss cross_entropy(const In& logits, const In& labels, const CrossEntropyOptions& options) {
  OpScope s(info::cross_entropy, logits, labels, Types::any);
  const Geometry& x = s.geometry(0);
  const int axis = x.ndim == 1 ? 0 : 1;
  check_cross_entropy(s, axis);
  if (!(options.label_smoothing >= 0 && options.label_smoothing <= 1))
    s.fail<UsageError>(str("label_smoothing must be in [0, 1], got ", options.label_smoothing));
  const DType t = loss_dtype(x.dtype);
  const i64 stats_shape[2] = {2, s.geometry(1).numel};
  s.save_input(0);
  s.save_input(1);
  Tensor stats(new_contiguous(stats_shape, 2, t, s.device()));
  const View stats_view = view_of(stats.impl());
  s.save_extra(std::move(stats));
  Tensor weight(new_contiguous(nullptr, 0, t, s.device()));
  Result sum = s.result(nullptr, 0, t);
  s.record(cross_entropy_backward);
  s.set_attribute(CrossEntropyAttributes{options.ignore_index, options.label_smoothing, axis});
  static const u32 id = mailbox_op_id(info::cross_entropy);
  BadIndexReport bad(s, id);
  run(CrossEntropyForwardArgs{sum.view(), view_of(weight.impl()), stats_view, s.view(0), s.view(1),
                              axis, options.ignore_index, options.label_smoothing, bad.record(),
                              bad.op_id()},
      s.launch());
  bad.throw_if_raised(s, "label", "sample", 1);
  return Loss(s.finish(std::move(sum)), std::move(weight));
}

Loss mse_loss(const In& input, const In& target) {
  OpScope s(info::mse_loss, input, target, Types::promote);
  require_float(s, 0);
  const Geometry &a = s.geometry(0), &b = s.geometry(1);
  if (!same_shape(a, b))
    s.fail<ShapeError>(
        str("input and target must have one shape: ", Shape(a.shape, a.ndim), " and ",
            Shape(b.shape, b.ndim)),
        ".reshape() or .expand() on one of them: broadcasting here is mostly a mistake");
  const DType t = loss_dtype(a.dtype);
  s.save_input(0);
  s.save_input(1);
  Tensor weight(new_contiguous(nullptr, 0, t, s.device()));
  Result sum = s.result(nullptr, 0, t);
  s.record(mse_backward);
  run(MseForwardArgs{sum.view(), view_of(weight.impl()), s.view(0), s.view(1)}, s.launch());
  return Loss(s.finish(std::move(sum)), std::move(weight));
}

// --- Loss ----------------------------------------------------------------------------------------

Loss::Loss(Tensor sum_of_losses, Scalar its_weight)
    : sum(std::move(sum_of_losses)),
      weight(full({}, its_weight, {.dtype = sum.dtype(), .device = sum.device()})) {}

Tensor Loss::mean(Frame at) const {
  const FrameScope frame(at);
  return div(sum, weight);
}

double Loss::item(Frame at) const {
  const NoGrad no_grad;
  return mean(at).item(at);
}

void Loss::backward(BackwardOptions options, Frame at) const {
  const FrameScope frame(at);
  Tensor seed;
  {
    const NoGrad no_grad;
    seed = reciprocal(weight);
  }
  sum.backward(seed, options, at);
}

namespace detail {
Loss scaled(const Loss& loss, Scalar factor) {
  // Operators have no room for the caller's line: the scaling reports the loss's own.
  const Node* n = loss.sum.impl()->node;
  const FrameScope frame(n ? frame_of(n->frame) : Frame{});
  return Loss(mul(loss.sum, factor), loss.weight);
}
}  // namespace detail

namespace detail {
OpInfos loss_ops() {
  static constexpr const OpInfo* kOps[] = {&info::cross_entropy, &info::mse_loss};
  return kOps;
}
}  // namespace detail

}  // namespace wt
