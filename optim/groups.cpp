// Which parameters belong to which group, by their names.
#include <algorithm>

#include "warptape/core/at_line.h"
#include "warptape/core/error.h"
#include "warptape/core/suggest.h"
#include "warptape/nn/name_pattern.h"
#include "warptape/optim/arena.h"
#include "warptape/optim/kind.h"
#include "warptape/optim/optimizer.h"

namespace wt::optim {
namespace {

struct Override {
  const char* name;
  std::optional<double> value;
  double OptimBlock::*field;
};
std::vector<Override> overrides(const ParamGroup& g) {
  const auto beta = [&](double Betas::*b) {
    return g.betas ? std::optional<double>((*g.betas).*b) : std::nullopt;
  };
  return {{"lr", g.lr, &OptimBlock::lr},
          {"weight_decay", g.weight_decay, &OptimBlock::weight_decay},
          {"momentum", g.momentum, &OptimBlock::momentum},
          {"dampening", g.dampening, &OptimBlock::dampening},
          {"eps", g.eps, &OptimBlock::eps},
          {"alpha", g.alpha, &OptimBlock::alpha},
          {"lr_decay", g.lr_decay, &OptimBlock::lr_decay},
          {"beta1", beta(&Betas::first), &OptimBlock::beta1},
          {"beta2", beta(&Betas::second), &OptimBlock::beta2},
          {"momentum_decay", g.momentum_decay, &OptimBlock::momentum_decay}};
}

// Puts the parameters that match into group number k.
void assign(const char* kind, const std::vector<ParamGroup>& groups, size_t k,
            std::vector<detail::Entry>& entries, std::vector<std::string>& taken_by) {
  if (groups[k].names.empty())
    throw UsageError(str("[", kind, "] group ", k + 1, " has no names", at_line()));
  for (const std::string& pattern : groups[k].names) {
    bool found = false;
    for (size_t i = 0; i < entries.size(); ++i) {
      if (!nn::fits_pattern(pattern, entries[i].name)) continue;
      found = true;
      if (entries[i].group != 0 && entries[i].group != int(k) + 1)
        throw UsageError(str("[", kind, "] parameter ", entries[i].name, " is in two groups: '",
                             taken_by[i], "' of group ", entries[i].group, " and '", pattern,
                             "' of group ", k + 1, at_line()));
      entries[i].group = int(k) + 1;
      taken_by[i] = pattern;
    }
    if (found) continue;
    std::vector<std::string_view> names;
    for (const detail::Entry& e : entries) names.push_back(e.name);
    throw UsageError(str("[", kind, "] '", pattern, "' of group ", k + 1, " matches none of the ",
                         entries.size(), " parameters", did_you_mean(pattern, names), at_line()));
  }
}

}  // namespace

Optimizer::Blocks Optimizer::blocks_of(const Kind& kind, const OptimBlock& hyper,
                                       const std::vector<ParamGroup>& groups,
                                       std::vector<detail::Entry>& entries) {
  check(kind, hyper);
  Blocks blocks{hyper};
  std::vector<std::string> taken_by(entries.size());
  for (size_t k = 0; k < groups.size(); ++k) {
    OptimBlock b = hyper;
    for (const Override& o : overrides(groups[k])) {
      if (!o.value) continue;
      const bool known = std::any_of(kind.scalars.begin(), kind.scalars.end(), [&](const auto& s) {
        return std::string_view(s.first) == o.name;
      });
      if (!known)
        throw UsageError(str("[", kind.name, "] group ", k + 1, " sets ", o.name, ", which ",
                             kind.name, " does not have", at_line()));
      b.*o.field = *o.value;
    }
    check(kind, b);
    assign(kind.name, groups, k, entries, taken_by);
    blocks.push_back(b);
  }
  return blocks;
}

}  // namespace wt::optim
