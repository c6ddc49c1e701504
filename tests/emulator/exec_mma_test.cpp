// Tensor core instructions against a plain product, with the lane layouts of PTX ISA 9.0,
// "Warp-level matrix instructions", written out here a second time.
#include "run_ptx.h"

using namespace ptx_test;

namespace {

u16 to_f16(float x) { return std::bit_cast<u16>(_Float16(x)); }
float from_f16(u16 h) { return float(std::bit_cast<_Float16>(h)); }
u16 to_bf16(float x) { return u16(bits_of(x) >> 16); }  // small whole numbers: exact

struct Product {
  const char* name;  // "m16n8k16.row.col.f32.f16.f16.f32"
  u32 m, n, k;
  char in;   // h f16, b bf16, t tf32, d f64, c s8, u u8
  char out;  // f f32, h f16, d f64, i s32
};

u32 bytes_in(char t) { return t == 'h' || t == 'b' ? 2 : t == 't' ? 4 : t == 'd' ? 8 : 1; }

// One warp; registers of a, b, c come from memory as their words, d goes back.
void check_product(const Product& p) {
  std::mt19937 g(p.m * p.k);
  std::vector<double> A(p.m * p.k), B(p.k * p.n), C(p.m * p.n);
  const auto draw = [&] { return p.in == 'u' ? double(g() % 200) : double(i32(g() % 17) - 8); };
  for (double& x : A) x = draw();
  for (double& x : B) x = draw();
  for (double& x : C) x = double(i32(g() % 101) - 50);
  const u32 each = bytes_in(p.in), lane_in = each == 8 ? 8 : 4, side = lane_in / each;
  const u32 ra = p.m * p.k * each / 32 / lane_in, rb = p.k * p.n * each / 32 / lane_in;
  const u32 out_bytes = p.out == 'h' ? 2 : p.out == 'd' ? 8 : 4, lane_out = p.out == 'd' ? 8 : 4;
  const u32 rc = p.m * p.n * out_bytes / 32 / lane_out;
  std::vector<u8> a(32 * ra * lane_in), b(32 * rb * lane_in), c(32 * rc * lane_out);
  const auto put = [&](std::vector<u8>& to, u32 at, double x) {
    const u16 half = p.in == 'h' ? to_f16(float(x)) : to_bf16(float(x));
    const float f = float(x);
    const u8 byte = u8(i32(x));
    if (each == 2) std::memcpy(&to[at], &half, 2);
    if (each == 4) std::memcpy(&to[at], &f, 4);
    if (each == 8) std::memcpy(&to[at], &x, 8);
    if (each == 1) to[at] = byte;
  };
  for (u32 lane = 0; lane < 32; ++lane) {
    const u32 group = lane / 4, in_group = lane % 4;
    // Rows go by group, and by 8 with every second register where m is 16; columns by the thread in
    // its group, elements of a register side by side, and the next registers further on.
    for (u32 i = 0; i < ra; ++i)
      for (u32 e = 0; e < side; ++e) {
        const u32 row = p.m == 16 ? group + (i % 2) * 8 : group;
        const u32 col = in_group * side + e + (p.m == 16 ? i / 2 : i) * 4 * side;
        put(a, (lane * ra + i) * lane_in + e * each, A[row * p.k + col]);
      }
    for (u32 i = 0; i < rb; ++i)
      for (u32 e = 0; e < side; ++e)
        put(b, (lane * rb + i) * lane_in + e * each,
            B[(in_group * side + e + i * 4 * side) * p.n + group]);
    for (u32 i = 0; i < p.m * p.n / 32; ++i) {
      const double x = C[(group + i / 2 * 8) * p.n + in_group * 2 + i % 2];
      const u32 at = lane * rc * lane_out + i * out_bytes;
      const u16 half = to_f16(float(x));
      const float f = float(x);
      const i32 whole = i32(x);
      if (p.out == 'h') std::memcpy(&c[at], &half, 2);
      if (p.out == 'f') std::memcpy(&c[at], &f, 4);
      if (p.out == 'i') std::memcpy(&c[at], &whole, 4);
      if (p.out == 'd') std::memcpy(&c[at], &x, 8);
    }
  }
  const auto registers = [](const std::string& name, u32 n) {
    std::string s;
    for (u32 i = 0; i < n; ++i) s += (i ? ", " : "") + name + std::to_string(i);
    return "{" + s + "}";
  };
  const auto loads = [&](const std::string& name, u32 n, u32 bytes, u32 pointer, bool real) {
    std::string s = "mad.wide.u32 %l" + std::to_string(pointer) + ", %i3, " +
                    std::to_string(n * bytes) + ", %a" + std::to_string(pointer) + ";\n";
    for (u32 i = 0; i < n; ++i)
      s += "ld.global." +
           std::string(bytes == 8 ? "f64 "
                       : real     ? "f32 "
                                  : "b32 ") +
           name + std::to_string(i) + ", [%l" + std::to_string(pointer) + "+" +
           std::to_string(i * bytes) + "];\n";
    return s;
  };
  const std::string ca = p.out == 'f' ? "f32" : p.out == 'd' ? "f64" : "b32";
  std::string stores = "mad.wide.u32 %l4, %i3, " + std::to_string(rc * lane_out) + ", %a3;\n";
  for (u32 i = 0; i < rc; ++i)
    stores += "st.global." + ca + " [%l4+" + std::to_string(i * lane_out) + "], %y" +
              std::to_string(i) + ";\n";
  Ptx ptx(kernel_text(
      4, ".reg ." + std::string(each == 8 ? "f64" : "b32") + " %x<16>, %w<16>;\n.reg ." + ca +
             " %z<8>, %y<8>;\n" + loads("%x", ra, lane_in, 0, false) +
             loads("%w", rb, lane_in, 1, false) + loads("%z", rc, lane_out, 2, p.out == 'f') +
             "mma.sync.aligned." + p.name + " " + registers("%y", rc) + ", " + registers("%x", ra) +
             ", " + registers("%w", rb) + ", " + registers("%z", rc) + ";\n" + stores));
  Array<u8> ia(a), ib(b), ic(c), out(c.size(), 0);
  runs(ptx, {}, ia, ib, ic, out);
  for (u32 lane = 0; lane < 32; ++lane)
    for (u32 i = 0; i < p.m * p.n / 32; ++i) {
      const u32 row = lane / 4 + i / 2 * 8, col = lane % 4 * 2 + i % 2;
      double want = C[row * p.n + col], got = 0;
      for (u32 k = 0; k < p.k; ++k) want += A[row * p.k + k] * B[k * p.n + col];
      const u32 at = lane * rc * lane_out + i * out_bytes;
      if (p.out == 'h') {
        u16 h;
        std::memcpy(&h, &out[at], 2);
        got = from_f16(h), want = from_f16(to_f16(float(want)));
      } else if (p.out == 'f') {
        float f;
        std::memcpy(&f, &out[at], 4);
        got = f;
      } else if (p.out == 'i') {
        i32 x;
        std::memcpy(&x, &out[at], 4);
        got = x;
      } else {
        std::memcpy(&got, &out[at], 8);
      }
      CAPTURE(row, col);
      REQUIRE(got == want);
    }
}

}  // namespace

TEST_CASE("Products of a warp", "[emulator]") {
  for (const Product& p : {Product{"m16n8k16.row.col.f32.f16.f16.f32", 16, 8, 16, 'h', 'f'},
                           {"m16n8k16.row.col.f32.bf16.bf16.f32", 16, 8, 16, 'b', 'f'},
                           {"m16n8k16.row.col.f16.f16.f16.f16", 16, 8, 16, 'h', 'h'},
                           {"m16n8k8.row.col.f32.f16.f16.f32", 16, 8, 8, 'h', 'f'},
                           {"m16n8k8.row.col.f32.bf16.bf16.f32", 16, 8, 8, 'b', 'f'},
                           {"m16n8k8.row.col.f32.tf32.tf32.f32", 16, 8, 8, 't', 'f'},
                           {"m16n8k4.row.col.f32.tf32.tf32.f32", 16, 8, 4, 't', 'f'},
                           {"m8n8k4.row.col.f64.f64.f64.f64", 8, 8, 4, 'd', 'd'},
                           {"m8n8k16.row.col.s32.s8.s8.s32", 8, 8, 16, 'c', 'i'},
                           {"m16n8k16.row.col.s32.s8.s8.s32", 16, 8, 16, 'c', 'i'},
                           {"m16n8k32.row.col.s32.s8.s8.s32", 16, 8, 32, 'c', 'i'},
                           {"m16n8k32.row.col.s32.u8.u8.s32", 16, 8, 32, 'u', 'i'},
                           {"m16n8k32.row.col.satfinite.s32.s8.s8.s32", 16, 8, 32, 'c', 'i'}})
    check_product(p);
}

TEST_CASE("Matrices between shared memory and registers", "[emulator]") {
  for (const u32 n : {1u, 2u, 4u})
    for (const bool trans : {false, true}) {
      const std::string regs = n == 1   ? "{%r10}"
                               : n == 2 ? "{%r10, %r11}"
                                        : "{%r10, %r11, %r12, %r13}";
      const std::string form =
          ".sync.aligned.m8n8.x" + std::to_string(n) + (trans ? ".trans" : "") + ".shared.b16 ";
      // Rows of 16 bytes lie 80 apart, so that nothing fits by chance.
      Ptx ptx(
          ".shared .align 16 .b8 s[2560];\n.shared .align 16 .b8 t[2560];\n" + kernel_text(3, R"(
    mov.u32 %r0, s; mad.lo.u32 %r1, %i3, 80, %r0; mov.u32 %r2, t; mad.lo.u32 %r3, %i3, 80, %r2;
    mad.wide.u32 %l0, %i3, 16, %a0; ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%l0];
    st.shared.v4.u32 [%r1], {%r4, %r5, %r6, %r7}; bar.warp.sync -1;
    mov.u32 %r11, 0; mov.u32 %r12, 0; mov.u32 %r13, 0;
    ldmatrix)" + form + regs + ", [%r1];\nstmatrix" + form + "[%r3], " + regs + R"(;
    mad.wide.u32 %l1, %i3, 16, %a1; st.global.v4.u32 [%l1], {%r10, %r11, %r12, %r13};
    bar.warp.sync -1; ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r3];
    mad.wide.u32 %l2, %i3, 16, %a2; st.global.v4.u32 [%l2], {%r4, %r5, %r6, %r7};)"));
      std::vector<u16> in;
      std::mt19937 g(n);
      for (u32 i = 0; i < 256; ++i) in.push_back(u16(g()));
      Array<u16> from(in), got(256, 0), back(256, 0);
      runs(ptx, {}, from, got, back);
      for (u32 l = 0; l < 32; ++l)
        for (u32 j = 0; j < n; ++j)
          for (u32 e = 0; e < 2; ++e) {
            const u32 row = l / 4, col = l % 4 * 2 + e;
            CHECK(got[l * 8 + j * 2 + e] ==
                  in[(8 * j + (trans ? col : row)) * 8 + (trans ? row : col)]);
          }
      for (u32 i = 0; i < 64 * n; ++i) CHECK(back[i] == in[i]);
    }
}

namespace {

// `in`: h f16, b bf16, c s8; `out`: f f32, h f16, i s32. Leading dimensions are longer than the
// rows.
struct Wmma {
  u32 m, n, k;
  char in, out;
};
void check_wmma(const Wmma& p, bool a_col, bool b_col) {
  const std::string la = a_col ? "col" : "row", lb = b_col ? "col" : "row",
                    shape = ".m" + std::to_string(p.m) + "n" + std::to_string(p.n) + "k" +
                            std::to_string(p.k),
                    ti = p.in == 'h'   ? "f16"
                         : p.in == 'b' ? "bf16"
                                       : "s8",
                    to = p.out == 'f'   ? "f32"
                         : p.out == 'h' ? "f16"
                                        : "s32";
  const u32 each = p.in == 'c' ? 1 : 2, out_each = p.out == 'h' ? 2 : 4;
  const u32 na = p.in == 'h' ? 8 : p.m * p.k * each / 128,
            nb = p.in == 'h' ? 8 : p.k * p.n * each / 128;
  const u32 nc = p.out == 'h' ? 4 : 8, lda = (a_col ? p.m : p.k) + 16,
            ldb = (b_col ? p.k : p.n) + 16;
  const std::string space = p.in == 'b' ? "." : ".global.";  // generic addresses for some
  const auto list = [](const std::string& name, u32 n) {
    std::string r;
    for (u32 i = 0; i < n; ++i) r += (i ? ", " : "") + name + std::to_string(i);
    return "{" + r + "}";
  };
  const std::string A = list("%x", na), B = list("%w", nb), C = list("%z", nc);
  const std::string types =
      p.in == 'h' ? "." + to + "." + to : "." + to + "." + ti + "." + ti + "." + to;
  Ptx ptx(kernel_text(
      4, ".reg .b32 %x<8>, %w<8>; .reg ." + std::string(p.out == 'f' ? "f32" : "b32") +
             " %z<8>;\n" + "wmma.load.a.sync.aligned." + la + shape + space + ti + " " + A +
             ", [%a0], " + std::to_string(lda) + ";\nwmma.load.b.sync.aligned." + lb + shape +
             space + ti + " " + B + ", [%a1], " + std::to_string(ldb) +
             ";\nwmma.load.c.sync.aligned.row" + shape + ".global." + to + " " + C + ", [%a2], " +
             std::to_string(p.n) + ";\nwmma.mma.sync.aligned." + la + "." + lb + shape + types +
             " " + C + ", " + A + ", " + B + ", " + C + ";\nwmma.store.d.sync.aligned.row" + shape +
             ".global." + to + " [%a3], " + C + ", " + std::to_string(p.n) +
             ";\nwmma.store.d.sync.aligned.col" + shape + ".global." + to + " [%a3+" +
             std::to_string(p.m * p.n * out_each) + "], " + C + ", " + std::to_string(p.m) + ";"));
  std::mt19937 g(p.m + a_col);
  const auto draw = [&](size_t n) {
    std::vector<i32> v;
    for (size_t i = 0; i < n; ++i) v.push_back(i32(g() % 9) - 4);
    return v;
  };
  const std::vector<i32> a = draw(lda * (a_col ? p.k : p.m)), b = draw(ldb * (b_col ? p.n : p.k)),
                         c = draw(p.m * p.n);
  const auto bytes = [](const std::vector<i32>& v, char t) {
    const u32 size = t == 'c' ? 1 : t == 'h' || t == 'b' ? 2 : 4;
    std::vector<u8> r(v.size() * size);
    for (size_t i = 0; i < v.size(); ++i) {
      const u32 word = t == 'h'   ? to_f16(float(v[i]))
                       : t == 'b' ? to_bf16(float(v[i]))
                       : t == 'f' ? bits_of(float(v[i]))
                                  : u32(v[i]);
      std::memcpy(&r[i * size], &word, size);
    }
    return r;
  };
  Array<u8> ia(bytes(a, p.in)), ib(bytes(b, p.in)), ic(bytes(c, p.out)),
      out(2 * p.m * p.n * out_each, 0);
  runs(ptx, {}, ia, ib, ic, out);
  std::vector<i32> rows(p.m * p.n), columns(p.m * p.n);
  for (u32 i = 0; i < p.m; ++i)
    for (u32 j = 0; j < p.n; ++j) {
      i32 sum = c[i * p.n + j];
      for (u32 k = 0; k < p.k; ++k)
        sum += a[a_col ? k * lda + i : i * lda + k] * b[b_col ? j * ldb + k : k * ldb + j];
      rows[i * p.n + j] = columns[j * p.m + i] = sum;
    }
  std::vector<u8> want = bytes(rows, p.out), more = bytes(columns, p.out);
  want.insert(want.end(), more.begin(), more.end());
  CHECK(out.values() == want);
}

}  // namespace

TEST_CASE("wmma by its loads and stores", "[emulator]") {
  for (const bool a_col : {false, true})
    for (const bool b_col : {false, true})
      for (const Wmma& p : {Wmma{16, 16, 16, 'h', 'f'},
                            {16, 16, 16, 'h', 'h'},
                            {32, 8, 16, 'h', 'f'},
                            {8, 32, 16, 'h', 'h'},
                            {16, 16, 16, 'b', 'f'},
                            {32, 8, 16, 'b', 'f'},
                            {8, 32, 16, 'b', 'f'},
                            {16, 16, 16, 'c', 'i'}})
        check_wmma(p, a_col, b_col);
}
