#include "warptape/nn/fold.h"

namespace wt::nn {

Tensor PixelShuffle::forward(Tensor x) { return pixel_shuffle(std::move(x), factor_); }
Tensor PixelUnshuffle::forward(Tensor x) { return pixel_unshuffle(std::move(x), factor_); }
Tensor Unfold::forward(Tensor x) { return unfold2d(std::move(x), kernel_, options_); }
Tensor Fold::forward(Tensor x) { return fold(std::move(x), size_, kernel_, options_); }

PixelShuffle::PixelShuffle(i64 upscale_factor) : factor_(upscale_factor) {}
PixelUnshuffle::PixelUnshuffle(i64 downscale_factor) : factor_(downscale_factor) {}
Unfold::Unfold(const PerAxis& kernel_size, const FoldOptions& o)
    : kernel_(kernel_size), options_(o) {}
Fold::Fold(const PerAxis& output_size, const PerAxis& kernel_size, const FoldOptions& o)
    : size_(output_size), kernel_(kernel_size), options_(o) {}

}  // namespace wt::nn
