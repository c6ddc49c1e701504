// A function through an ONNX file and back. With WT_ONNX_KEEP=FOLDER the files stay there, each
// beside what went in and came out (NAME.safetensors, "in.0", "out.0"), for
// bench/peers/onnx_check.py to run them elsewhere.
#pragma once
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "warptape/autograd/onnx.h"
#include "warptape/autograd/ops.h"
#include "warptape/core/mode.h"
#include "warptape/nn/checkpoint_file.h"
#include "warptape/nn/module.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/temp_dir.h"

namespace wt_test {

using Tensors = std::vector<wt::Tensor>;

// As numpy's allclose: NaN is equal to NaN.
inline void check_near(const wt::Tensor& got, const wt::Tensor& want, double tolerance) {
  using namespace wt;
  REQUIRE(got.dtype() == want.dtype());
  REQUIRE(got.shape() == want.shape());
  const std::vector<double> a = got.cpu().to(f64).to_vector<double>(),
                            b = want.cpu().to(f64).to_vector<double>();
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    const double apart = std::abs(a[i] - b[i]) / (1 + std::abs(b[i]));
    worst = apart <= worst ? worst : apart;
    if (std::isnan(apart)) worst = INFINITY;
  }
  CHECK(worst <= tolerance);
}

template <class F, size_t N>
void round_trip(const std::string& name, F&& f, const wt::Tensor (&in)[N],
                const wt::onnx::SaveOptions& options = {}, double tolerance = 2e-6) {
  using namespace wt;
  INFO(name);
  const TempDir dir;
  const char* const kept = std::getenv("WT_ONNX_KEEP");
  const std::string path = kept ? str(kept, "/", name) : dir / name;
  onnx::save(path + ".onnx", f, in, options);
  const NoGrad no_grad;
  const auto want = [&]<size_t... i>(std::index_sequence<i...>) {
    return onnx::detail::listed(f(in[i]...));
  }
  (std::make_index_sequence<N>{});
  const onnx::Graph g = onnx::load(path + ".onnx", in[0].device());
  const Tensors got = g.run(Tensors(in, in + N));
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < got.size(); ++i) check_near(got[i], want[i], tolerance);
  if (!kept) return;
  std::vector<nn::NamedTensor> all;
  for (size_t i = 0; i < N; ++i) all.push_back({str("in.", i), in[i].cpu().contiguous()});
  for (size_t i = 0; i < want.size(); ++i)
    all.push_back({str("out.", i), want[i].cpu().contiguous()});
  nn::save_tensors(path + ".safetensors", all);
}

}  // namespace wt_test
