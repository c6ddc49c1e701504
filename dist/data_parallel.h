// The same model on every rank, each with a part of the batch: what PyTorch calls
// DistributedDataParallel.
//
//   dist::spawn(4, [](dist::Communicator& comm) {
//     Net net;
//     optim::Sgd opt{net, {.lr = 0.1}};
//     dist::DataParallel ddp{net, opt, comm};
//     TrainStep step{net, opt, {.reducer = &ddp}};
//     for (const auto& b : my_part) step(b, [&](const auto& b) { ... });   // as on one device
//   });
//
// Every rank begins with rank 0's parameters and buffers, and a step divides the sum of all ranks'
// gradients by the sum of their weights: the gradient of the whole batch, ragged parts or not. The
// gradients, and so the weights, have the same bits on every rank.
//
// Buckets. Gradients lie in the optimizer's arenas in the order of registration, and a bucket is a
// range of these: whole parameters, no copies. The ranges are cut from the end, because gradients
// of what was registered last come first, and the first one is small. In the last backward of a
// step each bucket's all-reduce begins as its last gradient arrives, beside the rest of that
// backward. All ranks begin them in one order: at first from the end, then as they became complete
// in rank 0's first backward. A bucket that is complete early waits for its turn.
//
// Loops of your own call ddp.backward(loss) in place of loss.backward():
//
//   for (i64 i = 0; i < k; ++i) {
//     auto guard = i < k - 1 ? ddp.no_sync() : dist::DataParallel::NoSync();  // one sum for k
//     parts ddp.backward(cross_entropy(net(x[i]), y[i]));
//   }
//   opt.step();
//
// A step that throws on one rank cannot be finished by the others: the communicator is aborted, and
// each of them throws PeerFailure, its parameters being as before the step. Errors that all ranks
// find alike are thrown by all and abort nothing.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "warptape/autograd/loss.h"
#include "warptape/core/misnamed.h"
#include "warptape/dist/communicator.h"
#include "warptape/optim/grad_scaler.h"
#include "warptape/optim/optimizer.h"
#include "warptape/optim/reducer.h"

namespace wt::dist {

// What buffers (running statistics) become at the end of the last backward of a step, so that all
// ranks evaluate the same model.
enum class Buffers : u8 {
  broadcast,  // rank 0's
  mean,       // of floating ones; of others rank 0's
  each_own    // left alone
};

// What happens to parameters that a backward has not reached.
enum class Unused : u8 {
  // On no rank: left alone, as by one process. On some: zeros count for these. Ranks compare what
  // they reached in each step, on the host.
  agree,
  // UsageError on all ranks in the first step, naming them; later by the rank that misses one.
  refuse,
  // As agree in the first step, whose answer holds from then on: nothing is compared later. A rank
  // that reaches another parameter then throws UsageError.
  fixed
};

// How DataParallel sums gradients; the same on all ranks, else PeerFailure.
struct DataParallelOptions {
  // Bytes of gradients that travel together; a parameter that is larger has a bucket of its own.
  i64 bucket_bytes = i64(25) << 20;
  // Bytes of the bucket that is begun first; at most bucket_bytes count.
  i64 first_bucket_bytes = i64(1) << 20;
  // What gradients travel as. f16, bf16: an f32 bucket travels as a 16-bit copy. With n ranks and
  // the unit roundoff u (2^-11, 2^-8) an element is off by at most u (|g_1| + ... + |g_n|) + u
  // |sum| where the backend adds in f32 (not nccl), by n times that where it does not; f16 loses
  // what is below 2^-24 n too, and what is above 65504 / n may become inf, which the step finds and
  // skips like any other.
  DType compress = DType::f32;
  Unused unused = Unused::agree;         // what a backward did not reach: agree, refuse, fixed
  Buffers buffers = Buffers::broadcast;  // broadcast, mean or each_own
  // Before every so many steps the parameters' checksums are compared (a copy to the host of all of
  // them): PeerFailure names what has drifted, and where. 0: never.
  i64 check_every = 0;
  // The stage of ZeRO, 0 to 2. 1: each rank keeps the optimizer's state for a part of the
  // parameters and steps that alone (dist/zero.h): gradients come by reduce_scatter, and parameters
  // go out by all_gather after the step. 2: it keeps the gradients of that part alone, too, and
  // every backward sends. 0: every rank does all of it.
  int zero = 0;
  WT_MISNAMED_SAYS(bucket_cap_mb, "it is .bucket_bytes, in bytes");
  WT_MISNAMED_SAYS(find_unused_parameters, "always so: see .unused");
  WT_MISNAMED(broadcast_buffers, buffers);
};

// The same model on every rank, its gradients summed over all of them: the reducer of a TrainStep,
// or for loops of your own. Every rank calls everything in the same order.
class WT_API DataParallel : public optim::Reducer {
 public:
  // Gives every rank rank 0's parameters and buffers. Keeps references to all three. Compares
  // library version, world size, model (names, shapes, dtypes) and these options; the first step
  // also compares seed, precision and the optimizer's numbers: PeerFailure says what differs, on
  // which rank. Throws UsageError for options out of range and for parameters that another
  // DataParallel has, PlacementError where the communicator does not take the parameters' device.
  DataParallel(const nn::ModuleBase& net, optim::Optimizer& opt, Communicator& comm,
               const DataParallelOptions& options = {}, Frame at = Frame::here());
  ~DataParallel() override;
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  // --- loops without TrainStep ---
  // Backward, and the gradients of all ranks: .grad is afterwards the gradient of the mean over the
  // ranks (a Tensor, each rank's loss counting alike; of several backwards under no_sync() the
  // means add up, as in PyTorch) or of the sum of all losses divided by the sum of all their
  // weights (a Loss: exact for parts of unequal size; over all backwards since zero_grad()). The
  // two do not mix in one step. With a scaler the gradients are scaled: scaler.step(opt) follows.
  // Throws UsageError where they are mixed, and where a Loss, or with zero = 1 anything, would be
  // added to gradients that are all ranks' already.
  void backward(const Tensor& loss, Frame at = Frame::here());
  void backward(const Loss& loss, Frame at = Frame::here());
  void backward(const Tensor& loss, const optim::GradScaler& scaler, Frame at = Frame::here());
  void backward(const Loss& loss, const optim::GradScaler& scaler, Frame at = Frame::here());

  // Sums gradients of loss.sum that are there already, as Pipeline::backward() leaves them: .grad
  // becomes their sum over all ranks, after and not beside the backward. Returns the sum of all
  // losses and weights; nothing is divided by it yet (agree_on_step() does). It is nan on all ranks
  // where the device of one has met a bad label or index, so that none steps. Throws UsageError
  // when no backward came since the last call, NotAvailable with zero = 2.
  Loss reduce(const Loss& loss, Frame at = Frame::here());

  // A scope in which backward() only adds up what this rank has. With zero = 2 it sums over the
  // ranks as any other, and saves the agreement on what was reached alone: all ranks call it.
  class WT_GUARD NoSync {
   public:
    NoSync() = default;  // nothing
    // Counts itself in `count` as long as it lives.
    explicit NoSync(i64& count) : count_(&count) { ++count; }
    NoSync(NoSync&& o) noexcept : count_(std::exchange(o.count_, nullptr)) {}
    NoSync& operator=(NoSync&&) = delete;
    ~NoSync() {
      if (count_) --*count_;
    }

   private:
    i64* count_ = nullptr;
  };
  // The scope of a NoSync, for all backwards of a step but the last. A TrainStep in it throws
  // UsageError.
  [[nodiscard]] NoSync no_sync();

  // --- what it did ---
  // A parameter that a step's backward did not reach.
  struct Missing {
    std::string parameter;   // its name
    std::vector<int> ranks;  // where it was not reached
  };
  // Parameters that the last step's backward did not reach, and on which ranks. With
  // Unused::refuse and fixed it is the first step's.
  const std::vector<Missing>& unused() const;
  // A range of gradients that one call sums.
  struct Bucket {
    std::vector<std::string> parameters;  // names, in the order of registration
    i64 bytes;                            // gaps between parameters included
  };
  // The buckets in the order in which they are begun.
  std::vector<Bucket> buckets() const;
  // How many buckets were begun inside the last step's backward, beside the rest of it.
  i64 launched_early() const;
  // Seconds that this rank's host has waited in steps for what others send. The rank that waits
  // least is the slowest one: the others wait for it. Of a device with queues (cuda) hardly any,
  // for there the device waits; of captured steps none.
  double waited() const;
  // Compares checksums of all parameters, on every rank at once. Throws PeerFailure.
  void check_replicas(Frame at = Frame::here());
  // The communicator that it was given.
  Communicator& comm() const;

  // --- optim::Reducer ---
  // Sums `t` over all ranks, in place.
  void sum(const Tensor& t) override;
  // The greatest of all ranks, element by element, in place.
  void max(const Tensor& t) override;
  // Agrees on which parameters any rank's backward reached, as `unused` says; the first call also
  // compares seed, precision and optimizer. Throws UsageError, PeerFailure.
  void any(std::span<char> reached) override;
  // Makes buckets go out as their gradients arrive, in the last backward of a step (with zero = 2
  // in every one). Throws UsageError inside no_sync().
  void begin_backward(bool last) override;
  // Waits for the buckets and shares the buffers, as `buffers` says. Always true.
  bool sum_gradients() override;
  // Throws NotAvailable where the backend's calls cannot be nodes of a graph, UsageError with
  // Unused::agree.
  void require_capture() const override;
  // What every rank gives, rank by rank.
  std::vector<u64> gather(u64 mine) override;
  // Replays a captured step on all ranks, replicas being compared before it where that is due.
  void replay(const std::function<void()>& launch) override;
  // Aborts the communicator with the exception under way, unless all ranks have met it alike.
  void give_up() noexcept override;
  // With zero = 2: how many backwards the step may have; ranks compare it before the first one.
  void begin_step(i64 micro_batches) override;

 private:
  struct State;
  std::unique_ptr<State> s_;
};

}  // namespace wt::dist
