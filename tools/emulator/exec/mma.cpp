// Tensor core instructions: ldmatrix and mma.sync; PTX ISA, "Warp-level matrix instructions", whose
// figures say which lane holds which element. Sums are taken in f32 in the order of k: hardware
// adds in wider blocks and truncates, so no test may depend on the last bits of either.
#include <immintrin.h>

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
// Element `index` of every lane.
void read_elements(const Warp& w, const Slot* slots, Element e, u32 index, double (&to)[kLanes]) {
  if (e == Element::f64) {
    std::memcpy(to, w.at<double>(slots[index]), sizeof to);
    return;
  }
  const u32 n = per_register(e), shift = index % n * (32 / n);
  const u32* word = w.at<u32>(slots[index / n]);
  alignas(64) float x[kLanes];  // f16 and bf16 by way of f32: an instruction a lane
  const auto floats = [&](auto f) {
    for (u32 l = 0; l < kLanes; ++l) x[l] = f(word[l] >> shift);
    for (u32 l = 0; l < kLanes; ++l) to[l] = x[l];
  };
  switch (e) {
    case Element::f16:
      return floats([](u32 bits) { return f16_to_float(u16(bits)); });
    case Element::bf16:
      return floats([](u32 bits) { return bf16_to_float(u16(bits)); });
    case Element::tf32:  // the lower 13 bits are not looked at
      return floats([](u32 bits) { return __builtin_bit_cast(float, bits & 0xffffe000u); });
    case Element::s8:
      for (u32 l = 0; l < kLanes; ++l) to[l] = i8(word[l] >> shift);
      return;
    case Element::u8:
      for (u32 l = 0; l < kLanes; ++l) to[l] = emu::u8(word[l] >> shift);
      return;
    case Element::s32:
      for (u32 l = 0; l < kLanes; ++l) to[l] = i32(word[l]);
      return;
    default:
      return floats([](u32 bits) { return __builtin_bit_cast(float, bits); });
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

// Where lane 0 has element i; lane l is l/4 and l%4 elements or packs further on.
void place_a(const Shape& s, u32 i, u32* row, u32* col) {
  const u32 p = side_by_side(s.a), block = i / p, rows = s.m / 8;
  *row = block % rows * 8;
  *col = i % p + block / rows * 4 * p;
}
u32 row_of_b(const Shape& s, u32 i) {
  const u32 p = side_by_side(s.b);
  return i % p + i / p * 4 * p;
}

// Op::e lists d, a, b, c; their numbers and the shape are in aux and offset.
void multiply(Warp& w, const Op& op) {
  const Slot* lists = w.block->kernel->lists.data() + op.e;
  const Shape s = {lists[0],          lists[1],          lists[2],         Element(lists[3]),
                   Element(lists[4]), Element(lists[5]), Element(lists[6])};
  const Slot *d = lists + 8, *a = d + (op.aux & 255), *b = a + (op.aux >> 8 & 255),
             *c = b + (op.aux >> 16 & 255);
  alignas(64) static thread_local double A[16][64], B[64][8], C[16][8];
  const u32 na = s.m * s.k / kLanes, nb = s.k * s.n / kLanes, nc = s.m * s.n / kLanes;
  const u32 pa = side_by_side(s.a), pb = side_by_side(s.b);
  alignas(64) double x[kLanes];
  for (u32 i = 0; i < na; ++i) {
    u32 row, col;
    place_a(s, i, &row, &col);
    read_elements(w, a, s.a, i, x);
    for (u32 l = 0; l < kLanes; ++l) A[row + l / 4][col + l % 4 * pa] = x[l];
  }
  for (u32 i = 0; i < nb; ++i) {
    const u32 row = row_of_b(s, i);
    read_elements(w, b, s.b, i, x);
    for (u32 l = 0; l < kLanes; ++l) B[row + l % 4 * pb][l / 4] = x[l];
  }
  for (u32 i = 0; i < nc; ++i) {
    read_elements(w, c, s.c, i, x);
    for (u32 l = 0; l < kLanes; ++l) C[i / 2 * 8 + l / 4][l % 4 * 2 + i % 2] = x[l];
  }
  // Products of two narrow floats are exact in double; the sum of a k-slice is rounded once, to
  // f32. A row of sums at a time: eight that do not wait for each other.
  for (u32 i = 0; i < s.m; ++i) {
    __m256d low = _mm256_load_pd(C[i]), high = _mm256_load_pd(C[i] + 4);
    for (u32 k = 0; k < s.k; ++k) {
      const __m256d one = _mm256_broadcast_sd(&A[i][k]);
      low = _mm256_fmadd_pd(one, _mm256_load_pd(B[k]), low);
      high = _mm256_fmadd_pd(one, _mm256_load_pd(B[k] + 4), high);
    }
    _mm256_store_pd(C[i], low);
    _mm256_store_pd(C[i] + 4, high);
  }
  for (u32 i = 0; i < nc; ++i)
    for (u32 l = 0; l < kLanes; ++l) {
      const double y = C[i / 2 * 8 + l / 4][l % 4 * 2 + i % 2];
      if (s.d == Element::f64) {
        w.at<double>(d[i])[l] = y;
      } else if (s.d == Element::s32) {
        const double top = 0x7fffffff, low = -top - 1;
        w.at<i32>(d[i])[l] = i32(i64(!lists[7] ? y : y > top ? top : y < low ? low : y));
      } else if (s.d == Element::f16) {
        u32& word = w.at<u32>(d[i / 2])[l];
        const u32 bits = encode_float(kF16, y);
        word = i % 2 ? (word & 0xffff) | bits << 16 : (word & 0xffff0000u) | bits;
      } else {
        w.at<float>(d[i])[l] = canonical(float(y));
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
