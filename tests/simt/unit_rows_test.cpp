// The family of docs/writing_kernels.md: values of every variant, and what each asks of memory.
#include "warptape/tests/simt/unit_rows.h"

#include <map>

#include "warptape/kernels/simt/counters.h"
#include "warptape/tests/support/variants.h"

using namespace wt_test;

TEST_CASE("unit_rows: every variant has the values of f64 loops") {
  std::set<std::string> ran;
  for (Device d : {Device::cpu(), Device::simt()})
    for (const Shape& shape : {Shape{0, 5}, {3, 1}, {1, 8}, {70, 7}, {5, 33}, {9, 130}}) {
      const i64 rows = shape[0], columns = shape[1];
      const std::vector<double> values = random_values(rows * columns, 1, 3);
      const Tensor x = to_tensor(values, shape, f32, d);
      Tensor y = empty_like(x);
      const std::vector<double> in = to_doubles(x);  // as f32 has them
      for_each_variant(
          d, UnitRowsArgs{view(y), view(x)},
          [&] {
            const std::vector<double> got = to_doubles(y);
            for (i64 r = 0; r < rows; ++r) {
              double sum = 0;
              for (i64 i = 0; i < columns; ++i) sum += std::fabs(in[size_t(r * columns + i)]);
              for (i64 i = 0; i < columns; ++i) {
                const size_t at = size_t(r * columns + i);
                const double want = in[at] / sum;
                CAPTURE(shape, at);
                REQUIRE(close(got[at], want, error_bound(f32, double(columns), want, 1)));
              }
            }
            y.fill_(7);  // the next variant has to write it
          },
          &ran);
    }
  CHECK(ran == std::set<std::string>{"cpu:reference", "simt:naive", "simt:warp"});
}

TEST_CASE("unit_rows: the better rung asks for an eighth of the sectors") {
  if (!simt_can_count()) return;  // only where kernels are instrumented: wt_tests_race
  const Tensor x = to_tensor(random_values(64 * 96, 1), {64, 96}, f32, Device::simt());
  const Tensor y = empty_like(x);
  std::map<std::string, double> sectors;  // of a request, by variant
  const auto of_variant = [&](const Variant<UnitRowsArgs>& v) {
    simt_start_counting();
    Launch l;
    l.device = x.device();
    v.launch({view(y), view(x)}, l);
    double units = 0, requests = 0;
    for (const SimtKernelCounts& k : simt_stop_counting(false))
      for (const SimtAccess& a : k.accesses)
        units += double(a.units), requests += double(a.requests);
    sectors[v.name] = units / requests;
  };
  const Variants<UnitRowsArgs>& on_simt = *ContractTable<UnitRowsArgs>::rows[int(DeviceKind::simt)];
  for (int i = 0; i < on_simt.count; ++i) of_variant(on_simt.rows[i]);
  CHECK(sectors == std::map<std::string, double>{{"naive", 32}, {"warp", 4}});
}
