// Windows with PyTorch's numbers; short-time transforms there and back.
#include "warptape/autograd/ops/spectral.h"

#include <cmath>
#include <functional>

#include "warptape/tests/reference/reader.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/values.h"
#include "warptape/tests/support/variants.h"
#include "warptape/tests/tolerance.h"

using namespace wt_test;

TEST_CASE("windows have PyTorch's numbers") {
  const auto ref = wt::reference::load_reference(wt::reference::reference_path("windows"));
  const auto check = [&](const std::string& name, const Tensor& got) {
    INFO(name);
    const std::vector<double>& want = ref.at(name).values;
    const Values v = values(got);
    REQUIRE(v.size() == want.size());
    // Sums of terms of up to 1.
    for (size_t i = 0; i < v.size(); ++i)
      CHECK(within(v[i], want[i], value_bound(f64, f64, kTermsOfFormula, want[i], 1)));
  };
  const TensorOptions o{.dtype = f64};
  for (const bool periodic : {true, false})
    for (const i64 n : {1, 2, 7, 8}) {
      const std::string end = str(periodic ? "_periodic_" : "_symmetric_", n);
      check("hann" + end, hann_window(n, {.periodic = periodic}, o));
      check("hamming" + end, hamming_window(n, {.periodic = periodic}, o));
      check("blackman" + end, blackman_window(n, {.periodic = periodic}, o));
      check("bartlett" + end, bartlett_window(n, {.periodic = periodic}, o));
      check("kaiser" + end, kaiser_window(n, {.periodic = periodic}, o));
    }
  check("hamming_others", hamming_window(9, {.alpha = 0.6, .beta = 0.3}, o));
  check("kaiser_others", kaiser_window(9, {.periodic = false, .beta = 2.5}, o));
  CHECK(hann_window(0).shape() == Shape{0});
  CHECK(hann_window(4).dtype() == f32);
  CHECK(values(kaiser_window(3, {.periodic = false, .beta = 0})) == Values{1, 1, 1});
  CHECK(std::isfinite(values(kaiser_window(5, {.beta = 1000}))[1]));
  CHECK(mentions(message_of([] { (void)hann_window(-1); }), "[hann_window] n must be at least 0"));
  CHECK(mentions(message_of([] { (void)kaiser_window(3, {.beta = NAN}); }),
                 "[kaiser_window] beta must be finite"));
  CHECK(mentions(message_of([] { (void)bartlett_window(3, {}, {.dtype = DType::i64}); }),
                 "[bartlett_window] expected a floating dtype, got i64"));
}

TEST_CASE("istft is the inverse of stft") {
  for (const Device d : operator_devices()) {
    const Tensor x = tensor(random_values(2 * 100, 5)).reshape({2, 100}).to(d);
    const Tensor window = hann_window(16, {}, {.dtype = f64, .device = d});
    for (const bool normalized : {false, true})
      for (const bool onesided : {true, false}) {
        const Tensor y =
            stft(x, 16, {.window = window, .normalized = normalized, .onesided = onesided});
        CHECK(y.shape() == Shape{2, onesided ? 9 : 16, 26, 2});
        const Tensor back = istft(
            y, 16,
            {.window = window, .normalized = normalized, .onesided = onesided, .length = 110});
        CHECK(back.shape() == Shape{2, 110});
        const Values v = values(back), w = values(x);
        for (size_t i = 0; i < 100; ++i) CHECK(std::fabs(v[i] - w[i]) < 1e-13);
        for (size_t i = 108; i < 110; ++i) CHECK(v[i] == 0);  // where there is no frame
      }
  }
}

TEST_CASE("istft: the cpu says where the windows leave nothing to divide by") {
  const Tensor bins = ones({3, 4, 2});
  const Tensor window = hann_window(4);  // begins with 0
  CHECK(mentions(message_of([&] {
                   (void)istft(bins, 4, {.hop_length = 2, .window = window, .center = false});
                 }),
                 "[istft] the windows leave nothing to divide by"));
  CHECK(istft(bins, 4, {.hop_length = 2, .window = window}).shape() == Shape{6});
  // Elsewhere looking at the values would wait for the device.
  const Device d = Device::simt();
  const Tensor divided =
      istft(bins.to(d), 4, {.hop_length = 2, .window = window.to(d), .center = false});
  CHECK_FALSE(std::isfinite(values(divided)[0]));
}
