// Pictures and values for tests of transforms.
#pragma once
#include <vector>

#include "warptape/core/factories.h"
#include "warptape/core/philox.h"
#include "warptape/core/profiler.h"
#include "warptape/core/tensor.h"

namespace wt_test {

// u8 [n, c, h, w], any levels.
inline wt::Tensor some_pictures(wt::i64 n, wt::i64 h, wt::i64 w, wt::i64 c = 3,
                                wt::Device d = wt::Device::cpu()) {
  std::vector<double> v(size_t(n * c * h * w));
  for (size_t i = 0; i < v.size(); ++i) v[i] = double(wt::mix64(i) % 256);
  return wt::tensor(v).reshape({n, c, h, w}).to(wt::DType::u8).to(d);
}

inline std::vector<double> pixel_values(const wt::Tensor& t) {
  return t.to(wt::Device::cpu()).contiguous().to(wt::DType::f64).to_vector<double>();
}

struct CountKernels final : wt::profiler::Observer {
  int kernels = 0;
  void begin(const wt::profiler::Range& r) noexcept override {
    kernels += r.kind == wt::profiler::Kind::kernel;
  }
};

}  // namespace wt_test
