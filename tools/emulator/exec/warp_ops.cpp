// What lanes of a warp do together: shfl, vote, match, redux, elect.
#include "exec/block.h"
#include "exec/lanes.h"

namespace emu {
namespace {

// --- shfl: PTX ISA, "shfl.sync"; c holds the clamp (bits 0-4) and the segment mask (8-12) ---
enum class Way : u32 { up, down, bfly, idx };

void shuffle(Warp& w, const Op& op) {
  const u32 *a = w.at<u32>(op.a), *b = w.at<u32>(op.b), *c = w.at<u32>(op.e);
  const Way way = Way(op.aux & 3);
  u32 r[kLanes], in_range = 0;
  for_lanes(w.mask, [&](u32 l) {
    const u32 by = b[l] & 31, clamp = c[l] & 31, segment = c[l] >> 8 & 31;
    const u32 top = (l & segment) | (clamp & ~segment), bottom = l & segment;
    u32 from = l;
    bool good = true;
    switch (way) {
      case Way::up:
        from = l - by, good = i32(from) >= i32(top);
        break;
      case Way::down:
        from = l + by, good = from <= top;
        break;
      case Way::bfly:
        from = l ^ by, good = from <= top;
        break;
      case Way::idx:
        from = bottom | (by & ~segment), good = from <= top;
        break;
    }
    if (!good) from = l;
    // Undefined by the ISA where lane `from` is not there to give; NaN shows it.
    r[l] = w.mask >> (from & 31) & 1 ? a[from & 31] : 0xffffffffu;
    in_range |= u32(good) << l;
  });
  for_lanes(w.mask, [&](u32 l) { w.at<u32>(op.d)[l] = r[l]; });
  if (op.aux >> 8) set_pred(w, (op.aux >> 8) - 1, in_range);
}

void decode_shfl(Decoder& d) {
  Op& op = d.op();
  const ptx::Operand& to = d.operand(0);
  op.d = d.slot(to, ptx::Type::b32);
  op.a = d.slot(1, ptx::Type::b32);
  op.b = d.slot(2, ptx::Type::b32);
  op.e = d.slot(3, ptx::Type::b32);
  op.aux = u32(d.has("up")     ? Way::up
               : d.has("down") ? Way::down
               : d.has("bfly") ? Way::bfly
                               : Way::idx);
  if (to.second >= 0) {
    ptx::Operand p = to;
    p.index = u32(to.second);
    op.aux |= (d.pred(p) + 1) << 8;
  }
  op.c = d.has("sync") ? d.slot(4, ptx::Type::b32) : kNoSlot;
  op.control = d.has("sync") ? Control::warp_sync : Control::plain;
  op.run = shuffle;
}

// Lanes that take part with this lane: those of its member mask that are here.
u32 members(const Warp& w, const Op& op, u32 lane) {
  return op.c == kNoSlot ? w.mask : w.at<u32>(op.c)[lane] & w.mask;
}

enum class Vote : u32 { all, any, uni, ballot };
void vote(Warp& w, const Op& op) {
  const u32 p = w.preds[op.a] ^ (op.aux >> 8 ? kAllLanes : 0);
  u32 yes = 0, ballots[kLanes];
  for_lanes(w.mask, [&](u32 l) {
    const u32 m = members(w, op, l), set = p & m;
    ballots[l] = set;
    const bool answer = Vote(op.aux & 255) == Vote::all   ? set == m
                        : Vote(op.aux & 255) == Vote::any ? set != 0
                                                          : set == 0 || set == m;
    yes |= u32(answer) << l;
  });
  if (Vote(op.aux & 255) == Vote::ballot)
    for_lanes(w.mask, [&](u32 l) { w.at<u32>(op.d)[l] = ballots[l]; });
  else
    set_pred(w, op.d, yes);
}
void decode_vote(Decoder& d) {
  Op& op = d.op();
  const Vote which = d.has("all")   ? Vote::all
                     : d.has("any") ? Vote::any
                     : d.has("uni") ? Vote::uni
                                    : Vote::ballot;
  op.d = which == Vote::ballot ? d.slot(0, ptx::Type::b32) : d.pred(d.operand(0));
  const ptx::Operand& p = d.operand(1);
  if (p.kind == ptx::Operand::Kind::immediate) d.unknown("vote of a constant");
  op.a = d.pred(p);
  op.aux = u32(which) | (p.negated ? 1u << 8 : 0);
  op.c = d.has("sync") ? d.slot(2, ptx::Type::b32) : kNoSlot;
  op.control = d.has("sync") ? Control::warp_sync : Control::plain;
  op.run = vote;
}

template <class T>
void match(Warp& w, const Op& op) {
  const T* a = w.at<T>(op.a);
  u32 r[kLanes], same = 0;
  for_lanes(w.mask, [&](u32 l) {
    const u32 m = members(w, op, l);
    r[l] = 0;
    for_lanes(m, [&](u32 o) { r[l] |= u32(a[o] == a[l]) << o; });
    same |= u32(r[l] == m) << l;
    if (op.aux & 1 && r[l] != m) r[l] = 0;  // .all
  });
  for_lanes(w.mask, [&](u32 l) { w.at<u32>(op.d)[l] = r[l]; });
  if (op.aux >> 8) set_pred(w, (op.aux >> 8) - 1, same);
}
void decode_match(Decoder& d) {
  Op& op = d.op();
  const ptx::Type t = d.type();
  const ptx::Operand& to = d.operand(0);
  op.d = d.slot(to, ptx::Type::b32);
  op.a = d.slot(1, t);
  op.c = d.slot(2, ptx::Type::b32);
  op.aux = !d.has("any") && d.has("all");
  if (to.second >= 0) {
    ptx::Operand p = to;
    p.index = u32(to.second);
    op.aux |= (d.pred(p) + 1) << 8;
  }
  op.control = Control::warp_sync;
  op.run = ptx::type_bytes(t) == 8 ? match<u64> : match<u32>;
}

enum class Fold : u32 { add, minimum, maximum, band, bor, bxor };
template <class T>
void reduce(Warp& w, const Op& op) {
  const T* a = w.at<T>(op.a);
  T r[kLanes];
  for_lanes(w.mask, [&](u32 l) {
    bool first = true;
    for_lanes(members(w, op, l), [&](u32 o) {
      const T x = a[o], y = r[l];
      if (first) {
        r[l] = x;
      } else {
        switch (Fold(op.aux)) {
          case Fold::add:
            r[l] = T(u32(y) + u32(x));
            break;
          case Fold::minimum:
            r[l] = x < y ? x : y;
            break;
          case Fold::maximum:
            r[l] = x > y ? x : y;
            break;
          case Fold::band:
            r[l] = T(u32(y) & u32(x));
            break;
          case Fold::bor:
            r[l] = T(u32(y) | u32(x));
            break;
          case Fold::bxor:
            r[l] = T(u32(y) ^ u32(x));
            break;
        }
      }
      first = false;
    });
  });
  for_lanes(w.mask, [&](u32 l) { w.at<T>(op.d)[l] = r[l]; });
}
void decode_redux(Decoder& d) {
  Op& op = d.op();
  op.d = d.slot(0, ptx::Type::b32);
  op.a = d.slot(1, ptx::Type::b32);
  op.c = d.slot(2, ptx::Type::b32);
  op.aux = u32(d.has("add")   ? Fold::add
               : d.has("min") ? Fold::minimum
               : d.has("max") ? Fold::maximum
               : d.has("and") ? Fold::band
               : d.has("or")  ? Fold::bor
                              : Fold::bxor);
  if (Fold(op.aux) == Fold::bxor && !d.has("xor")) d.unknown("redux");
  if (d.has("f32")) d.unknown("redux of floats");
  op.control = Control::warp_sync;
  op.run = is_signed(d.type()) ? Handler(reduce<i32>) : Handler(reduce<u32>);
}

void decode_elect(Decoder& d) {
  Op& op = d.op();
  const ptx::Operand& to = d.operand(0);
  op.d = d.slot(to, ptx::Type::b32);
  if (to.second < 0) d.unknown("elect");
  ptx::Operand p = to;
  p.index = u32(to.second);
  op.e = d.pred(p);
  op.c = d.slot(1, ptx::Type::b32);
  op.control = Control::warp_sync;
  op.run = [](Warp& w, const Op& o) {
    u32 leaders[kLanes], elected = 0;  // lanes of one warp may be of several groups
    for_lanes(w.mask, [&](u32 l) {
      leaders[l] = u32(__builtin_ctz(members(w, o, l)));
      elected |= u32(leaders[l] == l) << l;
    });
    for_lanes(w.mask, [&](u32 l) { w.at<u32>(o.d)[l] = leaders[l]; });
    set_pred(w, o.e, elected);
  };
}

}  // namespace

std::vector<OpcodeEntry> warp_opcodes() {
  return {
      {"shfl", decode_shfl},
      {"vote", decode_vote},
      {"match", decode_match},
      {"redux", decode_redux},
      {"elect", decode_elect},
      {"activemask",
       [](Decoder& d) {
         d.op().d = d.slot(0, ptx::Type::b32);
         d.op().run = [](Warp& w, const Op& o) {
           set_lanes(w, w.at<u32>(o.d), [m = w.mask](u32) { return m; });
         };
       }},
  };
}

}  // namespace emu
