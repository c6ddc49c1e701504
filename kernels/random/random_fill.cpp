// Random numbers on the cpu: the definitions, an element at a time.
#include "warptape/kernels/random_fill.h"

#include "warptape/kernels/common/number.h"
#include "warptape/kernels/random/random_fill_cpu.h"
#include "warptape/kernels/random/random_values.h"

namespace wt {
namespace {

void random_fill_reference(const RandomFillArgs& a, const Launch&) {
  const RandomValues r(a);
  const int each = r.each();
  for (i64 i = 0; i < a.out.numel(); ++i) {
    const PhiloxBlock b = philox(a.key, u64(i / each), a.call);
    if (r.whole())
      HostNumbers::put(a.out.dtype(), a.out.data, i, r.integer(b, int(i % each)));
    else
      HostNumbers::put(a.out.dtype(), a.out.data, i, r.number(b, int(i % each)));
  }
}

}  // namespace

WT_VARIANTS(cpu, random_fill, RandomFillArgs,
            {.name = "vector", .rank = 10, .launch = random_fill_vector},
            {.name = "reference", .launch = random_fill_reference});

}  // namespace wt
