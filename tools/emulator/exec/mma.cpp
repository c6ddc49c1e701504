// Tensor core instructions: ldmatrix and mma.sync; PTX ISA, "Warp-level matrix instructions", whose
// figures say which lane holds which element. Sums are taken in f32 in the order of k: hardware
// adds in wider blocks and truncates, so no test may depend on the last bits of either.
#include "exec/block.h"
#include "exec/half_bits.h"
#include "exec/lanes.h"

namespace emu {
namespace {

// ldmatrix.sync.aligned.m8n8.xN{.trans}.shared.b16: row i of matrix j is at lane 8j + i's address.
void load_matrices(Warp& w, const Op& op) {
  const u32 n = op.aux & 7;
  const bool trans = op.aux & 8;
  const u32 mask = w.mask, used = n == 4 ? kAllLanes : (1u << 8 * n) - 1;
  u8* p[kLanes];
  w.mask = used;
  locate(w, op, op.a, op.width, op.offset, {ptx::Space(op.aux >> 8), 16, false}, p);
  w.mask = mask;
  const Slot* to = w.block->kernel->lists.data() + op.e;
  for (u32 j = 0; j < n; ++j) {
    u16 m[8][8];
    for (u32 i = 0; i < 8; ++i) std::memcpy(m[i], p[8 * j + i], 16);
    u32* d = w.at<u32>(to[j]);
    for (u32 l = 0; l < kLanes; ++l) {
      const u32 row = l / 4, col = l % 4 * 2;
      d[l] = trans ? u32(m[col][row]) | u32(m[col + 1][row]) << 16
                   : u32(m[row][col]) | u32(m[row][col + 1]) << 16;
    }
  }
}
// stmatrix: the same the other way.
void store_matrices(Warp& w, const Op& op) {
  const u32 n = op.aux & 7;
  const bool trans = op.aux & 8;
  const u32 mask = w.mask, used = n == 4 ? kAllLanes : (1u << 8 * n) - 1;
  u8* p[kLanes];
  w.mask = used;
  locate(w, op, op.a, op.width, op.offset, {ptx::Space(op.aux >> 8), 16, true}, p);
  w.mask = mask;
  const Slot* from = w.block->kernel->lists.data() + op.e;
  for (u32 j = 0; j < n; ++j) {
    u16 m[8][8];
    const u32* a = w.at<u32>(from[j]);
    for (u32 l = 0; l < kLanes; ++l) {
      const u32 row = l / 4, col = l % 4 * 2;
      (trans ? m[col][row] : m[row][col]) = u16(a[l]);
      (trans ? m[col + 1][row] : m[row][col + 1]) = u16(a[l] >> 16);
    }
    for (u32 i = 0; i < 8; ++i) std::memcpy(p[8 * j + i], m[i], 16);
  }
}
void decode_matrices(Decoder& d, bool store) {
  Op& op = d.op();
  if (!d.has("m8n8") || d.has("b8")) d.unknown("shape of matrices");
  const ptx::Operand &regs = d.operand(store ? 1 : 0), &where = d.operand(store ? 0 : 1);
  ptx::Space space = ptx::Space::generic;
  for (const std::string_view part : d.in().opcode)
    if (part.starts_with("shared")) space = ptx::Space::shared;
  const Decoder::Address a = d.address(where, space);
  std::vector<Slot> slots;
  if (regs.kind == ptx::Operand::Kind::vector)
    for (const ptx::Operand& o : regs.elements) slots.push_back(d.slot(o, ptx::Type::b32));
  else
    slots.push_back(d.slot(regs, ptx::Type::b32));
  op.a = a.base;
  op.width = u8(a.base_bytes);
  op.offset = a.offset;
  op.e = d.list(slots);
  op.aux = u32(slots.size()) | (d.has("trans") ? 8u : 0) | u32(a.space) << 8;
  op.control = Control::warp_aligned;
  op.run = store ? store_matrices : load_matrices;
}

// --- mma ---
// Element types of a and b, and how many of them a 32-bit register holds.
enum class Element : u8 { f16, bf16, tf32, f64, s8, u8, f32, s32 };
u32 per_register(Element e) {
  switch (e) {
    case Element::f16:
    case Element::bf16:
      return 2;
    case Element::s8:
    case Element::u8:
      return 4;
    default:
      return 1;
  }
}
double element(const Warp& w, const Slot* slots, Element e, u32 lane, u32 index) {
  const u32 n = per_register(e);
  if (e == Element::f64) return w.at<double>(slots[index])[lane];
  const u32 word = w.at<u32>(slots[index / n])[lane], part = index % n;
  switch (e) {
    case Element::f16:
      return f16_to_float(u16(word >> 16 * part));
    case Element::bf16:
      return bf16_to_float(u16(word >> 16 * part));
    case Element::s8:
      return i8(word >> 8 * part);
    case Element::u8:
      return emu::u8(word >> 8 * part);
    case Element::s32:
      return i32(word);
    case Element::tf32: {  // the lower 13 bits are not looked at
      const u32 cut = word & 0xffffe000u;
      float x;
      std::memcpy(&x, &cut, 4);
      return x;
    }
    default: {
      float x;
      std::memcpy(&x, &word, 4);
      return x;
    }
  }
}

// Where element i of lane l of a fragment lies. Fragments are made of 8 x 4P blocks (P elements a
// lane side by side): a counts rows by lane/4 and has its second 8 rows next, then further columns.
struct Shape {
  u32 m, n, k;
  Element a, b, c, d;
};
u32 side_by_side(Element e) {
  return e == Element::f64 || e == Element::tf32 ? 1 : per_register(e);
}

void place_a(const Shape& s, u32 lane, u32 i, u32* row, u32* col) {
  const u32 p = side_by_side(s.a), block = i / p, rows = s.m / 8;
  *row = lane / 4 + block % rows * 8;
  *col = lane % 4 * p + i % p + block / rows * 4 * p;
}
void place_b(const Shape& s, u32 lane, u32 i, u32* row, u32* col) {
  const u32 p = side_by_side(s.b), block = i / p;
  *row = lane % 4 * p + i % p + block * 4 * p;
  *col = lane / 4;
}
void place_c(u32 lane, u32 i, u32* row, u32* col) {
  *row = lane / 4 + i / 2 * 8;
  *col = lane % 4 * 2 + i % 2;
}

// Op::e lists d, a, b, c; their numbers and the shape are in aux and offset.
void multiply(Warp& w, const Op& op) {
  const Slot* lists = w.block->kernel->lists.data() + op.e;
  const Shape s = {lists[0],          lists[1],          lists[2],         Element(lists[3]),
                   Element(lists[4]), Element(lists[5]), Element(lists[6])};
  const Slot *d = lists + 8, *a = d + (op.aux & 255), *b = a + (op.aux >> 8 & 255),
             *c = b + (op.aux >> 16 & 255);
  static thread_local double A[16][64], B[64][8], C[16][8];
  const u32 na = s.m * s.k / kLanes, nb = s.k * s.n / kLanes, nc = s.m * s.n / kLanes;
  u32 row, col;
  for (u32 l = 0; l < kLanes; ++l) {
    for (u32 i = 0; i < na; ++i)
      place_a(s, l, i, &row, &col), A[row][col] = element(w, a, s.a, l, i);
    for (u32 i = 0; i < nb; ++i)
      place_b(s, l, i, &row, &col), B[row][col] = element(w, b, s.b, l, i);
    for (u32 i = 0; i < nc; ++i) place_c(l, i, &row, &col), C[row][col] = element(w, c, s.c, l, i);
  }
  // Products of two narrow floats are exact in double; the sum of a k-slice is rounded once, to
  // f32.
  for (u32 i = 0; i < s.m; ++i)
    for (u32 j = 0; j < s.n; ++j) {
      double sum = C[i][j];
      for (u32 k = 0; k < s.k; ++k) sum = std::fma(A[i][k], B[k][j], sum);  // one rounding in f64
      C[i][j] = sum;
    }
  for (u32 l = 0; l < kLanes; ++l)
    for (u32 i = 0; i < nc; ++i) {
      place_c(l, i, &row, &col);
      const double x = C[row][col];
      if (s.d == Element::f64) {
        w.at<double>(d[i])[l] = x;
      } else if (s.d == Element::s32) {
        const double top = 0x7fffffff, low = -top - 1;
        w.at<i32>(d[i])[l] = i32(i64(!lists[7] ? x : x > top ? top : x < low ? low : x));
      } else if (s.d == Element::f16) {
        u32& word = w.at<u32>(d[i / 2])[l];
        const u32 bits = encode_float(kF16, x);
        word = i % 2 ? (word & 0xffff) | bits << 16 : (word & 0xffff0000u) | bits;
      } else {
        w.at<float>(d[i])[l] = canonical(float(x));
      }
    }
}

Element element_of(const Decoder& d, ptx::Type t) {
  using enum ptx::Type;
  switch (t) {
    case f16:
      return Element::f16;
    case bf16:
      return Element::bf16;
    case tf32:
      return Element::tf32;
    case f64:
      return Element::f64;
    case f32:
      return Element::f32;
    case s8:
      return Element::s8;
    case ptx::Type::u8:
      return Element::u8;
    case s32:
      return Element::s32;
    default:
      d.unknown("mma's element");
  }
}

void decode_mma(Decoder& d) {
  Op& op = d.op();
  const auto [m, n, k] = d.shape();
  if (!k || d.has("sp") || !d.has("row") || !d.has("col")) d.unknown("mma's shape");
  const Element ed = element_of(d, d.type(0)), ea = element_of(d, d.type(1)),
                eb = element_of(d, d.type(2)), ec = element_of(d, d.type(3));
  if (m % 8 || m > 16 || n != 8 || k > 64) d.unknown("mma's shape");
  std::vector<Slot> list = {m, n, k, u32(ea), u32(eb), u32(ec), u32(ed), u32(d.has("satfinite"))};
  u32 counts[4];
  for (u32 i = 0; i < 4; ++i) {
    const ptx::Operand& o = d.operand(i);
    const Element e = i == 0 ? ed : i == 1 ? ea : i == 2 ? eb : ec;
    const ptx::Type t = e == Element::f64 ? ptx::Type::f64 : ptx::Type::b32;
    const auto add = [&](const ptx::Operand& one) { list.push_back(d.slot(one, t)); };
    const size_t before = list.size();
    if (o.kind == ptx::Operand::Kind::vector)
      for (const ptx::Operand& one : o.elements) add(one);
    else
      add(o);
    counts[i] = u32(list.size() - before);
    // m8n8k4 of f16 has a layout of its own, with more registers than elements.
    const u32 elements = (i == 1 ? m * k : i == 2 ? k * n : m * n) / kLanes;
    if (counts[i] * per_register(e) != elements) d.unknown("mma's registers");
  }
  op.e = d.list(list);
  op.aux = counts[0] | counts[1] << 8 | counts[2] << 16;
  op.control = Control::warp_aligned;
  op.run = multiply;
}

}  // namespace

void decode_wmma(Decoder& d);  // wmma.cpp

std::vector<OpcodeEntry> mma_opcodes() {
  return {
      {"ldmatrix", [](Decoder& d) { decode_matrices(d, false); }},
      {"stmatrix", [](Decoder& d) { decode_matrices(d, true); }},
      {"mma", decode_mma},
      {"wmma", decode_wmma},
  };
}

}  // namespace emu
