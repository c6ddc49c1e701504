// record::digest_of(): one pass over a tensor in blocks that stay in the nearest cache.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "warptape/autograd/recording.h"
#include "warptape/core/float8.h"
#include "warptape/core/half.h"

namespace wt::record {
namespace {

constexpr int kBlock = 1024;  // elements

constexpr u64 rotated(u64 x, int by) { return x << by | x >> (64 - by); }
// All bits of the result depend on all of x (the finalizer of MurmurHash3).
constexpr u64 mixed(u64 x) {
  x = (x ^ x >> 33) * 0xff51afd7ed558ccdull;
  x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53ull;
  return x ^ x >> 33;
}

// Four words at once: the multiplications of one word wait for each other.
class BitHash {
 public:
  // In pieces of whole 32 bytes, but for the last.
  void add(const char* p, i64 bytes) {
    total_ += u64(bytes);
    u64 w[4];
    for (; bytes >= 32; p += 32, bytes -= 32) {
      std::memcpy(w, p, 32);
      take(w);
    }
    if (bytes == 0) return;
    std::memset(w, 0, 32);
    std::memcpy(w, p, size_t(bytes));
    take(w);
  }
  u64 value() const {
    u64 h = total_;
    for (const u64 lane : lanes_) h = mixed(h ^ lane) * 0x9e3779b97f4a7c15ull;
    return mixed(h);
  }

 private:
  void take(const u64 (&w)[4]) {
    for (int k = 0; k < 4; ++k)
      lanes_[k] = rotated(lanes_[k] + w[k] * 0xc2b2ae3d27d4eb4full, 31) * 0x9e3779b185ebca87ull;
  }
  u64 lanes_[4] = {0x243f6a8885a308d3ull, 0x13198a2e03707344ull, 0xa4093822299f31d0ull,
                   0x082efa98ec4e6c89ull};
  u64 total_ = 0;
};

// Signs of the sketch: a row of 64 elements has one of sixteen rows of these, times one of its own.
struct Signs {
  static constexpr int kRows = 16;
  double of[kRows][kSketch];
  constexpr Signs() : of{} {
    for (int r = 0; r < kRows; ++r)
      for (int k = 0; k < kSketch; ++k)
        of[r][k] = mixed(u64(r * kSketch + k) + 0x452821e638d01377ull) & 1 ? 1.0 : -1.0;
  }
};
constexpr Signs signs;

template <class T, class F>
void convert(const char* from, int n, double* to, const F& value) {
  for (int i = 0; i < n; ++i) {
    T x;
    std::memcpy(&x, from + size_t(i) * sizeof x, sizeof x);
    to[i] = double(value(x));
  }
}
template <class T>
void convert(const char* from, int n, double* to) {
  convert<T>(from, n, to, [](T x) { return x; });
}

void to_doubles(DType t, const char* from, int n, double* to) {
  switch (t) {
    case DType::f64:
      return convert<double>(from, n, to);
    case DType::f32:
      return convert<float>(from, n, to);
    case DType::f16:
      return convert<u16>(from, n, to, [](u16 x) { return detail::half_to_float(x); });
    case DType::bf16:
      return convert<u16>(from, n, to, [](u16 x) { return detail::bfloat_to_float(x); });
    case DType::f8_e4m3:
      return convert<u8>(from, n, to, [](u8 x) { return detail::e4m3_to_float(x); });
    case DType::f8_e5m2:
      return convert<u8>(from, n, to, [](u8 x) { return detail::e5m2_to_float(x); });
    case DType::i64:
      return convert<i64>(from, n, to);
    case DType::u64:
      return convert<u64>(from, n, to);
    case DType::i32:
      return convert<i32>(from, n, to);
    case DType::u32:
      return convert<u32>(from, n, to);
    case DType::i16:
      return convert<i16>(from, n, to);
    case DType::u16:
      return convert<u16>(from, n, to);
    case DType::i8:
      return convert<i8>(from, n, to);
    case DType::u8:
    case DType::boolean:
      return convert<u8>(from, n, to);
  }
}

// Two numbers at once: what a compiler does by itself only where it is asked for speed above all.
using Pair = double __attribute__((vector_size(16)));
inline Pair pair_at(const double* p) {
  Pair v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
inline Pair larger(Pair a, Pair b) { return a > b ? a : b; }

class Sums {
 public:
  // v: a block; what is not finite becomes 0. Room for whole rows, of which the rest is set to 0.
  void add(double* v, int n, i64 first_row) {
    while (n % kSketch) v[n++] = 0;
    if (!all_finite(v, n)) leave_out(v, n);
    for (int i = 0; i < n; i += kSketch) add_row(v + i, first_row++);
  }
  void finish(Digest& d, i64 numel) const {
    double sum = 0, squares = 0;
    for (int k = 0; k < 4; ++k) {
      sum += sum_[k][0] + sum_[k][1];
      squares += squares_[k][0] + squares_[k][1];
      d.largest = std::max({d.largest, largest_[k][0], largest_[k][1]});
    }
    d.nonfinite = nonfinite_;
    for (int k = 0; k < kSketch; ++k) d.sketch[size_t(k)] = sketch_[k / 2][k % 2];
    if (numel == 0) return;
    d.mean = sum / double(numel);
    d.rms = std::sqrt(squares / double(numel));
  }

 private:
  static bool all_finite(const double* v, int n) {
    Pair zero[4] = {};  // x - x is 0, or NaN
    for (int i = 0; i < n; i += 8)
      for (int k = 0; k < 4; ++k) {
        const Pair x = pair_at(v + i + 2 * k);
        zero[k] += x - x;
      }
    const Pair all = zero[0] + zero[1] + zero[2] + zero[3];
    return all[0] + all[1] == 0;
  }
  void leave_out(double* v, int n) {
    for (int i = 0; i < n; ++i) {
      if (std::isfinite(v[i])) continue;
      v[i] = 0;
      ++nonfinite_;
    }
  }
  void add_row(const double* v, i64 row) {
    const double* signs_here = signs.of[row % Signs::kRows];
    const double own = mixed(u64(row)) & 1 ? 1.0 : -1.0;
    const Pair owns = {own, own};
    for (int i = 0; i < kSketch / 2; i += 4)
      for (int k = 0; k < 4; ++k) {
        const Pair x = pair_at(v + 2 * (i + k));
        sum_[k] += x;
        squares_[k] += x * x;
        largest_[k] = larger(largest_[k], larger(x, -x));
        sketch_[i + k] += owns * (pair_at(signs_here + 2 * (i + k)) * x);
      }
  }

  Pair sum_[4] = {}, squares_[4] = {}, largest_[4] = {}, sketch_[kSketch / 2] = {};
  i64 nonfinite_ = 0;
};

template <class T>
void copy_run(char* to, const char* from, i64 n, i64 step) {
  for (i64 i = 0; i < n; ++i, to += sizeof(T), from += step) std::memcpy(to, from, sizeof(T));
}

// The elements of a tensor with gaps or of another order, one after another: runs of its last
// dimension.
class Gather {
 public:
  Gather(const char* data, const Geometry& g)
      : at_(data), g_(g), size_(item_size(g.dtype)), last_(g.ndim - 1) {}
  void next(char* to, i64 n) {
    while (n > 0) {
      const i64 run = std::min(n, g_.shape[last_] - index_[last_]);
      const i64 step = g_.strides[last_] * size_;
      if (step == size_)
        std::memcpy(to, at_, size_t(run * size_));
      else if (size_ == 4)
        copy_run<u32>(to, at_, run, step);
      else if (size_ == 2)
        copy_run<u16>(to, at_, run, step);
      else if (size_ == 8)
        copy_run<u64>(to, at_, run, step);
      else
        copy_run<u8>(to, at_, run, step);
      to += run * size_;
      n -= run;
      at_ += run * step;
      index_[last_] += run;
      if (index_[last_] == g_.shape[last_]) next_row();
    }
  }

 private:
  void next_row() {
    for (int d = last_;; --d) {
      at_ -= g_.strides[d] * size_ * g_.shape[d];
      index_[d] = 0;
      if (d == 0) return;  // the end
      at_ += g_.strides[d - 1] * size_;
      if (++index_[d - 1] < g_.shape[d - 1]) return;
    }
  }
  const char* at_;
  const Geometry& g_;
  i64 size_, index_[kMaxDims] = {};
  int last_;
};

double element(const char* data, const Geometry& g, i64 i) {
  for (int d = g.ndim; d-- > 0; i /= g.shape[d])
    data += i % g.shape[d] * g.strides[d] * item_size(g.dtype);
  double x = 0;
  to_doubles(g.dtype, data, 1, &x);
  return x;
}

}  // namespace

Digest digest_of(const void* data, const Geometry& g) {
  const char* p = static_cast<const char*>(data);
  const i64 size = item_size(g.dtype), n = g.numel;
  BitHash hash;
  Sums sums;
  Gather gather(p, g);
  double values[kBlock];
  char gathered[kBlock * 8];
  for (i64 done = 0; done < n; done += kBlock) {
    const int count = int(n - done < kBlock ? n - done : kBlock);
    const char* block = p + done * size;
    if (!g.dense) {
      gather.next(gathered, count);
      block = gathered;
    }
    hash.add(block, count * size);
    to_doubles(g.dtype, block, count, values);
    sums.add(values, count, done / kSketch);
  }
  Digest d;
  d.hash = hash.value();
  sums.finish(d, n);
  for (int k = 0; k < kSamples && n > 0; ++k)
    d.samples[size_t(k)] = element(p, g, (n - 1) * k / (kSamples - 1));
  return d;
}

}  // namespace wt::record
