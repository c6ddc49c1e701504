// A row of the pointwise list, at one size.
#pragma once
#include <cstring>

#include "warptape/bench/gpu/maker.h"
#include "warptape/core/error.h"
#include "warptape/kernels/pointwise.h"

namespace wt::bench {

// Entries that are NaN for most negative numbers.
inline bool wants_positive(const char* name) {
  for (const char* entry : {"log", "sqrt", "rsqrt", "pow"})
    if (std::strncmp(name, entry, std::strlen(entry)) == 0 && !std::strstr(name, "logical"))
      return true;
  return false;
}

template <class F>
ProblemRow pointwise_row(const char* name) {
  using Args = PointwiseArgs<F>;
  const auto make = [name](Device d, DType t, Scale scale, int, int sets) {
    const bool small = scale == Scale::small;
    const i64 side = scale == Scale::host ? 4096 : 8192;
    const Shape s = small ? Shape{3, 1031} : Shape{side, side};
    return problem_of(
        d, t, str(s[0], "x", s[1]), sets, [&](Maker& m, std::vector<Tensor>& outputs) {
          Args a;
          outputs = {m.out(s, F::kPredicate ? DType::boolean : t)};
          a.out = view(outputs[0]);
          for (int i = 0; i < F::kArity; ++i)
            a.in[i] = view(i == 0 && F::kSelects ? m.out(s, DType::boolean)
                                                 : m.normal(s, t, wants_positive(name)));
          if constexpr (F::kSelects) {  // every other element
            std::vector<u8> bits(size_t(numel_of(s)));
            for (size_t i = 0; i < bits.size(); ++i) bits[i] = i % 2;
            const Tensor mask = m.bytes(bits.data(), i64(bits.size()));
            a.in[0].data = mask.impl()->data;
          }
          return a;
        });
  };
  const std::vector<DType> types{DType::f32, DType::bf16};
  return {name, types, 1, make};
}

#define WT_POINTWISE_ROW(contract, Args) \
  rows.push_back(row_of_entry(#contract, static_cast<Args*>(nullptr)));
template <class F>
ProblemRow row_of_entry(const char* name, PointwiseArgs<F>*) {
  return pointwise_row<F>(name);
}

}  // namespace wt::bench
