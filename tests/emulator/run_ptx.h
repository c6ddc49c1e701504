// Runs PTX written in a test on arrays of the test, with no CUDA at all: only the parser, the
// interpreter and plain_memory.cpp are linked.
#pragma once
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "../support/catch.h"
#include "device/memory.h"
#include "exec/launch.h"

namespace ptx_test {

using emu::i16, emu::i32, emu::i64, emu::i8, emu::u16, emu::u32, emu::u64, emu::u8;
using Fault = emu::KernelFault::Kind;

void* take_plain(u64 bytes);
void give_plain(void* p);
emu::Block& plain_block(const void* p);
// What the interpreter tells note_access(), from now on; null: nothing is kept.
struct Noted {
  u64 address;
  u32 bytes;
  bool write, atomic;
};
void note_into(std::vector<Noted>* list);

// Memory that kernels may use, exactly as long as its elements.
template <class T>
class Array {
 public:
  explicit Array(const std::vector<T>& v)
      : p_(static_cast<T*>(take_plain(v.size() * sizeof(T)))), n_(v.size()) {
    if (n_) std::memcpy(p_, v.data(), n_ * sizeof(T));
  }
  Array(size_t n, T value) : Array(std::vector<T>(n, value)) {}
  Array(const Array&) = delete;
  ~Array() { give_plain(p_); }
  u64 address() const { return reinterpret_cast<u64>(p_); }
  T& operator[](size_t i) { return p_[i]; }
  std::vector<T> values() const { return std::vector<T>(p_, p_ + n_); }
  size_t size() const { return n_; }

 private:
  T* p_;
  size_t n_;
};

struct Launch {
  emu::Dim3 grid{1}, block{32};
  u32 shared = 0;
  u64 seed = 1;
  bool cooperative = false;
  const emu::QueuedOp* op = nullptr;
  std::vector<emu::LineCounts>* profile = nullptr;
  std::vector<emu::KernelFault>* warned = nullptr;  // races and accesses out of order, if not null
};
struct Outcome {
  bool ok = false;
  emu::KernelFault fault;
  emu::LaunchCounts counts;
};

// A module; the three head lines are added, so that the text's first line is PTX line 4.
class Ptx {
 public:
  explicit Ptx(const std::string& text)
      : program_(".version 9.0\n.target sm_90a\n.address_size 64\n" + text) {}

  emu::Program& program() { return program_; }
  void set_symbol(const std::string& name, u64 address) { symbols_[name] = address; }

  template <class... A>
  Outcome run(const std::string& name, const Launch& l, const A&... arguments) {
    const emu::Program::Kernel* kernel = program_.kernel(name);
    if (!kernel) throw std::runtime_error("no kernel " + name);
    const emu::KernelInfo& k = emu::info(*kernel);
    std::vector<u8> params(k.params_bytes);
    size_t at = 0;
    (put(k, at++, arguments, &params), ...);
    if (at != k.param_at.size()) throw std::runtime_error("not all parameters of " + name);
    emu::LaunchRequest r;
    r.kernel = kernel;
    r.grid = l.grid;
    r.block = l.block;
    r.dynamic_shared = l.shared;
    r.params = params.data();
    r.seed = l.seed;
    r.cooperative = l.cooperative;
    r.op = l.op;
    if (l.profile) l.profile->assign(1000, {});
    r.profile = l.profile;
    r.symbol_address = [this](const std::string& s) { return symbols_.at(s); };
    if (l.warned) r.warn = [&](const emu::KernelFault& f) { l.warned->push_back(f); };
    Outcome o;
    o.ok = emu::run_kernel(r, &o.counts, &o.fault);
    return o;
  }

 private:
  template <class T>
  static void put(const emu::KernelInfo& k, size_t i, const Array<T>& a, std::vector<u8>* to) {
    put(k, i, a.address(), to);
  }
  template <class T>
  static void put(const emu::KernelInfo& k, size_t i, const T& x, std::vector<u8>* to) {
    if (i >= k.param_at.size() || k.param_bytes[i] != sizeof(T))
      throw std::runtime_error("parameter " + std::to_string(i) + " is another one");
    std::memcpy(to->data() + k.param_at[i], &x, sizeof(T));
  }

  emu::Program program_;
  std::map<std::string, u64> symbols_;
};

// Runs kernel `k` to its end: a fault fails the test and is told.
template <class... A>
Outcome runs(Ptx& ptx, const Launch& l, const A&... arguments) {
  Outcome o = ptx.run("k", l, arguments...);
  INFO(o.fault.what << " at " << o.fault.ptx);
  REQUIRE(o.ok);
  return o;
}

// A kernel `k` that has these pointers as parameters and registers for a test's hand-written body:
// %p, %h (16 bits), %r, %l (64 bits), %f, %g (f64), the pointers in %a0.., the thread's index
// within the grid in %i and as 64 bits in %il.
inline std::string kernel_text(u32 pointers, const std::string& body) {
  std::string params, loads;
  for (u32 i = 0; i < pointers; ++i) {
    params += (i ? ", " : "") + std::string(".param .u64 k") + std::to_string(i);
    loads += "ld.param.u64 %a" + std::to_string(i) + ", [k" + std::to_string(i) + "];\n";
  }
  return ".visible .entry k(" + params +
         ")\n{\n.reg .pred %p<16>; .reg .b16 %h<32>; .reg .b32 %r<64>; .reg .b64 %l<32>;\n"
         ".reg .f32 %f<64>; .reg .f64 %g<32>; .reg .b64 %a<8>; .reg .b32 %i<4>; .reg .b64 %il;\n" +
         loads +
         "mov.u32 %i1, %ctaid.x; mov.u32 %i2, %ntid.x; mov.u32 %i3, %tid.x;\n"
         "mad.lo.s32 %i0, %i1, %i2, %i3; cvt.u64.u32 %il, %i0;\n" +
         body + "\nret;\n}\n";
}

// --- one instruction on many operands ---

template <class T>
struct PtxType;  // a register's type, and the one that ld and st name
#define WT_PTX_TYPE(T, REG, MEM)                        \
  template <>                                           \
  struct PtxType<T> {                                   \
    static constexpr const char *reg = REG, *mem = MEM; \
  };
WT_PTX_TYPE(u16, "b16", "u16")
WT_PTX_TYPE(i16, "b16", "s16")
WT_PTX_TYPE(u32, "b32", "u32")
WT_PTX_TYPE(i32, "b32", "s32")
WT_PTX_TYPE(u64, "b64", "u64")
WT_PTX_TYPE(i64, "b64", "s64")
WT_PTX_TYPE(float, "f32", "f32")
WT_PTX_TYPE(double, "f64", "f64")
#undef WT_PTX_TYPE

template <class T>
auto bits_of(T x) {
  if constexpr (sizeof(T) == 2)
    return std::bit_cast<u16>(x);
  else if constexpr (sizeof(T) == 4)
    return std::bit_cast<u32>(x);
  else
    return std::bit_cast<u64>(x);
}
inline float f32(u32 bits) { return std::bit_cast<float>(bits); }
inline double f64(u64 bits) { return std::bit_cast<double>(bits); }

// Operands at which instructions go wrong.
template <class T>
const std::vector<T>& edges() {
  static const std::vector<T> all = [] {
    std::vector<T> v;
    if constexpr (std::is_floating_point_v<T>) {
      using L = std::numeric_limits<T>;
      for (const T x : {T(0),
                        L::denorm_min(),
                        T(L::min() - L::denorm_min()),
                        L::min(),
                        T(1e-20),
                        T(0.25),
                        T(0.5),
                        T(1),
                        T(1 + L::epsilon()),
                        T(1 - L::epsilon() / 2),
                        T(1.5),
                        T(2),
                        T(2.5),
                        T(3),
                        T(126),
                        T(127.5),
                        T(149),
                        T(255),
                        T(256.5),
                        T(32768),
                        T(65504),
                        T(65520),
                        T(8388607.5),
                        T(16777217),
                        T(2147483520),
                        T(0x1p31),
                        T(0x1p32),
                        T(0x1p53),
                        T(0x1p63),
                        T(0x1p64),
                        T(0x1.fffffep126),
                        L::max(),
                        L::infinity(),
                        L::quiet_NaN()})
        v.push_back(x), v.push_back(-x);
    } else {
      using U = std::make_unsigned_t<T>;
      const u32 bits = 8 * sizeof(T);
      for (u64 x : {u64(0),
                    u64(1),
                    u64(2),
                    u64(3),
                    u64(5),
                    u64(7),
                    u64(31),
                    u64(32),
                    u64(33),
                    u64(63),
                    u64(64),
                    u64(65),
                    u64(127),
                    u64(128),
                    u64(255),
                    u64(256),
                    u64(1) << (bits - 1),
                    u64(1) << (bits / 2),
                    (u64(1) << (bits / 2)) - 1,
                    u64(0x5555555555555555),
                    u64(0x0123456789abcdef)}) {
        v.push_back(T(U(x))), v.push_back(T(U(~x))), v.push_back(T(U(0 - x)));
      }
    }
    return v;
  }();
  return all;
}
template <class T>
T random_operand(std::mt19937_64& g) {
  if (g() % 2) return edges<T>()[g() % edges<T>().size()];
  if constexpr (std::is_same_v<T, float>) {
    if (g() % 2) return float(i64(g() % 2000001) - 1000000) * 0x1p-17f;
    return f32(u32(g()));
  } else if constexpr (std::is_same_v<T, double>) {
    if (g() % 2) return double(i64(g() % 2000001) - 1000000) * 0x1p-17;
    return f64(g());
  } else {
    return T(g() >> g() % (8 * sizeof(T)));
  }
}

template <class... A>
using Cases = std::vector<std::tuple<A...>>;
// All edges of one operand, all pairs of edges of two, and random ones.
template <class... A>
Cases<A...> cases(size_t random = sizeof...(A) > 2 ? 3000 : 500) {
  std::mt19937_64 g(sizeof...(A) * 7919 + random);
  Cases<A...> all;
  using First = std::tuple_element_t<0, std::tuple<A...>>;
  if constexpr (sizeof...(A) == 1) {
    for (const First a : edges<First>()) all.push_back({a});
  } else if constexpr (sizeof...(A) == 2) {
    using Second = std::tuple_element_t<1, std::tuple<A...>>;
    for (const First a : edges<First>())
      for (const Second b : edges<Second>()) all.push_back({a, b});
  }
  for (size_t i = 0; i < random; ++i) all.push_back({random_operand<A>(g)...});
  return all;
}

// `form` is an opcode ("add.s32"), or text with $d and $0.. for result and operands, which may use
// temporaries %t (32 bits), %u (64), %s (16), %x (f32), %y (f64) and %q (predicates).
inline std::string form_body(const std::string& form, size_t operands) {
  std::string text = form;
  if (form.find('$') == std::string::npos) {
    text += " $d";
    for (size_t i = 0; i < operands; ++i) text += ", $" + std::to_string(i);
    text += ";";
  }
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '$') {
      out += text[i];
    } else {
      const char c = text[++i];
      out += c == 'd' ? std::string("%d") : std::string("%in") + c;
    }
  }
  return out;
}

// Results of `form` for each case; lanes that `on` leaves out keep what `before` holds.
template <class D, class... A>
std::vector<D> run_form(const std::string& form, const Cases<A...>& all, const std::vector<u8>& on,
                        const std::vector<D>& before, u64 seed) {
  constexpr size_t n = sizeof...(A);
  const std::vector<std::string> reg = {PtxType<A>::reg...}, mem = {PtxType<A>::mem...};
  const std::vector<size_t> bytes = {sizeof(A)...};
  std::string params = ".param .u64 kd, .param .u64 kon, .param .u32 kn", declare, loads;
  for (size_t i = 0; i < n; ++i) {
    const std::string s = std::to_string(i);
    params += ", .param .u64 k" + s;
    declare += ".reg ." + reg[i] + " %in" + s + ";\n";
    loads += "ld.param.u64 %w0, [k" + s + "]; mad.wide.u32 %w0, %v1, " + std::to_string(bytes[i]) +
             ", %w0; ld.global." + mem[i] + " %in" + s + ", [%w0];\n";
  }
  std::string body = form_body(form, n);
  // One instruction is guarded; several are jumped over.
  const bool guards = seed % 2 && body.find(';') == body.size() - 1;
  body = guards ? "@%on " + body : "@!%on bra SKIP;\n" + body + "\nSKIP:";
  const std::string d = PtxType<D>::mem;
  Ptx ptx(".visible .entry k(" + params + ")\n{\n" + declare + ".reg ." + PtxType<D>::reg +
          " %d; .reg .pred %on, %past, %q<8>; .reg .b16 %s<16>; .reg .b32 %v<4>, %t<16>;\n"
          ".reg .b64 %w<4>, %u<16>; .reg .f32 %x<8>; .reg .f64 %y<8>;\n"
          "mov.u32 %v1, %tid.x; mov.u32 %v2, %ctaid.x; mov.u32 %v3, %ntid.x;\n"
          "mad.lo.s32 %v1, %v2, %v3, %v1; ld.param.u32 %v0, [kn];\n"
          "setp.ge.u32 %past, %v1, %v0; @%past bra END;\n"
          "ld.param.u64 %w0, [kon]; cvt.u64.u32 %w2, %v1; add.s64 %w0, %w0, %w2;\n"
          "ld.global.u8 %s15, [%w0]; setp.ne.s16 %on, %s15, 0;\n" +
          loads + "ld.param.u64 %w1, [kd]; mad.wide.u32 %w1, %v1, " + std::to_string(sizeof(D)) +
          ", %w1; ld.global." + d + " %d, [%w1];\n" + body + "\nst.global." + d +
          " [%w1], %d;\nEND: ret;\n}\n");
  Array<D> out(before);
  Array<u8> selected(on);
  const auto inputs = [&]<size_t... I>(std::index_sequence<I...>) {
    const auto column = [&]<size_t J>(std::integral_constant<size_t, J>) {
      std::vector<std::tuple_element_t<J, std::tuple<A...>>> v;
      for (const auto& c : all) v.push_back(std::get<J>(c));
      return v;
    };
    return std::make_tuple(
        std::make_unique<Array<A>>(column(std::integral_constant<size_t, I>{}))...);
  }
  (std::make_index_sequence<n>{});
  Launch l;
  l.block = {96};
  l.grid = {u32((all.size() + 95) / 96)};
  l.seed = seed;
  const Outcome o = std::apply(
      [&](const auto&... p) { return ptx.run("k", l, out, selected, u32(all.size()), *p...); },
      inputs);
  INFO(form << ": " << o.fault.what);
  REQUIRE(o.ok);
  return out.values();
}

template <class T>
bool same(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    if (a != a || b != b) return a != a && b != b;  // a NaN's bits have tests of their own
  return bits_of(a) == bits_of(b);
}
template <class T>
std::string shown(T x) {
  char text[80];
  if constexpr (std::is_floating_point_v<T>)
    std::snprintf(text, sizeof text, "%.9g (%a, 0x%llx)", double(x), double(x),
                  static_cast<unsigned long long>(bits_of(x)));
  else
    std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(bits_of(x)));
  return text;
}

// good(result, operands...) for every case, in all lanes and in some.
template <class D, class... A, class F>
void check_each(const std::string& form, const Cases<A...>& all, F&& good) {
  for (u64 seed = 1; seed <= 3; ++seed) {
    std::mt19937_64 g(seed);
    std::vector<u8> on;
    std::vector<D> before;
    for (size_t i = 0; i < all.size(); ++i) {
      on.push_back(seed == 1 || g() % 3);
      before.push_back(std::bit_cast<D>(decltype(bits_of(D{}))(g())));
    }
    const std::vector<D> got = run_form<D>(form, all, on, before, seed);
    size_t wrong = 0;
    for (size_t i = 0; i < all.size(); ++i) {
      const bool right = on[i] ? std::apply([&](A... a) { return good(got[i], a...); }, all[i])
                               : bits_of(got[i]) == bits_of(before[i]);
      if (right || ++wrong > 4) continue;
      std::string text = form + (on[i] ? "" : " (a lane that is off)");
      std::apply([&](A... a) { ((text += "  " + shown(a)), ...); }, all[i]);
      FAIL_CHECK(text << "  gave " << shown(got[i]) << ", seed " << seed);
    }
    CHECK(wrong == 0);
  }
}
// The result is oracle(operands...), any NaN for a NaN.
template <class D, class... A, class F>
void check(const std::string& form, const Cases<A...>& all, F&& oracle) {
  check_each<D>(form, all, [&](D got, A... a) {
    const D want = D(oracle(a...));
    if (!same(got, want)) UNSCOPED_INFO(form << " wants " << shown(want));
    return same(got, want);
  });
}

}  // namespace ptx_test
