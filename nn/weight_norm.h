// Parameters that are computed from others at every call: torch.nn.utils' weight_norm and
// spectral_norm, with the names that these give in a state dict.
//
//   nn::Linear fc = add("fc", nn::utils::weight_norm(nn::Linear{20, 30}));
//   // fc.weight_g, fc.weight_v
//
// The parameter itself is none any more: it is there during a call, `m(x)`, which hooks begin and
// end, and undefined otherwise (after a forward that threw it is there until the next call).
// m.forward(x) and layers that read another one's weight do without hooks and find none. Clones,
// state dicts, moves and optimizers take what it is made of. Both throw UsageError for a name that
// the module itself has no such parameter of, for one that is computed already, and for one that an
// optimizer holds.
#pragma once
#include <concepts>
#include <optional>
#include <string>
#include <utility>

#include "warptape/nn/module.h"

namespace wt::nn::utils {

// Which axes weight_norm() takes the norm over.
struct WeightNormOptions {
  // The axis with a norm for each of its places, negative ones from the end; nullopt: one norm of
  // the whole.
  std::optional<i64> dim = 0;
};
// How spectral_norm() estimates the largest singular value.
struct SpectralNormOptions {
  i64 n_power_iterations = 1;  // of each call in training, at least 1
  double eps = 1e-12;          // least norm that is divided by
  std::optional<i64> dim{};    // rows of the matrix: by default 0, of ConvTranspose layers 1
};

namespace detail {
WT_API void add_weight_norm(const ModuleBase& m, const std::string& name,
                            const WeightNormOptions& o, Frame at);
WT_API void add_spectral_norm(const ModuleBase& m, const std::string& name,
                              const SpectralNormOptions& o, Frame at);
}  // namespace detail

// The module with a weight that is computed from length and direction:
// weight = weight_g weight_v / |weight_v| (Salimans and Kingma 2016, arXiv:1602.07868), with the
// norm over all axes but dim. The parameters are weight_v, which is what weight was, and weight_g,
// its norm. Throws ShapeError for dim.
template <std::derived_from<ModuleBase> M>
M weight_norm(M m, const std::string& name = "weight", const WeightNormOptions& o = {},
              Frame at = Frame::here()) {
  detail::add_weight_norm(m, name, o, at);
  return m;
}
// The module with a weight whose largest singular value is about 1:
// weight = weight_orig / sigma with sigma = u W v (Miyato et al. 2018, arXiv:1802.05957), W being
// weight_orig as a matrix. Each call in training first improves the buffers weight_u and weight_v
// by n_power_iterations of v = W^T u / |W^T u|, u = W v / |W v|, norms being at least eps. Throws
// ShapeError for dim, UsageError for n_power_iterations below 1.
template <std::derived_from<ModuleBase> M>
M spectral_norm(M m, const std::string& name = "weight", const SpectralNormOptions& o = {},
                Frame at = Frame::here()) {
  detail::add_spectral_norm(m, name, o, at);
  return m;
}
// Makes the weight a parameter again, with the value of the next call in evaluation. Throws
// UsageError where it is not computed by weight_norm(), and while an optimizer holds what it is
// made of.
WT_API void remove_weight_norm(const ModuleBase& m, const std::string& name = "weight",
                               Frame at = Frame::here());
// Makes the weight a parameter again, as remove_weight_norm(), where spectral_norm() computes it.
WT_API void remove_spectral_norm(const ModuleBase& m, const std::string& name = "weight",
                                 Frame at = Frame::here());

}  // namespace wt::nn::utils
