// The copies that autograd/ops/shape.h declares: other memory, another dtype or device, joined
// parts.
#include <deque>
#include <optional>

#include "warptape/autograd/backward.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/op_saving.h"
#include "warptape/autograd/op_scope.h"
#include "warptape/autograd/ops/internal/stored_cast.h"
#include "warptape/autograd/ops/internal/view_geometry.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/factories.h"
#include "warptape/core/graph/graph_capture.h"
#include "warptape/core/memory/copy_bytes.h"
#include "warptape/core/slices.h"
#include "warptape/kernels/copy.h"

namespace wt {
namespace info {
constexpr OpInfo contiguous{.name = "contiguous", .derivative = Derivative::linear};
constexpr OpInfo clone{.name = "clone", .derivative = Derivative::linear};
constexpr OpInfo cat{.name = "cat", .derivative = Derivative::linear};
constexpr OpInfo stack{.name = "stack", .derivative = Derivative::linear, .composite = true};
constexpr OpInfo to_dtype{.name = "to_dtype", .derivative = Derivative::linear};
constexpr OpInfo to_device{.name = "to_device", .derivative = Derivative::linear};
}  // namespace info

namespace {

void copy_views(const View& to, const View& from, const OpScope& s) {
  run(CopyArgs{to, from}, s.launch());
}

void pass_backward(Backward& g) { g.put(0, g.take_grad()); }

Shape channels_last_strides(const Shape& n) { return {n[1] * n[2] * n[3], 1, n[1] * n[3], n[1]}; }

// A fresh tensor of x's shape in `format`.
Result empty_in_format(OpScope& s, const Geometry& g, DType t, MemoryFormat format) {
  Result y = s.result(g.shape, g.ndim, t);
  if (format == MemoryFormat::channels_last) {
    const Shape strides = channels_last_strides(shape_of(g));
    for (int i = 0; i < 4; ++i) y.impl()->geometry.strides[i] = strides[i];
    finish_geometry(y.impl()->geometry);
  }
  return y;
}

}  // namespace

Tensor contiguous(const In& x, MemoryFormat format) {
  if (!x.impl()) detail::use_of_undefined(x.frame());
  if (format == MemoryFormat::channels_last && x.impl()->geometry.ndim != 4)
    throw ShapeError(str("[contiguous] channels_last needs 4 dimensions, got ",
                         int(x.impl()->geometry.ndim), "\n  at ", describe(x.frame())));
  const Tensor self(detail::retained(x.impl()));
  if (self.is_contiguous(format)) return in_place_of(x, self);
  OpScope s(info::contiguous, x);
  Result y = empty_in_format(s, s.geometry(0), s.dtype(), format);
  s.record(pass_backward);
  copy_views(y.view(), s.view(0), s);
  return s.finish(std::move(y));
}

Tensor clone(const In& x) {
  OpScope s(info::clone, x);
  const bool nhwc = Tensor(detail::retained(x.impl())).is_contiguous(MemoryFormat::channels_last) &&
                    !s.geometry(0).dense;
  Result y = empty_in_format(s, s.geometry(0), s.dtype(),
                             nhwc ? MemoryFormat::channels_last : MemoryFormat::contiguous);
  s.record(pass_backward);
  copy_views(y.view(), s.view(0), s);
  return s.finish(std::move(y));
}

namespace {
void to_dtype_backward(Backward& g) {
  const Edge& e = g.node->edges[0];
  const DType t = DType(e.node->output_info(e.output).key & 0xff);
  Leaf* const leaf = e.node->is_leaf() ? static_cast<Leaf*>(e.node) : nullptr;
  if (!leaf || g.some) return g.put(0, to_dtype(g.take_grad(), t));
  leaf->from_f16 |= dtype_of(g.grad().impl()) == DType::f16;
  // A leaf's first gradient is converted into its place, not by way of a tensor of its own.
  const GradSlot to = leaf->written ? GradSlot{} : g.converted_slot(0);
  if (!to) return g.put(0, to_dtype(g.take_grad(), t));
  run(CopyArgs{to.view(), view_of(g.grad().impl())}, g.launch());
}
void to_device_backward(Backward& g) {
  const Edge& e = g.node->edges[0];
  g.put(0, to_device(g.take_grad(), device_of_key(e.node->output_info(e.output).key)));
}
}  // namespace

Tensor to_dtype(const In& x, DType t) {
  if (x.impl() && dtype_of(x.impl()) == t)
    return in_place_of(x, Tensor(detail::retained(x.impl())));
  OpScope s(info::to_dtype, x);
  Result y = s.result_in_order(0, t);
  if (is_floating(t)) s.record(to_dtype_backward);
  copy_views(y.view(), s.view(0), s);
  return s.finish(std::move(y));
}

Tensor detail::to_dtype_stored(const In& x, const TensorImpl* stored) {
  OpScope s(info::to_dtype, x);
  Result y(alias_of(stored));
  s.record(to_dtype_backward);
  return s.finish(std::move(y));
}

Tensor to_device(const In& x, Device d) {
  if (!x.impl()) detail::use_of_undefined(x.frame());
  const Device from = device_of(x.impl());
  if (from == d) return in_place_of(x, Tensor(detail::retained(x.impl())));
  detail::refuse_slices("to_device", x.impl(), x.frame());
  if (from.is_meta && !d.is_meta)
    throw PlacementError(str("[to_device] a meta tensor has no values to move to ", to_string(d),
                             "\n  at ", describe(x.frame()),
                             "\n  Try loading or initialising it there"));
  std::optional<SyncGuard> counted;
  if (d == Device::cpu()) {
    detail::before_wait("to_device", from, x.frame());
    counted.emplace(OnSync::allow);
  }
  if (detail::recording_graph()) [[unlikely]]
    detail::not_in_a_graph("to_device", "it copies between the device and host memory", x.frame());
  const FrameScope frame(x.frame());
  const Tensor dense = contiguous(Tensor(detail::retained(x.impl())));
  const In in(dense);
  OpScope s(info::to_device, in);
  const Geometry& g = s.geometry(0);
  Result y(new_contiguous(g.shape, g.ndim, g.dtype, d));
  s.record(to_device_backward);
  if (!d.is_meta)
    copy_bytes(y.impl()->data, d, dense.impl()->data, from, g.numel * item_size(g.dtype));
  return in_place_of(x, s.finish(std::move(y)));
}

Tensor detail::value_on(const In& x, Device d) {
  const DType t = dtype_of(x.impl());
  const Tensor value(retained(x.impl()));
  if (!computes(t)) return to_device(In(value, x.frame().file, x.frame().line), d);
  if (recording_graph()) [[unlikely]]
    not_in_a_graph("to_device", "a graph would keep the value that a cpu tensor has now",
                   x.frame());
  const Scalar number = is_floating(t)        ? Scalar(value.item(x.frame()))
                        : t == DType::boolean ? Scalar(value.item<bool>(x.frame()))
                                              : Scalar(value.item<i64>(x.frame()));
  const In in(value, x.frame().file, x.frame().line);
  OpScope s(info::to_device, in);
  Result y(new_contiguous(nullptr, 0, t, d));
  s.record(to_device_backward);
  if (!d.is_meta)
    run(FillArgs{y.view(), number.f, number.to_int()},
        Launch{&info::to_device, mode.native_stream, nullptr, d});
  return s.finish(std::move(y));
}

namespace {
struct CatOf {
  int axis;
  std::vector<i64> sizes;
};
void cat_backward(Backward& g) {
  const CatOf& a = g.attribute<CatOf>();
  const Tensor gy = g.take_grad();
  i64 begin = 0;
  for (u32 i = 0; i < a.sizes.size(); ++i) {
    if (g.wants(i)) g.put(i, slice(gy, a.axis, {begin, begin + a.sizes[i]}));
    begin += a.sizes[i];
  }
}

// Operand objects for a list of tensors.
struct Inputs {
  std::deque<In> in;
  std::vector<const In*> pointers;
  Inputs(std::span<const Tensor> parts, Frame at) {
    for (const Tensor& t : parts) in.emplace_back(t, at.file, at.line);
    for (const In& i : in) pointers.push_back(&i);
  }
};
}  // namespace

Tensor cat(std::span<const Tensor> parts, i64 axis, Frame at) {
  if (parts.empty()) throw UsageError(str("[cat] no tensors given\n  at ", describe(at)));
  const Inputs inputs(parts, at);
  OpScope s(info::cat, inputs.pointers.data(), int(parts.size()), Types::promote);
  const Geometry& first = s.geometry(0);
  if (first.ndim == 0) throw ShapeError(str("[cat] 0-d tensors cannot be joined", s.at_line()));
  CatOf a{s.axis(axis, first.ndim), {}};
  Shape shape = shape_of(first);
  shape[a.axis] = 0;
  for (int i = 0; i < int(parts.size()); ++i) {
    const Geometry& g = s.geometry(i);
    bool fits = g.ndim == first.ndim;
    for (int d = 0; fits && d < g.ndim; ++d) fits = d == a.axis || g.shape[d] == first.shape[d];
    if (!fits)
      throw ShapeError(str("[cat] shapes may differ only along axis ", a.axis, "\n  tensor 0 ",
                           shape_of(first), "\n  tensor ", i, " ", shape_of(g), s.at_line()));
    shape[a.axis] = checked_add(shape[a.axis], g.shape[a.axis]);
    a.sizes.push_back(g.shape[a.axis]);
  }
  Result y = s.result(shape, s.dtype());
  s.record(cat_backward);
  Geometry window = y.impl()->geometry;
  i64 offset = 0;
  for (int i = 0; i < int(parts.size()); ++i) {
    window.shape[a.axis] = a.sizes[size_t(i)];
    finish_geometry(window);
    char* data = y.view().as<char>();
    if (window.numel)
      copy_views({data ? data + offset * item_size(s.dtype()) : nullptr, &window}, s.view(i), s);
    offset += a.sizes[size_t(i)] * window.strides[a.axis];
  }
  s.set_attribute(std::move(a));
  return s.finish(std::move(y));
}
Tensor cat(std::initializer_list<Tensor> parts, i64 axis, Frame at) {
  return cat(std::span(parts.begin(), parts.size()), axis, at);
}

Tensor stack(std::span<const Tensor> parts, i64 axis, Frame at) {
  if (parts.empty()) throw UsageError(str("[stack] no tensors given\n  at ", describe(at)));
  const FrameScope frame(at);
  std::vector<Tensor> rows;
  for (const Tensor& t : parts) {
    if (t.shape() != parts[0].shape())
      throw ShapeError(str("[stack] shapes differ: ", parts[0].shape(), " and ", t.shape(),
                           "\n  at ", describe(at)));
    rows.push_back(unsqueeze(t, axis));
  }
  return cat(rows, normalize_axis("stack", axis, parts[0].ndim() + 1), at);
}
Tensor stack(std::initializer_list<Tensor> parts, i64 axis, Frame at) {
  return stack(std::span(parts.begin(), parts.size()), axis, at);
}

namespace detail {
OpSavings shape_copies_savings() {
  static constexpr OpSaving kSavings[] = {
      {.op = &info::to_dtype, .again = [](Node& n, const Tensor& x, const Tensor*) {
         return wt::to_dtype(x, DType(n.output.key & 0xff));
       }}};
  return kSavings;
}
OpInfos shape_copies_ops() {
  static constexpr const OpInfo* kOps[] = {&info::contiguous, &info::clone,    &info::cat,
                                           &info::stack,      &info::to_dtype, &info::to_device};
  return kOps;
}
}  // namespace detail

}  // namespace wt
