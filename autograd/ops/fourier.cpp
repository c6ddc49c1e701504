// Discrete Fourier transforms. One kernel makes all of them, and their gradients: a transform is
// linear, and its adjoint is the transform of the other sign with both sides exchanged.
#include "warptape/autograd/ops/fourier.h"

#include <cmath>
#include <vector>

#include "warptape/autograd/backward.h"
#include "warptape/autograd/composite_scope.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/ops/arrange.h"
#include "warptape/autograd/ops/internal/shape_checks.h"
#include "warptape/core/at_line.h"
#include "warptape/core/factory.h"
#include "warptape/kernels/fft.h"

namespace wt {
namespace info {
constexpr OpInfo fft{.name = "fft", .autocast = Autocast::f32, .derivative = Derivative::linear};
constexpr OpInfo ifft{.name = "ifft", .autocast = Autocast::f32, .derivative = Derivative::linear};
constexpr OpInfo rfft{.name = "rfft", .autocast = Autocast::f32, .derivative = Derivative::linear};
constexpr OpInfo irfft{
    .name = "irfft", .autocast = Autocast::f32, .derivative = Derivative::linear};
constexpr OpInfo fftn{
    .name = "fftn", .autocast = Autocast::f32, .derivative = Derivative::linear, .composite = true};
constexpr OpInfo ifftn{.name = "ifftn",
                       .autocast = Autocast::f32,
                       .derivative = Derivative::linear,
                       .composite = true};
constexpr OpInfo rfftn{.name = "rfftn",
                       .autocast = Autocast::f32,
                       .derivative = Derivative::linear,
                       .composite = true};
constexpr OpInfo irfftn{.name = "irfftn",
                        .autocast = Autocast::f32,
                        .derivative = Derivative::linear,
                        .composite = true};
constexpr OpInfo fftshift{.name = "fftshift", .derivative = Derivative::linear, .composite = true};
constexpr OpInfo ifftshift{
    .name = "ifftshift", .derivative = Derivative::linear, .composite = true};
}  // namespace info

namespace {

// FftArgs but for the operands. `size`: of the result's axis.
struct FftMap {
  i64 n, size;
  double scale;
  int axis;
  FftSide from, to;
  bool inverse, twice;
};

const OpInfo& info_of(const FftMap& m) {
  if (m.to == FftSide::half) return info::rfft;
  if (m.from == FftSide::half) return info::irfft;
  return m.inverse ? info::ifft : info::fft;
}

void fourier_backward(Backward& g);
Tensor transformed(OpScope& s, const FftMap& m) {
  Shape shape = shape_of(s.geometry(0));
  if (m.from != FftSide::real) shape.erase(shape.ndim() - 1);
  shape[m.axis] = m.size;
  if (m.to != FftSide::real) shape.push_back(2);
  check_numel(s, shape);
  Result y = s.result(shape, s.dtype());
  s.record(fourier_backward);
  s.set_attribute(m);
  run(FftArgs{y.view(), s.view(0), m.axis, m.n, m.inverse, m.to, m.from, m.twice, m.scale},
      s.launch());
  return s.finish(std::move(y));
}
Tensor transformed(const In& x, const FftMap& m) {
  OpScope s(info_of(m), x);
  return transformed(s, m);
}
void fourier_backward(Backward& g) {
  FftMap m = g.attribute<FftMap>();
  std::swap(m.from, m.to);
  m.inverse = !m.inverse;
  m.size = g.input_shape(0)[m.axis];
  if (g.wants(0)) g.put(0, transformed(g.take_grad(), m));
}

// --- checks ---

// The number of axes that count.
int fourier_axes(const OpScope& s, bool pairs) {
  if (s.dtype() != DType::f32 && s.dtype() != DType::f64)
    s.fail<DtypeError>(str("expected f32 or f64, got ", dtype_name(s.dtype())), ".to(f32)");
  const Geometry& g = s.geometry(0);
  if (pairs && (g.ndim < 1 || g.shape[g.ndim - 1] != 2))
    s.fail<ShapeError>(
        str("expected complex numbers as pairs, a last axis of size 2, got shape ", shape_of(g)),
        "rfft(x), or stack({x, zeros_like(x)}, -1), where x is real");
  const int axes = g.ndim - (pairs ? 1 : 0);
  if (axes < 1)
    s.fail<ShapeError>(str("needs at least one axis", pairs ? " beside that of the pairs" : ""));
  return axes;
}
i64 fourier_length(const OpScope& s, i64 n, bool given) {
  if (n >= 1) return n;
  if (given) s.fail<UsageError>(str("n must be at least 1, got ", n));
  s.fail<ShapeError>("an axis without elements has no transform");
}
double fourier_scale(FftNorm norm, bool inverse, i64 n) {
  if (norm == FftNorm::ortho) return 1 / std::sqrt(double(n));
  return (norm == FftNorm::backward) == inverse ? 1 / double(n) : 1.0;
}

enum class FftKind : u8 { fft, ifft, rfft, irfft };
bool takes_pairs(FftKind kind) { return kind != FftKind::rfft; }

FftMap map_of(const OpScope& s, const FftOptions& o, FftKind kind) {
  const bool inverse = kind == FftKind::ifft || kind == FftKind::irfft;
  const int axis = s.axis(o.dim, fourier_axes(s, takes_pairs(kind)));
  const i64 there = s.geometry(0).shape[axis];
  if (kind == FftKind::irfft && !o.n && there == 1)
    s.fail<UsageError>("one bin leaves no length 2 (1 - 1)", ".n = 1");
  const i64 own = kind == FftKind::irfft ? 2 * (there - 1) : there;
  FftMap m{.n = fourier_length(s, o.n.value_or(own), o.n.has_value()),
           .size = 0,
           .scale = 0,
           .axis = axis,
           .from = FftSide::complex,
           .to = FftSide::complex,
           .inverse = inverse,
           .twice = kind == FftKind::irfft};
  if (kind == FftKind::rfft) m.from = FftSide::real, m.to = FftSide::half;
  if (kind == FftKind::irfft) m.from = FftSide::half, m.to = FftSide::real;
  m.size = kind == FftKind::rfft ? m.n / 2 + 1 : m.n;
  m.scale = fourier_scale(o.norm, inverse, m.n);
  return m;
}

// --- several axes ---

struct FourierAxis {
  int axis;
  std::optional<i64> n;
};
std::vector<FourierAxis> axes_of(const OpScope& s, const FftnOptions& o, bool pairs) {
  const int axes = fourier_axes(s, pairs);
  std::vector<FourierAxis> list;
  const int named = o.dim && !o.dim->is_all() ? int(o.dim->size()) : o.s ? o.s->ndim() : axes;
  if (o.s && o.s->ndim() != named)
    s.fail<ShapeError>(str("s has ", o.s->ndim(), " lengths for ", named, " axes"));
  if (named > axes) s.fail<ShapeError>(str(named, " axes to transform, but x has ", axes));
  if (named == 0) s.fail<ShapeError>("needs at least one axis to transform");
  const bool listed = o.dim && !o.dim->is_all();
  if (listed) (void)s.axes(*o.dim, axes);  // repeated ones
  for (int i = 0; i < named; ++i) {
    const int axis = s.axis(listed ? (*o.dim)[i] : axes - named + i, axes);
    list.push_back({axis, o.s ? std::optional<i64>((*o.s)[i]) : std::nullopt});
    const i64 n = o.s ? (*o.s)[i] : s.geometry(0).shape[axis];
    fourier_length(s, n, o.s.has_value());
  }
  return list;
}

// `kind` along all axes but the last one, backwards, before or after `last` along that.
Tensor along_axes(CompositeScope& s, const FftnOptions& o, FftKind kind, FftKind last) {
  const std::vector<FourierAxis> list = axes_of(s, o, takes_pairs(last));
  const auto one = [&](FftKind k, const Tensor& t, const FourierAxis& a) {
    const FftOptions options{.n = a.n, .dim = a.axis, .norm = o.norm};
    return k == FftKind::fft    ? fft(t, options)
           : k == FftKind::ifft ? ifft(t, options)
           : k == FftKind::rfft ? rfft(t, options)
                                : irfft(t, options);
  };
  if (last == FftKind::irfft && !list.back().n && s.geometry(0).shape[list.back().axis] == 1)
    s.fail<UsageError>("one bin leaves no length 2 (1 - 1)", ".s = ...");
  Tensor y = s.operand(0);
  if (last != FftKind::irfft) y = one(last, y, list.back());
  for (size_t i = list.size() - 1; i-- > 0;) y = one(kind, y, list[i]);
  if (last == FftKind::irfft) y = one(last, y, list.back());
  return s.finish(std::move(y));
}

FftnOptions last_two_axes(FftnOptions o) {
  if (!o.dim) o.dim = Dims{-2, -1};
  return o;
}

// The bins 0, ..., count - 1 and -negative, ..., -1.
Tensor frequencies(const char* name, i64 n, i64 count, i64 negative, double d,
                   const TensorOptions& o, Frame at) {
  const FrameScope line(at);
  const DType t = detail::dtype_or_default(o);
  if (n < 1) throw UsageError(str("[", name, "] n must be at least 1, got ", n, at_line()));
  if (!is_floating(t))
    throw DtypeError(str("[", name, "] expected a floating dtype, got ", dtype_name(t), at_line()));
  std::vector<double> v;
  for (i64 k = 0; k < count; ++k) v.push_back(double(k));
  for (i64 k = -negative; k < 0; ++k) v.push_back(double(k));
  for (double& f : v) f /= double(n) * d;
  TensorOptions options = o;
  options.dtype = t;
  return tensor(v, options, at);
}

Tensor shifted(CompositeScope& s, const Dims& dims, bool back) {
  const Geometry& g = s.geometry(0);
  const u32 axes = s.axes(dims, g.ndim);
  std::vector<i64> shifts, list;
  for (int a = 0; a < g.ndim; ++a)
    if (axes >> a & 1) {
      list.push_back(a);
      shifts.push_back(back ? (g.shape[a] + 1) / 2 : g.shape[a] / 2);
    }
  return s.finish(roll(s.operand(0), Dims(shifts), Dims(list)));
}

}  // namespace

Tensor fft(const In& x, const FftOptions& options) {
  OpScope s(info::fft, x);
  return transformed(s, map_of(s, options, FftKind::fft));
}
Tensor ifft(const In& x, const FftOptions& options) {
  OpScope s(info::ifft, x);
  return transformed(s, map_of(s, options, FftKind::ifft));
}
Tensor rfft(const In& x, const FftOptions& options) {
  OpScope s(info::rfft, x);
  return transformed(s, map_of(s, options, FftKind::rfft));
}
Tensor irfft(const In& x, const FftOptions& options) {
  OpScope s(info::irfft, x);
  return transformed(s, map_of(s, options, FftKind::irfft));
}

Tensor fftn(const In& x, const FftnOptions& options) {
  CompositeScope s(info::fftn, x);
  return along_axes(s, options, FftKind::fft, FftKind::fft);
}
Tensor ifftn(const In& x, const FftnOptions& options) {
  CompositeScope s(info::ifftn, x);
  return along_axes(s, options, FftKind::ifft, FftKind::ifft);
}
Tensor rfftn(const In& x, const FftnOptions& options) {
  CompositeScope s(info::rfftn, x);
  return along_axes(s, options, FftKind::fft, FftKind::rfft);
}
Tensor irfftn(const In& x, const FftnOptions& options) {
  CompositeScope s(info::irfftn, x);
  return along_axes(s, options, FftKind::ifft, FftKind::irfft);
}

Tensor fft2(const In& x, const FftnOptions& options) { return fftn(x, last_two_axes(options)); }
Tensor ifft2(const In& x, const FftnOptions& options) { return ifftn(x, last_two_axes(options)); }
Tensor rfft2(const In& x, const FftnOptions& options) { return rfftn(x, last_two_axes(options)); }
Tensor irfft2(const In& x, const FftnOptions& options) { return irfftn(x, last_two_axes(options)); }

Tensor fftfreq(i64 n, double d, const TensorOptions& o, Frame at) {
  return frequencies("fftfreq", n, n - n / 2, n / 2, d, o, at);
}
Tensor rfftfreq(i64 n, double d, const TensorOptions& o, Frame at) {
  return frequencies("rfftfreq", n, n / 2 + 1, 0, d, o, at);
}

Tensor fftshift(const In& x, const Dims& dims) {
  CompositeScope s(info::fftshift, x);
  return shifted(s, dims, false);
}
Tensor ifftshift(const In& x, const Dims& dims) {
  CompositeScope s(info::ifftshift, x);
  return shifted(s, dims, true);
}

namespace detail {
OpInfos fourier_ops() {
  static constexpr const OpInfo* kOps[] = {
      &info::fft,   &info::ifft,  &info::rfft,   &info::irfft,    &info::fftn,
      &info::ifftn, &info::rfftn, &info::irfftn, &info::fftshift, &info::ifftshift};
  return kOps;
}
}  // namespace detail

}  // namespace wt
