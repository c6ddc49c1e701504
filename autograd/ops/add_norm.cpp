// Residual and normalisation. Results, in order: the norm, the sum.
#include "warptape/autograd/ops/add_norm.h"

#include "warptape/autograd/op_list.h"
#include "warptape/autograd/op_saving.h"
#include "warptape/autograd/ops/internal/fused.h"
#include "warptape/autograd/ops/internal/row_norm.h"
#include "warptape/autograd/ops/norm.h"
#include "warptape/autograd/save_policy.h"
#include "warptape/core/factories.h"
#include "warptape/kernels/add_norm.h"
#include "warptape/kernels/layer_norm.h"
#include "warptape/kernels/rms_norm.h"

namespace wt {
namespace info {
constexpr OpInfo add_layer_norm{.name = "add_layer_norm", .autocast = Autocast::f32};
constexpr OpInfo add_rms_norm{.name = "add_rms_norm", .autocast = Autocast::f32};
}  // namespace info

namespace {

// Operands, results, and slots of the node; the last one for `again` alone.
enum : int { kAddX, kAddResidual };
enum : int { kAddNorm, kAddSum };
enum : int { kAddSavedSum, kAddSavedStats, kAddSavedWeight, kAddSavedBias };

// --- forward ---

View save_sum(OpScope& s, const RowsOf& x, const RowNorm& norm) {
  if (!s.recording()) return {};
  Tensor stats = new_row_stats(s, x.view());
  const View room = view_of(stats.impl());
  s.save_output(kAddSum);
  s.save_extra(std::move(stats));
  const bool again = detail::keeps_recipes();
  s.save_input_if(norm.weight >= 0 && (again || s.wants(kAddX) || s.wants(kAddResidual)),
                  norm.weight);
  if (again) s.save_input_if(norm.bias >= 0, norm.bias);
  return room;
}

void add_layer_norm_backward(Backward& g);
void add_rms_norm_backward(Backward& g);

AddNormResult add_norm(OpScope& s, const Shape& normalized, const RowNorm& norm) {
  const Shape shape = shape_of(s.geometry(kAddX)), other = shape_of(s.geometry(kAddResidual));
  if (shape != other) s.fail<ShapeError>(str("residual ", other, " \u2260 x ", shape));
  check_row_norm(s, norm, normalized);
  const RowsOf x(s.impl(kAddX), norm.axes), residual(s.impl(kAddResidual), norm.axes);
  std::optional<RowsOf> weight, bias;
  if (norm.weight >= 0) weight.emplace(s.impl(norm.weight), norm.axes, true);
  if (norm.bias >= 0) bias.emplace(s.impl(norm.bias), norm.axes, true);
  const View stats = save_sum(s, x, norm);
  std::vector<Result> out;
  out.push_back(s.result(shape, s.dtype()));
  out.push_back(s.result_like());
  const RowsOf y(out[kAddNorm].impl(), norm.axes), sum(out[kAddSum].impl(), norm.axes);
  s.record(norm.centred ? add_layer_norm_backward : add_rms_norm_backward);
  s.set_attribute(norm);
  const View w = weight ? weight->view() : View{};
  if (norm.centred)
    run(AddLayerNormForwardArgs{y.view(), sum.view(), stats, x.view(), residual.view(), w,
                                bias ? bias->view() : View{}, norm.eps},
        s.launch());
  else
    run(AddRmsNormForwardArgs{y.view(), sum.view(), stats, x.view(), residual.view(), w, norm.eps},
        s.launch());
  std::vector<Tensor> made = s.finish(std::move(out));
  return {std::move(made[kAddNorm]), std::move(made[kAddSum])};
}

// The norm once more, of the sum that is saved.
Tensor add_layer_norm_again(Node& n, const Tensor& sum, const Tensor* saved) {
  const auto a = n.attribute<RowNorm>();
  const Shape last(sum.impl()->geometry.shape + sum.ndim() - a.axes, a.axes);
  const Tensor &weight = saved[kAddSavedWeight], &bias = saved[kAddSavedBias];
  const LayerNormOptions o{.eps = a.eps};
  if (bias.defined() && !weight.defined())
    return layer_norm(sum, last, ones(last, {.dtype = sum.dtype(), .device = sum.device()}), bias,
                      o);
  if (bias.defined()) return layer_norm(sum, last, weight, bias, o);
  return weight.defined() ? layer_norm(sum, last, weight, o) : layer_norm(sum, last, o);
}
Tensor add_rms_norm_again(Node& n, const Tensor& sum, const Tensor* saved) {
  const auto a = n.attribute<RowNorm>();
  const Shape last(sum.impl()->geometry.shape + sum.ndim() - a.axes, a.axes);
  if (saved[kAddSavedWeight].defined())
    return rms_norm(sum, last, saved[kAddSavedWeight], {.eps = a.eps});
  return rms_norm(sum, last, {.eps = a.eps});
}

// --- backward ---

// Of the sum, from both results: one tensor for x and for the residual.
void put_both(Backward& g, Tensor gsum) {
  if (g.wants(kAddX)) g.put(kAddX, gsum);
  if (g.wants(kAddResidual)) g.put(kAddResidual, std::move(gsum));
}

template <class Plain, class Added>  // contracts: without and with the sum's own gradient
void add_norm_backward(Backward& g) {
  const bool wants = g.wants(kAddX) || g.wants(kAddResidual);
  if (!g.has_grad(kAddNorm)) {
    if (wants) put_both(g, g.take_grad(kAddSum));
    return;
  }
  const auto a = g.attribute<RowNorm>();
  const Tensor& sum = g.saved(kAddSavedSum);
  if (g.recording()) {
    const Tensor weight = g.has_saved(kAddSavedWeight) ? g.saved(kAddSavedWeight) : Tensor();
    Tensor gx = recorded_row_norm(g, a, sum, weight, wants);
    if (wants) put_both(g, g.has_grad(kAddSum) ? add(gx, g.grad(kAddSum)) : std::move(gx));
    return;
  }
  const RowsOf gy(g.grad(kAddNorm).impl(), a.axes), x(sum.impl(), a.axes);
  const View stats = view_of(g.saved(kAddSavedStats).impl());
  put_row_norm_parameters(g, a, gy.view(), x.view(), stats);
  if (!wants) return;
  Tensor gx = empty(sum.shape(), {.dtype = sum.dtype(), .device = sum.device()});
  const RowsOf out(gx.impl(), a.axes);
  std::optional<RowsOf> weight;
  if (g.has_saved(kAddSavedWeight)) weight.emplace(g.saved(kAddSavedWeight).impl(), a.axes, true);
  const View w = weight ? weight->view() : View{};
  if (g.has_grad(kAddSum)) {
    const RowsOf gsum(g.grad(kAddSum).impl(), a.axes);
    run(Added{out.view(), gy.view(), gsum.view(), x.view(), stats, w}, g.launch());
  } else {
    run(Plain{out.view(), gy.view(), x.view(), stats, w}, g.launch());
  }
  put_both(g, std::move(gx));
}
void add_layer_norm_backward(Backward& g) {
  add_norm_backward<LayerNormBackwardInputArgs, AddLayerNormBackwardInputArgs>(g);
}
void add_rms_norm_backward(Backward& g) {
  add_norm_backward<RmsNormBackwardInputArgs, AddRmsNormBackwardInputArgs>(g);
}

}  // namespace

AddNormResult add_layer_norm(const In& x, const In& residual, const Shape& normalized_shape,
                             const AddLayerNormOptions& o) {
  const OptionalOperands in({&x, &residual}, {&o.weight, &o.bias});
  OpScope s(info::add_layer_norm, in.list, in.size);
  return add_norm(s, normalized_shape,
                  {normalized_shape.ndim(), o.eps, true, in.place[0], in.place[1]});
}

AddNormResult add_rms_norm(const In& x, const In& residual, const Shape& normalized_shape,
                           const AddRmsNormOptions& o) {
  const OptionalOperands in({&x, &residual}, {&o.weight});
  OpScope s(info::add_rms_norm, in.list, in.size);
  return add_norm(s, normalized_shape,
                  {normalized_shape.ndim(), rms_eps(s, o.eps), false, in.place[0]});
}

namespace detail {
OpSavings add_norm_savings() {
  static constexpr OpSaving kSavings[] = {
      {.op = &info::add_layer_norm, .again = add_layer_norm_again, .operand_slot = kAddSavedSum},
      {.op = &info::add_rms_norm, .again = add_rms_norm_again, .operand_slot = kAddSavedSum}};
  return kSavings;
}
OpInfos add_norm_ops() {
  static constexpr const OpInfo* kOps[] = {&info::add_layer_norm, &info::add_rms_norm};
  return kOps;
}
}  // namespace detail

}  // namespace wt
