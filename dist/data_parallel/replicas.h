// The state that ranks share: how it gets from rank 0 to all, and how copies are compared.
// Internal.
#pragma once
#include <string>
#include <vector>

#include "warptape/dist/communicator.h"
#include "warptape/dist/data_parallel.h"
#include "warptape/nn/module.h"
#include "warptape/optim/optimizer.h"

namespace wt::dist::detail {

// A line a parameter and buffer: "fc.weight [10, 784] f32".
std::string describe_model(const nn::ModuleBase& net, const optim::Optimizer& opt);
// "lr 0.1, momentum 0.9, ...": the optimizer's kind and numbers. Waits for the device.
std::string describe_optimizer(const optim::Optimizer& opt);
// Of the copies that autocast reads, by now: "f32" when there are none.
std::string precision_of(const optim::Optimizer& opt);

// Parameters, averages of them and what the optimizer does not have become rank 0's.
void broadcast_parameters(Communicator& comm, const nn::ModuleBase& net,
                          const optim::Optimizer& opt);
// Buffers by their policy, those of one dtype in one call.
void share_buffers(Communicator& comm, const nn::ModuleBase& net, Buffers policy);
// Compares checksums; throws PeerFailure on all ranks alike.
void check_replicas(Communicator& comm, const optim::Optimizer& opt, i64 step);

}  // namespace wt::dist::detail
