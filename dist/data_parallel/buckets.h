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
    // Buckets are the ranges of the shards, and each rank gets the sums of its pieces alone. Null:
    // all the sums. Where the gradients are in parts, a bucket has memory of its own from the first
    // gradient until it is reduced (buckets_parts.cpp).
    const ZeroShards* shards = nullptr;
  };
  Buckets(Communicator& comm, const Options& options) : comm_(comm), options_(options) {}
  ~Buckets() { let_go(); }
  Buckets(const Buckets&) = delete;
  Buckets& operator=(const Buckets&) = delete;

  // Follows arenas that moved, and puts the hooks where they are missing. Throws UsageError for a
  // leaf that somebody else listens to.
  void follow(optim::detail::Arenas& arenas);
  bool in_parts() const { return options_.shards && options_.shards->parts_gradients(); }
  // From here on a bucket is begun when its last gradient has arrived and its turn has come. Of
  // gradients in parts each backward is armed; `adds`: to what was summed since the ranks last
  // agreed on what they have reached.
  void arm(ReduceOp op, bool adds = false);
  void disarm() noexcept { armed_ = false; }
  bool armed() const { return armed_; }
  // Begins what has not been begun, in the order of all ranks; unreached gradients are zero.
  void begin_rest();
  // What another rank's backward is answered with that this one has none for: gradients in parts.
  void add_nothing();
  // What is queued from here on finds the sums.
  void wait();
  // Memory that was lent for a backward which is not finished: of gradients in parts.
  void drop() noexcept;
  // Every rank's order is from here on the one in which buckets became complete on rank 0.
  void learn_order();

  // f(bucket's gradients as one flat tensor), in order; of those in parts what is kept here.
  template <class F>
  void for_each(F&& f) {
    for (const size_t k : order_) f(in_parts() ? buckets_[k].kept : buckets_[k].grad);
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
    Tensor kept{};           // what this rank keeps of the sums, in grad or beside it
    bool adds = false;       // to `kept`, which lies beside grad
    size_t arrived = 0;      // gradients that this backward has finished
    bool begun = false;      // since arm()
    bool elsewhere = false;  // its gradients were queued on several streams
    StreamState* stream = nullptr;
    Work work{};
  };
  struct Seat {
    Buckets* owner = nullptr;
    size_t bucket = 0, slot = 0;
    bool arrived = false;
  };
  void cut(const optim::detail::Arenas& arenas);
  void add_bucket(size_t arena, const optim::Sharding::Range& r);
  void make_views();
  void listen(Seat& seat, const optim::detail::Slot& slot);
  void let_go() noexcept;
  static void ready(Leaf* l, void* seat);
  static void provide(Leaf* l, void* seat);
  void lend(const Seat& seat);
  void make_room(Bucket& b);
  void take_back(const Bucket& b) noexcept;
  void begin_sums(Bucket& b);
  void keep_sums(Bucket& b);
  bool keep_written(const Bucket& b);
  void compress(Bucket& b);
  void finish_oldest();
  [[noreturn]] void throw_twice(const Seat& seat) const;
  void arrived(Seat& seat, const Leaf* l);
  void begin_complete();
  Work reduce(const Tensor& t);
  void begin(Bucket& b);
  void finish(Bucket& b);
  double compress_factor() const;

  Communicator& comm_;
  Options options_;
  optim::detail::Arenas* arenas_ = nullptr;
  u64 generation_ = 0;
  std::vector<Bucket> buckets_;
  std::vector<Seat> seats_;       // a slot each; their addresses are the hooks' context
  std::vector<size_t> order_;     // of beginning
  std::vector<size_t> complete_;  // since arm(), in the order in which they became so
  size_t next_ = 0;               // in order_: to be begun
  size_t finished_ = 0;           // in order_, of gradients in parts: up to here they are reduced
  i64 early_ = 0;
  bool armed_ = false;
  ReduceOp op_ = ReduceOp::sum;
};

}  // namespace wt::dist::detail
