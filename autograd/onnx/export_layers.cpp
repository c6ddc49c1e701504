// Convolution and pooling.
#include "warptape/autograd/onnx/export.h"
#include "warptape/core/error.h"
#include "warptape/kernels/pool.h"

namespace wt::onnx {
namespace {

// The spatial axes of an operand without a batch, [C, ..], are its last ones too; ONNX wants a
// batch.
struct Spatial {
  OpExport& e;
  int axes;
  bool alone;  // without a batch
  Spatial(OpExport& of, int n) : e(of), axes(n), alone(of.of(0).geometry().ndim == n + 1) {}

  std::string in(DType t) const {
    const std::string x = e.in(0, t);
    return alone ? e.w.node("Unsqueeze", {x, e.w.integers({0})}) : x;
  }
  std::string out(const std::string& y) const {
    return alone ? e.w.node("Squeeze", {y, e.w.integers({0})}) : y;
  }
  bool dynamic() const {
    bool any = false;
    for (int d = 1; d <= axes; ++d) any |= e.dynamic_in(0, e.of(0).geometry().ndim - d);
    return any;
  }
  // The last `axes` of three.
  std::vector<i64> of(const i64* three) const { return {three + 3 - axes, three + 3}; }
  // The same behind and before.
  std::vector<i64> both(const i64* three) const {
    std::vector<i64> v = of(three);
    const std::vector<i64> again = v;
    v.insert(v.end(), again.begin(), again.end());
    return v;
  }
};

// The names end in the number of axes and a d.
int axes_of(std::string_view kind) {
  const size_t d = kind.rfind('d', kind.find("_with") - 1);
  return kind[d - 1] - '0';
}

Attributes conv_attributes(const Spatial& at, const ConvShape& s) {
  return {attribute("dilations", at.of(s.dilation)), attribute("group", s.groups),
          attribute("kernel_shape", at.of(s.kernel)), attribute("pads", at.both(s.padding)),
          attribute("strides", at.of(s.stride))};
}

// Operands: x, weight, bias, if there is one, and of the fused form a residual.
void conv(OpExport& e) {
  const Spatial at(e, axes_of(e.kind()));
  const ConvForwardArgs& a = e.args<ConvForwardArgs>();
  const DType t = e.out().dtype();
  Texts inputs{at.in(t), e.in(1, t)};
  int next = 2;
  if (a.bias) inputs.push_back(e.in(next++, t));
  std::string y = at.out(e.w.node("Conv", inputs, conv_attributes(at, a.shape)));
  if (a.epilogue.residual) y = e.w.node("Add", {y, e.in(next++, t)});
  e.put(write_activation(e.w, a.epilogue.activation, y, t));
}

void conv_transpose(OpExport& e) {
  const Spatial at(e, axes_of(e.kind()));
  const ConvBackwardInputArgs& a = e.args<ConvBackwardInputArgs>();
  const ConvShape& s = a.shape;
  const DType t = e.out().dtype();
  std::vector<i64> extra;
  for (int d = 3 - at.axes; d < 3; ++d)
    extra.push_back(s.in[d] - ((s.out[d] - 1) * s.stride[d] - 2 * s.padding[d] +
                               s.dilation[d] * (s.kernel[d] - 1) + 1));
  Attributes how = conv_attributes(at, s);
  how.push_back(attribute("output_padding", extra));
  Texts inputs{at.in(t), e.in(1, t)};
  if (a.bias) inputs.push_back(e.in(2, t));
  e.put(at.out(e.w.node("ConvTranspose", inputs, how)));
}

// Where fixed sizes fit exactly the file need not say it: readers differ about windows that would
// begin behind the input.
bool rounds_up(const Spatial& at, const PoolShape& s) {
  bool more = at.dynamic();
  for (int d = 3 - at.axes; d < 3; ++d) {
    const i64 reach = s.dilation[d] * (s.kernel[d] - 1) + 1;
    more |= s.out[d] > (s.in[d] + 2 * s.padding[d] - reach) / s.stride[d] + 1;
  }
  return s.ceil_mode && more;
}
Attributes pool_attributes(const Spatial& at, const PoolShape& s) {
  Attributes how{attribute("kernel_shape", at.of(s.kernel)), attribute("pads", at.both(s.padding)),
                 attribute("strides", at.of(s.stride))};
  if (rounds_up(at, s)) how.push_back(attribute("ceil_mode", i64{1}));
  return how;
}

// Windows of one size each, as adaptive ones are where the sizes divide.
PoolShape even(OpExport& e, const Spatial& at, PoolShape s) {
  for (int d = 3 - at.axes; d < 3; ++d) {
    if (s.in[d] % s.out[d] != 0)
      e.refuse(str("adaptive pooling of ", s.in[d], " elements to ", s.out[d],
                   ", whose windows differ in size"));
    s.kernel[d] = s.stride[d] = s.in[d] / s.out[d];
  }
  return s;
}
bool to_one(const Spatial& at, const PoolShape& s) {
  bool one = true;
  for (int d = 3 - at.axes; d < 3; ++d) one &= s.out[d] == 1;
  return one;
}
// Windows as large as the tensor: of any size.
bool whole(OpExport& e, const Spatial& at, const PoolShape& s, const char* op) {
  const DType t = e.out().dtype();
  if (!s.adaptive) return false;
  if (to_one(at, s)) return e.put(at.out(e.w.node(op, {at.in(t)}))), true;
  e.same(!at.dynamic(), "the size of its windows");
  return false;
}

void max_pool(OpExport& e) {
  const Spatial at(e, axes_of(e.kind()));
  const MaxPoolForwardArgs& a = e.args<MaxPoolForwardArgs>();
  if (a.indices.data) e.refuse("with indices");
  if (whole(e, at, a.shape, "GlobalMaxPool")) return;
  const PoolShape s = a.shape.adaptive ? even(e, at, a.shape) : a.shape;
  Attributes how = pool_attributes(at, s);
  how.push_back(attribute("dilations", at.of(s.dilation)));
  e.put(at.out(e.w.node("MaxPool", {at.in(e.out().dtype())}, how)));
}

void avg_pool(OpExport& e) {
  const Spatial at(e, axes_of(e.kind()));
  const AvgPoolForwardArgs& a = e.args<AvgPoolForwardArgs>();
  const DType t = e.out().dtype();
  if (whole(e, at, a.shape, "GlobalAveragePool")) return;
  const PoolShape s = a.shape.adaptive ? even(e, at, a.shape) : a.shape;
  Attributes how = pool_attributes(at, s);
  if (rounds_up(at, s) && s.divisor != 0) e.refuse("a divisor beside ceil_mode");
  how.push_back(attribute("count_include_pad", i64(s.count_padding || s.divisor != 0)));
  std::string y = e.w.node("AveragePool", {at.in(t)}, how);
  if (s.divisor != 0) y = e.w.node("Mul", {y, e.w.number(t, double(s.taps()) / double(s.divisor))});
  e.put(at.out(y));
}

}  // namespace

void add_layer_exporters(Exporters& to) {
  for (const char* name :
       {"conv1d", "conv2d", "conv3d", "fused_conv1d", "fused_conv2d", "fused_conv3d"})
    to[name] = conv;
  for (const char* name : {"conv_transpose1d", "conv_transpose2d", "conv_transpose3d"})
    to[name] = conv_transpose;
  for (const char* name :
       {"max_pool1d", "max_pool2d", "max_pool3d", "adaptive_max_pool2d", "max_pool1d_with_indices",
        "max_pool2d_with_indices", "max_pool3d_with_indices"})
    to[name] = max_pool;
  for (const char* name : {"avg_pool1d", "avg_pool2d", "avg_pool3d", "adaptive_avg_pool1d",
                           "adaptive_avg_pool2d", "adaptive_avg_pool3d"})
    to[name] = avg_pool;
}

}  // namespace wt::onnx
