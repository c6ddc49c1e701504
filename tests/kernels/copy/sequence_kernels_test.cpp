// arange, linspace and eye: the definition, the same bits by every variant on every device.
#include "warptape/kernels/sequence.h"

#include <cstring>

#include "warptape/tests/support/values.h"
#include "warptape/tests/support/variants.h"

using namespace wt_test;

namespace {

const std::vector<DType> kFloating{f64, f32, f16, bf16};
const std::vector<DType> kWhole{DType::i64, DType::i32, DType::i16, DType::i8,     DType::u64,
                                DType::u32, DType::u16, DType::u8,  DType::boolean};

std::vector<u8> bytes_of(const Tensor& t) {
  const Tensor host = t.to(Device::cpu());
  const auto* p = static_cast<const u8*>(host.impl()->data);
  return {p, p + host.numel() * item_size(host.dtype())};
}

// What is made by every variant that there is, as the cpu's reference made it.
void check_everywhere(const Shape& shape, DType t, SequenceArgs a, std::set<std::string>& ran) {
  std::vector<u8> want;
  for (const Device d : kernel_devices()) {
    const Tensor out = empty(shape, {.dtype = t, .device = d});
    a.out = view_of(out.impl());
    for_each_variant(
        d, a,
        [&] {
          if (want.empty()) want = bytes_of(out);
          CHECK(bytes_of(out) == want);
        },
        &ran);
  }
}

}  // namespace

TEST_CASE("sequences: the same bits by every variant", "[kernels][factories]") {
  using K = SequenceKind;
  const struct {
    const char* name;
    SequenceArgs args;
  } kinds[] = {
      {"integers", {.kind = K::integers, .first = -5, .step = 3}},
      {"integers that wrap", {.kind = K::integers, .first = INT64_MAX - 3, .step = INT64_MAX}},
      {"reals", {.kind = K::reals, .begin = 0.1, .stride = 1.0 / 3}},
      {"reals beyond i64", {.kind = K::reals, .begin = -2e19, .stride = 1e18}},
      {"between", {.kind = K::between, .begin = -1, .end = 2, .stride = 3.0 / 1028}},
      {"whole", {.kind = K::whole, .first = -7, .step = i64{1} << 61}}};
  std::set<std::string> ran;
  for (const auto& k : kinds)
    for (const std::vector<DType>& dtypes : {kFloating, kWhole})
      for (const DType t : dtypes)
        for (const i64 n : {1, 2, 255, 257, 1029}) {
          CAPTURE(k.name, dtype_name(t), n);
          check_everywhere({n}, t, k.args, ran);
        }
  for (const DType t : {f32, f16, DType::i64, DType::boolean})
    for (const i64 n : {1, 2, 17}) {
      CAPTURE("identity", dtype_name(t), n);
      check_everywhere({n, n}, t, {.kind = K::identity}, ran);
    }
  CHECK(ran.size() >= kernel_devices().size());
}

TEST_CASE("sequences: arange, linspace and eye on every device", "[kernels][factories]") {
  for (const Device d : kernel_devices()) {
    CAPTURE(device_kind_name(d.kind));
    CHECK(values(arange(3, -4, -2, {.device = d})) == Values{3, 1, -1, -3});
    CHECK(values(arange(0, 1, 0.25, {.dtype = f16, .device = d})) == Values{0, 0.25, 0.5, 0.75});
    CHECK(values(arange(-1.5, 2, 1, {.dtype = DType::i32, .device = d})) == Values{-1, 0, 0, 1});
    CHECK(values(arange(0, 1, 0.5, {.dtype = DType::boolean, .device = d})) == Values{0, 1});
    CHECK(arange(5, 5, 1, {.device = d}).numel() == 0);
    const Values line = values(linspace(-1, 2, 1000, {.dtype = f64, .device = d}));
    CHECK(line.front() == -1);
    CHECK(line.back() == 2);  // hit exactly: counted from this end
    CHECK(std::fabs(line[500] - (-1 + 500 * 3.0 / 999)) < 1e-15);
    CHECK(values(linspace(4, 9, 1, {.device = d})) == Values{4});
    CHECK(values(eye(3, {.dtype = DType::u8, .device = d})) == Values{1, 0, 0, 0, 1, 0, 0, 0, 1});
    CHECK(eye(0, {.device = d}).numel() == 0);
    CHECK(arange(4, {.device = d}).device() == d);
  }
  CHECK_THROWS_AS((void)arange(3, {.dtype = DType::f8_e4m3}), DtypeError);
  CHECK_THROWS_AS((void)eye(3, {.dtype = DType::f8_e5m2}), DtypeError);
}
