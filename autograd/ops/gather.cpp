// Picking and writing by index along one axis. Reading is linear in what is read, adding is its
// transpose: each is the other's gradient, to any order.
#include "warptape/autograd/ops/gather.h"

#include "warptape/autograd/backward.h"
#include "warptape/autograd/composite_scope.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/ops/index.h"
#include "warptape/autograd/ops/internal/bad_index.h"
#include "warptape/autograd/ops/internal/number_operand.h"
#include "warptape/autograd/ops/internal/shape_checks.h"
#include "warptape/autograd/ops/internal/view_geometry.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/factories.h"
#include "warptape/kernels/copy.h"
#include "warptape/kernels/gather.h"

namespace wt {
namespace info {
constexpr OpInfo gather{.name = "gather", .derivative = Derivative::linear};
constexpr OpInfo scatter{.name = "scatter", .derivative = Derivative::linear};
constexpr OpInfo scatter_add{.name = "scatter_add", .derivative = Derivative::linear};
constexpr OpInfo index_select{.name = "index_select", .derivative = Derivative::linear};
constexpr OpInfo index_add{.name = "index_add", .derivative = Derivative::linear};
constexpr OpInfo masked_fill{
    .name = "masked_fill", .derivative = Derivative::linear, .composite = true};
constexpr OpInfo masked_select{.name = "masked_select",
                               .derivative = Derivative::linear,
                               .data_dependent = true,
                               .composite = true};
constexpr OpInfo nonzero{
    .name = "nonzero", .derivative = Derivative::none, .data_dependent = true, .composite = true};
constexpr OpInfo one_hot{.name = "one_hot", .derivative = Derivative::none, .data_dependent = true};
}  // namespace info

namespace {

struct Along {
  int axis;
};

void check_index_dtype(const OpScope& s, int operand) {
  const DType t = s.dtype(operand);
  if (t != DType::i64 && t != DType::i32)
    s.fail<DtypeError>(str("indices must be i64 or i32, got ", dtype_name(t)), ".to(DType::i64)");
}
void check_source_dtype(const OpScope& s, int source) {
  if (s.dtype(source) != s.dtype(0))
    s.fail<DtypeError>(
        str("the source is ", dtype_name(s.dtype(source)), ", the tensor ", dtype_name(s.dtype(0))),
        str(".to(", dtype_name(s.dtype(0)), ") on the source"));
}
void check_adds(const OpScope& s) {
  const DType t = s.dtype(0);
  if (!computes(t) || t == DType::boolean)
    s.fail<DtypeError>(str("adds floats and integers, got ", dtype_name(t)));
}
// The index has x's axes, and but for `axis` no longer ones. Returns the axis.
int check_index_shape(const OpScope& s, i64 axis) {
  const Geometry &g = s.geometry(0), &index = s.geometry(1);
  const int a = s.axis(axis, g.ndim);
  if (index.ndim != g.ndim)
    s.fail<ShapeError>(
        str("the index has ", int(index.ndim), " dimensions, the tensor ", int(g.ndim)));
  for (int d = 0; d < g.ndim; ++d)
    if (d != a && index.shape[d] > g.shape[d])
      s.fail<ShapeError>(str("the index has size ", index.shape[d], " along axis ", d,
                             ", the tensor ", g.shape[d]));
  return a;
}

// An operand under another geometry.
struct Seen {
  Geometry geometry;
  void* data;
  View view() const { return {data, &geometry}; }
};
// The index of index_select as the kernels want it: the same along the other axes.
Seen spread(const View& index, const Shape& shape, int axis) {
  Shape strides;
  for (int d = 0; d < shape.ndim(); ++d)
    strides.push_back(d == axis && index.ndim() == 1 ? index.stride(0) : 0);
  return {geometry_with(*index.geometry, shape, strides), index.data};
}
// The part of the source that the index reaches.
Seen reached(const View& source, const Geometry& index) {
  return {geometry_with(*source.geometry, shape_of(index), strides_of(*source.geometry)),
          source.data};
}

// x's storage may become the result's: nothing that is still to be read can be there.
bool may_take(const In& x, const In& index, const In& source) {
  return x.is_rvalue() && !index.is_rvalue() && !source.is_rvalue();
}

Tensor zeros_of(const Shape& shape, const Tensor& like) {
  return zeros(shape, {.dtype = like.dtype(), .device = like.device()});
}

// --- gather and scatter ---
// `known_good`: the indices were checked before.
Tensor gather_by(const In& x, i64 axis, const In& index, bool known_good);
Tensor scatter_by(const OpInfo& op, const In& x, i64 axis, const In& index, const In& source,
                  bool known_good);

void gather_backward(Backward& g) {
  const Tensor gy = g.take_grad();
  g.put(0, scatter_by(info::scatter_add, zeros_of(g.input_shape(0), gy), g.attribute<Along>().axis,
                      g.saved(0), gy, true));
}

Tensor gather_by(const In& x, i64 axis, const In& index, bool known_good) {
  OpScope s(info::gather, x, index, Types::any);
  check_index_dtype(s, 1);
  const int a = check_index_shape(s, axis);
  s.save_input_if(s.wants(0), 1);
  Result y = s.result(shape_of(s.geometry(1)), s.dtype(0));
  s.record(gather_backward);
  s.set_attribute(Along{a});
  static const u32 id = mailbox_op_id(info::gather);
  BadIndexReport bad(s, id);
  run(GatherArgs{y.view(), s.view(0), s.view(1), a, known_good ? nullptr : bad.record(),
                 bad.op_id()},
      s.launch());
  bad.throw_if_raised(s, "index", "position", 1);
  return s.finish(std::move(y));
}

// t, of the shape of the index, as the gradient of a source that may be larger.
Tensor widened(Tensor t, const Shape& source) {
  for (int d = 0; d < source.ndim(); ++d) {
    const i64 n = t.size(d);
    if (n == source[d]) continue;
    Shape shape = t.shape();
    shape[d] = source[d];
    t = slice_backward(std::move(t), shape, d, {0, n});
  }
  return t;
}

// Where scatter's source counted: of equal indices only the last one's element was kept.
Tensor kept_by_scatter(const Shape& shape, int axis, const Tensor& index) {
  const NoGrad no_grad;
  if (index.ndim() == 0) return ones({}, {.dtype = DType::boolean, .device = index.device()});
  Shape along;
  for (int d = 0; d < index.ndim(); ++d) along.push_back(d == axis ? index.size(d) : 1);
  const Tensor place = arange(index.size(axis), {.dtype = DType::i64, .device = index.device()});
  const Tensor number = expand(reshape(place, along), index.shape());
  const Tensor last = scatter_by(info::scatter, zeros_of(shape, number), axis, index, number, true);
  return eq(gather_by(last, axis, index, true), number);
}

void scatter_backward(Backward& g) {
  const int axis = g.attribute<Along>().axis;
  const Tensor& index = g.saved(0);
  const Tensor gy = g.take_grad();
  if (g.wants(2)) {
    const Tensor kept = kept_by_scatter(gy.shape(), axis, index);
    g.put(2, widened(where(kept, gather_by(gy, axis, index, true), 0.0), g.input_shape(2)));
  }
  if (g.wants(0))
    g.put(0, scatter_by(info::scatter, gy, axis, index, expand(zeros_of({}, gy), index.shape()),
                        true));
}

void scatter_add_backward(Backward& g) {
  if (g.wants(2))
    g.put(2, widened(gather_by(g.grad(), g.attribute<Along>().axis, g.saved(0), true),
                     g.input_shape(2)));
  if (g.wants(0)) g.put(0, g.take_grad());
}

Tensor scatter_by(const OpInfo& op, const In& x, i64 axis, const In& index, const In& source,
                  bool known_good) {
  const bool adds = &op == &info::scatter_add;
  OpScope s(op, x, index, source, Types::any);
  check_index_dtype(s, 1);
  check_source_dtype(s, 2);
  if (adds) check_adds(s);
  const int a = check_index_shape(s, axis);
  const Geometry &at = s.geometry(1), &from = s.geometry(2);
  bool covers = from.ndim == at.ndim;
  for (int d = 0; covers && d < at.ndim; ++d) covers = from.shape[d] >= at.shape[d];
  if (!covers) s.fail<ShapeError>("the source must be at least as large as the index");
  s.save_input_if(s.wants(2) || (!adds && s.wants(0)), 1);
  Result y = may_take(x, index, source) ? s.result_like()
                                        : result_ordered_like(s, 0, shape_of(s.geometry(0)));
  s.record(adds ? scatter_add_backward : scatter_backward);
  s.set_attribute(Along{a});
  static const u32 set_id = mailbox_op_id(info::scatter), add_id = mailbox_op_id(info::scatter_add);
  BadIndexReport bad(s, adds ? add_id : set_id);
  if (!y.reuses(x)) run(CopyArgs{y.view(), s.view(0)}, s.launch());
  const Seen part = reached(s.view(2), at);
  run(ScatterArgs{y.view(), part.view(), s.view(1), a, adds ? ScatterMode::add : ScatterMode::set,
                  known_good ? nullptr : bad.record(), bad.op_id()},
      s.launch());
  bad.throw_if_raised(s, "index", "position", 1);
  return s.finish(std::move(y));
}

}  // namespace

Tensor gather(const In& x, i64 axis, const In& index) { return gather_by(x, axis, index, false); }

Tensor scatter(const In& x, i64 axis, const In& index, const Operand& source) {
  if (!source.is_scalar()) return scatter_by(info::scatter, x, axis, index, source, false);
  if (!x.impl() || !index.impl()) return scatter_by(info::scatter, x, axis, index, x, false);
  const DType t = dtype_of(x.impl());
  if (source.scalar().kind == Scalar::Kind::floating && !is_floating(t)) {
    const OpScope s(info::scatter, x, index, Types::any);
    s.fail<DtypeError>(str(dtype_name(t), " cannot hold the number ", source.scalar().f));
  }
  const FrameScope frame(x.frame());
  const Tensor value =
      expand(full({}, source.scalar(), {.dtype = t, .device = device_of(x.impl())}),
             shape_of(index.impl()->geometry));
  return scatter_by(info::scatter, x, axis, index, value, false);
}

Tensor scatter_add(const In& x, i64 axis, const In& index, const In& source) {
  return scatter_by(info::scatter_add, x, axis, index, source, false);
}

// --- one list for all rows ---
namespace {

// The shape of x with `index` in the place of the axis.
Shape selected_shape(const OpScope& s, int axis) {
  const Geometry& index = s.geometry(1);
  if (index.ndim > 1)
    s.fail<ShapeError>(str("the index must be 1-d or 0-d, got ", int(index.ndim), " dimensions"));
  Shape shape = shape_of(s.geometry(0));
  if (!shape.empty())
    shape[axis] = index.numel;
  else if (index.numel != 1)
    s.fail<ShapeError>(str("a 0-d tensor has one element to select, not ", index.numel));
  return shape;
}
void throw_bad_entry(const OpScope& s, const BadIndexReport& bad, const Geometry& spread,
                     int axis) {
  const MailboxRecord* r = bad.raised();
  if (!r) return;
  i64 after = 1;
  for (int d = axis + 1; d < spread.ndim; ++d) after *= spread.shape[d];
  s.fail<IndexError>(str("index ", r->value,
                         s.geometry(1).ndim ? str(" at position ", r->position / after) : "",
                         " is outside [0, ", r->limit, ")"));
}

Tensor select_by(const In& x, i64 axis, const In& index, bool known_good);
Tensor index_add_by(const In& x, i64 axis, const In& index, const In& source, bool known_good);

void index_select_backward(Backward& g) {
  const Tensor gy = g.take_grad();
  g.put(0, index_add_by(zeros_of(g.input_shape(0), gy), g.attribute<Along>().axis, g.saved(0), gy,
                        true));
}
void index_add_backward(Backward& g) {
  if (g.wants(2)) g.put(2, select_by(g.grad(), g.attribute<Along>().axis, g.saved(0), true));
  if (g.wants(0)) g.put(0, g.take_grad());
}

Tensor select_by(const In& x, i64 axis, const In& index, bool known_good) {
  OpScope s(info::index_select, x, index, Types::any);
  check_index_dtype(s, 1);
  const int a = s.axis(axis, s.geometry(0).ndim);
  const Shape shape = selected_shape(s, a);
  check_numel(s, shape);
  s.save_input_if(s.wants(0), 1);
  Result y = result_ordered_like(s, 0, shape);
  s.record(index_select_backward);
  s.set_attribute(Along{a});
  static const u32 id = mailbox_op_id(info::index_select);
  BadIndexReport bad(s, id);
  const Seen at = spread(s.view(1), shape, a);
  run(GatherArgs{y.view(), s.view(0), at.view(), a, known_good ? nullptr : bad.record(),
                 bad.op_id()},
      s.launch());
  throw_bad_entry(s, bad, at.geometry, a);
  return s.finish(std::move(y));
}

Tensor index_add_by(const In& x, i64 axis, const In& index, const In& source, bool known_good) {
  OpScope s(info::index_add, x, index, source, Types::any);
  check_index_dtype(s, 1);
  check_source_dtype(s, 2);
  check_adds(s);
  const int a = s.axis(axis, s.geometry(0).ndim);
  const Shape shape = selected_shape(s, a);
  if (shape_of(s.geometry(2)) != shape)
    s.fail<ShapeError>(str("the source must have the shape of what is selected, ", shape));
  s.save_input_if(s.wants(2), 1);
  Result y = may_take(x, index, source) ? s.result_like()
                                        : result_ordered_like(s, 0, shape_of(s.geometry(0)));
  s.record(index_add_backward);
  s.set_attribute(Along{a});
  static const u32 id = mailbox_op_id(info::index_add);
  BadIndexReport bad(s, id);
  if (!y.reuses(x)) run(CopyArgs{y.view(), s.view(0)}, s.launch());
  const Seen at = spread(s.view(1), shape, a);
  run(ScatterArgs{y.view(), s.view(2), at.view(), a, ScatterMode::add,
                  known_good ? nullptr : bad.record(), bad.op_id()},
      s.launch());
  throw_bad_entry(s, bad, at.geometry, a);
  return s.finish(std::move(y));
}

}  // namespace

Tensor index_select(const In& x, i64 axis, const In& index) {
  return select_by(x, axis, index, false);
}

Tensor index_add(const In& x, i64 axis, const In& index, const In& source,
                 const IndexAddOptions& options) {
  if (options.alpha.f == 1) return index_add_by(x, axis, index, source, false);
  CompositeScope s(info::index_add, x, index, source);
  if (!is_floating(s.dtype(0)))
    s.fail<DtypeError>(
        str("alpha must be 1 for ", dtype_name(s.dtype(0)), ", got ", options.alpha.f));
  check_source_dtype(s, 2);
  const Tensor scaled = mul(s.operand(2), options.alpha);
  return s.finish(index_add_by(s.operand(0), axis, s.operand(1), scaled, false));
}

// --- masks ---
namespace {

void check_mask(const OpScope& s) {
  if (s.dtype(1) != DType::boolean)
    s.fail<DtypeError>(str("the mask must be bool, got ", dtype_name(s.dtype(1))), "ne(mask, 0)");
}
Shape masked_shape(const OpScope& s) {
  return broadcast_operands(s, shape_of(s.geometry(0)), shape_of(s.geometry(1)));
}
[[noreturn]] void depends_on_values(const OpScope& s) {
  s.fail<UsageError>("the shape of the result depends on values, which a meta tensor has not");
}
// 0 for bool, 1 for integers, 2 for floats.
int category_of(DType t) { return is_floating(t) ? 2 : t == DType::boolean ? 0 : 1; }

void check_category(const OpScope& s, int category) {
  if (category > category_of(s.dtype(0)))
    s.fail<DtypeError>(str(dtype_name(s.dtype(0)), " cannot hold the value"),
                       "x.to(...) of a wider dtype first");
}

}  // namespace

Tensor masked_fill(const In& x, const In& mask, const Operand& value) {
  if (!value.is_scalar()) {
    CompositeScope s(info::masked_fill, x, mask, value);
    check_mask(s);
    if (s.geometry(2).numel != 1 || s.geometry(2).ndim != 0)
      s.fail<ShapeError>(
          str("the value must be a number or a 0-d tensor, got ", shape_of(s.geometry(2))));
    check_category(s, category_of(s.dtype(2)));
    masked_shape(s);
    return s.finish(where(s.operand(1), to_dtype(s.operand(2), s.dtype(0)), s.operand(0)));
  }
  CompositeScope s(info::masked_fill, x, mask);
  check_mask(s);
  check_category(s, value.scalar().category());
  detail::check_holds(s, value.scalar());
  masked_shape(s);
  return s.finish(where(s.operand(1), value.scalar(), s.operand(0)));
}

Tensor masked_select(const In& x, const In& mask) {
  CompositeScope s(info::masked_select, x, mask);
  check_mask(s);
  Shape shape = masked_shape(s);
  if (s.device().is_meta) depends_on_values(s);
  if (shape.empty()) shape.push_back(1);
  return s.finish(index(expand(s.operand(0), shape), {expand(s.operand(1), shape)}));
}

Tensor nonzero(const In& x) {
  CompositeScope s(info::nonzero, x);
  if (s.device().is_meta) depends_on_values(s);
  const Shape shape = shape_of(s.geometry(0));
  const NoGrad no_grad;
  const std::vector<u8> truth =
      to_dtype(to_dtype(detach(s.operand(0)), DType::boolean), DType::u8).to_vector<u8>();
  std::vector<i64> places;
  i64 at[kMaxDims] = {}, found = 0;
  for (const u8 true_here : truth) {
    if (true_here) {
      places.insert(places.end(), at, at + shape.ndim());
      ++found;
    }
    for (int d = shape.ndim(); d-- > 0;) {
      if (++at[d] < shape[d]) break;
      at[d] = 0;
    }
  }
  return s.finish(to_device(reshape(tensor(places), {found, shape.ndim()}), s.device()));
}

Tensor one_hot(const In& index, std::optional<i64> classes) {
  OpScope s(info::one_hot, index);
  check_index_dtype(s, 0);
  Shape shape = shape_of(s.geometry(0));
  if (classes && *classes < 1)
    s.fail<ShapeError>(str("classes must be at least 1, got ", *classes));
  if (shape.ndim() == kMaxDims)
    s.fail<ShapeError>(str("indices of at most ", kMaxDims - 1, " dimensions, got ", kMaxDims));
  if (!classes) {
    if (s.device().is_meta) depends_on_values(s);
    if (s.geometry(0).numel == 0)
      s.fail<ShapeError>("the number of classes cannot be told from no index",
                         "one_hot(x, classes)");
    const Tensor largest = max(Tensor(detail::retained(s.impl(0))));
    const i64 value = largest.to(DType::i64).to_vector<i64>()[0];
    classes = value < 0 || value == INT64_MAX ? 1 : value + 1;
  }
  Shape at_shape = shape, at_strides = strides_of(s.geometry(0));
  at_shape.push_back(1);
  at_strides.push_back(1);
  shape.push_back(*classes);
  check_numel(s, shape);
  const Seen at{geometry_with(s.geometry(0), at_shape, at_strides), s.view(0).data};
  Result y = s.result(shape, DType::i64);
  const Tensor one = ones({}, {.dtype = DType::i64, .device = s.device()});
  Shape nowhere = at_shape;  // strides of one element that is everywhere
  for (int d = 0; d < nowhere.ndim(); ++d) nowhere[d] = 0;
  const Seen source{geometry_with(one.impl()->geometry, at_shape, nowhere), one.impl()->data};
  run(FillArgs{y.view()}, s.launch());
  static const u32 id = mailbox_op_id(info::one_hot);
  BadIndexReport bad(s, id);
  run(ScatterArgs{y.view(), source.view(), at.view(), at_shape.ndim() - 1, ScatterMode::set,
                  bad.record(), bad.op_id()},
      s.launch());
  bad.throw_if_raised(s, "class", "position", 0);
  return s.finish(std::move(y));
}

namespace detail {
OpInfos gather_ops() {
  static constexpr const OpInfo* kOps[] = {
      &info::gather,        &info::scatter,   &info::scatter_add,
      &info::index_select,  &info::index_add, &info::masked_fill,
      &info::masked_select, &info::nonzero,   &info::one_hot};
  return kOps;
}
}  // namespace detail

}  // namespace wt
