// The algorithms, as one rank sees them. n ranks; ring neighbours are rank - 1 and rank + 1.
//
// Ring.  Part p of the tensor starts at rank p + 1 and goes once round: every rank adds its own
//        elements and hands it on; rank p gets it last, with all of them in it. (reduce_scatter)
//        Then the finished parts go round once more. (all_gather)
// Tree.  Rank 1 gives to 0, 3 to 2, 5 to 4, ...; then 2 to 0, 6 to 4, ...; 4 to 0. Rank 0 has the
//        sum and it goes back the same way.
// Chain. Rank 0 gives to 1, which adds and gives to 2, ...; the last one has the sum, and it goes
//        back from rank to rank.
//
// Everything moves in chunks: while a rank adds one, the next is on its way. Partial results are of
// wire_dtype(); each is finished (divided, rounded) by one rank and copied from there, so that all
// ranks end with the same bits. send() never waits, so the order of sends and receives in one rank
// cannot block another.
#include "warptape/dist/local/local_algorithms.h"

#include <algorithm>
#include <cstring>

#include "warptape/core/tensor_impl.h"
#include "warptape/dist/combine.h"
#include "warptape/dist/local/local_small.h"

namespace wt::dist::local {

namespace {

using Kind = Call::Kind;

constexpr i64 kChunkBytes = i64{256} << 10;

char* bytes_of(const Tensor& t) { return static_cast<char*>(t.impl()->data); }

// A range of elements.
struct Range {
  i64 begin, count;
};

class Exchange {
 public:
  Exchange(World& w, int rank, const Call& c, std::vector<std::byte>& scratch)
      : world_(w), call_(c), scratch_(scratch), rank_(rank), size_(w.size()) {}

  void all_reduce();
  void reduce_scatter();
  void all_gather();
  void broadcast();

 private:
  Algorithm algorithm(i64 bytes) const;
  // --- messages ---
  int around(int r) const { return (r % size_ + size_) % size_; }
  void send(int to, const char* data, i64 count, i64 item) {
    world_.send(rank_, to, data, count * item);
  }
  // f(chunk) while it is the sender's.
  template <class F>
  void receive(int from, F&& f) {
    f(static_cast<const char*>(world_.receive(from, rank_)));
    world_.took(from, rank_);
  }
  void receive_into(int from, char* to, i64 bytes) {
    receive(from, [&](const char* data) { std::memcpy(to, data, size_t(bytes)); });
  }
  // Calls f(range) for the chunks of a range.
  template <class F>
  void chunks(Range all, F&& f) const {
    const i64 most = kChunkBytes / wire_;
    for (i64 i = 0; i < all.count; i += most)
      f(Range{all.begin + i, std::min(most, all.count - i)});
  }
  // --- reductions ---
  // Where this rank's partial results lie: in the result itself where that has room and dtype.
  void make_partials();
  char* partial(i64 i) const { return partials_ + i * wire_; }
  const char* own(i64 i) const { return bytes_of(call_.in) + i * item_; }
  char* result(i64 i) const { return bytes_of(call_.out) + i * item_; }
  void send_own(int to, Range c);
  template <class F>
  void reduce(Range c, F&& f);  // f(), which adds up a chunk, into the timeline
  void add_own(Range c, const char* theirs);
  void add_theirs(Range c, const char* theirs);
  void finish_chunk(Range c, char* to) {
    finish(call_.op, dtype_, to, partial(c.begin), c.count, size_);
  }
  void ring_reduce();   // part r of the partials of rank r is complete
  void tree_reduce();   // those of rank 0 are
  void chain_reduce();  // those of the last rank are
  void hand_out(int root);
  // --- copies ---
  Range part(int r) const {
    const i64 begin = count_ * r / size_;
    return {begin, count_ * (r + 1) / size_ - begin};
  }
  void ring_gather();
  void all_to_all();
  void tree_broadcast(int root);
  void chain_broadcast(int root, int step);

  World& world_;
  const Call& call_;
  std::vector<std::byte>& scratch_;
  const int rank_, size_;
  const DType dtype_ = call_.in.dtype();
  const i64 item_ = item_size(dtype_), wire_ = item_size(wire_dtype(dtype_));
  // Of the tensor that all parts make up.
  const i64 count_ = std::max(call_.in.numel(), call_.out.numel());
  char* partials_ = nullptr;
  i64 reductions_ = 0;
};

// The same on all ranks: they have the same sizes.
Algorithm Exchange::algorithm(i64 bytes) const {
  const Algorithm a = world_.options().algorithm;
  if (a != Algorithm::automatic) return a;
  // Of two ranks a ring sends half of the bytes each way at once: for links, not for memory, where
  // it is two messages more.
  const bool in_memory = world_.options().bandwidth == 0;
  return bytes <= kTreeBytes || (size_ == 2 && in_memory) ? Algorithm::tree : Algorithm::ring;
}

// --- reductions ---
void Exchange::make_partials() {
  if (call_.kind == Kind::all_reduce && wire_ == item_) {
    partials_ = bytes_of(call_.out);
    return;
  }
  if (i64(scratch_.size()) < count_ * wire_) scratch_.resize(size_t(count_ * wire_));
  partials_ = reinterpret_cast<char*>(scratch_.data());
}

// The first partial result: what this rank has.
void Exchange::send_own(int to, Range c) {
  if (wire_ == item_ && dtype_ != DType::boolean) return send(to, own(c.begin), c.count, item_);
  widen(dtype_, partial(c.begin), own(c.begin), c.count);
  send(to, partial(c.begin), c.count, wire_);
}

template <class F>
void Exchange::reduce(Range c, F&& f) {
  Timeline* const t = world_.options().timeline.get();
  if (!t) return f();
  const Clock::time_point begin = Clock::now();
  f();
  t->add({.what = TimelineEvent::What::reduce,
          .kind = call_.kind,
          .rank = rank_,
          .call = call_.number,
          .chunk = reductions_++,
          .bytes = c.count * wire_},
         begin, Clock::now());
}

// What came so far, then what this rank has.
void Exchange::add_own(Range c, const char* theirs) {
  reduce(c,
         [&] { combine_own(call_.op, dtype_, partial(c.begin), theirs, own(c.begin), c.count); });
}
// What this rank has so far, then what came.
void Exchange::add_theirs(Range c, const char* theirs) {
  reduce(c,
         [&] { combine(call_.op, dtype_, partial(c.begin), partial(c.begin), theirs, c.count); });
}

void Exchange::ring_reduce() {
  const int left = around(rank_ - 1), right = around(rank_ + 1);
  chunks(part(left), [&](Range c) { send_own(right, c); });
  for (int step = 2; step <= size_; ++step)  // the part that has come step - 1 ranks far
    chunks(part(around(rank_ - step)), [&](Range c) {
      receive(left, [&](const char* theirs) { add_own(c, theirs); });
      if (step < size_) send(right, partial(c.begin), c.count, wire_);
    });
}

// Rank r adds up ranks r to r + span - 1, the lower half first.
void Exchange::tree_reduce() {
  chunks({0, count_}, [&](Range c) {
    bool mine = true;  // nothing was added to what this rank has
    for (int bit = 1; bit < size_; bit <<= 1) {
      if (rank_ & bit) {
        if (mine)
          send_own(rank_ - bit, c);
        else
          send(rank_ - bit, partial(c.begin), c.count, wire_);
        return;
      }
      if (rank_ + bit >= size_) continue;
      if (mine) widen(dtype_, partial(c.begin), own(c.begin), c.count);
      mine = false;
      receive(rank_ + bit, [&](const char* theirs) { add_theirs(c, theirs); });
    }
  });
}

void Exchange::chain_reduce() {
  chunks({0, count_}, [&](Range c) {
    if (rank_ == 0) return send_own(1, c);
    receive(rank_ - 1, [&](const char* theirs) { add_own(c, theirs); });
    if (rank_ + 1 < size_) send(rank_ + 1, partial(c.begin), c.count, wire_);
  });
}

void Exchange::all_reduce() {
  const Algorithm a = algorithm(count_ * item_);
  make_partials();
  if (a == Algorithm::ring) {
    ring_reduce();
    const Range mine = part(rank_);
    finish_chunk(mine, result(mine.begin));
    return ring_gather();
  }
  const int root = a == Algorithm::tree ? 0 : size_ - 1;
  a == Algorithm::tree ? tree_reduce() : chain_reduce();
  if (rank_ == root) finish_chunk({0, count_}, result(0));
  a == Algorithm::tree ? tree_broadcast(root) : chain_broadcast(root, -1);
}

// Each rank its part of what `root` has.
void Exchange::hand_out(int root) {
  const Range mine = part(rank_);
  if (rank_ != root) {
    i64 done = 0;
    chunks(mine, [&](Range c) {
      receive(root, [&](const char* data) {
        finish(call_.op, dtype_, result(done), data, c.count, size_);
      });
      done += c.count;
    });
    return;
  }
  for (int r = 0; r < size_; ++r)
    if (r != root) chunks(part(r), [&](Range c) { send(r, partial(c.begin), c.count, wire_); });
  finish_chunk(mine, result(0));
}

void Exchange::reduce_scatter() {
  const Algorithm a = algorithm(count_ * item_);
  make_partials();
  if (a == Algorithm::ring) {
    ring_reduce();
    finish_chunk(part(rank_), result(0));
  } else {
    a == Algorithm::tree ? tree_reduce() : chain_reduce();
    hand_out(a == Algorithm::tree ? 0 : size_ - 1);
  }
}

// --- copies ---
// Part r of the result of rank r is there; each goes round once.
void Exchange::ring_gather() {
  const int left = around(rank_ - 1), right = around(rank_ + 1);
  chunks(part(rank_), [&](Range c) { send(right, result(c.begin), c.count, item_); });
  for (int step = 1; step < size_; ++step)
    chunks(part(around(rank_ - step)), [&](Range c) {
      receive_into(left, result(c.begin), c.count * item_);
      if (step + 1 < size_) send(right, result(c.begin), c.count, item_);
    });
}

// Each part straight to every rank: one message's latency, n - 1 times the bytes out of each.
void Exchange::all_to_all() {
  for (int step = 1; step < size_; ++step)
    chunks(part(rank_),
           [&](Range c) { send(around(rank_ + step), result(c.begin), c.count, item_); });
  for (int step = 1; step < size_; ++step)
    chunks(part(around(rank_ - step)),
           [&](Range c) { receive_into(around(rank_ - step), result(c.begin), c.count * item_); });
}

void Exchange::all_gather() {
  const Range mine = part(rank_);
  if (mine.count && result(mine.begin) != own(0))
    std::memmove(result(mine.begin), own(0), size_t(mine.count * item_));
  algorithm(count_ * item_) == Algorithm::tree ? all_to_all() : ring_gather();
}

// A rank gets it from the one without its lowest bit, counted from the root, and gives it to those
// with one bit more below that.
void Exchange::tree_broadcast(int root) {
  const int me = around(rank_ - root);
  chunks({0, count_}, [&](Range c) {
    int bit = 1;
    while (bit < size_ && !(me & bit)) bit <<= 1;
    if (me != 0) receive_into(around(root + me - bit), result(c.begin), c.count * item_);
    for (bit >>= 1; bit > 0; bit >>= 1)
      if (me + bit < size_) send(around(root + me + bit), result(c.begin), c.count, item_);
  });
}

// From the root to its neighbour in direction `step`, and on, until all have it.
void Exchange::chain_broadcast(int root, int step) {
  const bool last = around(rank_ + step) == root;
  chunks({0, count_}, [&](Range c) {
    if (rank_ != root) receive_into(around(rank_ - step), result(c.begin), c.count * item_);
    if (!last) send(around(rank_ + step), result(c.begin), c.count, item_);
  });
}

void Exchange::broadcast() {
  if (algorithm(count_ * item_) == Algorithm::tree)
    tree_broadcast(call_.peer);
  else
    chain_broadcast(call_.peer, 1);
}

}  // namespace

void carry_out(World& world, int rank, const Call& call, std::vector<std::byte>& scratch) {
  if (call.kind == Kind::barrier) return;
  Exchange exchange(world, rank, call, scratch);
  if (call.kind == Kind::all_reduce) return exchange.all_reduce();
  if (call.kind == Kind::reduce_scatter) return exchange.reduce_scatter();
  if (call.kind == Kind::all_gather) return exchange.all_gather();
  exchange.broadcast();
}

}  // namespace wt::dist::local
