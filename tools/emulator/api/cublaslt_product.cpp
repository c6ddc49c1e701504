// Products in cache blocks. k is walked in blocks and inside a block in steps of eight, so sums are
// rounded in another order than a plain loop's, as on hardware: nothing may depend on it.
#include "api/cublaslt_product.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "api/enqueue.h"

namespace emu::blas {
namespace {

// --- numbers ---
template <class To, class From>
To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

struct F16 {
  _Float16 bits;
  explicit operator float() const { return float(bits); }
};
struct Bf16 {
  u16 bits;
  explicit operator float() const { return bits_as<float>(u32(bits) << 16); }
};

u16 bf16_of(float v) {
  const u32 u = bits_as<u32>(v);
  return v != v ? u16(0x7fff) : u16((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

// Calls f with a null pointer to the type's element.
template <class F>
void with_type(u32 type, F f) {
  switch (type) {
    case CUDA_R_64F:
      return f(static_cast<double*>(nullptr));
    case CUDA_R_32F:
      return f(static_cast<float*>(nullptr));
    case CUDA_R_16F:
      return f(static_cast<F16*>(nullptr));
    case CUDA_R_16BF:
      return f(static_cast<Bf16*>(nullptr));
    case CUDA_R_8I:
      return f(static_cast<i8*>(nullptr));
    default:
      return f(static_cast<i32*>(nullptr));
  }
}

float rounded(float v, Rounding r) {
  switch (r) {
    case Rounding::tf32:
      return std::isfinite(v) ? bits_as<float>((bits_as<u32>(v) + 0x1000) & ~u32(0x1fff)) : v;
    case Rounding::f16:
      return float(_Float16(v));
    case Rounding::bf16:
      return float(Bf16{bf16_of(v)});
    default:
      return v;
  }
}

template <class Sum, class T>
Sum operand(T v, Rounding r) {
  if constexpr (std::is_same_v<T, float> && std::is_same_v<Sum, float>)
    return rounded(v, r);
  else if constexpr (std::is_class_v<T>)
    return Sum(float(v));
  else
    return Sum(v);
}

// --- sums ---
constexpr i64 kDepth = 256;  // of k at a time
constexpr i64 kStep = 8;
constexpr int kColumns = 6;
template <class Sum>
constexpr int kRows = 64 / int(sizeof(Sum));

// acc[j][i] = sum over p of a[p][i] * b[p][j].
template <class Sum>
[[gnu::always_inline]] inline void tile_body(const Sum* a, const Sum* b, i64 depth, Sum* acc) {
  typedef Sum Half __attribute__((vector_size(32), may_alias, aligned(alignof(Sum))));
  constexpr int kLanes = 32 / int(sizeof(Sum));
  Half low[kColumns] = {}, high[kColumns] = {};
  for (i64 p = 0; p < depth; ++p, a += kRows<Sum>, b += kColumns) {
    const Half x = *reinterpret_cast<const Half*>(a);
    const Half y = *reinterpret_cast<const Half*>(a + kLanes);
    for (int j = 0; j < kColumns; ++j) {
      low[j] += x * b[j];
      high[j] += y * b[j];
    }
  }
  for (int j = 0; j < kColumns; ++j) {
    *reinterpret_cast<Half*>(acc + j * kRows<Sum>) = low[j];
    *reinterpret_cast<Half*>(acc + j * kRows<Sum> + kLanes) = high[j];
  }
}
template <class Sum>
void tile_plain(const Sum* a, const Sum* b, i64 depth, Sum* acc) {
  tile_body(a, b, depth, acc);
}
template <class Sum>
[[gnu::target("avx2,fma")]] void tile_avx2(const Sum* a, const Sum* b, i64 depth, Sum* acc) {
  tile_body(a, b, depth, acc);
}

// Integer sums wrap, as on hardware, so they are unsigned here.
template <class Sum>
class Sums {
 public:
  Sums(const Product& p, i64 batch, i64 a, i64 b) : p_(p), batch_(batch), a_(a), b_(b) {}

  // out[j * m + i] = the sum over k in [begin, end).
  void over(i64 begin, i64 end, Sum* out) {
    std::fill(out, out + p_.m * p_.n, Sum(0));
    for (i64 at = begin; at < end; at += kDepth) block(at, std::min(kDepth, end - at), out);
  }

 private:
  void block(i64 at, i64 depth, Sum* out) {
    order_.clear();
    for (i64 first = 0; first < kStep; ++first)
      for (i64 p = first; p < depth; p += kStep) order_.push_back(at + p);
    pack(p_.b, b_, p_.b.column, p_.b.row, p_.n, kColumns, packed_b_);
    pack(p_.a, a_, p_.a.row, p_.a.column, p_.m, kRows<Sum>, packed_a_);
    static const bool fast = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    Sum acc[kRows<Sum> * kColumns];
    for (i64 j = 0; j < p_.n; j += kColumns) {
      for (i64 i = 0; i < p_.m; i += kRows<Sum>) {
        (fast ? tile_avx2<Sum> : tile_plain<Sum>)(&packed_a_[size_t(i * depth)],
                                                  &packed_b_[size_t(j * depth)], depth, acc);
        const i64 rows = std::min<i64>(kRows<Sum>, p_.m - i);
        for (i64 y = 0; y < std::min<i64>(kColumns, p_.n - j); ++y)
          for (i64 x = 0; x < rows; ++x) out[(j + y) * p_.m + i + x] += acc[y * kRows<Sum> + x];
      }
    }
  }
  // Strips of `width` lines, each [k of order_][width], the last one filled up with zeros.
  void pack(const Matrix& x, i64 alias, i64 line, i64 along, i64 lines, i64 width,
            std::vector<Sum>& to) {
    const i64 depth = i64(order_.size());
    to.assign(size_t((lines + width - 1) / width * width * depth), Sum(0));
    with_type(x.type, [&]<class T>(T*) {
      const T* from = reinterpret_cast<const T*>(i64(x.at) + alias) + batch_ * x.batch;
      for (i64 strip = 0; strip < lines; strip += width) {
        Sum* out = &to[size_t(strip * depth)];
        const i64 count = std::min(width, lines - strip);
        for (i64 p = 0; p < depth; ++p, out += width) {
          const T* row = from + order_[size_t(p)] * along + strip * line;
          for (i64 i = 0; i < count; ++i) out[i] = operand<Sum>(row[i * line], p_.rounding);
        }
      }
    });
  }

  const Product& p_;
  const i64 batch_, a_, b_;
  std::vector<i64> order_;
  std::vector<Sum> packed_a_, packed_b_;
};

// --- the end ---
template <class Scale>
Scale gelu(Scale x) {
  const double v = double(x);
  return Scale(0.5 * v * (1 + std::tanh(0.7978845608028654 * (v + 0.044715 * v * v * v))));
}

// Its derivative.
template <class Scale>
Scale gelu_slope(Scale x) {
  const double v = double(x), c = 0.7978845608028654;
  const double t = std::tanh(c * (v + 0.044715 * v * v * v));
  return Scale(0.5 * (1 + t) + 0.5 * v * (1 - t * t) * c * (1 + 3 * 0.044715 * v * v));
}

template <class Scale>
Scale finish(Scale x, u32 epilogue) {
  if (epilogue & CUBLASLT_EPILOGUE_RELU) return x < 0 ? Scale(0) : x;
  if (epilogue & CUBLASLT_EPILOGUE_GELU) return gelu(x);
  return x;
}

template <class T, class Scale>
T stored(Scale v) {
  if constexpr (std::is_same_v<T, F16>)
    return {_Float16(float(v))};
  else if constexpr (std::is_same_v<T, Bf16>)
    return {bf16_of(float(v))};
  else if constexpr (std::is_same_v<T, i8> && std::is_floating_point_v<Scale>)
    return v != v ? i8(0) : i8(std::clamp(std::nearbyint(double(v)), -128.0, 127.0));
  else
    return T(v);
}

// A factor in its own type from 8 bytes, or from device memory.
template <class Scale>
bool factor(const Product& p, u64 value, Scale* out) {
  if (p.factors_on_device) {
    const i64 alias = __wt_emu_alias(value, sizeof(Scale));
    if (alias == INT64_MIN) return false;
    std::memcpy(out, reinterpret_cast<const void*>(i64(value) + alias), sizeof *out);
    return true;
  }
  std::memcpy(out, &value, sizeof *out);
  return true;
}

struct Aliases {
  i64 a = 0, b = 0, c = 0, d = 0, bias = 0, aux = 0, workspace = 0;
};

template <class Scale, class Sum>
void write_batch(const Product& p, i64 z, const Sum* const* parts, Scale alpha, Scale beta,
                 const Aliases& at) {
  const auto read = [](const Matrix& x, i64 alias, i64 index) {
    Scale v = 0;
    with_type(x.type, [&]<class T>(T*) {
      v = operand<Scale>(reinterpret_cast<const T*>(i64(x.at) + alias)[index], Rounding::none);
    });
    return v;
  };
  std::vector<Scale> line(size_t(p.m));
  for (i64 j = 0; j < p.n; ++j) {
    for (i64 i = 0; i < p.m; ++i) {
      Sum sum = parts[0][j * p.m + i];
      for (i32 s = 1; s < p.splits; ++s) sum += parts[s][j * p.m + i];
      Scale v;
      if constexpr (std::is_integral_v<Sum>)
        v = alpha * Scale(i32(sum));
      else
        v = alpha * Scale(sum);
      if (beta != 0) v += beta * read(p.c, at.c, z * p.c.batch + i * p.c.row + j * p.c.column);
      if (p.epilogue & CUBLASLT_EPILOGUE_BIAS) v += read(p.bias, at.bias, z * p.bias.batch + i);
      const i64 place = z * p.aux.batch + i * p.aux.row + j * p.aux.column;
      if (p.epilogue == CUBLASLT_EPILOGUE_DGELU) {
        v *= gelu_slope(read(p.aux, at.aux, place));
      } else if (uses_aux(p.epilogue)) {
        with_type(p.aux.type, [&]<class T>(T*) {
          reinterpret_cast<T*>(i64(p.aux.at) + at.aux)[place] = stored<T>(v);
        });
      }
      line[size_t(i)] = finish(v, p.epilogue);
    }
    with_type(p.d.type, [&]<class T>(T*) {
      T* out = reinterpret_cast<T*>(i64(p.d.at) + at.d) + z * p.d.batch + j * p.d.column;
      for (i64 i = 0; i < p.m; ++i) out[i * p.d.row] = stored<T>(line[size_t(i)]);
    });
  }
}

// The sums of op(B) over k. In another order than a plain loop's, as the products.
void write_sums_of_b(const Product& p, const Aliases& at) {
  for (i64 j = 0; j < p.n; ++j) {
    float sum = 0;
    with_type(p.b.type, [&]<class T>(T*) {
      const T* from = reinterpret_cast<const T*>(i64(p.b.at) + at.b) + j * p.b.column;
      for (i64 first = 0; first < kStep; ++first)
        for (i64 k = first; k < p.k; k += kStep)
          sum += operand<float>(from[k * p.b.row], Rounding::none);
    });
    with_type(p.bias.type, [&]<class T>(T*) {
      reinterpret_cast<T*>(i64(p.bias.at) + at.bias)[j] = stored<T>(sum);
    });
  }
}

template <class Sum, class Scale>
bool run_typed(const Product& p, const Aliases& at) {
  Scale alpha, beta;
  if (!factor(p, p.alpha, &alpha) || !factor(p, p.beta, &beta)) return false;
  const size_t area = size_t(p.m * p.n);
  std::vector<Sum> own(p.splits == 1 ? area : 0);
  std::vector<Sum*> parts;
  for (i32 s = 0; s < p.splits; ++s)
    parts.push_back(p.splits == 1 ? own.data()
                                  : reinterpret_cast<Sum*>(i64(p.workspace) + at.workspace) +
                                        size_t(s) * area);
  for (i64 z = 0; z < p.batches; ++z) {
    Sums<Sum> sums(p, z, at.a, at.b);
    for (i32 s = 0; s < p.splits; ++s)
      sums.over(p.k * s / p.splits, p.k * (s + 1) / p.splits, parts[size_t(s)]);
    write_batch<Scale, Sum>(p, z, parts.data(), alpha, beta, at);
  }
  if (p.epilogue & CUBLASLT_EPILOGUE_BGRADB) write_sums_of_b(p, at);
  return true;
}

}  // namespace

u64 split_bytes(i64 m, i64 n, i32 compute, i32 splits) {
  const u64 sum = compute == CUBLAS_COMPUTE_64F || compute == CUBLAS_COMPUTE_64F_PEDANTIC ? 8 : 4;
  return splits == 1 ? 0 : u64(m) * u64(n) * sum * u64(splits);
}

Extent extent_of(const Matrix& x, i64 rows, i64 columns, i64 batches) {
  i64 low = 0, high = 0;
  const i64 steps[] = {(rows - 1) * x.row, (columns - 1) * x.column, (batches - 1) * x.batch};
  for (i64 s : steps) (s < 0 ? low : high) += s;
  const i64 bytes = element_bytes(x.type);
  return {x.at + u64(low * bytes), u64((high - low + 1) * bytes)};
}

bool run_product(const Product& p) {
  Aliases at;
  const auto find = [](i64* to, Extent e) {
    *to = __wt_emu_alias(e.begin, e.bytes);
    return *to != INT64_MIN;
  };
  bool all = find(&at.a, extent_of(p.a, p.m, p.k, p.batches)) &&
             find(&at.b, extent_of(p.b, p.k, p.n, p.batches)) &&
             find(&at.d, extent_of(p.d, p.m, p.n, p.batches));
  if (all && p.reads_c) all = find(&at.c, extent_of(p.c, p.m, p.n, p.batches));
  const i64 vector = p.epilogue & CUBLASLT_EPILOGUE_BGRADB ? p.n : p.m;
  if (all && p.bias.at) all = find(&at.bias, extent_of(p.bias, vector, 1, p.batches));
  if (all && p.aux.at) all = find(&at.aux, extent_of(p.aux, p.m, p.n, p.batches));
  if (all && p.splits > 1) all = find(&at.workspace, {p.workspace, p.workspace_bytes});
  if (!all) return false;
  switch (p.compute) {
    case CUBLAS_COMPUTE_64F:
    case CUBLAS_COMPUTE_64F_PEDANTIC:
      return run_typed<double, double>(p, at);
    case CUBLAS_COMPUTE_32I:
    case CUBLAS_COMPUTE_32I_PEDANTIC:
      if (p.scale == CUDA_R_32I) return run_typed<u32, i32>(p, at);
      return run_typed<u32, float>(p, at);
    default:
      return run_typed<float, float>(p, at);
  }
}

}  // namespace emu::blas
