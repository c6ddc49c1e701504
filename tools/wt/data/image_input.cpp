#include "warptape/tools/wt/data/image_input.h"

#include <cstring>

#include "warptape/autograd/ops/arrange.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/resize.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/factories.h"
#include "warptape/data/bytes.h"
#include "warptape/data/idx.h"
#include "warptape/data/image.h"
#include "warptape/data/npz.h"
#include "warptape/tools/wt/recipes/recipes.h"

namespace wt::tools {
namespace {

enum class Kind { idx, npy, picture };

Kind kind_of(const std::string& path) {
  const std::vector<u8> head = data::read_first_bytes(path, 8);
  if (head.size() >= 4 && head[0] == 0 && head[1] == 0) return Kind::idx;
  if (head.size() >= 6 && std::memcmp(head.data(), "\x93NUMPY", 6) == 0) return Kind::npy;
  return Kind::picture;
}

[[noreturn]] void bad_shape(const std::string& path, const Tensor& t) {
  throw DataError(str(printable_path(path), ": images of shape ", t.shape(),
                      " are not understood\n  Try [N, H, W], [N, C, H, W] or [N, H, W, C]"));
}

// [N, C, H, W] of what a file has; the model's own shape tells a row of images from colours.
Tensor as_batch(const std::string& path, const Tensor& t, const Shape& image) {
  const auto is_colour = [](i64 n) { return n == 1 || n == 3 || n == 4; };
  const auto fits = [&](int height) {
    return t.size(height) == image[1] && t.size(height + 1) == image[2];
  };
  switch (t.ndim()) {
    case 2:
      return unsqueeze(unsqueeze(t, 0), 0);
    case 3:
      if (fits(1) || !is_colour(t.size(2))) return unsqueeze(t, 1);
      return unsqueeze(permute(t, {2, 0, 1}), 0);  // [H, W, C]
    case 4:
      if (is_colour(t.size(1)) && (fits(2) || !is_colour(t.size(3)))) return t;
      if (is_colour(t.size(3))) return permute(t, {0, 3, 1, 2});
      [[fallthrough]];
    default:
      bad_shape(path, t);
  }
}

Tensor rounded(const Tensor& t) { return clamp(round(t), 0, 255).to(DType::u8); }

// Grey, grey and alpha, colour, or colour and alpha to 1 or 3 channels.
Tensor with_channels(const std::string& path, const Tensor& t, i64 channels) {
  const i64 have = t.size(1);
  const i64 colours = have == 2 ? 1 : have == 4 ? 3 : have;
  if (colours != 1 && colours != 3) bad_shape(path, t);
  const Tensor seen = t.narrow(1, 0, colours);
  if (colours == channels) return seen;
  if (colours == 1) return cat({seen, seen, seen}, 1);
  const Tensor c = seen.to(DType::f32);
  return rounded(c.narrow(1, 0, 1) * 0.299 + c.narrow(1, 1, 1) * 0.587 + c.narrow(1, 2, 1) * 0.114);
}

Tensor read_any(const std::string& path, const Shape& image) {
  switch (kind_of(path)) {
    case Kind::idx:
      return as_batch(path, data::read_idx(path), image);
    case Kind::npy: {
      const Tensor t = data::read_npy(path);
      if (t.dtype() != DType::u8)
        throw DataError(
            str(printable_path(path), ": images must be u8, got ", dtype_name(t.dtype())));
      return as_batch(path, t, image);
    }
    case Kind::picture:
      break;
  }
  return unsqueeze(permute(data::read_image(path), {2, 0, 1}), 0);
}

Tensor at_size(const std::string& path, const Tensor& t, const Shape& image, bool resize) {
  if (t.size(2) == image[1] && t.size(3) == image[2]) return t.contiguous();
  if (!resize)
    throw DataError(str(printable_path(path), ": images are ", t.size(2), " x ", t.size(3),
                        ", the model takes ", image[1], " x ", image[2], "\n  Try --resize"));
  return rounded(
      upsample(t.to(DType::f32), {.size = {image[1], image[2]}, .mode = UpsampleMode::bilinear}));
}

Tensor of_any_size(const std::string& path, const Shape& image) {
  Tensor t = with_channels(path, read_any(path, image), image[0]);
  if (t.size(2) == 0 || t.size(3) == 0) bad_shape(path, t);
  return t;
}

}  // namespace

Tensor read_images(const std::string& path, const Shape& image, bool resize) {
  const NoGrad no_grad;
  return at_size(path, of_any_size(path, image), image, resize);
}

Tensor read_images(const std::string& path, const Recipe& recipe, bool resize) {
  const NoGrad no_grad;
  const Shape image = recipe.image_shape();
  const Tensor t = of_any_size(path, image);
  const std::optional<Tensor> seen = recipe.fit(t);
  return seen ? *seen : at_size(path, t, image, resize);
}

}  // namespace wt::tools
