#include "warptape/dist/process/collectives.h"

#include <algorithm>
#include <cstring>

#include "warptape/core/str.h"
#include "warptape/core/tensor_impl.h"
#include "warptape/dist/combine.h"

namespace wt::dist {

namespace {

using Kind = Call::Kind;

constexpr i64 kTreeBytes = 64 << 10;

char* memory_of(const Tensor& t) { return static_cast<char*>(t.impl()->data); }

i64 bytes_of_call(const Tensor& t) { return t.numel() * item_size(t.dtype()); }

void copy(void* to, const void* from, i64 bytes) {
  if (bytes && to != from) std::memmove(to, from, size_t(bytes));
}

bool reduces(Kind k) { return k == Kind::all_reduce || k == Kind::reduce_scatter; }

bool same_call(const CallBlock& a, const CallBlock& b) {
  return a.kind == b.kind && a.op == b.op && a.dtype == b.dtype && a.root == b.root &&
         a.count == b.count && a.number == b.number;
}

}  // namespace

std::string describe_block(const CallBlock& b) {
  const Kind kind = Kind(b.kind);
  std::string text = to_string(kind);
  if (kind == Kind::barrier) return text;
  if (reduces(kind)) text += str(" (", to_string(ReduceOp(b.op)), ")");
  text += str(" of ", b.count, " ", dtype_name(DType(b.dtype)));
  if (kind == Kind::broadcast) text += str(" from rank ", b.root);
  return text;
}

CallBlock block_of(const Call& c, i64 number, i64 step) {
  CallBlock b;
  b.kind = u8(c.kind);
  b.op = reduces(c.kind) ? u8(c.op) : 0;
  b.root = c.peer;
  b.number = number;
  b.step = step;
  if (!c.in.defined()) return b;
  b.dtype = u8(c.in.dtype());
  b.count = c.in.numel();
  return b;
}

char* LinkCollectives::scratch(int which, i64 bytes) {
  std::vector<char>& s = scratch_[which];
  if (i64(s.size()) < bytes) s.resize(size_t(bytes));
  return s.data();
}

// Where the ranks' parts of `count` elements begin, and the end.
std::vector<i64> LinkCollectives::parts(i64 count) const {
  const int n = link_.size();
  std::vector<i64> begins;
  for (int r = 0; r <= n; ++r) begins.push_back(count / n * r + std::min<i64>(r, count % n));
  return begins;
}

// The call that fewer ranks make is the wrong one; of two, that of the higher rank.
LinkCollectives::Mismatch LinkCollectives::compare() const {
  const auto alike = [&](const CallBlock& b) {
    return std::count_if(blocks_.begin(), blocks_.end(),
                         [&](const CallBlock& o) { return same_call(b, o); });
  };
  const auto usual =
      std::max_element(blocks_.begin(), blocks_.end(),
                       [&](const CallBlock& a, const CallBlock& b) { return alike(a) < alike(b); });
  for (const CallBlock& b : blocks_)
    if (!same_call(b, *usual))
      return {int(&b - blocks_.data()), b.step,
              str("called ", describe_block(b), " where rank ", usual - blocks_.begin(), " called ",
                  describe_block(*usual),
                  usual->step < 0 ? std::string() : str(" at step ", usual->step))};
  return {};
}

LinkCollectives::Mismatch LinkCollectives::run(const Call& c, i64 number, i64 step) {
  CallBlock mine = block_of(c, number, step);
  const i64 bytes = c.in.defined() ? bytes_of_call(c.in) : 0;
  if (bytes && bytes <= CallBlock::kRoom) std::memcpy(mine.data, memory_of(c.in), size_t(bytes));
  if (link_.size() > 1)
    link_.gather(&mine, blocks_.data(), int(sizeof mine));
  else
    blocks_[0] = mine;
  // Comparing all with the first finds whether there is something to find.
  for (const CallBlock& b : blocks_)
    if (!same_call(b, blocks_[0])) return compare();
  if (!bytes) return {};
  if (bytes <= CallBlock::kRoom)
    run_inline(c);
  else if (link_.size() == 1)
    copy(memory_of(c.out), memory_of(c.in), bytes);
  else
    run_large(c);
  return {};
}

// All data has come with the blocks.
void LinkCollectives::run_inline(const Call& c) {
  const DType t = c.in.dtype();
  const i64 bytes = bytes_of_call(c.in);
  char* const out = memory_of(c.out);
  if (c.kind == Kind::broadcast) return copy(out, blocks_[size_t(c.peer)].data, bytes);
  if (c.kind == Kind::all_gather) {
    for (const CallBlock& b : blocks_) copy(out + (&b - blocks_.data()) * bytes, b.data, bytes);
    return;
  }
  alignas(64) char sum[2 * CallBlock::kRoom];
  widen(t, sum, blocks_[0].data, c.in.numel());
  for (size_t r = 1; r < blocks_.size(); ++r)
    combine_own(c.op, t, sum, sum, blocks_[r].data, c.in.numel());
  const i64 skip = c.kind == Kind::reduce_scatter ? c.out.numel() * link_.rank() : 0;
  finish(c.op, t, out, sum + skip * item_size(wire_dtype(t)), c.out.numel(), link_.size());
}

void LinkCollectives::run_large(const Call& c) {
  const i64 bytes = bytes_of_call(c.in), item = item_size(c.in.dtype());
  char* const out = memory_of(c.out);
  const int rank = link_.rank();
  if (c.kind == Kind::broadcast) return broadcast(out, bytes, c.peer);
  std::vector<i64> begins;
  if (c.kind == Kind::all_gather) {
    copy(out + rank * bytes, memory_of(c.in), bytes);
    for (int r = 0; r <= link_.size(); ++r) begins.push_back(r * bytes);
    return ring_gather(out, begins);
  }
  if (c.kind == Kind::all_reduce &&
      c.in.numel() * item_size(wire_dtype(c.in.dtype())) <= kTreeBytes)
    return tree_all_reduce(c);
  ring_reduce(c);
  if (c.kind == Kind::reduce_scatter) return;
  begins = parts(c.in.numel());
  for (i64& b : begins) b *= item;
  ring_gather(out, begins);
}

// Rank r gets part r of the reduction: what rank r + 1 begins with goes round and comes to r last.
void LinkCollectives::ring_reduce(const Call& c) {
  const DType t = c.in.dtype();
  const int n = link_.size(), rank = link_.rank();
  const int next = (rank + 1) % n, before = (rank + n - 1) % n;
  const std::vector<i64> begins = parts(c.in.numel());
  const i64 item = item_size(t), wire = item_size(wire_dtype(t));
  const auto begin = [&](int r) { return begins[size_t((r + 2 * n) % n)]; };
  const auto count = [&](int r) {
    return begins[size_t((r + 2 * n) % n) + 1] - begins[size_t((r + 2 * n) % n)];
  };
  const char* const in = memory_of(c.in);
  const i64 largest = (begins[1] - begins[0]) * wire;
  char* to_send = scratch(0, largest);
  char* to_fill = scratch(1, largest);
  // Partial results have the tensor's own form, but of halves, and of bools that must be 0 or 1.
  const bool own = !is_half(t) && t != DType::boolean;
  if (!own) widen(t, to_send, in + begin(rank - 1) * item, count(rank - 1));
  for (int s = 0; s < n - 1; ++s) {
    const int sent = rank - s - 1, got = rank - s - 2;
    const char* const out = s == 0 && own ? in + begin(sent) * item : to_send;
    link_.exchange(out, count(sent) * wire, next, to_fill, count(got) * wire, before,
                   [&](i64 at, i64 bytes) {
                     combine_own(c.op, t, to_fill + at, to_fill + at,
                                 in + (begin(got) + at / wire) * item, bytes / wire);
                   });
    std::swap(to_send, to_fill);
  }
  char* const out = memory_of(c.out) + (c.kind == Kind::all_reduce ? begin(rank) * item : 0);
  finish(c.op, t, out, to_send, count(rank), n);
}

// Part r of `all` is on rank r, and comes to all others.
void LinkCollectives::ring_gather(char* all, const std::vector<i64>& begins) {
  const int n = link_.size(), rank = link_.rank();
  const auto size = [&](int r) { return begins[size_t(r) + 1] - begins[size_t(r)]; };
  for (int s = 0; s < n - 1; ++s) {
    const int sent = (rank - s + n) % n, got = (rank - s - 1 + n) % n;
    link_.exchange(all + begins[size_t(sent)], size(sent), (rank + 1) % n,
                   all + begins[size_t(got)], size(got), (rank + n - 1) % n);
  }
}

// A rank takes its children's partial results in the order of their distance.
void LinkCollectives::tree_all_reduce(const Call& c) {
  const DType t = c.in.dtype();
  const int n = link_.size(), rank = link_.rank();
  const i64 count = c.in.numel(), wire = count * item_size(wire_dtype(t));
  char* const sum = scratch(0, wire);
  char* const theirs = scratch(1, wire);
  widen(t, sum, memory_of(c.in), count);
  for (int distance = 1; distance < n; distance *= 2) {
    if (rank & distance) {
      link_.exchange(sum, wire, rank - distance, nullptr, 0, 0);
      break;
    }
    if (rank + distance >= n) continue;
    link_.exchange(nullptr, 0, 0, theirs, wire, rank + distance);
    combine(c.op, t, sum, sum, theirs, count);
  }
  if (rank == 0) finish(c.op, t, memory_of(c.out), sum, count, n);
  broadcast(memory_of(c.out), bytes_of_call(c.out), 0);
}

void LinkCollectives::broadcast(char* data, i64 bytes, int root) {
  const int n = link_.size(), place = (link_.rank() - root + n) % n;
  int parent = -1, distance = 1;
  for (; distance < n && parent < 0; distance *= 2)
    if (place & distance) parent = (place - distance + root) % n;
  if (parent >= 0) distance /= 2;
  std::vector<int> children;
  for (distance /= 2; distance > 0; distance /= 2)
    if (place + distance < n) children.push_back((place + distance + root) % n);
  link_.relay(data, bytes, parent, children);
}

}  // namespace wt::dist
