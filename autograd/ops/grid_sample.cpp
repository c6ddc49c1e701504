// Images read at the places of a grid, made of other operators. Pixels are the rows of a table:
// those around every place are picked by number, weighed and added up. What lies outside an image
// is one more row, of zeros, which has no gradient.
#include "warptape/autograd/composite_scope.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/ops/grid.h"
#include "warptape/autograd/ops/index.h"
#include "warptape/autograd/ops/internal/dtype_checks.h"
#include "warptape/autograd/ops/internal/loss_checks.h"
#include "warptape/autograd/ops/internal/shape_checks.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/factories.h"

namespace wt {
namespace info {
constexpr OpInfo grid_sample{
    .name = "grid_sample", .autocast = Autocast::promote, .composite = true};
}

namespace {

// --- along one axis of n pixels, 0 being the middle of the first one ---

Tensor pixel_of_number(const Tensor& g, i64 n, bool align_corners) {
  const Tensor from_edge = add(g, 1.0);
  if (align_corners) return mul(from_edge, double(n - 1) / 2);
  return sub(mul(from_edge, double(n) / 2), 0.5);
}

// u moved into the image. Its derivative is 1, -1 between a mirror and the next, and 0 on the
// borders, as PyTorch has it; NaN goes to pixel 0.
Tensor moved_inside(Tensor u, i64 n, const GridSampleOptions& o) {
  const double first = o.align_corners ? 0 : -0.5, span = double(o.align_corners ? n - 1 : n);
  if (o.padding_mode == GridSamplePadding::reflection && span > 0) {
    const Tensor r = remainder(sub(u, first), 2 * span);
    u = add(where(gt(r.detach(), span), sub(2 * span, r), r), first);
  }
  const Tensor value = u.detach(), last = clamp(nan_to_num(value), 0.0, double(n - 1));
  return where(logical_and(gt(value, 0.0), lt(value, double(n - 1))), u, last);
}

// Numbers of the pixels around places, [N, taps, P], whether the image has them, and what they
// weigh: undefined where the only one counts whole.
struct PixelTaps {
  Tensor number, inside, weight;
};

// ((a t + b) t + c) t + d
Tensor cubic_at(const Tensor& t, double a, double b, double c, double d) {
  return add(mul(add(mul(add(mul(t, a), b), t), c), t), d);
}

// g: [N, 1, P]
PixelTaps taps_along(const Tensor& g, i64 n, const GridSampleOptions& o) {
  const bool cubic = o.mode == GridSampleMode::bicubic;
  const bool moves = o.padding_mode != GridSamplePadding::zeros;
  Tensor u = pixel_of_number(g, n, o.align_corners);
  if (moves && !cubic) u = moved_inside(u, n, o);
  PixelTaps taps;
  if (o.mode == GridSampleMode::nearest) {
    taps.number = round(u.detach());
  } else {
    const Tensor k = floor(u.detach()), t = sub(u, k);
    if (cubic) {
      taps.number = cat({sub(k, 1.0), k, add(k, 1.0), add(k, 2.0)}, 1);
      // Keys' kernel at t + 1, t, t - 1 and t - 2.
      taps.weight = cat({cubic_at(t, -0.75, 1.5, -0.75, 0), cubic_at(t, 1.25, -2.25, 0, 1),
                         cubic_at(t, -1.25, 1.5, 0.75, 0), cubic_at(t, 0.75, -0.75, 0, 0)},
                        1);
      if (moves) taps.number = moved_inside(taps.number, n, o);
    } else {
      taps.number = cat({k, add(k, 1.0)}, 1);
      taps.weight = cat({sub(1.0, t), t}, 1);
    }
  }
  taps.inside = logical_and(ge(taps.number, 0.0), le(taps.number, double(n - 1)));
  return taps;
}

// --- all axes together ---

// [N, S, P] and [N, T, P] to [N, S T, P].
template <class F>
Tensor each_with_each(const Tensor& a, const Tensor& b, const F& f) {
  return flatten(f(unsqueeze(a, 2), unsqueeze(b, 1)), 1, 2);
}

// Every pixel around a place: its number in the image as i64, and the product of its weights.
PixelTaps taps_around(const Tensor& grid, const Shape& image, const GridSampleOptions& o) {
  PixelTaps all;
  const int axes = image.ndim() - 2;
  for (int k = 0; k < axes; ++k) {
    const i64 n = image[2 + k];
    PixelTaps one = taps_along(unsqueeze(select(grid, 2, axes - 1 - k), 1), n, o);
    one.number = to_dtype(where(one.inside, one.number, 0.0), DType::i64);
    if (k == 0) {
      all = std::move(one);
      continue;
    }
    all.number = each_with_each(all.number, one.number, [n](const Tensor& a, const Tensor& b) {
      return add(mul(a, n), b);
    });
    all.inside = each_with_each(all.inside, one.inside,
                                [](const Tensor& a, const Tensor& b) { return logical_and(a, b); });
    if (one.weight.defined())
      all.weight = each_with_each(all.weight, one.weight,
                                  [](const Tensor& a, const Tensor& b) { return mul(a, b); });
  }
  return all;
}

// The pixels around all places: [N, taps, P, C].
Tensor pixels_at(const Tensor& image, const PixelTaps& taps) {
  const i64 images = image.size(0), channels = image.size(1);
  const Tensor lines = transpose(flatten(image, 2), 1, 2);
  const i64 pixels = lines.size(1);
  const Tensor none =
      zeros({images, 1, channels}, {.dtype = image.dtype(), .device = image.device()});
  const Tensor table = reshape(cat({lines, none}, 1), {images * (pixels + 1), channels});
  Tensor number = taps.number;
  if (images > 1) {
    const Tensor image_number = arange(images, {.dtype = DType::i64, .device = image.device()});
    number = add(number, reshape(mul(image_number, pixels + 1), {images, 1, 1}));
  }
  if (images == 0) return embedding(number, table);
  return embedding(where(taps.inside, number, pixels), table, {.padding_idx = pixels});
}

// Over the taps: [N, taps, P, C] to [N, C, P]. A weight for few channels is a short inner loop:
// then the places are the inner one.
Tensor weighted_sum(const Tensor& pixels, const Tensor& weight) {
  constexpr i64 kFewChannels = 32;
  if (pixels.size(3) >= kFewChannels)
    return transpose(sum(mul(pixels, unsqueeze(weight, 3)), 1), 1, 2);
  const Tensor planes = contiguous(permute(pixels, {0, 3, 1, 2}));
  return sum(mul(planes, unsqueeze(weight, 1)), 2);
}

void check_sampled(const OpScope& s, const GridSampleOptions& o) {
  detail::require_floating(s);
  const Shape x = shape_of(s.geometry(0)), grid = shape_of(s.geometry(1));
  const int axes = x.ndim() - 2;
  if (axes != 2 && axes != 3)
    s.fail<ShapeError>(
        str("expected an image [N, C, H, W] or [N, C, D, H, W], got ", x.ndim(), " dimensions"));
  if (o.mode == GridSampleMode::bicubic && axes != 2)
    s.fail<ShapeError>(str("bicubic takes 4 dimensions, got ", x.ndim()));
  if (grid.ndim() != x.ndim() || grid[0] != x[0] || grid[axes + 1] != axes)
    s.fail<ShapeError>(str("the grid must be [", x[0], axes == 2 ? ", h, w, 2]" : ", d, h, w, 3]",
                           " for an image ", x, ", got ", grid));
  for (int k = 0; k < axes; ++k)
    if (x[2 + k] < 1) s.fail<ShapeError>(str("axis ", 2 + k, " of the image has no elements"));
}

}  // namespace

Tensor grid_sample(const In& x, const In& grid, const GridSampleOptions& options) {
  CompositeScope s(info::grid_sample, x, grid, Types::same);
  check_sampled(s, options);
  const Tensor given = s.operand(0);
  const int axes = given.ndim() - 2;
  Shape result{given.size(0), given.size(1)};
  i64 places = 1;
  for (int k = 0; k < axes; ++k) {
    result.push_back(s.geometry(1).shape[1 + k]);
    places *= result[2 + k];
  }
  check_numel(s, result);
  const bool nearest = options.mode == GridSampleMode::nearest;
  const Tensor numbers = reshape(widened(s, 1), {given.size(0), places, axes});
  const PixelTaps taps = taps_around(numbers, given.shape(), options);
  Tensor y = pixels_at(nearest ? given : widened(s, 0), taps);
  y = nearest ? transpose(squeeze(y, 1), 1, 2) : weighted_sum(y, taps.weight);
  // The grid takes part, with gradient 0.
  if (nearest && s.wants(1))
    y = where(ones({}, {.dtype = DType::boolean, .device = y.device()}), y,
              to_dtype(unsqueeze(sum(numbers, 2), 1), y.dtype()));
  y = reshape(y, result);
  const bool nhwc =
      axes == 2 && given.is_contiguous(MemoryFormat::channels_last) && !given.is_contiguous();
  y = contiguous(y, nhwc ? MemoryFormat::channels_last : MemoryFormat::contiguous);
  return s.finish(to_dtype(std::move(y), s.dtype()));
}

namespace detail {
OpInfos grid_sample_ops() {
  static constexpr const OpInfo* kOps[] = {&info::grid_sample};
  return kOps;
}
}  // namespace detail

}  // namespace wt
