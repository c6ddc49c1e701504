// Problems for the matrix product, and how a variant's answer is compared with a triple loop in
// double: shared by the tests of values and of orders.
#pragma once
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "warptape/core/device.h"
#include "warptape/core/factories.h"
#include "warptape/kernels/cpu/isa.h"
#include "warptape/kernels/matmul.h"
#include "warptape/kernels/matmul/matmul_cpu.h"
#include "warptape/kernels/run.h"
#include "warptape/kernels/simt/executor.h"
#include "warptape/tests/support/activations.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/devices.h"

namespace matmul_test {

using namespace wt;

struct Problem {
  i64 m, n, k;
  DType dtype = DType::f32;
  bool ta = false, tb = false;  // stored transposed
  i64 pad = 0;                  // elements between the rows of all three
  bool align = false;           // rows begin at multiples of 8 elements
  bool bias = false, accumulate = false, row_sum = false;
  Activation activation = Activation::none;
  bool gradient = false, residual = false, aux = false;
  std::vector<MatmulArgs::Batch> batch{};  // sizes; strides are 0 (broadcast) or 1 (set here)
};

// The race and ptx flavours have the plain program's cpu, whose own cases are left to that.
inline bool walks_cpu() {
  for (const Device& d : wt_test::kernel_devices())
    if (d == Device::cpu()) return true;
  return false;
}

inline std::string text(const Problem& p) {
  std::string s = str(dtype_name(p.dtype), " m=", p.m, " n=", p.n, " k=", p.k);
  if (p.ta) s += " ta";
  if (p.tb) s += " tb";
  if (p.pad) s += str(" pad=", p.pad);
  if (p.align) s += " aligned";
  if (p.bias) s += " bias";
  if (p.accumulate) s += " accumulate";
  if (p.row_sum) s += " row_sum";
  if (p.activation != Activation::none) s += str(" activation ", int(p.activation));
  if (p.gradient) s += " gradient";
  if (p.residual) s += " residual";
  if (p.aux) s += " aux";
  for (const auto& b : p.batch) s += str(" batch ", b.size, "(", b.out, b.a, b.b, ")");
  return s;
}

// Values on a device, and what they are after rounding to its dtype.
struct Buffer {
  Tensor tensor;
  std::vector<double> values;

  Buffer(const std::vector<double>& v, DType t, Device d) {
    const Tensor host = tensor_of(v).to(t);
    values = host.to_vector<double>();
    tensor = host.to(d);
  }
  void* data() const { return tensor.impl()->data; }
  static Tensor tensor_of(const std::vector<double>& v) {
    return v.empty() ? zeros({0}, {.dtype = f64}) : wt::tensor(v);
  }
};

struct Random {
  u64 state;
  double operator()() {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return double(i64(state >> 33) % 2001 - 1000) / 250;  // [-4, 4], integers for integer dtypes
  }
  std::vector<double> fill(i64 n) {
    std::vector<double> v(static_cast<size_t>(n));
    for (double& x : v) x = (*this)();
    return v;
  }
};

// Unit roundoff of the result, and of the sum.
inline double result_error(DType t) {
  return t == DType::f64    ? std::ldexp(1, -53)
         : t == DType::f32  ? std::ldexp(1, -24)
         : t == DType::f16  ? std::ldexp(1, -11)
         : t == DType::bf16 ? std::ldexp(1, -8)
                            : 0;
}
inline double sum_error(DType t) {
  return t == DType::f64 ? std::ldexp(1, -53) : is_floating(t) ? std::ldexp(1, -24) : 0;
}

struct Exact {
  double value = 0, magnitude = 0;  // the sum, and the sum of the terms' absolute values
  double more = 0;                  // that is allowed
  bool written = false;             // false: padding
  void add(double v) {
    value += v;
    magnitude += std::abs(v);
  }
};

struct Setup {
  Problem p;
  MatmulArgs args;
  i64 out_row, a_lead, b_lead;
  Buffer a, b, out, bias, row_sum, residual, aux;
  std::vector<Exact> want_out, want_sums, want_aux;  // by solve()
};

inline Setup set_up(const Problem& problem, Device d) {
  Problem p = problem;
  Random random{u64(p.m * 1009 + p.n * 31 + p.k)};
  const auto lead = [&](i64 extent) {
    return p.align ? (extent + p.pad + 7) / 8 * 8 : extent + p.pad;
  };
  const i64 a_lead = lead(p.ta ? p.m : p.k), b_lead = lead(p.tb ? p.k : p.n);
  const i64 out_row = p.align ? lead(p.n) : p.n + p.pad;
  i64 a_size = a_lead * (p.ta ? p.k : p.m), b_size = b_lead * (p.tb ? p.n : p.k);
  i64 out_size = out_row * p.m;
  for (size_t i = p.batch.size(); i-- > 0;) {
    MatmulArgs::Batch& batch = p.batch[i];
    batch.out = out_size;
    out_size *= batch.size;
    if (batch.a) batch.a = a_size, a_size *= batch.size;
    if (batch.b) batch.b = b_size, b_size *= batch.size;
  }
  std::vector<double> out = random.fill(out_size);
  for (size_t i = 0; i < out.size(); ++i)
    if (!p.accumulate && i64(i) % out_row < p.n && is_floating(p.dtype))
      out[i] = std::numeric_limits<double>::quiet_NaN();  // must not be read
  std::vector<double> sums = random.fill(p.m);
  if (!p.accumulate && is_floating(p.dtype))
    for (double& x : sums) x = std::numeric_limits<double>::quiet_NaN();
  Setup s{p,
          {},
          out_row,
          a_lead,
          b_lead,
          Buffer(random.fill(a_size), p.dtype, d),
          Buffer(random.fill(b_size), p.dtype, d),
          Buffer(out, p.dtype, d),
          Buffer(random.fill(p.n), p.dtype, d),
          Buffer(sums, p.dtype, d),
          Buffer(random.fill(p.residual ? out_size : 0), p.dtype, d),
          Buffer(random.fill(p.aux || p.gradient ? out_size : 0), p.dtype, d),
          {},
          {},
          {}};
  MatmulArgs& g = s.args;
  g.out = s.out.data();
  g.a = s.a.data();
  g.b = s.b.data();
  if (p.bias) g.bias = s.bias.data();
  if (p.row_sum) g.row_sum = s.row_sum.data();
  g.m = p.m, g.n = p.n, g.k = p.k;
  g.out_row = out_row;
  g.a_row = p.ta ? 1 : a_lead;
  g.a_column = p.ta ? a_lead : 1;
  g.b_row = p.tb ? 1 : b_lead;
  g.b_column = p.tb ? b_lead : 1;
  g.dtype = p.dtype;
  g.accumulate = g.row_sum_accumulate = p.accumulate;
  g.epilogue.activation = p.activation;
  g.epilogue.gradient = p.gradient;
  if (p.residual) g.epilogue.residual = s.residual.data();
  if (p.aux || p.gradient) g.epilogue.aux = s.aux.data();
  g.batch_ndim = u8(p.batch.size());
  for (size_t i = 0; i < p.batch.size(); ++i) g.batch[i] = p.batch[i];
  return s;
}

// What becomes of z, and how far off it may be when z is rounded to the dtype on its way.
inline Exact finished(const Setup& s, size_t at, Exact z) {
  const Problem& p = s.p;
  const double slope = p.gradient ? wt_test::slope_of(p.activation, s.aux.values[at])
                                  : wt_test::steepest(p.activation);
  // A slope is one less something near one: its error is not relative.
  z.more = std::abs(slope) * (z.more + result_error(p.dtype) * std::abs(z.value)) +
           8 * sum_error(p.dtype) * std::abs(z.value);
  z.value = p.gradient ? z.value * slope : wt_test::activated(p.activation, z.value);
  z.magnitude *= std::abs(slope);
  return z;
}

// The triple loop.
inline void solve(Setup& s) {
  const MatmulArgs& g = s.args;
  const Problem& p = s.p;
  const double *a = s.a.values.data(), *b = s.b.values.data();
  s.want_out.assign(s.out.values.size(), {});
  s.want_sums.assign(static_cast<size_t>(p.m), {});
  s.want_aux.assign(s.aux.values.size(), {});
  for (i64 index = 0; index < g.batches(); ++index) {
    i64 rest = index, at_out = 0, at_a = 0, at_b = 0;
    for (int d = g.batch_ndim; d-- > 0;) {
      const i64 i = rest % g.batch[d].size;
      rest /= g.batch[d].size;
      at_out += i * g.batch[d].out, at_a += i * g.batch[d].a, at_b += i * g.batch[d].b;
    }
    for (i64 i = 0; i < p.m; ++i)
      for (i64 j = 0; j < p.n; ++j) {
        const i64 at = at_out + i * s.out_row + j;
        Exact want{.written = true};
        for (i64 q = 0; q < p.k; ++q) {
          const double term =
              a[at_a + i * g.a_row + q * g.a_column] * b[at_b + q * g.b_row + j * g.b_column];
          want.value += term;
          want.magnitude += std::abs(term);
        }
        if (p.bias) want.add(s.bias.values[size_t(j)]);
        if (p.accumulate) want.add(s.out.values[size_t(at)]);
        if (p.residual) {
          want.more = result_error(p.dtype) * std::abs(want.value);  // rounded before, too
          want.add(s.residual.values[size_t(at)]);
        }
        if (p.aux) s.want_aux[size_t(at)] = want;
        if (p.activation != Activation::none) want = finished(s, size_t(at), want);
        s.want_out[size_t(at)] = want;
      }
  }
  if (!p.row_sum) return;
  for (i64 i = 0; i < p.m; ++i) {
    Exact& want = s.want_sums[size_t(i)];
    want.written = true;
    for (i64 q = 0; q < p.k; ++q) want.add(a[i * g.a_row + q * g.a_column]);
    if (p.accumulate) want.add(s.row_sum.values[size_t(i)]);
  }
}

// The first element that is not what it should be, or nothing.
inline std::string difference(const Problem& p, const char* what, const Buffer& before,
                              const Tensor& after, const std::vector<Exact>& want) {
  const double u = result_error(p.dtype), e = sum_error(p.dtype);
  const std::vector<double> got = after.to_vector<double>();
  for (size_t i = 0; i < got.size(); ++i) {
    const Exact& w = want[i];
    if (!w.written) {
      const bool same = got[i] == before.values[i] || std::isnan(before.values[i]);
      if (!same) return str(what, " ", i, " was overwritten");
      continue;
    }
    // Of an activation's own arithmetic, a few roundings in f32 of numbers about as large as z.
    const double own = p.activation == Activation::none ? 0 : 8 * e * (w.magnitude + 1);
    const double bound =
        u * std::abs(w.value) + double(p.k + 2) * e * w.magnitude * (1 + 1e-6) + w.more + own;
    if (!(std::abs(got[i] - w.value) <= bound))  // true for NaN
      return str(what, " ", i, " is ", got[i], ", not ", w.value, " (allowed ", bound, ")");
  }
  return {};
}

inline void run_variant(const Setup& s, const Variant<MatmulArgs>& v, Device d) {
  const Buffer out(s.out.values, s.p.dtype, d), row_sum(s.row_sum.values, s.p.dtype, d);
  MatmulArgs g = s.args;
  g.out = out.data();
  if (s.p.row_sum) g.row_sum = row_sum.data();
  const Buffer aux(s.aux.values, s.p.dtype, d);
  if (g.epilogue.aux) g.epilogue.aux = aux.data();
  static constexpr OpInfo info{.name = "matmul"};
  Launch l{.op = &info, .device = d};
  Tensor workspace;
  if (const i64 bytes = v.workspace ? v.workspace(g) : 0) {
    workspace = empty({bytes}, {.dtype = DType::u8, .device = d});
    l.workspace = workspace.impl()->data;
  }
  v.launch(g, l);
  INFO(device_kind_name(d.kind) << " " << v.name << " " << text(s.p));
  CHECK(difference(s.p, "element", s.out, out.tensor, s.want_out) == "");
  CHECK(difference(s.p, "row sum", s.row_sum, row_sum.tensor, s.want_sums) == "");
  CHECK(difference(s.p, "aux", s.aux, aux.tensor, s.want_aux) == "");
}

// How the cpu's kernels are run.
struct Setting {
  int isa = cpu_isa(), threads = num_threads();
};
inline void apply(const Setting& s) {
  cpu_isa_in_use = s.isa;
  set_num_threads(s.threads);
}

inline bool is_large(const Setup& s) { return s.args.batches() * s.p.m * s.p.n * s.p.k > 500'000; }

// How many problems each variant of a device took.
struct Tally {
  Device device;
  std::vector<Setting> settings{{}};
  const Variants<MatmulArgs>& list;
  std::vector<int> taken;

  explicit Tally(Device d)
      : device(d),
        list(*ContractTable<MatmulArgs>::rows[int(d.kind)]),
        taken(static_cast<size_t>(list.count)) {}
  // A walk that is not whole takes every third problem of dtypes that are read and added up as f16
  // or f32 is, and of epilogues, whose functions read what the others do: by turns, so that each of
  // four transposes and of three shapes is among them.
  void check_all(const std::vector<Problem>& problems) {
    size_t turn = 0;
    for (const Problem& p : problems) {
      const bool alike = (p.dtype != DType::f32 && p.dtype != DType::f16) || p.gradient ||
                         p.activation != Activation::none;
      const bool chosen = (turn + turn / 3) % 3 == 0;
      ++turn;
      if (alike && !chosen && problems.size() > 6 && !wt_test::whole_walk()) continue;
      Setup s = set_up(p, device);
      solve(s);
      for (int i = 0; i < list.count; ++i) {
        const Variant<MatmulArgs>& v = list.rows[i];
        if (refusal(v, s.args, device)) continue;
        // A thread an element has no tile to fill: what is large is for the others.
        if (std::string_view(v.name) == "naive" && is_large(s) && !wt_test::whole_walk()) continue;
        for (const Setting& setting : settings) {
          INFO("instruction set " << setting.isa << ", " << setting.threads << " threads");
          apply(setting);
          run_variant(s, v, device);
        }
        ++taken[size_t(i)];
      }
    }
  }
  void everyone_ran() const {
    for (int i = 0; i < list.count; ++i) {
      const Variant<MatmulArgs>& v = list.rows[i];
      const char* why = v.why_not ? v.why_not(MatmulArgs{}) : nullptr;
      INFO(v.name << ": " << (why ? why : ""));
      if (why && std::string(why).find("this build") != std::string::npos) continue;
      // What a driver lacks no kernel can have: the emulator's makes no tensor maps.
      if (const char* lacks = v.why_not_on ? v.why_not_on({}, device_limits(device)) : nullptr;
          lacks && (std::string(lacks).find("needs a CUDA driver that") != std::string::npos ||
                    std::string(lacks).find("this build has no code for") != std::string::npos))
        continue;
      CHECK(taken[size_t(i)] > 0);
    }
  }
};

// Sizes by all four transposes; every second one with padded rows.
inline std::vector<Problem> shapes(DType t, const std::vector<std::vector<i64>>& sizes,
                                   bool align = false) {
  std::vector<Problem> all;
  for (const auto& s : sizes)
    for (int flags = 0; flags < 4; ++flags)
      for (i64 pad : {0, 3})
        all.push_back({.m = s[0],
                       .n = s[1],
                       .k = s[2],
                       .dtype = t,
                       .ta = (flags & 1) != 0,
                       .tb = (flags & 2) != 0,
                       .pad = pad,
                       .align = align,
                       .bias = (flags + pad) % 2 == 0,
                       .accumulate = pad != 0,
                       .row_sum = flags != 2});
  return all;
}

const std::vector<std::vector<i64>> kCpuSizes = {
    {1, 1, 1},    {2, 3, 5},   {5, 1, 40}, {1, 5, 7},     {7, 16, 1},   {33, 2, 9},
    {33, 10, 48}, {17, 33, 9}, {8, 64, 3}, {20, 37, 131}, {13, 16, 300}};
// Blocks of the kernels for simt and cuda are 64 wide at least.
const std::vector<std::vector<i64>> kAlignedSizes = {{5, 3, 7}, {33, 40, 48}, {17, 70, 67}};
const std::vector<std::vector<i64>> kDeviceSizes = {
    {1, 1, 1}, {2, 3, 5}, {33, 1, 9}, {1, 35, 17}, {19, 40, 33}};

inline std::vector<Problem> empty_problems(DType t) {
  return {{.m = 3, .n = 4, .k = 0, .dtype = t, .row_sum = true},
          {.m = 3, .n = 4, .k = 0, .dtype = t, .bias = true},
          {.m = 3, .n = 4, .k = 0, .dtype = t, .accumulate = true, .row_sum = true},
          {.m = 0, .n = 4, .k = 3, .dtype = t},
          {.m = 3, .n = 0, .k = 2, .dtype = t}};
}

inline std::vector<Problem> batched_problems(DType t) {
  std::vector<Problem> all;
  for (int flags = 0; flags < 4; ++flags) {
    Problem p{.m = 5, .n = 6, .k = 7, .dtype = t, .ta = (flags & 1) != 0, .tb = (flags & 2) != 0};
    p.batch = {{3, 1, 1, 1}};
    all.push_back(p);
    p.align = true;
    all.push_back(p);
    p.align = false;
    p.accumulate = true;
    p.batch = {{2, 1, 0, 1}, {3, 1, 1, 0}};
    all.push_back(p);
    p.bias = true;
    p.pad = 1;
    p.batch = {{2, 1, 1, 1}, {1, 1, 0, 0}, {2, 1, 0, 1}, {2, 1, 1, 0}};
    all.push_back(p);
  }
  all.push_back({.m = 2, .n = 3, .k = 2, .dtype = t, .batch = {{0, 1, 1, 1}}});
  return all;
}

// Enough work for the device's large tiles, with ragged edges.
inline std::vector<Problem> large_problems(DType t, std::initializer_list<int> transposes) {
  std::vector<Problem> all;
  for (int flags : transposes) {
    all.push_back({.m = 130,
                   .n = 133,
                   .k = 35,
                   .dtype = t,
                   .ta = (flags & 1) != 0,
                   .tb = (flags & 2) != 0,
                   .align = true,
                   .bias = true,
                   .batch = {{16, 1, 0, 1}}});
  }
  return all;
}

// k below, at and beyond what a pipeline of four stages of 32 has under way, with and without a
// rest.
inline std::vector<Problem> long_problems() {
  std::vector<Problem> all;
  const i64 ks[] = {32, 64, 97, 128, 160, 259};
  for (int i = 0; i < 6; ++i)
    all.push_back({.m = i % 2 ? 40 : 131,
                   .n = i % 2 ? 131 : 24,
                   .k = ks[i],
                   .dtype = i % 3 ? DType::f16 : DType::bf16,
                   .ta = i % 2 != 0,
                   .tb = i / 2 % 2 != 0,
                   .align = true,
                   .bias = true,
                   .row_sum = true});
  for (int flags = 0; flags < 4; ++flags)
    all.push_back({.m = 128,
                   .n = 128,
                   .k = 192,
                   .dtype = DType::f16,
                   .ta = (flags & 1) != 0,
                   .tb = (flags & 2) != 0,
                   .align = true,
                   .accumulate = flags != 0});
  return all;
}

// k in two to five parts, with a short last one; columns that are no multiple of four; batches.
inline std::vector<Problem> split_problems(DType t) {
  std::vector<Problem> all;
  const i64 ks[] = {512, 775, 1033, 1280};
  for (int flags = 0; flags < 4; ++flags)
    all.push_back({.m = flags % 2 ? 70 : 9,
                   .n = flags / 2 ? 13 : 66,
                   .k = ks[flags],
                   .dtype = t,
                   .ta = (flags & 1) != 0,
                   .tb = (flags & 2) != 0,
                   .pad = flags == 2 ? 3 : 0,
                   .align = true,
                   .bias = flags != 1,
                   .accumulate = flags == 1,
                   .row_sum = flags != 3});
  all.push_back({.m = 3,
                 .n = 5,
                 .k = 545,
                 .dtype = t,
                 .tb = true,
                 .align = true,
                 .bias = true,
                 .accumulate = true,
                 .batch = {{2, 1, 0, 1}, {2, 1, 1, 1}}});
  return all;
}

// Every activation forward and backward, with what else an epilogue has; whole and ragged tiles, a
// bias, a batch, k in parts.
inline std::vector<Problem> epilogue_problems(DType t) {
  std::vector<Problem> all;
  int turn = 0;
  for (const Activation f : kAllActivations)
    for (const bool gradient : {false, true}) {
      if (gradient && f == Activation::none) continue;
      Problem p{.m = 33, .n = 40, .k = 24, .dtype = t, .align = true, .bias = !gradient};
      p.activation = f, p.gradient = gradient;
      p.residual = f == Activation::none || turn % 2 == 1;
      p.aux = !gradient && f != Activation::none && turn % 3 != 0;
      p.ta = turn % 2 == 0, p.tb = turn % 4 < 2;
      all.push_back(p);
      p.m = 7, p.n = 13, p.pad = 1, p.align = turn % 2 == 0;  // rows that begin anywhere
      all.push_back(p);
      p.n = 8, p.pad = 0, p.align = true, p.bias = false;
      p.batch = {{2, 1, 1, 0}, {2, 1, 0, 1}};
      all.push_back(p);
      ++turn;
    }
  for (const bool gradient : {false, true}) {
    Problem p{.m = 9, .n = 24, .k = 1040, .dtype = t, .align = true, .row_sum = gradient};
    p.activation = Activation::gelu_tanh, p.gradient = gradient, p.residual = p.aux = !gradient;
    all.push_back(p);
    p = {.m = 0, .n = 4, .k = 3, .dtype = t, .activation = Activation::relu, .gradient = gradient};
    all.push_back(p);
    p.m = 3, p.k = 0, p.bias = !gradient;
    all.push_back(p);
  }
  return all;
}
// Beyond a band of 64 rows, in tiles of 128 too.
inline std::vector<Problem> large_epilogue_problems(DType t) {
  Problem p{.m = 130, .n = 136, .k = 40, .dtype = t, .align = true, .bias = true};
  p.activation = Activation::gelu_tanh, p.residual = p.aux = true;
  p.batch = {{16, 1, 0, 1}};
  return {p};
}

constexpr DType kAll[] = {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64, DType::i32};

}  // namespace matmul_test
