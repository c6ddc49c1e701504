// DeepSDF (Park et al. 2019, arXiv:1901.05103): an auto-decoder. One network gives the signed
// distance to the surface of many shapes, each by a vector of its own that is learned with it.
//
//   models::DeepSdf net{{.shapes = 100}};
//   Tensor d = net(ids, points);                       // [N], [N, 3] -> [N, 1]
#pragma once
#include "warptape/core/misnamed.h"
#include "warptape/nn/containers.h"
#include "warptape/nn/dropout.h"
#include "warptape/nn/embedding.h"
#include "warptape/nn/linear.h"

namespace wt::models {

// Sizes of decoder and table; the defaults are the paper's.
struct DeepSdfOptions {
  i64 shapes = 0;               // rows of the table of latents; must be given
  i64 latent = 256;             // features of the vector of a shape
  i64 width = 512, layers = 8;  // hidden layers, of `width` features
  i64 latent_in = 4;            // this layer, counted from 0, gets the input once more; 0: none
  double dropout = 0.2;         // behind each hidden layer
  bool weight_norm = true;      // of the hidden layers
  WT_MISNAMED(latent_size, latent);
};

// [N, latent + 3] to distances [N, 1] in (-1, 1), by layers "lin0", "lin1", ... as the paper's
// program has them.
class WT_API DeepSdfDecoder : public nn::Module<DeepSdfDecoder> {
 public:
  // Layers of latent + 3 features to `width`, and at last to 1; `shapes` does not count. Throws
  // ShapeError for layers that have no features.
  explicit DeepSdfDecoder(const DeepSdfOptions& o);
  // [N, latent + 3] to [N, 1]: x is a latent with its point behind it.
  Tensor forward(Tensor x);
  std::vector<nn::Linear> lin;  // layers + 1 of them
  nn::Dropout dropout;          // behind each hidden layer

 private:
  i64 latent_in_;
};

// The decoder and a table of latents: ids of shapes, i64 or i32 [N], and points [N, 3] to signed
// distances [N, 1]. Latents begin as N(0, 1 / latent). A new shape's latent is found by training a
// table of one row with the decoder frozen: decode(). Throws UsageError for `shapes` that are not
// given, ShapeError for layers that have no features, IndexError for other ids.
class WT_API DeepSdf : public nn::Module<DeepSdf> {
 public:
  // Throws UsageError unless o.shapes is at least 1, ShapeError for layers that have no features.
  explicit DeepSdf(const DeepSdfOptions& o);
  // ids [N] and points [N, 3] to [N, 1]. Throws IndexError for ids outside [0, shapes).
  Tensor forward(Tensor ids, const Tensor& points);
  // Distances [N, 1] from latents [N, latent] themselves, and points [N, 3].
  Tensor decode(const Tensor& latents, const Tensor& points);
  nn::Embedding lat_vecs;  // [shapes, latent]
  DeepSdfDecoder decoder;  // the network of all shapes
};

}  // namespace wt::models
