// Grids of places in an image, and images read there.
#pragma once
#include "warptape/core/in.h"

namespace wt {

struct AffineGridOptions {
  bool align_corners = false;  // -1 and 1 are the middles of the border pixels, not their far edges
};
// The places that an affine map takes the pixels of an image to: theta [N, 2, 3] and size {N, C, H,
// W} give [N, H, W, 2] with y[n, h, w] = theta[n] (x_w, y_h, 1), where x_w = (2 w + 1) / W - 1 and
// y_h likewise, or with align_corners 2 w / (W - 1) - 1, 0 for W = 1. theta [N, 3, 4] and {N, C, D,
// H, W} give [N, D, H, W, 3]. The first of a place's numbers is that along W. Floating dtypes,
// 16-bit ones computed in f32. PyTorch: F.affine_grid. Throws ShapeError, DtypeError.
WT_API Tensor affine_grid(const In& theta, const Shape& size,
                          const AffineGridOptions& options = {});

enum class GridSampleMode : u8 { bilinear, nearest, bicubic };
// What is read outside the image: zeros, the pixel of the border that is nearest, or the image
// mirrored at its borders, which are the middles of the border pixels with align_corners, else
// their far edges.
enum class GridSamplePadding : u8 { zeros, border, reflection };
struct GridSampleOptions {
  GridSampleMode mode = GridSampleMode::bilinear;
  GridSamplePadding padding_mode = GridSamplePadding::zeros;
  bool align_corners = false;  // -1 and 1 are the middles of the border pixels, not their far edges
};
// x [N, C, H, W] at the places of grid [N, h, w, 2], whose numbers are the places along W and along
// H from -1 to 1: [N, C, h, w]. x [N, C, D, H, W] and grid [N, d, h, w, 3] give [N, C, d, h, w]. A
// number g is pixel u = ((g + 1) W - 1) / 2, or with align_corners (g + 1) (W - 1) / 2. bilinear,
// which of five dimensions is trilinear: between the two neighbours of u along each axis; nearest:
// the pixel at u rounded, halves to the even one, without gradient of the grid; bicubic, of four
// dimensions: the four neighbours along each axis, weighed by Keys' cubic kernel (1981) with a =
// -0.75. border and reflection move u itself, or in bicubic each neighbour, into the image; where
// that puts u on the border the grid has no gradient. A place that is NaN gives NaN in bilinear
// with zeros and in bicubic, 0 in nearest with zeros, else it is pixel 0; so does one that is
// infinite, but that border takes it to its side. One floating dtype, 16-bit ones computed in f32;
// a result of channels_last x is that. PyTorch: F.grid_sample, without second derivatives and, of
// five dimensions, with other pixels for NaN. Throws ShapeError for other shapes, an image without
// pixels and bicubic of five dimensions, DtypeError.
WT_API Tensor grid_sample(const In& x, const In& grid, const GridSampleOptions& options = {});

}  // namespace wt
