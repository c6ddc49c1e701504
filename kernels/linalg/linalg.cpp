// Linear algebra on the cpu by the textbook, in f64 (kernels/linalg/decompositions.h).
#include "warptape/kernels/linalg.h"

#include "warptape/kernels/linalg/decompositions.h"
#include "warptape/kernels/linalg/linalg_cpu.h"
#include "warptape/kernels/linalg/matrix_batch.h"

namespace wt {
namespace {

const char* why_not_type(DType t) {
  return t == DType::f32 || t == DType::f64 ? nullptr : "takes f32 and f64 only";
}
const char* why_not(const SolveTriangularArgs& a) { return why_not_type(a.a.dtype()); }
template <class Args>
const char* why_not(const Args& a) {
  return why_not_type(a.in.dtype());
}
template <class F>
void with_type(DType t, F&& f) {
  t == DType::f32 ? f.template operator()<float>() : f.template operator()<double>();
}

void cholesky_reference(const CholeskyArgs& a, const Launch&) {
  if (a.in.numel() == 0) return;
  const MatrixBatch m(a.in);
  with_type(a.in.dtype(), [&]<class T>() {
    for (i64 b = 0; b < m.count; ++b)
      a.info.as<i32>()[b] =
          cholesky_of(a.out.as<T>() + b * m.size(), a.in.as<const T>() + b * m.size(), m.rows);
  });
}

void solve_triangular_reference(const SolveTriangularArgs& a, const Launch&) {
  if (a.out.numel() == 0) return;
  const MatrixBatch m(a.a), x(a.out);
  with_type(a.out.dtype(), [&]<class T>() {
    for (i64 b = 0; b < x.count; ++b)
      substitute({a.upper, a.transposed, a.unit}, a.a.as<const T>() + b * m.size(),
                 a.out.as<T>() + b * x.size(), m.rows, x.columns, 0, x.columns);
  });
}

i64 qr_workspace(const QrArgs& a) {
  const MatrixBatch m(a.in);
  return qr_work(m.rows, m.columns) * i64(sizeof(double));
}
void qr_reference(const QrArgs& a, const Launch& l) {
  if (a.in.numel() == 0) return;
  const MatrixBatch in(a.in), q(a.q), r(a.r);
  with_type(a.in.dtype(), [&]<class T>() {
    for (i64 b = 0; b < in.count; ++b)
      qr_of(a.q.as<T>() + b * q.size(), a.r.as<T>() + b * r.size(),
            a.in.as<const T>() + b * in.size(), in.rows, in.columns,
            static_cast<double*>(l.workspace));
  });
}

i64 eigh_workspace(const EighArgs& a) {
  return eigh_work(MatrixBatch(a.in).rows) * i64(sizeof(double));
}
void eigh_reference(const EighArgs& a, const Launch& l) {
  if (a.in.numel() == 0) return;
  const MatrixBatch m(a.in);
  with_type(a.in.dtype(), [&]<class T>() {
    for (i64 b = 0; b < m.count; ++b)
      a.info.as<i32>()[b] =
          eigh_of(a.values.as<T>() + b * m.rows, a.vectors.as<T>() + b * m.size(),
                  a.in.as<const T>() + b * m.size(), m.rows, static_cast<double*>(l.workspace));
  });
}

}  // namespace

WT_VARIANTS(
    cpu, cholesky, CholeskyArgs,
    {.name = "lapack", .rank = 10, .why_not = cholesky_lapack_why_not, .launch = cholesky_lapack},
    {.name = "reference", .why_not = why_not<CholeskyArgs>, .launch = cholesky_reference});
WT_VARIANTS(cpu, solve_triangular, SolveTriangularArgs,
            {.name = "blas",
             .rank = 10,
             .why_not = solve_triangular_blas_why_not,
             .launch = solve_triangular_blas},
            {.name = "reference", .why_not = why_not, .launch = solve_triangular_reference});
WT_VARIANTS(cpu, qr, QrArgs,
            {.name = "lapack",
             .rank = 10,
             .why_not = qr_lapack_why_not,
             .workspace = qr_lapack_workspace,
             .launch = qr_lapack},
            {.name = "reference",
             .why_not = why_not<QrArgs>,
             .workspace = qr_workspace,
             .launch = qr_reference});
WT_VARIANTS(cpu, eigh, EighArgs,
            {.name = "lapack",
             .rank = 10,
             .why_not = eigh_lapack_why_not,
             .workspace = eigh_lapack_workspace,
             .launch = eigh_lapack},
            {.name = "reference",
             .why_not = why_not<EighArgs>,
             .workspace = eigh_workspace,
             .launch = eigh_reference});

}  // namespace wt
