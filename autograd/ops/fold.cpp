// Images as patches. All are views and copies of other operators, and so are their gradients.
#include "warptape/autograd/ops/fold.h"

#include "warptape/autograd/composite_scope.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/ops/arrange.h"
#include "warptape/autograd/ops/internal/shape_checks.h"
#include "warptape/autograd/ops/internal/view_geometry.h"
#include "warptape/autograd/ops/internal/window.h"
#include "warptape/autograd/ops/pad.h"
#include "warptape/autograd/ops/shape.h"

namespace wt {
namespace info {
constexpr OpInfo pixel_shuffle{
    .name = "pixel_shuffle", .derivative = Derivative::linear, .composite = true};
constexpr OpInfo pixel_unshuffle{
    .name = "pixel_unshuffle", .derivative = Derivative::linear, .composite = true};
constexpr OpInfo unfold2d{.name = "unfold2d", .derivative = Derivative::linear, .composite = true};
constexpr OpInfo fold{.name = "fold", .derivative = Derivative::linear, .composite = true};
}  // namespace info

namespace {

// --- pixel shuffling ---

// The last three axes, and those before them as one.
struct ImageShape {
  i64 images = 1, channels, height, width;
  Shape whole;  // the result's

  ImageShape(const OpScope& s, const char* factor, i64 r) : whole(shape_of(s.geometry(0))) {
    const int n = whole.ndim();
    if (n < 3) s.fail<ShapeError>(str("expected [.., C, H, W], got ", n, " dimensions"));
    if (r < 1) s.fail<UsageError>(str(factor, " must be at least 1, got ", r));
    for (int d = 0; d < n - 3; ++d) images *= whole[d];
    channels = whole[n - 3], height = whole[n - 2], width = whole[n - 1];
  }
  void set_result(i64 c, i64 h, i64 w) {
    const int n = whole.ndim();
    whole[n - 3] = c, whole[n - 2] = h, whole[n - 1] = w;
  }
};

}  // namespace

Tensor pixel_shuffle(const In& x, i64 upscale_factor) {
  CompositeScope s(info::pixel_shuffle, x);
  const i64 r = upscale_factor;
  ImageShape i(s, "upscale_factor", r);
  i64 square = 0;
  if (!mul_fits(r, r, square) || i.channels % square != 0)
    s.fail<ShapeError>(
        str("the channels must be a multiple of upscale_factor^2 = ", r, "^2, got ", i.channels));
  const i64 c = i.channels / square;
  i64 h = 0, w = 0;
  if (!mul_fits(i.height, r, h) || !mul_fits(i.width, r, w))
    s.fail<ShapeError>(str("upscale_factor is ", r, ": the sizes overflow"));
  i.set_result(c, h, w);
  check_numel(s, i.whole);
  const Tensor self = s.operand(0);
  const Tensor t =
      permute(reshape(self, {i.images, c, r, r, i.height, i.width}), {0, 1, 4, 2, 5, 3});
  return s.finish(own_copy(reshape(t, i.whole), self));
}

Tensor pixel_unshuffle(const In& x, i64 downscale_factor) {
  CompositeScope s(info::pixel_unshuffle, x);
  const i64 r = downscale_factor;
  ImageShape i(s, "downscale_factor", r);
  if (i.height % r != 0 || i.width % r != 0)
    s.fail<ShapeError>(str("height and width must be multiples of downscale_factor ", r, ", got ",
                           i.height, " and ", i.width));
  const i64 h = i.height / r, w = i.width / r;
  i64 c = 0, square = 0;
  if (!mul_fits(r, r, square) || !mul_fits(i.channels, square, c))
    s.fail<ShapeError>(str("downscale_factor is ", r, ": the channels overflow"));
  i.set_result(c, h, w);
  check_numel(s, i.whole);
  const Tensor self = s.operand(0);
  const Tensor t = permute(reshape(self, {i.images, i.channels, h, r, w, r}), {0, 1, 3, 5, 2, 4});
  return s.finish(own_copy(reshape(t, i.whole), self));
}

// --- windows ---
namespace {

struct Patches {
  i32 kernel[2], dilation[2], padding[2], stride[2];
  i64 reach[2];  // elements of an axis from a window's first to its last
  i64 count[2];  // windows along an axis

  bool padded() const { return padding[0] > 0 || padding[1] > 0; }
};

Patches patches_of(const OpScope& s, const char* image, const Shape& size, const PerAxis& kernel,
                   const FoldOptions& o) {
  const detail::WindowCheck check{s, 2};
  Patches p;
  check.numbers("kernel_size", kernel, 1, p.kernel);
  check.numbers("dilation", o.dilation, 1, p.dilation);
  check.numbers("padding", o.padding, 0, p.padding);
  check.numbers("stride", o.stride, 1, p.stride);
  for (int d = 0; d < 2; ++d) {
    p.reach[d] = check.reach(p.kernel[d], p.dilation[d]);
    const i64 padded = checked_add(size[d], 2 * i64(p.padding[d]), "the padded size");
    if (padded < p.reach[d])
      s.fail<ShapeError>(str("the kernel spans ", p.reach[d], " elements of spatial axis ", d, ", ",
                             image, " has ", size[d],
                             p.padding[d] ? str(", ", padded, " with padding") : ""));
    p.count[d] = check.positions(d, size[d], p.reach[d], p.stride[d], p.padding[d], false);
  }
  return p;
}

}  // namespace

Tensor unfold2d(const In& x, const PerAxis& kernel_size, const FoldOptions& options) {
  CompositeScope s(info::unfold2d, x);
  detail::WindowCheck{s, 2}.input("x");
  const Shape shape = shape_of(s.geometry(0));
  const bool batch = shape.ndim() == 4;
  const Patches p = patches_of(s, "x", detail::spatial(shape, 2), kernel_size, options);
  const i64 channels = shape[batch ? 1 : 0];
  // Every element of an image is there at most once for each element of the kernel.
  check_numel(s,
              {batch ? shape[0] : 1, channels, p.kernel[0], p.kernel[1], p.count[0], p.count[1]});
  const i64 rows = channels * p.kernel[0] * p.kernel[1], columns = p.count[0] * p.count[1];
  const Tensor self = s.operand(0);
  Tensor t = batch ? self : unsqueeze(self, 0);
  if (p.padded()) t = pad(t, {p.padding[1], p.padding[1], p.padding[0], p.padding[0]});
  for (int d = 0; d < 2; ++d)
    t = slice(unfold(t, 2 + d, p.reach[d], p.stride[d]), -1, {0, p.reach[d], p.dilation[d]});
  t = permute(t, {0, 1, 4, 5, 2, 3});  // from [N, C, OH, OW, KH, KW]
  t = batch ? reshape(t, {shape[0], rows, columns}) : reshape(t, {rows, columns});
  return s.finish(own_copy(std::move(t), self));
}

Tensor fold(const In& x, const PerAxis& output_size, const PerAxis& kernel_size,
            const FoldOptions& options) {
  CompositeScope s(info::fold, x);
  detail::WindowCheck{s, 1}.input("x");
  i32 sizes[2];
  detail::WindowCheck{s, 2}.numbers("output_size", output_size, 1, sizes);
  const Patches p = patches_of(s, "output_size", {sizes[0], sizes[1]}, kernel_size, options);
  const Shape shape = shape_of(s.geometry(0));
  const bool batch = shape.ndim() == 3;
  const i64 images = batch ? shape[0] : 1, rows = shape[batch ? 1 : 0];
  const i64 kernel = i64(p.kernel[0]) * p.kernel[1], columns = shape[shape.ndim() - 1];
  if (rows % kernel != 0)
    s.fail<ShapeError>(
        str("the channels must be a multiple of the kernel's ", kernel, " elements, got ", rows));
  if (columns != p.count[0] * p.count[1])
    s.fail<ShapeError>(str("x has ", columns, " columns, the image has ", p.count[0], " * ",
                           p.count[1], " windows"));
  const i64 channels = rows / kernel;
  check_numel(s, {images, channels, sizes[0] + 2 * i64(p.padding[0]),
                  sizes[1] + 2 * i64(p.padding[1]), p.kernel[0]});
  Tensor t = s.operand(0);
  // Rounded once, not after each axis.
  if (is_half(s.dtype())) t = to_dtype(std::move(t), f32);
  t = reshape(t, {images, channels, p.kernel[0], p.kernel[1], p.count[0], p.count[1]});
  t = permute(t, {0, 1, 4, 5, 2, 3});
  for (int d = 1; d >= 0; --d) {
    Shape windows = t.shape();
    const int last = windows.ndim() - 1;
    windows[last] = p.reach[d];
    if (p.dilation[d] > 1) t = slice_backward(t, windows, last, {0, p.reach[d], p.dilation[d]});
    windows.erase(last);
    windows[2 + d] = sizes[d] + 2 * i64(p.padding[d]);
    t = unfold_backward(t, windows, 2 + d, p.reach[d], p.stride[d]);
  }
  if (p.padded()) t = pad(t, {-p.padding[1], -p.padding[1], -p.padding[0], -p.padding[0]});
  if (!batch) t = squeeze(t, 0);
  return s.finish(to_dtype(std::move(t), s.dtype()));
}

namespace detail {
OpInfos fold_ops() {
  static constexpr const OpInfo* kOps[] = {&info::pixel_shuffle, &info::pixel_unshuffle,
                                           &info::unfold2d, &info::fold};
  return kOps;
}
}  // namespace detail

}  // namespace wt
