// The race checker. race_runtime.cpp hands it every load and store of a kernel with address, size
// and code address. Two accesses of
// one word by different threads, at least one a plain write, race unless ordered by
//  - a __syncthreads between them (another epoch of the same block), or a new grid;
//  - a chain of __syncwarp that both lanes took part in (shuffles and votes do not order memory);
//  - for different blocks: __threadfence and an atomic after the first access, an atomic on the
//  same
//    address before the second (the "last block" pattern);
//  - an arrival at an mbarrier after the first access and a wait for that phase before the second.
// An asynchronous copy writes when it is asked for and again when its thread has waited for it;
// between the two no access of its bytes is ordered with it, of the same thread neither. A TMA load
// writes when it is asked for and again when it lands; the second write is no thread's, and ordered
// for those who have waited for its mbarrier's phase.
// Atomics do not race with each other. Also finds accesses outside live device memory.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "warptape/kernels/simt/access_counter.h"
#include "warptape/kernels/simt/race_clocks.h"
#include "warptape/kernels/simt/race_shadow.h"
#include "warptape/kernels/simt/scheduler.h"

namespace wt::simt_runtime {

Shadow::Shadow(const char* begin, size_t bytes) : begin_(begin), bytes_(bytes) {
  void* p = mmap(nullptr, bytes / 4 * sizeof(Word), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED)
    throw OutOfMemory("simt: no address space for the race checker's shadow memory");
  words_ = static_cast<Word*>(p);
}

void Shadow::clear() { madvise(words_, bytes_ / 4 * sizeof(Word), MADV_DONTNEED); }

namespace {

constexpr size_t kMaxReports = 8;
constexpr uint32_t kLastEpoch = 0xf0000000u, kLastSite = (1u << 20) - 1;

struct Site {
  const void* code = nullptr;  // or
  Loc loc{nullptr, 0};
};

struct Race {
  Access first, second;
  const char* space;
  dim3 first_block, second_block;
  bool under_way = false;  // the first is a copy that nobody has waited for
  unsigned threads;        // of a block
};

// An atomic after a fence: what the block did before it is visible to who reads the atomic.
struct Release {
  uint32_t block_epoch, epoch;
  uint16_t thread;
};
struct Acquired {
  Release release;
  uint32_t epoch;
  uint16_t thread;
};

struct Checker {
  uint32_t epoch = 1, grid_epoch = 1, block_epoch = 1, grid = 0;
  std::vector<std::pair<uint32_t, dim3>> blocks;  // first epoch of each block of the grid
  WarpClocks clocks[kWarps];
  MbarrierClocks by_barrier;
  Shadow global{arena_base(), kArenaBytes};
  std::map<const char*, Shadow> shared;  // one an OS thread
  Shadow* block_shared = nullptr;
  std::vector<History> parts;  // of this grid's divided words
  std::vector<Site> sites{Site{}};
  std::unordered_map<const void*, uint32_t> site_of_code;
  std::map<std::pair<const char*, unsigned>, uint32_t> site_of_loc;
  // What an instruction has to do with: its number, and the live block that it accessed last.
  struct Instruction {
    const void* code = nullptr;
    uint32_t site = 0;
    uint32_t grid = 0;  // in which the block was looked up
    const char *begin = nullptr, *end = nullptr;
  } cache[4096];
  std::vector<Race> races;
  std::set<std::tuple<uint32_t, uint32_t, Touch, Touch>> seen;
  bool fenced[kMaxThreads] = {};
  // Of each word of shared memory the copy that is under way to it, if its epoch is `block_epoch`
  // or later; made by the first copy.
  std::vector<Access> under_way;
  size_t copies_under_way = 0;
  std::unordered_map<const char*, std::vector<Release>> releases;
  std::vector<Acquired> acquired;  // by the running block

  Instruction& instruction(const void* code) {
    Instruction& c = cache[reinterpret_cast<uintptr_t>(code) >> 1 & 4095];
    if (c.code == code) [[likely]]
      return c;
    const auto [it, added] = site_of_code.emplace(code, uint32_t(sites.size()) & kLastSite);
    if (added) sites.push_back({code, {nullptr, 0}});
    c = {code, it->second, 0, nullptr, nullptr};
    return c;
  }
  uint32_t site(Loc at) {
    const auto [it, added] =
        site_of_loc.emplace(std::pair(at.file, at.line), uint32_t(sites.size()));
    if (added) sites.push_back({nullptr, at});
    return it->second;
  }

  bool released_to_us(const Access& a, unsigned me) const {
    for (const Acquired& q : acquired) {
      const Release& r = q.release;
      const bool same_block = a.epoch >= r.block_epoch && a.epoch <= r.epoch;
      const bool before = a.epoch < r.epoch || a.thread == r.thread;
      const bool after = epoch > q.epoch || me == q.thread;
      if (same_block && before && after) return true;
    }
    return false;
  }
  bool ordered(const Access& a, unsigned me, bool is_shared) const {
    if (a.epoch < grid_epoch) return true;
    if (a.epoch < block_epoch) return is_shared || released_to_us(a, me);
    if (a.epoch != epoch || a.thread == me) return true;
    if (a.thread / 32u == me / 32u && clocks[me / 32].seen[me % 32][a.thread % 32] >= a.clock)
      return true;
    return by_barrier.width &&
           by_barrier.known[size_t(me) * by_barrier.width + a.thread] >= a.clock;
  }

  dim3 block_of(uint32_t e) const {
    dim3 found(0, 0, 0);
    for (const auto& [first, block] : blocks)
      if (first <= e) found = block;
    return found;
  }
  void report(const Access& first, const Access& second, bool is_shared, bool under_way = false) {
    if (!seen.insert({first.site, second.site, first.touch, second.touch}).second) return;
    if (races.size() < kMaxReports)
      races.push_back({first, second, is_shared ? "shared" : "global", block_of(first.epoch),
                       blocks.back().second, under_way, exec().n});
  }

  Access* copy_words(const char* p) {
    return &under_way[size_t(p - block_shared->begin()) / sizeof(uint32_t)];
  }
  bool meets_copy(const char* p, size_t bytes, const Access& now) {
    for (const char* q = p; q < p + bytes; q += 4 - reinterpret_cast<uintptr_t>(q) % 4)
      if (const Access& copy = *copy_words(q); copy.epoch >= block_epoch) {
        report(copy, now, true, true);
        return true;
      }
    return false;
  }

  // Compares `now` with the history and adds it; true if a race was found.
  WT_FN bool touch(History& h, const Access& now, bool is_shared) {
    if (now.touch == Touch::read) return touch_by_read(h, now, is_shared);
    if (h.write.same_moment(now) && h.write.touch == now.touch) return false;
    return touch_by_write(h, now, is_shared);
  }
  // What this thread did before in the same moment has been compared with all that came since.
  WT_FN bool touch_by_read(History& h, const Access& now, bool is_shared) {
    if (h.read[0].same_moment(now) || h.read[1].same_moment(now)) return false;
    if (!ordered(h.write, now.thread, is_shared)) [[unlikely]] {
      report(h.write, now, is_shared);
      return true;
    }
    Access& first = h.read[0];
    const bool mine = first.thread == now.thread && first.epoch >= block_epoch;
    h.read[!(mine || ordered(first, now.thread, is_shared))] = now;
    return false;
  }
  bool touch_by_write(History& h, const Access& now, bool is_shared) {
    bool hit = false;
    for (const Access& a : {h.write, h.read[0], h.read[1]}) {
      const bool both_atomic = now.touch == Touch::atomic && a.touch == Touch::atomic;
      if (hit || both_atomic || ordered(a, now.thread, is_shared)) continue;
      report(a, now, is_shared);
      hit = true;
    }
    h.write = now;
    return hit;
  }

  History* divide(Word& w, bool by_bytes) {
    if (w.parts_grid != grid) {
      w.parts_grid = grid;
      w.parts = uint32_t(parts.size());
      w.by_bytes = 0;
      parts.insert(parts.end(), 4, w.all);
    }
    History* p = &parts[w.parts];
    if (by_bytes && !w.by_bytes) {
      w.by_bytes = 1;
      p[1] = p[0];
      p[3] = p[2];
    }
    return p;
  }
  WT_FN void touch_range(Shadow& shadow, const char* p, size_t bytes, const Access& now,
                         bool is_shared) {
    Word& only = shadow.word(p);
    if (bytes == 4 && reinterpret_cast<uintptr_t>(p) % 4 == 0 && only.parts_grid != grid) [[likely]]
      touch(only.all, now, is_shared);
    else
      touch_words(shadow, p, bytes, now, is_shared);
  }
  void touch_words(Shadow& shadow, const char* p, size_t bytes, const Access& now, bool is_shared) {
    bool hit = false;
    for (const char* end = p + bytes; p < end && !hit;) {
      const size_t in_word = reinterpret_cast<uintptr_t>(p) % 4;
      const size_t n = size_t(end - p) < 4 - in_word ? size_t(end - p) : 4 - in_word;
      Word& w = shadow.word(p - in_word);
      if (n == 4 && w.parts_grid != grid) {
        hit = touch(w.all, now, is_shared);
      } else {
        History* part = divide(w, (in_word | n) % 2 != 0);
        const size_t step = w.by_bytes ? 1 : 2;
        for (size_t i = in_word; i < in_word + n && !hit; i += step)
          hit = touch(part[i], now, is_shared);
      }
      p += n;
    }
  }

  void synchronise(const char* p, unsigned me) {
    if (fenced[me]) releases[p].push_back({block_epoch, epoch, uint16_t(me)});
    if (auto it = releases.find(p); it != releases.end())
      for (const Release& r : it->second)
        if (r.block_epoch != block_epoch) acquired.push_back({r, epoch, uint16_t(me)});
  }

  WT_FN void access(unsigned me, const char* p, size_t bytes, Touch kind, Instruction& from,
                    Loc at = {nullptr, 0}) {
    if (counting && (block_shared->holds(p) || global.holds(p))) [[unlikely]]
      count_access(me, p, bytes, kind, block_shared->holds(p), {from.code, at});
    const Access now{epoch, me, kind, from.site, clocks[me / 32].own[me % 32]};
    if (block_shared->holds(p)) {
      if (copies_under_way && meets_copy(p, bytes, now)) [[unlikely]]
        return;
      if (kind != Touch::read && exec().units) check_tile(me, p, bytes, now);
      return touch_range(*block_shared, p, bytes, now, true);
    }
    if (!global.holds(p)) {  // a thread's own stack, constants
      if (exec().units) check_register(me, p, now);
      return;
    }
    if (from.grid != grid || p < from.begin || p + bytes > from.end) [[unlikely]]
      find_block(p, bytes, now, from);
    if (kind == Touch::atomic && (fenced[me] || !releases.empty())) synchronise(p, me);
    touch_range(global, p, bytes, now, false);
  }
  void find_block(const char* p, size_t bytes, const Access& now, Instruction& from);
  void check_register(unsigned me, const char* p, const Access& now);
  void check_tile(unsigned me, const char* p, size_t bytes, const Access& now);
};

__thread bool in_block = false;
Checker* the_checker = nullptr;  // never destroyed
Checker& checker() { return *the_checker; }

std::string place(const Site& s) {
  return s.code ? source_line(static_cast<const char*>(s.code) - 1) : at(s.loc);
}
const char* verb(Touch t) {
  static const char* const verbs[] = {"read", "write", "atomic", "asynchronous copy"};
  return verbs[unsigned(t)];
}

void Checker::find_block(const char* p, size_t bytes, const Access& now, Instruction& from) {
  from.grid = grid;
  if (device_block(p, bytes, &from.begin, &from.end)) return;
  from.grid = 0;
  Exec& x = exec();
  WT_FAIL(x, "%s of %zu bytes outside live device memory at %s by %s",
          now.touch == Touch::read ? "read" : "write", bytes, place(sites[now.site]).c_str(),
          thread_text(x, x.cur).c_str());
}

void Checker::check_register(unsigned me, const char* p, const Access& now) {
  Exec& x = exec();
  if (const Loc* asked = wgmma_of_register(x, me, p))
    WT_FAIL(x, "%s at %s of an accumulator of the wgmma at %s, which has not been waited for (%s)",
            now.touch == Touch::read ? "read" : "write", place(sites[now.site]).c_str(),
            at(*asked).c_str(), thread_text(x, me).c_str());
}

void Checker::check_tile(unsigned me, const char* p, size_t bytes, const Access& now) {
  Exec& x = exec();
  if (const Loc* asked = wgmma_of_tile(x, p, bytes))
    WT_FAIL(x, "write at %s into a tile of the wgmma at %s, which has not been waited for (%s)",
            place(sites[now.site]).c_str(), at(*asked).c_str(), thread_text(x, me).c_str());
}

// --- Hooks ---

void grid_begin() {
  Checker& c = checker();
  if (c.epoch > kLastEpoch) {
    c.global.clear();
    for (auto& [base, shadow] : c.shared) shadow.clear();
    c.under_way.clear();
    c.epoch = 1;
  }
  c.grid_epoch = ++c.epoch;
  ++c.grid;
  c.blocks.clear();
  c.parts.clear();
  c.races.clear();
  c.seen.clear();
  c.releases.clear();
  if (counting) count_grid_begin();
}

std::string grid_end() {
  Checker& c = checker();
  in_block = false;
  if (counting) count_grid_end();
  std::string text;
  std::set<std::string> pairs;  // one source line may be several instructions
  for (const Race& r : c.races) {
    // One that landed is no thread's.
    const bool tma = r.first.touch == Touch::copy && r.first.thread >= r.threads;
    const std::string first = strf("%s at %s", tma ? "a TMA load" : verb(r.first.touch),
                                   place(c.sites[r.first.site]).c_str());
    const std::string second =
        strf("%s at %s", verb(r.second.touch), place(c.sites[r.second.site]).c_str());
    if (!pairs.insert(first + second).second) continue;
    if (!text.empty()) text += "\n  ";
    text +=
        strf("race in %s memory: %s by thread %u of block %s, then %s by thread %u of block %s, %s",
             r.space, first.c_str(), r.first.thread, dim_text(r.first_block).c_str(),
             second.c_str(), r.second.thread, dim_text(r.second_block).c_str(),
             tma           ? "without a wait for its mbarrier between them"
             : r.under_way ? "while the copy is under way: its thread has not waited for it"
                           : "without synchronisation between them");
  }
  if (c.seen.size() > c.races.size()) text += "\n  and more";
  return text;
}

void block_begin(dim3 block, unsigned threads, const char* shared, size_t shared_bytes) {
  Checker& c = checker();
  c.block_epoch = ++c.epoch;
  c.blocks.emplace_back(c.epoch, block);
  c.acquired.clear();
  for (unsigned w = 0; w < (threads + 31) / 32; ++w) c.clocks[w].reset();
  std::memset(c.fenced, 0, threads);
  c.copies_under_way = 0;
  c.by_barrier.width = 0;
  auto it = c.shared.find(shared);
  if (it == c.shared.end()) it = c.shared.emplace(shared, Shadow(shared, shared_bytes)).first;
  c.block_shared = &it->second;
  in_block = true;
  if (counting) count_block_begin(threads);
}

void barrier() {
  ++checker().epoch;
  if (counting) count_barrier();
}
void warp_sync(unsigned warp, unsigned mask) {
  Checker& c = checker();
  c.clocks[warp].sync(mask);
  MbarrierClocks& m = c.by_barrier;
  if (!m.width) return;
  std::vector<uint32_t> all(m.width);
  for (unsigned rest = mask; rest; rest &= rest - 1)
    m.merge(all.data(), m.of(warp * 32 + unsigned(__builtin_ctz(rest))), m.width);
  for (unsigned rest = mask; rest; rest &= rest - 1)
    std::memcpy(m.of(warp * 32 + unsigned(__builtin_ctz(rest))), all.data(), 4 * m.width);
}
void fence() { checker().fenced[exec().cur] = true; }
void executor_read(unsigned thread, const void* p, size_t bytes, Loc at) {
  Checker& c = checker();
  Checker::Instruction from;
  from.site = c.site(at);
  c.access(thread, static_cast<const char*>(p), bytes, Touch::read, from, at);
}
void copy_access(unsigned thread, const char* to, size_t bytes, const char* from,
                 size_t source_bytes, Loc at) {
  Checker& c = checker();
  Checker::Instruction instruction;
  instruction.site = c.site(at);
  if (source_bytes) c.access(thread, from, source_bytes, Touch::read, instruction, at);
  c.access(thread, to, bytes, Touch::copy, instruction, at);
}
void copy_begin(unsigned thread, const char* to, size_t bytes, const char* from,
                size_t source_bytes, Loc at) {
  Checker& c = checker();
  copy_access(thread, to, bytes, from, source_bytes, at);
  if (c.under_way.empty()) c.under_way.resize(kSharedArena / 4);
  const Access now{c.epoch, thread, Touch::copy, c.site(at), 0};
  for (size_t i = 0; i < bytes; i += 4) *c.copy_words(to + i) = now;
  ++c.copies_under_way;
}
void copy_end(unsigned thread, const char* to, size_t bytes, const char* from, size_t source_bytes,
              Loc at) {
  Checker& c = checker();
  for (size_t i = 0; i < bytes; i += 4) *c.copy_words(to + i) = Access{};
  --c.copies_under_way;
  const bool counts = std::exchange(counting, false);  // it was counted when it was asked for
  copy_access(thread, to, bytes, from, source_bytes, at);
  counting = counts;
}

// --- mbarriers ---
void mbarrier_touch(unsigned barrier, unsigned thread, const void* p, bool made, Loc at) {
  Checker& c = checker();
  Checker::Instruction from;
  from.site = c.site(at);
  c.by_barrier.begin(exec().n);
  c.by_barrier.make(barrier);
  const Touch kind = made ? Touch::write : Touch::atomic;
  c.access(thread, static_cast<const char*>(p), 8, kind, from, at);
  // The history of a word has one write, and who made it has used it since.
  Access& first = c.by_barrier.made[barrier];
  const Access now{c.epoch, thread, kind, from.site, c.clocks[thread / 32].own[thread % 32]};
  if (made)
    first = now;
  else if (first.thread != thread && !c.ordered(first, thread, true))
    c.report(first, now, true);
}
void mbarrier_arrive(unsigned barrier, unsigned thread) {
  Checker& c = checker();
  MbarrierClocks& m = c.by_barrier;
  WarpClocks& w = c.clocks[thread / 32];
  m.make(barrier);
  uint32_t* const to = m.released[barrier].data();
  m.merge(to, m.of(thread), m.width);
  m.merge(to + thread / 32 * 32, w.seen[thread % 32], 32);
  w.used = true;
  m.merge(to + thread, &w.own[thread % 32], 1);
  ++w.own[thread % 32];
}
void mbarrier_phase(unsigned barrier) {
  MbarrierClocks& m = checker().by_barrier;
  m.make(barrier);
  m.merge(m.ended[barrier].data(), m.released[barrier].data(), m.width);
  std::fill(m.released[barrier].begin(), m.released[barrier].end(), 0);
  ++m.landed;
}
void mbarrier_wait(unsigned barrier, unsigned thread) {
  MbarrierClocks& m = checker().by_barrier;
  m.make(barrier);
  m.merge(m.of(thread), m.ended[barrier].data(), m.width);
}
void tma_end(unsigned barrier, const char* to, size_t bytes, Loc at) {
  Checker& c = checker();
  MbarrierClocks& m = c.by_barrier;
  m.make(barrier);
  const unsigned thread = m.load_of(barrier);
  const Access now{c.epoch, thread, Touch::copy, c.site(at), m.landed};
  // No comparison: what was before was compared when the load was asked for, what came since has
  // met a copy under way.
  for (size_t i = 0; i < bytes; i += 4) {
    *c.copy_words(to + i) = Access{};
    Word& word = c.block_shared->word(to + i);
    word.all.write = now;
    if (word.parts_grid == c.grid)
      for (unsigned k = 0; k < 4; ++k) c.parts[word.parts + k].write = now;
  }
  --c.copies_under_way;
  uint32_t& clock = m.released[barrier][thread];
  clock = m.landed > clock ? m.landed : clock;
}

constexpr RaceHooks kHooks{grid_begin,      grid_end,       block_begin,   barrier,  warp_sync,
                           fence,           executor_read,  copy_begin,    copy_end, mbarrier_touch,
                           mbarrier_arrive, mbarrier_phase, mbarrier_wait, tma_end};

}  // namespace

void race_access(const void* p, size_t bytes, Touch kind, const void* code) {
  if (!in_block || !bytes) return;
  Checker& c = checker();
  c.access(exec().cur, static_cast<const char*>(p), bytes, kind, c.instruction(code));
}

void install_race_checker() {
  if (race_hooks) return;
  the_checker = new Checker;
  race_hooks = &kHooks;
}

}  // namespace wt::simt_runtime
