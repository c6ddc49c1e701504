#include "warptape/tools/wt/grade/problem.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace wt::grade {
namespace {

Shape strides_for(const Shape& shape, Lie lie) {
  const int n = shape.ndim();
  if (n == 0) return {};
  Shape inner = shape;
  if (lie == Lie::swapped && n >= 2) std::swap(inner[n - 1], inner[n - 2]);
  if (lie == Lie::padded) inner[n - 1] += 5;
  // Products of the sizes, also of none: what a student's test of a layout compares with.
  Shape strides = inner;
  for (i64 d = n - 1, step = 1; d >= 0; step *= inner[int(d--)]) strides[int(d)] = step;
  if (lie == Lie::swapped && n >= 2) std::swap(strides[n - 1], strides[n - 2]);
  if (lie == Lie::spread)
    for (int d = 0; d < n; ++d) strides[d] *= 3;
  return strides;
}

void lay_out(const Operand& o, OperandLayout& layout) {
  Geometry& g = layout.geometry;
  g.ndim = u8(o.shape.ndim());
  g.dtype = o.dtype;
  const Shape strides = strides_for(o.shape, o.lie);
  i64 last = 0;
  for (int d = 0; d < o.shape.ndim(); ++d) {
    g.shape[d] = o.shape[d];
    g.strides[d] = strides[d];
    last += (o.shape[d] - 1) * strides[d];
  }
  finish_geometry(g);
  const i64 item = item_size(o.dtype);
  layout.begin = o.lie == Lie::offset ? item : 0;
  layout.bytes = layout.begin + (g.numel ? (last + 1) * item : 0);
}

}  // namespace

const char* lie_name(Lie lie) {
  static const char* const names[] = {"contiguous", "contiguous, one element off",
                                      "last two axes swapped in memory", "every third element",
                                      "rows of a wider matrix"};
  return names[int(lie)];
}

void lay_out(Problem& p) {
  p.data.operands = i32(p.operands.size());
  for (size_t i = 0; i < p.operands.size(); ++i) {
    p.data.operand[i] = {};
    if (!p.operands[i].absent) lay_out(p.operands[i], p.data.operand[i]);
  }
}

std::vector<i64> element_places(const OperandLayout& layout) {
  const Geometry& g = layout.geometry;
  const i64 item = item_size(g.dtype);
  std::vector<i64> places;
  places.reserve(size_t(g.numel));
  i64 at[kMaxDims] = {};
  for (i64 e = 0; e < g.numel; ++e) {
    i64 place = layout.begin;
    for (int d = 0; d < g.ndim; ++d) place += at[d] * g.strides[d] * item;
    places.push_back(place);
    for (int d = g.ndim; d-- > 0;) {
      if (++at[d] < g.shape[d]) break;
      at[d] = 0;
    }
  }
  return places;
}

std::vector<std::vector<u8>> images_of(const Problem& p, u8 poison) {
  std::vector<std::vector<u8>> images(p.operands.size());
  for (size_t i = 0; i < p.operands.size(); ++i) {
    const Operand& o = p.operands[i];
    const OperandLayout& layout = p.data.operand[i];
    if (!layout.there()) continue;
    images[i].assign(size_t(layout.bytes), poison);
    if (o.written && !o.updated) continue;
    const std::vector<i64> places = element_places(layout);
    for (size_t e = 0; e < places.size(); ++e)
      store_element(o.values[e], o.dtype, images[i].data() + places[e]);
  }
  return images;
}

namespace {

double draw(Values values, Draws& draws) {
  switch (values) {
    case Values::large:
      return draws.real(-100, 100);
    case Values::shifted:
      return 1000 + draws.real(-1, 1);
    case Values::ramp:
      return draws.real(0.5, 1);
    case Values::whole: {
      const i64 size = draws.whole(1, 9);
      return double(draws.next() & 1 ? size : -size);
    }
    case Values::special:
      if (const u64 pick = draws.next() % 97; pick < 3) {
        constexpr double inf = std::numeric_limits<double>::infinity();
        return pick == 0 ? std::nan("") : pick == 1 ? inf : -inf;
      }
      break;
    case Values::usual:
      break;
  }
  return draws.real(-3, 3);
}

}  // namespace

void fill(Operand& o, Values values, Draws& draws) {
  o.values.resize(size_t(numel_of(o.shape)));
  for (double& v : o.values) v = rounded(draw(values, draws), o.dtype);
}

Operand input(const std::string& name, const Plan& plan, const Shape& shape, Draws& draws) {
  Operand o{.name = name, .dtype = plan.dtype, .shape = shape, .lie = plan.lie};
  fill(o, plan.values, draws);
  return o;
}
Operand output(const std::string& name, DType t, const Shape& shape, Lie lie) {
  return {.name = name, .written = true, .dtype = t, .shape = shape, .lie = lie};
}
Operand updated(Operand read) {
  read.written = read.updated = true;
  return read;
}
Operand absent(const std::string& name) { return {.name = name, .absent = true}; }

}  // namespace wt::grade
