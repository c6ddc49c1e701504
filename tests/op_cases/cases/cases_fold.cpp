// Rows of the operators on images as patches.
#include "warptape/autograd/ops/fold.h"
#include "warptape/tests/op_cases/moves.h"

namespace wt_test {
namespace {

void add_pixels(std::vector<OpCase>& rows) {
  OpCase up{"pixel_shuffle", {}, kAll}, down{"pixel_unshuffle", {}, kAll};
  struct Case {
    Shape packed, spread;  // [.., C * r^2, H, W] and [.., C, H * r, W * r]
    i64 r;
  };
  for (const Case& k :
       {Case{{2, 8, 3, 2}, {2, 2, 6, 4}, 2}, Case{{9, 2, 3}, {1, 6, 9}, 3},
        Case{{2, 1, 4, 1, 2}, {2, 1, 1, 2, 4}, 2}, Case{{2, 3, 2, 2}, {2, 3, 2, 2}, 1},
        Case{{0, 4, 3, 2}, {0, 1, 6, 4}, 2}, Case{{1, 0, 3, 2}, {1, 0, 6, 4}, 2},
        Case{{1, 8, 31, 5}, {1, 2, 62, 10}, 2}}) {
    const size_t n = size_t(k.packed.ndim());
    const auto to_packed = [k, n](Place i) {
      const i64 r = k.r, row = i[n - 2] % r, column = i[n - 1] % r;
      i[n - 3] = (i[n - 3] * r + row) * r + column;
      i[n - 2] /= r, i[n - 1] /= r;
      return i;
    };
    const auto to_spread = [k, n](Place i) {
      const i64 r = k.r, c = i[n - 3];
      i[n - 3] = c / (r * r);
      i[n - 2] = i[n - 2] * r + c / r % r;
      i[n - 1] = i[n - 1] * r + c % r;
      return i;
    };
    up.samples.push_back(one_input(
        str("F.pixel_shuffle(a, ", k.r, ")"), k.packed,
        [k](const Tensor& x) { return pixel_shuffle(x, k.r); }, moved(k.spread, to_packed)));
    down.samples.push_back(one_input(
        str("F.pixel_unshuffle(a, ", k.r, ")"), k.spread,
        [k](const Tensor& x) { return pixel_unshuffle(x, k.r); }, moved(k.packed, to_spread)));
  }
  const auto shuffled = [](i64 r) { return [r](const Tensor& x) { return pixel_shuffle(x, r); }; };
  const auto packed = [](i64 r) { return [r](const Tensor& x) { return pixel_unshuffle(x, r); }; };
  up.errors = {
      undefined_input("pixel_shuffle", shuffled(1)),
      fails<ShapeError>("rank", "[pixel_shuffle] expected [.., C, H, W], got 2 dimensions", {4, 4},
                        shuffled(2)),
      fails<ShapeError>("channels",
                        "[pixel_shuffle] the channels must be a multiple of upscale_factor^2 = "
                        "2^2, got 6",
                        {6, 2, 2}, shuffled(2)),
      fails<UsageError>("factor", "[pixel_shuffle] upscale_factor must be at least 1, got 0",
                        {4, 2, 2}, shuffled(0)),
      fails<ShapeError>("overflow", "[pixel_shuffle] the channels must be a multiple", {4, 2, 2},
                        shuffled(INT64_MAX))};
  down.errors = {
      undefined_input("pixel_unshuffle", packed(1)),
      fails<ShapeError>("rank", "[pixel_unshuffle] expected [.., C, H, W], got 2 dimensions",
                        {4, 4}, packed(2)),
      fails<ShapeError>("sizes",
                        "[pixel_unshuffle] height and width must be multiples of "
                        "downscale_factor 2, got 4 and 3",
                        {1, 4, 3}, packed(2)),
      fails<UsageError>("factor", "[pixel_unshuffle] downscale_factor must be at least 1, got -1",
                        {4, 2, 2}, packed(-1)),
      fails<ShapeError>("overflow", "[pixel_unshuffle] downscale_factor is ", {4, 0, 0},
                        packed(INT64_MAX))};
  rows.push_back(std::move(up));
  rows.push_back(std::move(down));
}

// --- windows ---

struct Windows {
  Shape image;  // with or without a batch
  i64 kernel[2];
  i64 dilation[2] = {1, 1}, padding[2] = {0, 0}, stride[2] = {1, 1};

  FoldOptions options() const {
    return {{dilation[0], dilation[1]}, {padding[0], padding[1]}, {stride[0], stride[1]}};
  }
  int lead() const { return image.ndim() - 3; }
  i64 count(int d) const {
    const i64 reach = dilation[d] * (kernel[d] - 1) + 1;
    return (image[lead() + 1 + d] + 2 * padding[d] - reach) / stride[d] + 1;
  }
  Shape columns() const {
    Shape s(image.data(), lead());
    s.push_back(image[lead()] * kernel[0] * kernel[1]);
    s.push_back(count(0) * count(1));
    return s;
  }
  std::string torch_options() const {
    const auto pair = [](const i64(&v)[2]) { return str("(", v[0], ", ", v[1], ")"); };
    return str(pair(kernel), ", dilation=", pair(dilation), ", padding=", pair(padding),
               ", stride=", pair(stride), ")");
  }
};
// The element of the image behind one of the columns; empty: it lies in the padding.
Place pixel_of(const Windows& k, const Place& column) {
  const size_t n = size_t(k.lead());
  const i64 row = column[n], window = column[n + 1];
  const i64 in_kernel[2] = {row / k.kernel[1] % k.kernel[0], row % k.kernel[1]};
  const i64 at[2] = {window / k.count(1), window % k.count(1)};
  Place p(column.begin(), column.begin() + i64(n));
  p.push_back(row / (k.kernel[0] * k.kernel[1]));
  for (int d = 0; d < 2; ++d) {
    const i64 i = at[d] * k.stride[d] - k.padding[d] + in_kernel[d] * k.dilation[d];
    if (i < 0 || i >= k.image[k.lead() + 1 + d]) return {};
    p.push_back(i);
  }
  return p;
}

void add_windows(std::vector<OpCase>& rows) {
  OpCase c{"unfold2d", {"unfold_backward"}, kFloats}, b{"fold", {"unfold_backward"}, kFloats};
  for (const Windows& k :
       {Windows{{2, 2, 3, 4}, {2, 3}}, Windows{{2, 5, 4}, {2, 2}, {2, 1}, {1, 0}, {1, 2}},
        Windows{{1, 1, 5, 5}, {3, 3}, {1, 1}, {1, 1}, {2, 2}},
        Windows{{1, 2, 4, 3}, {1, 1}, {1, 1}, {0, 0}, {3, 1}}, Windows{{1, 2, 3, 3}, {3, 3}},
        Windows{{1, 2, 4, 5}, {2, 2}, {3, 2}, {1, 1}}, Windows{{0, 2, 3, 3}, {2, 2}},
        Windows{{2, 0, 3, 3}, {2, 2}}, Windows{{1, 2, 33, 17}, {5, 3}, {2, 3}, {2, 1}, {3, 2}}}) {
    const PerAxis kernel{k.kernel[0], k.kernel[1]};
    const PerAxis size{k.image[k.lead() + 1], k.image[k.lead() + 2]};
    const bool in_torch = count(k.image) > 0;
    c.samples.push_back(one_input(
        str("F.unfold(a, ", k.torch_options()), k.image,
        [k, kernel](const Tensor& x) { return unfold2d(x, kernel, k.options()); },
        elements(k.columns(), [k](const std::vector<Array>& in, const Place& i) {
          const Place p = pixel_of(k, i);
          return p.empty() ? 0 : at(in[0], p);
        })));
    b.samples.push_back(one_input(
        str("F.fold(a, (", size[0], ", ", size[1], "), ", k.torch_options()), k.columns(),
        [k, size, kernel](const Tensor& x) { return fold(x, size, kernel, k.options()); },
        [k](const std::vector<Array>& in) {
          Array r{k.image, std::vector<double>(size_t(count(k.image))), 0};
          r.magnitude = r.v;
          for (i64 e = 0; e < count(in[0].shape); ++e) {
            const Place p = pixel_of(k, unravel(e, in[0].shape));
            if (p.empty()) continue;
            r.v[size_t(ravel(p, k.image))] += in[0].v[size_t(e)];
            r.magnitude[size_t(ravel(p, k.image))] += std::fabs(in[0].v[size_t(e)]);
          }
          r.terms = kTermsOfFormula + double(k.kernel[0] * k.kernel[1]);
          return r;
        }));
    if (!in_torch) c.samples.back().torch.clear(), b.samples.back().torch.clear();
  }
  using Of = std::function<Tensor(const Tensor&, const PerAxis&, const FoldOptions&)>;
  const auto errors = [](OpCase& row, const Of& f, const Shape& good) {
    const std::string op = "[" + row.name + "] ";
    row.errors = {
        undefined_input(row.name, [f](const Tensor& x) { return f(x, 2, {}); }),
        fails<UsageError>("kernel", op + "kernel_size must be at least 1, got 0", good,
                          [f](const Tensor& x) { return f(x, 0, {}); }),
        fails<UsageError>("numbers", op + "kernel_size has 3 numbers, 1 or 2 are needed", good,
                          [f](const Tensor& x) {
                            return f(x, {2, 2, 2}, {});
                          }),
        fails<UsageError>("stride", op + "stride must be at least 1, got 0", good,
                          [f](const Tensor& x) { return f(x, 2, {.stride = 0}); }),
        fails<UsageError>("padding", op + "padding must be at least 0, got -1", good,
                          [f](const Tensor& x) { return f(x, 2, {.padding = -1}); }),
        fails<UsageError>("dilation", op + "dilation must be at least 1, got 0", good,
                          [f](const Tensor& x) { return f(x, 2, {.dilation = 0}); }),
        fails<DtypeError>("dtype", op + "expected a floating dtype that computes, got i64", good,
                          [f](const Tensor& x) { return f(x.to(DType::i64), 2, {}); })};
  };
  errors(c,
         [](const Tensor& x, const PerAxis& k, const FoldOptions& o) { return unfold2d(x, k, o); },
         {1, 3, 3});
  c.errors.push_back(fails<ShapeError>(
      "reach", "[unfold2d] the kernel spans 4 elements of spatial axis 0, x has 3", {1, 3, 3},
      [](const Tensor& x) { return unfold2d(x, 4); }));
  c.errors.push_back(fails<ShapeError>("rank", "[unfold2d] x has 2 dimensions, 4 are needed",
                                       {3, 3}, [](const Tensor& x) { return unfold2d(x, 2); }));
  errors(b,
         [](const Tensor& x, const PerAxis& k, const FoldOptions& o) { return fold(x, 3, k, o); },
         {4, 4});
  b.errors.push_back(fails<ShapeError>(
      "reach", "[fold] the kernel spans 4 elements of spatial axis 0, output_size has 3", {16, 1},
      [](const Tensor& x) { return fold(x, 3, 4); }));
  b.errors.push_back(fails<ShapeError>("channels",
                                       "[fold] the channels must be a multiple of the kernel's 4",
                                       {6, 4}, [](const Tensor& x) { return fold(x, 3, 2); }));
  b.errors.push_back(fails<ShapeError>("columns",
                                       "[fold] x has 5 columns, the image has 2 * 2 windows",
                                       {4, 5}, [](const Tensor& x) { return fold(x, 3, 2); }));
  b.errors.push_back(fails<UsageError>("size", "[fold] output_size must be at least 1, got 0",
                                       {4, 4}, [](const Tensor& x) { return fold(x, 0, 2); }));
  rows.push_back(std::move(c));
  rows.push_back(std::move(b));
}

void add_fold_cases(std::vector<OpCase>& rows) {
  add_pixels(rows);
  add_windows(rows);
}

const CaseFile file{add_fold_cases};

}  // namespace
}  // namespace wt_test
