#include "warptape/autograd/dlpack.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>

#include "warptape/core/at_line.h"
#include "warptape/core/factories.h"
#include "warptape/core/slices.h"
#include "warptape/core/stream.h"
#include "warptape/core/tensor_impl.h"

namespace wt {
namespace {

using dlpack::ManagedTensor;
using dlpack::ManagedTensorVersioned;
using dlpack::TensorView;

// As dlpack.h has them on machines with 64-bit pointers.
static_assert(sizeof(TensorView) == 48 && offsetof(TensorView, strides) == 32);
static_assert(sizeof(ManagedTensor) == 64 && offsetof(ManagedTensor, deleter) == 56);
static_assert(sizeof(ManagedTensorVersioned) == 80 &&
              offsetof(ManagedTensorVersioned, dl_tensor) == 32);

// By DType.
constexpr std::array<dlpack::DataType, kNumDTypes> kTypes = {{
    {dlpack::kFloat, 64, 1},
    {dlpack::kFloat, 32, 1},
    {dlpack::kFloat, 16, 1},
    {dlpack::kBfloat, 16, 1},
    {dlpack::kInt, 64, 1},
    {dlpack::kInt, 32, 1},
    {dlpack::kUInt, 8, 1},
    {dlpack::kBool, 8, 1},
    {dlpack::kInt, 8, 1},
    {dlpack::kInt, 16, 1},
    {dlpack::kUInt, 16, 1},
    {dlpack::kUInt, 32, 1},
    {dlpack::kUInt, 64, 1},
    {dlpack::kFloat8_e4m3fn, 8, 1},
    {dlpack::kFloat8_e5m2, 8, 1},
}};

// --- out ---

// All that a consumer holds. The pointer that it gets is to `managed`.
template <class M>
struct Export {
  M managed{};
  Tensor tensor{};  // shares the storage: the exported one may be given another
  std::array<i64, kMaxDims> shape{}, strides{};

  static void release(M* self) { delete static_cast<Export*>(self->manager_ctx); }
};

void check_exportable(const Tensor& t) {
  const TensorImpl* p = t.impl();
  const Device d = device_of(p);
  if (p->node)
    throw UsageError(str("[to_dlpack] gradients are wanted of the tensor, which others do not know",
                         at_line(), "\n  Try t.detach()"));
  if (detail::slices_of(p))
    throw UsageError(str("[to_dlpack] inside of vmap a tensor is one of many slices", at_line()));
  if (d.is_meta || d.kind == DeviceKind::simt)
    throw PlacementError(str("[to_dlpack] a tensor on ", d, " is for nobody else", at_line(),
                             d.is_meta ? "" : "\n  Try t.to(Device::cpu())"));
}

// The memory is what its last writer has left.
void wait_for_writers(const Tensor& t, Frame at) {
  if (t.device().kind == DeviceKind::cuda) {
    detail::before_wait("to_dlpack", t.device(), at);
    Stream::current(t.device()).synchronize();
  } else {
    detail::wait_for_host_access(t.impl());
  }
}

template <class M>
M* exported(const Tensor& t, bool copy, Frame at) {
  if (!t.defined()) detail::use_of_undefined(at);
  const FrameScope frame(at);
  check_exportable(t);
  auto e = std::make_unique<Export<M>>();
  e->tensor = copy ? t.clone() : Tensor(alias_of(t.impl()));
  wait_for_writers(e->tensor, at);
  const Geometry& g = e->tensor.impl()->geometry;
  std::copy_n(g.shape, g.ndim, e->shape.begin());
  std::copy_n(g.strides, g.ndim, e->strides.begin());
  const bool cuda = t.device().kind == DeviceKind::cuda;
  e->managed.dl_tensor = {
      .data = g.numel ? e->tensor.impl()->data : nullptr,
      .device = {cuda ? dlpack::cuda : dlpack::cpu, t.device().index},
      .ndim = g.ndim,
      .dtype = kTypes[size_t(g.dtype)],
      .shape = e->shape.data(),
      .strides = e->strides.data(),
      .byte_offset = 0,
  };
  e->managed.manager_ctx = e.get();
  e->managed.deleter = Export<M>::release;
  return &e.release()->managed;
}

// --- in ---

[[noreturn]] void refuse_type(dlpack::DataType t) {
  static constexpr std::array<const char*, 18> kNames = {
      "int",           "uint",          "float",        "opaque handle", "bfloat",
      "complex",       "bool",          "float8_e3m4",  "float8_e4m3",   "e4m3b11fnuz",
      "float8_e4m3fn", "e4m3fnuz",      "float8_e5m2",  "e5m2fnuz",      "e8m0fnu",
      "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn"};
  std::string what = t.code < kNames.size() ? kNames[t.code] : str("code ", int(t.code));
  what += str(" of ", int(t.bits), " bits");
  if (t.lanes != 1) what += str(" in vectors of ", t.lanes);
  throw DtypeError(str("[from_dlpack] there is no dtype for ", what, at_line()));
}

DType dtype_of(dlpack::DataType t) {
  for (int i = 0; i < kNumDTypes; ++i)
    if (const dlpack::DataType& k = kTypes[size_t(i)];
        k.code == t.code && k.bits == t.bits && t.lanes == 1)
      return DType(i);
  refuse_type(t);
}

Device device_of(dlpack::DeviceId d) {
  if (d.type == dlpack::cpu || d.type == dlpack::cuda_host) return Device::cpu();
  if (d.type != dlpack::cuda || d.id < 0 || d.id > 255)
    throw PlacementError(str("[from_dlpack] there is no device for DLPack's kind ", d.type,
                             ", number ", d.id, " (1 is cpu, 2 cuda)", at_line()));
  const Device device = Device::cuda(d.id);
  require_available(device);
  return device;
}

Shape shape_of(const TensorView& t) {
  if (t.ndim < 0 || t.ndim > kMaxDims)
    throw ShapeError(str("[from_dlpack] ", t.ndim, " dimensions, at most ", kMaxDims,
                         " are possible", at_line()));
  if (t.ndim > 0 && !t.shape)
    throw UsageError(str("[from_dlpack] a null pointer to the shape", at_line()));
  return Shape(std::span<const i64>(t.shape, size_t(t.ndim)));
}

// What from_blob() takes, with all that may be wrong looked at before the memory is anybody's.
struct Import {
  void* data;
  Shape shape, strides;
  TensorOptions options;
};
Import import_of(const TensorView& t) {
  Import in{.data = t.data,
            .shape = shape_of(t),
            .strides = {},
            .options = {.dtype = dtype_of(t.dtype), .device = device_of(t.device)}};
  if (t.ndim > 0 && t.strides) in.strides = Shape(std::span<const i64>(t.strides, size_t(t.ndim)));
  if (numel_of(in.shape) == 0)
    in.data = nullptr, in.strides = {};  // what they are is nobody's business
  else if (t.data)
    in.data = static_cast<char*>(t.data) + t.byte_offset;
  return in;
}

template <class M>
void release_managed(void* m) {
  M* const managed = static_cast<M*>(m);
  if (managed->deleter) managed->deleter(managed);
}

template <class M>
Tensor imported(M* m, bool read_only, Frame at) {
  const Import in = import_of(m->dl_tensor);
  if (!read_only)
    return from_blob(in.data, in.shape, release_managed<M>, m, in.options, in.strides, at);
  Tensor copy = from_blob(in.data, in.shape, borrow, in.options, in.strides, at).clone();
  if (in.options.device.kind == DeviceKind::cuda) Stream::current(in.options.device).synchronize();
  release_managed<M>(m);
  return copy;
}

}  // namespace

ManagedTensorVersioned* to_dlpack(const Tensor& t, const ToDlpackOptions& o, Frame at) {
  ManagedTensorVersioned* const m = exported<ManagedTensorVersioned>(t, o.copy, at);
  m->version = dlpack::kVersion;
  m->flags = (o.read_only ? dlpack::kReadOnly : 0) | (o.copy ? dlpack::kIsCopied : 0);
  return m;
}

ManagedTensor* to_dlpack_unversioned(const Tensor& t, Frame at) {
  return exported<ManagedTensor>(t, false, at);
}

Tensor from_dlpack(ManagedTensorVersioned* m, Frame at) {
  const FrameScope frame(at);
  if (!m) throw UsageError(str("[from_dlpack] a null pointer", at_line()));
  if (m->version.major != dlpack::kVersion.major)  // all else may lie elsewhere
    throw UsageError(str("[from_dlpack] DLPack ", m->version.major, ".", m->version.minor,
                         ", version ", dlpack::kVersion.major, " is known here", at_line()));
  return imported(m, m->flags & dlpack::kReadOnly, at);
}

Tensor from_dlpack(ManagedTensor* m, Frame at) {
  const FrameScope frame(at);
  if (!m) throw UsageError(str("[from_dlpack] a null pointer", at_line()));
  return imported(m, false, at);
}

}  // namespace wt
