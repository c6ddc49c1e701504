// ld and st, of single lanes and of vectors.
#include "exec/block.h"
#include "exec/lanes.h"

namespace emu {
namespace {

// Of ld and st: Op::a is the address's base, Op::width its bytes, Op::e the list of the data's
// slots. aux: bits 0-7 elements, 8-15 bytes of a register, 16-19 space, 20 ordered.
u32 packed(u32 elements, u32 lane, ptx::Space space, bool ordered) {
  return elements | lane << 8 | u32(space) << 16 | u32(ordered) << 20;
}
Access access_of(const Op& op, u32 bytes, bool write) {
  return {ptx::Space(op.aux >> 16 & 15), bytes * (op.aux & 255), write, bool(op.aux >> 20 & 1)};
}

template <class T>
void load(Warp& w, const Op& op) {
  u8* p[kLanes];
  const u32 n = op.aux & 255, lane = op.aux >> 8 & 255;
  locate(w, op, op.a, op.width, op.offset, access_of(op, sizeof(T), false), p);
  const Slot* to = w.block->kernel->lists.data() + op.e;
  // All is read before anything is written: the address may be one of the registers.
  alignas(64) T t[4][kLanes];
  for (u32 i = 0; i < n; ++i)
    for (u32 l = 0; l < kLanes; ++l) std::memcpy(&t[i][l], p[l] + i * sizeof(T), sizeof(T));
  for (u32 i = 0; i < n; ++i) write_lanes<T>(w, to[i], lane, [&](u32 l) { return t[i][l]; });
}
template <class T>
void store(Warp& w, const Op& op) {
  u8* p[kLanes];
  const u32 n = op.aux & 255, lane = op.aux >> 8 & 255;
  locate(w, op, op.a, op.width, op.offset, access_of(op, sizeof(T), true), p);
  const Slot* from = w.block->kernel->lists.data() + op.e;
  for (u32 i = 0; i < n; ++i) {
    alignas(64) T room[kLanes];
    const T* x = read_lanes<T>(w, from[i], lane, room);
    for_lanes(w.mask, [&](u32 l) { std::memcpy(p[l] + i * sizeof(T), x + l, sizeof(T)); });
  }
}

// A parameter of the kernel is the same for all lanes.
template <class T>
void load_param(Warp& w, const Op& op) {
  const u32 n = op.aux & 255, lane = op.aux >> 8 & 255;
  const Slot* to = w.block->kernel->lists.data() + op.e;
  const u8* from = static_cast<const u8*>(w.block->request->params) + op.offset;
  for (u32 i = 0; i < n; ++i) {
    T x;
    std::memcpy(&x, from + i * sizeof(T), sizeof(T));
    write_lanes<T>(w, to[i], lane, [=](u32) { return x; });
  }
}

ptx::Space space_of(const Decoder& d) {
  using ptx::Space;
  if (d.has("global")) return Space::global;
  for (const std::string_view part : d.in().opcode)
    if (part.starts_with("shared")) return Space::shared;  // .shared::cta too
  if (d.has("local")) return Space::local;
  if (d.has("const")) return Space::global;
  for (const std::string_view part : d.in().opcode)
    if (part.starts_with("param")) return Space::param;
  return Space::generic;
}
bool is_ordered(const Decoder& d) {
  for (const char* word : {"volatile", "relaxed", "acquire", "release", "mmio"})
    if (d.has(word)) return true;
  return false;
}

void decode_access(Decoder& d, bool is_store) {
  Op& op = d.op();
  ptx::Type t = d.type();
  const ptx::Operand &data = d.operand(is_store ? 1 : 0), &where = d.operand(is_store ? 0 : 1);
  const Decoder::Address a = d.address(where, space_of(d));
  std::vector<Slot> slots;
  u32 lane = 0;
  const auto add = [&](const ptx::Operand& o) {
    if (o.kind == ptx::Operand::Kind::sink) return slots.push_back(d.scratch(8));
    slots.push_back(d.slot(o, t));
    const u32 bytes = o.kind == ptx::Operand::Kind::reg ? d.lane_bytes(o, t) : ptx::type_bytes(t);
    if (lane && bytes != lane) d.unknown("registers of unlike widths");
    lane = bytes;
  };
  if (ptx::type_bytes(t) > 8) d.unknown("128-bit registers");
  if (data.kind == ptx::Operand::Kind::vector)
    for (const ptx::Operand& o : data.elements) add(o);
  else
    add(data);
  if (lane == 0) lane = ptx::type_bytes(t);  // sinks alone
  if (slots.size() > 4) d.unknown("vectors of eight");
  op.a = a.base;
  op.width = u8(a.base_bytes);
  op.offset = a.offset;
  op.e = d.list(slots);
  op.aux = packed(u32(slots.size()), lane, a.space, is_ordered(d));
  if (is_float(t))
    t = ptx::type_bytes(t) == 4   ? ptx::Type::u32
        : ptx::type_bytes(t) == 8 ? ptx::Type::u64
                                  : ptx::Type::u16;
  if (a.space == ptx::Space::param && a.base != kNoSlot) {
    // An address in a register is that of a parameter of the kernel, or of a call's.
    op.aux = packed(u32(slots.size()), lane, ptx::Space::generic, false);
  } else if (a.space == ptx::Space::param) {
    if (is_store) d.unknown("store to a parameter");
    op.run = by_integer(d, t, [](auto x) -> Handler { return load_param<decltype(x)>; });
    return;
  }
  op.run = by_integer(d, t, [&](auto x) -> Handler {
    using T = decltype(x);
    return is_store ? store<T> : load<T>;
  });
  if (is_ordered(d)) op.control = Control::yield;
}

void decode_hint(Decoder& d) {  // to caches, of which there are none
  d.take_all();
  d.op().run = [](Warp&, const Op&) {};
}

}  // namespace

std::vector<OpcodeEntry> memory_opcodes() {
  return {
      {"ld", [](Decoder& d) { decode_access(d, false); }},
      {"ldu", [](Decoder& d) { decode_access(d, false); }},
      {"st", [](Decoder& d) { decode_access(d, true); }},
      {"prefetch", decode_hint},
      {"prefetchu", decode_hint},
      {"discard", decode_hint},
      {"applypriority", decode_hint},
  };
}

}  // namespace emu
