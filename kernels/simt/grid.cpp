// Runs grids: blocks one after the other, or those of a large grid on several OS threads.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <mutex>
#include <utility>

#include "warptape/core/device.h"
#include "warptape/core/philox.h"
#include "warptape/kernels/cpu/threads.h"
#include "warptape/kernels/simt/queues.h"
#include "warptape/kernels/simt/scheduler.h"

namespace wt {
namespace simt_runtime {

namespace {

constexpr uint64_t kHandlerPeriod = 200'000;  // cycles

void set_block_shape(Exec& x, dim3 d) {
  ::blockDim = {{d.x, d.y, d.z}};
  x.n = d.x * d.y * d.z;
  x.warps_used = (x.n + 31) / 32;
  if (x.block_dim.x == d.x && x.block_dim.y == d.y && x.block_dim.z == d.z) return;
  x.block_dim = d;
  unsigned i = 0;
  for (unsigned z = 0; z < d.z; ++z)
    for (unsigned y = 0; y < d.y; ++y)
      for (unsigned c = 0; c < d.x; ++c) x.tid[i++] = {c, y, z};
}

void run_block(Exec& x, uint64_t linear) {
  const GridLaunch& g = *x.grid;
  ::blockIdx = {unsigned(linear % g.grid.x), unsigned(linear / g.grid.x % g.grid.y),
                unsigned(linear / (uint64_t(g.grid.x) * g.grid.y))};
  const unsigned tail = x.n % 32;
  for (unsigned w = 0; w < x.warps_used; ++w) {
    x.ready[w] = ~0u;
    x.bar_wait[w] = 0;
    x.warps[w].exited = x.warps[w].pending = 0;
    for (Group& group : x.warps[w].groups) group.arrived = 0;
  }
  if (tail) {
    x.ready[x.warps_used - 1] = (1u << tail) - 1;
    x.warps[x.warps_used - 1].exited = ~0u << tail;
  }
  x.ready_warps = x.warps_used == 32 ? ~0u : (1u << x.warps_used) - 1;
  x.live = x.n;
  x.bar_arrived = x.pending_groups = 0;
  x.vote_count = 0;
  x.spins = 0;
  std::memset(x.sp, 0, x.n * sizeof(void*));
  if (x.order == SimtOrder::random) x.rng = (x.seed + linear + 1) * 0x9e3779b97f4a7c15ull | 1;
  x.cur = x.order == SimtOrder::reverse ? x.n - 1 : 0;
  begin_shared(x, g.shared_bytes);
  if (x.copies.used) begin_copies(x);
  if (x.units) begin_units(x);
  if (race_hooks)
    race_hooks->block_begin({::blockIdx.x, ::blockIdx.y, ::blockIdx.z}, x.n, x.shared,
                            kSharedArena);
  ++x.stats.blocks;
  x.stats.threads += x.n;

  const unsigned first = unsigned(pick(x));
  set_current(x, first);
  void* sp = start_fiber(x, first);
  x.running = true;
  if (x.asan)
    __sanitizer_start_switch_fiber(&x.main_fake, x.fiber[first]->low, x.fiber[first]->size);
  wt_fiber_switch(&x.main_sp, sp, nullptr, 0);
  if (x.asan) __sanitizer_finish_switch_fiber(x.main_fake, nullptr, nullptr);
  x.running = false;
  if (x.units) finish_units(x);
  finish_shared(x);
}

void check_pointers(const GridLaunch& g) {
  for (int i = 0; i < g.pointer_count; ++i)
    if (g.pointers[i] && !device_pointer(g.pointers[i])) [[unlikely]]
      throw KernelError(
          strf("%s: argument %d is %p, which is not device memory of simt (a host "
               "pointer, or memory already freed)",
               kernel_title(g).c_str(), g.pointer_args[i], g.pointers[i]));
}

// A permutation of 0..n-1 that needs no memory: each step is one-to-one on the numbers below the
// next power of two, and what lands at n or above takes steps until it lands below.
class ShuffledBlocks {
 public:
  ShuffledBlocks(uint64_t n, uint64_t seed)
      : n_(n), mask_(n > 1 ? ~uint64_t(0) >> __builtin_clzll(n - 1) : 0) {
    half_ = (__builtin_popcountll(mask_) + 1) / 2;
    for (uint64_t& key : keys_) key = mix64(++seed);
  }
  uint64_t operator[](uint64_t k) const {
    do {
      for (const uint64_t key : keys_) {
        k = (k * 0x9e3779b97f4a7c15ull + key) & mask_;
        k ^= k >> half_;
      }
    } while (k >= n_);
    return k;
  }

 private:
  uint64_t n_, mask_, keys_[4];
  int half_;
};

// Throws what went wrong; this OS thread can run others then.
void run_block_to_end(Exec& x, uint64_t block) {
  run_block(x, block);
  if (!x.failed) return;
  reset_fibers(x);
  x.failed = false;
  if (x.fault_code) x.error += " at " + source_line(std::exchange(x.fault_code, nullptr));
  throw KernelError(kernel_title(*x.grid) + ": " + x.error);
}

// What an OS thread has to know of a grid before it runs blocks of it.
void begin_grid(Exec& x, const GridLaunch& g, const SimtOptions& options) {
  x.grid = &g;
  x.entry = g.entry;
  x.body = g.body;
  x.order = options.order;
  x.seed = options.seed;
  x.strict = options.strict;
  x.spin_limit = options.spin_limit;
  ::gridDim = {{g.grid.x, g.grid.y, g.grid.z}};
  set_block_shape(x, g.block);
}

// --- Blocks of one grid on several OS threads ---

// Less work than this is done before a helper has woken up: in cycles of the blocks so far, or in
// threads of all blocks (which take 10 cycles at least).
constexpr uint64_t kWorthCycles = 150'000, kWorthThreads = 1 << 14;

SimtStats operator-(const SimtStats& a, const SimtStats& b) {
  return {a.launches - b.launches, a.blocks - b.blocks,     a.threads - b.threads,
          a.switches - b.switches, a.barriers - b.barriers, a.collectives - b.collectives};
}
void operator+=(SimtStats& a, const SimtStats& b) {
  a.launches += b.launches, a.blocks += b.blocks, a.threads += b.threads;
  a.switches += b.switches, a.barriers += b.barriers, a.collectives += b.collectives;
}

}  // namespace

// Blocks are taken by rising number, and what a grid leaves does not depend on who runs them: a
// block that comes to an atomic of device memory goes on when all blocks before it are done.
class SharedGrid {
 public:
  SharedGrid(Exec& launcher, const GridLaunch& g, const SimtOptions& options, uint64_t first,
             uint64_t blocks, int workers)
      : launcher_(launcher),
        g_(g),
        options_(options),
        blocks_(blocks),
        next_(first),
        workers_(size_t(workers)) {}

  void run() {
    parallel(int(workers_.size()), int(workers_.size()), [this](int task, int) { work(task); });
    work(0);  // helpers without memory may have had every task before this thread came to one
    launcher_.stats += helped_;
    if (error_) std::rethrow_exception(error_);
  }

  // Whether all blocks before `block`, which somebody runs, are done.
  bool begins(uint64_t block) const {
    for (const Worker& w : workers_)
      if (w.block.load() < block) return false;
    return true;
  }

 private:
  static constexpr uint64_t kNone = ~uint64_t(0);
  struct alignas(64) Worker {
    std::atomic<uint64_t> block{kNone};  // this one or a later one is what it runs
  };

  void work(int task) noexcept {
    if (next_.load() >= blocks_) return;
    Exec* own;
    try {
      own = &own_exec();
    } catch (const std::exception&) {
      return;  // no memory for one: the others run the blocks
    }
    Exec& x = *own;
    const bool helps = &x != &launcher_;
    const SimtStats before = x.stats;
    if (helps) begin_grid(x, g_, options_);
    x.shared_grid = this;
    std::atomic<uint64_t>& mine = workers_[size_t(task)].block;
    for (;;) {
      // Said before it is taken: who looks between the two must not believe that nobody has it.
      mine = next_.load();
      x.block = next_.fetch_add(1);
      if (x.block >= blocks_) break;
      mine = x.block;
      x.first_of_grid = false;
      try {
        run_block_to_end(x, x.block);
      } catch (...) {
        fail(x.block);
      }
    }
    mine = kNone;
    x.shared_grid = nullptr;
    if (!helps) return;
    const std::lock_guard lock(mutex_);
    helped_ += x.stats - before;
    x.stats = before;
  }

  // The error of the first block that has one is thrown, as if no later block had run. All before
  // it have been taken.
  void fail(uint64_t block) {
    next_ = blocks_;
    const std::lock_guard lock(mutex_);
    if (block < failed_) failed_ = block, error_ = std::current_exception();
  }

  Exec& launcher_;
  const GridLaunch& g_;
  const SimtOptions& options_;
  const uint64_t blocks_;
  std::atomic<uint64_t> next_;
  std::vector<Worker> workers_;
  std::mutex mutex_;  // of what follows
  uint64_t failed_ = kNone;
  std::exception_ptr error_;
  SimtStats helped_;
};

namespace {

// The uninstrumented flavour in the order in which the launcher alone would run blocks.
int workers_for(const Exec& x) {
  constexpr int kMost = 256;
  return x.order != SimtOrder::forward || x.asan || race_hooks ? 1 : std::min(num_threads(), kMost);
}

void run_blocks(Exec& x, const GridLaunch& g, const SimtOptions& options) {
  const uint64_t blocks = uint64_t(g.grid.x) * g.grid.y * g.grid.z;
  const int workers = blocks > 1 ? workers_for(x) : 1;
  const uint64_t begin = __builtin_ia32_rdtsc();
  const bool large = blocks * x.n >= kWorthThreads;
  const ShuffledBlocks shuffled(blocks, x.seed);
  for (uint64_t k = 0; k < blocks; ++k) {
    if (workers > 1 && k + 1 < blocks && (large || __builtin_ia32_rdtsc() - begin >= kWorthCycles))
        [[unlikely]]
      return SharedGrid(x, g, options, k, blocks, workers).run();
    run_block_to_end(x, x.order == SimtOrder::forward   ? k
                        : x.order == SimtOrder::reverse ? blocks - 1 - k
                                                        : shuffled[k]);
  }
}

// The race checker keeps one history of accesses for the program: grids run one at a time.
std::mutex race_mutex;

void run_grid(Exec& x, const GridLaunch& g, const SimtOptions& options) {
  const ArenaOpen open;
  if (!race_hooks) return run_blocks(x, g, options);
  const std::lock_guard lock(race_mutex);
  race_hooks->grid_begin();
  try {
    run_blocks(x, g, options);
  } catch (const KernelError& e) {
    const std::string races = race_hooks->grid_end();
    if (races.empty()) throw;
    throw KernelError(kernel_title(g) + ": " + races + "\n  and then " + e.what());
  }
  const std::string races = race_hooks->grid_end();
  if (!races.empty()) throw KernelError(kernel_title(g) + ": " + races);
}

}  // namespace

std::string kernel_title(const GridLaunch& g) {
  const std::string name = kernel_name(g.kernel);
  return g.op ? strf("%s [%s]", name.c_str(), g.op) : name;
}

void run_launch(const GridLaunch& g, const SimtOptions& options) {
  Exec& x = own_exec();
  // Others set and restore handlers too, but looking costs as much as a small launch.
  if (const uint64_t now = __builtin_ia32_rdtsc(); now - x.handler_checked > kHandlerPeriod) {
    x.handler_checked = now;
    ensure_fault_handler();
  }
  ++x.stats.launches;
  begin_grid(x, g, options);
  run_grid(x, g, options);
}

}  // namespace simt_runtime

inline namespace simt {

using namespace simt_runtime;

WT_API void exec_in_turn(const void* p) {
  Exec* const x = current_exec;
  if (!x || !x->shared_grid || x->first_of_grid) return;
  const char* const at = static_cast<const char*>(p);
  if (at >= x->shared && at < x->shared + kSharedArena) return;
  constexpr int kSpins = 2'000;  // then others may have the processor that this one waits for
  for (int i = 0; !x->shared_grid->begins(x->block); ++i)
    i < kSpins ? __builtin_ia32_pause() : void(sched_yield());
  x->first_of_grid = true;
}

WT_API void exec_launch(const GridLaunch& g) {
  const SimtOptions& options = simt_options();
  if (inside_kernel()) throw InternalError("simt: a kernel launched a kernel");
  check_pointers(g);
  if (recording()) [[unlikely]]
    return record(g);
  if (lazy()) [[unlikely]]
    return queue_launch(g, options);
  run_launch(g, options);
}

}  // namespace simt

}  // namespace wt
