// The p-norms of differences, a step at a time, for host and device.
#pragma once
#include <math.h>

#include "warptape/core/macros.h"
#include "warptape/core/types.h"

namespace wt {

// The norms that have code of their own.
enum class Metric : u8 { count, manhattan, euclidean, largest, power };
constexpr Metric metric_of(double p) {
  return p == 0                 ? Metric::count
         : p == 1               ? Metric::manhattan
         : p == 2               ? Metric::euclidean
         : p == __builtin_inf() ? Metric::largest
                                : Metric::power;
}

// C: double, or float for f32 and 16 bits. `p` counts for Metric::power alone.
template <class C>
struct NormSteps {
  Metric metric;
  C p;

  // `sum` with one more |difference|.
  WT_HD C with(C sum, C size) const {
    switch (metric) {
      case Metric::count:
        return sum + C(size != 0);
      case Metric::manhattan:
        return sum + size;
      case Metric::euclidean:
        return sum + size * size;
      case Metric::largest:
        return size > sum || size != size ? size : sum;  // a NaN stays
      case Metric::power:
        break;
    }
    return sum + ::pow(size, p);
  }
  // The norm, when all are in.
  WT_HD C finished(C sum) const {
    return metric == Metric::euclidean ? ::sqrt(sum)
           : metric == Metric::power   ? ::pow(sum, 1 / p)
                                       : sum;
  }
  // Its derivative by the difference d; y: the norm.
  WT_HD C slope(C d, C y) const {
    switch (metric) {
      case Metric::count:
        return 0;
      case Metric::manhattan:
        return sign_of(d);
      case Metric::euclidean:
        return y == 0 ? 0 : d / y;
      case Metric::largest:
        return ::fabs(d) == y ? sign_of(d) : 0;
      case Metric::power:
        break;
    }
    return d == 0 || y == 0 ? 0 : sign_of(d) * ::pow(::fabs(d) / y, p - 1);
  }

 private:
  WT_HD static C sign_of(C d) { return C(d > 0) - C(d < 0); }
};

}  // namespace wt
