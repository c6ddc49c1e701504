// Normalisation.
#include "warptape/autograd/ops/norm.h"

#include "warptape/autograd/op_list.h"
#include "warptape/autograd/op_saving.h"
#include "warptape/autograd/ops/internal/row_norm.h"
#include "warptape/autograd/save_policy.h"
#include "warptape/core/factories.h"
#include "warptape/kernels/layer_norm.h"
#include "warptape/kernels/rms_norm.h"

namespace wt {
namespace info {
constexpr OpInfo layer_norm{.name = "layer_norm", .autocast = Autocast::f32};
constexpr OpInfo rms_norm{.name = "rms_norm", .autocast = Autocast::f32};
}  // namespace info

namespace {

// Operands, and slots of the node.
enum : int { kX, kWeight, kBias };
enum : int { kSavedX, kSavedStats, kSavedWeight, kSavedBias };  // the last for `again` alone

// The call of x and so many parameters.
RowNorm norm_of(const OpScope& s, const Shape& normalized, double eps, bool centred) {
  return {normalized.ndim(), eps, centred, i8(s.size() > kWeight ? kWeight : -1),
          i8(s.size() > kBias ? kBias : -1)};
}

// --- forward ---

// Saves x, the weight where its value matters, and room for the statistics of every row. Returns
// that room; nothing when nothing is recorded.
View save_for_backward(OpScope& s, const RowsOf& x, const RowNorm& norm) {
  if (!s.recording()) return {};
  Tensor stats = new_row_stats(s, x.view());
  const View room = view_of(stats.impl());
  s.save_input(kX);
  s.save_extra(std::move(stats));
  const bool again = detail::keeps_recipes();
  s.save_input_if(norm.weight >= 0 && (again || s.wants(kX)), kWeight);
  if (again) s.save_input_if(norm.bias >= 0, kBias);
  return room;
}

void layer_norm_backward(Backward& g);
void rms_norm_backward(Backward& g);

Tensor row_norm(OpScope& s, const Shape& normalized, const RowNorm& norm) {
  check_row_norm(s, norm, normalized);
  const RowsOf x(s.impl(kX), norm.axes);
  std::optional<RowsOf> weight, bias;
  if (norm.weight >= 0) weight.emplace(s.impl(kWeight), norm.axes, true);
  if (norm.bias >= 0) bias.emplace(s.impl(kBias), norm.axes, true);
  const View stats = save_for_backward(s, x, norm);
  const View w = weight ? weight->view() : View{};
  Result y = s.result_like();
  const RowsOf out(y.impl(), norm.axes);
  s.record(norm.centred ? layer_norm_backward : rms_norm_backward);
  s.set_attribute(norm);
  if (norm.centred)
    run(LayerNormForwardArgs{out.view(), stats, x.view(), w, bias ? bias->view() : View{},
                             norm.eps},
        s.launch());
  else
    run(RmsNormForwardArgs{out.view(), stats, x.view(), w, norm.eps}, s.launch());
  return s.finish(std::move(y));
}
Tensor layer_norm_forward(OpScope& s, const Shape& normalized, double eps) {
  return row_norm(s, normalized, norm_of(s, normalized, eps, true));
}
Tensor rms_norm_forward(OpScope& s, const Shape& normalized, std::optional<double> eps) {
  return row_norm(s, normalized, norm_of(s, normalized, rms_eps(s, eps), false));
}

Tensor layer_norm_again(Node& n, const Tensor& x, const Tensor* saved) {
  const auto a = n.attribute<RowNorm>();
  const Shape last(x.impl()->geometry.shape + x.ndim() - a.axes, a.axes);
  if (saved[kSavedBias].defined())
    return layer_norm(x, last, saved[kSavedWeight], saved[kSavedBias], {.eps = a.eps});
  if (saved[kSavedWeight].defined())
    return layer_norm(x, last, saved[kSavedWeight], {.eps = a.eps});
  return layer_norm(x, last, {.eps = a.eps});
}
Tensor rms_norm_again(Node& n, const Tensor& x, const Tensor* saved) {
  const auto a = n.attribute<RowNorm>();
  const Shape last(x.impl()->geometry.shape + x.ndim() - a.axes, a.axes);
  if (saved[kSavedWeight].defined()) return rms_norm(x, last, saved[kSavedWeight], {.eps = a.eps});
  return rms_norm(x, last, {.eps = a.eps});
}

// --- backward ---

template <class Args>  // of the input's gradient
void row_norm_backward(Backward& g) {
  const auto a = g.attribute<RowNorm>();
  const Tensor& x = g.saved(kSavedX);
  if (g.recording()) {
    const Tensor weight = g.has_saved(kSavedWeight) ? g.saved(kSavedWeight) : Tensor();
    Tensor gx = recorded_row_norm(g, a, x, weight, g.wants(kX));
    if (gx.defined()) g.put(kX, std::move(gx));
    return;
  }
  const RowsOf gy(g.grad().impl(), a.axes), rows(x.impl(), a.axes);
  const View stats = view_of(g.saved(kSavedStats).impl());
  put_row_norm_parameters(g, a, gy.view(), rows.view(), stats);
  if (!g.wants(kX)) return;
  Tensor gx = empty(x.shape(), {.dtype = x.dtype(), .device = x.device()});
  const RowsOf out(gx.impl(), a.axes);
  std::optional<RowsOf> w;
  if (g.has_saved(kSavedWeight)) w.emplace(g.saved(kSavedWeight).impl(), a.axes, true);
  run(Args{out.view(), gy.view(), rows.view(), stats, w ? w->view() : View{}}, g.launch());
  g.put(kX, std::move(gx));
}
void layer_norm_backward(Backward& g) { row_norm_backward<LayerNormBackwardInputArgs>(g); }
void rms_norm_backward(Backward& g) { row_norm_backward<RmsNormBackwardInputArgs>(g); }

}  // namespace

Tensor layer_norm(const In& x, const Shape& normalized_shape, const LayerNormOptions& options) {
  OpScope s(info::layer_norm, x);
  return layer_norm_forward(s, normalized_shape, options.eps);
}
Tensor layer_norm(const In& x, const Shape& normalized_shape, const In& weight,
                  const LayerNormOptions& options) {
  OpScope s(info::layer_norm, x, weight);
  return layer_norm_forward(s, normalized_shape, options.eps);
}
Tensor layer_norm(const In& x, const Shape& normalized_shape, const In& weight, const In& bias,
                  const LayerNormOptions& options) {
  OpScope s(info::layer_norm, x, weight, bias);
  return layer_norm_forward(s, normalized_shape, options.eps);
}

Tensor rms_norm(const In& x, const Shape& normalized_shape, const RmsNormOptions& options) {
  OpScope s(info::rms_norm, x);
  return rms_norm_forward(s, normalized_shape, options.eps);
}
Tensor rms_norm(const In& x, const Shape& normalized_shape, const In& weight,
                const RmsNormOptions& options) {
  OpScope s(info::rms_norm, x, weight);
  return rms_norm_forward(s, normalized_shape, options.eps);
}

namespace detail {
OpSavings norm_savings() {
  static constexpr OpSaving kSavings[] = {
      {.op = &info::layer_norm, .again = layer_norm_again, .operand_slot = kSavedX},
      {.op = &info::rms_norm, .again = rms_norm_again, .operand_slot = kSavedX}};
  return kSavings;
}
OpInfos norm_ops() {
  static constexpr const OpInfo* kOps[] = {&info::layer_norm, &info::rms_norm};
  return kOps;
}
}  // namespace detail

}  // namespace wt
