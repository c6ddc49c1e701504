// Singular values and vectors on the cpu by the textbook (kernels/linalg/svd_common.h), on one
// thread.
#include "warptape/kernels/svd.h"

#include "warptape/kernels/linalg/svd_common.h"
#include "warptape/kernels/linalg/svd_cpu.h"

namespace wt {
namespace {

const char* svd_why_not(const SvdArgs& a) {
  return a.in.dtype() == DType::f32 || a.in.dtype() == DType::f64 ? nullptr
                                                                  : "takes f32 and f64 only";
}

i64 svd_workspace(const SvdArgs& a) { return svd_work(svd_shape(a)) * i64(sizeof(double)); }

template <class T>
void svd_each(const SvdArgs& a, double* work) {
  const MatrixBatch in(a.in);
  const SvdShape shape = svd_shape(a);
  for (i64 b = 0; b < in.count; ++b) {
    T *u = nullptr, *vh = nullptr;
    if (a.vectors()) {
      u = a.u.as<T>() + b * MatrixBatch(a.u).size();
      vh = a.vh.as<T>() + b * MatrixBatch(a.vh).size();
    }
    a.info.as<i32>()[b] =
        svd_of(shape.tall ? u : vh, shape.tall ? vh : u, a.s.as<T>() + b * shape.count(),
               a.in.as<const T>() + b * in.size(), shape, work);
  }
}

void svd_reference(const SvdArgs& a, const Launch& l) {
  if (a.in.numel() == 0) return;
  double* const work = static_cast<double*>(l.workspace);
  a.in.dtype() == DType::f32 ? svd_each<float>(a, work) : svd_each<double>(a, work);
}

}  // namespace

WT_VARIANTS(cpu, svd, SvdArgs,
            {.name = "lapack",
             .rank = 10,
             .why_not = svd_lapack_why_not,
             .workspace = svd_lapack_workspace,
             .launch = svd_lapack},
            {.name = "reference",
             .why_not = svd_why_not,
             .workspace = svd_workspace,
             .launch = svd_reference});

}  // namespace wt
