// Normalisation and softmax.
#include <optional>

#include "warptape/autograd/onnx/export.h"
#include "warptape/core/factories.h"
#include "warptape/kernels/add_norm.h"
#include "warptape/kernels/channel_norm.h"
#include "warptape/kernels/layer_norm.h"
#include "warptape/kernels/pointwise.h"
#include "warptape/kernels/rms_norm.h"
#include "warptape/kernels/softmax.h"

namespace wt::onnx {
namespace {

void softmax(OpExport& e) {
  const SoftmaxForwardArgs& a = e.args<SoftmaxForwardArgs>();
  e.put(e.w.node(a.log ? "LogSoftmax" : "Softmax", {e.in(0, e.out().dtype())},
                 {attribute("axis", i64{a.axis})}));
}

// --- over the last axes ---

// The first axis that is normalised over, counted from the end: the kernel sees all of them as one.
int row_axis(OpExport& e, const TracedKernel::Seen& rows) {
  const Geometry& x = e.of(0).geometry();
  const int axis = rows.geometry.ndim - 1 - x.ndim;
  for (int d = x.ndim + axis; d < x.ndim; ++d)
    e.same(!e.dynamic_in(0, d), "what it normalises over");
  return axis;
}

std::string ones_of(OpExport& e, int axis, DType t) {
  const Shape all = e.of(0).shape();
  return e.w.constant(ones(Shape(all.end() + axis, -axis), {.dtype = t, .device = Device::cpu()}));
}

std::string write_layer_norm(OpExport& e, const std::string& x, int axis, double eps, int weight) {
  const DType t = e.out().dtype();
  Texts inputs{x, weight < e.operands() ? e.in(weight, t) : ones_of(e, axis, t)};
  if (weight + 1 < e.operands()) inputs.push_back(e.in(weight + 1, t));
  return e.w.node("LayerNormalization", inputs,
                  {attribute("axis", i64{axis}), attribute("epsilon", eps)});
}

std::string write_rms_norm(OpExport& e, const std::string& given, int axis, double eps,
                           int weight) {
  const DType t = e.out().dtype(), wide = is_half(t) ? DType::f32 : t;
  const std::string x = e.cast(given, t, wide);
  std::vector<i64> axes;
  for (int d = axis; d < 0; ++d) axes.push_back(d);
  const std::string mean = e.w.node("ReduceMean", {e.w.node("Mul", {x, x})},
                                    {attribute("axes", axes), attribute("keepdims", i64{1})});
  const std::string root = e.w.node("Sqrt", {e.w.node("Add", {mean, e.w.number(wide, eps)})});
  std::string y = e.w.node("Div", {x, root});
  if (weight < e.operands()) y = e.w.node("Mul", {y, e.cast(e.in(weight, t), t, wide)});
  return e.cast(y, wide, t);
}

void layer_norm(OpExport& e) {
  const LayerNormForwardArgs& a = e.args<LayerNormForwardArgs>();
  const int axis = row_axis(e, e.kernel<LayerNormForwardArgs>()->views[0]);
  e.put(write_layer_norm(e, e.in(0, e.out().dtype()), axis, a.eps, 1));
}
void rms_norm(OpExport& e) {
  const RmsNormForwardArgs& a = e.args<RmsNormForwardArgs>();
  const int axis = row_axis(e, e.kernel<RmsNormForwardArgs>()->views[0]);
  e.put(write_rms_norm(e, e.in(0, e.out().dtype()), axis, a.eps, 1));
}

// Results: the norm, the sum.
std::string write_sum(OpExport& e) {
  const DType t = e.out(0).dtype();
  const std::string sum = e.w.node("Add", {e.in(0, t), e.in(1, t)});
  e.put(sum, 1);
  return sum;
}
void add_layer_norm(OpExport& e) {
  const int axis = row_axis(e, e.kernel<AddLayerNormForwardArgs>()->views[0]);
  e.put(write_layer_norm(e, write_sum(e), axis, e.args<AddLayerNormForwardArgs>().eps, 2));
}
void add_rms_norm(OpExport& e) {
  const int axis = row_axis(e, e.kernel<AddRmsNormForwardArgs>()->views[0]);
  e.put(write_rms_norm(e, write_sum(e), axis, e.args<AddRmsNormForwardArgs>().eps, 2));
}

// --- by channels ---

// The value that `v` is a copy of: seen under another shape, or in another dtype.
int origin(const Trace& t, int v) {
  for (;;) {
    const TracedValue& value = t.values[size_t(v)];
    if (value.producer < 0) return v;
    const TracedOp& op = t.ops[size_t(value.producer)];
    const std::string_view name = op.info->name;
    if (name != "unsqueeze" && name != "view" && name != "to_dtype" && name != "contiguous")
      return v;
    v = op.operands[0];
  }
}
const TracedOp* made_by(const Trace& t, int v, std::string_view name) {
  if (v < 0 || t.values[size_t(v)].producer < 0) return nullptr;
  const TracedOp& op = t.ops[size_t(t.values[size_t(v)].producer)];
  return name == op.info->name ? &op : nullptr;
}

// The running statistics that a normalisation read: its kernel gets [mean, 0, 1 / sqrt(var + eps)],
// one above the other, which it has just made of them (ops/internal/running_statistics.h).
struct RunningOf {
  int mean, var;
  double eps;
};
std::optional<RunningOf> running_of(const Trace& t, const TracedKernel::Seen& stats) {
  const TracedOp* stack = made_by(t, t.value_at(stats.data, stats.geometry), "cat");
  if (!stack || stack->operands.size() != 3) return {};
  const TracedOp* root = made_by(t, origin(t, stack->operands[2]), "rsqrt");
  const TracedOp* sum = root ? made_by(t, origin(t, root->operands[0]), "add") : nullptr;
  if (!sum || sum->kernels.empty() || sum->kernels[0].contract != "add") return {};
  const auto& add = *reinterpret_cast<const PointwiseArgs<pw::Add>*>(sum->kernels[0].args.data());
  return RunningOf{origin(t, stack->operands[0]), origin(t, sum->operands[0]), add.scalar};
}

std::string filled(OpExport& e, i64 n, double v, DType t) {
  return e.w.constant(full({n}, v, {.dtype = t, .device = Device::cpu()}));
}

// Operands: x, weight, bias.
std::string with_running(OpExport& e) {
  const Trace& t = e.trace();
  const std::optional<RunningOf> running =
      running_of(t, e.kernel<ChannelNormForwardArgs>()->views[0]);
  if (!running) e.refuse("its running statistics cannot be told");
  const DType dtype = e.out().dtype();
  const i64 channels = e.of(0).geometry().shape[1];
  const auto statistic = [&](int v) {
    return e.cast(e.value_name(v), t.values[size_t(v)].dtype(), dtype);
  };
  return e.w.node(
      "BatchNormalization",
      {e.in(0, dtype), e.operands() > 1 ? e.in(1, dtype) : filled(e, channels, 1, dtype),
       e.operands() > 2 ? e.in(2, dtype) : filled(e, channels, 0, dtype), statistic(running->mean),
       statistic(running->var)},
      {attribute("epsilon", running->eps)});
}

// With statistics of each sample's groups, which are the channels of an instance normalisation.
std::string by_groups(OpExport& e, const ChannelStatsArgs& a) {
  const DType t = e.out().dtype();
  const Geometry& x = e.of(0).geometry();
  const bool channels = a.groups == x.shape[1];
  std::string y = e.in(0, t);
  const std::string whole = e.w.node("Shape", {y});
  if (!channels || x.ndim < 3) y = e.w.node("Reshape", {y, e.w.integers({0, a.groups, -1})});
  y = e.w.node("InstanceNormalization", {y, filled(e, a.groups, 1, t), filled(e, a.groups, 0, t)},
               {attribute("epsilon", a.eps)});
  if (!channels || x.ndim < 3) y = e.w.node("Reshape", {y, whole});
  std::vector<i64> axes;
  for (int d = 2; d < x.ndim; ++d) axes.push_back(d - 1);
  const auto parameter = [&](int i) {
    return axes.empty() ? e.in(i, t) : e.w.node("Unsqueeze", {e.in(i, t), e.w.integers(axes)});
  };
  if (e.operands() > 1) y = e.w.node("Mul", {y, parameter(1)});
  if (e.operands() > 2) y = e.w.node("Add", {y, parameter(2)});
  return y;
}

void channel_norm(OpExport& e) {
  std::string y;
  if (!e.kernel<ChannelStatsArgs>())
    y = with_running(e);
  else if (const ChannelStatsArgs& a = e.args<ChannelStatsArgs>(); a.groups > 0)
    y = by_groups(e, a);
  else
    e.refuse("with statistics of the batch: net.eval() takes the running ones");
  const Activation f = e.args<ChannelNormForwardArgs>().activation;
  e.put(write_activation(e.w, f, y, e.out().dtype()));
}

}  // namespace

void add_norm_exporters(Exporters& to) {
  to["softmax"] = to["log_softmax"] = softmax;
  to["layer_norm"] = layer_norm, to["rms_norm"] = rms_norm;
  to["add_layer_norm"] = add_layer_norm, to["add_rms_norm"] = add_rms_norm;
  for (const char* name : {"batch_norm", "group_norm", "instance_norm", "fused_batch_norm",
                           "fused_group_norm", "fused_instance_norm"})
    to[name] = channel_norm;
}

}  // namespace wt::onnx
