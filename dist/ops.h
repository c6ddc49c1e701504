// Collectives as operators: they return a new tensor and are part of the graph.
//
//   Tensor total = dist::all_reduce(comm, x);        // the sum over ranks, on every rank
//
// What is differentiated is the sum of all ranks' losses: the gradient of x on one rank has what
// every rank's loss does with it. These are the conjugates of Megatron-LM (Shoeybi et al. 2019) and
// of torch.distributed.nn.functional:
//
//   forward              backward
//   all_reduce           all_reduce of the gradients, with the same sum or mean
//   all_gather           reduce_scatter (sum)
//   reduce_scatter       all_gather
//   broadcast            reduce (sum) to the root; the other ranks' gradients are zeros
//   reduce               broadcast from the root
//   send                 receives the gradient
//   recv                 sends the gradient
//
// A backward calls collectives too, and every rank must make the same ones in the same order. The
// tape walks by descending number, which is the order in which a thread recorded: where every
// rank's forward, in one thread, makes the same collectives in one order, and every rank's backward
// reaches the same ones, backward calls them in the reverse of it. So
// - x needs a gradient on every rank or on none, and every rank's loss depends on the results that
//   any rank's does (add `sum(y) * 0.0` where it does not);
// - several losses are walked in the same order on every rank;
// - what is recorded by several threads of one rank has no fixed order: use a communicator each.
// A rank that breaks this gets PeerFailure, as any other wrong call does, or comes too late.
//
// checkpoint() calls the forward's collectives again: in the same place on every rank that made the
// same segments. Double backward follows for all but send and recv. The communicator outlives the
// graph. Where nothing is recorded, integers can be sent and reduced as by Communicator. All throw
// what Communicator's calls throw; x need not be contiguous.
#pragma once
#include "warptape/core/in.h"
#include "warptape/dist/communicator.h"

namespace wt::dist {

// The reduction of all ranks' x, in x's shape, on every rank. min and max have no derivative:
// UsageError for an x that needs one.
WT_API Tensor all_reduce(Communicator& comm, const In& x, ReduceOp op = ReduceOp::sum);

// All ranks' x one behind the other, on every rank: (n, ...) on each -> (size n, ...): rank 0's,
// then rank 1's, ...; 0-d tensors: (size).
WT_API Tensor all_gather(Communicator& comm, const In& x);

// Part rank() of the reduction of all ranks' x, sum or mean: (size n, ...) -> (n, ...). Throws
// ShapeError unless the first axis can be cut into size() parts, UsageError for min and max.
WT_API Tensor reduce_scatter(Communicator& comm, const In& x, ReduceOp op = ReduceOp::sum);

// The x of rank `root`; the other ranks' x say shape and dtype, which are the same.
WT_API Tensor broadcast(Communicator& comm, const In& x, int root = 0);

// The sum of all ranks' x on rank `root`, zeros of its shape elsewhere. Throws UsageError for a
// root that is no rank.
WT_API Tensor reduce(Communicator& comm, const In& x, int root = 0);

// Sends x and returns a token, 0-d, of x's dtype and device: token.backward() receives the gradient
// of x from rank `to` and goes on from there. Floating tensors sent while gradients are recorded
// have a token that needs a gradient, whether x does or not, because the other side will send one.
WT_API Tensor send(Communicator& comm, const In& x, int to);

// What rank `from` sends: a tensor of the shape, dtype and device of `like`, whose values are not
// read. Its backward, that of grad() with respect to it too, sends the gradient back. Through
// `after`, the token of a send that this one answers, a backward of what is received reaches what
// was sent.
//
//   Tensor sent = dist::send(comm, h, 1);                        // rank 0
//   dist::recv(comm, h, 1, sent).sum().backward();               // rank 1 does the same, reversed
WT_API Tensor recv(Communicator& comm, const Tensor& like, int from, const Tensor& after = {},
                   Frame at = Frame::here());

}  // namespace wt::dist
