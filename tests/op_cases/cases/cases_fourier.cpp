// Rows of the Fourier transforms. The oracle is the sum, number by number.
#include <complex>

#include "warptape/autograd/ops/fourier.h"
#include "warptape/tests/op_cases/op_case.h"

namespace wt_test {
namespace {

using Number = std::complex<double>;

enum class Kind { fft, ifft, rfft, irfft };
constexpr const char* kNames[] = {"fft", "ifft", "rfft", "irfft"};
constexpr const char* kNorms[] = {"backward", "ortho", "forward"};
bool is_inverse(Kind k) { return k == Kind::ifft || k == Kind::irfft; }

// An array as [outer, length, inner] numbers.
struct Signal {
  i64 outer = 1, length = 1, inner = 1;
  bool pairs;
  Signal(const Array& x, int axis, bool has_pairs) : pairs(has_pairs) {
    for (int d = 0; d < x.shape.ndim() - int(pairs); ++d)
      (d < axis ? outer : d == axis ? length : inner) *= x.shape[d];
  }
  size_t place(i64 o, i64 j, i64 i, int part) const {
    const size_t number = size_t((o * length + j) * inner + i);
    return pairs ? 2 * number + size_t(part) : number;
  }
  Number at(const std::vector<double>& v, i64 o, i64 j, i64 i) const {
    if (j >= length) return 0;
    return {v[place(o, j, i, 0)], pairs ? v[place(o, j, i, 1)] : 0};
  }
};

double scale_of(FftNorm norm, bool inverse, i64 n) {
  if (norm == FftNorm::ortho) return 1 / std::sqrt(double(n));
  return (norm == FftNorm::forward) == inverse ? 1 : 1 / double(n);
}
// How often bin k of a half spectrum counts; nothing is asked of the others.
double times(Kind kind, i64 k, i64 n) {
  if (kind != Kind::irfft) return 1;
  return 2 * k > n ? 0 : k == 0 || 2 * k == n ? 1 : 2;
}

Array transform(const Array& x, Kind kind, int axis, i64 n, FftNorm norm) {
  const Signal in(x, axis, kind != Kind::rfft);
  Array y{x.shape, {}, x.terms + double(n)};
  if (kind == Kind::rfft) y.shape.push_back(2);
  if (kind == Kind::irfft) y.shape.erase(y.shape.ndim() - 1);
  y.shape[axis] = kind == Kind::rfft ? n / 2 + 1 : n;
  const Signal out(y, axis, kind != Kind::irfft);
  const std::vector<double>& sizes = x.magnitude.empty() ? x.v : x.magnitude;
  y.v.resize(size_t(count(y.shape)));
  y.magnitude.resize(y.v.size());
  const double scale = scale_of(norm, is_inverse(kind), n), pi = std::acos(-1.0);
  for (i64 o = 0; o < out.outer; ++o)
    for (i64 k = 0; k < out.length; ++k)
      for (i64 i = 0; i < out.inner; ++i) {
        Number sum = 0;
        double size = 0;
        for (i64 j = 0; j < n; ++j) {
          const double angle = 2 * pi * double(j * k % n) / double(n);
          const double weight = scale * times(kind, j, n);
          sum += weight * in.at(x.v, o, j, i) * std::polar(1.0, is_inverse(kind) ? angle : -angle);
          const Number s = in.at(sizes, o, j, i);
          size += weight * (std::fabs(s.real()) + std::fabs(s.imag()));
        }
        for (int part = 0; part < (out.pairs ? 2 : 1); ++part) {
          const size_t at = out.place(o, k, i, part);
          y.v[at] = part == 0 ? sum.real() : sum.imag();
          y.magnitude[at] = size;
        }
      }
  return y;
}

// --- one axis ---

struct Case {
  Shape shape;  // of the numbers
  i64 dim;
  std::optional<i64> n;
  FftNorm norm;
};
// Every rung meets its lengths: powers of two, 3, 5, other primes, one beyond 31.
const std::vector<Case> kCases{
    {{3, 8}, -1, {}, FftNorm::backward},   {{5, 4, 2}, 0, {}, FftNorm::ortho},
    {{2, 6}, 1, {}, FftNorm::forward},     {{2, 5}, -1, 8, FftNorm::ortho},
    {{2, 9, 2}, -2, 6, FftNorm::backward}, {{7}, 0, {}, FftNorm::backward},
    {{4}, 0, 1, FftNorm::backward},        {{2, 15}, -1, 15, FftNorm::forward},
    {{2, 4}, 0, 3, FftNorm::backward},     {{0, 4}, 1, {}, FftNorm::backward},
    {{1, 37}, 1, 37, FftNorm::backward},   {{3, 120}, 1, {}, FftNorm::backward},
    {{2, 1030}, 1, 1024, FftNorm::ortho}};

i64 length_of(Kind kind, const Case& k, int axis) {
  return k.n.value_or(kind == Kind::irfft ? 2 * (k.shape[axis] - 1) : k.shape[axis]);
}
Tensor call(Kind kind, const Tensor& x, const FftOptions& o) {
  switch (kind) {
    case Kind::fft:
      return fft(x, o);
    case Kind::ifft:
      return ifft(x, o);
    case Kind::rfft:
      return rfft(x, o);
    case Kind::irfft:
      break;
  }
  return irfft(x, o);
}
std::string torch_call(Kind kind, const std::string& suffix, const std::string& arguments) {
  std::string x = kind == Kind::rfft ? "a" : "torch.view_as_complex(a)";
  x = str("torch.fft.", kNames[int(kind)], suffix, "(", x, arguments, ")");
  return kind == Kind::irfft ? x : str("torch.view_as_real(", x, ")");
}

Sample sample_of(Kind kind, const Case& k) {
  const int axis = int(k.dim < 0 ? k.dim + k.shape.ndim() : k.dim);
  const i64 n = length_of(kind, k, axis);
  Shape shape = k.shape;
  if (kind != Kind::rfft) shape.push_back(2);
  const FftOptions options{.n = k.n, .dim = k.dim, .norm = k.norm};
  const std::string length = k.n ? str(", n=", *k.n) : "";
  const std::string said = str(length, ", dim=", k.dim, ", norm='", kNorms[int(k.norm)], "'");
  Sample s{said.substr(2),
           {{shape}},
           [=](std::span<const Tensor> in) { return call(kind, in[0], options); },
           [=](const std::vector<Array>& in) { return transform(in[0], kind, axis, n, k.norm); }};
  if (count(shape) > 0 && count(shape) <= 64) s.torch = torch_call(kind, "", said);
  return s;
}

// What all of them refuse. `shape`: of something that it takes.
std::vector<ErrorInput> fourier_errors(const std::string& name, const Apply& call, bool pairs) {
  std::vector<ErrorInput> errors{
      undefined_operand(name, call), storage_dtype(name, "expected f32 or f64", call),
      error_input<DtypeError>("integers", str("[", name, "] expected f32 or f64, got i64"),
                              [=](Device d) {
                                const Tensor x = ones({3, 2}, {.dtype = DType::i64, .device = d});
                                call(x, x);
                              }),
      error_input<ShapeError>(
          "no elements", str("[", name, "] an axis without elements has no transform"),
          [=](Device d) {
            const Tensor x = zeros(pairs ? Shape{0, 2} : Shape{2, 0}, {.device = d});
            call(x, x);
          })};
  if (pairs)
    errors.push_back(error_input<ShapeError>(
        "pairs", str("[", name, "] expected complex numbers as pairs, a last axis of size 2"),
        [=](Device d) {
          const Tensor x = ones({2, 3}, {.device = d});
          call(x, x);
        }));
  errors.push_back(
      error_input<ShapeError>("axes", str("[", name, "] needs at least one axis"), [=](Device d) {
        const Tensor x = ones(pairs ? Shape{2} : Shape{}, {.device = d});
        call(x, x);
      }));
  return errors;
}

void add_one_axis(std::vector<OpCase>& rows) {
  for (const Kind kind : {Kind::fft, Kind::ifft, Kind::rfft, Kind::irfft}) {
    OpCase c{kNames[int(kind)], {"fft"}, {f64, f32}};
    c.cancels = true;
    for (const Case& k : kCases) c.samples.push_back(sample_of(kind, k));
    c.errors = fourier_errors(
        c.name, [=](const Tensor& x, const Tensor&) { (void)call(kind, x, {}); },
        kind != Kind::rfft);
    c.errors.push_back(
        error_input<UsageError>("n", str("[", c.name, "] n must be at least 1"), [=](Device d) {
          (void)call(kind, ones({3, 2}, {.device = d}), {.n = 0});
        }));
    c.errors.push_back(error_input<ShapeError>("axis", str("[", c.name, "] axis 2"), [=](Device d) {
      (void)call(kind, ones({3, 2}, {.device = d}), {.dim = 2});
    }));
    if (kind == Kind::irfft)
      c.errors.push_back(
          error_input<UsageError>("one bin", "[irfft] one bin leaves no length", [](Device d) {
            (void)irfft(ones({1, 2}, {.device = d}));
          }));
    rows.push_back(std::move(c));
  }
}

// --- several axes ---

struct ManyCase {
  Shape shape;
  std::vector<i64> s, dim;  // empty: unset
  FftNorm norm;
};
const std::vector<ManyCase> kManyCases{
    {{3, 4}, {}, {}, FftNorm::backward},       {{2, 3, 4}, {}, {-1, 0}, FftNorm::ortho},
    {{3, 4}, {4, 6}, {}, FftNorm::forward},    {{2, 3, 5}, {2, 4}, {2, 1}, FftNorm::backward},
    {{2, 5}, {3}, {}, FftNorm::backward},      {{2, 3, 2}, {}, {-2, -1}, FftNorm::backward},
    {{0, 3, 4}, {}, {1, 2}, FftNorm::backward}};

Tensor call_many(Kind kind, const Tensor& x, const FftnOptions& o) {
  switch (kind) {
    case Kind::fft:
      return fftn(x, o);
    case Kind::ifft:
      return ifftn(x, o);
    case Kind::rfft:
      return rfftn(x, o);
    case Kind::irfft:
      break;
  }
  return irfftn(x, o);
}
Array transform_many(const Array& x, Kind kind, const ManyCase& k) {
  const int axes = k.shape.ndim();
  std::vector<i64> dim = k.dim;
  if (dim.empty())
    for (int a = k.s.empty() ? 0 : axes - int(k.s.size()); a < axes; ++a) dim.push_back(a);
  const auto one = [&](Kind part, const Array& t, size_t i) {
    const int axis = int(dim[i] < 0 ? dim[i] + axes : dim[i]);
    i64 n = k.s.empty() ? t.shape[axis] : k.s[i];
    if (part == Kind::irfft && k.s.empty()) n = 2 * (n - 1);
    return transform(t, part, axis, n, k.norm);
  };
  const Kind others = is_inverse(kind) ? Kind::ifft : Kind::fft;
  const size_t last = dim.size() - 1;
  Array y = kind == Kind::irfft ? x : one(kind, x, last);
  for (size_t i = 0; i < last; ++i) y = one(others, y, i);
  return kind == Kind::irfft ? one(kind, y, last) : y;
}
std::string list(const std::vector<i64>& v) {
  std::string text = "[";
  for (const i64 i : v) text += str(text == "[" ? "" : ", ", i);
  return text + "]";
}

void add_many_axes(std::vector<OpCase>& rows) {
  for (const Kind kind : {Kind::fft, Kind::ifft, Kind::rfft, Kind::irfft}) {
    OpCase c{str(kNames[int(kind)], "n"), {}, {f64, f32}};
    c.cancels = true;
    for (const ManyCase& k : kManyCases) {
      Shape shape = k.shape;
      if (kind != Kind::rfft) shape.push_back(2);
      FftnOptions o{.norm = k.norm};
      if (!k.s.empty()) o.s = Shape(k.s.data(), int(k.s.size()));
      if (!k.dim.empty()) o.dim = Dims(k.dim);
      std::string said = k.s.empty() ? "" : str(", s=", list(k.s));
      if (!k.dim.empty()) said += str(", dim=", list(k.dim));
      said += str(", norm='", kNorms[int(k.norm)], "'");
      c.samples.push_back(
          {said.substr(2),
           {{shape}},
           [=](std::span<const Tensor> in) { return call_many(kind, in[0], o); },
           [=](const std::vector<Array>& in) { return transform_many(in[0], kind, k); }});
      if (count(shape) > 0) c.samples.back().torch = torch_call(kind, "n", said);
    }
    c.errors = fourier_errors(
        c.name, [=](const Tensor& x, const Tensor&) { (void)call_many(kind, x, {}); },
        kind != Kind::rfft);
    const std::string name = c.name;
    const auto refuses = [&](const char* label, const std::string& text, const FftnOptions& o) {
      c.errors.push_back(error_input<ShapeError>(label, str("[", name, "] ", text), [=](Device d) {
        (void)call_many(kind, ones({3, 4, 2}, {.device = d}), o);
      }));
    };
    refuses("lengths", "s has 1 lengths for 2 axes", {.s = Shape{3}, .dim = Dims{0, 1}});
    refuses("repeated", "axis 0", {.dim = Dims{0, 0}});
    refuses("no axis", "needs at least one axis to transform", {.dim = Dims{}});
    rows.push_back(std::move(c));
  }
}

// --- shifts ---

void add_shifts(std::vector<OpCase>& rows) {
  for (const bool back : {false, true}) {
    OpCase c{back ? "ifftshift" : "fftshift", {}, kAll};
    struct Shift {
      Shape shape;
      std::vector<int> dims;
    };
    const std::vector<Shift> cases{{{5, 4}, {0}}, {{3, 5}, {0, 1}}, {{2, 7, 2}, {-2}}, {{6}, {0}}};
    for (const Shift& k : cases) {
      const Dims dims(k.dims);
      const auto shifted = [=](const std::vector<Array>& in) {
        return filled(k.shape, [&](std::vector<i64> i) {
          for (const int d : k.dims) {
            const size_t a = size_t(d < 0 ? d + k.shape.ndim() : d);
            const i64 n = k.shape[int(a)], by = back ? (n + 1) / 2 : n / 2;
            i[a] = (i[a] - by + n) % n;
          }
          return at(in[0], i);
        });
      };
      std::string torch_dims;
      for (const int d : k.dims) torch_dims += str(torch_dims.empty() ? "" : ", ", d);
      c.samples.push_back({str("dims ", torch_dims),
                           {{k.shape}},
                           [=](std::span<const Tensor> in) {
                             return back ? ifftshift(in[0], dims) : fftshift(in[0], dims);
                           },
                           shifted});
      c.samples.back().torch = str("torch.fft.", c.name, "(a, dim=[", torch_dims, "])");
    }
    const Apply call = [=](const Tensor& x, const Tensor&) {
      (void)(back ? ifftshift(x, 0) : fftshift(x, 0));
    };
    c.errors = {undefined_operand(c.name, call),
                error_input<ShapeError>("axis", str("[", c.name, "] axis 1"), [=](Device d) {
                  const Tensor x = ones({3}, {.device = d});
                  (void)(back ? ifftshift(x, 1) : fftshift(x, 1));
                })};
    rows.push_back(std::move(c));
  }
}

void add_fourier(std::vector<OpCase>& rows) {
  add_one_axis(rows);
  add_many_axes(rows);
  add_shifts(rows);
}
const CaseFile file{add_fourier};

}  // namespace
}  // namespace wt_test
