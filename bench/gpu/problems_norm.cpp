// Normalisation by channels and by root mean square. Layer normalisation is with the other kernels
// of rows.
#include "warptape/bench/gpu/maker.h"
#include "warptape/core/error.h"
#include "warptape/kernels/channel_norm.h"
#include "warptape/kernels/rms_norm.h"

namespace wt::bench {
namespace {

const std::vector<DType> kTwo{DType::f32, DType::bf16};

DType accumulator(DType t) { return t == DType::f64 ? DType::f64 : DType::f32; }

// [N, C, S] in either memory order.
struct Sizes {
  i64 samples, channels, places, groups;
  bool nhwc;
  i64 statistics() const { return groups ? samples * groups : channels; }
  Shape shape() const { return {samples, channels, places}; }
  Shape sums() const { return groups ? Shape{2, samples, channels} : Shape{2, channels}; }
};
constexpr int kSizes = 5;
Sizes sizes_of(Scale scale, int shape) {
  const bool nhwc = shape == 1 || shape == 3;
  if (scale == Scale::small) return {3, 8, shape == 4 ? 49 : 33, shape < 2 ? 0 : 4, nhwc};
  const i64 samples = scale == Scale::real ? 256 : 64;
  if (shape == 4) return {samples * 5 / 2, 2048, 49, 0, false};
  return {samples, 64, 4096, shape < 2 ? 0 : 16, nhwc};
}
std::string text(const Sizes& s) {
  return str(s.samples, "x", s.channels, "x", s.places, s.nhwc ? " nhwc" : " nchw",
             s.groups ? str(" groups ", s.groups) : std::string(" batch"));
}
// A tensor of these sizes, seen as [N, C, S].
Tensor seen(Maker& m, const Sizes& s, Tensor t) {
  if (!s.nhwc) return t;
  const Tensor v = t.transpose(1, 2);
  m.keep_view(v);
  return v;
}
Shape memory(const Sizes& s) { return s.nhwc ? Shape{s.samples, s.places, s.channels} : s.shape(); }
View operand(Maker& m, const Sizes& s, DType t) { return view(seen(m, s, m.normal(memory(s), t))); }
View statistics(Maker& m, const Sizes& s, DType t) {
  return view(m.normal({3, s.statistics()}, accumulator(t), true));
}

template <class F>
Problem channel_problem(Device d, DType t, Scale scale, int shape, int sets, F args) {
  const Sizes s = sizes_of(scale, shape);
  return problem_of(d, t, text(s), sets,
                    [&](Maker& m, std::vector<Tensor>& out) { return args(m, out, s); });
}
Problem stats_problem(Device d, DType t, Scale scale, int shape, int sets) {
  const auto args = [&](Maker& m, std::vector<Tensor>& out, const Sizes& s) {
    out = {m.out({3, s.statistics()}, accumulator(t))};
    return ChannelStatsArgs{view(out[0]), {}, operand(m, s, t), s.groups, 1e-5};
  };
  return channel_problem(d, t, scale, shape, sets, args);
}
Problem forward_problem(Device d, DType t, Scale scale, int shape, int sets) {
  const auto args = [&](Maker& m, std::vector<Tensor>& out, const Sizes& s) {
    out = {m.out(memory(s), t)};
    const View x = operand(m, s, t), stats = statistics(m, s, t);
    const View weight = view(m.normal({s.channels}, t));
    return ChannelNormForwardArgs{view(seen(m, s, out[0])),        x,       stats, weight,
                                  view(m.normal({s.channels}, t)), s.groups};
  };
  return channel_problem(d, t, scale, shape, sets, args);
}
Problem sums_problem(Device d, DType t, Scale scale, int shape, int sets) {
  const auto args = [&](Maker& m, std::vector<Tensor>& out, const Sizes& s) {
    out = {m.out(s.sums(), accumulator(t))};
    const View gy = operand(m, s, t), x = operand(m, s, t);
    return ChannelNormSumsArgs{view(out[0]), gy, x, statistics(m, s, t), s.groups};
  };
  return channel_problem(d, t, scale, shape, sets, args);
}
Problem backward_problem(Device d, DType t, Scale scale, int shape, int sets) {
  const auto args = [&](Maker& m, std::vector<Tensor>& out, const Sizes& s) {
    out = {m.out(memory(s), t)};
    const View gy = operand(m, s, t), x = operand(m, s, t), stats = statistics(m, s, t);
    const View weight = view(m.normal({s.channels}, t));
    return ChannelNormBackwardArgs{view(seen(m, s, out[0])),
                                   gy,
                                   x,
                                   stats,
                                   weight,
                                   view(m.normal(s.sums(), accumulator(t))),
                                   s.groups};
  };
  return channel_problem(d, t, scale, shape, sets, args);
}

// --- root mean square ---
Shape rows_of(Scale scale, int shape) {
  if (scale == Scale::small) return shape == 0 ? Shape{9, 33} : Shape{3, 1100};
  const i64 columns = shape == 0 ? 1024 : 8192;
  return {(scale == Scale::host ? i64{1} << 24 : i64{1} << 26) / columns, columns};
}
Problem rms_problem(Device d, DType t, Scale scale, int shape, int sets) {
  const Shape s = rows_of(scale, shape);
  return problem_of(d, t, str(s[0], "x", s[1]), sets, [&](Maker& m, std::vector<Tensor>& out) {
    out = {m.out(s, t), m.out({2, s[0]}, accumulator(t))};
    const View x = view(m.normal(s, t));
    return RmsNormForwardArgs{view(out[0]), view(out[1]), x, view(m.normal({s[1]}, t)), 1e-5};
  });
}
Problem rms_backward_problem(Device d, DType t, Scale scale, int shape, int sets) {
  const Shape s = rows_of(scale, shape);
  return problem_of(d, t, str(s[0], "x", s[1]), sets, [&](Maker& m, std::vector<Tensor>& out) {
    out = {m.out(s, t)};
    const View gy = view(m.normal(s, t)), x = view(m.normal(s, t));
    const View stats = view(m.normal({2, s[0]}, accumulator(t), true));
    return RmsNormBackwardInputArgs{view(out[0]), gy, x, stats, view(m.normal({s[1]}, t))};
  });
}

}  // namespace

void add_norm_rows(std::vector<ProblemRow>& rows) {
  rows.push_back({"channel_stats", kTwo, kSizes, stats_problem});
  rows.push_back({"channel_norm_forward", kTwo, kSizes, forward_problem});
  rows.push_back({"channel_norm_sums", kTwo, kSizes, sums_problem});
  rows.push_back({"channel_norm_backward", kTwo, kSizes, backward_problem});
  rows.push_back({"rms_norm_forward", kTwo, 2, rms_problem});
  rows.push_back({"rms_norm_backward_input", kTwo, 2, rms_backward_problem});
}

}  // namespace wt::bench
