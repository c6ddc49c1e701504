// Random numbers on the cpu: the definitions, an element at a time.
#include "warptape/kernels/random_fill.h"

#include "warptape/core/half.h"
#include "warptape/kernels/common/random_values.h"
#include "warptape/kernels/cpu/random_fill.h"

namespace wt {
namespace {

template <class S, class V>
void put_as(void* out, i64 i, V v) {
  static_cast<S*>(out)[i] = S(v);
}
template <class V>
void put(DType t, void* out, i64 i, V v) {
  switch (t) {
    case DType::f64:
      return put_as<double>(out, i, v);
    case DType::f32:
      return put_as<float>(out, i, v);
    case DType::f16:
      return put_as<Half>(out, i, float(v));
    case DType::bf16:
      return put_as<BFloat16>(out, i, float(v));
    default:
      break;
  }
  // Integers, which bernoulli has as numbers.
  const i64 n = i64(v);
  if (t == DType::boolean) return put_as<bool>(out, i, n);
  switch (item_size(t)) {
    case 8:
      return put_as<i64>(out, i, n);
    case 4:
      return put_as<i32>(out, i, n);
    case 2:
      return put_as<i16>(out, i, n);
    default:
      return put_as<i8>(out, i, n);
  }
}

void random_fill_reference(const RandomFillArgs& a, const Launch&) {
  const RandomValues r(a);
  const int each = r.each();
  for (i64 i = 0; i < a.out.numel(); ++i) {
    const PhiloxBlock b = philox(a.key, u64(i / each), a.call);
    if (r.whole())
      put(a.out.dtype(), a.out.data, i, r.integer(b, int(i % each)));
    else
      put(a.out.dtype(), a.out.data, i, r.number(b, int(i % each)));
  }
}

}  // namespace

WT_VARIANTS(cpu, random_fill, RandomFillArgs,
            {.name = "vector", .rank = 10, .launch = random_fill_vector},
            {.name = "reference", .launch = random_fill_reference});

}  // namespace wt
