// SGD, Adam, AdamW, Adagrad, RMSprop, Lion and the moving average on simt and cuda.
#include "warptape/kernels/optim/optim_rule.cuh"

namespace wt {

WT_RULE_VARIANTS(sgd_step, Sgd);
WT_RULE_VARIANTS(adamw_step, Adamw);
WT_RULE_VARIANTS(adam_step, Adam);
WT_RULE_VARIANTS(adagrad_step, Adagrad);
WT_RULE_VARIANTS(rmsprop_step, Rmsprop);
WT_RULE_VARIANTS(lion_step, Lion);
WT_RULE_VARIANTS(ema_step, Ema);

}  // namespace wt
