#include "warptape/nn/deep_sdf.h"

#include <cmath>

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/at_line.h"
#include "warptape/nn/init.h"
#include "warptape/nn/make_parameter.h"
#include "warptape/nn/weight_norm.h"

namespace wt::models {
namespace {

i64 given_shapes(i64 shapes) {
  if (shapes < 1)
    throw UsageError(str("[DeepSdf] .shapes must be given: how many there are", at_line()));
  return shapes;
}

}  // namespace

DeepSdfDecoder::DeepSdfDecoder(const DeepSdfOptions& o)
    : dropout(o.dropout), latent_in_(o.latent_in) {
  const i64 first = o.latent + 3;
  nn::detail::at_least_1("DeepSdf", "layers", o.layers);
  for (i64 i = 0; i <= o.layers; ++i) {
    const bool last = i == o.layers;
    // The layer before the second input makes room for it.
    const i64 out = last ? 1 : i + 1 == o.latent_in ? o.width - first : o.width;
    nn::Linear layer{i == 0 ? first : o.width, out};
    if (o.weight_norm && !last) layer = nn::utils::weight_norm(layer);
    lin.push_back(add("lin" + std::to_string(i), layer));
  }
  add("dropout", dropout);
}

Tensor DeepSdfDecoder::forward(Tensor x) {
  const Tensor input = x;
  for (size_t i = 0; i < lin.size(); ++i) {
    if (i > 0 && i64(i) == latent_in_) x = cat({x, input}, 1);
    x = lin[i](std::move(x));
    if (i + 1 < lin.size()) x = dropout(relu(std::move(x)));
  }
  return tanh(std::move(x));
}

DeepSdf::DeepSdf(const DeepSdfOptions& o)
    : lat_vecs(add("lat_vecs", nn::Embedding{given_shapes(o.shapes), o.latent})),
      decoder(add("decoder", DeepSdfDecoder{o})) {
  nn::init::normal_(lat_vecs.weight, 0, 1 / std::sqrt(double(o.latent)));
}

Tensor DeepSdf::decode(const Tensor& latents, const Tensor& points) {
  return decoder(cat({latents, points}, 1));
}

Tensor DeepSdf::forward(Tensor ids, const Tensor& points) {
  return decode(lat_vecs(std::move(ids)), points);
}

}  // namespace wt::models
