// Grids of places in an image.
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

}  // namespace wt
