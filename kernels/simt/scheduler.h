// Internals of the scheduler: the state of the block that runs and the hot path that parks one CUDA
// thread and resumes another. Never instrumented; every function on the hot path is forced inline
// (a call costs as much as a switch).
#pragma once
#include <vector>

#include "warptape/kernels/simt/runtime.h"

// Saves the caller's registers and `at`/`note` on its stack, stores the stack pointer, continues at
// another saved stack pointer. Returning by `ret` keeps the CPU's return predictor right, because
// all threads of a block are parked at the same place.
extern "C" void wt_fiber_switch(void** save_sp, void* load_sp, const char* at_file, uint64_t note);

namespace wt::simt_runtime {

// An operation code is Wait << 4 | variant; it tells apart what must not meet in one collective.
enum class Wait : unsigned {
  none,
  barrier,
  barrier_vote,
  shfl,
  vote,
  syncwarp,
  mma,
  ldmatrix,
  butterfly,
  poll,
  mbarrier,
  wgmma
};
constexpr unsigned wait_op(Wait w, unsigned variant = 0) { return unsigned(w) << 4 | variant; }
const char* op_name(unsigned op);

constexpr unsigned kMaxThreads = 1024, kWarps = 32;

// What a parked thread left on top of its stack: where it waits and in which operation.
struct Parked {
  uint64_t note;  // source line, and operation code in the upper half
  const char* file;
};

struct Fiber {
  char* low = nullptr;  // lowest usable address; a guard page lies below
  size_t size = 0;
  Fiber* next_free = nullptr;
};

// A warp collective under way: up to four with disjoint masks can be pending in a warp.
struct Group {
  unsigned mask = 0, arrived = 0, op = 0;
  uint32_t first_spec = 0;  // of the first lane
  bool uniform = false;     // all lanes gave the same one
};

struct Warp {
  unsigned exited = 0;   // lanes that returned or never existed
  unsigned pending = 0;  // groups under way
  Group groups[4];
  uint32_t spec[32];  // operation code; for shuffles also lane argument and width
  uint64_t in[32], out[32];
  void (*all)(void* const*);  // of a butterfly
};

struct SharedArray {
  const SharedSite* site;
  char* data;
  size_t bytes;
};

// Asynchronous copies (async_copy.cpp). `group`: how many the thread had committed before it.
struct AsyncCopy {
  char* to;
  const char* from;
  int bytes, source_bytes;
  unsigned group;
  Loc at;
  bool landed;
};
struct ThreadCopies {
  std::vector<AsyncCopy> queue;
  unsigned group = 0;
};
struct AsyncCopies {
  bool used = false;  // by this block
  std::vector<ThreadCopies> threads;
  const char *live_begin = nullptr, *live_end = nullptr;  // device memory that was copied from last
};

struct AsyncUnits;  // async_units.h
class SharedGrid;   // grid.cpp

struct Exec {
  // Ready threads: not started, or parked and released. One word a warp, one bit a warp that has
  // any.
  uint32_t ready[kWarps];
  uint32_t ready_warps;
  unsigned cur;  // linear index of the running thread
  SimtOrder order;
  bool strict, asan;
  unsigned n, live, warps_used;
  // Block barrier.
  unsigned bar_arrived;
  unsigned bar_op;
  Loc bar_at;
  uint32_t bar_wait[kWarps];
  int vote_count, vote_result;
  unsigned pending_groups;
  uint64_t rng, seed;
  uint64_t spins, spin_limit;
  void (*entry)(void*);
  void* body;
  void* sp[kMaxThreads];  // null: not started
  uint3 tid[kMaxThreads];
  Fiber* fiber[kMaxThreads];
  void* asan_fake[kMaxThreads];
  Warp warps[kWarps];
  SimtStats stats;

  // Cold from here.
  void* main_sp = nullptr;
  void* main_fake = nullptr;
  const void* main_low = nullptr;
  size_t main_size = 0;
  Fiber* free_fibers = nullptr;
  std::vector<Fiber*> fibers;
  size_t stack_bytes = 0;
  const GridLaunch* grid = nullptr;
  SharedGrid* shared_grid = nullptr;  // other OS threads run blocks of it too
  uint64_t block = 0;                 // of a shared grid
  bool first_of_grid = false;         // all blocks before this one are done
  dim3 block_dim{0, 0, 0};
  bool running = false;  // a fiber has the control
  bool failed = false;
  std::string error;
  void* signal_stack = nullptr;
  uint64_t handler_checked = 0;
  const void* fault_code = nullptr;  // instruction that faulted, to be named after the switch
  // Shared memory of the block.
  char* shared = nullptr;
  size_t shared_used = 0, static_bytes = 0;
  std::vector<SharedArray> arrays;
  char* dynamic = nullptr;
  AsyncCopies copies;
  AsyncUnits* units = nullptr;  // made by the first mbarrier or wgmma of a block

  Exec();
  ~Exec();
  Exec(const Exec&) = delete;
};

extern __thread Exec* current_exec;
Exec& own_exec();  // of the calling OS thread, made if there is none

// --- Cold ---
[[noreturn]] void leave_block(Exec& x);
// Records the error, `text()`, and leaves the block for good: all its fibers are abandoned, so what
// their frames own is lost. That is why the text is made inside, and nothing of it is left here.
template <class Text>
[[noreturn]] WT_COLD void fail(Exec& x, Text text) {
  x.error = text();
  if (!x.running) throw KernelError(x.error);
  x.failed = true;
  leave_block(x);
}
#define WT_FAIL(x, ...) ::wt::simt_runtime::fail(x, [&] { return strf(__VA_ARGS__); })
// Nothing can run. The current thread waits at `at` in `op`, or has returned (`op` 0).
[[noreturn]] void fail_deadlock(Exec& x, Loc at, unsigned op) WT_COLD;
std::string thread_text(const Exec& x, unsigned thread);
std::string deadlock_text(const Exec& x, Loc at, unsigned op);
std::string group_text(const Exec& x, unsigned warp, const Group& g);
// Lanes that never come can complete a collective of the others (collectives.cpp).
void complete_after_exit(Exec& x, unsigned warp);
// Where a thread that is parked waits, and in which operation.
inline Loc parked_at(const Exec& x, unsigned thread) {
  const Parked* p = static_cast<const Parked*>(x.sp[thread]);
  return {p->file, unsigned(p->note)};
}
inline unsigned parked_op(const Exec& x, unsigned thread) {
  return unsigned(static_cast<const Parked*>(x.sp[thread])->note >> 32);
}
void* start_fiber(Exec& x, unsigned thread);
void reset_fibers(Exec& x);  // all are free again
void switch_under_asan(Exec& x, unsigned me, unsigned to, void* sp, Loc at, unsigned op) WT_COLD;
// shared_memory.cpp. finish_shared finds writes beside the arrays (x.failed).
constexpr size_t kSharedArena = 320 * 1024;
void begin_shared(Exec& x, size_t dynamic_bytes);
void finish_shared(Exec& x);
// async_copy.cpp: forgets the copies of the block before.
void begin_copies(Exec& x);
// mbarrier.cpp: mbarriers, TMA and wgmma. run_units lets them work while no thread can go on, and
// returns the thread that then can, or -1; finish_units finds what a block has not waited for.
void begin_units(Exec& x);
int run_units(Exec& x) WT_COLD;
void finish_units(Exec& x);
void drop_units(Exec& x);
std::string units_text(const Exec& x);
// wgmma.cpp: where the wgmma was asked for whose accumulator `p` is, a register of `thread` that it
// has not got back; or null.
const Loc* wgmma_of_register(const Exec& x, unsigned thread, const void* p);
// Or that reads these bytes of shared memory and has not been waited for.
const Loc* wgmma_of_tile(const Exec& x, const char* p, size_t bytes);
// fault.cpp: turns a fault of kernel code into an error of the launch.
void install_signal_stack(Exec& x);
void remove_signal_stack(Exec& x);

// --- Hot ---
WT_FN Exec& exec() { return *current_exec; }

WT_FN void make_ready(Exec& x, unsigned warp, uint32_t lanes) {
  x.ready[warp] |= lanes;
  x.ready_warps |= 1u << warp;
}

WT_FN uint64_t next_random(Exec& x) {
  x.rng ^= x.rng << 13;
  x.rng ^= x.rng >> 7;
  x.rng ^= x.rng << 17;
  return x.rng;
}

WT_FN int take_ready(Exec& x, unsigned warp, unsigned lane) {
  const uint32_t rest = x.ready[warp] & ~(1u << lane);
  x.ready[warp] = rest;
  if (!rest) x.ready_warps &= ~(1u << warp);
  return int(warp * 32 + lane);
}

int pick_random(Exec& x);

// The next thread to run, taken out of the ready set; -1 if there is none. Lanes of the running
// thread's warp come first: 32 stacks stay in the L1 cache while the warp works.
WT_FN int pick(Exec& x) {
  if (!x.ready_warps) return -1;
  unsigned w = x.cur / 32;
  if (x.order == SimtOrder::forward) [[likely]] {
    if (!x.ready[w]) {
      const uint32_t later = x.ready_warps & (~1u << w);
      w = unsigned(__builtin_ctz(later ? later : x.ready_warps));
    }
    return take_ready(x, w, unsigned(__builtin_ctz(x.ready[w])));
  }
  if (x.order == SimtOrder::reverse) {
    if (!x.ready[w]) {
      const uint32_t before = x.ready_warps & ((1u << w) - 1);
      w = 31 - unsigned(__builtin_clz(before ? before : x.ready_warps));
    }
    return take_ready(x, w, 31 - unsigned(__builtin_clz(x.ready[w])));
  }
  return pick_random(x);
}

WT_FN void prefetch_next(const Exec& x, unsigned picked) {
  const uint32_t rest = x.ready[picked / 32];
  if (!rest) return;
  const unsigned bit = x.order == SimtOrder::reverse ? 31 - unsigned(__builtin_clz(rest))
                                                     : unsigned(__builtin_ctz(rest));
  const char* sp = static_cast<const char*>(x.sp[picked / 32 * 32 + bit]);
  __builtin_prefetch(sp);
  __builtin_prefetch(sp + 64);
  __builtin_prefetch(sp + 128);
}

WT_FN void set_current(Exec& x, unsigned thread) {
  x.cur = thread;
  ::threadIdx = x.tid[thread];
}

// Leaves the running thread parked and continues with `to`; returns when somebody resumes it.
WT_FN void switch_to(Exec& x, unsigned me, unsigned to, Loc at, unsigned op) {
  ++x.stats.switches;
  set_current(x, to);
  void* sp = x.sp[to];
  if (!sp) [[unlikely]]
    sp = start_fiber(x, to);
  else
    prefetch_next(x, to);
  if (x.asan) [[unlikely]]
    return switch_under_asan(x, me, to, sp, at, op);
  wt_fiber_switch(&x.sp[me], sp, at.file, uint64_t(op) << 32 | at.line);
}

// The running thread waits: it is in no ready set, or in one if it may go on later.
WT_FN void park(Exec& x, Loc at, unsigned op) {
  const unsigned me = x.cur;
  int to = pick(x);
  if (to < 0) [[unlikely]] {
    if (x.units) to = run_units(x);
    if (to < 0) fail_deadlock(x, at, op);
  }
  if (unsigned(to) == me) return;
  switch_to(x, me, unsigned(to), at, op);
}

WT_FN bool same_place(Loc a, Loc b) {
  return a.line == b.line && (a.file == b.file || __builtin_strcmp(a.file, b.file) == 0);
}

}  // namespace wt::simt_runtime
