// Pictures and values for tests of transforms.
#pragma once
#include <vector>

#include "warptape/core/factories.h"
#include "warptape/core/graph.h"
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

// What `f` of u8 pictures gives when a captured graph replays it after its pictures were let go and
// their size was asked for again: the graph has to have kept them.
template <class F>
std::vector<double> replayed_alone(wt::Device d, F f) {
  wt::Graph graph{d};
  wt::Tensor pictures = some_pictures(3, 8, 8, 3, d), out;
  for (int i = 0; i < 2; ++i) graph.warm_up([&] { out = f(pictures); });
  graph.capture([&] { out = f(pictures); });
  pictures = {};
  std::vector<wt::Tensor> others;
  for (int i = 0; i < 8; ++i)
    others.push_back(wt::full({3, 3, 8, 8}, 7, {.dtype = wt::DType::u8, .device = d}));
  graph.replay();
  return pixel_values(out);
}

}  // namespace wt_test
