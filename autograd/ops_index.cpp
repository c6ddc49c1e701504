// Embedding and indexing by tensors: rows of a table by index. The gradient of the table is linear
// in the gradient of the rows, and each is the other's transpose, so both differentiate to any
// order.
#include <algorithm>
#include <deque>
#include <optional>
#include <type_traits>

#include "warptape/autograd/bad_index.h"
#include "warptape/autograd/engine.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/ops_index.h"
#include "warptape/autograd/ops_pointwise.h"
#include "warptape/autograd/ops_shape.h"
#include "warptape/core/factories.h"
#include "warptape/kernels/embedding.h"
#include "warptape/kernels/index.h"

namespace wt {
namespace info {
constexpr OpInfo embedding{.name = "embedding", .derivative = Derivative::linear};
constexpr OpInfo embedding_backward{.name = "embedding_backward", .derivative = Derivative::linear};
constexpr OpInfo index{.name = "index", .derivative = Derivative::linear};
constexpr OpInfo index_put_{.name = "index_put_", .derivative = Derivative::none, .in_place = true};
}  // namespace info

void BadIndexReport::raise(const OpScope& s, const char* what, const char* one, int list) const {
  const Geometry& g = s.geometry(list);
  std::string place;
  if (g.ndim == 0) {
    place = "";
  } else if (g.ndim == 1) {
    place = str(" at ", one, " ", own_.position);
  } else {
    Shape at(g.shape, g.ndim);
    i64 rest = own_.position;
    for (int d = g.ndim; d-- > 0;) at[d] = rest % g.shape[d], rest /= g.shape[d];
    place = str(" at ", at);
  }
  s.fail<IndexError>(str(what, " ", own_.value, place, " is outside [0, ", own_.limit, ")"));
}

namespace {

constexpr i64 kNone = -1;  // no padding: a valid index never equals it

struct EmbeddingAttributes {
  i64 padding;  // its row gets no gradient
  bool zeros;   // and reads as zeros: the transpose of the gradient
};

void check_indices(const OpScope& s, int operand) {
  const DType t = s.dtype(operand);
  if (t != DType::i64 && t != DType::i32)
    s.fail<DtypeError>(str("indices must be i64 or i32, got ", dtype_name(t)), ".to(DType::i64)");
  if (s.geometry(operand).ndim == kMaxDims)
    s.fail<ShapeError>(str("indices of at most ", kMaxDims - 1, " dimensions, got ", kMaxDims));
}

void embedding_backward_of_table(Backward& g);

// Operands: indices, weight.
Tensor look_up(const In& indices, const In& weight, std::optional<i64> padding, bool zeros,
               const OpInfo& op = info::embedding) {
  OpScope s(op, indices, weight, Types::any);
  check_indices(s, 0);
  const Geometry &list = s.geometry(0), &table = s.geometry(1);
  if (table.ndim != 2)
    s.fail<ShapeError>(
        str("the table must be [rows, width], got ", int(table.ndim), " dimensions"));
  if (&op == &info::embedding && (!is_floating(table.dtype) || !computes(table.dtype)))
    s.fail<DtypeError>(str("expected a table of floats, got ", dtype_name(table.dtype)));
  EmbeddingAttributes a{kNone, zeros};
  if (padding) {
    const i64 rows = table.shape[0];
    if (*padding < -rows || *padding >= rows)
      s.fail<IndexError>(str("padding_idx ", *padding, " is outside [", -rows, ", ", rows, ")"));
    a.padding = *padding < 0 ? *padding + rows : *padding;
  }
  if (table.shape[0] == 0 && list.numel > 0)
    s.fail<IndexError>(str(list.numel, " indices into a table without rows"));
  Shape shape(list.shape, list.ndim);
  shape.push_back(table.shape[1]);
  numel_of(shape);  // the product may overflow
  s.save_input_if(s.wants(1), 0);
  Result y = s.result(shape, table.dtype);
  s.record(embedding_backward_of_table);
  s.set_attribute(a);
  static const u32 id = mailbox_op_id(info::embedding);
  BadIndexReport bad(s, id);
  EmbeddingForwardArgs k{y.view(),     s.view(1),  s.view(0), a.zeros ? a.padding : kNone,
                         bad.record(), bad.op_id()};
  if (&op == &info::index) k.mailbox = nullptr;  // its row numbers were checked
  run(k, s.launch());
  bad.throw_if_raised(s, "token id", "position", 0);
  return s.finish(std::move(y));
}

void embedding_backward_backward(Backward& g) {
  const i64 skip = g.attribute<i64>();
  g.put(0, look_up(g.saved(0), g.take_grad(), skip == kNone ? std::nullopt : std::optional(skip),
                   true));
}

// Operands: gout, indices.
Tensor scatter_add(const In& gout, const In& indices, i64 rows, i64 skip) {
  OpScope s(info::embedding_backward, gout, indices, Types::any);
  check_indices(s, 1);
  const Geometry &g = s.geometry(0), &list = s.geometry(1);
  bool fits = g.ndim == list.ndim + 1;
  for (int d = 0; fits && d < list.ndim; ++d) fits = g.shape[d] == list.shape[d];
  if (!fits)
    s.fail<ShapeError>("the gradient must have the shape of the indices and one more dimension");
  s.save_input(1);
  Result gw = s.result({rows, g.shape[g.ndim - 1]}, g.dtype);
  s.record(embedding_backward_backward);
  s.set_attribute(skip);
  run(EmbeddingBackwardArgs{gw.view(), s.view(0), s.view(1), skip, false}, s.launch());
  return s.finish(std::move(gw));
}

void embedding_backward_of_table(Backward& g) {
  if (!g.wants(1)) return;
  const auto a = g.attribute<EmbeddingAttributes>();
  const Tensor& indices = g.saved(0);
  const Tensor& gout = g.grad();
  if (!g.recording())
    if (const GradSlot slot = g.slot(1)) {
      run(EmbeddingBackwardArgs{slot.view(), view_of(gout.impl()), view_of(indices.impl()),
                                a.padding, slot.accumulate},
          Launch{g.node->info, mode.native_stream, nullptr, gout.device()});
      return;
    }
  g.put(1, scatter_add(gout, indices, g.input_shape(1)[0], a.padding));
}

}  // namespace

Tensor embedding(const In& indices, const In& weight, const EmbeddingOptions& options) {
  return look_up(indices, weight, options.padding_idx, false);
}

Tensor embedding_backward(const In& gout, const In& indices, i64 rows,
                          const EmbeddingOptions& options) {
  return scatter_add(gout, indices, rows, options.padding_idx.value_or(kNone));
}

// --- tensors as indices --------------------------------------------------------------------------

namespace {

// The true elements of a mask, one i64 list an axis. Their number decides a shape: the host reads.
std::vector<Tensor> places_of(const Tensor& mask, Device d, Frame at) {
  if (mask.device().is_meta)
    throw UsageError(
        str("[index] the shape of what a bool mask picks depends on its values, which a "
            "meta tensor has not\n  at ",
            describe(at)));
  const Shape shape = mask.shape();
  const std::vector<u8> truth = mask.to(DType::u8).to_vector<u8>();
  std::vector<std::vector<i64>> places(size_t(shape.ndim()));
  for (size_t e = 0; e < truth.size(); ++e) {
    if (!truth[e]) continue;
    i64 rest = i64(e);
    for (int k = shape.ndim(); k-- > 0;) {
      places[size_t(k)].push_back(rest % shape[k]);
      rest /= shape[k];
    }
  }
  std::vector<Tensor> lists;
  for (const std::vector<i64>& p : places) lists.push_back(tensor(p, {.dtype = DType::i64}).to(d));
  return lists;
}

// An index list, taken apart.
struct Parsed {
  Tensor base;                  // after the integers and slices: a view
  std::vector<int> axes{};      // of base that tensors index, ascending
  std::vector<Tensor> lists{};  // their indices, expanded to `broadcast`
  Shape broadcast{};
  int position = 0;  // where `broadcast` goes among base's other axes
  Frame at{};
};

void add_tensor(Parsed& p, const Index& i, int& axis) {
  const Tensor& t = i.tensor;
  if (!t.defined()) detail::use_of_undefined();
  const Device d = p.base.device();
  const bool mask = t.dtype() == DType::boolean;
  const int taken = mask ? t.ndim() : 1;
  const auto refuse = [&]<class E>(std::type_identity<E>, const std::string& why) {
    throw E(str("[index] ", why, "\n  operand 0: ", describe(p.base), "\n  index: ", describe(t),
                "\n  at ", describe(i.at)));
  };
  if (!mask && t.dtype() != DType::i64 && t.dtype() != DType::i32)
    refuse(std::type_identity<DtypeError>{},
           str("indices must be i64, i32 or bool, got ", dtype_name(t.dtype())));
  if (taken == 0) refuse(std::type_identity<ShapeError>{}, "a mask needs at least one axis");
  if (axis + taken > p.base.ndim())
    refuse(std::type_identity<IndexError>{},
           str("too many indices for ", p.base.ndim(), " dimensions"));
  if (!mask) {
    p.axes.push_back(axis++);
    p.lists.push_back(t.device() == d ? t : t.to(d));
    return;
  }
  for (int k = 0; k < taken; ++k)
    if (t.size(k) != p.base.size(axis + k))
      refuse(std::type_identity<IndexError>{}, str("the mask has size ", t.size(k), " where axis ",
                                                   axis + k, " has ", p.base.size(axis + k)));
  for (Tensor& list : places_of(t, d, i.at)) {
    p.axes.push_back(axis++);
    p.lists.push_back(std::move(list));
  }
}

Parsed parse_index(Tensor x, std::initializer_list<Index> at) {
  Parsed p{std::move(x)};
  int axis = 0;
  for (const Index& i : at) {
    if (!p.at) p.at = i.at;
    const FrameScope frame(i.at);
    if (i.kind == Index::Kind::integer)
      p.base = select(std::move(p.base), axis, i.integer);
    else if (i.kind == Index::Kind::slice)
      p.base = slice(std::move(p.base), axis++, i.slice);
    else
      add_tensor(p, i, axis);
  }
  if (p.axes.empty()) return p;
  const FrameScope frame(p.at);
  p.broadcast = p.lists[0].shape();
  for (const Tensor& t : p.lists) p.broadcast = broadcast_shapes("index", p.broadcast, t.shape());
  const int dims = p.broadcast.ndim() + p.base.ndim() - int(p.axes.size());
  if (dims > kMaxDims)
    throw ShapeError(str("[index] the result would have ", dims, " dimensions, at most ", kMaxDims,
                         "\n  at ", describe(p.at)));
  for (Tensor& t : p.lists) t = expand(t, p.broadcast);
  const bool neighbours = p.axes.back() - p.axes.front() == int(p.axes.size()) - 1;
  p.position = neighbours ? p.axes.front() : 0;
  return p;
}

// base's axes with the indexed ones in front.
std::vector<i64> indexed_first(const Parsed& p) {
  std::vector<i64> order(p.axes.begin(), p.axes.end());
  for (int d = 0; d < p.base.ndim(); ++d)
    if (std::find(p.axes.begin(), p.axes.end(), d) == p.axes.end()) order.push_back(d);
  return order;
}

// The axes of the result: `broadcast` in its place among the others, given [broadcast.., others..].
std::vector<i64> result_order(const Parsed& p, int others) {
  std::vector<i64> order;
  const int b = p.broadcast.ndim();
  for (int d = 0; d < p.position; ++d) order.push_back(b + d);
  for (int d = 0; d < b; ++d) order.push_back(d);
  for (int d = p.position; d < others; ++d) order.push_back(b + d);
  return order;
}
std::vector<i64> inverse_of(const std::vector<i64>& order) {
  std::vector<i64> inverse(order.size());
  for (size_t d = 0; d < order.size(); ++d) inverse[size_t(order[d])] = i64(d);
  return inverse;
}

// How the table of rows is made of base: [rows, width], and the shapes around it.
struct Table {
  Tensor front;  // base with the indexed axes first: a view
  i64 rows = 1, width = 1;
  Shape others{};
};
Table table_of(const Parsed& p) {
  Table t{permute(p.base, indexed_first(p))};
  const int k = int(p.axes.size());
  for (int d = 0; d < t.front.ndim(); ++d) {
    const i64 n = t.front.size(d);
    (d < k ? t.rows : t.width) *= n;
    if (d >= k) t.others.push_back(n);
  }
  return t;
}

// Row numbers of the index tuples, checked: on the cpu at once, elsewhere -1 and the mailbox.
Tensor row_numbers(const OpInfo& op, const Parsed& p) {
  std::deque<In> in;
  std::vector<const In*> pointers;
  for (const Tensor& t : p.lists) in.emplace_back(t, p.at.file, p.at.line);
  for (const In& i : in) pointers.push_back(&i);
  const In* const* const operands = pointers.data();
  OpScope s(op, operands, int(pointers.size()), Types::any);
  Result rows = s.result(p.broadcast, DType::i64);
  BadIndexReport bad(s, mailbox_op_id(op));
  IndexRowsArgs k{};
  k.rows = rows.view();
  k.count = s.size();
  k.mailbox = bad.record();
  k.op_id = bad.op_id();
  for (int i = 0; i < k.count; ++i) {
    k.indices[i] = s.view(i);
    k.size[i] = p.base.size(p.axes[size_t(i)]);
  }
  run(k, s.launch());
  if (const MailboxRecord* r = bad.raised()) {
    Shape place = p.broadcast;
    i64 rest = r->position;
    for (int d = place.ndim(); d-- > 0;) place[d] = rest % p.broadcast[d], rest /= p.broadcast[d];
    s.fail<IndexError>(str("index ", r->value, place.ndim() ? str(" at ", place) : std::string(),
                           " is outside [", -r->limit, ", ", r->limit, ")"));
  }
  return s.finish(std::move(rows));
}

Shape joined(Shape a, const Shape& b) {
  for (int d = 0; d < b.ndim(); ++d) a.push_back(b[d]);
  return a;
}

}  // namespace

Tensor index(const In& x, std::initializer_list<Index> at) {
  if (!x.impl()) detail::use_of_undefined();
  const Parsed p = parse_index(Tensor(detail::retained(x.impl())), at);
  if (p.axes.empty()) return p.base;
  const FrameScope frame(p.at ? p.at : x.frame());
  const Table t = table_of(p);
  const Tensor rows = row_numbers(info::index, p).reshape({numel_of(p.broadcast)});
  const Tensor table = t.front.reshape({t.rows, t.width});
  const In rows_in(rows), table_in(table);
  const Tensor y = look_up(rows_in, table_in, std::nullopt, false, info::index);
  return permute(y.reshape(joined(p.broadcast, t.others)), result_order(p, t.others.ndim()));
}

Tensor& Tensor::index_put_(std::initializer_list<Index> at, const Tensor& value,
                           IndexPutOptions options, Frame where) & {
  checked();
  value.checked();
  if (mode.recomputation && detail::leaves_alone(p_)) return *this;
  const bool recorded = mode.grad && (requires_grad() || value.requires_grad());
  const FrameScope frame(where);
  const Parsed p = parse_index(*this, at);
  if (p.axes.empty() && p.base.same_as(*this) && !options.accumulate) return copy_(value, where);
  if (recorded)
    throw InplaceError(
        str("[index_put_] writing into part of a tensor while gradients are recorded", "\n  at ",
            describe(where),
            "\n  Try it under NoGrad, or cat() of the parts, which makes a new tensor"));
  const NoGrad no_grad;
  Tensor base = p.base;
  if (p.axes.empty()) {
    if (options.accumulate)
      base.add_(value, where);
    else
      base.copy_(value, where);
    return *this;
  }
  const Table t = table_of(p);
  const std::vector<i64> order = result_order(p, t.others.ndim());
  const Shape front = joined(p.broadcast, t.others);
  Shape wanted = front;
  for (int d = 0; d < wanted.ndim(); ++d) wanted[d] = front[int(order[size_t(d)])];
  if (broadcast_shapes("index_put_", wanted, value.shape()) != wanted)
    throw ShapeError(str("[index_put_] shape ", value.shape(), " does not broadcast to ", wanted,
                         "\n  at ", describe(where)));
  if (options.accumulate && !is_floating(dtype()))
    throw DtypeError(str("[index_put_] accumulates floats, this is ", wt::describe(*this),
                         "\n  at ", describe(where)));
  const i64 n = numel_of(p.broadcast);
  const Tensor rows = row_numbers(info::index_put_, p).reshape({n});
  Tensor given = value.to(dtype(), where).to(device(), where);
  if (given.impl()->storage == impl()->storage) given = given.clone();
  const Tensor spread = given.expand(wanted);
  const Tensor values = wt::permute(spread, inverse_of(order)).contiguous().reshape({n, t.width});
  // A table whose rows lie evenly is written in place, any other through a copy.
  Tensor table = t.front.reshape({t.rows, t.width});
  const bool direct = table.impl()->storage == impl()->storage &&
                      (!options.accumulate || table.impl()->geometry.dense);
  if (!direct) table = t.front.clone().reshape({t.rows, t.width});
  const In self(table, where.file, where.line), rows_in(rows), values_in(values);
  {
    OpScope s(info::index_put_, self, rows_in, values_in, Types::any);
    if (options.accumulate)
      run(EmbeddingBackwardArgs{s.view(0), s.view(2), s.view(1), kNone, true}, s.launch());
    else
      run(IndexPutArgs{s.view(0), s.view(1), s.view(2)}, s.launch());
    s.finish_in_place();
  }
  if (!direct) {
    Tensor to = t.front;
    to.copy_(table.reshape(to.shape()), where);
  }
  return *this;
}

namespace detail {
OpInfos index_ops() {
  static constexpr const OpInfo* kOps[] = {&info::embedding, &info::embedding_backward,
                                           &info::index, &info::index_put_};
  return kOps;
}
}  // namespace detail

}  // namespace wt
