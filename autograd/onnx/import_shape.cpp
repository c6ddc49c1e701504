// Shapes, joins, slices and picking by index.
#include <algorithm>

#include "warptape/autograd/onnx/import.h"
#include "warptape/autograd/ops.h"
#include "warptape/core/factories.h"

namespace wt::onnx {
namespace {

using Results = std::vector<Tensor>;

Results shape_tensor(const NodeCall& c) {
  const Shape all = c.in(0).shape();
  const i64 n = all.ndim();
  const auto bound = [n](i64 v) { return std::clamp<i64>(v < 0 ? v + n : v, 0, n); };
  const i64 begin = bound(c.integer("start", 0)), end = bound(c.integer("end", n));
  std::vector<i64> sizes;
  for (i64 d = begin; d < end; ++d) sizes.push_back(all[int(d)]);
  return {tensor(sizes, {.device = Device::cpu()})};  // for the host, which reads it
}

Results reshaped(const NodeCall& c) {
  const Tensor& x = c.in(0);
  std::vector<i64> wanted = c.values(1);
  c.require(wanted.size() <= size_t(kMaxDims), str("a shape of ", wanted.size(), " dimensions"));
  if (!c.integer("allowzero", 0))
    for (size_t d = 0; d < wanted.size(); ++d)
      if (wanted[d] == 0) {
        c.require(int(d) < x.ndim(), "a size of 0 stands for an axis that there is not");
        wanted[d] = x.size(i64(d));
      }
  return {reshape(x, Shape(wanted))};
}
Results flattened(const NodeCall& c) {
  const Tensor& x = c.in(0);
  const i64 given = c.integer("axis", 1), axis = given < 0 ? given + x.ndim() : given;
  c.require(axis >= 0 && axis <= x.ndim(), str("axis ", given, " is outside"));
  i64 rows = 1, columns = 1;
  for (int d = 0; d < x.ndim(); ++d) (d < axis ? rows : columns) *= x.size(d);
  return {reshape(x, {rows, columns})};
}
Results transposed(const NodeCall& c) {
  std::vector<i64> order = c.integers("perm");
  if (!c.node().find("perm"))
    for (int d = c.in(0).ndim(); d-- > 0;) order.push_back(d);
  return {permute(c.in(0), Dims(order))};
}
Results squeezed(const NodeCall& c) {
  const std::vector<i64> given = c.integers_or_input("axes", 1);
  if (given.empty()) return {squeeze(c.in(0))};
  std::vector<int> axes;
  for (const i64 a : given) axes.push_back(c.axis(a));
  std::sort(axes.rbegin(), axes.rend());
  Tensor y = c.in(0);
  for (const int a : axes) {
    c.require(y.size(a) == 1, str("axis ", a, " has the size ", y.size(a), ", not 1"));
    y = squeeze(y, a);
  }
  return {y};
}
Results unsqueezed(const NodeCall& c) {
  const std::vector<i64> given = c.integers_or_input("axes", 1);
  const i64 n = c.in(0).ndim() + i64(given.size());
  std::vector<i64> axes;
  for (const i64 a : given) {
    c.require(a >= -n && a < n, str("axis ", a, " is outside of ", n, " dimensions"));
    axes.push_back(a < 0 ? a + n : a);
  }
  std::sort(axes.begin(), axes.end());
  Tensor y = c.in(0);
  for (const i64 a : axes) y = unsqueeze(y, a);
  return {y};
}
// Both ways: a size of 1 on either side takes the other's.
Results expanded(const NodeCall& c) {
  std::vector<i64> sizes = c.values(1);
  const Shape x = c.in(0).shape();
  const int lead = int(sizes.size()) - x.ndim();
  if (lead < 0) sizes.insert(sizes.begin(), size_t(-lead), 1);
  for (int d = 0; d < x.ndim(); ++d) {
    i64& want = sizes[size_t(d + std::max(lead, 0))];
    if (want == 1) want = x[d];
  }
  return {expand(c.in(0), Shape(sizes))};
}
Results joined(const NodeCall& c) {
  std::vector<Tensor> parts;
  for (size_t i = 0; i < c.inputs(); ++i) parts.push_back(c.in(i));
  return {cat(parts, c.integer("axis", 0))};
}
Results parts_of(const NodeCall& c) {
  const int axis = c.axis(c.integer("axis", 0));
  std::vector<i64> sizes = c.integers_or_input("split", 1);
  const i64 n = c.in(0).size(axis), count = i64(c.outputs());
  if (sizes.empty()) {
    const i64 size = (n + count - 1) / count;
    for (i64 i = 0; i < count; ++i) sizes.push_back(std::clamp<i64>(n - i * size, 0, size));
  }
  c.require(i64(sizes.size()) == count, str(sizes.size(), " sizes for ", count, " outputs"));
  return split(c.in(0), sizes, axis);
}

Tensor slice_along(const NodeCall& c, const Tensor& x, int axis, i64 begin, i64 end, i64 step) {
  const i64 n = x.size(axis);
  c.require(step != 0, "a step of 0");
  const auto bound = [n](i64 v, i64 low, i64 high) {
    return std::clamp<i64>(v < 0 ? (v < -n ? -1 - n + low + n : v + n) : v, low, high);
  };
  if (step > 0) {
    begin = bound(begin, 0, n), end = bound(end, 0, n);
    return slice(x, axis, {begin, std::max(begin, end), step});
  }
  if (n == 0) return x;
  // Backwards: the same elements of the axis turned over.
  begin = bound(begin, 0, n - 1);
  end = end < -n ? -1 : bound(end, -1, n - 1);
  if (begin <= end) return slice(x, axis, {0, 0});
  // A step beyond the axis is one over all of it, and can be negated.
  return slice(flip(x, axis), axis, {n - 1 - begin, n - 1 - end, -std::max(step, -n)});
}
Results sliced(const NodeCall& c) {
  const std::vector<i64> begin = c.values(1), end = c.values(2);
  std::vector<i64> axes, steps(begin.size(), 1);
  for (size_t i = 0; i < begin.size(); ++i) axes.push_back(i64(i));
  if (c.has(3)) axes = c.values(3);
  if (c.has(4)) steps = c.values(4);
  c.require(
      end.size() == begin.size() && axes.size() == begin.size() && steps.size() == begin.size(),
      "lists of unequal length");
  Tensor y = c.in(0);
  for (size_t i = 0; i < begin.size(); ++i)
    y = slice_along(c, y, c.axis(axes[i]), begin[i], end[i], steps[i]);
  return {y};
}

std::string pad_unread(const NodeCall& c) {
  const std::string how = c.text("mode", "constant");
  const bool known = how == "constant" || how == "reflect" || how == "edge" || how == "wrap";
  return known ? "" : "mode " + how;
}
Results padded(const NodeCall& c) {
  const Tensor& x = c.in(0);
  const std::string how = c.text("mode", "constant");
  const std::vector<i64> pads = c.values(1);
  std::vector<i64> axes;
  if (c.has(3))
    for (const i64 a : c.values(3)) axes.push_back(c.axis(a));
  else
    for (int d = 0; d < x.ndim(); ++d) axes.push_back(d);
  c.require(pads.size() == 2 * axes.size(), str(pads.size(), " pads for ", axes.size(), " axes"));
  std::vector<i64> pairs(size_t(2 * x.ndim()), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t from_last = size_t(x.ndim() - 1 - axes[i]);
    pairs[2 * from_last] = pads[i], pairs[2 * from_last + 1] = pads[axes.size() + i];
  }
  PadOptions o;
  if (how == "reflect")
    o.mode = PadMode::reflect;
  else if (how == "edge")
    o.mode = PadMode::replicate;
  else if (how == "wrap")
    o.mode = PadMode::circular;
  if (c.has(2) && o.mode == PadMode::constant) {
    if (is_floating(x.dtype()))
      o.value = c.in(2).item();
    else
      o.value = c.in(2).item<i64>();
  }
  return {pad(x, pairs, o)};
}

// index: any shape, negative ones count from the end.
Tensor from_front(const Tensor& index, i64 n) { return where(lt(index, 0), add(index, n), index); }
Results gathered(const NodeCall& c) {
  const Tensor& x = c.in(0);
  const int axis = c.axis(c.integer("axis", 0));
  const Tensor index = from_front(c.in(1), x.size(axis));
  Shape shape;
  for (int d = 0; d < axis; ++d) shape.push_back(x.size(d));
  for (const i64 n : index.shape()) shape.push_back(n);
  for (int d = axis + 1; d < x.ndim(); ++d) shape.push_back(x.size(d));
  if (axis == 0 && x.ndim() == 2 && is_floating(x.dtype())) return {embedding(index, x)};
  return {reshape(index_select(x, axis, reshape(index, {index.numel()})), shape)};
}
Results gathered_elements(const NodeCall& c) {
  const int axis = c.axis(c.integer("axis", 0));
  return {gather(c.in(0), axis, from_front(c.in(1), c.in(0).size(axis)))};
}
std::string scatter_unread(const NodeCall& c) {
  const std::string how = c.text("reduction", "none");
  return how == "none" || how == "add" ? "" : "reduction " + how;
}
Results scattered(const NodeCall& c) {
  const int axis = c.axis(c.integer("axis", 0));
  const std::string how = c.text("reduction", "none");
  const Tensor index = from_front(c.in(1), c.in(0).size(axis));
  return {how == "add" ? scatter_add(c.in(0), axis, index, c.in(2))
                       : scatter(c.in(0), axis, index, c.in(2))};
}
Results one_hot_of(const NodeCall& c) {
  const i64 depth = c.value(1), last = c.integer("axis", -1);
  c.require(last == -1 || last == c.in(0).ndim(), "axis is the last one");
  const Tensor values = c.in(2), index = from_front(c.in(0).to(DType::i64), depth);
  const Tensor places = arange(depth, {.dtype = DType::i64, .device = index.device()});
  const Tensor hit = eq(unsqueeze(index, -1), places);
  return {where(hit, select(values, 0, 1), select(values, 0, 0))};
}
Results repeated(const NodeCall& c) { return {repeat(c.in(0), Shape(c.values(1)))}; }
Results triangle(const NodeCall& c) {
  const i64 k = c.has(1) ? c.value(1) : 0;
  return {c.integer("upper", 1) ? triu(c.in(0), k) : tril(c.in(0), k)};
}
std::string depth_to_space_unread(const NodeCall& c) {
  const std::string how = c.text("mode", "DCR");
  return how == "DCR" || how == "CRD" ? "" : "mode " + how;
}
Results depth_to_space(const NodeCall& c) {
  const i64 b = c.integer("blocksize", 1);
  const Shape s = c.in(0).shape();
  i64 block = 0;
  c.require(s.ndim() == 4 && b > 0 && mul_fits(b, b, block) && s[1] % block == 0,
            "its channels do not fit the block");
  if (c.text("mode", "DCR") == "CRD") return {pixel_shuffle(c.in(0), b)};
  const i64 n = s[1] / block;
  const Tensor t = permute(reshape(c.in(0), {s[0], b, b, n, s[2], s[3]}), {0, 3, 4, 1, 5, 2});
  return {reshape(t, {s[0], n, s[2] * b, s[3] * b})};
}

}  // namespace

void add_shape_importers(Importers& to) {
  constexpr size_t kMany = size_t{1} << 20;
  constexpr u32 kAllButFirst = ~input_bit(0);
  to["Shape"] = {shape_tensor, "start end"};
  to["Size"] = {[](const NodeCall& c) -> Results {
    return {tensor(c.in(0).numel(), {.dtype = DType::i64, .device = Device::cpu()})};
  }};
  to["Reshape"] = {reshaped, "allowzero", 2, 2, input_bit(1)}, to["Flatten"] = {flattened, "axis"};
  to["Transpose"] = {transposed, "perm"}, to["Squeeze"] = {squeezed, "axes", 1, 2, input_bit(1)};
  to["Unsqueeze"] = {unsqueezed, "axes", 1, 2, input_bit(1)},
  to["Expand"] = {expanded, {}, 2, 2, input_bit(1)};
  to["Concat"] = {joined, "axis", 1, kMany};
  to["Split"] = {parts_of, "axis split num_outputs", 1, 2, input_bit(1), nullptr, kMany};
  to["Slice"] = {sliced, {}, 3, 5, kAllButFirst},
  to["Pad"] = {padded, "mode", 2, 4, kAllButFirst, pad_unread};
  to["Gather"] = {gathered, "axis", 2, 2};
  to["GatherElements"] = {gathered_elements, "axis", 2, 2};
  to["ScatterElements"] = {scattered, "axis reduction", 3, 3, 0, scatter_unread};
  to["OneHot"] = {one_hot_of, "axis", 3, 3, input_bit(1)},
  to["Tile"] = {repeated, {}, 2, 2, input_bit(1)};
  to["Trilu"] = {triangle, "upper", 1, 2, input_bit(1)};
  to["DepthToSpace"] = {depth_to_space, "blocksize mode", 1, 1, 0, depth_to_space_unread};
}

}  // namespace wt::onnx
