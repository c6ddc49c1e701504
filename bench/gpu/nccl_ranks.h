// Two processes over the real NCCL, on one GPU where there is no second one: values and rates.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "warptape/bench/gpu/measure.h"
#include "warptape/dist/communicator.h"

namespace wt::bench {

struct NcclRanks {
  Device device = Device::cuda();
  int rank = 0, world = 2;
  std::string folder;  // that all processes see, new for each run: where they meet
};
// Processes of one host that meet through files: what a backend needs of control(). A rank that
// does not come within deadline() is a PeerFailure.
std::unique_ptr<dist::Communicator> file_control(const NcclRanks& ranks);

// Exact sums of every dtype, gradients of two half batches against those of the whole, then
// all_reduce at several sizes; `keep` is given each row as it comes. Throws NotAvailable where
// there is no NCCL, InternalError for a wrong value.
void nccl_ranks(const NcclRanks& ranks, const std::function<void(const Row&)>& keep);

}  // namespace wt::bench
