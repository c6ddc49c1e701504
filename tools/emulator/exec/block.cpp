// A thread block's beginning, its barriers and its end.
#include "exec/block.h"

namespace emu {
namespace {

u32 special_value(Special s, const ThreadBlock& t, u32 thread) {
  const LaunchRequest& r = *t.request;
  const u32 lane = thread % kLanes;
  switch (s) {
    case Special::tid_x:
      return thread % r.block.x;
    case Special::tid_y:
      return thread / r.block.x % r.block.y;
    case Special::tid_z:
      return thread / r.block.x / r.block.y;
    case Special::ntid_x:
      return r.block.x;
    case Special::ntid_y:
      return r.block.y;
    case Special::ntid_z:
      return r.block.z;
    case Special::ctaid_x:
      return t.id[0];
    case Special::ctaid_y:
      return t.id[1];
    case Special::ctaid_z:
      return t.id[2];
    case Special::nctaid_x:
      return r.grid.x;
    case Special::nctaid_y:
      return r.grid.y;
    case Special::nctaid_z:
      return r.grid.z;
    case Special::laneid:
      return lane;
    case Special::warpid:
      return thread / kLanes;
    case Special::nwarpid:
      return (t.threads + kLanes - 1) / kLanes;
    case Special::smid:
      return (t.id[0] + t.id[1] * 7 + t.id[2] * 13) % 16;
    case Special::nsmid:
      return 16;
    case Special::gridid:
      return 1;
    case Special::lanemask_eq:
      return 1u << lane;
    case Special::lanemask_le:
      return u32((u64(2) << lane) - 1);
    case Special::lanemask_lt:
      return (1u << lane) - 1;
    case Special::lanemask_ge:
      return ~((1u << lane) - 1);
    case Special::lanemask_gt:
      return u32(~((u64(2) << lane) - 1));
    case Special::dynamic_smem_size:
      return r.dynamic_shared;
    case Special::total_smem_size:
      return t.shared_end - kSharedBegin;
    case Special::grid_workspace_high:
      return u32(r.grid_workspace >> 32);
    case Special::grid_workspace_low:
      return u32(r.grid_workspace);
    case Special::zero:
      return 0;
    case Special::one:
      return 1;
  }
  return 0;
}

void begin_warp(ThreadBlock& t, Warp& w, u32 index) {
  const Program::Kernel& k = *t.kernel;
  t.registers[index].resize(k.register_bytes + 64);
  t.predicates[index].assign(k.predicates + 1, 0);
  w.base[0] = t.registers[index].data();
  w.base[1] = const_cast<u8*>(t.constants->data());
  w.preds = t.predicates[index].data();
  w.block = &t;
  w.index = index;
  w.carry = 0;
  w.seen = nullptr;
  w.instructions = 0;
  w.local = t.locals.data() + size_t(index) * kLanes * k.info.local_bytes;
  const u32 left = t.threads - index * kLanes;
  w.live = left >= kLanes ? kAllLanes : (1u << left) - 1;
  w.fragments.assign(1, Fragment{0, w.live, Fragment::State::running, 0});
  for (const SpecialSlot& s : k.specials)
    for (u32 l = 0; l < kLanes; ++l) {
      const u32 x = special_value(s.which, t, index * kLanes + l);
      if (s.wide)
        w.at<u64>(s.slot)[l] = x;
      else
        w.at<u32>(s.slot)[l] = x;
    }
  t.copies[index].clear();
  t.groups[index].assign(kLanes, 1);
}

}  // namespace

void ThreadBlock::begin(const Program::Kernel& k, const LaunchRequest& r, u64 number) {
  kernel = &k;
  request = &r;
  id[0] = u32(number % r.grid.x);
  id[1] = u32(number / r.grid.x % r.grid.y);
  id[2] = u32(number / r.grid.x / r.grid.y);
  threads = u32(r.block.count());
  exited = 0;
  ++epoch;
  done = false;
  shared_end = k.shared_dynamic_at + r.dynamic_shared;
  // Bytes 0xff: what was never written is NaN in every floating type.
  shared.assign(shared_end, 0xff);
  words.resize(shared_end / 4 + 1);
  const u32 count = (threads + kLanes - 1) / kLanes;
  locals.assign(size_t(count) * kLanes * k.info.local_bytes, 0xff);
  warps.resize(count);
  registers.resize(count);
  predicates.resize(count);
  copies.resize(count);
  groups.resize(count);
  for (Barrier& b : barriers) b = Barrier{};
  for (u32 i = 0; i < count; ++i) begin_warp(*this, warps[i], i);
}

namespace {

// Gives a fragment what bar.red counted, and lets it go on.
void leave_barrier(ThreadBlock& t, Warp& w, Fragment& f, const Barrier& b) {
  const Op& op = t.kernel->code[f.pc];
  w.mask = f.mask;
  const u32 kind = op.aux >> 2 & 3;
  if (kind == 1)
    for_lanes(w.mask, [&](u32 l) { w.at<u32>(op.d)[l] = b.votes; });
  else if (kind)
    set_pred(w, op.d, (kind == 2 ? b.votes == b.voters : b.votes != 0) ? kAllLanes : 0);
  ++f.pc;
  f.state = Fragment::State::running;
}

void release(ThreadBlock& t, u32 id) {
  Barrier& b = t.barriers[id];
  for (Warp& w : t.warps) {
    const Fragment* first = nullptr;
    for (Fragment& f : w.fragments) {
      if (f.state != Fragment::State::at_barrier || f.barrier != id) continue;
      const bool aligned = t.kernel->code[f.pc].aux & 2;
      if (first && aligned && first->pc != f.pc)
        fault(KernelFault::Kind::barrier, u32(__builtin_ctz(f.mask)),
              "lanes of one warp wait at two different __syncthreads()");
      if (!first) first = &f;
    }
    for (Fragment& f : w.fragments)
      if (f.state == Fragment::State::at_barrier && f.barrier == id) leave_barrier(t, w, f, b);
  }
  b = Barrier{};
  if (id == 0) ++t.epoch;
  ++t.counts->barriers;
}

}  // namespace

void check_barrier(ThreadBlock& t, u32 id) {
  const Barrier& b = t.barriers[id];
  const u32 wanted = b.expected ? b.expected : t.threads - t.exited;
  if (b.arrived && b.arrived >= wanted) release(t, id);
}

// The fragment's lanes arrive. True: it waits.
bool arrive(ThreadBlock& t, Warp& w, Fragment& f, const Op& op) {
  const u32 lane = u32(__builtin_ctz(f.mask));
  const u32 id = w.at<u32>(op.a)[lane];
  if (id > 15) fault(KernelFault::Kind::barrier, lane, "there are 16 barriers, from 0");
  Barrier& b = t.barriers[id];
  if (op.b != kNoSlot) {
    const u32 count = w.at<u32>(op.b)[lane];
    if (count == 0 || count % kLanes)
      fault(KernelFault::Kind::barrier, lane, "a barrier's thread count is a multiple of 32");
    if (b.expected && b.expected != count)
      fault(KernelFault::Kind::barrier, lane, "threads wait at a barrier with different counts");
    b.expected = count;
  }
  b.arrived += u32(__builtin_popcount(f.mask));
  // A count is in whole warps: lanes that are not there, or have exited, come with the first that
  // is.
  if (op.b != kNoSlot && f.mask & (w.live & (0 - w.live)))
    b.arrived += kLanes - u32(__builtin_popcount(w.live));
  if (op.aux >> 2 & 3) {
    const u32 p = w.preds[op.c] ^ (op.aux & 16 ? kAllLanes : 0);
    b.votes += u32(__builtin_popcount(p & f.mask));
    b.voters += u32(__builtin_popcount(f.mask));
  }
  if (op.aux & 1) {  // bar.arrive goes on
    ++f.pc;
    check_barrier(t, id);
    return false;
  }
  f.state = Fragment::State::at_barrier;
  f.barrier = id;
  check_barrier(t, id);
  return true;
}

void ThreadBlock::exit_lanes(Warp& w, u32 mask) {
  static constexpr u32 kAll[kLanes] = {~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u,
                                       ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u,
                                       ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u};
  if (!copies[w.index].empty()) complete_copies(w, mask, kAll);
  w.live &= ~mask;
  exited += u32(__builtin_popcount(mask));
  if (exited == threads) done = true;
  for (u32 id = 0; id < 16; ++id)
    if (barriers[id].arrived && !barriers[id].expected) check_barrier(*this, id);
}

}  // namespace emu
