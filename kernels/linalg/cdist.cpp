// Distances of all pairs on the cpu: the references and the lists of variants.
// linalg/cdist_tiles_cpu.cpp and linalg/cdist_pulls_cpu.cpp have the fast ones.
#include "warptape/kernels/cdist.h"

#include <cmath>

#include "warptape/kernels/common/dtypes.h"
#include "warptape/kernels/linalg/cdist_cpu.h"

namespace wt {

namespace {

template <class T>
T& element(const View& v, i64 n, i64 i, i64 k) {
  return v.as<T>()[n * v.stride(0) + i * v.stride(1) + k * v.stride(2)];
}

template <class T, class Y>
void forward(const CdistForwardArgs& a) {
  using C = ComputeType<T>;
  const NormSteps<C> norm{metric_of(a.p), C(a.p)};
  for (i64 n = 0; n < a.y.size(0); ++n)
    for (i64 i = 0; i < a.y.size(1); ++i)
      for (i64 j = 0; j < a.y.size(2); ++j) {
        C sum = 0;
        for (i64 k = 0; k < a.a.size(2); ++k)
          sum =
              norm.with(sum, std::fabs(C(element<T>(a.a, n, i, k)) - C(element<T>(a.b, n, j, k))));
        element<Y>(a.y, n, i, j) = Y(norm.finished(sum));
      }
}
void forward_reference(const CdistForwardArgs& a, const Launch&) {
  dispatch_floating(a.a.dtype(), [&]<class T>() {
    a.y.dtype() == a.a.dtype() ? forward<T, T>(a) : forward<T, ComputeType<T>>(a);
  });
}

template <class T>
void backward(const CdistBackwardArgs& a) {
  using C = ComputeType<T>;
  const NormSteps<C> norm{metric_of(a.p), C(a.p)};
  const auto share = [&](i64 n, i64 i, i64 j, i64 k) {
    const C d = C(element<T>(a.a, n, i, k)) - C(element<T>(a.b, n, j, k));
    return C(element<T>(a.gy, n, i, j)) * norm.slope(d, element<C>(a.y, n, i, j));
  };
  const i64 rows = a.y.size(1), columns = a.y.size(2);
  for (i64 n = 0; n < a.y.size(0); ++n)
    for (i64 k = 0; k < a.a.size(2); ++k) {
      for (i64 i = 0; i < rows && a.ga; ++i) {
        C sum = 0;
        for (i64 j = 0; j < columns; ++j) sum += share(n, i, j, k);
        element<T>(a.ga, n, i, k) = T(sum);
      }
      for (i64 j = 0; j < columns && a.gb; ++j) {
        C sum = 0;
        for (i64 i = 0; i < rows; ++i) sum -= share(n, i, j, k);
        element<T>(a.gb, n, j, k) = T(sum);
      }
    }
}
void backward_reference(const CdistBackwardArgs& a, const Launch&) {
  dispatch_floating(a.a.dtype(), [&]<class T>() { backward<T>(a); });
}

}  // namespace

WT_VARIANTS(cpu, cdist_forward, CdistForwardArgs,
            {.name = "tiles",
             .rank = 20,
             .workspace = cdist_tiles_workspace,
             .launch = cdist_tiles_forward},
            {.name = "reference", .rank = 10, .launch = forward_reference});
WT_VARIANTS(
    cpu, cdist_backward, CdistBackwardArgs,
    {.name = "tiles", .rank = 20, .workspace = cdist_pulls_workspace, .launch = cdist_pulls},
    {.name = "reference", .rank = 10, .launch = backward_reference});

}  // namespace wt
