// From addresses to memory: spaces, bounds, alignment, races.
#include "device/memory.h"
#include "exec/block.h"

namespace emu {
namespace {

using Kind = KernelFault::Kind;

const char* verb(const Access& a) { return a.write ? "writes" : "reads"; }

std::string hex(u64 x) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(x));
  return text;
}

[[noreturn]] void out_of_bounds(u32 lane, const Access& a, u64 address) {
  fault(Kind::illegal_address, lane,
        std::string(verb(a)) + " " + std::to_string(a.bytes) + " bytes at " + hex(address) + ": " +
            describe_address(address));
}
[[noreturn]] void misaligned(u32 lane, const Access& a, u64 address) {
  fault(Kind::misaligned, lane,
        std::string(verb(a)) + " " + std::to_string(a.bytes) + " bytes at " + hex(address) +
            ", which is not a multiple of " + std::to_string(a.align ? a.align : a.bytes));
}

void check_order(Warp& w, const Access& a, const u64 (&at)[kLanes]) {
  const LaunchRequest& r = *w.block->request;
  if (!r.op) return;
  const auto ask = [&](u32 lane, u64 address, u32 bytes) {
    Conflict c;
    if (note_access(*r.op, address, bytes, a.write, &c, a.ordered)) return;
    w.block->tell(Kind::order, lane,
                  std::string(verb(a)) + " " + std::to_string(a.bytes) + " bytes at " +
                      hex(address) + " which nothing orders after the operation that " +
                      (c.other_wrote ? "wrote" : "read") + " them: " + describe_address(address) +
                      "\n  the other is " + describe_op(c.other));
  };
  // Stretches, of all lanes as most accesses are, or of some, are asked for at once.
  u32 first = u32(__builtin_ctz(w.mask)), bytes = a.bytes;
  u64 before = at[first];
  for_lanes(w.mask & (w.mask - 1), [&](u32 l) {
    if (at[l] == before) return;
    if (at[l] == at[first] + bytes) {
      bytes += a.bytes;
    } else {
      ask(first, at[first], bytes);
      first = l, bytes = a.bytes;
    }
    before = at[l];
  });
  ask(first, at[first], bytes);
}

// Lanes that do not count get a valid pointer of one that does.
void others_too(u32 mask, u8* (&p)[kLanes]) {
  if (mask == kAllLanes) return;
  u8* const one = p[__builtin_ctz(mask)];
  for (u32 l = 0; l < kLanes; ++l)
    if (!(mask >> l & 1)) p[l] = one;
}

void global(Warp& w, const Access& a, const u64 (&at)[kLanes], u8* (&p)[kLanes]) {
  u64 low = at[0], high = at[0];
  for (u32 l = 1; l < kLanes; ++l) {
    low = at[l] < low ? at[l] : low;
    high = at[l] > high ? at[l] : high;
  }
  const Block* b = w.seen;
  if (!b || low < b->begin || high + a.bytes > b->end) {
    b = find_block(low);
    w.seen = b;
  }
  const auto usable = [&](const Block& block) {
    const int device = w.block->request->device;
    return block.device == device || reachable(block, device);
  };
  if (b && low >= b->begin && high + a.bytes <= b->end && usable(*b)) [[likely]] {
    for (u32 l = 0; l < kLanes; ++l) p[l] = reinterpret_cast<u8*>(at[l] + u64(b->alias));
  } else {
    for_lanes(w.mask, [&](u32 l) {
      const Block* one = find_block(at[l]);
      if (!one || at[l] + a.bytes > one->end) out_of_bounds(l, a, at[l]);
      if (!usable(*one))
        fault(Kind::illegal_address, l,
              std::string(verb(a)) + " memory of another device: " + describe_address(at[l]));
      p[l] = reinterpret_cast<u8*>(at[l] + u64(one->alias));
    });
    others_too(w.mask, p);
  }
  check_order(w, a, at);
}

// --- shared memory ---
void race(Warp& w, const Access& a, u32 lane, u32 offset, const char* did, u32 other) {
  w.block->tell(Kind::race, lane,
                std::string(verb(a)) + " shared memory at offset " + std::to_string(offset) +
                    " which warp " + std::to_string(other) + " " + did +
                    " with no barrier between: __syncthreads() is missing");
}

void note_bytes(Warp& w, const Access& a, u32 lane, u32 begin, u32 behind) {
  ThreadBlock& t = *w.block;
  for (u32 at = begin; at < behind;) {
    const u32 end = std::min((at | 3) + 1, behind);
    const u8 bytes = u8(((1u << (end - at)) - 1) << (at & 3));
    SharedWord& word = t.words[at / 4];
    const bool written = word.write_epoch == t.epoch && word.write_bytes & bytes;
    if (written && word.write_warp != w.index) race(w, a, lane, at, "wrote", word.write_warp);
    if (a.write) {
      const bool read = word.read_epoch == t.epoch && word.read_bytes & bytes;
      if (read && (word.read_warp != w.index || word.many_readers))
        race(w, a, lane, at, "read", word.read_warp);
      if (word.write_epoch != t.epoch || word.write_warp != w.index) word.write_bytes = 0;
      word.write_epoch = t.epoch;
      word.write_warp = u16(w.index);
      word.write_bytes |= bytes;
    } else {
      if (word.read_epoch != t.epoch) word.read_bytes = 0, word.many_readers = false;
      if (word.read_epoch == t.epoch && word.read_warp != w.index) word.many_readers = true;
      word.read_epoch = t.epoch;
      word.read_warp = u16(w.index);
      word.read_bytes |= bytes;
    }
    at = end;
  }
}

// A whole word, where nothing conflicts. False: not so.
bool note_word(SharedWord& word, u32 epoch, u16 warp, bool write) {
  if (word.write_epoch == epoch && word.write_warp != warp) return false;
  const bool read = word.read_epoch == epoch;
  if (write) {
    if (read && (word.read_warp != warp || word.many_readers)) return false;
    word.write_epoch = epoch;
    word.write_warp = warp;
    word.write_bytes = 15;
  } else {
    word.many_readers = read && (word.many_readers || word.read_warp != warp);
    word.read_epoch = epoch;
    word.read_warp = warp;
    word.read_bytes = 15;
  }
  return true;
}

void note_shared(Warp& w, const Access& a, u32 lane, u32 offset) {
  ThreadBlock& t = *w.block;
  if ((offset | a.bytes) % 4 == 0) {
    const u32 end = offset + a.bytes;
    while (offset < end && note_word(t.words[offset / 4], t.epoch, u16(w.index), a.write))
      offset += 4;
    if (offset == end) return;
    return note_bytes(w, a, lane, offset, end);
  }
  note_bytes(w, a, lane, offset, offset + a.bytes);
}

void shared(Warp& w, const Access& a, const u64 (&at)[kLanes], u8* (&p)[kLanes]) {
  ThreadBlock& t = *w.block;
  u64 low = ~u64(0), high = 0;
  for (u32 l = 0; l < kLanes; ++l) {
    const u64 offset = at[l] & ~kWindowMask;
    low = std::min(low, offset);
    high = std::max(high, offset);
    p[l] = t.shared.data() + offset;
  }
  const auto check = [&](u32 l) {
    const u64 offset = at[l] & ~kWindowMask;
    if (offset < kSharedBegin || offset + a.bytes > t.shared_end)
      fault(Kind::illegal_address, l,
            std::string(verb(a)) + " " + std::to_string(a.bytes) + " bytes at offset " +
                std::to_string(i64(offset) - kSharedBegin) + " of the block's " +
                std::to_string(t.shared_end - kSharedBegin) + " bytes of shared memory");
  };
  if (low < kSharedBegin || high + a.bytes > t.shared_end) [[unlikely]]
    for_lanes(w.mask, check);
  if (!t.kernel->checks_shared_races || a.ordered) return;
  u64 before = ~u64(0);
  for_lanes(w.mask, [&](u32 l) {
    if (at[l] != before) note_shared(w, a, l, u32(at[l]));
    before = at[l];
  });
}

void one_by_one(Warp& w, const Access& a, const u64 (&at)[kLanes], u8* (&p)[kLanes]) {
  const u32 mask = w.mask;
  for_lanes(mask, [&](u32 l) {
    u64 one[kLanes];
    u8* to[kLanes];
    for (u64& x : one) x = at[l];
    w.mask = 1u << l;
    const u64 window = at[l] & kWindowMask;
    if (window == 0) {
      global(w, a, one, to);
      p[l] = to[l];
    } else if (window == kSharedWindow) {
      shared(w, a, one, to);
      p[l] = to[l];
    } else if (window == kLocalWindow) {
      const u64 offset = at[l] & ~kWindowMask;
      const u32 room = w.block->kernel->info.local_bytes;
      if (offset + a.bytes > room) out_of_bounds(l, a, at[l]);
      p[l] = w.local + u64(l) * room + offset;
    } else if (window == kParamWindow && !a.write) {
      const u64 offset = at[l] & ~kWindowMask;
      if (offset + a.bytes > w.block->kernel->info.params_bytes) out_of_bounds(l, a, at[l]);
      p[l] = static_cast<u8*>(const_cast<void*>(w.block->request->params)) + offset;
    } else {
      out_of_bounds(l, a, at[l]);
    }
  });
  w.mask = mask;
  others_too(mask, p);
}

// --- counting: sectors of 32 bytes, and the turns that shared memory's 32 banks need ---
u32 sectors(const u64 (&at)[kLanes], u32 mask, u32 bytes) {
  u64 seen[kLanes * 4];
  u32 n = 0;
  for_lanes(mask, [&](u32 l) {
    for (u64 s = at[l] / 32; s <= (at[l] + bytes - 1) / 32; ++s) {
      bool known = false;
      for (u32 i = n; i-- > 0 && !known;) known = seen[i] == s;
      if (!known) seen[n++] = s;
    }
  });
  return n;
}
u32 wavefronts(const u64 (&at)[kLanes], u32 mask, u32 bytes) {
  // Wide accesses go in parts of 128 bytes: 8 lanes of 16 bytes, 16 lanes of 8.
  const u32 group = bytes >= 16 ? 8 : bytes == 8 ? 16 : 32;
  u32 total = 0;
  for (u32 from = 0; from < kLanes; from += group) {
    const u32 part = mask & (group == 32 ? kAllLanes : ((1u << group) - 1) << from);
    u64 words[32][33];
    u32 count[32] = {}, worst = 0;
    for_lanes(part, [&](u32 l) {
      for (u64 word = at[l] / 4; word <= (at[l] + bytes - 1) / 4; ++word) {
        u32& n = count[word & 31];
        bool known = false;
        for (u32 i = 0; i < n && !known; ++i) known = words[word & 31][i] == word;
        if (!known && n < 33) words[word & 31][n++] = word;
        worst = std::max(worst, n);
      }
    });
    total += worst;
  }
  return total;
}

void count(Warp& w, const Op& op, const Access& a, bool is_shared, const u64 (&at)[kLanes]) {
  ThreadBlock& t = *w.block;
  const u32 units = is_shared ? wavefronts(at, w.mask, a.bytes) : sectors(at, w.mask, a.bytes);
  LineCounts& line = (*t.request->profile)[op.source];
  ++line.requests;
  line.units += units;
  (is_shared ? t.counts->shared_requests : t.counts->global_requests) += 1;
  (is_shared ? t.counts->shared_wavefronts : t.counts->global_sectors) += units;
}

}  // namespace

void locate(Warp& w, const Op& op, Slot base, u32 base_bytes, i64 offset, const Access& a,
            u8* (&p)[kLanes]) {
  alignas(64) u64 at[kLanes];
  if (base == kNoSlot) {
    for (u64& x : at) x = u64(offset);
  } else if (base_bytes == 8) {
    const u64* b = w.at<u64>(base);
    for (u32 l = 0; l < kLanes; ++l) at[l] = b[l] + u64(offset);
  } else {
    const u32* b = w.at<u32>(base);
    for (u32 l = 0; l < kLanes; ++l) at[l] = u32(b[l] + u32(offset));
  }
  if (w.mask != kAllLanes) {
    const u64 valid = at[__builtin_ctz(w.mask)];
    for (u32 l = 0; l < kLanes; ++l) at[l] = w.mask >> l & 1 ? at[l] : valid;
  }
  u64 any = 0, all = ~u64(0);
  for (u32 l = 0; l < kLanes; ++l) any |= at[l], all &= at[l];
  const u32 beside = (a.align ? a.align : a.bytes) - 1;
  if (any & beside) [[unlikely]]
    for_lanes(w.mask, [&](u32 l) {
      if (at[l] & beside) misaligned(l, a, at[l]);
    });
  ptx::Space space = a.space;
  if (space == ptx::Space::generic && (any & kWindowMask) == (all & kWindowMask)) {
    if ((any & kWindowMask) == 0) space = ptx::Space::global;
    if ((any & kWindowMask) == kSharedWindow) space = ptx::Space::shared;
  }
  switch (space) {
    case ptx::Space::global:
    case ptx::Space::constant:
      global(w, a, at, p);
      break;
    case ptx::Space::shared:
      shared(w, a, at, p);
      break;
    case ptx::Space::local: {
      const u32 room = w.block->kernel->info.local_bytes;
      for_lanes(w.mask, [&](u32 l) {
        if ((at[l] & ~kWindowMask) + a.bytes > room) out_of_bounds(l, a, at[l]);
        p[l] = w.local + u64(l) * room + (at[l] & ~kWindowMask);
      });
      others_too(w.mask, p);
      return;
    }
    default:
      one_by_one(w, a, at, p);
      return;
  }
  if (w.block->request->profile) [[unlikely]]
    count(w, op, a, space == ptx::Space::shared, at);
}

}  // namespace emu
