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

// Buffers (running statistics) at the end of the last backward of a step, so that all ranks
// evaluate the same model.
enum class Buffers : u8 {
  broadcast,  // rank 0's
  mean,       // of floating ones; of others rank 0's
  each_own    // left alone
};

// Parameters that a backward has not reached.
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

struct DataParallelOptions {
  i64 bucket_bytes = i64(25) << 20;       // a parameter that is larger has a bucket of its own
  i64 first_bucket_bytes = i64(1) << 20;  // at most bucket_bytes count
  // f16, bf16: an f32 bucket travels as a 16-bit copy. With n ranks and the unit roundoff u (2^-11,
  // 2^-8) an element is off by at most u (|g_1| + ... + |g_n|) + u |sum| where the backend adds in
  // f32 (not nccl), by n times that where it does not; f16 loses what is below 2^-24 n
  // too, and what is above 65504 / n may become inf, which the step finds and skips like any other.
  DType compress = DType::f32;
  Unused unused = Unused::agree;
  Buffers buffers = Buffers::broadcast;
  // Before every so many steps the parameters' checksums are compared (a copy to the host of all of
  // them): PeerFailure names what has drifted, and where. 0: never.
  i64 check_every = 0;
  // 1: each rank keeps the optimizer's state for a part of the parameters and steps that alone
  // (dist/zero.h): gradients come by reduce_scatter, and parameters go out by all_gather after the
  // step. 2: it keeps the gradients of that part alone, too, and every backward sends. 0: every
  // rank does all of it.
  int zero = 0;
  WT_MISNAMED_SAYS(bucket_cap_mb, "it is .bucket_bytes, in bytes");
  WT_MISNAMED_SAYS(find_unused_parameters, "always so: see .unused");
  WT_MISNAMED(broadcast_buffers, buffers);
};

class WT_API DataParallel : public optim::Reducer {
 public:
  // Keeps references to all three. Compares library version, world size, model (names, shapes,
  // dtypes) and these options; the first step also compares seed, precision and the optimizer's
  // numbers: PeerFailure says what differs, on which rank. Throws UsageError for options out of
  // range and for parameters that another DataParallel has, PlacementError where the communicator
  // does not take the parameters' device.
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
  // Throws UsageError where a Loss would be added to gradients that were divided already.
  void backward(const Tensor& loss, Frame at = Frame::here());
  void backward(const Loss& loss, Frame at = Frame::here());
  void backward(const Tensor& loss, const optim::GradScaler& scaler, Frame at = Frame::here());
  void backward(const Loss& loss, const optim::GradScaler& scaler, Frame at = Frame::here());

  // Of gradients of loss.sum that are there already, as Pipeline::backward() leaves them: .grad
  // becomes their sum over all ranks, after and not beside the backward. Returns the sum of all
  // losses and weights; nothing is divided by it yet (agree_on_step() does). It is nan on all ranks
  // where the device of one has met a bad label or index, so that none steps. Throws UsageError
  // when no backward came since the last call, NotAvailable with zero = 2.
  Loss reduce(const Loss& loss, Frame at = Frame::here());

  // In the scope backward() only adds up what this rank has. With zero = 2 it sums over the ranks
  // as any other, and saves the agreement on what was reached alone: all ranks call it.
  class WT_GUARD NoSync {
   public:
    NoSync() = default;  // nothing
    explicit NoSync(i64& count) : count_(&count) { ++count; }
    NoSync(NoSync&& o) noexcept : count_(std::exchange(o.count_, nullptr)) {}
    NoSync& operator=(NoSync&&) = delete;
    ~NoSync() {
      if (count_) --*count_;
    }

   private:
    i64* count_ = nullptr;
  };
  [[nodiscard]] NoSync no_sync();

  // --- what it did ---
  // Parameters that the last step's backward did not reach, and on which ranks.
  struct Missing {
    std::string parameter;
    std::vector<int> ranks;
  };
  const std::vector<Missing>& unused() const;
  struct Bucket {
    std::vector<std::string> parameters;  // in the order of registration
    i64 bytes;                            // gaps between parameters included
  };
  // In the order in which they are begun.
  std::vector<Bucket> buckets() const;
  // How many of them were begun inside the last step's backward, beside the rest of it.
  i64 launched_early() const;
  // Seconds that this rank's host has waited in steps for what others send. The rank that waits
  // least is the slowest one: the others wait for it. Of a device with queues (cuda) hardly any,
  // for there the device waits; of captured steps none.
  double waited() const;
  // Compares checksums of all parameters, on every rank at once. Throws PeerFailure.
  void check_replicas(Frame at = Frame::here());
  Communicator& comm() const;

  // --- optim::Reducer ---
  void sum(const Tensor& t) override;
  void max(const Tensor& t) override;
  void any(std::span<char> reached) override;
  void begin_backward(bool last) override;
  bool sum_gradients() override;
  void require_capture() const override;
  std::vector<u64> gather(u64 mine) override;
  void replay(const std::function<void()>& launch) override;
  void give_up() noexcept override;
  void begin_step(i64 micro_batches) override;

 private:
  struct State;
  std::unique_ptr<State> s_;
};

}  // namespace wt::dist
