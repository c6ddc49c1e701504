// Writing by tensors as indices: rows of a table by number. What is overwritten has no gradient, of
// equal rows only the last one's value has; both maps are linear, so they differentiate to any
// order.
#include "warptape/autograd/backward.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/ops/arrange.h"
#include "warptape/autograd/ops/index.h"
#include "warptape/autograd/ops/internal/in_place.h"
#include "warptape/autograd/ops/internal/index_list.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/factories.h"
#include "warptape/kernels/copy.h"
#include "warptape/kernels/embedding.h"
#include "warptape/kernels/index.h"

namespace wt {
namespace info {
constexpr OpInfo index_put{.name = "index_put", .derivative = Derivative::linear};
constexpr OpInfo index_put_{
    .name = "index_put_", .derivative = Derivative::linear, .in_place = true};
}  // namespace info

namespace {

constexpr i64 kNoPadding = -1;

void launch_put(const OpScope& s, const View& table, bool accumulate) {
  if (accumulate)
    run(EmbeddingBackwardArgs{table, s.view(2), s.view(1), kNoPadding, true}, s.launch());
  else
    run(IndexPutArgs{table, s.view(1), s.view(2)}, s.launch());
}

void put_rows_backward(Backward& g);

// table [V, D] with values [N, D] written to, or added at, rows [N]: a new tensor.
Tensor put_rows(const Tensor& table, const Tensor& rows, const Tensor& values, bool accumulate) {
  const In table_in(table), rows_in(rows), values_in(values);
  OpScope s(info::index_put, table_in, rows_in, values_in, Types::any);
  s.save_input_if(s.wants(2) || !accumulate, 1);
  Result y = s.result(shape_of(s.geometry(0)), s.dtype(0));
  s.record(put_rows_backward);
  s.set_attribute(accumulate);
  run(CopyArgs{y.view(), s.view(0)}, s.launch());
  launch_put(s, y.view(), accumulate);
  return s.finish(std::move(y));
}

// Whether position i is the last one that names its row: bool [N, 1].
Tensor last_of_row(const Tensor& rows, i64 table_rows) {
  const NoGrad no_grad;
  const TensorOptions o{.dtype = DType::i64, .device = rows.device()};
  const Tensor number = arange(rows.numel(), o).reshape({rows.numel(), 1});
  const Tensor last = put_rows(full({table_rows, 1}, -1, o), rows, number, false);
  return eq(detail::rows_of(last, rows), number);
}

void put_rows_backward(Backward& g) {
  const bool accumulate = g.attribute<bool>();
  const Tensor gy = g.take_grad();
  if (g.wants(2)) {
    const Tensor& rows = g.saved(0);
    Tensor gv = detail::rows_of(gy, rows);
    if (!accumulate) gv = where(last_of_row(rows, gy.size(0)), gv, 0.0);
    g.put(2, std::move(gv));
  }
  if (!g.wants(0)) return;
  if (accumulate) return g.put(0, gy);
  const Shape written{g.saved(0).numel(), gy.size(1)};
  const Tensor nothing = zeros(written, {.dtype = gy.dtype(), .device = gy.device()});
  g.put(0, put_rows(gy, g.saved(0), nothing, false));
}

// What is written, by which operator and how.
struct Write {
  const OpInfo& op;
  const Tensor& value;
  bool accumulate;
  Frame at;

  // The value in x's dtype, on its device, in the shape that x[{...}] has.
  Tensor fitted(const Tensor& x, const Shape& wanted) const {
    Shape all;
    try {
      all = broadcast_shapes("", wanted, value.shape());
    } catch (const ShapeError&) {}
    if (all != wanted)
      throw ShapeError(str("[", op.name, "] the value's shape ", value.shape(),
                           " does not broadcast to ", wanted, "\n  operand 0: ", describe(x),
                           "\n  at ", describe(at)));
    return expand(value.to(x.dtype(), at).to(x.device(), at), wanted);
  }
  void check_adds(const Tensor& x) const {
    if (accumulate && (!is_floating(x.dtype()) || !computes(x.dtype())))
      throw DtypeError(str("[", op.name, "] accumulates floats, this is ", describe(x), "\n  at ",
                           describe(at)));
  }
};

// Value as rows of the table, [N, D] in memory order.
Tensor as_rows(const Write& w, const Tensor& x, const detail::IndexTable& t, i64 rows) {
  return permute(w.fitted(x, t.result), detail::inverse_order(t.result_order))
      .contiguous()
      .reshape({rows, t.width});
}

// The tensor that the views were cut from, with the last view's place taken by y.
Tensor put_back(Tensor y, const std::vector<detail::IndexList::Cut>& cuts) {
  for (size_t i = cuts.size(); i-- > 0;) {
    const auto& [from, axis, entry] = cuts[i];
    switch (entry->kind) {
      case Index::Kind::integer:
        y = select_scatter(from, y, axis, entry->integer);
        break;
      case Index::Kind::newaxis:
        y = select(y, axis, 0);
        break;
      default:
        y = slice_scatter(from, y, axis, entry->slice);
    }
  }
  return y;
}

Tensor put(const Tensor& x, std::span<const Index> at, const Write& w) {
  const FrameScope frame(w.at);
  const detail::IndexList p(x, at);
  if (p.axes.empty()) {
    const Tensor given = w.fitted(x, p.base.shape());
    Tensor y = w.accumulate ? add(p.base, given) : given;
    return p.cuts.empty() ? clone(y) : put_back(std::move(y), p.cuts);
  }
  w.check_adds(x);
  const detail::IndexTable t(p);
  const Tensor rows = p.row_numbers(w.op);
  const Tensor y = put_rows(t.table(), rows, as_rows(w, x, t, rows.numel()), w.accumulate);
  return put_back(permute(y.reshape(t.front.shape()), detail::inverse_order(t.front_order)),
                  p.cuts);
}

// Several indices may name one place of an expanded tensor: it is refused before anything is
// written.
void check_target(const Tensor& x, Frame at) {
  if (x.is_contiguous()) return;
  const In self(x, at.file, at.line);
  const OpScope s(info::index_put_, self);
  detail::check_writable(s);
}

// Nobody wants a gradient: straight into x.
void write(Tensor& x, const detail::IndexList& p, const Write& w) {
  const NoGrad no_grad;
  w.check_adds(x);
  const detail::IndexTable t(p);
  const Tensor rows = p.row_numbers(w.op);
  // Of x's own elements: what was there before.
  const bool own = w.value.impl()->storage == x.impl()->storage;
  const Tensor given = own ? w.value.clone() : w.value;
  const Tensor values = as_rows({w.op, given, w.accumulate, w.at}, x, t, rows.numel());
  // A table whose rows lie evenly is written in place, any other through a copy.
  Tensor table = t.table();
  const bool direct =
      table.impl()->storage == x.impl()->storage && (!w.accumulate || table.impl()->geometry.dense);
  if (!direct) table = t.front.clone().reshape({t.rows, t.width});
  const In self(table, w.at.file, w.at.line), rows_in(rows), values_in(values);
  {
    OpScope s(w.op, self, rows_in, values_in, Types::any);
    launch_put(s, s.view(0), w.accumulate);
    s.finish_in_place();
  }
  if (direct) return;
  Tensor to = t.front;
  to.copy_(table.reshape(to.shape()), w.at);
}

}  // namespace

Tensor index_put(const In& x, std::span<const Index> at, const In& value,
                 const IndexPutOptions& options) {
  if (!x.impl() || !value.impl()) detail::use_of_undefined(x.frame());
  const Tensor own_value(detail::retained(value.impl()));
  return put(Tensor(detail::retained(x.impl())), at,
             {info::index_put, own_value, options.accumulate, x.frame()});
}
Tensor index_put(const In& x, std::initializer_list<Index> at, const In& value,
                 const IndexPutOptions& options) {
  return index_put(x, std::span(at.begin(), at.size()), value, options);
}

Tensor& Tensor::index_put_(std::span<const Index> at, const Tensor& value, IndexPutOptions options,
                           Frame where) & {
  checked(where);
  value.checked(where);
  if (mode.recomputation && detail::leaves_alone(p_)) return *this;
  check_target(*this, where);
  const Write w{info::index_put_, value, options.accumulate, where};
  if (mode.grad && (requires_grad() || value.requires_grad())) {
    detail::assign(info::index_put_, *this, put(*this, at, w), where);
    return *this;
  }
  const FrameScope frame(where);
  const detail::IndexList p(*this, at);
  if (!p.axes.empty()) {
    write(*this, p, w);
    return *this;
  }
  Tensor base = p.base;
  if (options.accumulate)
    base.add_(value, {}, where);
  else
    base.copy_(value, where);
  return *this;
}

Tensor& Tensor::index_put_(std::initializer_list<Index> at, const Tensor& value,
                           IndexPutOptions options, Frame where) & {
  return index_put_(std::span(at.begin(), at.size()), value, options, where);
}
Tensor& Tensor::index_put_(std::initializer_list<Index> at, Scalar value, IndexPutOptions options,
                           Frame where) & {
  const Tensor number = full({}, value, {.dtype = dtype(where), .device = device(where)});
  return index_put_(std::span(at.begin(), at.size()), number, options, where);
}
Written Tensor::index_put_(std::span<const Index> at, const Tensor& value, IndexPutOptions options,
                           Frame where) && {
  index_put_(at, value, options, where);
  return Written(std::move(*this));
}
Written Tensor::index_put_(std::initializer_list<Index> at, const Tensor& value,
                           IndexPutOptions options, Frame where) && {
  index_put_(at, value, options, where);
  return Written(std::move(*this));
}
Written Tensor::index_put_(std::initializer_list<Index> at, Scalar value, IndexPutOptions options,
                           Frame where) && {
  index_put_(at, value, options, where);
  return Written(std::move(*this));
}

namespace detail {
OpInfos index_put_ops() {
  static constexpr const OpInfo* kOps[] = {&info::index_put, &info::index_put_};
  return kOps;
}
}  // namespace detail

}  // namespace wt
