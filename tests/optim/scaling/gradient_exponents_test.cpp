// Exponents of gradients: counts against the gradients themselves, shares by dtype and scale, when
// they can be had, what they cost a step, and the map.
#include "warptape/optim/gradient_exponents.h"

#include <cmath>

#include "warptape/core/profiler.h"
#include "warptape/kernels/exponent_counts.h"
#include "warptape/tests/optim/devices.h"
#include "warptape/tests/optim/scaled_net.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"

using namespace wt;
using namespace wt_test;

namespace {

auto loss_of(ScaledNet& net) {
  return [&net](const Labelled& b) { return cross_entropy(net(b.x), b.y); };
}

// Counts of a gradient's values, each divided first.
std::vector<i64> counts_of(const Tensor& g, double divisor) {
  std::vector<i64> counts(kExponentBins, 0);
  for (const double v : g.to_vector<double>())
    ++counts[size_t(wt::detail::exponent_bin(v / divisor))];
  return counts;
}

// One row of so many elements at exponents.
ExponentRow row_of(const std::vector<std::pair<int, i64>>& at, i64 zeros = 0, i64 inf = 0) {
  ExponentRow r{"w", std::vector<i64>(kExponentBins, 0)};
  for (const auto& [e, n] : at) r.counts[size_t(e - kLowestExponent)] += n;
  r.counts[kZeroBin] = zeros, r.counts[kInfBin] = inf;
  return r;
}

struct CountLaunches final : profiler::Observer {
  i64 exponents = 0;
  void begin(const profiler::Range& r) noexcept override {
    exponents +=
        r.kind == profiler::Kind::kernel && r.title().find("exponent_counts") != std::string::npos;
  }
  void end(const profiler::Range&) noexcept override {}
};

}  // namespace

TEST_CASE("exponents of a step's gradients are those of the mean loss's", "[exponents]") {
  const Device d = ready(GENERATE(Device::cpu(), Device::simt()));
  const DType t = GENERATE(f32, f16, bf16);
  const i64 parts = GENERATE(1, 3);
  const LeakGuard guard;
  ScaledNet net = scaled_net(d);
  optim::AdamW opt(net, {.lr = 0.02});
  TrainStep step{net, opt, {.precision = t, .micro_batches = parts}};
  const Labelled batch = labelled(24, d);
  (void)step(batch, loss_of(net));
  const StepResult r = step(batch, loss_of(net));
  const GradientExponents e = step.gradient_exponents();
  CHECK(e.scale == r.scale());
  CHECK(e.attempt == 1);
  // What backward began with: the scale over the power of two that is at least the weight, 24.
  const double seed = t == f16 ? 65536.0 / 32 : 1;
  const auto named = opt.parameters();
  REQUIRE(e.rows.size() == named.size());
  for (size_t k = 0; k < named.size(); ++k) {
    CAPTURE(named[k].name);
    CHECK(e.rows[k].name == named[k].name);
    CHECK(e.rows[k].elements() == named[k].tensor.numel());
    CHECK(e.rows[k].counts == counts_of(named[k].tensor.grad(), 24 * seed));
  }
  CHECK(e.total().elements() == 8 * 16 + 16 + 16 * 4 + 4);
}

TEST_CASE("exponents of a skipped step show what overflowed", "[exponents]") {
  const Device d = ready(GENERATE(Device::cpu(), Device::simt()));
  ScaledNet net = scaled_net(d);
  optim::Sgd opt(net, {.lr = 0.02});
  TrainStep step{net, opt, {.precision = f16}};
  Overflow overflow(net.first.weight);
  const Labelled batch = labelled(8, d);
  overflow.on = true;
  CHECK(step(batch, loss_of(net)).skipped());
  const GradientExponents e = step.gradient_exponents();
  CHECK(e.rows[0].infinite() + e.rows[0].nans() > 0);
  CHECK(e.rows[2].infinite() + e.rows[2].nans() == 0);
  CHECK(e.scale == 65536);  // that of the step, not the halved one
  CHECK(step.scaler().get_scale() == 32768);
}

TEST_CASE("exponents: of an optimizer alone, of what has no gradient, and the refusals",
          "[exponents]") {
  const Device d = ready(GENERATE(Device::cpu(), Device::simt()));
  ScaledNet net = scaled_net(d);
  optim::Sgd opt(net, {.lr = 0.02});
  CHECK(mentions(message_of([&] { (void)optim::gradient_exponents(opt); }),
                 "no parameter has a gradient"));
  const Labelled batch = labelled(8, d);
  // One layer alone.
  net.last(ones({2, 16}, {.device = d})).sum().backward();
  const GradientExponents e = optim::gradient_exponents(opt, 4);
  CHECK(e.rows[0].elements() == 0);
  CHECK(e.rows[2].counts == counts_of(net.last.weight->grad(), 4));
  CHECK(e.rows[2].between(-1, -1) == 64);  // 2 / 4
  CHECK(e.attempt == -1);
  for (const double bad : {0.0, double(INFINITY), double(NAN)})
    CHECK(mentions(message_of([&] { (void)optim::gradient_exponents(opt, bad); }),
                   "divisor must be finite and not 0"));
  opt.zero_grad();
  CHECK_THROWS_AS(optim::gradient_exponents(opt), UsageError);

  TrainStep step{net, opt, {}};
  CHECK_THROWS_AS(step.gradient_exponents(), UsageError);  // no step yet
  (void)step(batch, loss_of(net));
  CHECK(step.gradient_exponents().total().elements() > 0);
  (void)step.explain(batch, loss_of(net));
  CHECK_THROWS_AS(step.gradient_exponents(), UsageError);  // they were taken back
}

TEST_CASE("exponents cost a step nothing, and asking is one launch an arena", "[exponents]") {
  ScaledNet net = scaled_net(Device::simt());
  optim::Sgd opt(net, {.lr = 0.02});
  TrainStep step{net, opt, {}};
  const Labelled batch = labelled(8, Device::simt());
  (void)step(batch, loss_of(net));
  CountLaunches count;
  {
    const profiler::ObserverScope watch(count);
    (void)step(batch, loss_of(net));
    CHECK(count.exponents == 0);
    (void)step.gradient_exponents();
  }
  CHECK(count.exponents == 1);
}

TEST_CASE("exponents: shares of a dtype, with and without a scale", "[exponents]") {
  const ExponentRow r = row_of(
      {{-40, 10}, {-26, 10}, {-25, 10}, {-15, 10}, {-14, 10}, {0, 20}, {15, 10}, {16, 5}}, 10, 5);
  CHECK(r.elements() == 100);
  const DTypeShares plain = r.in(f16);
  CHECK(plain.zero == 0.10);
  CHECK(plain.lost == 0.20);       // below half of 2^-24
  CHECK(plain.subnormal == 0.20);  // -25, which rounds to the smallest, and -15
  CHECK(plain.overflow == 0.10);   // 65536 and inf
  const DTypeShares scaled = r.in(f16, 4096);
  CHECK(scaled.lost == 0.10);  // -40 + 12
  CHECK(scaled.subnormal == 0);
  CHECK(scaled.overflow == 0.20);
  CHECK(r.in(f16, 5000).overflow == 0.20);  // as 4096
  const DTypeShares wide = r.in(bf16);
  CHECK(wide.lost + wide.subnormal == 0);
  CHECK(wide.overflow == 0.05);
  CHECK(r.in(f32).lost == 0);
  CHECK(row_of({}).in(f16).lost == 0);
  for (const double bad : {0.0, -1.0, double(INFINITY), double(NAN)})
    CHECK(mentions(message_of([&] { (void)r.in(f16, bad); }), "scale must be above 0"));
  CHECK(mentions(message_of([&] { (void)r.in(DType::i64); }), "i64 has no exponents"));

  GradientExponents e{{r}, 1, -1};
  CHECK(e.largest_scale(f16) == 0.5);  // 2^16 is there
  e.rows = {row_of({{-3, 1}}, 4, 4)};
  CHECK(e.largest_scale(f16) == 0x1p18);
  e.rows = {row_of({}, 4, 4)};
  CHECK(e.largest_scale(f16) == 0);
}

TEST_CASE("exponents: the map", "[exponents]") {
  GradientExponents e;
  e.scale = 1024, e.attempt = 6;
  e.rows = {row_of({{-28, 50}, {-27, 50}}), row_of({{-10, 99}}, 1), row_of({})};
  e.rows[0].name = "encoder.layers.11.attention.weight", e.rows[1].name = "bias";
  e.rows[2].name = "frozen";
  const std::string text = e.text();
  CAPTURE(text);
  CHECK(text.find("gradients of step 7 by binary exponent, one a column; per cent in f16") == 0);
  // The end of a long name; the first columns of exponents -28 to -10.
  CHECK(text.find("...11.attention.weight |##                 |     0    100      0      0 |"
                  "      0    100      0\n") != text.npos);
  CHECK(text.find("bias                   |                  @|   1.0") != text.npos);
  CHECK(text.find("f16 holds              |xxx~~~~~~~~~~~-----|") != text.npos);
  CHECK(text.find("at scale 1024          |~~~~---------------|") != text.npos);
  CHECK(text.find("frozen") == text.npos);
  CHECK(text.find("\x1b[") == text.npos);
  CHECK(text.find("at scale 1024") != text.npos);
  CHECK(text.find("nothing overflows up to a scale of 2^25, at which f16 loses 0 %") != text.npos);
  CHECK(e.text({.colour = true}).find("\x1b[48;5;") != text.npos);
  for (const char c : text) CHECK((c == '\n' || (c >= ' ' && c <= '~')));
  // A wide range is folded to the columns that there are; what is left out is said.
  e.rows.push_back(row_of({{-90, 5}, {20, 5}}));
  for (int columns : {8, 16, 48}) {
    const std::string narrow = e.text({.columns = columns, .rows = 2});
    CHECK(narrow.find("(1 parameters of which f16 loses less)") != text.npos);
    const size_t begin = narrow.find("f16 holds"), bar = narrow.find('|', begin);
    CHECK(narrow.find('|', bar + 1) - bar - 1 <= size_t(columns));
  }
  CHECK(GradientExponents{}.text() == "no gradients\n");
}
