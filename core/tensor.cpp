#include "warptape/core/tensor.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "warptape/core/async_copy.h"
#include "warptape/core/mailbox.h"
#include "warptape/core/memory/copy_bytes.h"
#include "warptape/core/mode.h"
#include "warptape/core/slices.h"

namespace wt {
namespace detail {

void use_of_undefined(Frame at) {
  const bool known = mode.frame || is_users(at);
  throw UsageError(str("use of an undefined tensor (never assigned, or moved from)",
                       known ? "\n  at " + describe_place(at) : ""));
}

}  // namespace detail

i64 Tensor::size(i64 axis, Frame at) const {
  const Geometry& g = geometry(at);
  if (axis < -g.ndim || axis >= g.ndim)  // of a 0-d tensor, any
    throw ShapeError(str("[size] ",
                         g.ndim == 0 ? "a 0-d tensor has no axes" : bad_axis(axis, g.ndim),
                         "\n  at ", describe_place(at)));
  return g.shape[axis < 0 ? axis + g.ndim : axis];
}

void* Tensor::host_data(DType t, bool writing, Frame at) const {
  const TensorImpl* p = p_;
  if (!p) detail::use_of_undefined(at);
  if (dtype_of(p) != t)
    throw DtypeError(str("[data] this tensor holds ", dtype_name(dtype_of(p)), ", not ",
                         dtype_name(t), "\n  at ", describe_place(at),
                         "\n  Try .to(dtype) first, or to_vector<T>(), which converts"));
  const Device d = device_of(p);
  if (d.is_meta || d.kind != DeviceKind::cpu)
    throw PlacementError(
        str("[data] the elements are on ", to_string(d),
            d.is_meta                    ? ", which holds none"
            : d.kind == DeviceKind::simt ? ", whose memory stands for a GPU's: no host reads it"
                                         : ", where the host cannot read them",
            "\n  at ", describe_place(at), d.is_meta ? "" : "\n  Try .to(Device::cpu())"));
  if (p->storage->special()) [[unlikely]] {
    detail::refuse_slices("data", p, at);
    detail::wait_for_host_access(p);
  }
  if (writing) p->cell->wrote(mode.frame);
  return p->data;
}

double Tensor::item(Frame at) const { return item<double>(at); }

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

bool Tensor::is_contiguous(MemoryFormat format, Frame at) const {
  const Geometry& g = geometry(at);
  if (format == MemoryFormat::channels_last) return is_channels_last(g);
  return format == MemoryFormat::preserve || g.dense;
}

void Tensor::rebind(Storage* storage, i64 byte_offset, VersionCell* cell) const {
  TensorImpl* p = p_;
  checked({});
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
  refuse_slices("item", t.impl(), at);
  const Device d = t.device();
  if (d.is_meta)
    throw PlacementError(
        str("[item] a meta tensor has no values: ", describe(t), "\n  at ", wt::describe(at)));
  before_wait("item", d, at);
  const SyncGuard counted(OnSync::allow);  // what follows is the same wait
  const NoGrad no_grad;
  const FrameScope frame(at);
  const Tensor dense = t.to(as, at).contiguous(MemoryFormat::contiguous, at);
  // What is small is only queued: reading the mailbox, queued behind it, waits for both, and the
  // device is asked once. Page-locked memory for a large tensor would cost more than that.
  constexpr i64 kSmall = 64 * 1024;
  const bool small = dense.numel() * item_size(as) <= kSmall;
  const Tensor host = small ? copy_async(dense, Device::cpu(), at) : dense.to(Device::cpu(), at);
  check_mailbox(d);
  wait_for_host_access(host.impl());
  if (host.numel())
    std::memcpy(destination, host.impl()->data, size_t(host.numel() * item_size(as)));
}

namespace {

// The one value of `t` into `to`; whether it is the same there.
template <class From, class To>
bool read_exactly(const Tensor& t, To& to, Frame at) {
  From v;
  copy_out(t, dtype_of_type<From>(), &v, at);
  if constexpr (std::is_integral_v<From>) {
    to = To(v);  // rounds to the nearest; 2^63 and 2^64 are what no From is
    constexpr double kEnd = std::is_signed_v<From> ? 0x1p63 : 0x1p64;
    if constexpr (std::is_integral_v<To>)
      return std::in_range<To>(v);
    else
      return double(to) < kEnd && From(to) == v;
  } else {
    constexpr double kEnd = std::is_signed_v<To>
                                ? -double(std::numeric_limits<To>::min())
                                : 2.0 * double(std::numeric_limits<To>::max() / 2 + 1);
    const bool fits = v >= double(std::numeric_limits<To>::min()) && v < kEnd && std::trunc(v) == v;
    to = fits ? To(v) : To();
    return fits;
  }
}

template <class To>
bool read_item(const Tensor& t, To& to, Frame at) {
  if constexpr (std::is_integral_v<To>)
    if (is_floating(t.dtype())) return read_exactly<double>(t, to, at);
  return t.dtype() == DType::u64 ? read_exactly<u64>(t, to, at) : read_exactly<i64>(t, to, at);
}

bool read_item(const Tensor& t, DType as, void* to, Frame at) {
  switch (as) {
    case DType::f64:
      return read_item(t, *static_cast<double*>(to), at);
    case DType::f32:
      return read_item(t, *static_cast<float*>(to), at);
    case DType::i64:
      return read_item(t, *static_cast<i64*>(to), at);
    case DType::i32:
      return read_item(t, *static_cast<i32*>(to), at);
    case DType::i16:
      return read_item(t, *static_cast<i16*>(to), at);
    case DType::i8:
      return read_item(t, *static_cast<i8*>(to), at);
    case DType::u64:
      return read_item(t, *static_cast<u64*>(to), at);
    case DType::u32:
      return read_item(t, *static_cast<u32*>(to), at);
    case DType::u16:
      return read_item(t, *static_cast<u16*>(to), at);
    default:
      return read_item(t, *static_cast<u8*>(to), at);
  }
}

}  // namespace

void item_out(const Tensor& t, DType as, void* value, Frame at) {
  if (!t.defined()) use_of_undefined(at);
  if (t.numel() != 1)
    throw ShapeError(
        str("[item] needs a one-element tensor, got ", describe(t), "\n  at ", describe_place(at)));
  const DType from = t.dtype();
  if (as == from || as == DType::boolean || (is_floating(from) && is_floating(as)))
    return copy_out(t, as, value, at);
  if (read_item(t, as, value, at)) return;
  const std::string held = is_floating(from)    ? str(t.to_vector<double>(at)[0])
                           : from == DType::u64 ? std::to_string(t.to_vector<u64>(at)[0])
                                                : std::to_string(t.to_vector<i64>(at)[0]);
  throw DtypeError(str("[item] no ", dtype_name(as), " is equal to ", held, ", of ", describe(t),
                       "\n  at ", describe_place(at), "\n  Try item<",
                       is_floating(from)    ? "double"
                       : from == DType::u64 ? "u64"
                                            : "i64",
                       ">()"));
}

}  // namespace detail
}  // namespace wt
