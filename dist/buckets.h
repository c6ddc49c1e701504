// Ranges of the gradient arenas that are reduced together, and when. Internal.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "warptape/autograd/node.h"
#include "warptape/dist/communicator.h"
#include "warptape/dist/zero.h"
#include "warptape/optim/arena.h"

namespace wt::dist::detail {

// All parameters of an optimizer. Hears of each gradient by Leaf::ready; a DataParallel's own, at
// one address.
class Buckets {
 public:
  struct Options {
    i64 bytes, first_bytes;
    DType compress;
    // Buckets are those of the shards, and each rank gets the sums of its pieces alone. Null: whole
    // parameters, and all the sums.
    const ZeroShards* shards = nullptr;
  };
  Buckets(Communicator& comm, const Options& options) : comm_(comm), options_(options) {}
  ~Buckets() { let_go(); }
  Buckets(const Buckets&) = delete;
  Buckets& operator=(const Buckets&) = delete;

  // Follows arenas that moved, and puts the hooks where they are missing. Throws UsageError for a
  // leaf that somebody else listens to.
  void follow(const optim::detail::Arenas& arenas);
  // From here on a bucket is begun when its last gradient has arrived and its turn has come.
  void arm(ReduceOp op);
  void disarm() noexcept { armed_ = false; }
  bool armed() const { return armed_; }
  // Begins what has not been begun, in the order of all ranks; unreached gradients are zero.
  void begin_rest();
  // What is queued from here on finds the sums.
  void wait();
  // Every rank's order is from here on the one in which buckets became complete on rank 0.
  void learn_order();

  // f(bucket's gradients as one flat tensor), in order.
  template <class F>
  void for_each(F&& f) {
    for (const size_t k : order_) f(buckets_[k].grad);
  }
  struct Range {
    const optim::detail::Arena* arena;
    size_t first_slot, n_slots;
    i64 bytes;
  };
  std::vector<Range> ranges() const;  // in order
  i64 launched_early() const { return early_; }

 private:
  struct Bucket {
    size_t arena, first_slot, n_slots;
    i64 begin, count;        // elements of the arena
    Tensor grad, half{};     // flat; `half` is what travels when compressed
    Tensor piece{};          // of grad, what this rank keeps; undefined: all
    size_t arrived = 0;      // gradients that this backward has finished
    bool begun = false;      // since arm()
    bool elsewhere = false;  // its gradients were queued on several streams
    StreamState* stream = nullptr;
    Work work{};
  };
  struct Seat {
    Buckets* owner = nullptr;
    size_t bucket = 0, n_buckets = 1, slot = 0;  // a shard's bucket may end inside a parameter
    bool arrived = false;
  };
  void cut(const optim::detail::Arenas& arenas);
  void cut_shards(const optim::detail::Arenas& arenas);
  void make_views();
  void listen(Seat& seat, const optim::detail::Slot& slot);
  void let_go() noexcept;
  static void ready(Leaf* l, void* seat);
  void arrived(Seat& seat, const Leaf* l);
  void begin_complete();
  Work reduce(const Tensor& t);
  void begin(Bucket& b);
  void finish(Bucket& b);
  double compress_factor() const;

  Communicator& comm_;
  Options options_;
  const optim::detail::Arenas* arenas_ = nullptr;
  u64 generation_ = 0;
  std::vector<Bucket> buckets_;
  std::vector<Seat> seats_;       // a slot each; their addresses are the hooks' context
  std::vector<size_t> order_;     // of beginning
  std::vector<size_t> complete_;  // since arm(), in the order in which they became so
  size_t next_ = 0;               // in order_
  i64 early_ = 0;
  bool armed_ = false;
  ReduceOp op_ = ReduceOp::sum;
};

}  // namespace wt::dist::detail
