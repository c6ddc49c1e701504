// The reference of docs/writing_kernels.md.
#include "warptape/tests/simt/unit_rows.h"

#include <cmath>

#include "warptape/config.h"
#include "warptape/kernels/dispatch/run_erased.h"

namespace wt {

static void unit_rows_reference(const UnitRowsArgs& args, const Launch&) {
  const i64 rows = args.x.geometry->shape[0], columns = args.x.geometry->shape[1];
  for (i64 r = 0; r < rows; ++r) {
    const float* x = args.x.as<const float>() + r * columns;
    float* y = args.y.as<float>() + r * columns;
    float sum = 0;
    for (i64 i = 0; i < columns; ++i) sum += std::fabs(x[i]);
    for (i64 i = 0; i < columns; ++i) y[i] = x[i] / sum;
  }
}

WT_VARIANTS(cpu, unit_rows, UnitRowsArgs, {.name = "reference", .launch = unit_rows_reference});

// A family of kernels/ has these lines from the build.
constinit const Variants<UnitRowsArgs>* const ContractTable<UnitRowsArgs>::rows[kNumDeviceKinds] = {
    &unit_rows_on_cpu,
#if WARPTAPE_HAS_SIMT
    &unit_rows_on_simt
#endif
};
constinit const detail::ErasedContract ContractTable<UnitRowsArgs>::erased =
    detail::erased_contract<UnitRowsArgs>();

}  // namespace wt
