#include "warptape/nn/fold.h"

namespace wt::nn {

Tensor PixelShuffle::forward(Tensor x) { return pixel_shuffle(std::move(x), factor_); }
Tensor PixelUnshuffle::forward(Tensor x) { return pixel_unshuffle(std::move(x), factor_); }
Tensor Unfold::forward(Tensor x) { return unfold2d(std::move(x), kernel_, options_); }
Tensor Fold::forward(Tensor x) { return fold(std::move(x), size_, kernel_, options_); }

}  // namespace wt::nn
