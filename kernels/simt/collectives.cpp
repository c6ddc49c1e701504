// Warp collectives: shuffles, votes, __syncwarp, mma, ldmatrix.
//
// Each lane leaves its operand in the warp's table and parks; the last lane of the mask computes
// all results and releases the others. Results are computed then and not when a lane resumes,
// because a faster lane may already be in its next collective. Lanes that returned from the kernel
// are excused (PTX rule), except for operations that need the whole warp.
#include <cstring>

#include "warptape/kernels/simt/access_counter.h"
#include "warptape/kernels/simt/mma.h"
#include "warptape/kernels/simt/scheduler.h"

namespace wt {
namespace simt_runtime {
namespace {

constexpr unsigned kFull = 0xffffffffu;

WT_FN bool needs_all_lanes(unsigned op) { return op >> 4 >= unsigned(Wait::mma); }

// --- Errors ---
[[noreturn]] WT_COLD void fail_not_in_mask(Exec& x, unsigned op, unsigned mask, Loc here) {
  WT_FAIL(x, "%s at %s: the calling lane %u is not in mask 0x%08x (%s)", op_name(op),
          at(here).c_str(), x.cur % 32, mask, thread_text(x, x.cur).c_str());
}
[[noreturn]] WT_COLD void fail_needs_all(Exec& x, unsigned op, unsigned missing, Loc here) {
  WT_FAIL(x,
          "%s at %s needs all 32 lanes of the warp: lanes 0x%08x have returned or never existed "
          "(%s)",
          op_name(op), at(here).c_str(), missing, thread_text(x, x.cur).c_str());
}
[[noreturn]] WT_COLD void fail_overlap(Exec& x, unsigned op, unsigned mask, Loc here,
                                       const Group& other) {
  WT_FAIL(x, "%s at %s with mask 0x%08x overlaps a pending collective with mask 0x%08x: %s (%s)",
          op_name(op), at(here).c_str(), mask, other.mask, group_text(x, x.cur / 32, other).c_str(),
          thread_text(x, x.cur).c_str());
}
[[noreturn]] WT_COLD void fail_different(Exec& x, unsigned op, Loc here, const Group& other) {
  WT_FAIL(x, "%s at %s: other lanes of mask 0x%08x wait in a different operation: %s (%s)",
          op_name(op), at(here).c_str(), other.mask, group_text(x, x.cur / 32, other).c_str(),
          thread_text(x, x.cur).c_str());
}
// `here` is null when the group was completed by a lane's return.
[[noreturn]] WT_COLD void fail_bad_lane(Exec& x, unsigned w, unsigned op, unsigned lane,
                                        unsigned src, const Loc* here) {
  const unsigned thread = w * 32 + lane;
  const Loc place = here && thread == x.cur ? *here : parked_at(x, thread);
  WT_FAIL(x,
          "%s at %s: lane %u reads lane %u, which does not take part (returned, absent or not in "
          "the mask); %s",
          op_name(op), at(place).c_str(), lane, src, thread_text(x, thread).c_str());
}

// --- Completion: `lanes` have arrived, their operands lie in warp w ---
void shfl_general(Exec& x, unsigned w, unsigned lanes, unsigned op, const Loc* here) {
  Warp& warp = x.warps[w];
  for (unsigned rest = lanes; rest; rest &= rest - 1) {
    const unsigned lane = unsigned(__builtin_ctz(rest)), spec = warp.spec[lane];
    const unsigned arg = spec >> 8 & 31, width = spec >> 16;
    const unsigned base = lane & ~(width - 1);
    unsigned src = lane;
    switch (ShflKind(spec & 3)) {
      case ShflKind::idx:
        src = base + (arg & (width - 1));
        break;
      case ShflKind::up:
        src = lane - base < arg ? lane : lane - arg;
        break;
      case ShflKind::down:
        src = lane + arg >= base + width ? lane : lane + arg;
        break;
      case ShflKind::bfly:
        src = (lane ^ arg) >= base + width ? lane : lane ^ arg;
        break;
    }
    if (lanes >> src & 1)
      warp.out[lane] = warp.in[src];
    else if (x.strict)
      fail_bad_lane(x, w, op, lane, src, here);
    else
      warp.out[lane] = ~uint64_t(0);
  }
}

WT_FN void complete_shfl(Exec& x, unsigned w, unsigned lanes, const Group& g, const Loc* here) {
  Warp& warp = x.warps[w];
  // The usual butterfly of a reduction: every lane, one argument, full width.
  const bool butterfly = g.uniform && (g.first_spec & 3) == unsigned(ShflKind::bfly);
  if (lanes == kFull && butterfly && g.first_spec >> 16 == 32) {
    const unsigned arg = g.first_spec >> 8 & 31;
    for (unsigned lane = 0; lane < 32; ++lane) warp.out[lane] = warp.in[lane ^ arg];
    return;
  }
  shfl_general(x, w, lanes, g.op, here);
}

WT_FN void complete_vote(Exec& x, unsigned w, unsigned lanes, unsigned op) {
  Warp& warp = x.warps[w];
  uint64_t ballot = 0;
  for (unsigned rest = lanes; rest; rest &= rest - 1) {
    const unsigned lane = unsigned(__builtin_ctz(rest));
    ballot |= warp.in[lane] << lane;
  }
  const VoteKind kind = VoteKind(op & 15);
  const uint64_t result = kind == VoteKind::ballot ? ballot
                          : kind == VoteKind::any  ? ballot != 0
                                                   : ballot == lanes;
  for (unsigned rest = lanes; rest; rest &= rest - 1)
    warp.out[unsigned(__builtin_ctz(rest))] = result;
}

void complete_ldmatrix(Exec& x, unsigned w, unsigned op, const Loc* here) {
  const Warp& warp = x.warps[w];
  const unsigned count = op >> 1 & 7;
  const LdmatrixLane* lanes[32];
  for (unsigned i = 0; i < 32; ++i) lanes[i] = reinterpret_cast<const LdmatrixLane*>(warp.in[i]);
  for (unsigned i = 0; i < count * 8; ++i) {
    const char* row = static_cast<const char*>(lanes[i]->row);
    const char* problem = nullptr;
    if (reinterpret_cast<uintptr_t>(row) % 16) problem = "is not 16-byte aligned";
    bool inside = false;
    for (const SharedArray& a : x.arrays) inside |= row >= a.data && row + 16 <= a.data + a.bytes;
    if (!inside) problem = "is not in a shared array";
    if (problem)
      WT_FAIL(x, "ldmatrix at %s: the row address of lane %u %s (%s)", at(*here).c_str(), i,
              problem, thread_text(x, w * 32 + i).c_str());
    if (race_hooks) race_hooks->read(w * 32 + i, row, 16, *here);
  }
  ldmatrix_warp(lanes, count, op & 1);
}

WT_FN void complete(Exec& x, unsigned w, const Group& g, unsigned lanes, const Loc* here) {
  Warp& warp = x.warps[w];
  if (counting) [[unlikely]]
    count_exchange(w, lanes, g.op,
                   here ? *here : parked_at(x, w * 32 + unsigned(__builtin_ctz(lanes))));
  switch (Wait(g.op >> 4)) {
    case Wait::shfl:
      complete_shfl(x, w, lanes, g, here);
      break;
    case Wait::vote:
      complete_vote(x, w, lanes, g.op);
      break;
    case Wait::syncwarp:
      if (race_hooks) race_hooks->warp_sync(w, lanes);
      break;
    case Wait::mma: {
      const MmaLane* operands[32];
      for (unsigned i = 0; i < 32; ++i) operands[i] = reinterpret_cast<const MmaLane*>(warp.in[i]);
      mma_m16n8k16_warp(operands, g.op & 1);
      break;
    }
    case Wait::ldmatrix:
      complete_ldmatrix(x, w, g.op, here);
      break;
    case Wait::butterfly: {
      if (!g.uniform) [[unlikely]]
        fail_different(x, g.op, *here, g);
      void* values[32];
      for (unsigned i = 0; i < 32; ++i) values[i] = reinterpret_cast<void*>(warp.in[i]);
      warp.all(values);
      break;
    }
    default:
      break;
  }
}

// Finds or opens the group of `mask`; the usual case, one group with this mask, is the caller's.
WT_COLD
Group* join_group(Exec& x, Warp& warp, unsigned op, unsigned mask, Loc here) {
  Group *mine = nullptr, *free = nullptr;
  for (Group& g : warp.groups) {
    if (!g.arrived)
      free = free ? free : &g;
    else if (g.mask == mask)
      mine = &g;
    else if (g.mask & mask)
      fail_overlap(x, op, mask, here, g);
  }
  if (mine) return mine;
  if (!free)
    WT_FAIL(x, "%s at %s: a fifth collective with a mask of its own in one warp", op_name(op),
            at(here).c_str());
  free->arrived = 0;
  return free;
}

// The current thread takes part in a collective; returns when its result lies in warp.out.
WT_FN void collective(Exec& x, unsigned op, unsigned mask, uint32_t spec, uint64_t in, Loc here) {
  const unsigned me = x.cur, w = me / 32, lane = me % 32, bit = 1u << lane;
  Warp& warp = x.warps[w];
  if (!(mask & bit)) [[unlikely]]
    fail_not_in_mask(x, op, mask, here);
  Group* g = &warp.groups[0];
  if (warp.pending != 0 && !(warp.pending == 1 && g->arrived && g->mask == mask)) [[unlikely]]
    g = join_group(x, warp, op, mask, here);
  if (!g->arrived) {
    if (needs_all_lanes(op) && (mask != kFull || warp.exited)) [[unlikely]]
      fail_needs_all(x, op, warp.exited | ~mask, here);
    g->mask = mask;
    g->op = op;
    g->first_spec = spec;
    g->uniform = true;
    ++warp.pending;
    ++x.pending_groups;
  } else if (g->op != op) [[unlikely]] {
    fail_different(x, op, here, *g);
  }
  g->uniform &= g->first_spec == spec;
  warp.spec[lane] = spec;
  warp.in[lane] = in;
  g->arrived |= bit;
  const unsigned arrived = g->arrived;
  if (arrived == (mask & ~warp.exited)) {
    g->arrived = 0;
    --warp.pending;
    --x.pending_groups;
    ++x.stats.collectives;
    x.spins = 0;
    complete(x, w, *g, arrived, &here);
    const unsigned others = arrived & ~bit;
    if (x.order == SimtOrder::forward) [[likely]] {
      if (others) make_ready(x, w, others);
      return;  // the last to arrive goes on at once
    }
    make_ready(x, w, arrived);
  }
  park(x, here, op);
}

}  // namespace

void complete_after_exit(Exec& x, unsigned w) {
  Warp& warp = x.warps[w];
  for (Group& g : warp.groups) {
    const unsigned lanes = g.arrived;
    if (lanes && needs_all_lanes(g.op))
      WT_FAIL(x,
              "%s returned from the kernel while lanes of its warp wait in an operation that "
              "needs all of them: %s",
              thread_text(x, x.cur).c_str(), group_text(x, w, g).c_str());
    if (!lanes || lanes != (g.mask & ~warp.exited)) continue;
    g.arrived = 0;
    --warp.pending;
    --x.pending_groups;
    complete(x, w, g, lanes, nullptr);
    make_ready(x, w, lanes);
  }
}

}  // namespace simt_runtime

inline namespace simt {

using namespace simt_runtime;

WT_API uint64_t exec_shfl(unsigned spec, unsigned mask, uint64_t bits, Loc here) {
  Exec& x = exec();
  collective(x, wait_op(Wait::shfl, spec & 7), mask, spec, bits, here);
  return x.warps[x.cur / 32].out[x.cur % 32];
}

WT_API unsigned exec_vote(VoteKind kind, unsigned mask, unsigned predicate, Loc here) {
  Exec& x = exec();
  collective(x, wait_op(Wait::vote, unsigned(kind)), mask, 0, predicate, here);
  return unsigned(x.warps[x.cur / 32].out[x.cur % 32]);
}

WT_API void exec_syncwarp(unsigned mask, Loc here) {
  collective(exec(), wait_op(Wait::syncwarp), mask, 0, 0, here);
}

WT_API void exec_mma_m16n8k16(bool bf16, float* d, const uint32_t* a, const uint32_t* b, Loc here) {
  const MmaLane lane{d, a, b};
  collective(exec(), wait_op(Wait::mma, bf16), kFull, 0, reinterpret_cast<uint64_t>(&lane), here);
}

WT_API void exec_warp(void* value, void (*all)(void* const* values), Loc here) {
  Exec& x = exec();
  x.warps[x.cur / 32].all = all;
  collective(x, wait_op(Wait::butterfly), kFull, uint32_t(reinterpret_cast<uintptr_t>(all)),
             reinterpret_cast<uint64_t>(value), here);
}

WT_API void exec_ldmatrix(unsigned count, bool transposed, uint32_t* r, const void* row, Loc here) {
  const LdmatrixLane lane{r, row};
  collective(exec(), wait_op(Wait::ldmatrix, count << 1 | transposed), kFull, 0,
             reinterpret_cast<uint64_t>(&lane), here);
}

}  // namespace simt
}  // namespace wt
