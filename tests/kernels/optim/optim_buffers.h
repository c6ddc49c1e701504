// Values and scalars on a device for tests of the optimizer kernels, and a walk over variants.
#pragma once
#include <cmath>
#include <vector>

#include "warptape/core/factories.h"
#include "warptape/core/memory/copy_bytes.h"
#include "warptape/core/philox.h"
#include "warptape/kernels/optim_step.h"
#include "warptape/kernels/run.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/devices.h"

namespace wt_test {

using namespace wt;

using Values = std::vector<double>;

// Deterministic values in (-1, 1).
inline Values numbers(i64 n, u64 seed) {
  Values v(size_t(n), 0.0);
  for (i64 i = 0; i < n; ++i) v[size_t(i)] = double(i64(mix64(seed + u64(i)) % 2001) - 1000) / 1001;
  return v;
}

// n elements on a device, `skip` elements into their block: breaks the alignment.
struct Buffer {
  Tensor tensor;
  i64 skip;
  Buffer(const Values& v, DType t, Device d, i64 skip_elements) : skip(skip_elements) {
    Values padded(size_t(skip), 0.0);
    padded.insert(padded.end(), v.begin(), v.end());
    padded.push_back(77);  // must not be touched
    tensor = wt::tensor(padded).to(t).to(d);
  }
  void* data() const {
    return static_cast<char*>(tensor.impl()->data) + skip * item_size(tensor.dtype());
  }
  Values values() const {
    Values v = tensor.to_vector<double>();
    CHECK(v.back() == 77);
    return {v.begin() + skip, v.end() - 1};
  }
};

template <class T>
struct OnDevice {
  Tensor bytes;
  OnDevice(const T& v, Device d)
      : bytes(empty({i64(sizeof(T))}, {.dtype = DType::u8, .device = d})) {
    copy_bytes(bytes.impl()->data, d, &v, Device::cpu(), sizeof v);
  }
  T* get() const { return static_cast<T*>(bytes.impl()->data); }
  T read() const {
    T v;
    copy_bytes(&v, Device::cpu(), bytes.impl()->data, bytes.device(), sizeof v);
    return v;
  }
};

// The block as step_advance would leave it, of the rate and the corrections that it has.
inline OptimBlock packed(OptimBlock b) {
  wt::detail::pack(b);
  return b;
}

// Calls f(device, launch) for each variant of `contract`, forced.
template <class Args, class F>
void for_each_variant(F f) {
  for (const Device d : kernel_devices()) {
    const Variants<Args>* list = ContractTable<Args>::rows[int(d.kind)];
    REQUIRE(list);
    for (int i = 0; i < list->count; ++i) {
      CAPTURE(to_string(d), list->rows[i].name);
      f(d, [&](const Args& a) {
        if (list->rows[i].why_not && list->rows[i].why_not(a)) return false;
        list->rows[i].launch(a, Launch{.device = d});
        return true;
      });
    }
  }
}

inline void check_near(const Values& got, const Values& want, DType t) {
  REQUIRE(got.size() == want.size());
  const double eps = t == f64 ? 1e-14 : 4e-7;
  for (size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i, got[i], want[i]);
    if (!(std::abs(got[i] - want[i]) <= eps * (1 + std::abs(want[i])))) FAIL("differs");
  }
}

struct Sizes {
  i64 n, skip;
};
inline const std::vector<Sizes> kSizes{{0, 0},   {1, 0},    {7, 0},  {64, 0},
                                       {301, 0}, {2051, 0}, {301, 1}};

}  // namespace wt_test
