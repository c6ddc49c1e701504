// Linear algebra through the LAPACK and BLAS of OpenBLAS. LAPACK's matrices are in Fortran's order:
// ours are their transposes, and where that matters they are copied.
#include <algorithm>
#include <climits>
#include <cstring>

#include "warptape/config.h"
#include "warptape/kernels/linalg/linalg_cpu.h"
#include "warptape/kernels/linalg/matrix_batch.h"
#include "warptape/kernels/linalg/svd_cpu.h"
#if WARPTAPE_HAS_OPENBLAS
#include <cblas.h>

// The header of LAPACK is a package of its own; these names are fixed since 1992. Lengths of the
// character arguments come last, as Fortran compilers pass them.
extern "C" {
#define WT_LAPACK(T, letter)                                                                     \
  void letter##potrf_(const char* uplo, const int* n, T* a, const int* lda, int* info, size_t);  \
  void letter##geqrf_(const int* m, const int* n, T* a, const int* lda, T* tau, T* work,         \
                      const int* lwork, int* info);                                              \
  void letter##orgqr_(const int* m, const int* n, const int* k, T* a, const int* lda,            \
                      const T* tau, T* work, const int* lwork, int* info);                       \
  void letter##syevd_(const char* jobz, const char* uplo, const int* n, T* a, const int* lda,    \
                      T* w, T* work, const int* lwork, int* iwork, const int* liwork, int* info, \
                      size_t, size_t);                                                           \
  void letter##gesdd_(const char* jobz, const int* m, const int* n, T* a, const int* lda, T* s,  \
                      T* u, const int* ldu, T* vt, const int* ldvt, T* work, const int* lwork,   \
                      int* iwork, int* info, size_t);
WT_LAPACK(float, s)
WT_LAPACK(double, d)
#undef WT_LAPACK
}
#endif

namespace wt {

#if WARPTAPE_HAS_OPENBLAS

namespace {

const char* why_not_matrix(const View& v) {
  if (v.dtype() != DType::f32 && v.dtype() != DType::f64) return "takes f32 and f64 only";
  const MatrixBatch m(v);
  // The work space of eigh is counted in an int: 1 + 6 n + 2 n^2.
  if (std::max(m.rows, m.columns) > 32000) return "takes at most 32000 rows and columns";
  return nullptr;
}
#define WT_ROUTINES(T, letter)                                                               \
  [[maybe_unused]] int potrf(int n, T* a) {                                                  \
    int info = 0;                                                                            \
    letter##potrf_("U", &n, a, &n, &info, 1);                                                \
    return info;                                                                             \
  }                                                                                          \
  void geqrf(int m, int n, T* a, T* tau, T* work, int lwork) {                               \
    int info = 0;                                                                            \
    letter##geqrf_(&m, &n, a, &m, tau, work, &lwork, &info);                                 \
  }                                                                                          \
  void orgqr(int m, int k, T* a, const T* tau, T* work, int lwork) {                         \
    int info = 0;                                                                            \
    letter##orgqr_(&m, &k, &k, a, &m, tau, work, &lwork, &info);                             \
  }                                                                                          \
  int syevd(int n, T* a, T* w, T* work, int lwork, int* iwork, int liwork) {                 \
    int info = 0;                                                                            \
    letter##syevd_("V", "U", &n, a, &n, w, work, &lwork, iwork, &liwork, &info, 1, 1);       \
    return info;                                                                             \
  }                                                                                          \
  int gesdd(char job, int m, int n, T* a, T* s, T* u, T* vt, int ldvt, T* work, int lwork,   \
            int* iwork) {                                                                    \
    int info = 0;                                                                            \
    letter##gesdd_(&job, &m, &n, a, &m, s, u, &m, vt, &ldvt, work, &lwork, iwork, &info, 1); \
    return info;                                                                             \
  }
WT_ROUTINES(float, s)
WT_ROUTINES(double, d)
#undef WT_ROUTINES

void trsm(const SolveTriangularArgs& s, int n, int k, const float* a, float* b) {
  cblas_strsm(CblasRowMajor, CblasLeft, s.upper ? CblasUpper : CblasLower,
              s.transposed ? CblasTrans : CblasNoTrans, s.unit ? CblasUnit : CblasNonUnit, n, k, 1,
              a, n, b, k);
}
void trsm(const SolveTriangularArgs& s, int n, int k, const double* a, double* b) {
  cblas_dtrsm(CblasRowMajor, CblasLeft, s.upper ? CblasUpper : CblasLower,
              s.transposed ? CblasTrans : CblasNoTrans, s.unit ? CblasUnit : CblasNonUnit, n, k, 1,
              a, n, b, k);
}

void use_one_thread() {
  if (openblas_get_num_threads() != 1) openblas_set_num_threads(1);
}
template <class F>
void with_type(DType t, F&& f) {
  if (t == DType::f32)
    f.template operator()<float>();
  else
    f.template operator()<double>();
}

// The first minor that LAPACK's factor shows not to be positive, or what LAPACK says. OpenBLAS asks
// whether a pivot is <= 0, which NaN is not: it would go on and give a factor of NaN.
template <class T>
i64 failed_order(const T* l, i64 n, i64 order) {
  const i64 pivots = order > 0 ? order - 1 : n;
  for (i64 i = 0; i < pivots; ++i)
    if (!(l[i * n + i] > 0)) return i + 1;
  return order;
}

// The upper triangle in Fortran's order is our lower one.
template <class T>
void cholesky_of(const CholeskyArgs& a) {
  const MatrixBatch m(a.in);
  const i64 n = m.rows;
  for (i64 b = 0; b < m.count; ++b) {
    const T* in = a.in.as<T>() + b * m.size();
    T* out = a.out.as<T>() + b * m.size();
    for (i64 i = 0; i < n; ++i) {
      std::memmove(out + i * n, in + i * n, size_t(i + 1) * sizeof(T));
      std::fill(out + i * n + i + 1, out + (i + 1) * n, T(0));
    }
    a.info.as<i32>()[b] = i32(failed_order(out, n, potrf(int(n), out)));
  }
}

constexpr i64 kBlock = 64;  // columns that LAPACK likes to treat at a time

template <class T>
void qr_of(const QrArgs& a, T* work) {
  const MatrixBatch in(a.in);
  const i64 m = in.rows, n = in.columns, k = std::min(m, n), lwork = n * kBlock;
  T *const matrix = work, *const tau = matrix + m * n, *const rest = tau + k;
  for (i64 b = 0; b < in.count; ++b) {
    const T* from = a.in.as<T>() + b * in.size();
    T* const q = a.q.as<T>() + b * m * k;
    T* const r = a.r.as<T>() + b * k * n;
    for (i64 i = 0; i < m; ++i)
      for (i64 j = 0; j < n; ++j) matrix[i + j * m] = from[i * n + j];
    geqrf(int(m), int(n), matrix, tau, rest, int(lwork));
    for (i64 i = 0; i < k; ++i)
      for (i64 j = 0; j < n; ++j) r[i * n + j] = j < i ? T(0) : matrix[i + j * m];
    orgqr(int(m), int(k), matrix, tau, rest, int(lwork));
    for (i64 i = 0; i < m; ++i)
      for (i64 j = 0; j < k; ++j) q[i * k + j] = matrix[i + j * m];
  }
}

i64 eigh_floats(i64 n) { return 1 + 6 * n + 2 * n * n; }
i64 eigh_ints(i64 n) { return 3 + 5 * n; }

// Is all of a row of n numbers finite? Of NaN and infinities LAPACK's iterations may not end, or
// end with numbers.
template <class T>
bool all_finite(const T* row, i64 n) {
  T sum = 0;
  for (i64 i = 0; i < n; ++i) sum += row[i] * T(0);
  return sum == 0;
}

template <class T>
void eigh_of(const EighArgs& a, void* workspace) {
  const MatrixBatch m(a.in);
  const i64 n = m.rows;
  T *const matrix = static_cast<T*>(workspace), *const work = matrix + n * n;
  int* const ints = reinterpret_cast<int*>(work + eigh_floats(n));
  for (i64 b = 0; b < m.count; ++b) {
    std::memcpy(matrix, a.in.as<T>() + b * m.size(), size_t(m.size()) * sizeof(T));
    bool finite = true;
    for (i64 i = 0; i < n && finite; ++i) finite = all_finite(matrix + i * n, i + 1);
    a.info.as<i32>()[b] = 1;
    if (!finite) continue;
    a.info.as<i32>()[b] = syevd(int(n), matrix, a.values.as<T>() + b * n, work, int(eigh_floats(n)),
                                ints, int(eigh_ints(n)));
    T* const out = a.vectors.as<T>() + b * m.size();
    for (i64 i = 0; i < n; ++i)
      for (i64 j = 0; j < n; ++j) out[i * n + j] = matrix[i + j * n];
  }
}

// LAPACK sees the transpose, n x m: what it calls u [n, ..] is our vh, its vt [.., m] our u.
struct SvdCall {
  char job;  // no vectors, as many as values, or all
  i64 m, n, k, columns;
  explicit SvdCall(const SvdArgs& a) {
    const MatrixBatch in(a.in);
    m = in.rows, n = in.columns, k = std::min(m, n);
    columns = a.vectors() ? MatrixBatch(a.u).columns : 1;
    job = !a.vectors() ? 'N' : columns == m && MatrixBatch(a.vh).rows == n ? 'A' : 'S';
  }
  // The least that LAPACK asks for, and room for blocks of columns.
  i64 floats() const { return 4 * k * k + 7 * k + std::max(m, n) + kBlock * (m + n); }
  i64 ints() const { return 8 * k; }
};

template <class T>
void svd_of(const SvdArgs& a, void* workspace) {
  const MatrixBatch in(a.in);
  const SvdCall c(a);
  T *const matrix = static_cast<T*>(workspace), *const work = matrix + in.size();
  int* const ints = reinterpret_cast<int*>(work + c.floats());
  for (i64 b = 0; b < in.count; ++b) {
    std::memcpy(matrix, a.in.as<T>() + b * in.size(), size_t(in.size()) * sizeof(T));
    a.info.as<i32>()[b] = 1;
    if (!all_finite(matrix, in.size())) continue;
    T *const u = a.vectors() ? a.u.as<T>() + b * c.m * c.columns : nullptr,
             *const vh = a.vectors() ? a.vh.as<T>() + b * MatrixBatch(a.vh).size() : nullptr;
    a.info.as<i32>()[b] = gesdd(c.job, int(c.n), int(c.m), matrix, a.s.as<T>() + b * c.k, vh, u,
                                int(c.columns), work, int(c.floats()), ints);
  }
}

}  // namespace

const char* cholesky_lapack_why_not(const CholeskyArgs& a) { return why_not_matrix(a.in); }
const char* solve_triangular_blas_why_not(const SolveTriangularArgs& a) {
  return why_not_matrix(a.a);
}
const char* qr_lapack_why_not(const QrArgs& a) { return why_not_matrix(a.in); }
const char* eigh_lapack_why_not(const EighArgs& a) { return why_not_matrix(a.in); }

void cholesky_lapack(const CholeskyArgs& a, const Launch&) {
  if (a.in.numel() == 0) return;
  use_one_thread();
  with_type(a.in.dtype(), [&]<class T>() { cholesky_of<T>(a); });
}

void solve_triangular_blas(const SolveTriangularArgs& a, const Launch&) {
  if (a.out.numel() == 0) return;
  use_one_thread();
  const MatrixBatch m(a.a), x(a.out);
  with_type(a.out.dtype(), [&]<class T>() {
    for (i64 b = 0; b < x.count; ++b)
      trsm(a, int(m.rows), int(x.columns), a.a.as<T>() + b * m.size(),
           a.out.as<T>() + b * x.size());
  });
}

i64 qr_lapack_workspace(const QrArgs& a) {
  const MatrixBatch m(a.in);
  return (m.size() + std::min(m.rows, m.columns) + m.columns * kBlock) * item_size(a.in.dtype());
}

void qr_lapack(const QrArgs& a, const Launch& l) {
  if (a.in.numel() == 0) return;
  use_one_thread();
  with_type(a.in.dtype(), [&]<class T>() { qr_of<T>(a, static_cast<T*>(l.workspace)); });
}

i64 eigh_lapack_workspace(const EighArgs& a) {
  const i64 n = MatrixBatch(a.in).rows;
  return (n * n + eigh_floats(n)) * item_size(a.in.dtype()) + eigh_ints(n) * 4;
}

void eigh_lapack(const EighArgs& a, const Launch& l) {
  if (a.in.numel() == 0) return;
  use_one_thread();
  with_type(a.in.dtype(), [&]<class T>() { eigh_of<T>(a, l.workspace); });
}

const char* svd_lapack_why_not(const SvdArgs& a) {
  if (const char* why = why_not_matrix(a.in)) return why;
  const SvdCall c(a);  // its work space is counted in an int
  return c.floats() > INT_MAX ? "takes less than 2^31 elements of work space" : nullptr;
}
i64 svd_lapack_workspace(const SvdArgs& a) {
  const SvdCall c(a);
  return (c.m * c.n + c.floats()) * item_size(a.in.dtype()) + c.ints() * 4;
}

void svd_lapack(const SvdArgs& a, const Launch& l) {
  if (a.in.numel() == 0) return;
  use_one_thread();
  with_type(a.in.dtype(), [&]<class T>() { svd_of<T>(a, l.workspace); });
}

#else

static constexpr const char* kNone = "this build has no OpenBLAS, with which LAPACK comes";
const char* cholesky_lapack_why_not(const CholeskyArgs&) { return kNone; }
void cholesky_lapack(const CholeskyArgs&, const Launch&) {}
const char* solve_triangular_blas_why_not(const SolveTriangularArgs&) { return kNone; }
void solve_triangular_blas(const SolveTriangularArgs&, const Launch&) {}
const char* qr_lapack_why_not(const QrArgs&) { return kNone; }
void qr_lapack(const QrArgs&, const Launch&) {}
const char* eigh_lapack_why_not(const EighArgs&) { return kNone; }
void eigh_lapack(const EighArgs&, const Launch&) {}
i64 qr_lapack_workspace(const QrArgs&) { return 0; }
i64 eigh_lapack_workspace(const EighArgs&) { return 0; }
const char* svd_lapack_why_not(const SvdArgs&) { return kNone; }
i64 svd_lapack_workspace(const SvdArgs&) { return 0; }
void svd_lapack(const SvdArgs&, const Launch&) {}

#endif

}  // namespace wt
