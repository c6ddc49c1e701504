// Every variant of copy and fill on cpu and simt, every pair of dtypes, any strides.
#include "warptape/kernels/copy.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "warptape/core/factories.h"
#include "warptape/core/float8.h"
#include "warptape/kernels/run.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/devices.h"

using namespace wt;

namespace {

View view_of(const Tensor& t) { return wt::view_of(t.impl()); }

// A tensor of `shape` whose bytes are given.
Tensor from_bytes(const std::vector<u8>& bytes, const Shape& shape, DType t, Device d) {
  REQUIRE(i64(bytes.size()) == numel_of(shape) * item_size(t));
  const Tensor host = from_blob(const_cast<u8*>(bytes.data()), shape, borrow, {.dtype = t});
  const Tensor own = empty(shape, {.dtype = t});
  std::memcpy(own.impl()->data, host.impl()->data, bytes.size());
  return own.to(d);
}
std::vector<u8> bytes_of(const Tensor& t) {
  const Tensor host = t.to(Device::cpu());
  REQUIRE(host.is_contiguous());
  std::vector<u8> bytes(size_t(host.numel() * item_size(host.dtype())));
  if (!bytes.empty()) std::memcpy(bytes.data(), host.impl()->data, bytes.size());
  return bytes;
}

// Values that are hard for somebody: limits, halves, beyond the ranges, NaN and infinities.
std::vector<double> hard_values() {
  std::vector<double> v = {
      0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, 127, 128, -128, -129, 255, 256, 32767, 32768, -32768,
      65504, 65520, 65519, 65535, 65536, 448, 464, 465, 480, 57344, 61439, 61440, 1e-3, 1e-8, 6e-8,
      3e-8, 0.0019, 0.00098, 1.0e10, -1.0e10, 2147483647.0, 2147483648.0, -2147483648.0,
      4294967295.0, 4294967296.0, 9.3e18, -9.3e18, 1.9e19, 1e30, 1e300, -1e300, 0.1, 1.0 / 3, 100.7,
      -100.7, 16777217.0,
      // Beside the middle of two 16- or 8-bit floats, by less than f32 sees.
      1 + 0x1p-11 + 0x1p-40, -1 - 0x1p-11 - 0x1p-40, 1 + 3 * 0x1p-11 - 0x1p-40, 0x1p-25 + 0x1p-70,
      65520 - 0x1p-30, 1 + 0x1p-8 + 0x1p-40, 1 + 3 * 0x1p-8 - 0x1p-40, 0x1p-134 + 0x1p-180,
      0x1.ffp127 - 0x1p80, 1 + 0x1p-4 + 0x1p-40, 0x1p-10 + 0x1p-50, 464 + 0x1p-40,
      1 + 0x1p-3 + 0x1p-40, 0x1p-17 + 0x1p-60, 61440 - 0x1p-30, NAN, INFINITY, -INFINITY};
  return v;
}

template <class T>
T at(const void* p, size_t i) {
  T v;
  std::memcpy(&v, static_cast<const u8*>(p) + i * sizeof(T), sizeof v);
  return v;
}

// --- an independent model of the conversion, in terms of exact 64-bit integers and doubles ---
struct Exact {
  bool integer = false;
  bool negative = false;
  u64 bits = 0;  // integer: two's complement
  double f = 0;
};
Exact read(DType t, const void* p, size_t i) {
  const auto sign = [](i64 v) { return Exact{true, v < 0, u64(v), 0}; };
  const auto plain = [](u64 v) { return Exact{true, false, v, 0}; };
  const auto real = [](double v) { return Exact{false, false, 0, v}; };
  switch (t) {
    case DType::f64:
      return real(at<double>(p, i));
    case DType::f32:
      return real(at<float>(p, i));
    case DType::f16:
      return real(float(at<Half>(p, i)));
    case DType::bf16:
      return real(float(at<BFloat16>(p, i)));
    case DType::f8_e4m3:
      return real(detail::e4m3_to_float(at<u8>(p, i)));
    case DType::f8_e5m2:
      return real(detail::e5m2_to_float(at<u8>(p, i)));
    case DType::i64:
      return sign(at<i64>(p, i));
    case DType::i32:
      return sign(at<i32>(p, i));
    case DType::i16:
      return sign(at<i16>(p, i));
    case DType::i8:
      return sign(at<i8>(p, i));
    case DType::u64:
      return plain(at<u64>(p, i));
    case DType::u32:
      return plain(at<u32>(p, i));
    case DType::u16:
      return plain(at<u16>(p, i));
    case DType::u8:
      return plain(at<u8>(p, i));
    case DType::boolean:
      return plain(at<u8>(p, i) != 0);
  }
  return {};
}
template <class F>
F real_of(const Exact& n) {
  return !n.integer ? F(n.f) : n.negative ? F(i64(n.bits)) : F(n.bits);
}
// The nearest number of so many binary digits, the last one of which is worth 2^least or more; of
// two the even one. Beyond `most`: `beyond`.
float nearest(long double v, int digits, int least, float most, float beyond) {
  if (v == 0 || v != v) return float(v);
  int exponent = 0;
  (void)std::frexp(v, &exponent);
  const int step = std::max(exponent - digits, least);
  const float r = float(std::ldexp(std::nearbyint(std::ldexp(v, -step)), step));
  return std::abs(r) <= most ? r : v < 0 ? -beyond : beyond;
}

// Element `i` of `p`, of dtype t, is the conversion of n.
bool holds(DType t, const void* p, size_t i, const Exact& n) {
  const auto same = [](auto got, auto right) {
    return got == right ? std::signbit(got) == std::signbit(right) : got != got && right != right;
  };
  const auto v = real_of<long double>(n);
  switch (t) {
    case DType::f64:
      return same(at<double>(p, i), real_of<double>(n));
    case DType::f32:
      return same(at<float>(p, i), real_of<float>(n));
    case DType::f16:
      return same(float(at<Half>(p, i)), nearest(v, 11, -24, 65504, INFINITY));
    case DType::bf16:
      return same(float(at<BFloat16>(p, i)), nearest(v, 8, -133, 0x1.fep127f, INFINITY));
    case DType::f8_e4m3:
      return same(detail::e4m3_to_float(at<u8>(p, i)), nearest(v, 4, -9, 448, NAN));
    case DType::f8_e5m2:
      return same(detail::e5m2_to_float(at<u8>(p, i)), nearest(v, 3, -16, 57344, INFINITY));
    case DType::boolean:
      return at<u8>(p, i) == (n.integer ? n.bits != 0 : n.f != 0);
    default:
      break;
  }
  const int width = int(item_size(t)) * 8;
  const bool is_signed = t == DType::i64 || t == DType::i32 || t == DType::i16 || t == DType::i8;
  u64 right = n.bits;
  if (!n.integer) {
    const double limit = std::ldexp(1.0, is_signed ? width - 1 : width);
    if (n.f != n.f)
      right = 0;
    else if (n.f >= limit)
      right = is_signed ? (u64(1) << (width - 1)) - 1 : ~u64(0);
    else if (n.f <= (is_signed ? -limit : 0.0))
      right = is_signed ? u64(0) - (u64(1) << (width - 1)) : 0;
    else
      right = n.f < 0 ? u64(i64(n.f)) : u64(n.f);
  }
  return std::memcmp(static_cast<const u8*>(p) + i * size_t(width / 8), &right,
                     size_t(width / 8)) == 0;
}

// The hard values as elements of t, and odd bit patterns after them.
std::vector<u8> hard_elements(DType t, size_t count) {
  const std::vector<double> values = hard_values();
  const size_t size = size_t(item_size(t));
  std::vector<u8> bytes(count * size);
  u64 state = 12345;
  for (size_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    u64 bits = state;
    if (i < values.size()) {
      const double v = values[i];
      if (t == DType::f64) std::memcpy(&bits, &v, 8);
      if (t == DType::f32) {
        const float f = float(v);
        std::memcpy(&bits, &f, 4);
      }
      if (t == DType::f16) bits = Half(float(v)).bits;
      if (t == DType::bf16) bits = BFloat16(float(v)).bits;
    }
    // One more than the middle of two bfloat16: as f32 it is the middle.
    if (i < 8 && !is_floating(t)) bits = (u64(257 + 4 * i) << 16) + 1;
    if (t == DType::boolean) bits &= 1;
    std::memcpy(bytes.data() + i * size, &bits, size);
  }
  return bytes;
}

template <class Args>
const Variants<Args>& list_of(Device d) {
  const Variants<Args>* list = ContractTable<Args>::rows[int(d.kind)];
  REQUIRE(list);
  return *list;
}

}  // namespace

TEST_CASE("copy: every pair of dtypes, every variant", "[kernels]") {
  const Device d = GENERATE(from_range(wt_test::kernel_devices()));
  const int from = GENERATE(range(0, kNumDTypes));
  const size_t n = 131;
  const std::vector<u8> source = hard_elements(DType(from), n);
  const Tensor x = from_bytes(source, {n}, DType(from), d);
  const Variants<CopyArgs>& list = list_of<CopyArgs>(d);
  for (int to = 0; to < kNumDTypes; ++to)
    for (int v = 0; v < list.count; ++v) {
      const Tensor y = empty({n}, {.dtype = DType(to), .device = d});
      const CopyArgs args{view_of(y), view_of(x)};
      const Variant<CopyArgs>& row = list.rows[v];
      if (row.why_not && row.why_not(args)) continue;
      row.launch(args, Launch{.device = d});
      const std::vector<u8> got = bytes_of(y);
      INFO(dtype_name(DType(from))
           << " to " << dtype_name(DType(to)) << " " << row.name << " on " << d);
      if (from == to) {
        const bool same_bits = got == source;
        CHECK(same_bits);
        continue;
      }
      for (size_t i = 0; i < n; ++i) {
        CAPTURE(i);
        CHECK(holds(DType(to), got.data(), i, read(DType(from), source.data(), i)));
      }
    }
}

TEST_CASE("copy: any strides and broadcast sources, every variant and width", "[kernels]") {
  const Device d = GENERATE(from_range(wt_test::kernel_devices()));
  const DType from = GENERATE(DType::u8, DType::f16, DType::f32, DType::f64, DType::f8_e4m3);
  const DType to = GENERATE(DType::f32, DType::f16);
  const Shape shape{3, 1, 5, 4};
  const auto source = [&](const Shape& s) {
    std::vector<u8> bytes = hard_elements(from, size_t(numel_of(s)));
    if (from == DType::f8_e4m3)
      for (u8& b : bytes) b &= 0x3f;
    return from_bytes(bytes, s, from, d);
  };
  std::vector<Tensor> sources = {source(shape),
                                 source({5, 1, 3, 4}).transpose(0, 2),
                                 source({3, 1, 5, 9}).slice(3, {1, 9, 2}),
                                 source({4}),
                                 source({5, 1}),
                                 source({})};
  const Variants<CopyArgs>& list = list_of<CopyArgs>(d);
  for (size_t k = 0; k < sources.size(); ++k)
    for (int target = 0; target < 3; ++target)
      for (int v = 0; v < list.count; ++v) {
        // What the values should be, by the reference on the cpu from a dense, expanded copy.
        const Tensor base = target == 1   ? zeros({4, 1, 5, 3}, {.dtype = to, .device = d})
                            : target == 2 ? zeros({3, 2, 5, 4}, {.dtype = to, .device = d})
                                          : zeros(shape, {.dtype = to, .device = d});
        const Tensor y = target == 1   ? base.transpose(0, 3)
                         : target == 2 ? base.slice(1, {1, 2})
                                       : base;
        const CopyArgs args{view_of(y), view_of(sources[k])};
        const Variant<CopyArgs>& row = list.rows[v];
        if (row.why_not && row.why_not(args)) continue;
        row.launch(args, Launch{.device = d});
        INFO("source " << k << " target " << target << " " << dtype_name(from) << " to "
                       << dtype_name(to) << " " << row.name << " on " << d);
        const std::vector<double> got = y.to_vector<double>();
        const std::vector<double> in = sources[k].expand(shape).to_vector<double>();
        REQUIRE(got.size() == in.size());
        for (size_t i = 0; i < in.size(); ++i) {
          const double right =
              to == DType::f32 ? double(float(in[i])) : nearest(in[i], 11, -24, 65504, INFINITY);
          const bool same = got[i] == right || (got[i] != got[i] && right != right);
          CHECK(same);
        }
        if (target == 2)  // what lies beside the target is untouched
          for (const double beside : base.slice(1, {0, 1}).to_vector<double>()) CHECK(beside == 0);
      }
}

TEST_CASE("copy: transposed matrices of every width", "[kernels]") {
  const Device d = GENERATE(from_range(wt_test::kernel_devices()));
  const DType t = GENERATE(DType::u8, DType::f16, DType::f32, DType::i64);
  const Shape shape = GENERATE(Shape{3, 33, 65}, Shape{1, 8, 9}, Shape{2, 64, 32}, Shape{4, 7, 40},
                               Shape{2, 70, 132});
  std::vector<double> v(size_t(numel_of(shape)));
  for (size_t i = 0; i < v.size(); ++i) v[i] = double(i % 251);
  const Tensor x = tensor(v).view(shape).to(t).to(d);
  for (const Dims& order : {Dims{0, 2, 1}, Dims{2, 0, 1}, Dims{1, 2, 0}, Dims{2, 1, 0}}) {
    const Tensor from = x.permute(order);
    const Tensor to = empty(from.shape(), {.dtype = t, .device = d});
    run(CopyArgs{view_of(to), view_of(from)}, Launch{.device = d});
    const std::vector<double> got = to.to_vector<double>();
    const Shape s = from.shape();
    size_t wrong = 0, at = 0;
    for (i64 i = 0; i < s[0]; ++i)
      for (i64 j = 0; j < s[1]; ++j)
        for (i64 k = 0; k < s[2]; ++k) {
          i64 where[3] = {}, in[3] = {i, j, k};
          for (int axis = 0; axis < 3; ++axis) where[order[axis]] = in[axis];
          wrong += got[at++] != v[size_t((where[0] * shape[1] + where[1]) * shape[2] + where[2])];
        }
    INFO(dtype_name(t) << " " << shape << " on " << d);
    CHECK(wrong == 0);
  }
}

TEST_CASE("copy: dense blocks of every size and alignment", "[kernels]") {
  const Device d = GENERATE(from_range(wt_test::kernel_devices()));
  const i64 n = GENERATE(0, 1, 7, 8, 9, 16, 17, 255, 4099);
  const i64 shift = GENERATE(0, 1, 3);
  std::vector<float> v(size_t(n + shift));
  for (size_t i = 0; i < v.size(); ++i) v[i] = float(i) * 0.25f;
  const Tensor x = tensor(v).to(d).slice(0, {shift});
  for (const DType t : {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i64}) {
    const Tensor base = empty({n + shift}, {.dtype = t, .device = d});
    const Tensor y = base.slice(0, {shift});
    run(CopyArgs{view_of(y), view_of(x)}, Launch{.device = d});
    const std::vector<double> got = y.to_vector<double>();
    for (i64 i = 0; i < n; ++i) {
      const float f = v[size_t(i + shift)];
      const double right = t == DType::f16    ? double(float(Half(f)))
                           : t == DType::bf16 ? double(float(BFloat16(f)))
                           : t == DType::i64  ? std::trunc(double(f))
                                              : double(f);
      CAPTURE(i, dtype_name(t));
      CHECK(got[size_t(i)] == right);
    }
  }
}

// Outputs that are written past the caches, from and to addresses between cache lines.
TEST_CASE("copy and fill: rows larger than the caches", "[kernels]") {
  const DType t = GENERATE(DType::f32, DType::bf16, DType::u8);
  const i64 n = (i64{32} << 20) / item_size(t) + 1234 + 17, shift = GENERATE(0, 3);
  const Tensor base = zeros({n + 8}, {.dtype = t}), in = empty({n + 1}, {.dtype = DType::f32});
  auto* from = static_cast<float*>(in.impl()->data) + 1;
  for (i64 i = 0; i < n; ++i) from[i] = float(i % 251);
  const Tensor x = in.slice(0, {1}), y = base.slice(0, {shift, shift + n});
  run(CopyArgs{view_of(y), view_of(x)}, Launch{});
  const Tensor back = empty({n});
  run(CopyArgs{view_of(back), view_of(y)}, Launch{});
  const auto* got = static_cast<const float*>(back.impl()->data);
  CHECK(std::equal(got, got + n, from));
  for (const i64 beside : {i64{0}, shift - 1, shift + n, n + 7})
    if (beside < shift || beside >= shift + n)
      if (beside >= 0) CHECK(base.slice(0, {beside, beside + 1}).to(DType::f64).item() == 0);
  run(FillArgs{view_of(y), 7, 7}, Launch{});
  run(CopyArgs{view_of(back), view_of(y)}, Launch{});
  CHECK(std::all_of(got, got + n, [](float v) { return v == 7; }));
  CHECK(base.slice(0, {shift + n, shift + n + 1}).to(DType::f64).item() == 0);
}
TEST_CASE("copy: transposed matrices larger than the caches", "[kernels]") {
  const Shape shape = GENERATE(Shape{1500, 6000}, Shape{5600, 1536}, Shape{1664, 5121});
  const Tensor x = empty(shape), y = empty({shape[1], shape[0]});
  auto* from = static_cast<float*>(x.impl()->data);
  for (i64 i = 0; i < x.numel(); ++i) from[i] = float(i);
  run(CopyArgs{view_of(y), view_of(x.transpose(0, 1))}, Launch{});
  const auto* got = static_cast<const float*>(y.impl()->data);
  size_t wrong = 0;
  for (i64 i = 0; i < shape[0]; ++i)
    for (i64 j = 0; j < shape[1]; ++j) wrong += got[j * shape[0] + i] != from[i * shape[1] + j];
  CHECK(wrong == 0);
}

TEST_CASE("fill: every dtype, every variant, any strides", "[kernels]") {
  const Device d = GENERATE(from_range(wt_test::kernel_devices()));
  const int t = GENERATE(range(0, kNumDTypes));
  const Scalar value = GENERATE(Scalar(0), Scalar(1), Scalar(-3), Scalar(2.5));
  const Variants<FillArgs>& list = list_of<FillArgs>(d);
  for (int v = 0; v < list.count; ++v)
    for (const i64 n : {0, 1, 5, 37, 300}) {
      const Tensor base = zeros({n, 3}, {.dtype = DType(t), .device = d});
      const Tensor column = base.slice(1, {1, 2});
      const Tensor dense = zeros({n}, {.dtype = DType(t), .device = d});
      for (const Tensor& out : {column, dense})
        list.rows[v].launch(FillArgs{view_of(out), value.to_double(), value.to_int()},
                            Launch{.device = d});
      INFO(dtype_name(DType(t)) << " " << list.rows[v].name << " n " << n << " on " << d);
      const std::vector<u8> bytes = bytes_of(dense), all = bytes_of(base);
      const size_t size = size_t(item_size(DType(t)));
      const bool real = is_floating(DType(t)) || DType(t) == DType::boolean;
      const Exact number = real ? Exact{false, false, 0, value.to_double()}
                                : Exact{true, value.to_int() < 0, u64(value.to_int()), 0};
      for (size_t i = 0; i < size_t(n); ++i) {
        CHECK(holds(DType(t), bytes.data(), i, number));
        CHECK(std::memcmp(bytes.data() + i * size, all.data() + (3 * i + 1) * size, size) == 0);
        for (size_t k = 0; k < size; ++k) CHECK(all[(3 * i) * size + k] == 0);
      }
    }
}

TEST_CASE("8-bit floats: every bit pattern goes there and back", "[kernels]") {
  for (int b = 0; b < 256; ++b) {
    const float e4m3 = detail::e4m3_to_float(u8(b)), e5m2 = detail::e5m2_to_float(u8(b));
    if (e4m3 == e4m3) CHECK(detail::float_to_e4m3(e4m3) == b);
    if (e5m2 == e5m2) CHECK(detail::float_to_e5m2(e5m2) == b);
  }
  CHECK(detail::e4m3_to_float(0x7e) == 448);
  CHECK(detail::e4m3_to_float(0x01) == 0x1p-9f);
  CHECK(detail::e5m2_to_float(0x7b) == 57344);
  CHECK(detail::e5m2_to_float(0x01) == 0x1p-16f);
  // Halfway cases go to the even neighbour.
  CHECK(detail::float_to_e4m3(17) == detail::float_to_e4m3(16));
  CHECK(detail::float_to_e4m3(19) == detail::float_to_e4m3(20));
  CHECK(detail::float_to_e5m2(9) == detail::float_to_e5m2(8));
  CHECK(detail::float_to_e5m2(11) == detail::float_to_e5m2(12));
  CHECK(std::isnan(detail::e4m3_to_float(detail::float_to_e4m3(465))));
  CHECK(detail::e4m3_to_float(detail::float_to_e4m3(464)) == 448);
  CHECK(std::isinf(detail::e5m2_to_float(detail::float_to_e5m2(61440))));
}
