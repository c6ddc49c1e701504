// cp.async: copies that happen as late as they may, when their thread waits for them. Until then
// their bytes of shared memory are 0xff (NaN), so that who reads them too early, or still reads
// what was there before, does not get a right value by luck. In random order a wait also brings
// some of the copies that it does not wait for, and all of them in a shuffled order: a GPU may.
#include "warptape/kernels/simt/async_copy.h"

#include <cstring>
#include <utility>

#include "warptape/kernels/simt/scheduler.h"

namespace wt {
namespace simt_runtime {
namespace {

void check_copy(Exec& x, const char* to, const char* from, int bytes, int source_bytes, Loc here) {
  const char* problem = nullptr;
  if (source_bytes < 0 || source_bytes > bytes)
    problem = "wants more bytes from the source than it copies, or less than none";
  else if (reinterpret_cast<uintptr_t>(from) % unsigned(bytes))
    problem = "has a source that is misaligned";
  else if (reinterpret_cast<uintptr_t>(to) % unsigned(bytes))
    problem = "has a destination that is misaligned";
  if (problem)
    WT_FAIL(x, "cp_async at %s %s: copies %d bytes (%d from the source) from %p to %p (%s)",
            at(here).c_str(), problem, bytes, source_bytes, from, to,
            thread_text(x, x.cur).c_str());
  bool inside = false;
  for (const SharedArray& a : x.arrays) inside |= to >= a.data && to + bytes <= a.data + a.bytes;
  if (!inside)
    WT_FAIL(x, "cp_async at %s: its destination is not in a shared array (%s)", at(here).c_str(),
            thread_text(x, x.cur).c_str());
  AsyncCopies& copies = x.copies;
  // A copy of nothing is zeros: its source may be anywhere.
  if (source_bytes && !(from >= copies.live_begin && from + source_bytes <= copies.live_end) &&
      !device_block(from, size_t(source_bytes), &copies.live_begin, &copies.live_end))
    WT_FAIL(x, "cp_async at %s: reads %d bytes outside live device memory (%s)", at(here).c_str(),
            source_bytes, thread_text(x, x.cur).c_str());
}

void land(AsyncCopy& c) {
  if (std::exchange(c.landed, true)) return;
  // Bounded by check_copy; the sizes are few, the host's compiler makes moves of them.
  char piece[16] = {};
  for (int i = 0; i < c.source_bytes; ++i) piece[i] = c.from[i];
  std::memcpy(c.to, piece, size_t(c.bytes));
}

}  // namespace

void begin_copies(Exec& x) {
  AsyncCopies& copies = x.copies;
  copies.used = false;
  copies.live_begin = copies.live_end = nullptr;
  for (ThreadCopies& t : copies.threads) {
    t.queue.clear();
    t.group = 0;
  }
}

}  // namespace simt_runtime

inline namespace simt {

using namespace simt_runtime;

WT_API void exec_cp_async(void* to, const void* from, int bytes, int source_bytes, Loc here) {
  Exec& x = exec();
  AsyncCopies& copies = x.copies;
  char* const p = static_cast<char*>(to);
  const char* const q = static_cast<const char*>(from);
  check_copy(x, p, q, bytes, source_bytes, here);
  copies.used = true;
  if (copies.threads.size() < x.n) copies.threads.resize(x.n);
  ThreadCopies& mine = copies.threads[x.cur];
  if (race_hooks) race_hooks->copy_begin(x.cur, p, size_t(bytes), q, size_t(source_bytes), here);
  std::memset(p, 0xff, size_t(bytes));
  mine.queue.push_back({p, q, bytes, source_bytes, mine.group, here, false});
}

WT_API void exec_cp_async_commit() {
  Exec& x = exec();
  if (x.copies.threads.size() < x.n) x.copies.threads.resize(x.n);
  x.copies.used = true;
  ++x.copies.threads[x.cur].group;
}

WT_API void exec_cp_async_wait(unsigned groups_left) {
  Exec& x = exec();
  if (!x.copies.used || x.copies.threads.size() < x.n) return;
  ThreadCopies& mine = x.copies.threads[x.cur];
  std::vector<AsyncCopy>& queue = mine.queue;
  // Groups below `done` have landed when the wait ends. Copies lie in the order of their groups.
  const unsigned done = mine.group > groups_left ? mine.group - groups_left : 0;
  size_t due = 0;
  while (due < queue.size() && queue[due].group < done) ++due;
  if (x.order == SimtOrder::random) {
    for (size_t i = due; i < queue.size(); ++i)
      if (next_random(x) >> 32 & 1) land(queue[i]);
    for (size_t i = due; i > 1; --i) std::swap(queue[i - 1], queue[(next_random(x) >> 16) % i]);
  }
  for (size_t i = 0; i < due; ++i) {
    AsyncCopy& c = queue[i];
    land(c);
    if (race_hooks)
      race_hooks->copy_end(x.cur, c.to, size_t(c.bytes), c.from, size_t(c.source_bytes), c.at);
  }
  queue.erase(queue.begin(), queue.begin() + std::ptrdiff_t(due));
}

}  // namespace simt
}  // namespace wt
