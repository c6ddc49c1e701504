// cp.async and mbarrier: copies that happen later than they are asked for - here at the last moment
// that the rules allow, when something waits for them, so that a missing wait shows.
#include "exec/block.h"
#include "exec/lanes.h"

namespace emu {

void complete_copies(Warp& w, u32 mask, const u32* last_group) {
  ThreadBlock& t = *w.block;
  std::vector<AsyncCopy>& queue = t.copies[w.index];
  std::vector<AsyncCopy> left;
  for (const AsyncCopy& c : queue) {
    if (!(mask >> c.lane & 1) || c.group > last_group[c.lane]) {
      left.push_back(c);
      continue;
    }
    u8* to = t.shared.data() + c.to;
    std::memset(to, 0, c.bytes);
    if (c.read_bytes) std::memcpy(to, reinterpret_cast<const void*>(c.from), c.read_bytes);
  }
  queue.swap(left);
}

namespace {

// cp.async.{ca,cg}.shared.global{...} [dst], [src], size {, read size}
void copy_later(Warp& w, const Op& op) {
  ThreadBlock& t = *w.block;
  const u32 bytes = op.width;
  u8 *to[kLanes], *from[kLanes];
  const Slot* lists = t.kernel->lists.data() + op.target;
  locate(w, op, op.a, lists[0], op.offset, {ptx::Space::shared, bytes, true}, to);
  const u32* read = op.c == kNoSlot ? nullptr : w.at<u32>(op.c);
  const u32 mask = w.mask;
  // Lanes that read nothing (a tile's edge) may hold any address.
  u32 readers = 0;
  for_lanes(mask, [&](u32 l) { readers |= u32(!read || read[l] != 0) << l; });
  // Lanes that read part of their bytes: memory may end behind it. Those of one size together.
  for (u32 rest = readers; rest;) {
    const u32 n = read ? std::min(read[__builtin_ctz(rest)], bytes) : bytes;
    w.mask = 0;
    for_lanes(rest, [&](u32 l) {
      if (!read || std::min(read[l], bytes) == n) w.mask |= 1u << l;
    });
    u8* some[kLanes];
    locate(w, op, op.b, lists[1], i64(i32(lists[2])), {ptx::Space::global, n, false, false, bytes},
           some);
    for_lanes(w.mask, [&](u32 l) { from[l] = some[l]; });
    rest &= ~w.mask;
  }
  w.mask = mask;
  const std::vector<u32>& group = t.groups[w.index];
  for_lanes(mask, [&](u32 l) {
    const u32 n = read ? std::min(read[l], bytes) : bytes;
    std::memset(to[l], 0xff, bytes);  // nothing that may be read before the wait
    t.copies[w.index].push_back({l, group[l], u32(to[l] - t.shared.data()), bytes, n,
                                 n ? reinterpret_cast<u64>(from[l]) : 0});
  });
}
void commit(Warp& w, const Op&) {
  for_lanes(w.mask, [&](u32 l) { ++w.block->groups[w.index][l]; });
}
// All but the last `aux` groups are done; wait_all: those not committed too.
void wait_group(Warp& w, const Op& op) {
  u32 last[kLanes];
  const std::vector<u32>& group = w.block->groups[w.index];
  for (u32 l = 0; l < kLanes; ++l)
    last[l] = op.aux == ~0u ? ~0u : group[l] > op.aux ? group[l] - op.aux - 1 : 0;
  complete_copies(w, w.mask, last);
}

void decode_cp(Decoder& d) {
  Op& op = d.op();
  if (!d.has("async") || d.has("bulk") || d.has("reduce")) d.unknown("cp");
  if (d.has("commit_group")) {
    op.run = commit;
  } else if (d.has("wait_group")) {
    op.aux = u32(d.operand(0).bits);
    op.run = wait_group;
  } else if (d.has("wait_all")) {
    op.aux = ~0u;
    op.run = wait_group;
  } else if (d.has("mbarrier")) {
    d.unknown("cp.async.mbarrier");
  } else {
    const Decoder::Address to = d.address(d.operand(0), ptx::Space::shared),
                           from = d.address(d.operand(1), ptx::Space::global);
    op.a = to.base;
    op.offset = to.offset;
    op.b = from.base;
    op.width = u8(d.operand(2).bits);
    if (d.operands() > 4 || d.has("L2::cache_hint")) d.unknown("cp.async with a cache policy");
    if (d.operands() > 3) {
      if (d.lane_bytes(d.operand(3), ptx::Type::b32) != 4) d.unknown("cp.async with a predicate");
      op.c = d.slot(3, ptx::Type::b32);
    }
    op.target = d.list({to.base_bytes, from.base_bytes, u32(i32(from.offset))});
    op.run = copy_later;
  }
}

// --- mbarrier ---
// 64 bits of shared memory, opaque to programs. Ours: bit 63 the phase, 42-62 the
// arrivals of a phase, 21-41 those still to come, 0-20 bytes to come (two's complement). ---
struct Mbarrier {
  u64 word;
  u32 total() const { return u32(word >> 42 & 0x1fffff); }
  u32 pending() const { return u32(word >> 21 & 0x1fffff); }
  i32 bytes() const { return i32(u32(word & 0x1fffff) << 11) >> 11; }
  bool phase() const { return word >> 63; }
  void set(bool phase, u32 total, u32 pending, i32 bytes) {
    word = u64(phase) << 63 | u64(total & 0x1fffff) << 42 | u64(pending & 0x1fffff) << 21 |
           (u32(bytes) & 0x1fffff);
  }
  void settle() {
    if (pending() == 0 && bytes() == 0) set(!phase(), total(), total(), 0);
  }
};

enum class Mb : u32 { init, inval, arrive, expect, test, parity };
template <Mb W>
void mbarrier(Warp& w, const Op& op) {
  u8* p[kLanes];
  locate(w, op, op.a, op.width, op.offset, {ptx::Space(op.aux & 255), 8, true, true}, p);
  u32 yes = 0;
  for_lanes(w.mask, [&](u32 l) {
    Mbarrier b;
    std::memcpy(&b.word, p[l], 8);
    const u64 before = b.word;
    const u32 count = op.b == kNoSlot ? 1 : w.at<u32>(op.b)[l];
    switch (W) {
      case Mb::init:
        b.set(false, count, count, 0);
        break;
      case Mb::inval:
        b.word = ~u64(0);
        break;
      case Mb::arrive:
        if (op.aux >> 8 & 1) {  // .expect_tx: count is bytes
          b.set(b.phase(), b.total(), b.pending() - 1, b.bytes() + i32(count));
        } else {
          if (b.pending() < count)
            fault(KernelFault::Kind::barrier, l,
                  "more arrivals at an mbarrier than it was made for");
          b.set(b.phase(), b.total(), b.pending() - count, b.bytes());
        }
        b.settle();
        if (op.d != kNoSlot) w.at<u64>(op.d)[l] = before;
        break;
      case Mb::expect:
        b.set(b.phase(), b.total(), b.pending(), b.bytes() + i32(count));
        break;
      case Mb::test:
        yes |= u32(b.phase() != bool(w.at<u64>(op.b)[l] >> 63)) << l;
        break;
      case Mb::parity:
        yes |= u32(b.phase() != bool(w.at<u32>(op.b)[l] & 1)) << l;
        break;
    }
    if (W != Mb::test && W != Mb::parity) std::memcpy(p[l], &b.word, 8);
  });
  if (W == Mb::test || W == Mb::parity) set_pred(w, op.d, yes);
}

void decode_mbarrier(Decoder& d) {
  Op& op = d.op();
  const bool tests = d.has("test_wait") || d.has("try_wait");
  const bool arrives = d.has("arrive");
  const u32 first = tests || arrives ? 1 : 0;
  ptx::Space space = ptx::Space::generic;
  for (const std::string_view part : d.in().opcode) {
    if (part.starts_with("shared")) space = ptx::Space::shared;
    if (part == "shared::cluster") d.unknown("mbarrier of another block");
  }
  const Decoder::Address a = d.address(d.operand(first), space);
  op.a = a.base;
  op.width = u8(a.base_bytes);
  op.offset = a.offset;
  op.aux = u32(a.space) | (arrives && d.has("expect_tx") ? 1u << 8 : 0);
  const u32 next = first + 1;
  if (d.has("init")) {
    op.b = d.slot(next, ptx::Type::b32);
    op.run = mbarrier<Mb::init>;
  } else if (d.has("inval")) {
    op.run = mbarrier<Mb::inval>;
  } else if (arrives) {
    op.d = d.operand(0).kind == ptx::Operand::Kind::sink ? kNoSlot : d.slot(0, ptx::Type::b64);
    if (d.operands() > next) op.b = d.slot(next, ptx::Type::b32);
    op.run = mbarrier<Mb::arrive>;
  } else if (d.has("expect_tx")) {
    op.b = d.slot(next, ptx::Type::b32);
    op.run = mbarrier<Mb::expect>;
  } else if (tests) {
    op.d = d.pred(d.operand(0));
    const bool parity = d.has("parity");
    op.b = d.slot(next, parity ? ptx::Type::b32 : ptx::Type::b64);
    op.run = parity ? mbarrier<Mb::parity> : mbarrier<Mb::test>;
  } else {
    d.unknown("mbarrier");
  }
  op.control = Control::yield;
  // It orders what the warps do to shared memory, as a barrier does, but for those that wait alone.
  d.kernel().checks_shared_races = false;
}

void nothing(Warp&, const Op&) {}

}  // namespace

std::vector<OpcodeEntry> async_opcodes() {
  const auto fence = [](Decoder& d) {
    d.take_all();  // all of them are as strong as the strongest here
    d.op().run = nothing;
    d.op().control = Control::yield;
  };
  return {
      {"cp", decode_cp}, {"mbarrier", decode_mbarrier}, {"membar", fence},
      {"fence", fence},  {"nanosleep", fence},          {"griddepcontrol", fence},
  };
}

}  // namespace emu
