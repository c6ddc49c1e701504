#include "warptape/core/tensor.h"

#include <cstring>

#include "warptape/core/copy_bytes.h"
#include "warptape/core/mailbox.h"
#include "warptape/core/mode.h"

namespace wt {
namespace detail {

void use_of_undefined(Frame at) {
  const bool known = mode.frame || at.file;
  throw UsageError(str("use of an undefined tensor (never assigned, or moved from)",
                       known ? "\n  at " + describe_place(at) : ""));
}

void wrong_data_type(const TensorImpl* p, const char* wanted) {
  throw DtypeError(str("[data] this tensor holds ", dtype_name(dtype_of(p)), ", not ", wanted,
                       "\n  Try .to(dtype) first, or to_vector<T>(), which converts"));
}

void not_host_memory(const TensorImpl* p) {
  throw PlacementError(str("[data] the elements are on ", to_string(device_of(p)),
                           ", where the host cannot read them\n  Try .to(Device::cpu())"));
}

}  // namespace detail

i64 Tensor::size(i64 axis) const {
  const Geometry& g = geometry();
  if (g.ndim == 0) throw ShapeError("[size] a 0-d tensor has no axes");
  return g.shape[normalize_axis("size", axis, g.ndim)];
}

void* Tensor::host_data(DType t, bool writing) const {
  const TensorImpl* p = checked();
  if (dtype_of(p) != t) detail::wrong_data_type(p, dtype_name(t));
  const Device d = device_of(p);
  if (d.is_meta || d.kind != DeviceKind::cpu) detail::not_host_memory(p);
  if (p->storage->special) [[unlikely]]
    detail::wait_for_host_access(p);
  if (writing) p->cell->wrote(mode.frame);
  return p->data;
}

double Tensor::item(Frame at) const {
  const TensorImpl* p = checked();
  if (p->geometry.numel != 1)
    throw ShapeError(str("[item] needs a one-element tensor, got ", describe(*this), "\n  at ",
                         wt::describe(at)));
  double v = 0;
  detail::copy_out(*this, DType::f64, &v, at);
  return v;
}

// NHWC in memory under an NCHW shape.
static bool is_channels_last(const Geometry& g) {
  if (g.ndim != 4) return false;
  i64 expected = 1;
  for (const int axis : {1, 3, 2, 0}) {
    if (g.shape[axis] != 1 && g.strides[axis] != expected) return false;
    expected *= g.shape[axis];
  }
  return true;
}

bool is_permuted_dense(const Geometry& g) {
  i64 expected = 1;
  int left = 0;
  for (int d = 0; d < g.ndim; ++d) left += g.shape[d] != 1;
  for (bool found = true; left > 0 && found;) {
    found = false;
    for (int d = 0; d < g.ndim && !found; ++d) {
      if (g.shape[d] == 1 || g.strides[d] != expected) continue;
      expected *= g.shape[d];
      --left;
      found = true;
    }
  }
  return left == 0;
}

TensorImpl* new_in_order(const TensorImpl* like, DType t) {
  const Geometry& from = like->geometry;
  TensorImpl* p = new_contiguous(from.shape, from.ndim, t, device_of(like));
  if (!is_permuted_dense(from)) return p;
  for (int d = 0; d < from.ndim; ++d) p->geometry.strides[d] = from.strides[d];
  finish_geometry(p->geometry);
  return p;
}

bool Tensor::is_contiguous(MemoryFormat format) const {
  const Geometry& g = geometry();
  if (format == MemoryFormat::channels_last) return is_channels_last(g);
  return format == MemoryFormat::preserve || g.dense;
}

void Tensor::rebind(Storage* storage, i64 byte_offset, VersionCell* cell) const {
  TensorImpl* p = p_;
  checked();
  if (p->cell->views.load(std::memory_order_relaxed) != 0 || (p->flags & kIsView))
    throw InplaceError(
        str("a tensor with live views cannot move into an arena; a view was made at ",
            describe_frame(p->cell->view_frame)));
  cell->version = p->cell->version;  // a pending backward still sees its mismatch
  retain(storage);
  release(p->storage);
  p->storage = storage;
  p->data = storage->data ? static_cast<char*>(storage->data) + byte_offset : nullptr;
  p->cell = cell;
  p->flags |= kArena;
}

std::string describe(const Tensor& t) {
  if (!t.defined()) return "undefined";
  return str(t.shape(), " ", dtype_name(t.dtype()), " ", to_string(t.device()));
}

namespace detail {

void copy_out(const Tensor& t, DType as, void* destination, Frame at) {
  if (!t.defined()) use_of_undefined();
  const Device d = t.device();
  if (d.is_meta)
    throw PlacementError(
        str("[item] a meta tensor has no values: ", describe(t), "\n  at ", wt::describe(at)));
  before_wait("item", d, at);
  const NoGrad no_grad;
  const FrameScope frame(at);
  const Tensor host = t.to(as, at).contiguous(MemoryFormat::contiguous, at).to(Device::cpu(), at);
  wait_for_host_access(host.impl());
  check_mailbox(d);
  if (host.numel())
    std::memcpy(destination, host.impl()->data, size_t(host.numel() * item_size(as)));
}

}  // namespace detail
}  // namespace wt
