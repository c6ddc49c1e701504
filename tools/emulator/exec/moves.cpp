// Moves, selections and addresses: mov, selp, cvta and their like.
#include <chrono>

#include "exec/block.h"
#include "exec/lanes.h"

namespace emu {
namespace {

using Kind = ptx::Operand::Kind;

template <class T>
void move(Warp& w, const Op& op) {
  const T* a = w.at<T>(op.a);
  set_lanes(w, w.at<T>(op.d), [=](u32 l) { return a[l]; });
}
Handler mover(const Decoder& d, u32 bytes) {
  if (bytes == 2) return move<u16>;
  if (bytes == 4) return move<u32>;
  if (bytes == 8) return move<u64>;
  d.unknown("mov");
}
template <class T>
void select(Warp& w, const Op& op) {
  const T *a = w.at<T>(op.a), *b = w.at<T>(op.b);
  const u32 p = w.preds[op.c];
  set_lanes(w, w.at<T>(op.d), [=](u32 l) { return p >> l & 1 ? a[l] : b[l]; });
}

// mov.b64 %rd, {%r1, %r2} and its like: parts of `width` bytes, listed from the lowest.
void pack(Warp& w, const Op& op) {
  const u32 part = op.width, n = op.aux, whole = part * n;
  const Slot* from = w.block->kernel->lists.data() + op.e;
  alignas(64) u8 bytes[kLanes * 16];
  for (u32 i = 0; i < n; ++i)
    for (u32 l = 0; l < kLanes; ++l)
      std::memcpy(bytes + l * whole + i * part, w.at<u8>(from[i]) + l * part, part);
  for_lanes(w.mask,
            [&](u32 l) { std::memcpy(w.at<u8>(op.d) + l * whole, bytes + l * whole, whole); });
}
void unpack(Warp& w, const Op& op) {
  const u32 part = op.width, n = op.aux, whole = part * n;
  const Slot* to = w.block->kernel->lists.data() + op.e;
  alignas(64) u8 bytes[kLanes * 16];
  std::memcpy(bytes, w.at<u8>(op.a), kLanes * whole);
  for (u32 i = 0; i < n; ++i)
    for_lanes(w.mask, [&](u32 l) {
      std::memcpy(w.at<u8>(to[i]) + l * part, bytes + l * whole + i * part, part);
    });
}
void decode_vector(Decoder& d, const ptx::Operand& vector, const ptx::Operand& whole, bool packs) {
  Op& op = d.op();
  const u32 bytes = ptx::type_bytes(d.type());
  op.aux = u32(vector.elements.size());
  op.width = u8(bytes / op.aux);
  const ptx::Type part = op.width == 8   ? ptx::Type::b64
                         : op.width == 4 ? ptx::Type::b32
                         : op.width == 2 ? ptx::Type::b16
                                         : ptx::Type::b8;
  if (op.width < 2) d.unknown("bytes of a vector");
  std::vector<Slot> slots;
  for (const ptx::Operand& o : vector.elements) slots.push_back(d.slot(o, part));
  op.e = d.list(slots);
  (packs ? op.d : op.a) = d.slot(whole, d.type());
  op.run = packs ? pack : unpack;
}

u64 now_clock(const Warp& w) { return w.block->clock + w.instructions * 4; }

void decode_mov(Decoder& d) {
  Op& op = d.op();
  const ptx::Type t = d.type();
  if (t == ptx::Type::pred) {
    op.d = d.pred(d.operand(0));
    const ptx::Operand& from = d.operand(1);
    if (from.kind == Kind::immediate) {
      op.aux = from.bits ? kAllLanes : 0;
      op.run = [](Warp& w, const Op& o) { set_pred(w, o.d, o.aux); };
    } else {
      op.a = d.pred(from);
      op.aux = from.negated ? kAllLanes : 0;
      op.run = [](Warp& w, const Op& o) { set_pred(w, o.d, w.preds[o.a] ^ o.aux); };
    }
    return;
  }
  if (d.operand(1).kind == Kind::vector) return decode_vector(d, d.operand(1), d.operand(0), true);
  if (d.operand(0).kind == Kind::vector) return decode_vector(d, d.operand(0), d.operand(1), false);
  const ptx::Operand& from = d.operand(1);
  op.d = d.slot(0, t);
  if (from.kind == Kind::special &&
      (from.name == "%clock" || from.name == "%clock64" || from.name == "%globaltimer" ||
       from.name == "%clock_hi" || from.name == "%globaltimer_lo" ||
       from.name == "%globaltimer_hi")) {
    const bool high = from.name.ends_with("_hi");
    if (ptx::type_bytes(t) == 8)
      op.run = [](Warp& w, const Op& o) {
        set_lanes(w, w.at<u64>(o.d), [c = now_clock(w)](u32) { return c; });
      };
    else
      op.run = high ? Handler([](Warp& w, const Op& o) {
        set_lanes(w, w.at<u32>(o.d), [c = u32(now_clock(w) >> 32)](u32) { return c; });
      })
                    : Handler([](Warp& w, const Op& o) {
                        set_lanes(w, w.at<u32>(o.d), [c = u32(now_clock(w))](u32) { return c; });
                      });
    return;
  }
  op.a = d.slot(1, t);
  // The address of a parameter: nvcc takes it for structs that a kernel indexes.
  if (from.kind == Kind::symbol)
    if (const Decoder::Place* p = d.place(from.name); p && p->space == ptx::Space::param)
      op.a = d.constant(kParamWindow + u64(p->offset + from.offset), 8);
  op.run = mover(d, ptx::type_bytes(t));
}

void decode_selp(Decoder& d) {
  const ptx::Type t = d.type();
  Op& op = d.op();
  op.d = d.slot(0, t);
  op.a = d.slot(1, t);
  op.b = d.slot(2, t);
  op.c = d.pred(d.operand(3));
  if (d.operand(3).negated) std::swap(op.a, op.b);
  const u32 bytes = ptx::type_bytes(t);
  op.run = bytes == 2 ? select<u16> : bytes == 4 ? select<u32> : select<u64>;
}

void decode_slct(Decoder& d) {
  const ptx::Type t = d.type(0);
  Op& op = d.op();
  plain_operands(d, t);
  op.c = d.slot(3, d.type(1));
  const bool floating = is_float(d.type(1));
  if (ptx::type_bytes(t) != 4) d.unknown("slct");
  op.aux = floating;
  op.run = [](Warp& w, const Op& o) {
    const u32 *a = w.at<u32>(o.a), *b = w.at<u32>(o.b);
    const i32* c = w.at<i32>(o.c);
    const float* f = w.at<float>(o.c);
    const bool is_real = o.aux;
    set_lanes(w, w.at<u32>(o.d),
              [=](u32 l) { return (is_real ? f[l] >= 0 : c[l] >= 0) ? a[l] : b[l]; });
  };
}

// cvta: addresses of the global space are generic ones; those of others lie in windows.
void decode_cvta(Decoder& d) {
  Op& op = d.op();
  const ptx::Type t = d.type();
  op.d = d.slot(0, t);
  u64 window = 0;
  if (d.has("shared")) window = kSharedWindow;
  if (d.has("local")) window = kLocalWindow;
  if (d.has("param")) window = kParamWindow;
  const ptx::Operand& from = d.operand(1);
  if (from.kind == Kind::symbol) {
    const Decoder::Place* p = d.place(from.name);
    if (p && p->space == ptx::Space::param) {
      op.a = d.constant(u64(p->offset + from.offset), 8);
    } else {
      op.a = d.slot(from, ptx::Type::b64);
    }
  } else {
    op.a = d.slot(from, t);
  }
  if (!window || ptx::type_bytes(t) == 4) {
    op.run = mover(d, ptx::type_bytes(t));
    return;
  }
  if (d.has("to")) {
    op.run = [](Warp& w, const Op& o) {
      const u64* a = w.at<u64>(o.a);
      set_lanes(w, w.at<u64>(o.d), [=](u32 l) { return a[l] & ~kWindowMask; });
    };
  } else {
    op.offset = i64(window);
    op.run = [](Warp& w, const Op& o) {
      const u64 *a = w.at<u64>(o.a), base = u64(o.offset);
      set_lanes(w, w.at<u64>(o.d), [=](u32 l) { return a[l] | base; });
    };
  }
}

void decode_isspacep(Decoder& d) {
  Op& op = d.op();
  op.d = d.pred(d.operand(0));
  op.a = d.slot(1, ptx::Type::b64);
  op.offset = d.has("shared")  ? i64(kSharedWindow)
              : d.has("local") ? i64(kLocalWindow)
              : d.has("param") ? i64(kParamWindow)
                               : 0;
  op.run = [](Warp& w, const Op& o) {
    const u64* a = w.at<u64>(o.a);
    set_pred(w, o.d, lane_bits([&](u32 l) { return (a[l] & kWindowMask) == u64(o.offset); }));
  };
}

}  // namespace

std::vector<OpcodeEntry> move_opcodes() {
  return {
      {"mov", decode_mov},   {"selp", decode_selp},         {"slct", decode_slct},
      {"cvta", decode_cvta}, {"isspacep", decode_isspacep},
  };
}

}  // namespace emu
