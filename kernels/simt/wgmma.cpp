// wgmma on the host: 128 threads ask for a product, which is computed when one of them has to wait
// for it, from what shared memory holds then.
#include <cstring>

#include "warptape/core/half.h"
#include "warptape/kernels/simt/async_units.h"
#include "warptape/kernels/simt/mma.h"

namespace wt {
namespace simt_runtime {
namespace {

constexpr int kRows = 64, kDepth = 16, kMaxColumns = 256;

// An operand's descriptor: `lines` are rows of A or columns of B.
struct Operand {
  const char* shared;
  uint32_t from, next_64, next_8;
  bool across;
  // Where the 16 bytes lie that begin with (line, k); the 128-byte swizzle permutes such pieces.
  const char* piece(int line, int k) const {
    const uint32_t offset =
        across ? uint32_t(line / 64) * next_64 + uint32_t(line % 64) * 2 +
                     uint32_t(k / 8) * next_8 + uint32_t(k % 8) * 128
               : uint32_t(line / 8) * next_8 + uint32_t(line % 8) * 128 + uint32_t(k) * 2;
    const uint32_t place = from + offset;
    return shared + (place ^ (place >> 7 & 7) << 4);
  }
  template <class F>
  void each_piece(int first, int lines, F f) const {
    if (across)
      for (int line = first; line < first + lines; line += 8)
        for (int k = 0; k < kDepth; ++k) f(line, k, piece(line, k));
    else
      for (int line = first; line < first + lines; ++line)
        for (int k = 0; k < kDepth; k += 8) f(line, k, piece(line, k));
  }
};

Operand operand_of(const Exec& x, uint64_t bits, bool across) {
  return {x.shared, uint32_t(bits & 0x3fff) << 4, uint32_t(bits >> 16 & 0x3fff) << 4,
          uint32_t(bits >> 32 & 0x3fff) << 4, across};
}

Operand decode(Exec& x, const char* name, uint64_t bits, bool across, int lines, Loc here) {
  const Operand o = operand_of(x, bits, across);
  const char* problem = nullptr;
  if (bits >> 62 != 1)
    problem = "has another swizzle than that of 128 bytes, which is all that simt knows";
  else if (bits >> 49 & 7)
    problem = "has a base offset";
  else if (o.from % 1024 >= (across ? 1u : 128u))
    problem = "begins in the middle of eight rows: these are at a multiple of 1024 bytes";
  else if (across && lines > 64 && o.next_64 == 0)
    problem = "does not say where the next 64 lines are";
  if (problem)
    WT_FAIL(x, "wgmma at %s: the descriptor of %s %s (%s)", at(here).c_str(), name, problem,
            thread_text(x, x.cur).c_str());
  return o;
}

// The bytes that an operand takes up, all of which lie in shared arrays, where no load is under way
// and none has left another swizzle.
Bytes check_tile(Exec& x, const char* name, const Operand& o, int lines, Loc here) {
  Bytes all{o.piece(0, 0), o.piece(0, 0)};
  bool inside = true;
  o.each_piece(0, lines, [&](int, int, const char* p) {
    inside &= in_shared_array(x, p, 16);
    if (p < all.begin) all.begin = p;
    if (p + 16 > all.end) all.end = p + 16;
  });
  if (!inside)
    WT_FAIL(x, "wgmma at %s: %s is not in a shared array (%s)", at(here).c_str(), name,
            thread_text(x, x.cur).c_str());
  if (const TmaLoad* l = load_under_way(x, all.begin, size_t(all.end - all.begin)))
    WT_FAIL(x, "wgmma at %s: %s is what the TMA load at %s brings, which is under way (%s)",
            at(here).c_str(), name, at(l->at).c_str(), thread_text(x, x.cur).c_str());
  for (const TmaTile& t : x.units->tiles)
    if (!t.swizzled && all.meets(t.to, t.bytes))
      WT_FAIL(x, "wgmma at %s: %s is read as swizzled, the TMA load at %s was not (%s)",
              at(here).c_str(), name, at(t.at).c_str(), thread_text(x, x.cur).c_str());
  return all;
}

void widen(const char* piece, bool bf16, float* to, int step) {
  for (int i = 0; i < 8; ++i) {
    u16 bits;
    std::memcpy(&bits, piece + 2 * i, 2);
    to[i * step] = bf16 ? wt::detail::bfloat_to_float(bits) : wt::detail::half_to_float(bits);
  }
}

// sum[i][j] = the sum over k, ascending, of a[k][i] b[k][j]. Products of 11-bit mantissas are exact
// in float: with FMA or without, the bits are the same. 32 columns at a time are what the host's
// compiler makes vectors of.
WT_FN void multiply_tiles(const float (*a)[kRows], const float (*b)[kMaxColumns], int columns,
                          float (*sum)[kMaxColumns]) {
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < columns; j += 32) {
      float part[32] = {};
      for (int k = 0; k < kDepth; ++k)
        for (int c = 0; c < 32; ++c) part[c] += a[k][i] * b[k][j + c];
      std::memcpy(&sum[i][j], part, sizeof part);
    }
}
void multiply_tiles_plain(const float (*a)[kRows], const float (*b)[kMaxColumns], int columns,
                          float (*sum)[kMaxColumns]) {
  multiply_tiles(a, b, columns, sum);
}
__attribute__((target("avx2,fma"))) void multiply_tiles_avx2(const float (*a)[kRows],
                                                             const float (*b)[kMaxColumns],
                                                             int columns,
                                                             float (*sum)[kMaxColumns]) {
  multiply_tiles(a, b, columns, sum);
}

void compute(const Exec& x, Warpgroup& g, Wgmma& m) {
  static thread_local float a[kDepth][kRows], b[kDepth][kMaxColumns], sum[kRows][kMaxColumns];
  static const bool avx2 = cpu_has_avx2();
  if (m.computed) return;
  m.computed = true;
  const auto read = [&](const Operand& o, int lines, float* to, int pitch) {
    o.each_piece(0, lines, [&](int line, int k, const char* p) {
      widen(p, m.shape.bf16, to + k * pitch + line, o.across ? 1 : pitch);
    });
  };
  read(operand_of(x, m.a, m.shape.a_across), kRows, a[0], kRows);
  read(operand_of(x, m.b, m.shape.b_across), m.shape.n, b[0], kMaxColumns);
  (avx2 ? multiply_tiles_avx2 : multiply_tiles_plain)(a, b, m.shape.n, sum);
  Accumulators& acc = g.accumulators[m.accumulators];
  for (unsigned t = 0; t < kWarpgroup; ++t) {
    float* const v = &acc.value[t * acc.count];
    const unsigned row = t / 32 * 16 + t % 32 / 4, column = t % 4 * 2;
    for (unsigned i = 0; i < acc.count; ++i)
      v[i] += sum[row + i % 4 / 2 * 8][column + i / 4 * 8 + i % 2];
  }
}

// The array of accumulators at g.d, new or known from before; its registers are the product's now.
unsigned take_accumulators(Exec& x, Warpgroup& g, unsigned count) {
  unsigned index = 0;
  while (index < g.accumulators.size() && g.accumulators[index].d[0] != g.d[0]) ++index;
  const bool known = index < g.accumulators.size();
  if (!known) g.accumulators.emplace_back();
  Accumulators& acc = g.accumulators[index];
  if (known && acc.under_way) return index;  // in the order of the products, without a fence
  for (unsigned t = 0; t < kWarpgroup; ++t) {
    const char* problem = nullptr;
    if (!g.fenced_ever[t])
      problem = "no wgmma_fence before the first wgmma";
    else if (!g.fenced[t] && (!known || acc.count != count ||
                              std::memcmp(&acc.value[t * count], g.d[t], 4 * count) != 0))
      problem = "no wgmma_fence since the thread has written its accumulators";
    if (problem) {
      const unsigned thread = unsigned(&g - x.units->groups) * kWarpgroup + t;
      WT_FAIL(x, "wgmma at %s: %s (%s)", at(g.at).c_str(), problem, thread_text(x, thread).c_str());
    }
  }
  acc.count = count;
  acc.value.resize(size_t(kWarpgroup) * count);
  for (unsigned t = 0; t < kWarpgroup; ++t) {
    acc.d[t] = g.d[t];
    std::memcpy(&acc.value[t * count], g.d[t], 4 * count);
    std::memset(g.d[t], 0xff, 4 * count);
  }
  return index;
}

void forget_waited(Warpgroup& g) {
  std::erase_if(g.products, [&](const Wgmma& m) {
    for (unsigned t = 0; t < kWarpgroup; ++t)
      if (m.group >= g.done[t]) return false;
    --g.accumulators[m.accumulators].under_way;
    return true;
  });
}

// All 128 threads have come.
void issue(Exec& x, unsigned group) {
  Warpgroup& g = x.units->groups[group];
  for (unsigned t = 1; t < kWarpgroup; ++t)
    if (g.groups[t] != g.groups[0])
      WT_FAIL(x,
              "wgmma at %s: the threads of its warpgroup have committed different numbers of "
              "groups (%s)",
              at(g.at).c_str(), thread_text(x, group * kWarpgroup + t).c_str());
  Wgmma m{g.shape, g.a, g.b, 0, g.groups[0], g.at, {}};
  const Operand a = decode(x, "A", g.a, g.shape.a_across, kRows, g.at);
  const Operand b = decode(x, "B", g.b, g.shape.b_across, g.shape.n, g.at);
  m.reads[0] = check_tile(x, "A", a, kRows, g.at);
  m.reads[1] = check_tile(x, "B", b, g.shape.n, g.at);
  if (race_hooks)
    for (unsigned w = 0; w < 4; ++w) {
      const unsigned thread = group * kWarpgroup + 32 * w;
      const auto read = [&](int, int, const char* p) { race_hooks->read(thread, p, 16, g.at); };
      a.each_piece(int(w) * 16, 16, read);
      b.each_piece(0, g.shape.n, read);
    }
  m.accumulators = take_accumulators(x, g, unsigned(g.shape.n) / 2);
  ++g.accumulators[m.accumulators].under_way;
  g.products.push_back(m);
  if (x.order == SimtOrder::random && next_random(x) >> 32 & 1)
    for (Wgmma& each : g.products) compute(x, g, each);
}

Warpgroup& my_group(Exec& x, const char* what, Loc here) {
  const unsigned group = x.cur / kWarpgroup;
  if (x.n < (group + 1) * kWarpgroup)
    WT_FAIL(x, "%s at %s needs a whole warpgroup, 128 threads (%s)", what, at(here).c_str(),
            thread_text(x, x.cur).c_str());
  return async_units(x).groups[group];
}

}  // namespace

const Wgmma* reader_under_way(const Exec& x, const char* p, size_t bytes) {
  for (const Warpgroup& g : x.units->groups)
    for (const Wgmma& m : g.products)
      if ((m.reads[0].meets(p, bytes) || m.reads[1].meets(p, bytes)) && !g.waited_for(m)) return &m;
  return nullptr;
}

const Loc* wgmma_of_tile(const Exec& x, const char* p, size_t bytes) {
  const Wgmma* const m = reader_under_way(x, p, bytes);
  return m ? &m->at : nullptr;
}

const Loc* wgmma_of_register(const Exec& x, unsigned thread, const void* p) {
  const Warpgroup& g = x.units->groups[thread / kWarpgroup];
  const unsigned t = thread % kWarpgroup;
  for (const Wgmma& m : g.products) {
    const Accumulators& acc = g.accumulators[m.accumulators];
    const char* const d = reinterpret_cast<const char*>(acc.d[t]);
    if (m.group >= g.done[t] && p >= d && p < d + 4 * acc.count) return &m.at;
  }
  return nullptr;
}

}  // namespace simt_runtime

inline namespace simt {

using namespace simt_runtime;

WT_API uint32_t exec_shared_address(const void* p, Loc here) {
  Exec& x = exec();
  const char* const q = static_cast<const char*>(p);
  if (!in_shared_array(x, q, 1))
    WT_FAIL(x, "wgmma_descriptor at %s: the tile is not in a shared array (%s)", at(here).c_str(),
            thread_text(x, x.cur).c_str());
  return uint32_t(q - x.shared);
}

WT_API void exec_wgmma_fence(Loc here) {
  Exec& x = exec();
  Warpgroup& g = my_group(x, "wgmma_fence", here);
  const unsigned t = x.cur % kWarpgroup;
  g.fenced[t] = g.fenced_ever[t] = true;
}

WT_API void exec_wgmma(const WgmmaShape& shape, float* d, uint64_t a, uint64_t b, Loc here) {
  Exec& x = exec();
  Warpgroup& g = my_group(x, "wgmma", here);
  const unsigned group = x.cur / kWarpgroup, t = x.cur % kWarpgroup;
  if (g.arrived == 0) {
    g.shape = shape;
    g.a = a;
    g.b = b;
    g.at = here;
  } else if (g.a != a || g.b != b || g.shape.n != shape.n || !same_place(g.at, here)) {
    WT_FAIL(x,
            "wgmma at %s: the threads of a warpgroup do one and the same, but others are at %s or "
            "have other descriptors (%s)",
            at(here).c_str(), at(g.at).c_str(), thread_text(x, x.cur).c_str());
  }
  g.d[t] = d;
  if (++g.arrived < kWarpgroup) {
    g.waiting[t / 32] |= 1u << t % 32;
    return park(x, here, wait_op(Wait::wgmma));
  }
  g.arrived = 0;
  x.spins = 0;
  ++x.stats.collectives;
  issue(x, group);
  for (unsigned w = 0; w < 4; ++w) {
    if (g.waiting[w]) make_ready(x, group * 4 + w, g.waiting[w]);
    g.waiting[w] = 0;
  }
  if (x.order == SimtOrder::forward) return;
  make_ready(x, x.cur / 32, 1u << x.cur % 32);
  park(x, here, wait_op(Wait::wgmma));
}

WT_API void exec_wgmma_commit(Loc here) {
  Exec& x = exec();
  ++my_group(x, "wgmma_commit", here).groups[x.cur % kWarpgroup];
}

WT_API void exec_wgmma_wait(unsigned groups_left, Loc here) {
  Exec& x = exec();
  Warpgroup& g = my_group(x, "wgmma_wait", here);
  const unsigned t = x.cur % kWarpgroup;
  const unsigned done = g.groups[t] > groups_left ? g.groups[t] - groups_left : 0;
  g.fenced[t] = false;
  if (done <= g.done[t]) return;
  const unsigned before = g.done[t];
  g.done[t] = done;
  for (Wgmma& m : g.products)
    if (m.group < done) compute(x, g, m);
  // The thread's registers come back when none of their products is left.
  for (const Wgmma& m : g.products) {
    if (m.group < before || m.group >= done) continue;
    bool more = false;
    for (const Wgmma& later : g.products)
      more |= later.accumulators == m.accumulators && later.group >= done;
    Accumulators& acc = g.accumulators[m.accumulators];
    if (!more) std::memcpy(acc.d[t], &acc.value[t * acc.count], 4 * acc.count);
  }
  forget_waited(g);
}

}  // namespace simt
}  // namespace wt
