// What you write in ddp.cpp. The lab's checks call these functions and nothing else.
#pragma once
#include <memory>
#include <vector>

#include "warptape/core/tensor.h"
#include "warptape/dist/communicator.h"

namespace ddp {

using wt::i64;
using wt::Tensor;
using wt::dist::Communicator;

// --- 1. The ring ---

// `t` (one axis, f32, on the cpu) becomes the sum over all ranks, on every rank with the same bits.
// Made of comm.send, recv, start_send and start_recv alone: rank r sends to rank r + 1 (the last
// one to rank 0), at most 2 (n - 1) messages and 2 (n - 1) / n of the tensor, each part rounded up.
// send() may wait until its message has been received.
void ring_all_reduce(Communicator& comm, const Tensor& t);

// --- 2. Buckets ---

// The parameters, of so many bytes each and in the order of registration, in buckets: indices from
// the last parameter to the first. Each bucket takes the next ones as long as it stays within
// `limit` bytes, and at least one.
std::vector<std::vector<size_t>> make_buckets(const std::vector<i64>& bytes, i64 limit);

// --- 3. The same model on every rank ---

class Replica {
 public:
  virtual ~Replica() = default;
  // loss.backward() on this rank. After one with `last` each parameter's .grad is the mean over the
  // ranks of what their backwards gave since the one before it with `last`; a parameter that a
  // rank's backward did not reach counts as zeros there.
  //
  // Sends by comm.start_all_reduce() alone, one for each bucket and in one order on all ranks, and
  // begins it inside of the backward: as soon as the bucket's last gradient is there, and all
  // buckets before it have begun. Work::wait() comes when the backward is over.
  //
  // last = false is for the challenge: sends nothing. All other cases give true.
  virtual void backward(const Tensor& loss, bool last) = 0;
};

// Parameters: leaves that require gradients, f32 on the cpu; the same on all ranks. The
// communicator outlives the replica. Hooks on the parameters end with the replica.
std::unique_ptr<Replica> make_replica(Communicator& comm, std::vector<Tensor> parameters,
                                      i64 bucket_bytes);

}  // namespace ddp
