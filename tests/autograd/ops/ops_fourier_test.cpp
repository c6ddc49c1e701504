// Fourier transforms: accuracy of every variant at lengths of every kind, rows that do not touch
// each other, threads, dtypes, frequencies.
#include "warptape/autograd/ops/fourier.h"

#include <cmath>
#include <complex>

#include "warptape/autograd/autocast.h"
#include "warptape/autograd/grads.h"
#include "warptape/core/device.h"
#include "warptape/kernels/fft.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/values.h"
#include "warptape/tests/support/variants.h"

using namespace wt_test;

namespace {

// The transform by its sum, in long double.
std::vector<double> exact(const std::vector<double>& x, i64 n) {
  std::vector<double> y(x.size());
  std::vector<std::complex<long double>> root(size_t(n), 1);
  for (i64 k = 1; k < n; ++k) root[size_t(k)] = std::polar(1.0L, -2 * std::acos(-1.0L) * k / n);
  for (size_t first = 0; first < x.size(); first += size_t(2 * n))
    for (i64 k = 0; k < n; ++k) {
      std::complex<long double> sum = 0;
      for (i64 j = 0; j < n; ++j)
        sum += std::complex<long double>(x[first + size_t(2 * j)], x[first + size_t(2 * j + 1)]) *
               root[size_t(j * k % n)];
      y[first + size_t(2 * k)] = double(sum.real());
      y[first + size_t(2 * k + 1)] = double(sum.imag());
    }
  return y;
}
// |got - want| / |want|, root mean square.
double relative_error(const std::vector<double>& got, const std::vector<double>& want) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < want.size(); ++i)
    error += (got[i] - want[i]) * (got[i] - want[i]), norm += want[i] * want[i];
  return std::sqrt(error / norm);
}

}  // namespace

TEST_CASE("fft: every variant at lengths of every kind, to u log2(n)") {
  std::set<std::string> ran;
  for (const Device d : kernel_devices())
    for (const i64 n :
         {1, 2, 3, 4, 5, 7, 8, 12, 31, 37, 49, 60, 64, 74, 101, 243, 250, 512, 1009}) {
      if (d.kind == DeviceKind::simt && n > 300) continue;
      const i64 several = n > 300 ? 3 : 11;  // the sum's cost is n^2 a row
      for (const i64 rows : {i64{1}, several})
        for (const DType t : {f32, f64}) {
          if (!whole_walk() && n > 60 && (rows == 1) == (t == f32)) continue;
          INFO(n << " " << dtype_name(t) << ", " << rows << " rows");
          const Tensor x = tensor(random_values(2 * n * rows, 7)).reshape({rows, n, 2}).to(t);
          const std::vector<double> want = exact(values(x), n);
          const Tensor in = x.to(d);
          Tensor y = empty({rows, n, 2}, {.dtype = t, .device = d});
          const FftArgs args{view_of(y.impl()), view_of(in.impl()), 1, n};
          // A chirp goes through two transforms of up to 4 n numbers, and three products; a sum of
          // a large prime's numbers grows like a walk of as many steps.
          const double u = t == f32 ? 0x1p-24 : 0x1p-53;
          const double steps = 2 * (std::log2(double(4 * n)) + 3) + std::sqrt(double(n));
          for_each_variant<FftArgs>(
              d, args,
              [&] {
                CHECK(relative_error(values(y), want) <= steps * u);
                y.fill_(0);
              },
              &ran);
        }
    }
  check_ran(ran, {"cpu:stages", "simt:shared", "simt:stages"});
}

TEST_CASE("fft: a row of NaN leaves its neighbours alone, and threads change no bit") {
  Tensor x = tensor(random_values(40 * 96 * 2, 3)).reshape({40, 96, 2}).to(f32);
  const Values clean = values(fft(x));
  x.select(0, 5).fill_(NAN);
  const Values v = values(fft(x));
  for (size_t i = 0; i < v.size(); ++i) CHECK((i / 192 == 5 ? std::isnan(v[i]) : v[i] == clean[i]));
  const int before = num_threads();
  const Tensor large = tensor(random_values(300 * 360 * 2, 3)).reshape({300, 360, 2}).to(f32);
  set_num_threads(1);
  const Values one = values(fft(large));
  set_num_threads(4);
  CHECK(values(fft(large)) == one);
  set_num_threads(before);
}

TEST_CASE("fft: pairs whose parts are one element") {
  const Tensor same = tensor({1.0, 2.0, -4.0}, {.dtype = f64}).unsqueeze(-1).expand({3, 2});
  for (const Device d : kernel_devices()) {
    const Tensor y = fft(same.contiguous().to(d));
    CHECK(values(fft(same.to(d).narrow(1, 0, 1).expand({3, 2}))) == values(y));
    CHECK(values(irfft(same.to(d).narrow(1, 0, 1).expand({3, 2}))) ==
          values(irfft(same.contiguous().to(d))));
  }
}

TEST_CASE("irfft is the inverse of rfft, and reads no imaginary part of a bin that has none") {
  for (const i64 n : {1, 2, 7, 8, 30}) {
    const Tensor x = tensor(random_values(3 * n, 5)).reshape({3, n});
    for (const FftNorm norm : {FftNorm::backward, FftNorm::ortho, FftNorm::forward}) {
      const Tensor bins = rfft(x, {.norm = norm});
      CHECK(bins.shape() == Shape{3, n / 2 + 1, 2});
      const Values back = values(irfft(bins, {.n = n, .norm = norm}));
      for (size_t i = 0; i < back.size(); ++i) CHECK(std::fabs(back[i] - values(x)[i]) < 1e-14);
      bins.select(-1, 1).select(-1, 0).fill_(INFINITY);
      if (n % 2 == 0) bins.select(-1, 1).select(-1, n / 2).fill_(NAN);
    }
  }
  const Tensor bins = zeros({3, 2}, {.dtype = f64, .requires_grad = true});
  const Values g = values(grad(irfft(bins).narrow(0, 0, 1).sum(), bins));
  CHECK(g == Values{0.25, 0, 0.5, 0, 0.25, 0});  // 1 / n, twice for bin 1 of 4
}

TEST_CASE("fft2 and its kin take the last two axes") {
  const Tensor x = tensor(random_values(2 * 4 * 6, 5)).reshape({2, 4, 6});
  const Tensor bins = rfft2(x);
  CHECK(bins.shape() == Shape{2, 4, 4, 2});
  CHECK(values(bins) == values(fft(rfft(x), {.dim = 1})));
  const Values back = values(irfft2(bins));
  for (size_t i = 0; i < back.size(); ++i) CHECK(std::fabs(back[i] - values(x)[i]) < 1e-14);
  CHECK(values(fft2(bins)) == values(fftn(bins, {.dim = Dims{1, 2}})));
  CHECK(values(ifft2(bins)) == values(ifftn(bins, {.dim = Dims{-2, -1}})));
}

TEST_CASE("fft: 16-bit floats are refused, and under autocast computed in f32") {
  const Tensor half = ones({4, 2}, {.dtype = f16});
  CHECK(mentions(message_of([&] { (void)fft(half); }), "[fft] expected f32 or f64, got f16"));
  const AutocastScope autocast(f16);
  CHECK(fft(half).dtype() == f32);
}

TEST_CASE("fft: no rows, and shapes on meta") {
  for (const Device d : kernel_devices()) {
    CHECK(fft(zeros({0, 5, 2}, {.device = d})).shape() == Shape{0, 5, 2});
    CHECK(rfft(zeros({3, 0, 4}, {.device = d})).shape() == Shape{3, 0, 3, 2});
  }
  const Tensor x = empty({7, 1 << 20}, {.device = Device::meta()});
  CHECK(rfft(x).shape() == Shape{7, (1 << 19) + 1, 2});
}

TEST_CASE("fftfreq and rfftfreq are PyTorch's") {
  CHECK(values(fftfreq(5, 1, {.dtype = f64})) == Values{0, 1.0 / 5, 2.0 / 5, -2.0 / 5, -1.0 / 5});
  CHECK(values(fftfreq(4, 0.5)) == Values{0, 0.5, -1, -0.5});
  CHECK(values(rfftfreq(5, 2, {.dtype = f64})) == Values{0, 1.0 / 10, 2.0 / 10});
  CHECK(values(rfftfreq(4)) == Values{0, 0.25, 0.5});
  CHECK(values(fftfreq(1)) == Values{0});
  CHECK(fftfreq(4).dtype() == f32);
  CHECK(values(ifftshift(fftshift(fftfreq(5), 0), 0)) == values(fftfreq(5)));
  CHECK(mentions(message_of([] { (void)fftfreq(0); }), "[fftfreq] n must be at least 1, got 0"));
  CHECK(mentions(message_of([] { (void)rfftfreq(3, 1, {.dtype = DType::i64}); }),
                 "[rfftfreq] expected a floating dtype, got i64"));
}
