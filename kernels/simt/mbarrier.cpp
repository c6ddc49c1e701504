// mbarrier on the host; and what the units of a block do while its threads wait.
#include <cstring>

#include "warptape/kernels/simt/async_units.h"

namespace wt {
namespace simt_runtime {
namespace {

constexpr uint64_t kMark =
    0x6d62617272696572;  // what lies in an mbarrier's 8 bytes, plus its index

std::string barrier_name(const MbarrierState& b) {
  return strf("the mbarrier made at %s", at(b.made).c_str());
}

void end_phase(Exec& x, MbarrierState& b) {
  for (const TmaLoad& l : x.units->loads)
    if (l.barrier == b.index && l.phase == b.phase)
      WT_FAIL(x,
              "%s: its phase %llu ends while the TMA load at %s, asked for in it, is under way: it "
              "expects fewer bytes than its loads bring",
              barrier_name(b).c_str(), (unsigned long long)b.phase, at(l.at).c_str());
  if (b.phase > 0 && b.waited < b.phase)
    WT_FAIL(
        x,
        "%s: phase %llu has ended before anybody waited for phase %llu, and who does now cannot "
        "tell the two apart (%s)",
        barrier_name(b).c_str(), (unsigned long long)b.phase, (unsigned long long)b.phase - 1,
        thread_text(x, x.cur).c_str());
  ++b.phase;
  b.pending = b.count;
  x.spins = 0;
  if (race_hooks) race_hooks->mbarrier_phase(b.index);
  if (!b.waiters.empty()) b.waited = b.phase;
  for (const unsigned t : b.waiters) make_ready(x, t / 32, 1u << t % 32);
  b.waiters.clear();
}

bool phase_ended(const MbarrierState& b, unsigned parity) { return (b.phase & 1) != parity; }

void pass_wait(MbarrierState& b, unsigned thread) {
  if (b.waited < b.phase) b.waited = b.phase;
  if (race_hooks) race_hooks->mbarrier_wait(b.index, thread);
}

void touch_barrier(Exec& x, const MbarrierState& b, bool made, Loc here) {
  if (race_hooks) race_hooks->mbarrier_touch(b.index, x.cur, b.place, made, here);
}

void check_parity(Exec& x, unsigned parity, Loc here) {
  if (parity > 1)
    WT_FAIL(x, "mbarrier_wait at %s: the parity of a phase is 0 or 1, not %u (%s)",
            at(here).c_str(), parity, thread_text(x, x.cur).c_str());
}

}  // namespace

AsyncUnits& async_units(Exec& x) {
  if (!x.units) x.units = new AsyncUnits;
  x.units->used = true;
  return *x.units;
}

void begin_units(Exec& x) {
  if (x.units && x.units->used) {
    delete x.units;
    x.units = nullptr;
  }
}

bool in_shared_array(const Exec& x, const char* p, size_t bytes) {
  for (const SharedArray& a : x.arrays)
    if (p >= a.data && p + bytes <= a.data + a.bytes) return true;
  return false;
}

MbarrierState& find_barrier(Exec& x, const void* barrier, const char* what, Loc here) {
  const char* const p = static_cast<const char*>(barrier);
  for (MbarrierState& b : async_units(x).barriers)
    if (b.place == p) {
      uint64_t mark;
      std::memcpy(&mark, p, sizeof mark);
      if (mark != kMark + b.index)
        WT_FAIL(x, "%s at %s: something has been written over %s (%s)", what, at(here).c_str(),
                barrier_name(b).c_str(), thread_text(x, x.cur).c_str());
      return b;
    }
  WT_FAIL(x, "%s at %s: no mbarrier_init has made an mbarrier there (%s)", what, at(here).c_str(),
          thread_text(x, x.cur).c_str());
}

// Arrivals or bytes have come.
void barrier_advanced(Exec& x, MbarrierState& b) {
  if (b.pending == 0 && b.bytes == 0) end_phase(x, b);
}

// No thread can go on: the units work until one can. Returns it, or -1.
int run_units(Exec& x) {
  AsyncUnits& u = *x.units;
  while (!u.loads.empty()) {
    const size_t n = u.loads.size();
    land(x, x.order == SimtOrder::forward   ? 0
            : x.order == SimtOrder::reverse ? n - 1
                                            : (next_random(x) >> 16) % n);
    if (const int to = pick(x); to >= 0) return to;
  }
  for (const MbarrierState& b : u.barriers)
    if (b.pending == 0 && b.bytes != 0)
      WT_FAIL(x,
              "%s: everybody has arrived and its loads have landed, but it expects %lld bytes %s",
              barrier_name(b).c_str(), (long long)(b.bytes < 0 ? -b.bytes : b.bytes),
              b.bytes < 0 ? "less than they brought" : "more than they bring");
  return -1;
}

// For the report of a deadlock.
std::string units_text(const Exec& x) {
  std::string text;
  if (!x.units) return text;
  for (const MbarrierState& b : x.units->barriers)
    if (!b.waiters.empty())
      text += strf("\n  %s is in phase %llu: %u of %u arrivals are missing, %lld bytes to land",
                   barrier_name(b).c_str(), (unsigned long long)b.phase, b.pending, b.count,
                   (long long)b.bytes);
  return text;
}

// After a block: nothing may be under way, for the next block has the same shared memory.
void finish_units(Exec& x) {
  if (!x.units || x.failed) return;
  const auto failed = [&](const char* what, Loc here) {
    x.failed = true;
    x.error =
        strf("block %s ended while %s at %s is under way: nobody has waited for it",
             dim_text({::blockIdx.x, ::blockIdx.y, ::blockIdx.z}).c_str(), what, at(here).c_str());
  };
  if (!x.units->loads.empty()) return failed("the TMA load", x.units->loads[0].at);
  for (const Warpgroup& g : x.units->groups)
    for (const Wgmma& m : g.products)
      if (!g.waited_for(m)) return failed("the wgmma", m.at);
}

void drop_units(Exec& x) { delete x.units; }

}  // namespace simt_runtime

inline namespace simt {

using namespace simt_runtime;

WT_API void exec_mbarrier_init(void* barrier, unsigned arrivals, Loc here) {
  Exec& x = exec();
  AsyncUnits& u = async_units(x);
  char* const p = static_cast<char*>(barrier);
  const char* problem = nullptr;
  if (!in_shared_array(x, p, 8))
    problem = "is not in a shared array";
  else if (reinterpret_cast<uintptr_t>(p) % 8)
    problem = "is not at a multiple of 8 bytes";
  else if (arrivals == 0 || arrivals >= 1u << 20)
    problem = "takes no arrivals, or 2^20 and more";
  for (const MbarrierState& b : u.barriers)
    if (b.place == p) problem = "has been made before";
  if (problem)
    WT_FAIL(x, "mbarrier_init at %s: the mbarrier %s (%s)", at(here).c_str(), problem,
            thread_text(x, x.cur).c_str());
  const unsigned index = unsigned(u.barriers.size());
  MbarrierState b{};
  b.place = p;
  b.index = index;
  b.count = b.pending = arrivals;
  b.made = here;
  touch_barrier(x, b, true, here);
  const uint64_t mark = kMark + index;
  std::memcpy(p, &mark, sizeof mark);
  u.barriers.push_back(b);
}

WT_API void exec_mbarrier_init_fence() {
  for (MbarrierState& b : async_units(exec()).barriers) b.fenced = true;
}

WT_API void exec_mbarrier_arrive(void* barrier, unsigned bytes, bool arrives, Loc here) {
  Exec& x = exec();
  MbarrierState& b =
      find_barrier(x, barrier, arrives ? "mbarrier_arrive" : "mbarrier_expect", here);
  touch_barrier(x, b, false, here);
  b.bytes += bytes;
  if (arrives) {
    if (b.pending == 0)
      WT_FAIL(x, "mbarrier_arrive at %s: more than the %u arrivals that a phase of %s takes (%s)",
              at(here).c_str(), b.count, barrier_name(b).c_str(), thread_text(x, x.cur).c_str());
    if (race_hooks) race_hooks->mbarrier_arrive(b.index, x.cur);
    --b.pending;
  }
  barrier_advanced(x, b);
}

WT_API bool exec_mbarrier_try_wait(void* barrier, unsigned parity, Loc here) {
  Exec& x = exec();
  MbarrierState* b = &find_barrier(x, barrier, "mbarrier_try_wait", here);
  touch_barrier(x, *b, false, here);
  check_parity(x, parity, here);
  if (!phase_ended(*b, parity)) {
    if (x.ready_warps || x.units->loads.empty())
      exec_poll(here);
    else
      land(x, x.order == SimtOrder::reverse ? x.units->loads.size() - 1 : 0);
    b = &find_barrier(x, barrier, "mbarrier_try_wait", here);
  }
  if (!phase_ended(*b, parity)) return false;
  pass_wait(*b, x.cur);
  return true;
}

WT_API void exec_mbarrier_wait(void* barrier, unsigned parity, Loc here) {
  Exec& x = exec();
  MbarrierState& b = find_barrier(x, barrier, "mbarrier_wait", here);
  touch_barrier(x, b, false, here);
  check_parity(x, parity, here);
  const unsigned index = b.index;
  if (!phase_ended(b, parity)) {
    b.waiters.push_back(x.cur);
    park(x, here, wait_op(Wait::mbarrier));
  }
  pass_wait(x.units->barriers[index], x.cur);
}

}  // namespace simt
}  // namespace wt
