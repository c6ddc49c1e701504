// LU factors on the cpu by the textbook (kernels/linalg/lu_common.h), on one thread.
#include "warptape/kernels/lu.h"

#include "warptape/kernels/linalg/lu_common.h"
#include "warptape/kernels/linalg/matrix_batch.h"

namespace wt {
namespace {

const char* lu_why_not(const LuArgs& a) {
  return a.in.dtype() == DType::f32 || a.in.dtype() == DType::f64 ? nullptr
                                                                  : "takes f32 and f64 only";
}

template <class T>
void lu_each(const LuArgs& a) {
  const MatrixBatch m(a.in);
  for (i64 b = 0; b < m.count; ++b)
    a.info.as<i32>()[b] = lu_of(a.out.as<T>() + b * m.size(), a.rows.as<i64>() + b * m.rows,
                                a.sign.as<T>() + b, a.in.as<const T>() + b * m.size(), m.rows);
}

void lu_reference(const LuArgs& a, const Launch&) {
  if (a.in.numel() == 0) return;
  a.in.dtype() == DType::f32 ? lu_each<float>(a) : lu_each<double>(a);
}

}  // namespace

WT_VARIANTS(cpu, lu, LuArgs, {.name = "reference", .why_not = lu_why_not, .launch = lu_reference});

}  // namespace wt
