// wmma: PTX ISA leaves open which lane holds which element of a fragment. Here lane l holds
// elements l * n, l * n + 1, ... of the matrix row by row, n being the elements of a lane, and
// begins anew where a fragment has room for more than the matrix (those of f16 hold each element
// twice).
#include "exec/block.h"
#include "exec/half_bits.h"
#include "exec/lanes.h"

namespace emu {
namespace {

using ptx::Type;

struct Matrix {
  u32 rows, cols;
};
Matrix matrix_of(char which, u32 m, u32 n, u32 k) {
  return which == 'a' ? Matrix{m, k} : which == 'b' ? Matrix{k, n} : Matrix{m, n};
}
u32 per_register(Type t) {  // elements in a 32-bit register
  return t == Type::f16 || t == Type::bf16 ? 2 : t == Type::s8 || t == Type::u8 ? 4 : 1;
}
u32 bits_of(const Warp& w, const Slot* slots, Type t, u32 lane, u32 i) {
  const u32 n = per_register(t), word = w.at<u32>(slots[i / n])[lane];
  return n == 1 ? word : word >> i % n * (32 / n) & ((1u << 32 / n) - 1);
}
void set_bits(Warp& w, const Slot* slots, Type t, u32 lane, u32 i, u32 bits) {
  const u32 n = per_register(t), width = 32 / n, at = i % n * width;
  u32& word = w.at<u32>(slots[i / n])[lane];
  word = n == 1 ? bits : (word & ~(((1u << width) - 1) << at)) | bits << at;
}
double value_of(Type t, u32 bits) {
  switch (t) {
    case Type::f16:
      return f16_to_float(u16(bits));
    case Type::bf16:
      return bf16_to_float(u16(bits));
    case Type::s8:
      return i8(bits);
    case Type::u8:
      return emu::u8(bits);
    case Type::s32:
      return i32(bits);
    default: {
      const u32 cut = t == Type::tf32 ? bits & 0xffffe000u : bits;
      float x;
      std::memcpy(&x, &cut, 4);
      return x;
    }
  }
}
u32 encoded(Type t, double x) {
  if (t == Type::f16) return encode_float(kF16, x);
  if (t == Type::s32) return u32(i32(i64(x)));
  const float f = canonical(float(x));
  u32 bits;
  std::memcpy(&bits, &f, 4);
  return bits;
}

// Op::e lists: registers' number, rows, cols, column-major, type, space, base bytes, then the
// slots. Each access is of one element a lane.
constexpr u32 kHead = 7;
void access(Warp& w, const Op& op, bool store) {
  const Slot* list = w.block->kernel->lists.data() + op.e;
  const Type t = Type(list[4]);
  const u32 rows = list[1], cols = list[2], bytes = 4 / per_register(t);
  const u32 elements = list[0] * per_register(t);
  const bool column_major = list[3];
  const Slot addresses = op.d;  // the decoder's own lanes, for the address of each element
  for (u32 i = 0; i < elements; ++i) {
    const u64 *wide = w.at<u64>(op.a), stride = w.at<u32>(op.b)[0];
    const u32* narrow = w.at<u32>(op.a);
    for (u32 l = 0; l < kLanes; ++l) {
      const u32 at = (l * elements + i) % (rows * cols), row = at / cols, col = at % cols;
      const u64 base = list[6] == 8 ? wide[0] : narrow[0];
      w.at<u64>(addresses)[l] =
          base + bytes * (column_major ? u64(col) * stride + row : u64(row) * stride + col);
    }
    u8* p[kLanes];
    locate(w, op, addresses, 8, op.offset, {ptx::Space(list[5]), bytes, store}, p);
    for (u32 l = 0; l < kLanes; ++l) {
      u32 bits = store ? bits_of(w, list + kHead, t, l, i) : 0;
      if (store) {
        std::memcpy(p[l], &bits, bytes);
      } else {
        std::memcpy(&bits, p[l], bytes);
        set_bits(w, list + kHead, t, l, i, bits);
      }
    }
  }
}

// Op::e lists m, n, k, the types of d, a, b, c, the numbers of their registers, then the slots.
void multiply(Warp& w, const Op& op) {
  const Slot* list = w.block->kernel->lists.data() + op.e;
  const u32 m = list[0], n = list[1], k = list[2];
  const Slot* slots[4] = {list + 11, nullptr, nullptr, nullptr};
  for (u32 i = 1; i < 4; ++i) slots[i] = slots[i - 1] + list[6 + i];
  static thread_local double A[32 * 16], B[32 * 16], C[32 * 32];
  const auto read = [&](u32 which, double* to, u32 count) {
    const Type t = Type(list[3 + which]);
    const u32 elements = list[7 + which] * per_register(t);
    for (u32 l = 0; l < kLanes; ++l)
      for (u32 i = 0; i < elements; ++i)
        to[(l * elements + i) % count] = value_of(t, bits_of(w, slots[which], t, l, i));
  };
  read(1, A, m * k);
  read(2, B, k * n);
  read(3, C, m * n);
  // In the order of x; the sums of a row do not wait for each other.
  for (u32 i = 0; i < m; ++i)
    for (u32 x = 0; x < k; ++x)
      for (u32 j = 0; j < n; ++j) C[i * n + j] += A[i * k + x] * B[x * n + j];
  const Type t = Type(list[3]);
  const u32 elements = list[7] * per_register(t);
  for (u32 l = 0; l < kLanes; ++l)
    for (u32 i = 0; i < elements; ++i)
      set_bits(w, slots[0], t, l, i, encoded(t, C[(l * elements + i) % (m * n)]));
}

u32 add_slots(Decoder& d, const ptx::Operand& o, std::vector<Slot>& list) {
  const size_t before = list.size();
  if (o.kind != ptx::Operand::Kind::vector) d.unknown("wmma's fragment");
  for (const ptx::Operand& e : o.elements) list.push_back(d.slot(e, Type::b32));
  return u32(list.size() - before);
}

void decode_access(Decoder& d, bool store) {
  Op& op = d.op();
  const auto [m, n, k] = d.shape();
  const std::string_view which = d.in().opcode[2];  // wmma.load.a...
  const Matrix size = matrix_of(which[0], m, n, k);
  const Type t = d.type();
  if (t == Type::f64 || ptx::type_bytes(t) == 0) d.unknown("wmma's type");
  const ptx::Operand &fragment = d.operand(store ? 1 : 0), &where = d.operand(store ? 0 : 1);
  ptx::Space space = ptx::Space::generic;
  if (d.has("global")) space = ptx::Space::global;
  for (const std::string_view part : d.in().opcode)
    if (part.starts_with("shared")) space = ptx::Space::shared;
  const Decoder::Address a = d.address(where, space);
  if (a.base == kNoSlot) d.unknown("wmma's address");
  std::vector<Slot> list = {0,      size.rows,    size.cols,   d.has("col"),
                            u32(t), u32(a.space), a.base_bytes};
  list[0] = add_slots(d, fragment, list);
  op.a = a.base;
  op.offset = a.offset;
  op.d = d.scratch(8);
  op.b =
      d.operands() > 2 ? d.slot(2, Type::b32) : d.constant(d.has("col") ? size.rows : size.cols, 4);
  op.e = d.list(list);
  op.control = Control::warp_aligned;
  op.run = store ? Handler([](Warp& w, const Op& o) { access(w, o, true); })
                 : Handler([](Warp& w, const Op& o) { access(w, o, false); });
}

void decode_multiply(Decoder& d) {
  Op& op = d.op();
  const auto [m, n, k] = d.shape();
  if (m * k > 32 * 16 || k * n > 32 * 16 || d.has("satfinite")) d.unknown("wmma's shape");
  // f16 products name the types of d and c alone; the others name all four.
  const bool two = d.types() == 2;
  const Type td = d.type(0), ta = two ? Type::f16 : d.type(1), tb = two ? Type::f16 : d.type(2),
             tc = d.type(two ? 1 : 3);
  std::vector<Slot> list = {m, n, k, u32(td), u32(ta), u32(tb), u32(tc), 0, 0, 0, 0};
  for (u32 i = 0; i < 4; ++i) list[7 + i] = add_slots(d, d.operand(i), list);
  op.e = d.list(list);
  op.control = Control::warp_aligned;
  op.run = multiply;
}

}  // namespace

void decode_wmma(Decoder& d) {
  // Which layout a and b have does not matter to a product: their fragments say nothing of it.
  for (const char* layout : {"row", "col"}) (void)d.has(layout);
  if (d.has("mma")) return decode_multiply(d);
  for (const char* matrix : {"a", "b", "c", "d"}) (void)d.has(matrix);
  if (d.has("load")) return decode_access(d, false);
  if (d.has("store")) return decode_access(d, true);
  d.unknown("wmma");
}

}  // namespace emu
