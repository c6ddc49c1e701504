#include "warptape/autograd/ops/internal/index_list.h"

#include <algorithm>
#include <deque>

#include "warptape/autograd/ops/internal/bad_index.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/factories.h"
#include "warptape/kernels/index.h"

namespace wt::detail {
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

template <class E>
[[noreturn]] WT_COLD void refuse(const Tensor& base, const Index& i, const std::string& why) {
  throw E(str("[index] ", why, "\n  operand 0: ", describe(base), "\n  index: ", describe(i.tensor),
              "\n  at ", describe(i.at)));
}

}  // namespace

int axes_of_ellipsis(int ndim, std::span<const Index> at) {
  const Index* ellipsis = nullptr;
  int taken = 0;
  for (const Index& i : at) {
    if (i.kind == Index::Kind::ellipsis) {
      if (ellipsis)
        throw IndexError(str("[index] only one ellipsis in a list\n  at ", describe(i.at)));
      ellipsis = &i;
    } else if (i.kind == Index::Kind::tensor) {
      if (!i.tensor.defined()) use_of_undefined(i.at);
      taken += i.tensor.dtype() == DType::boolean ? i.tensor.ndim() : 1;
    } else {
      taken += i.kind != Index::Kind::newaxis;
    }
  }
  return ellipsis && taken < ndim ? ndim - taken : 0;
}

void IndexList::cut(Tensor view, int axis, const Index& entry) {
  cuts.push_back({std::move(base), axis, &entry});
  base = std::move(view);
}

void IndexList::add_tensor(const Index& i, int& axis) {
  const Tensor& t = i.tensor;
  if (!t.defined()) use_of_undefined();
  const Device d = base.device();
  const bool mask = t.dtype() == DType::boolean;
  const int taken = mask ? t.ndim() : 1;
  if (!mask && t.dtype() != DType::i64 && t.dtype() != DType::i32)
    refuse<DtypeError>(base, i,
                       str("indices must be i64, i32 or bool, got ", dtype_name(t.dtype())));
  if (taken == 0) refuse<ShapeError>(base, i, "a mask needs at least one axis");
  if (axis + taken > base.ndim())
    refuse<IndexError>(base, i, str("too many indices for ", base.ndim(), " dimensions"));
  if (!mask) {
    axes.push_back(axis++);
    lists.push_back(t.device() == d ? t : t.to(d));
    return;
  }
  for (int k = 0; k < taken; ++k)
    if (t.size(k) != base.size(axis + k))
      refuse<IndexError>(base, i,
                         str("the mask has size ", t.size(k), " where axis ", axis + k, " has ",
                             base.size(axis + k)));
  for (Tensor& list : places_of(t, d, i.at)) {
    axes.push_back(axis++);
    lists.push_back(std::move(list));
  }
}

IndexList::IndexList(Tensor x, std::span<const Index> list) : base(std::move(x)) {
  const int skipped = axes_of_ellipsis(base.ndim(), list);
  int axis = 0;
  for (const Index& i : list) {
    if (!at) at = i.at;
    const FrameScope frame(i.at);
    switch (i.kind) {
      case Index::Kind::integer:
        cut(select(base, axis, i.integer), axis, i);
        break;
      case Index::Kind::slice:
        cut(slice(base, axis, i.slice), axis, i), ++axis;
        break;
      case Index::Kind::newaxis:
        cut(unsqueeze(base, axis), axis, i), ++axis;
        break;
      case Index::Kind::ellipsis:
        axis += skipped;
        break;
      case Index::Kind::tensor:
        add_tensor(i, axis);
        break;
    }
  }
  if (axes.empty()) return;
  const FrameScope frame(at);
  broadcast = lists[0].shape();
  for (const Tensor& t : lists) {
    try {
      broadcast = broadcast_shapes("", broadcast, t.shape());
    } catch (const ShapeError&) {
      throw ShapeError(str("[index] index shapes ", broadcast, " and ", t.shape(),
                           " do not broadcast\n  operand 0: ", describe(base), "\n  at ",
                           describe(at)));
    }
  }
  const int dims = broadcast.ndim() + base.ndim() - int(axes.size());
  if (dims > kMaxDims)
    throw ShapeError(str("[index] the result would have ", dims, " dimensions, at most ", kMaxDims,
                         "\n  at ", describe(at)));
  position = place_of_broadcast();
  for (Tensor& t : lists) t = expand(t, broadcast);
}

int IndexList::place_of_broadcast() const {
  int integers = 0;  // 0-d lists up to here
  std::vector<int> among;
  for (size_t k = 0; k < axes.size(); ++k) {
    if (lists[k].ndim() == 0)
      ++integers;
    else
      among.push_back(axes[k] - integers);
  }
  if (among.empty()) return 0;
  const bool neighbours = among.back() - among.front() == int(among.size()) - 1;
  return neighbours ? among.front() : 0;
}

Tensor IndexList::row_numbers(const OpInfo& op) const {
  std::deque<In> in;
  std::vector<const In*> pointers;
  for (const Tensor& t : lists) in.emplace_back(t, at.file, at.line);
  for (const In& i : in) pointers.push_back(&i);
  const In* const* const operands = pointers.data();
  OpScope s(op, operands, int(pointers.size()), Types::any);
  Result rows = s.result(broadcast, DType::i64);
  BadIndexReport bad(s, mailbox_op_id(op));
  IndexRowsArgs k{};
  k.rows = rows.view();
  k.count = s.size();
  k.mailbox = bad.record();
  k.op_id = bad.op_id();
  for (int i = 0; i < k.count; ++i) {
    k.indices[i] = s.view(i);
    k.size[i] = base.size(axes[size_t(i)]);
  }
  run(k, s.launch());
  if (const MailboxRecord* r = bad.raised()) {
    Shape place = broadcast;
    i64 rest = r->position;
    for (int d = place.ndim(); d-- > 0;) place[d] = rest % broadcast[d], rest /= broadcast[d];
    s.fail<IndexError>(str("index ", r->value, place.ndim() ? str(" at ", place) : std::string(),
                           " is outside [", -r->limit, ", ", r->limit, ")"));
  }
  return s.finish(std::move(rows)).reshape({numel_of(broadcast)});
}

IndexTable::IndexTable(const IndexList& p) : front_order(p.axes.begin(), p.axes.end()) {
  const int taken = int(p.axes.size());
  for (int d = 0; d < p.base.ndim(); ++d)
    if (std::find(p.axes.begin(), p.axes.end(), d) == p.axes.end()) front_order.push_back(d);
  front = permute(p.base, front_order);
  picked = p.broadcast;
  for (int d = 0; d < front.ndim(); ++d) {
    const i64 n = front.size(d);
    (d < taken ? rows : width) *= n;
    if (d >= taken) picked.push_back(n);
  }
  const int b = p.broadcast.ndim();
  for (int d = 0; d < p.position; ++d) result_order.push_back(b + d);
  for (int d = 0; d < b; ++d) result_order.push_back(d);
  for (int d = b + p.position; d < picked.ndim(); ++d) result_order.push_back(d);
  for (const i64 d : result_order) result.push_back(picked[int(d)]);
}

std::vector<i64> inverse_order(const std::vector<i64>& order) {
  std::vector<i64> inverse(order.size());
  for (size_t d = 0; d < order.size(); ++d) inverse[size_t(order[d])] = i64(d);
  return inverse;
}

}  // namespace wt::detail
