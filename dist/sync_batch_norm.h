// Batch norm over all ranks' samples: PyTorch's SyncBatchNorm.
#pragma once
#include "warptape/dist/communicator.h"
#include "warptape/nn/norms.h"

namespace wt::dist {

// Makes all batch norms in `net` use, in training, the statistics of all ranks' samples, weighed by
// their number, in forward and backward: the results of one process with the whole batch. Two small
// all-reduces a layer, one more each in backward, which every rank makes in the same order: all
// ranks run the same layers. Returns how many layers there are.
//
//   dist::sync_batch_norm(net, comm);
//
// The layers keep a reference to `comm`. With one rank nothing changes. Evaluation uses the running
// statistics, as ever.
WT_API i64 sync_batch_norm(const nn::ModuleBase& net, Communicator& comm);

}  // namespace wt::dist
