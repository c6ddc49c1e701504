// What the fake's descriptors stand for, and what cuDNN would refuse of them.
#include "warptape/tests/support/fake_cudnn_graph.h"

namespace wt_test {

using namespace wt;

std::string fake_text(const std::vector<i64>& v) {
  std::string s = "[";
  for (size_t i = 0; i < v.size(); ++i) s += str(i ? "," : "", v[i]);
  return s + "]";
}

size_t FakeTensor::item() const {
  return type == kCudnnFloat || type == kCudnnInt32 ? 4 : type == kCudnnBoolean ? 1 : 2;
}
i64 FakeTensor::span() const {
  i64 last = 0;
  for (size_t d = 0; d < dims.size(); ++d) last += (dims[d] - 1) * strides[d];
  return last + 1;
}
i64 FakeTensor::offset(const std::vector<i64>& at) const {
  i64 o = 0;
  for (size_t d = 0; d < at.size(); ++d) o += (dims[d] == 1 ? 0 : at[d]) * strides[d];
  return o;
}
std::string FakeTensor::text() const {
  return str(fake_text(dims), "/", fake_text(strides), "/", alignment, is_virtual ? "v" : "");
}

std::vector<const FakeTensor*> FakeOperation::tensors() const {
  std::vector<const FakeTensor*> list{&x};
  if (has_w) list.push_back(&w);
  if (has_t) list.push_back(&t);
  list.push_back(&y);
  return list;
}
const FakeTensor& FakeOperation::output() const {
  return type == kCudnnConvBackwardData || type == kCudnnResampleBackward ? x
         : type == kCudnnConvBackwardFilter                               ? w
                                                                          : y;
}
std::string FakeOperation::name() const {
  switch (type) {
    case kCudnnConvForward:
      return "forward";
    case kCudnnConvBackwardData:
      return "data";
    case kCudnnConvBackwardFilter:
      return "filter";
    case kCudnnMatmulOperation:
      return "matmul";
    case kCudnnReductionOperation:
      return mode == kReductionAdd ? "sum" : "max";
    case kCudnnReshapeOperation:
      return "reshape";
    case kCudnnResampleForward:
      return "resample";
    case kCudnnResampleBackward:
      return "resample_back";
    default:
      return str("pointwise", mode);
  }
}

namespace {

int finish_tensor(FakeDescriptor& d, const FakeRefuse& refuse) {
  d.tensor = {d.one<i64>(kTensorId),
              d.one<int>(kTensorDataType),
              d.all<i64>(kTensorDimensions),
              d.all<i64>(kTensorStrides),
              d.one<i64>(kTensorAlignment),
              d.one<char>(kTensorIsVirtual) != 0,
              d.one<char>(kTensorIsByValue) != 0};
  const FakeTensor& t = d.tensor;
  if (t.dims.size() != t.strides.size()) return refuse(2000, "dimensions and strides");
  for (size_t i = 0; i < t.dims.size(); ++i)
    if (t.dims[i] <= 0 || t.strides[i] <= 0) return refuse(2000, "not positive");
  if (t.alignment % i64(t.item())) return refuse(2000, "alignment");
  if (t.by_value && (t.span() != 1 || t.is_virtual))
    return refuse(2000, "a number has one element");
  return 0;
}

int finish_windows(FakeDescriptor& d, const FakeRefuse& refuse) {
  const bool conv = d.type == kCudnnConvolution;
  FakeWindows& w = d.windows;
  size_t n = 0;
  if (conv) {
    w = {0,
         0,
         {},
         d.all<i64>(kConvStrides),
         d.all<i64>(kConvDilations),
         d.all<i64>(kConvPrePaddings),
         d.all<i64>(kConvPostPaddings)};
    n = size_t(d.one<i64>(kConvSpatialDims));
    w.window.assign(n, 1);
    if (d.one<int>(kConvMode) != kCrossCorrelation) return refuse(3000, "flips the kernel");
  } else {
    n = size_t(d.one<i64>(kResampleSpatialDims));
    w = {d.one<int>(kResampleMode),        d.one<int>(kResamplePaddingMode),
         d.all<i64>(kResampleWindow),      d.all<i64>(kResampleStrides),
         std::vector<i64>(n, 1),           d.all<i64>(kResamplePrePaddings),
         d.all<i64>(kResamplePostPaddings)};
    if (w.mode < kResampleAverage || w.mode > kResampleAverageInside)
      return refuse(3000, "pools only");
    if ((w.mode == kResampleMax) != (w.padding_mode == kPaddingNegativeInfinity))
      return refuse(3000, "pads otherwise than it pools");
  }
  for (const auto* v : {&w.window, &w.strides, &w.dilations, &w.before, &w.behind})
    if (v->size() != n) return refuse(2000, "a list is not as long as there are axes");
  return 0;
}

// Axes of the image x and of the result y under the operation's windows.
int check_sizes(const FakeOperation& op, const FakeRefuse& refuse) {
  const FakeWindows& w = op.windows;
  for (size_t i = 0; i < w.strides.size(); ++i) {
    const i64 left =
        op.x.dims[i + 2] + w.before[i] + w.behind[i] - ((w.window[i] - 1) * w.dilations[i] + 1);
    if (w.before[i] < 0 || w.behind[i] < 0 || left < 0 ||
        left / w.strides[i] + 1 != op.y.dims[i + 2])
      return refuse(2008, str("the output's axis ", i, " has another size"));
  }
  return 0;
}

int take(FakeDescriptor& d, FakeTensor& to, int attribute, const FakeRefuse& refuse) {
  if (d.other(attribute).type != kCudnnTensor) return refuse(2012, "no tensor");
  to = d.other(attribute).tensor;
  return 0;
}

int finish_conv(FakeDescriptor& d, int conv, int x, int w, int y, int alpha, int beta,
                const FakeRefuse& refuse) {
  FakeOperation& op = d.operation;
  if (d.other(conv).type != kCudnnConvolution) return refuse(2012, "no convolution");
  op.windows = d.other(conv).windows;
  op.has_w = true;
  for (const auto& [to, attribute] : {std::pair{&op.x, x}, {&op.w, w}, {&op.y, y}})
    if (const int status = take(d, *to, attribute, refuse)) return status;
  op.alpha = d.one<float>(alpha);
  op.beta = d.one<float>(beta);
  const size_t n = op.windows.strides.size();
  if (op.x.dims.size() != n + 2 || op.w.dims.size() != n + 2 || op.y.dims.size() != n + 2)
    return refuse(2000, "a tensor has other axes than the convolution");
  if (op.x.dims[0] != op.y.dims[0] || op.w.dims[0] != op.y.dims[1] || op.x.dims[1] % op.w.dims[1] ||
      op.w.dims[0] % (op.x.dims[1] / op.w.dims[1]))
    return refuse(2008, "channels do not agree");
  op.windows.window.assign(op.w.dims.begin() + 2, op.w.dims.end());
  return check_sizes(op, refuse);
}

int finish_resample(FakeDescriptor& d, int how, int x, int y, const FakeRefuse& refuse) {
  FakeOperation& op = d.operation;
  if (d.other(how).type != kCudnnResample) return refuse(2012, "no resampling");
  op.windows = d.other(how).windows;
  for (const auto& [to, attribute] : {std::pair{&op.x, x}, {&op.y, y}})
    if (const int status = take(d, *to, attribute, refuse)) return status;
  const size_t n = op.windows.strides.size();
  if (op.x.dims.size() != n + 2 || op.y.dims.size() != n + 2)
    return refuse(2000, "a tensor has other axes than the resampling");
  if (op.x.dims[0] != op.y.dims[0] || op.x.dims[1] != op.y.dims[1])
    return refuse(2008, "channels do not agree");
  // The gradient of a maximum needs an index, or x and y.
  if (d.type == kCudnnResampleBackward && op.windows.mode == kResampleMax)
    return refuse(2000, "which element was the largest?");
  return check_sizes(op, refuse);
}

bool broadcasts(const FakeTensor& from, const FakeTensor& to) {
  if (from.dims.size() != to.dims.size()) return false;
  for (size_t i = 0; i < to.dims.size(); ++i)
    if (from.dims[i] != 1 && from.dims[i] != to.dims[i]) return false;
  return true;
}

int finish_pointwise(FakeDescriptor& d, const FakeRefuse& refuse) {
  FakeOperation& op = d.operation;
  const FakeDescriptor& how = d.other(kPointwiseDescriptor);
  if (how.type != kCudnnPointwise) return refuse(2012, "no pointwise descriptor");
  op.mode = how.one<int>(kPointwiseMode);
  op.axis = how.set.count(kPointwiseAxis) ? how.one<i64>(kPointwiseAxis) : -1;
  op.has_w = d.set.count(kPointwiseB), op.has_t = d.set.count(kPointwiseT);
  for (const auto& [to, attribute] : {std::pair{&op.x, int(kPointwiseX)},
                                      {&op.w, int(kPointwiseB)},
                                      {&op.t, int(kPointwiseT)},
                                      {&op.y, int(kPointwiseY)}})
    if (d.set.count(attribute))
      if (const int status = take(d, *to, attribute, refuse)) return status;
  const bool unary =
      op.mode == kPointwiseExp || op.mode == kPointwiseLog || op.mode == kPointwiseGenIndex;
  if (op.has_w == unary || op.has_t != (op.mode == kPointwiseSelect))
    return refuse(2000, str("operands of pointwise mode ", op.mode));
  if ((op.axis >= 0) != (op.mode == kPointwiseGenIndex))
    return refuse(2000, "an index has an axis");
  const int result = op.mode == kPointwiseGenIndex       ? int(kCudnnInt32)
                     : op.mode == kPointwiseGreaterEqual ? int(kCudnnBoolean)
                                                         : -1;
  if (result >= 0 && (op.y.type != result || how.one<int>(kPointwiseMathPrecision) != result))
    return refuse(2000, str("the type of pointwise mode ", op.mode));
  if (op.has_t && op.t.type != kCudnnBoolean) return refuse(2000, "a condition is boolean");
  if (op.x.dims != op.y.dims) return refuse(2008, "x and y of a pointwise step differ");
  for (const FakeTensor* t : op.tensors())
    if (!broadcasts(*t, op.y)) return refuse(2008, "b does not broadcast");
  return 0;
}

int finish_reduction(FakeDescriptor& d, const FakeRefuse& refuse) {
  FakeOperation& op = d.operation;
  if (d.other(kReductionDescriptor).type != kCudnnReduction) return refuse(2012, "no reduction");
  op.mode = d.other(kReductionDescriptor).one<int>(kReductionOperator);
  if (const int status = take(d, op.x, kReductionX, refuse)) return status;
  if (const int status = take(d, op.y, kReductionY, refuse)) return status;
  if (op.x.dims.size() != op.y.dims.size()) return refuse(2008, "axes of a reduction");
  for (size_t i = 0; i < op.x.dims.size(); ++i)
    if (op.x.dims[i] % op.y.dims[i]) return refuse(2008, "sizes of a reduction");
  return 0;
}

int finish_matmul(FakeDescriptor& d, const FakeRefuse& refuse) {
  FakeOperation& op = d.operation;
  op.has_w = true;
  if (d.other(kMatmulDescriptor).type != kCudnnMatmul) return refuse(2012, "no product");
  for (const auto& [to, attribute] :
       {std::pair{&op.x, kMatmulA}, {&op.w, kMatmulB}, {&op.y, kMatmulC}})
    if (const int status = take(d, *to, attribute, refuse)) return status;
  const size_t n = op.y.dims.size();
  if (n < 3 || op.x.dims.size() != n || op.w.dims.size() != n)
    return refuse(2008, "axes of a product");
  if (op.x.dims[n - 2] != op.y.dims[n - 2] || op.w.dims[n - 1] != op.y.dims[n - 1] ||
      op.x.dims[n - 1] != op.w.dims[n - 2])
    return refuse(2008, "sizes of a product");
  for (size_t i = 0; i + 2 < n; ++i)
    if (op.y.dims[i] % op.x.dims[i] || op.y.dims[i] % op.w.dims[i])
      return refuse(2008, "batches of a product");
  return 0;
}

int finish_reshape(FakeDescriptor& d, const FakeRefuse& refuse) {
  FakeOperation& op = d.operation;
  if (const int status = take(d, op.x, kReshapeX, refuse)) return status;
  if (const int status = take(d, op.y, kReshapeY, refuse)) return status;
  return op.x.span() == op.y.span() && op.y.is_virtual ? 0 : refuse(2008, "a reshape's elements");
}

}  // namespace

bool fake_is_operation(int type) {
  switch (type) {
    case kCudnnTensor:
    case kCudnnConvolution:
    case kCudnnResample:
    case kCudnnPointwise:
    case kCudnnMatmul:
    case kCudnnReduction:
    case kCudnnConvForward:
    case kCudnnConvBackwardData:
    case kCudnnConvBackwardFilter:
    case kCudnnPointwiseOperation:
    case kCudnnMatmulOperation:
    case kCudnnReductionOperation:
    case kCudnnReshapeOperation:
    case kCudnnResampleForward:
    case kCudnnResampleBackward:
      return true;
  }
  return false;
}

int fake_finish_operation(FakeDescriptor& d, const FakeRefuse& refuse) {
  d.operation.type = d.type;
  switch (d.type) {
    case kCudnnTensor:
      return finish_tensor(d, refuse);
    case kCudnnConvolution:
    case kCudnnResample:
      return finish_windows(d, refuse);
    case kCudnnConvForward:
      return finish_conv(d, kForwardConv, kForwardX, kForwardW, kForwardY, kForwardAlpha,
                         kForwardBeta, refuse);
    case kCudnnConvBackwardData:
      return finish_conv(d, kDataConv, kDataDx, kDataW, kDataDy, kDataAlpha, kDataBeta, refuse);
    case kCudnnConvBackwardFilter:
      return finish_conv(d, kFilterConv, kFilterX, kFilterDw, kFilterDy, kFilterAlpha, kFilterBeta,
                         refuse);
    case kCudnnPointwiseOperation:
      return finish_pointwise(d, refuse);
    case kCudnnMatmulOperation:
      return finish_matmul(d, refuse);
    case kCudnnReductionOperation:
      return finish_reduction(d, refuse);
    case kCudnnReshapeOperation:
      return finish_reshape(d, refuse);
    case kCudnnResampleForward:
      return finish_resample(d, kResampleForwardDescriptor, kResampleForwardX, kResampleForwardY,
                             refuse);
    case kCudnnResampleBackward:
      return finish_resample(d, kResampleBackwardDescriptor, kResampleBackwardDx,
                             kResampleBackwardDy, refuse);
    default:
      return 0;
  }
}

int fake_finish_graph(FakeDescriptor& d, const FakeRefuse& refuse) {
  std::map<i64, FakeTensor> seen;
  std::map<i64, bool> written;
  for (void* p : d.all<void*>(kGraphOperations)) {
    const FakeOperation& op =
        d.graph.operations.emplace_back(static_cast<FakeDescriptor*>(p)->operation);
    for (const FakeTensor* t : op.tensors()) {
      const auto [at, is_new] = seen.emplace(t->id, *t);
      if (!is_new && !(at->second == *t))
        return refuse(2009, str("two tensors have the id ", t->id));
      if (t->is_virtual && t->id != op.output().id && !written[t->id])
        return refuse(2009, str("nothing writes the step ", t->id, " before it is read"));
    }
    if (written[op.output().id]) return refuse(2009, "a tensor is written twice");
    written[op.output().id] = true;
  }
  return 0;
}

}  // namespace wt_test
