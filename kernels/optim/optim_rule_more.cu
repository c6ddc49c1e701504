// NAdam, RAdam, Adamax, Adadelta, Rprop and Muon's other part on simt and cuda.
#include "warptape/kernels/optim/optim_rule.cuh"

namespace wt {

WT_RULE_VARIANTS(nadam_step, Nadam);
WT_RULE_VARIANTS(radam_step, Radam);
WT_RULE_VARIANTS(adamax_step, Adamax);
WT_RULE_VARIANTS(adadelta_step, Adadelta);
WT_RULE_VARIANTS(rprop_step, Rprop);
WT_RULE_VARIANTS(muon_step, Muon);

}  // namespace wt
