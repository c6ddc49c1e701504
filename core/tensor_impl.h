// The one object behind a Tensor: storage, geometry, and the node that made it. Behind tensor.h.
#pragma once
#include "warptape/core/geometry.h"
#include "warptape/core/shape.h"
#include "warptape/core/storage.h"

namespace wt {

struct Node;  // autograd/node.h: a recorded operator, or a leaf's gradient state

enum TensorFlags : u8 {
  kSavedOutput = 1,          // its producer's node keeps a raw pointer to it
  kIsView = 2,               // counted in cell->views
  kInference = 4,            // made under InferenceMode: may not be saved
  kArena = 8,                // a parameter or gradient inside an optimizer's arena
  kConstantDerivative = 16,  // made from a derivative that has no graph of its own (grads())
};

struct TensorImpl {
  RefCount refs;
  u8 flags;
  u8 home;           // as Storage::home
  u16 output_index;  // which output of `node` this is
  u32 key;           // dtype | device, for one-compare checks
  FrameId frame;     // where it was made
  Storage* storage;
  void* data;  // storage->data + offset; null on meta
  VersionCell* cell;
  Node* node;  // producer or leaf state; null: no gradient wanted
  union {
    TensorImpl* next;  // in a free list
    u64 spare;
  };
  Geometry geometry;
};

// Equal keys: same dtype and same device.
WT_HOT u32 tensor_key(DType t, Device d) { return u32(t) | d.bits() << 8; }
WT_HOT Device device_of_key(u32 key) { return Device::from_bits(key >> 8); }
WT_HOT Device device_of(const TensorImpl* p) { return device_of_key(p->key); }
WT_HOT DType dtype_of(const TensorImpl* p) { return p->geometry.dtype; }
WT_HOT View view_of(const TensorImpl* p) { return {p->data, &p->geometry}; }

namespace detail {
struct ThreadImpls {
  TensorImpl* free;
  u8 home;  // as ThreadMemory::home
  i64 live;
  i64 live_nodes;  // kept by autograd
};
extern constinit thread_local ThreadImpls thread_impls;
TensorImpl* impl_slow(Storage* held);
void destroy(TensorImpl* p);
// autograd/node.cpp: the nodes of this thread's free list; giving back those whose whole slab lies
// free, and at a thread's end the others to other threads.
i64 pooled_nodes();
void trim_nodes();
void end_nodes();
// autograd/node.cpp: gives up p's reference to its node; moves p into the node that saved it as
// its output (then p lives on and true is returned).
bool release_tensor_node(TensorImpl* p);
}  // namespace detail

WT_HOT void retain(TensorImpl* p) { p->refs.inc(); }
WT_HOT void release(TensorImpl* p) {
  if (p->refs.dec()) detail::destroy(p);
}
namespace detail {
// One more reference to p, for making a handle of it.
inline TensorImpl* retained(TensorImpl* p) {
  retain(p);
  return p;
}
}  // namespace detail

// An object with one reference and no storage yet. Releases `held` when there is no memory for it.
WT_HOT TensorImpl* new_impl(Storage* held = nullptr) {
  detail::ThreadImpls& t = detail::thread_impls;
  TensorImpl* p = t.free;
  if (p) [[likely]]
    t.free = p->next;
  else
    p = detail::impl_slow(held);
  ++t.live;
  p->refs.init();
  p->flags = 0;
  p->output_index = 0;
  p->frame = 0;
  p->node = nullptr;
  return p;
}

namespace detail {
// Throw ShapeError in the name of the operator that runs.
[[noreturn]] WT_COLD void bytes_overflow(i64 numel, DType t);
[[noreturn]] WT_COLD void elements_overflow(const i64* shape, int ndim);
WT_COLD void check_extent(const i64* shape, int ndim);
}  // namespace detail

// Throws ShapeError when numel * item size overflows.
WT_HOT i64 bytes_for(i64 numel, DType t) {
  i64 bytes;
  if (!mul_fits(numel, item_size(t), bytes)) [[unlikely]]
    detail::bytes_overflow(numel, t);
  return bytes;
}

WT_HOT void set_contiguous(Geometry& g, const i64* shape, int ndim, DType t) {
  g.ndim = u8(ndim);
  g.dtype = t;
  g.dense = true;
  i64 n = 1;
  for (int i = ndim; i-- > 0;) {
    g.shape[i] = shape[i];
    g.strides[i] = n;
    n = wrapped_mul(n, shape[i]);
  }
  g.numel = n;
}

// A fresh contiguous tensor. Throws ShapeError where the sizes do not fit 64 bits: the one place
// that all new tensors pass, whatever made their shape.
WT_HOT TensorImpl* new_contiguous(const i64* shape, int ndim, DType t, Device d) {
  i64 n = 1;
  for (int i = 0; i < ndim; ++i)
    if (!mul_fits(n, shape[i], n)) [[unlikely]]
      detail::elements_overflow(shape, ndim);
  if (n == 0) [[unlikely]]
    detail::check_extent(shape, ndim);
  Storage* s = allocate(d, bytes_for(n, t));  // may throw: nothing else is held yet
  TensorImpl* p = new_impl(s);
  set_contiguous(p->geometry, shape, ndim, t);
  p->key = tensor_key(t, d);
  p->storage = s;
  p->data = s->data;
  p->cell = &s->cell;
  return p;
}
WT_HOT TensorImpl* new_like(const TensorImpl* like) {
  const Geometry& from = like->geometry;
  if (!from.dense) [[unlikely]]
    return new_contiguous(from.shape, from.ndim, from.dtype, device_of(like));
  Storage* s = allocate(device_of(like), from.numel * item_size(from.dtype));  // may throw
  TensorImpl* p = new_impl(s);
  set_contiguous(p->geometry, from.shape, from.ndim, from.dtype);
  p->key = like->key;
  p->storage = s;
  p->data = s->data;
  p->cell = &s->cell;
  return p;
}

// Some order of its dimensions is C order (NHWC, a transposed matrix): it has no gaps.
bool is_permuted_dense(const Geometry& g);
// A fresh tensor of like's shape and of its order in memory, if that is one; C order otherwise.
TensorImpl* new_in_order(const TensorImpl* like, DType t);

// A second tensor over the same elements: same storage, cell and geometry, no node, not counted as
// a view.
inline TensorImpl* alias_of(const TensorImpl* p) {
  TensorImpl* a = new_impl();
  a->key = p->key;
  a->frame = p->frame;
  a->flags = p->flags & (kInference | kArena);
  a->storage = p->storage;
  retain(a->storage);
  a->data = p->data;
  a->cell = p->cell;
  const Geometry& g = p->geometry;
  a->geometry.numel = g.numel;
  a->geometry.ndim = g.ndim;
  a->geometry.dtype = g.dtype;
  a->geometry.dense = g.dense;
  for (int i = 0; i < g.ndim; ++i)
    a->geometry.shape[i] = g.shape[i], a->geometry.strides[i] = g.strides[i];
  return a;
}

}  // namespace wt
