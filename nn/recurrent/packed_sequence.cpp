#include "warptape/nn/packed_sequence.h"

#include <algorithm>
#include <numeric>

#include "warptape/autograd/ops/gather.h"
#include "warptape/autograd/ops/index.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/at_line.h"
#include "warptape/core/call_lines.h"
#include "warptape/core/factories.h"

namespace wt::nn {
namespace {

constexpr const char* kPack = "pack_padded_sequence";
constexpr const char* kPad = "pad_packed_sequence";

Tensor indices_on(const std::vector<i64>& values, Device d) { return tensor(values).to(d); }

// Lengths of x's sequences, x being [T, N, ...] or [N, T, ...].
void check_lengths(const Tensor& x, const std::vector<i64>& lengths, bool batch_first) {
  if (x.ndim() < 2)
    throw ShapeError(str("[", kPack, "] x must be ", batch_first ? "[N, T, ...]" : "[T, N, ...]",
                         ", got ", x.shape(), at_line()));
  const i64 n = x.size(batch_first ? 0 : 1), steps = x.size(batch_first ? 1 : 0);
  if (i64(lengths.size()) != n)
    throw ShapeError(str("[", kPack, "] ", lengths.size(), " lengths of ", n, " sequences, x ",
                         x.shape(), at_line()));
  if (n == 0) throw ShapeError(str("[", kPack, "] x has no sequence: ", x.shape(), at_line()));
  for (size_t i = 0; i < lengths.size(); ++i)
    if (lengths[i] < 1 || lengths[i] > steps)
      throw UsageError(str("[", kPack, "] lengths must be in [1, ", steps, "], sequence ", i,
                           " has ", lengths[i], at_line()));
}

std::vector<i64> sorted_order(const std::vector<i64>& lengths) {
  std::vector<i64> order(lengths.size());
  std::iota(order.begin(), order.end(), i64(0));
  std::stable_sort(order.begin(), order.end(),
                   [&](i64 a, i64 b) { return lengths[size_t(a)] > lengths[size_t(b)]; });
  return order;
}
std::vector<i64> inverse(const std::vector<i64>& order) {
  std::vector<i64> at(order.size());
  for (size_t k = 0; k < order.size(); ++k) at[size_t(order[k])] = i64(k);
  return at;
}

// Where the packed data lie in a padded batch of `steps` steps and `order.size()` sequences.
std::vector<i64> padded_rows(const std::vector<i64>& batch_sizes, const std::vector<i64>& order,
                             i64 steps, bool batch_first) {
  std::vector<i64> rows;
  for (size_t t = 0; t < batch_sizes.size(); ++t)
    for (i64 k = 0; k < batch_sizes[t]; ++k) {
      const i64 i = order[size_t(k)];
      rows.push_back(batch_first ? i * steps + i64(t) : i64(t) * i64(order.size()) + i);
    }
  return rows;
}

// x's two first axes as one.
Tensor as_rows(const Tensor& x) {
  Shape shape = x.shape();
  const i64 rows = shape[0] * shape[1];
  shape.erase(0);
  shape[0] = rows;
  return reshape(x, shape);
}

}  // namespace

PackedSequence pack_padded_sequence(const Tensor& x, const std::vector<i64>& lengths,
                                    const PackOptions& o, Frame at) {
  const FrameScope frame(at);
  check_lengths(x, lengths, o.batch_first);
  const std::vector<i64> order = sorted_order(lengths);
  const bool sorted = std::is_sorted(order.begin(), order.end());
  if (o.enforce_sorted && !sorted)
    throw UsageError(str("[", kPack, "] lengths must not rise: sequence ", order[0], " with ",
                         lengths[size_t(order[0])], " comes after a shorter one", at_line(),
                         "\n  Try {.enforce_sorted = false}, which sorts"));
  PackedSequence p;
  for (i64 t = 0; t < lengths[size_t(order[0])]; ++t)
    p.batch_sizes.push_back(
        std::count_if(lengths.begin(), lengths.end(), [t](i64 length) { return length > t; }));
  const std::vector<i64> rows =
      padded_rows(p.batch_sizes, order, x.size(o.batch_first ? 1 : 0), o.batch_first);
  p.data = index_select(as_rows(x), 0, indices_on(rows, x.device()));
  if (!o.enforce_sorted) {
    p.sorted_indices = indices_on(order, x.device());
    p.unsorted_indices = indices_on(inverse(order), x.device());
  }
  return p;
}

PackedSequence pack_padded_sequence(const Tensor& x, const Tensor& lengths, const PackOptions& o,
                                    Frame at) {
  const FrameScope frame(at);
  if (lengths.ndim() != 1)
    throw ShapeError(str("[", kPack, "] lengths must be [N], got ", lengths.shape(), at_line()));
  if (lengths.dtype() != DType::i64 && lengths.dtype() != DType::i32)
    throw DtypeError(str("[", kPack, "] lengths must be i64 or i32, got ",
                         dtype_name(lengths.dtype()), at_line()));
  return pack_padded_sequence(x, lengths.to(DType::i64).to_vector<i64>(), o, at);
}

PaddedSequence pad_packed_sequence(const PackedSequence& p, const PadOptions& o, Frame at) {
  const FrameScope frame(at);
  detail::check_packed(kPad, p);
  const i64 longest = i64(p.batch_sizes.size()), steps = o.total_length.value_or(longest);
  if (steps < longest)
    throw UsageError(str("[", kPad, "] total_length ", steps, " is below the longest sequence, ",
                         longest, at_line()));
  std::vector<i64> order(size_t(p.batch_sizes[0]));
  std::iota(order.begin(), order.end(), i64(0));
  if (p.sorted_indices.defined()) order = p.sorted_indices.to_vector<i64>();
  PaddedSequence r;
  r.lengths.resize(order.size());
  for (const i64 n : p.batch_sizes)
    for (i64 k = 0; k < n; ++k) ++r.lengths[size_t(order[size_t(k)])];
  const i64 n = i64(order.size());
  Shape rows = p.data.shape();
  rows[0] = n * steps;
  const TensorOptions like{.dtype = p.data.dtype(), .device = p.data.device()};
  const Tensor places =
      indices_on(padded_rows(p.batch_sizes, order, steps, o.batch_first), p.data.device());
  Shape shape = rows;
  shape[0] = o.batch_first ? n : steps;
  shape.insert(1, o.batch_first ? steps : n);
  r.output = reshape(index_put(full(rows, o.padding_value, like), {places}, p.data), shape);
  return r;
}

namespace detail {
void check_packed(const char* name, const PackedSequence& p) {
  const auto& sizes = p.batch_sizes;
  if (sizes.empty() || sizes.back() < 1 ||
      !std::is_sorted(sizes.begin(), sizes.end(), std::greater<>()))
    throw UsageError(str("[", name,
                         "] the batch sizes of a PackedSequence must be positive and never rise",
                         at_line()));
  const i64 rows = std::accumulate(sizes.begin(), sizes.end(), i64(0));
  if (!p.data.defined() || p.data.ndim() < 1 || p.data.size(0) != rows)
    throw UsageError(str("[", name, "] batch sizes of ", rows, " rows in all for packed data ",
                         p.data.defined() ? str(p.data.shape()) : "undefined", at_line()));
  for (const Tensor* t : {&p.sorted_indices, &p.unsorted_indices})
    if (t->defined() && t->shape() != Shape{sizes[0]})
      throw UsageError(str("[", name, "] indices ", t->shape(), " of a PackedSequence of ",
                           sizes[0], " sequences", at_line()));
}
}  // namespace detail

}  // namespace wt::nn
