// Ranks that compute together, and what they send each other.
//
//   dist::spawn(4, [](dist::Communicator& comm) {      // ranks as threads (dist/spawn.h)
//     Tensor t = full({1000}, double(comm.rank()));
//     comm.all_reduce(t, dist::ReduceOp::mean);        // 1.5 everywhere
//   });
//
// Backends: `local` (ranks are threads; tensors of cpu and simt), `mpi` and `tcp` (processes, with
// and without MPI; the same tensors), `nccl` (a GPU a rank; of cuda). dist/init.h picks one.
//
// Every rank calls the same collectives in the same order, with tensors of one dtype and size; the
// result has the same bits on every rank and in every run. Tensors are dense and contiguous, of any
// size (0 too). What reads or writes a gradient is not recorded: a tensor that requires grad is
// taken under NoGrad only.
//
// Sums of f16 and bf16 are made in f32 and rounded at the end, where the backend makes them itself
// (not nccl); of u8, i32 and i64 they wrap around. bool has min (all) and max (any). Storage-only
// dtypes (f8, i8, ...) are moved and not reduced.
//
// A rank that dies, hangs, comes too late or calls something else makes every other one throw
// PeerFailure: by the call that waits for it or by the next one, within the deadline. From then on
// every call throws it. The process should end with its exit code, 7; what a collective was to
// write is undefined.
//
// A communicator belongs to one rank. Its calls come from one thread at a time.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "warptape/core/tensor.h"

namespace wt::dist {

// How the ranks' elements become one: their `sum`, `mean` (of floating dtypes), `min` or `max`.
enum class ReduceOp : u8 { sum, mean, min, max };
// The operation's name: "sum".
WT_API const char* to_string(ReduceOp op);

// What a collective that was begun has come to. Copies are the same one.
class WT_API Work {
 public:
  // A backend's own.
  class Pending {
   public:
    virtual ~Pending() = default;
    // Whether it has ended, well or not: wait() does not block then.
    virtual bool done() = 0;
    // As Work::wait().
    virtual void wait() = 0;
  };
  Work() = default;  // has finished
  // What a backend has begun; null: it has finished.
  explicit Work(std::shared_ptr<Pending> p) : pending_(std::move(p)) {}

  // Whether the call has ended, with its result or with a failure, which wait() throws (of nccl
  // done() too). The host does not wait. Throws UsageError inside of a capture: nothing runs there.
  bool done() const { return !pending_ || pending_->done(); }
  // Orders what follows behind the call: what is queued from now on, on the current stream of the
  // tensors' device, finds the result; on a device without queues the host waits for it. Throws
  // PeerFailure.
  void wait() const {
    if (pending_) pending_->wait();
  }

 private:
  std::shared_ptr<Pending> pending_;
};

// One call, as backends get it: checked, both tensors defined and contiguous (of a barrier none).
struct Call {
  // Which one it is, by the name of Communicator's method.
  enum class Kind : u8 { all_reduce, reduce_scatter, all_gather, broadcast, send, recv, barrier };
  Kind kind = Kind::barrier;    // which one it is
  ReduceOp op = ReduceOp::sum;  // of all_reduce and reduce_scatter
  bool waited = false;          // the caller does nothing else until it has ended
  int peer = -1;                // the root, or the other side of send and recv
  Tensor in, out;               // the same tensor where a collective works in place
  i64 number = 0;               // of this communicator, from 0
  FrameId frame = 0;            // the user's line
};
// The call's name: "all_reduce".
WT_API const char* to_string(Call::Kind k);

// One rank of a world, and the calls by which it exchanges tensors with the others. They throw
// PeerFailure, UsageError (an undefined or not contiguous tensor, no such rank), PlacementError (a
// device that takes() refuses), InplaceError (writing to what requires grad), DtypeError (no such
// reduction; `in` and `out` differ in dtype or device) and ShapeError (parts that do not fit).
class WT_API Communicator {
 public:
  virtual ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // This rank's number, in [0, size()).
  int rank() const { return rank_; }
  // The number of ranks.
  int size() const { return size_; }
  // The backend's name: "local", "mpi", "tcp" or "nccl".
  virtual const char* backend() const = 0;
  // Whether tensors of this device can be sent.
  virtual bool takes(Device d) const = 0;
  // The same ranks for tensors of the cpu; itself where it takes those. What the host has to agree
  // on goes through it, beside the device's work.
  virtual Communicator& control() = 0;

  // Reduces `t` over all ranks, in place: every rank gets the result.
  void all_reduce(const Tensor& t, ReduceOp op = ReduceOp::sum, Frame at = Frame::here());
  // `out` is part rank() of the reduction of `in`, which has size() times as many elements.
  void reduce_scatter(const Tensor& out, const Tensor& in, ReduceOp op = ReduceOp::sum,
                      Frame at = Frame::here());
  // `out` is the `in` of rank 0, then that of rank 1, ...; `in` may be its own part of `out`.
  void all_gather(const Tensor& out, const Tensor& in, Frame at = Frame::here());
  // `t` becomes what it is on rank `root`.
  void broadcast(const Tensor& t, int root = 0, Frame at = Frame::here());
  // Sends `t` to another rank, in the order of the calls between the two. It may return when the
  // tensor can be written again, before it was received.
  void send(const Tensor& t, int to, Frame at = Frame::here());
  // Overwrites `t` with what rank `from` sends, in the order of the calls between the two.
  void recv(const Tensor& t, int from, Frame at = Frame::here());
  // Returns when every rank has called it; on a device with queues the host waits for it too.
  void barrier(Frame at = Frame::here());

  // Begins all_reduce(), as those that follow begin theirs: they start after what is queued on the
  // current stream, and run beside what is queued there afterwards. Nobody writes the tensors
  // before wait() (nor reads what is being written). Those begun on one communicator run in their
  // order.
  Work start_all_reduce(const Tensor& t, ReduceOp op = ReduceOp::sum, Frame at = Frame::here());
  // Begins reduce_scatter().
  Work start_reduce_scatter(const Tensor& out, const Tensor& in, ReduceOp op = ReduceOp::sum,
                            Frame at = Frame::here());
  // Begins all_gather().
  Work start_all_gather(const Tensor& out, const Tensor& in, Frame at = Frame::here());
  // Begins broadcast().
  Work start_broadcast(const Tensor& t, int root = 0, Frame at = Frame::here());
  // Begins send().
  Work start_send(const Tensor& t, int to, Frame at = Frame::here());
  // Begins recv().
  Work start_recv(const Tensor& t, int from, Frame at = Frame::here());

  // A communicator of those ranks that give the same color: in the order of their keys, of equal
  // ones in that of rank(). Null for a color below 0. (MPI_Comm_split, ncclCommSplit; PyTorch's
  // new_group.) A grid of 2 replicas with 2 pipeline stages each:
  //
  //   auto stages = world.split(world.rank() / 2), replicas = world.split(world.rank() % 2);
  //
  // Every rank calls it. The group has this one's deadline, sends the same tensors and ends before
  // this one does; failures in it name its own ranks, and abort() here reaches it. No rank waits in
  // calls of two communicators at once, so those of one group come in any order beside others'.
  // Throws NotAvailable where the backend has no groups.
  std::unique_ptr<Communicator> split(int color, int key = 0, Frame at = Frame::here());

  // How long a rank waits for the others in one call; 120 s where nothing else was said.
  std::chrono::milliseconds deadline() const { return deadline_; }
  // Sets how long a rank waits in the calls from now on. Throws UsageError for less than 1 ms.
  void set_deadline(std::chrono::milliseconds d);
  // Notes the step this rank is at: what other ranks' failures tell of it.
  virtual void at_step(i64 step) = 0;
  // Gives up: the calls of all ranks, under way or to come, throw PeerFailure with this reason,
  // which names this rank. Any thread may call it.
  virtual void abort(const std::string& reason) noexcept = 0;
  // Whether a failure has been seen, which the next call throws. Any thread may ask. False where
  // the backend finds out by calls alone.
  virtual bool failed() const noexcept { return false; }

  // Whether its calls can be nodes of a graph (core/graph.h). Begun and waited for inside of it,
  // each replay does them again. All ranks capture the same calls, and replay alike.
  virtual bool captures() const { return false; }
  // Calls launch(), which replays a graph with calls of this communicator, on the current stream:
  // what the device then does late counts against deadline(), from its turn to its end.
  virtual void replay(const std::function<void()>& launch) { launch(); }

  // The backend's side: begins a call that was checked. Throws PeerFailure if one has been seen,
  // DeviceError.
  virtual Work start(const Call& call) = 0;

  // Some ranks of a communicator, in their new order. This one is members[place].
  struct Group {
    std::vector<int> members;  // their ranks in the communicator
    int place;                 // this rank's number in the group
    i64 number;                // of this split() among all of the communicator
    int color;                 // what its ranks gave, 0 or more
  };
  // The backend's side of split(): every member calls it. Throws NotAvailable where there is none.
  virtual std::unique_ptr<Communicator> make_group(const Group& group);

 protected:
  Communicator(int rank, int size) : rank_(rank), size_(size) {}

 private:
  Work begin(Call call, const char* name, Frame at);
  void run(Call call, const char* name, Frame at);

  int rank_, size_;
  i64 calls_ = 0, splits_ = 0;
  std::chrono::milliseconds deadline_ = std::chrono::seconds(120);
};

}  // namespace wt::dist
