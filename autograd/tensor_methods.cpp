// The members of Tensor that are operators or touch gradient state.
#include "warptape/autograd/backward.h"
#include "warptape/autograd/grads.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/op_scope.h"
#include "warptape/autograd/ops/arrange.h"
#include "warptape/autograd/ops/index.h"
#include "warptape/autograd/ops/internal/in_place.h"
#include "warptape/autograd/ops/internal/index_list.h"
#include "warptape/autograd/ops/internal/shape_checks.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/shape.h"

namespace wt {

// --- gradients ---

Tensor& Tensor::set_requires_grad(bool on, Frame at) & {
  checked(at);
  if (!on) {
    if (p_->node && !p_->node->is_leaf())
      throw UsageError(str("[set_requires_grad] only a leaf can stop requiring grad; use detach()",
                           "\n  at ", describe(at)));
    if (p_->node) detail::release_tensor_node(p_);
    return *this;
  }
  if (p_->node) return *this;
  if (!is_floating(dtype_of(p_)))
    throw DtypeError(str("[set_requires_grad] only floating tensors have gradients, this is ",
                         wt::describe(*this), "\n  at ", describe(at)));
  if (p_->flags & kInference)
    throw UsageError(
        str("[set_requires_grad] the tensor was made in inference mode\n  at ", describe(at)));
  make_leaf(p_, at);
  return *this;
}

Tensor Tensor::set_requires_grad(bool on, Frame at) && {
  set_requires_grad(on, at);
  return std::move(*this);
}

Tensor& Tensor::requires_grad_(bool on, Frame at) & { return set_requires_grad(on, at); }
Tensor Tensor::requires_grad_(bool on, Frame at) && {
  return std::move(*this).set_requires_grad(on, at);
}

bool Tensor::is_leaf(Frame at) const { return !checked(at)->node || p_->node->is_leaf(); }

// The entry that retain_grad() made, null when there is none.
static RetainedGrad* retained_grad(const TensorImpl* p) {
  if (!p->node || !p->node->spill) return nullptr;
  for (RetainedGrad& r : p->node->spill->retained)
    if (r.output == p->output_index) return &r;
  return nullptr;
}

void Tensor::retain_grad(Frame at) const {
  checked(at);
  Node* n = p_->node;
  if (!n)
    throw UsageError(str("[retain_grad] the tensor does not require grad: ", wt::describe(*this),
                         "\n  at ", describe(at)));
  if (n->is_leaf() || retained_grad(p_)) return;
  if (!n->spill) n->spill = new NodeSpill;
  n->spill->retained.push_back({p_->output_index, nullptr});
}

[[noreturn]] static void throw_in_parts(const char* caller, Frame at) {
  throw UsageError(str("[", caller,
                       "] no rank has the whole gradient: they are kept in parts, and ",
                       "each rank has the sums of its own part alone\n  at ", describe(at),
                       "\n  Try DataParallelOptions{.zero = 0}; to clip, TrainStep's clip_norm or ",
                       "optim::clip_factor"));
}

Tensor Tensor::grad(Frame at) const {
  checked(at);
  const Leaf* l = leaf_of(p_);
  if (!l) {
    const RetainedGrad* r = retained_grad(p_);
    return r && r->grad ? Tensor(detail::retained(r->grad)) : Tensor();
  }
  if (l->provide && l->written) throw_in_parts("grad", at);
  if (!l->grad || !l->written) return {};
  if (l->invalid)
    throw NumericError(
        "[grad] the gradient is invalid after a backward that threw; call "
        "zero_grad()");
  return Tensor(detail::retained(l->grad));
}

void Tensor::set_grad(const Tensor& g, Frame at) const {
  checked(at);
  Leaf* l = leaf_of(p_);
  if (!l)
    throw UsageError(
        str("[set_grad] only a leaf that requires grad has a gradient\n  at ", describe(at)));
  if (!g.defined()) return zero_grad();
  if (g.shape() != shape() || g.impl()->key != p_->key)
    throw ShapeError(str("[set_grad] the gradient must look like the tensor\n  tensor ",
                         wt::describe(*this), "\n  gradient ", wt::describe(g), "\n  at ",
                         describe(at)));
  if (l->provide) throw_in_parts("set_grad", at);
  if (!l->grad) {
    const CategoryScope scope(Category::gradient);
    l->grad = new_like(p_);
  }
  detail::copy_into(l->grad, g.impl());
  l->written = true;
  l->invalid = l->from_f16 = false;
  l->scaler = 0;
}

void Tensor::zero_grad(Frame at) const {
  checked(at);
  Leaf* l = leaf_of(p_);
  if (!l) {
    RetainedGrad* r = retained_grad(p_);
    if (!r || !r->grad) return;
    release(r->grad);
    r->grad = nullptr;
    return;
  }
  l->written = l->invalid = l->from_f16 = false;
  l->scaler = 0;
  // A gradient of its own is given back; an arena's slot stays and is overwritten.
  if (!l->in_arena && l->grad) {
    release(l->grad);
    l->grad = nullptr;
  }
}

Tensor Tensor::detach(Frame at) const { return wt::detach(In(*this, at.file, at.line)); }

// --- views and copies ---

Tensor Tensor::operator[](Position i) const& { return select(0, i.value, i.at); }
Tensor Tensor::operator[](Position i) && { return std::move(*this).select(0, i.value, i.at); }
static std::span<const Index> list_of(std::initializer_list<Index> at) {
  return {at.begin(), at.size()};
}
Tensor Tensor::operator[](std::initializer_list<Index> at) const& {
  return Tensor(*this)[list_of(at)];
}
Tensor Tensor::operator[](std::initializer_list<Index> at) && {
  return std::move(*this)[list_of(at)];
}
Tensor Tensor::operator[](std::span<const Index> at) const& { return Tensor(*this)[at]; }
Tensor Tensor::operator[](std::span<const Index> at) && {
  checked(at.empty() ? Frame{} : at[0].at);
  for (const Index& i : at)
    if (i.kind == Index::Kind::tensor) return index(*this, at);
  const int skipped = detail::axes_of_ellipsis(ndim(), at);
  Tensor t = std::move(*this);
  i64 axis = 0;
  for (const Index& i : at) switch (i.kind) {
      case Index::Kind::integer:
        t = std::move(t).select(axis, i.integer, i.at);
        break;
      case Index::Kind::newaxis:
        t = std::move(t).unsqueeze(axis++, i.at);
        break;
      case Index::Kind::ellipsis:
        axis += skipped;
        break;
      default:
        t = std::move(t).slice(axis++, i.slice, i.at);
    }
  return t;
}
Tensor Tensor::operator[](const LoneIndex& at) const& {
  return Tensor(*this)[std::span(&at.index, 1)];
}
Tensor Tensor::operator[](const LoneIndex& at) && {
  return std::move(*this)[std::span(&at.index, 1)];
}

#define WT_VIEW_METHOD(name, params, ...)                                               \
  Tensor Tensor::name params const& {                                                   \
    return wt::name(In(*this, at.file, at.line) __VA_OPT__(, ) __VA_ARGS__);            \
  }                                                                                     \
  Tensor Tensor::name params&& {                                                        \
    return wt::name(In(std::move(*this), at.file, at.line) __VA_OPT__(, ) __VA_ARGS__); \
  }
WT_VIEW_METHOD(view, (const Shape& shape, Frame at), shape)
WT_VIEW_METHOD(reshape, (const Shape& shape, Frame at), shape)
WT_VIEW_METHOD(flatten, (i64 first, i64 last, Frame at), first, last)
WT_VIEW_METHOD(transpose, (i64 a, i64 b, Frame at), a, b)
WT_VIEW_METHOD(permute, (const Dims& order, Frame at), order)
WT_VIEW_METHOD(expand, (const Shape& shape, Frame at), shape)
WT_VIEW_METHOD(squeeze, (Frame at))
WT_VIEW_METHOD(squeeze, (i64 axis, Frame at), axis)
WT_VIEW_METHOD(unsqueeze, (i64 axis, Frame at), axis)
WT_VIEW_METHOD(select, (i64 axis, i64 index, Frame at), axis, index)
WT_VIEW_METHOD(unfold, (i64 axis, i64 size, i64 step, Frame at), axis, size, step)
WT_VIEW_METHOD(slice, (i64 axis, Slice range, Frame at), axis, range)
#undef WT_VIEW_METHOD

Tensor Tensor::t(Frame at) const& { return Tensor(*this).t(at); }
Tensor Tensor::t(Frame at) && {
  if (ndim(at) < 2) return std::move(*this);
  return wt::transpose(In(std::move(*this), at.file, at.line), -2, -1);
}
Tensor Tensor::narrow(i64 axis, i64 begin, i64 length, Frame at) const& {
  return Tensor(*this).narrow(axis, begin, length, at);
}
Tensor Tensor::narrow(i64 axis, i64 begin, i64 length, Frame at) && {
  const i64 n = size(axis, at);
  if (begin < 0 || length < 0 || begin > n || length > n - begin)
    throw IndexError(str("[narrow] ", length, " elements from ", begin, " on are outside [0, ", n,
                         ") of axis ", axis, "\n  at ", describe(at)));
  return wt::slice(In(std::move(*this), at.file, at.line), axis, {begin, begin + length});
}
Tensor Tensor::contiguous(MemoryFormat format, Frame at) const {
  return wt::contiguous(In(*this, at.file, at.line), format);
}
Tensor Tensor::clone(Frame at) const { return wt::clone(In(*this, at.file, at.line)); }
Tensor Tensor::to(Device d, Frame at) const {
  return wt::to_device(In(*this, at.file, at.line), d);
}
Tensor Tensor::to(DType t, Frame at) const { return wt::to_dtype(In(*this, at.file, at.line), t); }
Tensor Tensor::to(Device d, DType t, Frame at) const {
  const bool there = device(at) == d;  // what is narrower travels
  return item_size(t) < item_size(dtype(at)) && !there ? to(t, at).to(d, at) : to(d, at).to(t, at);
}
Tensor Tensor::cuda(int index, Frame at) const { return to(Device::cuda(index), at); }
Tensor Tensor::cpu(Frame at) const { return to(Device::cpu(), at); }
Tensor Tensor::to(MemoryFormat format, Frame at) const {
  return wt::contiguous(In(*this, at.file, at.line), format);
}

// --- writing ---

namespace detail {

// By the axes in ascending order of their strides: each step must leave what the axes before it
// reach. True for whatever slices, permutations and diagonals make of a tensor.
static bool windows_overlap(const Geometry& g) {
  i64 reach = 0;
  u32 left = (1u << g.ndim) - 1;
  for (int n = 0; n < g.ndim; ++n) {
    int next = -1;
    for (int d = 0; d < g.ndim; ++d)
      if ((left >> d & 1) && (next < 0 || g.strides[d] < g.strides[next])) next = d;
    left &= ~(1u << next);
    if (g.shape[next] == 1) continue;
    if (g.strides[next] <= reach) return true;
    reach += (g.shape[next] - 1) * g.strides[next];
  }
  return false;
}

void check_writable(const OpScope& s) {
  const Geometry& g = s.geometry(0);
  if (g.dense || g.numel == 0) return;
  const auto refuse = [&](const char* how) {
    s.fail<InplaceError>(
        str("several elements of the tensor share one place in memory (", how, ")"),
        ".clone() first");
  };
  for (int d = 0; d < g.ndim; ++d)
    if (g.shape[d] > 1 && g.strides[d] == 0) refuse("expand");
  if (windows_overlap(g)) refuse("unfold");
}

Tensor readable_beside(const Tensor& x, const Tensor& other, Frame at) {
  const TensorImpl *p = x.impl(), *o = other.impl();
  if (p == o || p->storage != o->storage) return other;
  const bool same = p->data == o->data && shape_of(p->geometry) == shape_of(o->geometry) &&
                    x.strides() == other.strides();
  return same ? other : other.clone(at);
}

Tensor checked_hook_result(const Tensor& gradient, Tensor result) {
  if (result.defined() && (result.impl()->key != gradient.impl()->key ||
                           shape_of(result.impl()->geometry) != gradient.shape()))
    throw ShapeError(str("[hook] what a hook returns must look like the gradient it was given\n  ",
                         "gradient ", wt::describe(gradient), "\n  returned ",
                         wt::describe(result)));
  return result;
}

}  // namespace detail

}  // namespace wt
