// Bags of rows of a table, made of other operators. Sums of pieces of a list are what the gradient
// of an embedding adds up: rows of one index. The largest rows of pieces that are much of a length
// are found in a table, those of others by comparing neighbours at distances 1, 2, 4, ...: the last
// of a piece then knows them.
#include "warptape/autograd/ops/embedding_bag.h"

#include <algorithm>
#include <cmath>

#include "warptape/autograd/composite_scope.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/ops/gather.h"
#include "warptape/autograd/ops/index.h"
#include "warptape/autograd/ops/internal/dtype_checks.h"
#include "warptape/autograd/ops/internal/loss_checks.h"
#include "warptape/autograd/ops/internal/shape_checks.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/scan.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/autograd/ops/sort.h"
#include "warptape/core/factories.h"
#include "warptape/core/slices.h"

namespace wt {
namespace info {
constexpr OpInfo embedding_bag{.name = "embedding_bag", .composite = true};
}

namespace {

TensorOptions whole_numbers_on(Device d) { return {.dtype = DType::i64, .device = d}; }

// The rows of all bags, one after the other.
struct Bags {
  Tensor indices;  // [M]
  Tensor weight;   // [V, D]
  Tensor bag;      // [M], of each index: i64 of [0, count], count for what is in no bag
  i64 count;       // of bags
  i64 longest;     // no bag has more rows
  bool regular;    // all have as many, before some are passed over
  std::optional<i64> padding;
};

// --- checks ---

bool indexes(DType t) { return t == DType::i64 || t == DType::i32; }

// The length of the longest bag, or n where the host does not look: on other devices than the cpu,
// for whose values it would wait, and inside vmap(), where it has none.
i64 check_offsets(const OpScope& s, const Tensor& offsets, i64 n) {
  bool seen = s.device() == Device::cpu();
  for (int i = 0; i < s.size(); ++i) seen &= !detail::slices_of(s.impl(i));
  if (!seen) return n;
  i64 before = 0, k = 0, longest = 0;
  for (const i64 at : offsets.to(DType::i64).to_vector<i64>()) {
    if (k == 0 && at != 0) s.fail<IndexError>(str("offsets must begin with 0, got ", at));
    if (at < before)
      s.fail<IndexError>(str("offsets must ascend: ", at, " follows ", before, " at position ", k));
    if (at > n)
      s.fail<IndexError>(str("offset ", at, " at position ", k, " is outside [0, ", n, "]"));
    longest = std::max(longest, at - before);
    before = at;
    ++k;
  }
  return std::max(longest, n - before);
}

// The length of the longest bag, or a larger number.
i64 check_bags(const OpScope& s, const EmbeddingBagOptions& o) {
  const Geometry &list = s.geometry(0), &table = s.geometry(1);
  if (!indexes(list.dtype))
    s.fail<DtypeError>(str("indices must be i64 or i32, got ", dtype_name(list.dtype)),
                       ".to(DType::i64)");
  if (table.ndim != 2)
    s.fail<ShapeError>(
        str("the table must be [rows, width], got ", int(table.ndim), " dimensions"));
  detail::require_floating(s, 1);
  if (list.ndim != 1 && list.ndim != 2)
    s.fail<ShapeError>(str("indices must be [bags, length], or 1-d with offsets, got ",
                           int(list.ndim), " dimensions"));
  if (list.ndim == 1 && !o.offsets.defined())
    s.fail<UsageError>("1-d indices need offsets, which say where bags begin");
  if (list.ndim == 2 && (o.offsets.defined() || o.include_last_offset))
    s.fail<UsageError>("offsets are for 1-d indices: the rows of these are the bags");
  i64 longest = list.ndim == 2 ? list.shape[1] : list.numel;
  if (o.offsets.defined()) {
    if (!indexes(o.offsets.dtype()))
      s.fail<DtypeError>(str("offsets must be i64 or i32, got ", dtype_name(o.offsets.dtype())),
                         ".to(DType::i64)");
    if (o.offsets.ndim() != 1)
      s.fail<ShapeError>(str("offsets must be 1-d, got ", o.offsets.shape()));
    if (o.include_last_offset && o.offsets.numel() == 0)
      s.fail<ShapeError>("include_last_offset needs an offset");
    longest = check_offsets(s, o.offsets, list.numel);
  }
  if (o.per_sample_weights.defined()) {
    if (o.mode != EmbeddingBagMode::sum)
      s.fail<UsageError>("per_sample_weights are for EmbeddingBagMode::sum");
    if (o.per_sample_weights.shape() != shape_of(list))
      s.fail<ShapeError>(str("per_sample_weights must have the shape of the indices, ",
                             shape_of(list), ", got ", o.per_sample_weights.shape()));
    if (o.per_sample_weights.dtype() != table.dtype)
      s.fail<DtypeError>(str("per_sample_weights are ", dtype_name(o.per_sample_weights.dtype()),
                             ", the table ", dtype_name(table.dtype)));
  }
  const i64 rows = table.shape[0];
  if (o.padding_idx && (*o.padding_idx < -rows || *o.padding_idx >= rows))
    s.fail<IndexError>(
        str("padding_idx ", *o.padding_idx, " is outside [", -rows, ", ", rows, ")"));
  return longest;
}

// --- which index is in which bag ---

// Places of a list of n that come after k + 1 of the offsets: k. -1 before the first.
Tensor bag_of_places(const Tensor& offsets, i64 n) {
  const TensorOptions whole = whole_numbers_on(offsets.device());
  const Tensor begins = index_add(zeros({n + 1}, whole), 0, offsets, ones(offsets.shape(), whole));
  return sub(slice(cumsum(begins, 0), 0, {0, n}), 1);
}

Bags bags_of(const CompositeScope& s, const EmbeddingBagOptions& o) {
  const i64 longest = check_bags(s, o);
  const NoGrad no_grad;
  Bags b;
  const Tensor given = s.operand(0);
  b.weight = s.operand(1);
  b.indices = reshape(given, {given.numel()});
  const i64 n = b.indices.numel();
  if (given.ndim() == 2) {
    b.count = given.size(0), b.longest = longest;
    const Tensor number = arange(b.count, whole_numbers_on(s.device()));
    b.bag = reshape(expand(unsqueeze(number, 1), given.shape()), {n});
    b.regular = true;
  } else {
    b.count = o.offsets.numel() - (o.include_last_offset ? 1 : 0), b.longest = longest;
    b.bag = bag_of_places(o.offsets, n);
    b.bag = where(lt(b.bag, 0), b.count, b.bag);
    b.regular = false;
  }
  if (o.padding_idx) {
    b.padding = *o.padding_idx < 0 ? *o.padding_idx + b.weight.size(0) : *o.padding_idx;
    b.bag = where(eq(b.indices, *b.padding), b.count, b.bag);
  }
  return b;
}

// How many indices each bag has: [count, 1].
Tensor bag_lengths(const Bags& b, DType t) {
  const TensorOptions whole = whole_numbers_on(b.bag.device());
  const Tensor n = index_add(zeros({b.count + 1}, whole), 0, b.bag, ones(b.bag.shape(), whole));
  return unsqueeze(to_dtype(slice(n, 0, {0, b.count}), t), 1);
}

// --- sum and mean ---

Tensor sum_of_bags(const Bags& b, const Tensor& sample_weights, bool mean) {
  const DType t = loss_dtype(b.weight.dtype());
  Tensor rows = to_dtype(embedding(b.indices, b.weight, {.padding_idx = b.padding}), t);
  // What is passed over counts nothing, whatever is in its row.
  if (b.padding && (b.regular || sample_weights.defined()))
    rows = where(unsqueeze(eq(b.bag, b.count), 1), 0.0, rows);
  if (sample_weights.defined())
    rows = weighted_or_zero(unsqueeze(to_dtype(reshape(sample_weights, {b.indices.numel()}), t), 1),
                            rows);
  Tensor y;
  if (b.regular)
    y = sum(reshape(rows, {b.count, b.longest, b.weight.size(1)}), 1);
  else
    y = slice(embedding_backward(rows, b.bag, b.count + 1, {.padding_idx = b.count}), 0,
              {0, b.count});
  return mean ? div(y, maximum(bag_lengths(b, t), 1.0)) : y;
}

// --- max ---

// Rows in the order of their bags, with the numbers of those that each bag ends with: -1, none.
struct RowsOfBags {
  Tensor bag, indices, value;  // [M], [M], [M, D]
  Tensor last;                 // [count]
};
RowsOfBags rows_of_bags(const Bags& b) {
  RowsOfBags r{b.bag, b.indices, embedding(b.indices, b.weight.detach()), {}};
  if (b.padding) {  // what is passed over does not stand between the rows of a bag
    const Tensor order = argsort(r.bag);
    r.bag = gather(r.bag, 0, order);
    r.indices = gather(r.indices, 0, order);
    r.value = index_select(r.value, 0, order);
  }
  const TensorOptions whole = whole_numbers_on(r.bag.device());
  const Tensor number = arange(r.bag.numel(), whole);
  r.last = slice(scatter(full({b.count + 1}, -1, whole), 0, r.bag, number), 0, {0, b.count});
  return r;
}

// Which row has the first of the largest elements, of each column of each bag: [count, D]; any row
// for bags that have none. The rows stand in a table, a line a bag.
Tensor largest_of_lines(const Bags& b, const RowsOfBags& r) {
  const Tensor lengths = bag_lengths(b, DType::i64);
  const Tensor begins = add(sub(unsqueeze(r.last, 1), lengths), 1);
  const Tensor number = arange(b.longest, whole_numbers_on(r.bag.device()));
  const Tensor there = lt(number, lengths);
  const Tensor lines = embedding(where(there, add(begins, number), 0), r.value);
  return add(argmax(where(unsqueeze(there, 2), lines, -INFINITY), 1), begins);
}
// The same where bags are of many lengths, or of unknown ones.
Tensor largest_of_neighbours(const Bags& b, const RowsOfBags& r) {
  const i64 n = r.bag.numel();
  Tensor value = r.value;
  Tensor place = expand(unsqueeze(arange(n, whole_numbers_on(r.bag.device())), 1), value.shape());
  for (i64 step = 1; step < n && step < b.longest; step *= 2) {
    const Slice here{step, n}, before{0, n - step};
    const Tensor same = unsqueeze(eq(slice(r.bag, 0, here), slice(r.bag, 0, before)), 1);
    const Tensor own = slice(value, 0, here), other = slice(value, 0, before);
    const Tensor earlier = logical_and(same, logical_or(ge(other, own), isnan(other)));
    value = cat({slice(value, 0, {0, step}), where(earlier, other, own)}, 0);
    place = cat({slice(place, 0, {0, step}),
                 where(earlier, slice(place, 0, before), slice(place, 0, here))},
                0);
  }
  return index_select(place, 0, clamp_min(r.last, 0));
}

// Which row of the table has them, i64 or i32 [count, D], and which bags have none, bool [count,
// 1].
struct LargestRows {
  Tensor index, none;
};
LargestRows largest_rows(const Bags& b) {
  const NoGrad no_grad;
  const i64 n = b.indices.numel(), width = b.weight.size(1);
  if (b.regular && !b.padding && n > 0) {
    const Tensor value = embedding(b.indices, b.weight.detach());
    const Tensor place = argmax(reshape(value, {b.count, b.longest, width}), 1);
    return {gather(reshape(b.indices, {b.count, b.longest}), 1, place),
            zeros({b.count, 1}, {.dtype = DType::boolean, .device = b.bag.device()})};
  }
  const RowsOfBags r = rows_of_bags(b);
  const Tensor none = unsqueeze(lt(r.last, 0), 1);
  if (n == 0 || b.count == 0)
    return {zeros({b.count, width}, whole_numbers_on(b.bag.device())), none};
  const Tensor place =
      b.longest <= 2 * n / b.count ? largest_of_lines(b, r) : largest_of_neighbours(b, r);
  return {gather(expand(unsqueeze(r.indices, 1), {n, width}), 0, place), none};
}

Tensor max_of_bags(const Bags& b) {
  const LargestRows r = largest_rows(b);
  if (b.weight.size(0) == 0)  // and so no index
    return zeros({b.count, b.weight.size(1)},
                 {.dtype = b.weight.dtype(), .device = b.weight.device()});
  return where(r.none, 0.0, gather(b.weight, 0, r.index));
}

}  // namespace

Tensor embedding_bag(const In& indices, const In& weight, const EmbeddingBagOptions& options) {
  std::optional<In> more[2];
  const In* in[4] = {&indices, &weight};
  int n = 2;
  if (options.offsets.defined()) in[n++] = &more[0].emplace(options.offsets);
  if (options.per_sample_weights.defined()) in[n++] = &more[1].emplace(options.per_sample_weights);
  const In* const* list = in;
  CompositeScope s(info::embedding_bag, list, n, Types::any);
  const Bags b = bags_of(s, options);
  check_numel(s, {b.count + 1, b.weight.size(1)});
  Tensor y =
      options.mode == EmbeddingBagMode::max
          ? max_of_bags(b)
          : sum_of_bags(b, options.per_sample_weights, options.mode == EmbeddingBagMode::mean);
  return s.finish(to_dtype(std::move(y), s.dtype(1)));
}

namespace detail {
OpInfos embedding_bag_ops() {
  static constexpr const OpInfo* kOps[] = {&info::embedding_bag};
  return kOps;
}
}  // namespace detail

}  // namespace wt
