// Matrix products of 16-bit floats on the cpu: operands are widened to f32 copies, multiplied by
// the f32 kernels and rounded once.
#include "warptape/core/half.h"
#include "warptape/kernels/cpu/half_rows.h"
#include "warptape/kernels/matmul/matmul_cpu.h"

namespace wt {

namespace {

i64 padded(i64 elements) { return (elements + 15) / 16 * 16; }

// Where the f32 copies of one product lie in the workspace, in elements.
struct Layout {
  i64 a = 0, b, bias, out, row_sum, line, end;
  explicit Layout(const MatmulArgs& g) {
    b = a + padded(g.m * g.k);
    bias = b + padded(g.k * g.n);
    out = bias + padded(g.n);
    row_sum = out + padded(g.m * g.n);
    line = row_sum + padded(g.m);
    end = line + padded(g.n > g.m ? g.n : g.m);
  }
};

// The same product on dense f32 copies; its pointers are still to be set.
MatmulArgs widened(const MatmulArgs& g) {
  MatmulArgs w = g;
  w.dtype = DType::f32;
  w.batch_ndim = 0;
  w.accumulate = w.row_sum_accumulate = false;
  const auto dense = [](i64& row, i64& column, i64 rows, i64 columns) {
    const bool by_rows = column == 1;
    row = by_rows ? (columns > 1 ? columns : 1) : 1;
    column = by_rows ? 1 : (rows > 1 ? rows : 1);
  };
  dense(w.a_row, w.a_column, g.m, g.k);
  dense(w.b_row, w.b_column, g.k, g.n);
  w.out_row = g.n > 1 ? g.n : 1;
  return w;
}

template <class T>
void widen(float* to, const void* from, i64 row, i64 column, i64 rows, i64 columns) {
  const T* in = static_cast<const T*>(from);
  const i64 lines = column == 1 ? rows : columns, length = column == 1 ? columns : rows;
  const i64 lead = column == 1 ? row : column;
  for (i64 i = 0; i < lines; ++i) detail::convert_row(to + i * length, in + i * lead, length);
}

// to (+)= values, rounded once.
template <class T>
void round_row(T* to, float* values, i64 n, bool add, float* line) {
  if (add) {
    detail::convert_row(line, to, n);
    for (i64 i = 0; i < n; ++i) values[i] += line[i];
  }
  detail::convert_row(to, values, n);
}

bool is_tiny(const MatmulArgs& g) { return matmul_tiny_rank(g) > matmul_packed_rank(g); }

template <class T>
void product(const MatmulArgs& g, const Launch& l) {
  float* const at = static_cast<float*>(l.workspace);
  const Layout layout(g);
  MatmulArgs w = widened(g);
  w.a = at + layout.a;
  w.b = at + layout.b;
  w.out = at + layout.out;
  w.bias = g.bias ? at + layout.bias : nullptr;
  w.row_sum = g.row_sum ? at + layout.row_sum : nullptr;
  widen<T>(at + layout.a, g.a, g.a_row, g.a_column, g.m, g.k);
  widen<T>(at + layout.b, g.b, g.b_row, g.b_column, g.k, g.n);
  if (g.bias) widen<T>(at + layout.bias, g.bias, g.n, 1, 1, g.n);
  Launch inner = l;
  inner.workspace = at + layout.end;
  is_tiny(w) ? matmul_tiny(w, inner) : matmul_packed(w, inner);
  float* const line = at + layout.line;
  for (i64 i = 0; i < g.m; ++i)
    round_row(static_cast<T*>(g.out) + i * g.out_row, at + layout.out + i * w.out_row, g.n,
              g.accumulate, line);
  if (g.row_sum)
    round_row(static_cast<T*>(g.row_sum), at + layout.row_sum, g.m, g.row_sum_accumulate, line);
}

}  // namespace

const char* matmul_widened_why_not(const MatmulArgs& g) {
  return is_half(g.dtype) ? nullptr : "takes f16 and bf16 only";
}

i64 matmul_widened_workspace(const MatmulArgs& g) {
  const MatmulArgs w = widened(g);
  return Layout(g).end * 4 + (is_tiny(w) ? 0 : matmul_packed_workspace(w));
}

void matmul_widened(const MatmulArgs& g, const Launch& l) {
  const i64 batches = g.batches();
  for (i64 i = 0; i < batches; ++i) {
    const MatmulArgs one = matmul_at(g, i);
    g.dtype == DType::f16 ? product<Half>(one, l) : product<BFloat16>(one, l);
  }
}

}  // namespace wt
