#include "warptape/autograd/vmap.h"

#include <algorithm>

#include "warptape/autograd/ops/shape.h"
#include "warptape/autograd/slices.h"
#include "warptape/core/error.h"
#include "warptape/core/str.h"

namespace wt::detail {
namespace {

std::string at_line(Frame at) { return "\n  at " + describe(at); }

// Axis i of the inputs in [0, ndim), or nothing.
std::vector<std::optional<int>> mapped_axes(std::span<const Tensor> inputs, const VmapOptions& o,
                                            Frame at) {
  if (!o.in_dims.empty() && o.in_dims.size() != inputs.size())
    throw UsageError(
        str("[vmap] ", inputs.size(), " inputs but ", o.in_dims.size(), " in_dims", at_line(at)));
  std::vector<std::optional<int>> axes(inputs.size());
  bool any = false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const int ndim = inputs[i].ndim(at);
    const std::optional<i64> wanted = o.in_dims.empty() ? 0 : o.in_dims[i];
    if (!wanted) continue;
    if (*wanted < -ndim || *wanted >= ndim)
      throw ShapeError(str("[vmap] input ", i, ", ", describe(inputs[i]), ", has no axis ", *wanted,
                           " to map over", at_line(at), "\n  Try std::nullopt as its in_dims"));
    axes[i] = int(*wanted < 0 ? *wanted + ndim : *wanted);
    any = true;
  }
  if (!any) throw UsageError(str("[vmap] no input is mapped over", at_line(at)));
  return axes;
}

i64 slice_count(std::span<const Tensor> inputs, const std::vector<std::optional<int>>& axes,
                Frame at) {
  std::optional<size_t> first;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!axes[i]) continue;
    if (!first) first = i;
    const i64 have = inputs[i].size(*axes[i]), want = inputs[*first].size(*axes[*first]);
    if (have != want)
      throw ShapeError(str("[vmap] the mapped axes differ in size: input ", *first, " has ", want,
                           ", input ", i, " has ", have, at_line(at)));
  }
  return inputs[*first].size(*axes[*first]);
}

std::vector<Tensor> call_at_once(const SliceFunction& f, std::span<const Tensor> inputs,
                                 const std::vector<std::optional<int>>& axes, i64 count,
                                 const VmapOptions& o, Frame at) {
  const SliceLevel level(count,
                         o.randomness == Randomness::same ? SliceDraws::same : SliceDraws::refused);
  std::vector<Tensor> slices;
  for (size_t i = 0; i < inputs.size(); ++i)
    slices.push_back(axes[i] ? split_slices(inputs[i], *axes[i], level.axis()) : inputs[i]);
  std::vector<Tensor> results = f(slices);
  for (size_t k = 0; k < results.size(); ++k) {
    if (!results[k].defined())
      throw UsageError(str("[vmap] result ", k, " of the function is undefined", at_line(at)));
    const int ndim = results[k].ndim() + 1;
    if (o.out_dim < -ndim || o.out_dim >= ndim)
      throw ShapeError(str("[vmap] out_dim ", o.out_dim, " is no axis of result ", k,
                           ", whose slices are ", describe(results[k]), at_line(at)));
    results[k] =
        join_slices(results[k], int(o.out_dim < 0 ? o.out_dim + ndim : o.out_dim), level.axis());
  }
  return results;
}

}  // namespace

std::vector<Tensor> vmap_call(const SliceFunction& f, std::span<const Tensor> inputs,
                              const VmapOptions& o, Frame at) {
  // Its recomputation would be another level than the one that gradients come back to.
  if (mode.recomputation)
    throw UsageError(str("[vmap] inside of a checkpoint", at_line(at),
                         "\n  Try checkpoint() inside of the function that is mapped"));
  const std::vector<std::optional<int>> axes = mapped_axes(inputs, o, at);
  const i64 count = slice_count(inputs, axes, at);
  if (o.chunk_size < 0)
    throw UsageError(str("[vmap] chunk_size must be at least 0, got ", o.chunk_size, at_line(at)));
  if (o.chunk_size == 0 || o.chunk_size >= count)
    return call_at_once(f, inputs, axes, count, o, at);
  std::vector<std::vector<Tensor>> parts;  // of each result
  for (i64 begin = 0; begin < count; begin += o.chunk_size) {
    const i64 length = std::min(o.chunk_size, count - begin);
    std::vector<Tensor> chunk;
    for (size_t i = 0; i < inputs.size(); ++i)
      chunk.push_back(axes[i] ? inputs[i].narrow(*axes[i], begin, length, at) : inputs[i]);
    std::vector<Tensor> results = call_at_once(f, chunk, axes, length, o, at);
    parts.resize(results.size());
    for (size_t k = 0; k < results.size(); ++k) parts[k].push_back(std::move(results[k]));
  }
  std::vector<Tensor> all;
  for (const std::vector<Tensor>& p : parts) all.push_back(cat(p, o.out_dim));
  return all;
}

}  // namespace wt::detail
