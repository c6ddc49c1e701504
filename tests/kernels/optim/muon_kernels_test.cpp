// Every variant of Muon's elementwise kernels on every device against plain loops in f64: odd
// sizes, offsets that break 16-byte alignment.
#include "warptape/kernels/muon.h"

#include "warptape/core/half.h"
#include "warptape/kernels/grad_norm.h"
#include "warptape/tests/kernels/optim/optim_buffers.h"

using namespace wt;
using namespace wt_test;

TEST_CASE("muon_direction: every variant, plain and nesterov, with and without a factor") {
  for (const DType t : {f32, f64})
    for (const Sizes s : kSizes)
      for (const bool nesterov : {false, true})
        for (const bool scaled : {false, true}) {
          CAPTURE(dtype_name(t), s.n, s.skip, nesterov, scaled);
          for_each_variant<MuonDirectionArgs>([&](Device d, auto launch) {
            const Buffer out(Values(size_t(s.n), 5.0), t, d, s.skip),
                g(numbers(s.n, 1), t, d, s.skip), m(numbers(s.n, 2), t, d, s.skip);
            const OnDevice<OptimBlock> block(packed({.momentum = 0.75}), d);
            const OnDevice<double> factor(0.5, d);
            const Values before = m.values(), grad = g.values();
            if (!launch({out.data(), g.data(), m.data(), s.n, t, block.get(),
                         scaled ? factor.get() : nullptr, nesterov}))
              return;
            Values want;
            for (size_t i = 0; i < grad.size(); ++i) {
              const double x = (scaled ? 0.5 : 1) * grad[i];
              const double next = 0.75 * before[i] + 0.25 * x;
              want.push_back(nesterov ? 0.25 * x + 0.75 * next : next);
            }
            check_near(out.values(), want, t);
            CHECK(m.values() == before);
            CHECK(g.values() == grad);
          });
        }
}

TEST_CASE("muon_normalize: every variant, norms of many parts, tiny ones and NaN") {
  for (const DType t : {f32, f64})
    for (const Sizes s : kSizes)
      for (const double eps : {1e-7, 4.0})
        for (const size_t count : {size_t(1), size_t(3), size_t(700)}) {
          CAPTURE(dtype_name(t), s.n, s.skip, eps, count);
          for_each_variant<MuonNormalizeArgs>([&](Device d, auto launch) {
            const Buffer out(Values(size_t(s.n), 5.0), t, d, s.skip),
                in(numbers(s.n, 1), t, d, s.skip);
            const Tensor partials = tensor(Values(count, 4.0 / double(count))).to(d);
            if (!launch({out.data(), in.data(), s.n, t, static_cast<double*>(partials.impl()->data),
                         i64(count), eps}))
              return;
            Values want = in.values();
            for (double& v : want) v /= std::max(2.0, eps);
            check_near(out.values(), want, t);
          });
        }
  for_each_variant<MuonNormalizeArgs>([&](Device d, auto launch) {  // a norm of sqrt(2) in bf16
    const Buffer out(Values(9, 1.0), f32, d, 0), in(Values(9, 1.0), f32, d, 0);
    const OnDevice<double> partial(2, d);
    launch({out.data(), in.data(), 9, f32, partial.get(), 1, 1e-7, true});
    const float norm(BFloat16(std::sqrt(2.0f)));
    CHECK(out.values() == Values(9, double(1 / norm)));
  });
  for_each_variant<MuonNormalizeArgs>([&](Device d, auto launch) {
    const Buffer out(Values(5, 1.0), f32, d, 0), in(Values(5, 1.0), f32, d, 0);
    const OnDevice<double> partial(NAN, d);
    launch({out.data(), in.data(), 5, f32, partial.get(), 1, 1e-7});
    for (const double v : out.values()) CHECK(std::isnan(v));
  });
}

TEST_CASE("muon_polynomial: every variant, every remainder of a row") {
  for (const DType t : {f32, f64})
    for (const i64 rows : {0, 1, 2, 3, 4, 7, 8, 33, 64, 130})
      for (const i64 skip : {0, 1}) {
        CAPTURE(dtype_name(t), rows, skip);
        for_each_variant<MuonPolynomialArgs>([&](Device d, auto launch) {
          const Buffer square(numbers(rows * rows, 1), t, d, skip),
              gram(numbers(rows * rows, 2), t, d, skip);
          Values want = square.values();
          const Values other = gram.values();
          if (!launch({square.data(), gram.data(), rows, t, 3.5, -4.75, 2.0})) return;
          for (i64 i = 0; i < rows * rows; ++i) {
            double& v = want[size_t(i)];
            v = (i / rows == i % rows ? 3.5 : 0) - 4.75 * other[size_t(i)] + 2 * v;
          }
          check_near(square.values(), want, t);
          CHECK(gram.values() == other);
        });
      }
  // Not square, of bf16's values, scaled; the other matrix may be the same.
  for (const DType t : {f32, f64})
    for (const i64 columns : {1, 3, 4, 130})
      for_each_variant<MuonPolynomialArgs>([&](Device d, auto launch) {
        CAPTURE(dtype_name(t), columns);
        const i64 rows = 5;
        const Buffer square(numbers(rows * columns, 1), t, d, 0);
        Values want = square.values();
        if (!launch({square.data(), square.data(), rows, t, 0, 0.5, 2, columns, true, 0.75}))
          return;
        for (double& v : want) v = 0.75 * double(float(BFloat16(float(2.5 * v))));
        check_near(square.values(), want, t);
      });
  // More rows than a block has threads, vectors included.
  for_each_variant<MuonPolynomialArgs>([&](Device d, auto launch) {
    const i64 rows = 1100;
    const Buffer square(Values(size_t(rows * rows), 1.0), f32, d, 0),
        gram(Values(size_t(rows * rows), 2.0), f32, d, 0);
    launch({square.data(), gram.data(), rows, f32, 4, 0.5, 2});
    const Values got = square.values();
    bool right = true;
    for (i64 i = 0; i < rows * rows; ++i) right &= got[size_t(i)] == (i / rows == i % rows ? 7 : 3);
    CHECK(right);
  });
}
