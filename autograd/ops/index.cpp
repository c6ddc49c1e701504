// Embedding and reading by tensors as indices: rows of a table by index. The gradient of the table
// is linear in the gradient of the rows, and each is the other's transpose, so both differentiate
// to any order.
#include <optional>

#include "warptape/autograd/backward.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/ops/index.h"
#include "warptape/autograd/ops/internal/bad_index.h"
#include "warptape/autograd/ops/internal/index_list.h"
#include "warptape/autograd/ops/internal/shape_checks.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/kernels/embedding.h"

namespace wt {
namespace info {
constexpr OpInfo embedding{.name = "embedding", .derivative = Derivative::linear};
constexpr OpInfo embedding_backward{.name = "embedding_backward", .derivative = Derivative::linear};
constexpr OpInfo index{.name = "index", .derivative = Derivative::linear};
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
  check_numel(s, shape);
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
  if (!is_floating(g.dtype) || !computes(g.dtype))
    s.fail<DtypeError>(str("expected a gradient of floats, got ", dtype_name(g.dtype)));
  check_shape(s, {rows, g.shape[g.ndim - 1]});
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
          g.launch());
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

// --- tensors as indices ---

Tensor detail::rows_of(const Tensor& table, const Tensor& rows) {
  const In rows_in(rows), table_in(table);
  return look_up(rows_in, table_in, std::nullopt, false, info::index);
}

Tensor index(const In& x, std::span<const Index> at) {
  if (!x.impl()) detail::use_of_undefined(x.frame());
  const detail::IndexList p(Tensor(detail::retained(x.impl())), at);
  if (p.axes.empty()) return p.base;
  const FrameScope frame(p.at ? p.at : x.frame());
  const detail::IndexTable t(p);
  const Tensor y = detail::rows_of(t.table(), p.row_numbers(info::index));
  return permute(y.reshape(t.picked), t.result_order);
}
Tensor index(const In& x, std::initializer_list<Index> at) {
  return index(x, std::span(at.begin(), at.size()));
}

namespace detail {
OpInfos index_ops() {
  static constexpr const OpInfo* kOps[] = {&info::embedding, &info::embedding_backward,
                                           &info::index};
  return kOps;
}
}  // namespace detail

}  // namespace wt
