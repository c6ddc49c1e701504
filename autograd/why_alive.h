// Who keeps a tensor's memory.
#pragma once
#include <string>

#include "warptape/core/tensor.h"

namespace wt::memory {

// Text with a line a holder:
//
//   [64, 512] f32 cpu, 128 KiB of activation, made by linear in block0.up <- net.cpp:12
//     handles: 2 (variables, containers, modules; one of them was asked about)
//     saved by block0.relu <- net.cpp:13 for its backward, in a graph that ends in sum <-
//     net.cpp:20
//
// Holders are handles (tensors of the user's, the one asked about among them), other tensors over
// the same bytes (views, detach()), slots of the graph's nodes with operator and line and where
// their graph ends (who drops every tensor made there frees it), checkpoints, the autocast cache
// and an optimizer's arena. It knows the graphs that the calling thread recorded; looking takes
// time by how many nodes there are. Undefined tensors: UsageError.
WT_API std::string why_alive(const Tensor& t);

}  // namespace wt::memory
