// The threads of a block, as fibers on one OS thread.
//
// Lazy fibers: a fiber runs CUDA threads to completion one after the other; only a thread that has
// to wait keeps its fiber, and the next thread starts on another. A kernel without synchronisation
// never switches.
#include "warptape/kernels/simt/scheduler.h"

#include <pthread.h>
#include <sys/mman.h>

#include <cstring>

#include "warptape/kernels/simt/queues.h"

// Exported, as the functions that kernels call (exec_x): a program may load kernels
// (WT_KERNEL_FILE).
WT_API __thread wt::uint3 threadIdx, blockIdx;
WT_API __thread wt_index_dims blockDim, gridDim;

#if !defined(__x86_64__)
#error "kernels/simt/scheduler.cpp: the fiber switch is written for x86-64"
#endif
asm(R"(
.text
.hidden wt_fiber_switch
.hidden wt_fiber_resume
.globl wt_fiber_switch
.globl wt_fiber_resume
.type wt_fiber_switch,@function
.type wt_fiber_resume,@function
.p2align 4
wt_fiber_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  pushq %rdx
  pushq %rcx
  movq %rsp, (%rdi)
wt_fiber_resume:
  leaq 16(%rsi), %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size wt_fiber_switch,.-wt_fiber_switch
)");

namespace wt {
namespace simt_runtime {

__thread Exec* current_exec = nullptr;
const RaceHooks* race_hooks = nullptr;

namespace {

constexpr size_t kPage = 4096;
constexpr size_t kStackBytes = 64 * 1024, kStackBytesAsan = 256 * 1024;

// The Exec of this OS thread, destroyed with it.
struct ExecOwner {
  Exec* exec = nullptr;
  ~ExecOwner() {
    current_exec = nullptr;
    delete exec;
  }
};
thread_local ExecOwner owner;

void release_barrier(Exec& x) {
  x.bar_arrived = 0;
  x.spins = 0;
  ++x.stats.barriers;
  for (unsigned w = 0; w < x.warps_used; ++w) {
    const uint32_t lanes = x.bar_wait[w];
    x.bar_wait[w] = 0;
    if (lanes) make_ready(x, w, lanes);
  }
  switch (BarrierKind(x.bar_op & 3)) {
    case BarrierKind::count:
      x.vote_result = x.vote_count;
      break;
    case BarrierKind::all:
      x.vote_result = x.vote_count == int(x.live);
      break;
    case BarrierKind::any:
      x.vote_result = x.vote_count != 0;
      break;
  }
  x.vote_count = 0;
  if (race_hooks) race_hooks->barrier();
}

[[noreturn]] WT_COLD void fail_divergent(Exec& x, Loc here) {
  WT_FAIL(x, "divergent __syncthreads: %s waits at %s, %u other thread(s) of the block at %s",
          thread_text(x, x.cur).c_str(), at(here).c_str(), x.bar_arrived, at(x.bar_at).c_str());
}
[[noreturn]] WT_COLD void fail_exited_before(Exec& x, Loc here) {
  WT_FAIL(x, "__syncthreads at %s: %u thread(s) of the block have already returned from the kernel",
          at(here).c_str(), x.n - x.live);
}

WT_FN void barrier(Exec& x, unsigned op, Loc here) {
  if (x.bar_arrived == 0) {
    x.bar_at = here;
    x.bar_op = op;
    if (x.strict && x.live != x.n) [[unlikely]]
      fail_exited_before(x, here);
  } else if (x.strict && !(same_place(x.bar_at, here) && x.bar_op == op)) [[unlikely]] {
    fail_divergent(x, here);
  }
  const unsigned me = x.cur;
  if (++x.bar_arrived == x.live) {
    if (x.order == SimtOrder::forward) [[likely]]
      return release_barrier(x);  // the last to arrive goes on at once
    x.bar_wait[me / 32] |= 1u << (me % 32);
    release_barrier(x);
  } else {
    x.bar_wait[me / 32] |= 1u << (me % 32);
  }
  park(x, here, op);
}

// The current thread returned from the kernel while others of its block or warp wait.
WT_COLD
void exit_beside_waiters(Exec& x) {
  const unsigned w = x.cur / 32;
  if (x.bar_arrived && x.strict)
    WT_FAIL(x, "%s returned from the kernel while %u thread(s) wait in %s at %s",
            thread_text(x, x.cur).c_str(), x.bar_arrived, op_name(x.bar_op), at(x.bar_at).c_str());
  if (x.bar_arrived && x.bar_arrived == x.live) release_barrier(x);
  if (x.warps[w].pending) complete_after_exit(x, w);
}

WT_FN void thread_done(Exec& x) {
  x.warps[x.cur / 32].exited |= 1u << (x.cur % 32);
  --x.live;
  if (x.bar_arrived | x.pending_groups) [[unlikely]]
    exit_beside_waiters(x);
}

// Every fiber's first function: runs the current thread, then others that have not started.
[[noreturn]] void fiber_main() {
  Exec& x = exec();
  if (x.asan) __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
  for (;;) {
    x.entry(x.body);
    thread_done(x);
    Fiber* mine = x.fiber[x.cur];
    int next = pick(x);
    if (next < 0 && x.live && x.units) next = run_units(x);
    if (next < 0) {
      if (x.live) fail_deadlock(x, {nullptr, 0}, 0);
      mine->next_free = x.free_fibers;
      x.free_fibers = mine;
      leave_block(x);
    }
    const unsigned to = unsigned(next);
    set_current(x, to);
    if (!x.sp[to]) {
      x.fiber[to] = mine;
      continue;
    }
    // A parked thread continues on its own fiber: this one is free and its content is done with.
    mine->next_free = x.free_fibers;
    x.free_fibers = mine;
    ++x.stats.switches;
    if (x.asan) __sanitizer_start_switch_fiber(nullptr, x.fiber[to]->low, x.fiber[to]->size);
    void* abandoned;
    wt_fiber_switch(&abandoned, x.sp[to], nullptr, 0);
  }
}

Fiber* new_fiber(Exec& x) {
  void* p = mmap(nullptr, x.stack_bytes + kPage, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (p == MAP_FAILED) WT_FAIL(x, "out of memory for the stacks of the block's threads");
  mprotect(p, kPage, PROT_NONE);
  auto* f = new Fiber;
  f->low = static_cast<char*>(p) + kPage;
  // Stacks of equal alignment would fall into the same cache sets: spread their tops.
  f->size = x.stack_bytes - x.fibers.size() * 320 % 8192;
  x.fibers.push_back(f);
  return f;
}

}  // namespace

Exec& own_exec() {
  if (!current_exec) current_exec = owner.exec = new Exec;
  return *current_exec;
}

void reset_fibers(Exec& x) {
  x.free_fibers = nullptr;
  for (size_t i = x.fibers.size(); i-- > 0;) {
    Fiber* f = x.fibers[i];
    unpoison(f->low, x.stack_bytes);
    f->next_free = x.free_fibers;
    x.free_fibers = f;
  }
}

bool inside_kernel() { return current_exec && current_exec->running; }

Exec::Exec() {
  asan = has_asan();
  stack_bytes = asan ? kStackBytesAsan : kStackBytes;
  void* p = mmap(nullptr, kSharedArena, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) throw OutOfMemory("simt: no memory for the executor's shared memory");
  shared = static_cast<char*>(p);
  std::memset(shared, 0xff, kSharedArena);
  poison(shared, kSharedArena);
  pthread_attr_t attributes;
  pthread_getattr_np(pthread_self(), &attributes);
  void* low;
  pthread_attr_getstack(&attributes, &low, &main_size);
  pthread_attr_destroy(&attributes);
  main_low = low;
  install_signal_stack(*this);
}

Exec::~Exec() {
  remove_signal_stack(*this);
  drop_units(*this);
  reset_fibers(*this);
  for (Fiber* f : fibers) {
    munmap(f->low - kPage, stack_bytes + kPage);
    delete f;
  }
  unpoison(shared, kSharedArena);
  munmap(shared, kSharedArena);
}

// Gives `thread` a fiber and returns the stack pointer at which fiber_main begins.
void* start_fiber(Exec& x, unsigned thread) {
  Fiber* f = x.free_fibers;
  if (f)
    x.free_fibers = f->next_free;
  else
    f = new_fiber(x);
  x.fiber[thread] = f;
  void** s =
      reinterpret_cast<void**>((reinterpret_cast<uintptr_t>(f->low) + f->size) & ~uintptr_t(63));
  *--s = nullptr;  // fiber_main's return address: ends backtraces, aligns the stack
  *--s = reinterpret_cast<void*>(&fiber_main);
  for (int i = 0; i < 8; ++i) *--s = nullptr;  // six registers and a Parked
  return s;
}

void switch_under_asan(Exec& x, unsigned me, unsigned to, void* sp, Loc at, unsigned op) {
  __sanitizer_start_switch_fiber(&x.asan_fake[me], x.fiber[to]->low, x.fiber[to]->size);
  wt_fiber_switch(&x.sp[me], sp, at.file, uint64_t(op) << 32 | at.line);
  __sanitizer_finish_switch_fiber(x.asan_fake[me], nullptr, nullptr);
}

void leave_block(Exec& x) {
  if (x.asan) __sanitizer_start_switch_fiber(nullptr, x.main_low, x.main_size);
  void* abandoned;
  wt_fiber_switch(&abandoned, x.main_sp, nullptr, 0);
  __builtin_unreachable();
}

void fail_deadlock(Exec& x, Loc at, unsigned op) {
  fail(x, [&] { return deadlock_text(x, at, op); });
}

int pick_random(Exec& x) {
  const uint64_t r = next_random(x) >> 16;
  const unsigned start = unsigned(r % x.warps_used);
  uint32_t words = x.ready_warps >> start << start;
  if (!words) words = x.ready_warps;
  const unsigned w = unsigned(__builtin_ctz(words)), from = unsigned(r >> 40) % 32;
  uint32_t lanes = x.ready[w] >> from << from;
  if (!lanes) lanes = x.ready[w];
  return take_ready(x, w, unsigned(__builtin_ctz(lanes)));
}

}  // namespace simt_runtime

inline namespace simt {

using namespace simt_runtime;

WT_API void exec_barrier(Loc here) { barrier(exec(), wait_op(Wait::barrier), here); }

WT_API int exec_barrier_vote(BarrierKind kind, int predicate, Loc here) {
  Exec& x = exec();
  x.vote_count += predicate != 0;
  barrier(x, wait_op(Wait::barrier_vote, unsigned(kind)), here);
  return x.vote_result;
}

WT_API void exec_poll(Loc here) {
  Exec& x = exec();
  if (++x.spins > x.spin_limit)
    WT_FAIL(x, "livelock: %llu polls without progress; %s polls at %s",
            (unsigned long long)x.spin_limit, thread_text(x, x.cur).c_str(), at(here).c_str());
  if (!x.ready_warps) return;
  // Fair: the search for the next thread starts behind this one.
  const unsigned me = x.cur, w = me / 32, lane = me % 32;
  const bool down = x.order == SimtOrder::reverse;
  const uint32_t hidden = x.ready[w] & (down ? ~0u << lane : (2u << lane) - 1);
  x.ready[w] &= ~hidden;
  if (!x.ready[w]) x.ready_warps &= ~(1u << w);
  int to = pick(x);
  if (hidden) make_ready(x, w, hidden);
  make_ready(x, w, 1u << lane);
  if (to < 0) to = pick(x);
  if (unsigned(to) != me) switch_to(x, me, unsigned(to), here, wait_op(Wait::poll));
}

WT_API unsigned exec_activemask() {
  Exec& x = exec();
  return ~x.warps[x.cur / 32].exited;
}

WT_API void exec_fence() {
  if (race_hooks) race_hooks->fence();
}

WT_API void exec_misaligned(const void* p, size_t bytes, bool write, Loc here) {
  Exec& x = exec();
  WT_FAIL(x, "misaligned %s at %s: %s accesses %zu bytes at %p", write ? "vstore" : "vload",
          at(here).c_str(), thread_text(x, x.cur).c_str(), bytes, p);
}

WT_API void exec_trap(Loc here) {
  Exec& x = exec();
  WT_FAIL(x, "__trap() at %s in %s", at(here).c_str(), thread_text(x, x.cur).c_str());
}

}  // namespace simt

const char* simt_flavour() {
  return simt_runtime::has_asan() ? "asan" : simt_runtime::race_hooks ? "race" : "plain";
}

SimtStats simt_stats() {
  return simt_runtime::current_exec ? simt_runtime::current_exec->stats : SimtStats{};
}

}  // namespace wt
