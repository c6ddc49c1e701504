// What a backward function sees of the walk: saved tensors, the destination of a gradient, and the
// checks of what it hands over.
#include "warptape/autograd/backward.h"

#include "warptape/autograd/engine.h"
#include "warptape/autograd/ops/internal/view_geometry.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/slices.h"
#include "warptape/kernels/contract.h"

namespace wt {

WT_COLD void throw_freed(const Node* n) {
  throw UsageError(str("[backward] ", describe(n),
                       ": this part of the graph was freed by an earlier backward\n  Try "
                       "retain_graph on the first one"));
}

namespace {

std::string what(u32 key, const i64* shape, int ndim) {
  return str(Shape(shape, ndim), " ", dtype_name(DType(key & 0xff)), " ",
             to_string(device_of_key(key)));
}

WT_COLD void throw_bad_gradient(const Node* n, u32 i, const OutputInfo& want, const Tensor& got) {
  throw ShapeError(str("[", n->info->name, ".backward] gradient of input ", i,
                       " does not fit\n  expected ", what(want.key, want.shape, want.ndim),
                       "\n  got ", got.defined() ? describe(got) : "an undefined tensor", "\n  at ",
                       describe_frame(n->frame)));
}

WT_COLD void check_finite(const Node* n, u32 i, const Tensor& t) {
  const NoGrad no_grad;
  for (double v : detail::EverySlice(t).values().to_vector<double>())
    if (!(v - v == 0))
      throw NumericError(str("[", n->info->name, ".backward] gradient of input ", i, " holds ",
                             v != v ? "NaN" : "inf", "\n  recorded by ", describe(n)));
}

}  // namespace

bool Backward::is_needed(u32 i) const {
  const Node* t = node->edges[i].node;
  return t->is_leaf() ? static_cast<const Leaf*>(t)->capture != ~0u : engine.tasks_[t->task].needed;
}

// The lines of an error about a saved tensor that was written.
static std::string overwritten(FrameId written, const Node* node) {
  return (written ? "\n  written at " + describe_frame(written) : std::string()) +
         "\n  needed by " + describe(node) + "\n  Try a clone() of it, or writing after backward()";
}

const Tensor& Backward::saved(u32 i) {
  SavedSlot& s = node->slots[i];
  if (s.kind >= SlotKind::forgotten) [[unlikely]]
    return saved_slow(i);
  if (!s.tensor || (node->flags & kFreedNode)) throw_freed(node);
  if (s.tensor->cell->version != s.version)
    throw InplaceError(str("[", node->info->name, ".backward] saved tensor ", i,
                           " was modified in place: it is at version ", s.tensor->cell->version,
                           ", version ", s.version, " is needed",
                           overwritten(s.tensor->cell->write_frame, node)));
  if (mode.grad && !s.tensor->node && s.edge != kNoEdge) [[unlikely]] {
    if (s.edge == kSelf) {  // its node is this one: an own handle for the length of the backward
      TensorImpl* a = alias_of(s.tensor);
      a->node = node;
      a->output_index = s.output;
      retain(node);
      const int at = n_bound++ & ~kUnpacked;
      WT_INTERNAL_ASSERT(at < kInlineSlots);
      bound[at] = a;
      return reinterpret_cast<const Tensor&>(bound[at]);
    }
    const Edge& e = node->edges[s.edge];
    if (e.node) {
      retain(e.node);
      s.tensor->node = e.node;
      s.tensor->output_index = u16(e.output);
    }
  }
  return reinterpret_cast<const Tensor&>(s.tensor);
}

// What a policy packed, or an error.
const Tensor& Backward::saved_slow(u32 i) {
  SavedSlot& s = node->slots[i];
  if (s.kind == SlotKind::forgotten)
    throw InplaceError(str("[", node->info->name, ".backward] its output was overwritten in place",
                           overwritten(s.version, node)));
  if (!s.packed || (node->flags & kFreedNode)) throw_freed(node);
  if (!s.packed->value) {
    const NoGrad no_grad;
    s.packed->value = s.packed->unpack(*this).release_impl();
    n_bound |= kUnpacked;
  }
  TensorImpl* p = s.packed->value;
  if (mode.grad && !p->node && s.edge != kNoEdge) {
    const Edge e = s.edge == kSelf ? Edge{node, s.output} : node->edges[s.edge];
    if (e.node) {
      retain(e.node);
      p->node = e.node;
      p->output_index = u16(e.output);
    }
  }
  return reinterpret_cast<const Tensor&>(s.packed->value);
}

const SignBits* Backward::sign_bits_slow(u32 i) const {
  const SavedSlot& s = node->slots[i];
  if (!s.packed || (node->flags & kFreedNode)) throw_freed(node);
  return s.packed->sign_bits();
}

void Backward::unbind() {
  if (n_bound & kUnpacked)
    for (u32 i = 0; i < node->n_slots; ++i) {
      SavedSlot& s = node->slots[i];
      if (s.kind != SlotKind::packed || !s.packed->value) continue;
      release(s.packed->value);
      s.packed->value = nullptr;
    }
  for (int i = 0; i < (n_bound & ~kUnpacked); ++i) release(bound[i]);
}

bool Backward::may_overwrite_saved(u32 i) const {
  const SavedSlot& s = node->slots[i];
  return !mode.grad && !engine.retain_ && s.tensor && s.kind == SlotKind::owned &&
         s.tensor->refs.sole() && s.tensor->storage->refs.sole() && !s.tensor->storage->borrowed &&
         !(s.tensor->flags & kSavedOutput);  // the node that made it reads it next, uncounted
}

Shape Backward::input_shape(u32 i) const {
  const Edge& e = node->edges[i];
  WT_INTERNAL_ASSERT(e.node);
  const OutputInfo& o = e.node->output_info(e.output);
  return Shape(o.shape, o.ndim);
}

GradSlot Backward::converted_slot(u32 i) {
  const Edge& e = node->edges[i];
  if (!e.node) return {};
  const u32 key = e.node->output_info(e.output).key;
  if (!(device_of_key(key) == device_of_key(node->output.key))) return {};
  return slot_of(i, key);
}

static void make_gradient(Leaf* l) {
  if (l->provide) return l->provide(l, l->ready_context);
  const CategoryScope scope(Category::gradient);
  l->grad = new_contiguous(l->output.shape, l->output.ndim, DType(l->output.key & 0xff),
                           device_of_key(l->output.key));
  l->written = false;
}

GradSlot Backward::slot_of(u32 i, u32 key) {
  Node* d = node->edges[i].node;
  if (!d || !d->is_leaf() || engine.indirect_) return {};
  auto* l = static_cast<Leaf*>(d);
  // Another dtype or device: the leaf was moved since (Module::to). put() refuses what is returned.
  if (!l->hooks.empty() || mode.anomaly || l->output.key != key) return {};
  if (!l->grad) make_gradient(l);
  const GradSlot s{l->grad, l->written};
  l->written = true;
  ++l->grad->cell->version;
  return s;
}

GradDestination Backward::fresh_destination(u32 i) const {
  const Edge& e = node->edges[i];
  const OutputInfo& want = e.node->output_info(e.output);
  const u32 key = node->output.key;  // a leaf that was moved has another; put() refuses this one
  return GradDestination(
      Tensor(new_contiguous(want.shape, want.ndim, DType(key & 0xff), device_of_key(key))));
}

Launch Backward::launch() const {
  return Launch{node->info, mode.native_stream, nullptr, device_of_key(node->output.key)};
}

namespace {
WT_HOT bool fits(const TensorImpl* p, const OutputInfo& want) {
  if (p->geometry.ndim != want.ndim) return false;
  for (int k = 0; k < want.ndim; ++k)
    if (p->geometry.shape[k] != want.shape[k]) return false;
  return true;
}
}  // namespace

void Backward::put(u32 i, Tensor t) {
  const Edge& e = node->edges[i];
  if (!e.node) return;
  const OutputInfo& want = e.node->output_info(e.output);
  if (!t.impl() || t.impl()->key != want.key || !fits(t.impl(), want)) [[unlikely]]
    throw_bad_gradient(node, i, want, t);
  if (mode.anomaly) [[unlikely]]
    check_finite(node, i, t);
  engine.deliver(e, std::move(t));
}

void Backward::put_broadcast(u32 i, Tensor t) {
  const Edge& e = node->edges[i];
  if (!e.node) return;
  const OutputInfo& want = e.node->output_info(e.output);
  if (t.impl() && t.impl()->key == want.key && fits(t.impl(), want) && !mode.anomaly) [[likely]]
    return engine.deliver(e, std::move(t));
  detail::put_sum_to(*this, i, std::move(t));
}

bool Backward::add_to_window(u32 i, int axis, const Slice& window, const Tensor& g) {
  const Edge& e = node->edges[i];
  if (!e.node || e.node->is_leaf() || mode.grad || mode.anomaly || (mode.slow & kSlowSliced))
    return false;
  TensorImpl* have = engine.gradient(engine.tasks_[e.node->task], e.output);
  if (!have || !have->refs.sole() || !have->storage->refs.sole() || have->storage->borrowed ||
      have->node || !is_permuted_dense(have->geometry) || have->key != g.impl()->key ||
      device_of(have).is_meta)
    return false;
  Geometry part = have->geometry;
  const i64 offset = window.begin * part.strides[axis] * item_size(part.dtype);
  part.shape[axis] = slice_length(window);
  // Of one element the step may be anything; of two it lies within the tensor.
  if (part.shape[axis] > 1) part.strides[axis] *= window.step;
  finish_geometry(part);
  if (part.numel == 0) return true;
  detail::add_into(View{static_cast<char*>(have->data) + offset, &part}, g.impl());
  return true;  // the same version: nobody else holds it
}

}  // namespace wt
