// What the kernels of channel normalisation share above `naive`: arguments in 32 bits, and the two
// ways of handing a tensor [N, C, S] to threads.
//   planes   what lies inside a channel is neighbours in memory (NCHW): teams of threads take rows
//            of it, a lane 16 bytes at a time, wherever the rows begin
//   columns  channels are neighbours (NHWC, or [N, C]): a lane keeps the constants or the sums of
//            16 bytes of channels in registers and walks over the places
// Sums go through memory in parts, since the channels alone would be few blocks. How many parts
// there are, and who adds what, follows from shape and strides: fixed bits for every run.
#pragma once
#include "warptape/kernels/channel_norm.h"
#include "warptape/kernels/device/block_reduce.cuh"
#include "warptape/kernels/device/epilogue.cuh"
#include "warptape/kernels/device/float_types.cuh"
#include "warptape/kernels/device/row_kernels.cuh"
#include "warptape/kernels/norm/channels.h"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr int kChannelThreads = 256;
constexpr i64 kNaiveThreads = 64;  // few rows to hand out: small blocks spread over processors
constexpr int kJoinWarps = 4;

// ChannelShape where every count fits: divisions of 32 bits are some 20 instructions, of 64 bits a
// call of 70 and more.
struct SmallShape {
  u32 samples, channels, size, groups, width;
  explicit SmallShape(const ChannelShape& s)
      : samples(u32(s.samples)),
        channels(u32(s.channels)),
        size(u32(s.size)),
        groups(u32(s.groups)),
        width(u32(s.width())) {}
  WT_HD bool batch() const { return groups == 0; }
  WT_HD u32 statistics() const { return batch() ? channels : samples * groups; }
  WT_HD u32 statistic(u32 n, u32 c) const { return batch() ? c : n * groups + c / width; }
  WT_HD u32 cell(u32 n, u32 c) const { return batch() ? c : n * channels + c; }
  WT_HD u32 cells() const { return batch() ? channels : samples * channels; }
};

// Mean, its rest and rstd of a statistic (Centre with fewer divisions).
struct SmallCentre {
  float mean, rest, rstd;
  __device__ __forceinline__ SmallCentre() {}
  __device__ __forceinline__ SmallCentre(const SmallShape& s, const float* stats, u32 k)
      : mean(stats[k]), rest(stats[s.statistics() + k]), rstd(stats[2 * i64(s.statistics()) + k]) {}
  __device__ __forceinline__ float distance(float x) const { return (x - mean) - rest; }
};

// --- an activation behind the norm ---

// y = f(z) of one element, and its gradient. relu has kernels of its own, and so have those that
// are made of comparisons: behind a convolution they are what networks have, and the smooth ones'
// formulas would cost their kernels registers.
struct Relued {
  explicit Relued(Activation) {}
  template <class A>
  __device__ __forceinline__ A value(A z) const {
    return pw::Relu::value(z);
  }
  template <class A>
  __device__ __forceinline__ A gradient(A gy, A z) const {
    return pw::Grad0<pw::Relu>().value(gy, z);  // z has the sign of its result
  }
};
// Derived::apply(gradient, z or gy, z) picks the formula: the same way for all threads.
template <class Derived>
struct Picked {
  Activation f;
  explicit Picked(Activation which) : f(which) {}
  template <class A>
  __device__ __forceinline__ A value(A z) const {
    return static_cast<const Derived*>(this)->apply(false, z, z);
  }
  template <class A>
  __device__ __forceinline__ A gradient(A gy, A z) const {
    return static_cast<const Derived*>(this)->apply(true, gy, z);
  }
};
struct Bent : Picked<Bent> {
  using Picked::Picked;
  template <class A>
  __device__ __forceinline__ A apply(bool gradient, A z, A saved) const {
    if (f == Activation::relu6) return activated_by<pw::Relu6>(gradient, z, saved);
    return activated_by<pw::Hardswish>(gradient, z, saved);
  }
};
struct Smooth : Picked<Smooth> {
  using Picked::Picked;
  template <class A>
  __device__ __forceinline__ A apply(bool gradient, A z, A saved) const {
    if (f == Activation::gelu) return activated_by<pw::Gelu>(gradient, z, saved);
    if (f == Activation::gelu_tanh) return activated_by<pw::GeluTanh>(gradient, z, saved);
    return activated_by<pw::Silu>(gradient, z, saved);
  }
};
// Kernels take it, with what z is made of, behind their arguments; or nothing, and then they have
// no code for it.
template <class T, class Act>
struct After {
  const T *weight, *bias;
  Act act;
  template <class F>
  void visit_pointers(F&& f) const {
    f(weight), f(bias);
  }
  template <class A>
  __device__ __forceinline__ void value(A& z) const {
    z = act.value(z);
  }
  // gy becomes gz.
  template <class A>
  __device__ __forceinline__ void gradient(A& gy, A z) const {
    gy = act.gradient(gy, z);
  }
  // z = distance * scale + shift in channel c.
  template <class A>
  __device__ __forceinline__ void line(i64 c, A rstd, A& scale, A& shift) const {
    scale = rstd * (weight ? A(weight[c]) : A(1));
    shift = bias ? A(bias[c]) : A(0);
  }
};
// call() or call(After).
template <class T, class Args, class Call>
void with_activation(const Args& a, Call call) {
  const T* const weight = a.weight.template as<const T>();
  const T* const bias = a.bias.template as<const T>();
  if (a.activation == Activation::none)
    call();
  else if (a.activation == Activation::relu)
    call(After<T, Relued>{weight, bias, Relued(a.activation)});
  else if (a.activation == Activation::relu6 || a.activation == Activation::hardswish)
    call(After<T, Bent>{weight, bias, Bent(a.activation)});
  else
    call(After<T, Smooth>{weight, bias, Smooth(a.activation)});
}

// --- planes: rows of neighbours ---

// A row is walked in windows of 16 bytes that begin at the boundaries of memory, not of the row:
// rows of 7 x 7 elements begin anywhere. The first and the last window of a row may be cut.
// The windows follow from the offset, so that an operand that begins beside a boundary (`packs` is
// false then) is added up in the same order, element by element.
struct PlaneRows {
  u32 length, windows;   // elements and windows of a row; of the row with most of them
  u32 lanes, log_lanes;  // threads of the team that takes a row: a power of two
  u32 chunks, chunk;     // a row in parts of so many windows
  bool packs;            // all operands begin at the same distance from a boundary
};

// f(first element, values[Operands][V], lo, hi) for this lane's windows [begin, end): the values
// are valid in [lo, hi), 0 and V but for cut windows. Several windows are loaded before the first
// is used.
template <int Operands, class T, class F>
__device__ __forceinline__ void walk_windows(const PlaneRows& p,
                                             const RowOf<const T> (&row)[Operands], int shift,
                                             int begin, int end, F f) {
  constexpr int V = kPerPack<T>, kTurn = Operands == 1 ? 4 : 2;
  const int length = int(p.length), lanes = int(p.lanes);
  for (int at = begin + int(threadIdx.x & (p.lanes - 1)); at < end; at += kTurn * lanes) {
    if (p.packs) {
      Pack16<T> pack[kTurn][Operands];
#pragma unroll
      for (int u = 0; u < kTurn; ++u) {
        const int i = (at + u * lanes) * V - shift;
        if (at + u * lanes < end && i >= 0 && i + V <= length) {
#pragma unroll
          for (int k = 0; k < Operands; ++k) pack[u][k] = vload<Pack16<T>>(row[k].data + i);
        }
      }
#pragma unroll
      for (int u = 0; u < kTurn; ++u) {
        const int i = (at + u * lanes) * V - shift;
        if (at + u * lanes < end && i >= 0 && i + V <= length) {
          float v[Operands][V];
#pragma unroll
          for (int k = 0; k < Operands; ++k)
#pragma unroll
            for (int j = 0; j < V; ++j) v[k][j] = float(pack[u][k].v[j]);
          f(i, v, 0, V);
        }
      }
    }
    // What is left: cut windows, two of a row; and all of them where 16 bytes cannot be read as
    // one, whole ones first again, for the same order of additions.
#pragma unroll 1
    for (int turn = p.packs ? kTurn : 0; turn < 2 * kTurn; ++turn) {
      const int w = at + (turn < kTurn ? turn : turn - kTurn) * lanes, i = w * V - shift;
      const bool whole = i >= 0 && i + V <= length;
      if (w >= end || whole != (turn < kTurn)) continue;
      const int lo = i < 0 ? -i : 0, hi = length - i < V ? length - i : V;
      float v[Operands][V];
#pragma unroll
      for (int k = 0; k < Operands; ++k)
#pragma unroll
        for (int j = 0; j < V; ++j) v[k][j] = j >= lo && j < hi ? float(row[k][i + j]) : 0.0f;
      f(i, v, lo, hi);
    }
  }
}
// A window's results; a cut one's, or of rows that begin beside boundaries, one by one.
template <class T>
__device__ __forceinline__ void store_window(const RowOf<T>& row, const Pack16<T>& v, int i, int lo,
                                             int hi, bool packs) {
  if (packs && lo == 0 && hi == kPerPack<T>) {
    vstore(row.data + i, v);
  } else {
#pragma unroll
    for (int j = 0; j < kPerPack<T>; ++j)
      if (j >= lo && j < hi) row[i + j] = v.v[j];
  }
}
// Where chunk `chunk` of a row ends, whose first window begins `shift` elements before it.
template <class T>
__device__ __forceinline__ int windows_end(const PlaneRows& p, int shift, u32 chunk) {
  const u32 all = (p.length + u32(shift) + kPerPack<T> - 1) / kPerPack<T>;
  const u32 end = (chunk + 1) * p.chunk;
  return int(end < all ? end : all);
}
template <class T>
__device__ __forceinline__ int window_shift(i64 offset) {
  return int(offset & (kPerPack<T> - 1));
}

// The distances from a boundary agree at every row: no 16-byte access else.
template <class T, class U>
bool same_shift(const Cells<T>& a, const Cells<U>& b, const ChannelShape& s) {
  constexpr i64 V = kPerPack<T>;
  return (s.samples == 1 || (a.sample - b.sample) % V == 0) &&
         (s.channels == 1 || (a.channel - b.channel) % V == 0);
}
template <class T>
bool in_packs(const Cells<T>& a) {
  return a.step == 1 && aligned_16(a.data);
}

// Turns of four windows, or of four places, that a thread makes when blocks are plenty: a part has
// its cost, and a part of a GPU without work has another.
inline i64 channel_turns(i64 packs) {
  constexpr i64 kBlocks = 8 * 132;  // a number, not the device's: bits would follow the device
  const i64 turns = packs / (4 * kChannelThreads * kBlocks);
  return turns < 1 ? 1 : turns > 8 ? 8 : turns;
}
constexpr i64 kMostParts = 4096;

template <class T>
PlaneRows plane_rows(const Cells<T>& x, i64 rows, i64 length, bool packs) {
  constexpr i64 V = kPerPack<std::remove_const_t<T>>;
  PlaneRows p;
  p.length = u32(length);
  const bool shifted = x.sample % V != 0 || x.channel % V != 0;
  p.windows = u32(ceil_div(length + (shifted ? V - 1 : 0), V));
  // Up to four windows a lane and turn, and 128 bytes a team at least.
  p.log_lanes = 3;
  while ((1u << p.log_lanes) < kChannelThreads && (4u << p.log_lanes) < p.windows) ++p.log_lanes;
  p.lanes = 1u << p.log_lanes;
  const i64 turns = channel_turns(rows * p.windows);
  p.chunks = u32(ceil_div(p.windows, 4 * turns * kChannelThreads));
  if (p.chunks < 1) p.chunks = 1;
  p.chunk = u32(ceil_div(ceil_div(p.windows, p.chunks), p.lanes)) * p.lanes;
  p.packs = packs;
  return p;
}

// The rows that are added up together, in parts: so many rows of a chunk each.
struct PlaneParts {
  u32 rows, rows_each, parts;  // of one sum
  u32 threads;
};
inline PlaneParts plane_parts(PlaneRows& p, i64 sums, i64 rows) {
  PlaneParts s;
  s.rows = u32(rows);
  const i64 capacity = 4 * kChannelThreads * channel_turns(sums * rows * p.windows);
  i64 each = p.windows ? capacity / p.windows : 1;
  if (p.chunks > 1 || each < 1) each = 1;
  if (p.chunks > kMostParts) {
    p.chunk = u32(ceil_div(ceil_div(p.windows, kMostParts), p.lanes)) * p.lanes;
    p.chunks = u32(ceil_div(p.windows, p.chunk));
  }
  if (each < ceil_div(rows * p.chunks, kMostParts)) each = ceil_div(rows * p.chunks, kMostParts);
  if (each > rows) each = rows > 0 ? rows : 1;
  s.rows_each = u32(each);
  s.parts = u32(ceil_div(rows, each)) * p.chunks;
  if (s.parts < 1) s.parts = 1;
  if (each == 1)  // a team of 8 alone would leave the rest of its warp idle
    while (p.log_lanes < 5) p.lanes = 1u << ++p.log_lanes;
  s.threads = 32;
  while (s.threads < kChannelThreads && s.threads < each * p.lanes) s.threads *= 2;
  return s;
}

// --- columns: channels are neighbours ---

// Block (slab, part, group of columns): a slab is a sample, or all of them where places of all are
// walked together.
struct Columns {
  u32 slabs, places;     // places: what a slab has of each channel
  u32 parts, part;       // a slab's places in parts of so many
  u32 lanes, log_lanes;  // threads side by side, a pack of channels each: a power of two
  u32 groups;            // blocks side by side
  bool even;             // neighbouring places are a `step` apart across samples, too
  bool packs;
};
// Words of shared memory by (channel of a pack, thread): rows for the channels, the threads side by
// side. What reads a few lanes of every row finds each in banks of its own, because a row is so
// many lanes longer than all banks. kColumnRow: at most.
constexpr u32 kColumnRow = kChannelThreads + 16;
__device__ __forceinline__ u32 column_row(const Columns& c) {
  return kChannelThreads + (c.lanes & 31);
}
template <class T>
Columns make_columns(const ChannelShape& s, bool whole, bool even, bool packs, i64 most_parts) {
  constexpr i64 V = kPerPack<T>;
  Columns c;
  c.slabs = u32(whole ? 1 : s.samples);
  c.places = u32(whole ? s.samples * s.size : s.size);
  c.log_lanes = 0;
  const i64 across = ceil_div(s.channels, V);
  while (c.log_lanes < 5 && (1 << c.log_lanes) < across) ++c.log_lanes;
  c.lanes = 1u << c.log_lanes;
  c.groups = u32(ceil_div(across, c.lanes));
  const i64 slots = kChannelThreads >> c.log_lanes;
  i64 part = slots * 4 * 2 * channel_turns(s.samples * s.size * across);
  if (ceil_div(c.places, part) > most_parts) part = ceil_div(c.places, most_parts);
  c.part = u32(part);
  c.parts = u32(ceil_div(c.places, part));
  if (c.parts < 1) c.parts = 1;
  c.even = even;
  c.packs = packs;
  return c;
}
inline i64 column_blocks(const Columns& c) { return i64(c.slabs) * c.parts * c.groups; }

// Samples follow one another as the places of one do.
template <class T>
bool places_even(const Cells<T>& a, const ChannelShape& s) {
  return s.samples == 1 || a.sample == a.step * s.size;
}
// Every pack of channels begins at a 16-byte boundary.
template <class T>
bool columns_in_packs(const Cells<T>& a, const ChannelShape& s) {
  constexpr i64 V = kPerPack<T>;
  return aligned_16(a.data) && (s.size == 1 || a.step % V == 0) &&
         (s.samples == 1 || a.sample % V == 0);
}

// What a thread has to do of it.
struct ColumnThread {
  u32 slab, part, first;  // first: channel
  u32 begin, end;         // its part's places
  u32 slot, slots;        // it takes begin + slot, + slots, ...
  int valid;              // channels of the pack that exist; 0 or less: none
  __device__ __forceinline__ ColumnThread(const Columns& c, u32 channels, int V) {
    const u32 group = blockIdx.x % c.groups, rest = blockIdx.x / c.groups;
    part = rest % c.parts;
    slab = rest / c.parts;
    const u32 lane = threadIdx.x & (c.lanes - 1);
    first = (group * c.lanes + lane) * u32(V);
    valid = first < channels ? (channels - first < u32(V) ? int(channels - first) : V) : 0;
    begin = part * c.part;
    end = c.places - begin < c.part ? c.places : begin + c.part;
    slot = threadIdx.x >> c.log_lanes;
    slots = kChannelThreads >> c.log_lanes;
  }
};
// Element [place, first channel] of an operand.
template <class T>
__device__ __forceinline__ T* column_at(const Cells<T>& a, const Columns& c, const SmallShape& s,
                                        const ColumnThread& t, u32 place) {
  T* const p = a.data + t.first + i64(t.slab) * a.sample;
  if (c.even || c.slabs > 1) return p + i64(place) * a.step;
  const u32 n = place / s.size;
  return p + i64(n) * a.sample + i64(place - n * s.size) * a.step;
}
// f(place, values[Operands][V]) for this thread's places, in order. Several are loaded before the
// first is used. Values of channels that do not exist are 0.
template <int Operands, class T, class F>
__device__ __forceinline__ void walk_columns(const Cells<const T> (&x)[Operands], const Columns& c,
                                             const SmallShape& s, const ColumnThread& t, F f) {
  constexpr int V = kPerPack<T>, kTurn = Operands == 1 ? 4 : 2;
  const u32 begin = t.begin + t.slot;
  // Two loops, not one with a choice inside: where packs might be put together element by element
  // the compiler takes every one of them apart as it arrives, and waits for it.
  if (c.packs && t.valid == V) {
    for (u32 place = begin; place < t.end; place += kTurn * t.slots) {
      Pack16<T> pack[kTurn][Operands];
#pragma unroll
      for (int u = 0; u < kTurn; ++u)
        if (place + u * t.slots < t.end) {
#pragma unroll
          for (int k = 0; k < Operands; ++k)
            pack[u][k] = vload<Pack16<T>>(column_at(x[k], c, s, t, place + u * t.slots));
        }
#pragma unroll
      for (int u = 0; u < kTurn; ++u)
        if (place + u * t.slots < t.end) {
          float v[Operands][V];
#pragma unroll
          for (int k = 0; k < Operands; ++k)
#pragma unroll
            for (int j = 0; j < V; ++j) v[k][j] = float(pack[u][k].v[j]);
          f(place + u * t.slots, v);
        }
    }
  } else if (t.valid > 0) {
#pragma unroll 1
    for (u32 place = begin; place < t.end; place += t.slots) {
      float v[Operands][V];
#pragma unroll
      for (int k = 0; k < Operands; ++k) {
        const T* const p = column_at(x[k], c, s, t, place);
#pragma unroll
        for (int j = 0; j < V; ++j) v[k][j] = j < t.valid ? float(p[j]) : 0.0f;
      }
      f(place, v);
    }
  }
}
template <class T>
__device__ __forceinline__ void store_column(T* p, const Pack16<T>& pack, const Columns& c,
                                             int valid) {
  if (c.packs && valid == kPerPack<T>) {
    vstore(p, pack);
  } else {
#pragma unroll
    for (int j = 0; j < kPerPack<T>; ++j)
      if (j < valid) p[j] = pack.v[j];
  }
}

// --- choice ---

// The reasons of `planes` and `columns`.
template <class Args>
const char* channels_too_large(const Args& a) {
  const View& x = a.x;
  if (x.dtype() == DType::f64) return "f64 has the naive rung only";
  constexpr i64 kLimit = (1ll << 31) - 1024;
  const i64 n = x.size(0), c = x.size(1), s = x.size(2);
  if (n * c >= kLimit || n * s >= kLimit || c * s >= kLimit)
    return "samples, channels and places are counted in 31 bits, and so is the product of any two";
  return nullptr;
}
inline bool channels_last(const View& v) {
  return v.stride(1) == 1 && v.size(1) > 1 && (v.size(2) == 1 || v.stride(2) != 1);
}
template <class Args>
const char* why_not_columns(const Args& a) {
  bool last = channels_last(a.x);
  if constexpr (requires { a.gy; }) last = last && channels_last(a.gy);
  if constexpr (requires { a.gx; }) last = last && channels_last(a.gx);
  if constexpr (requires { a.y; }) last = last && channels_last(a.y);
  return last ? channels_too_large(a) : "neighbouring elements must be channels (NHWC)";
}

}  // namespace
}  // namespace WT_DEVICE_NS
}  // namespace wt
