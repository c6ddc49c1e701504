// The one list of contracts, and the one file that knows which devices are built. Its order is the
// order of `wt ops` and of the benchmarks; a test compares it with the headers in this folder.
#include "warptape/config.h"
#include "warptape/kernels/copy.h"
#include "warptape/kernels/cross_entropy.h"
#include "warptape/kernels/dropout.h"
#include "warptape/kernels/embedding.h"
#include "warptape/kernels/grad_norm.h"
#include "warptape/kernels/matmul.h"
#include "warptape/kernels/mse.h"
#include "warptape/kernels/optim_step.h"
#include "warptape/kernels/pointwise.h"
#include "warptape/kernels/reduce.h"
#include "warptape/kernels/run.h"
#include "warptape/kernels/softmax.h"

namespace wt {
namespace {

template <class Args>
int count(DeviceKind d) {
  const Variants<Args>* v = ContractTable<Args>::rows[int(d)];
  return v ? v->count : 0;
}
template <class Args>
VariantRow variant(DeviceKind d, int i) {
  const Variant<Args>& v = ContractTable<Args>::rows[int(d)]->rows[i];
  return {v.name, v.rank, v.deterministic};
}

#if WARPTAPE_HAS_CUDA
#define WT_ON_CUDA(contract) &contract##_on_cuda
#else
#define WT_ON_CUDA(contract) nullptr
#endif

}  // namespace

#define WT_CONTRACTS(X)                               \
  X(copy, CopyArgs)                                   \
  X(fill, FillArgs)                                   \
  X(matmul, MatmulArgs)                               \
  X(sum, SumArgs)                                     \
  X(max, MaxArgs)                                     \
  X(argmax, ArgmaxArgs)                               \
  X(softmax_forward, SoftmaxForwardArgs)              \
  X(softmax_backward, SoftmaxBackwardArgs)            \
  X(cross_entropy_forward, CrossEntropyForwardArgs)   \
  X(cross_entropy_backward, CrossEntropyBackwardArgs) \
  X(mse_forward, MseForwardArgs)                      \
  X(mse_backward, MseBackwardArgs)                    \
  X(dropout, DropoutArgs)                             \
  X(embedding_forward, EmbeddingForwardArgs)          \
  X(embedding_backward, EmbeddingBackwardArgs)        \
  X(sgd_step, SgdStepArgs)                            \
  X(adamw_step, AdamwStepArgs)                        \
  X(step_advance, StepAdvanceArgs)                    \
  X(step_restore, StepRestoreArgs)                    \
  X(grad_norm, GradNormArgs)                          \
  X(grad_scale, GradScaleArgs)                        \
  X(step_decide, StepDecideArgs)                      \
  X(loss_add, LossAddArgs)                            \
  WT_POINTWISE_CONTRACTS(X)

#define WT_DEFINE_TABLE(contract, Args)                                                \
  constinit const Variants<Args>* const ContractTable<Args>::rows[kNumDeviceKinds] = { \
      &contract##_on_cpu, &contract##_on_simt, WT_ON_CUDA(contract)};
WT_CONTRACTS(WT_DEFINE_TABLE)

ContractList all_contracts() {
#define WT_LIST_ROW(contract, Args) {#contract, count<Args>, variant<Args>},
  static constexpr ContractInfo kRows[] = {WT_CONTRACTS(WT_LIST_ROW)};
  return {kRows, int(sizeof(kRows) / sizeof(kRows[0]))};
}

}  // namespace wt
