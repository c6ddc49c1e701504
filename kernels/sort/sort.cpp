// Sorting, counting and drawing on the cpu.
#include "warptape/kernels/sort.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <span>

#include "warptape/kernels/common/dtypes.h"
#include "warptape/kernels/common/rows.h"
#include "warptape/kernels/sort/sort_cpu.h"

namespace wt {
namespace {

// --- sort ---
struct Keyed {
  i64 key, place;
};
bool before(const Keyed& a, const Keyed& b) {
  return a.key < b.key || (a.key == b.key && a.place < b.place);
}

// An integer in the order of the elements: one sort serves all dtypes.
template <class T>
i64 key_of(T stored) {
  const auto v = ComputeType<T>(stored);
  if constexpr (std::is_integral_v<T>) {
    return i64(v);
  } else {
    if (v != v) return std::numeric_limits<i64>::max();
    if (v == 0) return 0;
    const i64 bits = std::bit_cast<i64>(double(v));
    return bits < 0 ? std::numeric_limits<i64>::min() - bits : bits;
  }
}

template <class T>
void fill_keys(std::span<Keyed> e, const T* in, i64 step, bool descending) {
  for (i64 i = 0; i < i64(e.size()); ++i) {
    const i64 key = key_of(in[i * step]);
    e[size_t(i)] = {descending ? ~key : key, i};
  }
}

constexpr i64 kFew = 32;

// Elements whose places ascend, in order. Many are spread by the leading digits of their keys
// first, each read and written once, until few are left together: of random keys a pass is enough,
// and 60,000 take a quarter of what std::sort takes. `other`: as long as e.
void put_in_order(std::span<Keyed> e, std::span<Keyed> other) {
  constexpr int kMostDigits = 13;
  if (i64(e.size()) <= kFew) {
    for (size_t i = 1; i < e.size(); ++i) {
      const Keyed v = e[i];
      size_t j = i;
      for (; j > 0 && v.key < e[j - 1].key; --j) e[j] = e[j - 1];
      e[j] = v;
    }
    return;
  }
  if (e.size() > std::numeric_limits<u32>::max()) return std::sort(e.begin(), e.end(), before);
  i64 least = e[0].key, most = least;
  for (const Keyed& v : e) least = std::min(least, v.key), most = std::max(most, v.key);
  if (least == most) return;
  const int digits = std::min(int(std::bit_width(e.size())) - 3, kMostDigits);
  const int shift = std::max(int(std::bit_width(u64(most) - u64(least))) - digits, 0);
  const auto bucket = [=](const Keyed& v) { return size_t((u64(v.key) - u64(least)) >> shift); };
  std::array<u32, 1 << kMostDigits> ends;  // first where each begins
  std::fill_n(ends.begin(), size_t(1) << digits, 0);
  for (const Keyed& v : e) ++ends[bucket(v)];
  for (u32 sum = 0; u32 & n : std::span(ends).first(size_t(1) << digits)) {
    const u32 begin = sum;
    sum += n;
    n = begin;
  }
  for (const Keyed& v : e) other[ends[bucket(v)]++] = v;
  for (u32 begin = 0; const u32 end : std::span(ends).first(size_t(1) << digits)) {
    if (end - begin > 1)
      put_in_order(other.subspan(begin, end - begin), e.subspan(begin, end - begin));
    begin = end;
  }
  std::copy(other.begin(), other.end(), e.begin());
}

// The first k; `other` as above if they are all.
void put_first_in_order(std::span<Keyed> e, i64 k, std::span<Keyed> other) {
  if (k == i64(e.size())) return put_in_order(e, other);
  std::nth_element(e.begin(), e.begin() + k, e.end(), before);
  std::sort(e.begin(), e.begin() + k, before);
}

bool two_scratches(const SortArgs& a) {
  return a.in.ndim() > 0 && a.in.size(a.axis) > kFew && a.indices.size(a.axis) == a.in.size(a.axis);
}

template <class T>
void sort_rows(const SortArgs& a, Keyed* scratch, i64 begin, i64 end) {
  enum { In };  // the operand of `in`
  const Rows<1> in = rows_along<1>(a.axis, {{a.in}});
  const View& values = a.values ? a.values : a.indices;
  enum { Indices, Values };  // the operands of `out`
  const Rows<2> out = rows_along<2>(a.axis, {{a.indices}, {values}});
  const std::span<Keyed> e(scratch, size_t(in.length));
  const std::span<Keyed> other = two_scratches(a) ? std::span(e.data() + e.size(), e.size()) : e;
  for (i64 row = begin; row < end; ++row) {
    const auto from = in.row(In, a.in.as<T>(), row);
    fill_keys(e, from.data, from.step, a.descending);
    put_first_in_order(e, out.length, other);
    const auto places = out.row(Indices, a.indices.as<i64>(), row);
    for (i64 i = 0; i < out.length; ++i) places[i] = e[size_t(i)].place;
    if (!a.values) continue;
    const auto to = out.row(Values, a.values.as<T>(), row);
    for (i64 i = 0; i < out.length; ++i) to[i] = from[e[size_t(i)].place];
  }
}

void sort_reference(const SortArgs& a, const Launch& l) {
  sort_rows(a, l.workspace, 0, sort_row_count(a));
}

// --- bincount ---
template <class T, class Add>
void for_each_bin(const BincountArgs& a, Add add) {
  const T* in = a.in.as<T>();
  for (i64 i = 0; i < a.in.numel(); ++i) add(i, i64(in[i * a.in.stride(0)]));
}
template <class Add>
void for_each_bin(const BincountArgs& a, Add add) {
  if (a.in.dtype() == DType::i64) return for_each_bin<i64>(a, add);
  if (a.in.dtype() == DType::i32) return for_each_bin<i32>(a, add);
  return for_each_bin<u8>(a, add);
}

void bincount_reference(const BincountArgs& a, const Launch& l) {
  const i64 bins = a.out.numel();
  if (!a.weights) {
    i64* const out = a.out.as<i64>();
    std::fill_n(out, bins, 0);
    return for_each_bin(a, [&](i64, i64 bin) { ++out[bin]; });
  }
  double* const sums = static_cast<double*>(l.workspace);
  std::fill_n(sums, bins, 0.0);
  dispatch_floating(a.out.dtype(), [&]<class T>() {
    const T* w = a.weights.as<T>();
    for_each_bin(a, [&](i64 i, i64 bin) {
      sums[bin] += double(ComputeType<T>(w[i * a.weights.stride(0)]));
    });
    T* const out = a.out.as<T>();
    for (i64 b = 0; b < bins; ++b) out[b] = T(ComputeType<T>(sums[b]));
  });
}
i64 bincount_workspace(const BincountArgs& a) { return a.weights ? a.out.numel() * 8 : 0; }

// --- multinomial ---
double uniform(const MultinomialArgs& a, i64 block) {
  const PhiloxBlock bits = philox(a.key, u64(block), a.call);
  return uniform53(bits.v[0], bits.v[1]);
}

// `sums` is the running sum of the row.
void draw_with_replacement(const MultinomialArgs& a, i64 row, std::span<double> sums, i64* out) {
  const i64 draws = a.out.size(1), step = a.out.stride(1);
  for (size_t c = 1; c < sums.size(); ++c) sums[c] += sums[c - 1];
  // Where the row's last place with a probability lies: rounding must not lead past it.
  const auto last = std::lower_bound(sums.begin(), sums.end(), sums.back());
  for (i64 j = 0; j < draws; ++j) {
    const double target = uniform(a, row * draws + j) * sums.back();
    out[j * step] =
        std::min(std::upper_bound(sums.begin(), sums.end(), target), last) - sums.begin();
  }
}

struct Waiting {
  double time;
  i64 place;
};
void draw_without(const MultinomialArgs& a, i64 row, std::span<double> p, Waiting* line, i64* out) {
  const i64 draws = a.out.size(1), places = i64(p.size()), step = a.out.stride(1);
  for (i64 c = 0; c < places; ++c) {
    const double w = p[size_t(c)], u = uniform(a, row * places + c);
    line[c] = {w > 0 ? -std::log1p(-u) / w : std::numeric_limits<double>::infinity(), c};
  }
  std::partial_sort(line, line + draws, line + places, [](const Waiting& x, const Waiting& y) {
    return x.time < y.time || (x.time == y.time && x.place < y.place);
  });
  for (i64 j = 0; j < draws; ++j) out[j * step] = line[j].place;
}

void multinomial_reference(const MultinomialArgs& a, const Launch& l) {
  const i64 rows = a.p.size(0), places = a.p.size(1);
  auto* const line = static_cast<Waiting*>(l.workspace);
  const std::span<double> p(reinterpret_cast<double*>(line + places), size_t(places));
  dispatch_floating(a.p.dtype(), [&]<class T>() {
    for (i64 row = 0; row < rows; ++row) {
      const T* from = a.p.as<T>() + row * a.p.stride(0);
      for (i64 c = 0; c < places; ++c)
        p[size_t(c)] = double(ComputeType<T>(from[c * a.p.stride(1)]));
      i64* const out = a.out.as<i64>() + row * a.out.stride(0);
      if (a.replacement)
        draw_with_replacement(a, row, p, out);
      else
        draw_without(a, row, p, line, out);
    }
  });
}
i64 multinomial_workspace(const MultinomialArgs& a) {
  return a.p.size(1) * i64(sizeof(Waiting) + sizeof(double));
}

}  // namespace

i64 sort_row_count(const SortArgs& a) {
  return a.in.numel() == 0 || a.indices.numel() == 0 ? 0 : rows_along<1>(a.axis, {{a.in}}).count;
}
i64 sort_scratch(const SortArgs& a) {
  if (a.in.numel() == 0) return 0;
  return rows_along<1>(a.axis, {{a.in}}).length * i64(sizeof(Keyed)) * (two_scratches(a) ? 2 : 1);
}
void sort_rows(const SortArgs& a, void* scratch, i64 begin, i64 end) {
  dispatch_compute(a.in.dtype(),
                   [&]<class T>() { sort_rows<T>(a, static_cast<Keyed*>(scratch), begin, end); });
}

WT_VARIANTS(
    cpu, sort, SortArgs,
    {.name = "threaded", .rank = 10, .workspace = sort_threaded_workspace, .launch = sort_threaded},
    {.name = "reference", .workspace = sort_scratch, .launch = sort_reference});
WT_VARIANTS(cpu, bincount, BincountArgs,
            {.name = "reference", .workspace = bincount_workspace, .launch = bincount_reference});
WT_VARIANTS(cpu, multinomial, MultinomialArgs,
            {.name = "reference",
             .workspace = multinomial_workspace,
             .launch = multinomial_reference});

}  // namespace wt
