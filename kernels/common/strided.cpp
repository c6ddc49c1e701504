#include "warptape/kernels/common/strided.h"

namespace wt::detail {

namespace {
struct Dimension {
  i64 size;
  i64 stride[8];
};

// Sorts by operand 0's step, small steps first; broadcast dimensions of operand 0 do not exist (it
// is the output), so equal steps only occur for overlapping outputs, where any order will do.
void sort_by_memory(Dimension* d, int count) {
  for (int i = 1; i < count; ++i) {
    const Dimension moved = d[i];
    int at = i;
    for (; at > 0 && d[at - 1].stride[0] > moved.stride[0]; --at) d[at] = d[at - 1];
    d[at] = moved;
  }
}

bool merges(const Dimension& inner, const Dimension& outer, int n) {
  for (int k = 0; k < n; ++k)
    if (outer.stride[k] != inner.stride[k] * inner.size) return false;
  return true;
}
}  // namespace

void fill_nest(const View* operands, int n, LoopOrder order, i64* numel, int* ndim, i64* size,
               i64 (*stride)[kMaxDims]) {
  const Geometry& g = *operands[0].geometry;
  *numel = g.numel;
  *ndim = 0;
  if (g.numel == 0) return;
  Dimension dims[kMaxDims];
  int count = 0;
  for (int axis = g.ndim; axis-- > 0;) {
    if (g.shape[axis] == 1) continue;
    Dimension& d = dims[count++];
    d.size = g.shape[axis];
    for (int k = 0; k < n; ++k) {
      const Geometry& o = *operands[k].geometry;
      const int own = axis - g.ndim + o.ndim;
      d.stride[k] = own < 0 || o.shape[own] == 1 ? 0 : o.strides[own];
    }
  }
  if (order == LoopOrder::memory) sort_by_memory(dims, count);
  int kept = 0;
  for (int i = 0; i < count; ++i) {
    if (kept && merges(dims[kept - 1], dims[i], n))
      dims[kept - 1].size *= dims[i].size;
    else
      dims[kept++] = dims[i];
  }
  *ndim = kept;
  for (int d = 0; d < kept; ++d) {
    size[d] = dims[d].size;
    for (int k = 0; k < n; ++k) stride[k][d] = dims[d].stride[k];
  }
}

}  // namespace wt::detail

namespace wt {

bool as_transposes(LoopNest<2>& nest, LoopNest<2>& outer) {
  if (nest.ndim < 2 || nest.stride[0][0] != 1 || nest.stride[1][0] == 1) return false;
  int d = 1;
  while (d < nest.ndim && nest.stride[1][d] != 1) ++d;
  if (d == nest.ndim) return false;
  const auto swap = [d](i64* v) {
    const i64 moved = v[d];
    v[d] = v[1];
    v[1] = moved;
  };
  swap(nest.size);
  swap(nest.stride[0]);
  swap(nest.stride[1]);
  outer = nest;
  outer.numel = nest.numel / (nest.size[0] * nest.size[1]);
  outer.ndim = nest.ndim - 1;
  outer.size[0] = 1;
  outer.stride[0][0] = outer.stride[1][0] = 0;
  for (int i = 1; i < outer.ndim; ++i) {
    outer.size[i] = nest.size[i + 1];
    for (int k = 0; k < 2; ++k) outer.stride[k][i] = nest.stride[k][i + 1];
  }
  return true;
}

}  // namespace wt
