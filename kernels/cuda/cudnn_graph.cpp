#include "warptape/kernels/cuda/cudnn_graph.h"

#include <algorithm>

namespace wt {

CudnnTensor CudnnTensor::packed(i64 id, int type, std::initializer_list<i64> dims) {
  CudnnTensor t;
  t.id = id, t.type = type, t.ndim = int(dims.size());
  std::copy(dims.begin(), dims.end(), t.dims);
  i64 next = 1;
  for (int d = t.ndim - 1; d >= 0; --d) t.strides[d] = next, next *= t.dims[d];
  return t;
}

CudnnTensor CudnnTensor::number(i64 id, int ndim) {
  CudnnTensor t;
  t.id = id, t.ndim = ndim, t.by_value = true;
  t.alignment = 4;
  for (int d = 0; d < ndim; ++d) t.dims[d] = t.strides[d] = 1;
  return t;
}

CudnnTensor CudnnTensor::step(int its_type) const {
  CudnnTensor t = *this;
  t.id = 0, t.type = its_type, t.alignment = 16;
  return t;
}

int cudnn_type(DType t) {
  return t == DType::f16 ? kCudnnHalf : t == DType::bf16 ? kCudnnBfloat16 : kCudnnFloat;
}

i64 cudnn_alignment(const void* p) {
  return i64{1} << __builtin_ctzll(reinterpret_cast<u64>(p) | 16);
}

int cudnn_first_axis(i64 in, i64 out, i64 kernel, i64 padding) {
  return in == 1 && out == 1 && kernel == 1 && padding == 0 ? 1 : 0;
}

CudnnTensor cudnn_image(i64 id, DType type, const ConvTensor& t, i64 first, i64 second,
                        const i64* sizes, int from, bool channels_last) {
  const int spatial = 3 - from;
  CudnnTensor to;
  to.id = id;
  to.type = cudnn_type(type);
  to.ndim = spatial + 2;
  to.alignment = cudnn_alignment(t.data);
  to.dims[0] = first, to.dims[1] = second;
  to.strides[0] = t.batch, to.strides[1] = t.channel;
  for (int d = 0; d < spatial; ++d)
    to.dims[d + 2] = sizes[from + d], to.strides[d + 2] = t.at[from + d];
  i64 next = 1;  // from the innermost axis outwards
  const auto see = [&](int axis) {
    if (to.dims[axis] == 1) to.strides[axis] = next;
    next = std::max(next, to.strides[axis] * to.dims[axis]);
  };
  if (channels_last) see(1);
  for (int d = spatial + 1; d >= 2; --d) see(d);
  if (!channels_last) see(1);
  see(0);
  return to;
}

const char* cudnn_why_not(const CudnnTensor& t) {
  for (int d = 0; d < t.ndim; ++d) {
    if (t.strides[d] <= 0) return "takes no operand that repeats or goes backwards";
    if (t.dims[d] > INT32_MAX) return "takes sizes below 2^31 only";
  }
  return nullptr;
}

i64 CudnnWindow::padding_behind() const {
  const i64 alike = in + 2 * padding - reach();
  if (alike >= 0 && alike / stride + 1 == out) return padding;
  return std::max(i64{0}, (out - 1) * stride + reach() - in - padding);
}

bool CudnnWindow::agrees() const {
  const i64 left = in + padding + padding_behind() - reach();
  return left >= 0 && left / stride + 1 == out;
}

CudnnGraph::Ref CudnnGraph::keep(CudnnDescriptor d) {
  std::vector<CudnnDescriptor> one;
  one.push_back(std::move(d));
  return kept_.emplace_back(std::move(one)).front();
}

CudnnGraph::Ref CudnnGraph::tensor(const CudnnTensor& t) {
  CudnnDescriptor d(api_, kCudnnTensor);
  d.set(kTensorDataType, kTypeDataType, t.type);
  d.set(kTensorDimensions, kTypeInt64, t.ndim, t.dims);
  d.set(kTensorStrides, kTypeInt64, t.ndim, t.strides);
  d.set(kTensorId, t.id ? t.id : next_step_++);
  d.set(kTensorAlignment, t.alignment);
  const bool yes = true;
  if (t.id == 0) d.set(kTensorIsVirtual, kTypeBoolean, 1, &yes);
  if (t.by_value) d.set(kTensorIsByValue, kTypeBoolean, 1, &yes);
  d.finalize();
  return keep(std::move(d));
}

CudnnGraph::Ref CudnnGraph::pointwise(CudnnPointwiseMode mode, const CudnnTensor& y, int compute,
                                      int axis, Ref x, const CudnnDescriptor* b,
                                      const CudnnDescriptor* t) {
  CudnnDescriptor how(api_, kCudnnPointwise);
  how.set(kPointwiseMode, kTypePointwiseMode, mode);
  how.set(kPointwiseMathPrecision, kTypeDataType, compute);
  if (axis >= 0) how.set(kPointwiseAxis, i64{axis});
  how.finalize();
  Ref result = tensor(y);
  CudnnDescriptor op(api_, kCudnnPointwiseOperation);
  op.set(kPointwiseDescriptor, keep(std::move(how)));
  op.set(kPointwiseX, x);
  if (b) op.set(kPointwiseB, *b);
  if (t) op.set(kPointwiseT, *t);
  op.set(kPointwiseY, result);
  operation(std::move(op));
  return result;
}

CudnnGraph::Ref CudnnGraph::pointwise(CudnnPointwiseMode mode, const CudnnTensor& y, Ref x) {
  return pointwise(mode, y, kCudnnFloat, -1, x, nullptr, nullptr);
}
CudnnGraph::Ref CudnnGraph::pointwise(CudnnPointwiseMode mode, const CudnnTensor& y, Ref x, Ref b) {
  return pointwise(mode, y, mode == kPointwiseGreaterEqual ? kCudnnBoolean : kCudnnFloat, -1, x, &b,
                   nullptr);
}
CudnnGraph::Ref CudnnGraph::index(int axis, const CudnnTensor& y, Ref x) {
  return pointwise(kPointwiseGenIndex, y, kCudnnInt32, axis, x, nullptr, nullptr);
}
CudnnGraph::Ref CudnnGraph::select(const CudnnTensor& y, Ref condition, Ref yes, Ref no) {
  return pointwise(kPointwiseSelect, y, kCudnnFloat, -1, yes, &no, &condition);
}

CudnnGraph::Ref CudnnGraph::reduction(CudnnReductionMode mode, const CudnnTensor& y, Ref x) {
  CudnnDescriptor how(api_, kCudnnReduction);
  how.set(kReductionOperator, kTypeReduction, mode);
  how.set(kReductionComputeType, kTypeDataType, kCudnnFloat);
  how.finalize();
  Ref result = tensor(y);
  CudnnDescriptor op(api_, kCudnnReductionOperation);
  op.set(kReductionDescriptor, keep(std::move(how)));
  op.set(kReductionX, x);
  op.set(kReductionY, result);
  operation(std::move(op));
  return result;
}

CudnnGraph::Ref CudnnGraph::matmul(const CudnnTensor& y, Ref a, Ref b) {
  CudnnDescriptor how(api_, kCudnnMatmul);
  how.set(kMatmulComputeType, kTypeDataType, kCudnnFloat);
  how.finalize();
  Ref result = tensor(y);
  CudnnDescriptor op(api_, kCudnnMatmulOperation);
  op.set(kMatmulDescriptor, keep(std::move(how)));
  op.set(kMatmulA, a);
  op.set(kMatmulB, b);
  op.set(kMatmulC, result);
  operation(std::move(op));
  return result;
}

CudnnGraph::Ref CudnnGraph::reshape(const CudnnTensor& y, Ref x) {
  Ref result = tensor(y);
  CudnnDescriptor op(api_, kCudnnReshapeOperation);
  op.set(kReshapeX, x);
  op.set(kReshapeY, result);
  operation(std::move(op));
  return result;
}

void CudnnGraph::operation(CudnnDescriptor d) {
  d.finalize();
  operations_.push_back(std::move(d));
}

CudnnDescriptor CudnnGraph::build(void* handle) const {
  std::vector<void*> raw;
  for (const CudnnDescriptor& d : operations_) raw.push_back(d.get());
  CudnnDescriptor graph(api_, kCudnnOperationGraph);
  graph.set(kGraphOperations, kTypeDescriptor, i64(raw.size()), raw.data());
  graph.set(kGraphHandle, kTypeHandle, 1, &handle);
  graph.finalize();
  return graph;
}

}  // namespace wt
