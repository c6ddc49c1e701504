#include "warptape/autograd/ops/arrays.h"

#include <algorithm>
#include <deque>
#include <vector>

#include "warptape/autograd/composite_scope.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/ops/arrange.h"
#include "warptape/autograd/ops/internal/view_geometry.h"
#include "warptape/autograd/ops/pointwise.h"

namespace wt {
namespace info {
constexpr OpInfo tile{.name = "tile", .derivative = Derivative::linear, .composite = true};
constexpr OpInfo hstack{.name = "hstack", .derivative = Derivative::linear, .composite = true};
constexpr OpInfo vstack{.name = "vstack", .derivative = Derivative::linear, .composite = true};
constexpr OpInfo diff{.name = "diff", .derivative = Derivative::linear, .composite = true};
}  // namespace info

namespace {

// Operands of a list.
struct Parts {
  std::deque<In> in;
  std::vector<const In*> pointers;
  void add(const Tensor& t, Frame at) { pointers.push_back(&in.emplace_back(t, at.file, at.line)); }
  Parts(const OpInfo& info, std::span<const Tensor> parts, Frame at) {
    if (parts.empty())
      throw UsageError(str("[", info.name, "] no tensors given\n  at ", describe(at)));
    for (const Tensor& t : parts) add(t, at);
  }
  const In* const* data() const { return pointers.data(); }
  int size() const { return int(pointers.size()); }
};

// cat, whose errors have the operator's name.
Tensor joined(const CompositeScope& s, const std::vector<Tensor>& parts, int axis) {
  for (const Tensor& t : parts) {
    bool fits = t.ndim() == parts[0].ndim();
    for (int d = 0; fits && d < t.ndim(); ++d) fits = d == axis || t.size(d) == parts[0].size(d);
    if (!fits)
      s.fail<ShapeError>(str("shapes may differ only along axis ", axis, ", got ", parts[0].shape(),
                             " and ", t.shape()));
  }
  return cat(parts, axis);
}

// The operands with at least `ndim` axes, 1 or 2: what lacks them is one row.
std::vector<Tensor> at_least(const CompositeScope& s, int ndim) {
  std::vector<Tensor> parts;
  for (int i = 0; i < s.size(); ++i) {
    const Tensor t = s.operand(i);
    const Shape row = ndim == 1 ? Shape{1} : Shape{1, t.numel()};
    parts.push_back(t.ndim() < ndim ? reshape(t, row) : t);
  }
  return parts;
}

}  // namespace

Tensor tile(const In& x, const Shape& repeats) {
  CompositeScope s(info::tile, x);
  Shape all;
  for (int d = repeats.ndim(); d < s.geometry(0).ndim; ++d) all.push_back(1);
  for (int d = 0; d < repeats.ndim(); ++d) {
    if (repeats[d] < 0) s.fail<ShapeError>(str("repeats ", repeats, ": entry ", d, " is negative"));
    all.push_back(repeats[d]);
  }
  return s.finish(repeat(s.operand(0), all));
}

Tensor hstack(std::span<const Tensor> parts, Frame at) {
  const Parts list(info::hstack, parts, at);
  CompositeScope s(info::hstack, list.data(), list.size(), Types::any);
  const std::vector<Tensor> rows = at_least(s, 1);
  return s.finish(joined(s, rows, rows[0].ndim() == 1 ? 0 : 1));
}
Tensor hstack(std::initializer_list<Tensor> parts, Frame at) {
  return hstack(std::span(parts.begin(), parts.size()), at);
}

Tensor vstack(std::span<const Tensor> parts, Frame at) {
  const Parts list(info::vstack, parts, at);
  CompositeScope s(info::vstack, list.data(), list.size(), Types::any);
  return s.finish(joined(s, at_least(s, 2), 0));
}
Tensor vstack(std::initializer_list<Tensor> parts, Frame at) {
  return vstack(std::span(parts.begin(), parts.size()), at);
}

Tensor diff(const In& x, const DiffOptions& o) {
  const Frame at = x.frame();
  std::deque<In> ends;
  std::vector<const In*> list{&x};
  for (const Tensor* end : {&o.prepend, &o.append})
    if (end->defined()) list.push_back(&ends.emplace_back(*end, at.file, at.line));
  const In* const* const operands = list.data();
  CompositeScope s(info::diff, operands, int(list.size()), Types::any);
  if (s.geometry(0).ndim == 0) s.fail<ShapeError>("needs at least one dimension");
  const int a = s.axis(o.dim, s.geometry(0).ndim);
  if (o.n < 0) s.fail<UsageError>(str("n must not be negative, got ", o.n));
  const Tensor self = s.operand(0);
  Tensor t = self;
  if (s.size() > 1) {
    std::vector<Tensor> parts;
    if (o.prepend.defined()) parts.push_back(s.operand(1));
    parts.push_back(self);
    if (o.append.defined()) parts.push_back(s.operand(s.size() - 1));
    t = joined(s, parts, a);
  }
  if (!computes(t.dtype()))
    s.fail<DtypeError>(str(dtype_name(t.dtype()), " is for storage only and does not compute"));
  const bool truth = t.dtype() == DType::boolean;
  for (i64 k = 0, most = std::min(o.n, t.size(a)); k < most; ++k) {
    const i64 size = t.size(a);
    const Tensor next = slice(t, a, {1, size}), now = slice(t, a, {0, size - 1});
    t = truth ? ne(next, now) : sub(next, now);
  }
  return s.finish(own_copy(std::move(t), self));
}

namespace detail {
OpInfos arrays_ops() {
  static constexpr const OpInfo* kOps[] = {&info::tile, &info::hstack, &info::vstack, &info::diff};
  return kOps;
}
}  // namespace detail

}  // namespace wt
