// Distances of all pairs: every metric, dtype and instruction set against plain doubles, operands
// of any strides, the same bits whatever the threads.
#include "warptape/kernels/cdist.h"

#include <algorithm>
#include <array>

#include "warptape/autograd/ops/shape.h"
#include "warptape/core/device.h"
#include "warptape/kernels/cpu/isa.h"
#include "warptape/tests/support/variants.h"

using namespace wt;
using namespace wt_test;

namespace {

struct IsaScope {
  int before = cpu_isa();
  explicit IsaScope(int isa) { cpu_isa_in_use = isa; }
  ~IsaScope() { cpu_isa_in_use = before; }
};

// Operands of one problem, and what must come out.
struct Problem {
  i64 batches, rows, columns, depth;
  double p;
  DType t;
  Tensor a, b, gy;
  std::vector<double> x, z, g;  // what the operands hold, in logical order
  std::vector<double> y;        // distance() of every pair
  // A gradient's elements: what they are, and the sum of what was added.
  struct Sums {
    std::vector<double> want, size;
  };
  Sums ga, gb;  // by sum_up(), once for every variant and instruction set
  DType wide() const { return t == f64 ? f64 : f32; }
  double difference(i64 n, i64 i, i64 j, i64 k) const {
    return x[size_t((n * rows + i) * depth + k)] - z[size_t((n * columns + j) * depth + k)];
  }
  double distance(i64 n, i64 i, i64 j) const {
    double sum = 0;
    for (i64 k = 0; k < depth; ++k) {
      const double d = std::fabs(difference(n, i, j, k));
      sum = std::isinf(p) ? std::max(sum, d) : sum + (p == 0 ? double(d != 0) : std::pow(d, p));
    }
    return std::isinf(p) || p == 0 ? sum : std::pow(sum, 1 / p);
  }
  double pull(i64 n, i64 i, i64 j, i64 k) const {
    const double d = difference(n, i, j, k), far = y[size_t((n * rows + i) * columns + j)];
    const double sign = double(d > 0) - double(d < 0), size = std::fabs(d);
    if (d == 0) return 0;
    const double slope =
        std::isinf(p) ? (size == far ? sign : 0) : sign * std::pow(size / far, p - 1);
    return g[size_t((n * rows + i) * columns + j)] * slope;
  }
  void sum_up() {
    for (const bool second : {false, true}) {
      const i64 own = second ? columns : rows, others = second ? rows : columns;
      Sums& s = second ? gb : ga;
      for (i64 e = 0; e < batches * own * depth; ++e) {
        const i64 n = e / depth / own, i = e / depth % own, k = e % depth;
        double want = 0, size = 0;
        for (i64 j = 0; j < others; ++j) {
          const double one = second ? -pull(n, j, i, k) : pull(n, i, j, k);
          want += one, size += std::fabs(one);
        }
        s.want.push_back(want), s.size.push_back(size);
      }
    }
  }
};

// `turned`: the last two axes of every operand are swapped in memory, and b is the same for all
// batches.
Problem problem_of(std::array<i64, 4> sizes, double p, DType t, bool turned,
                   Device d = Device::cpu()) {
  Problem q{sizes[0], sizes[1], sizes[2], sizes[3], p, t, {}, {}, {}, {}, {}, {}, {}, {}, {}};
  const auto make = [&](i64 n, i64 r, i64 c, u64 seed) {
    const std::vector<double> v = random_values(n * r * c, seed);
    return turned ? transpose(to_tensor(v, {n, c, r}, t, d), 1, 2) : to_tensor(v, {n, r, c}, t, d);
  };
  q.a = make(q.batches, q.rows, q.depth, 1);
  q.b = make(turned ? 1 : q.batches, q.columns, q.depth, 2);
  if (turned) q.b = expand(q.b, {q.batches, q.columns, q.depth});
  q.gy = make(q.batches, q.rows, q.columns, 3);
  q.x = to_doubles(q.a), q.z = to_doubles(q.b), q.g = to_doubles(q.gy);
  for (i64 n = 0; n < q.batches; ++n)
    for (i64 i = 0; i < q.rows; ++i)
      for (i64 j = 0; j < q.columns; ++j) q.y.push_back(q.distance(n, i, j));
  if (p > 0) q.sum_up();
  return q;
}

void check_forward(const Problem& q) {
  for (const DType out : {q.t, q.wide()}) {
    const Device d = q.a.device();
    const Tensor y = empty({q.batches, q.rows, q.columns}, {.dtype = out, .device = d});
    for_each_variant<CdistForwardArgs>(d, {view(y), view(q.a), view(q.b), q.p}, [&] {
      const std::vector<double> got = to_doubles(y);
      int wrong = 0;
      for (i64 e = 0; e < y.numel(); ++e) {
        const double want = q.y[size_t(e)];
        const double size = want * (1 + std::fabs(std::log(want + 1e-30)));  // of 1 / p
        wrong += !close(got[size_t(e)], want, error_bound(out, double(q.depth), want, size));
      }
      CHECK(wrong == 0);
    });
  }
}

void check_backward(const Problem& q) {
  const Device d = q.a.device();
  const Tensor ga = empty({q.batches, q.rows, q.depth}, {.dtype = q.t, .device = d});
  const Tensor gb = empty({q.batches, q.columns, q.depth}, {.dtype = q.t, .device = d});
  // The largest difference must be found again: y as the forward has it.
  const Tensor y = to_tensor(q.y, {q.batches, q.rows, q.columns}, q.wide(), d);
  const auto check = [&](Tensor got, bool second) {
    const std::vector<double> v = to_doubles(got);
    got.fill_(7);  // the next variant has to write it
    const Problem::Sums& s = second ? q.gb : q.ga;
    const double others = double(second ? q.rows : q.columns);
    int wrong = 0;
    for (size_t e = 0; e < v.size(); ++e)
      wrong += !close(v[e], s.want[e], error_bound(q.t, others + 16, s.want[e], s.size[e]));
    CHECK(wrong == 0);
  };
  for_each_variant<CdistBackwardArgs>(
      d, {view(ga), view(gb), view(q.gy), view(y), view(q.a), view(q.b), q.p},
      [&] { check(ga, false), check(gb, true); });
  for_each_variant<CdistBackwardArgs>(
      d, {{}, view(gb), view(q.gy), view(y), view(q.a), view(q.b), q.p}, [&] { check(gb, true); });
  for_each_variant<CdistBackwardArgs>(
      d, {view(ga), {}, view(q.gy), view(y), view(q.a), view(q.b), q.p}, [&] { check(ga, false); });
}

}  // namespace

namespace {
// The race and ptx flavours have the plain program's cpu, whose own cases are left to that.
bool walks_cpu() {
  for (const Device& d : wt_test::kernel_devices())
    if (d == Device::cpu()) return true;
  return false;
}
// Two of three problems of a walk that is not whole; `turn` is counted so that the third that stays
// has each size with either order and with most metrics.
bool is_left_out(DType t, int turn) { return !whole_walk() && (turn + int(t)) % 3 != 0; }
}  // namespace

TEST_CASE("cdist: every variant and instruction set, all metrics and dtypes, any strides") {
  if (!walks_cpu()) return;
  const int best = cpu_isa();
  int turn = 0;
  for (const DType t : {f64, f32, f16, bf16})
    for (const double p : {0.0, 1.0, 2.0, double(INFINITY), 3.0, 0.5})
      for (const bool turned : {false, true})
        for (const auto& sizes : {std::array<i64, 4>{1, 7, 19, 5},
                                  {2, 13, 33, 9},
                                  {1, 40, 3, 17},
                                  {2, 1, 1, 1},
                                  {1, 2, 300, 2},
                                  {1, 103, 5, 35}}) {
          ++turn;
          if (is_left_out(t, turn + turn / 6)) continue;  // there are 6 sizes
          const Problem q = problem_of(sizes, p, t, turned);
          for (int isa = 0; isa <= best; ++isa) {
            const IsaScope use(isa);
            INFO("isa " << isa << ' ' << dtype_name(t) << " p " << p << " turned " << turned
                        << " sizes " << sizes[0] << ' ' << sizes[1] << ' ' << sizes[2] << ' '
                        << sizes[3]);
            check_forward(q);
            if (p > 0) check_backward(q);
          }
        }
}

TEST_CASE("cdist: every rung of simt and cuda, all metrics and dtypes, any strides") {
  for (const Device d : kernel_devices()) {
    if (d == Device::cpu()) continue;  // above, with more shapes
    int turn = 0;
    for (const DType t : {f64, f32, f16, bf16})
      for (const double p : {0.0, 1.0, 2.0, double(INFINITY), 3.0, 0.5})
        for (const bool turned : {false, true})
          // A tile of 32 points, others and coordinates: parts, the whole, and one more of each.
          for (const auto& sizes : {std::array<i64, 4>{2, 5, 33, 9},
                                    {1, 33, 70, 33},
                                    {1, 32, 32, 32},
                                    {2, 1, 1, 1},
                                    {0, 3, 4, 5},
                                    {1, 3, 0, 5},
                                    {1, 0, 3, 5},
                                    {1, 3, 4, 0}}) {
            if (is_left_out(t, turn++)) continue;
            INFO(to_string(d) << ' ' << dtype_name(t) << " p " << p << " turned " << turned
                              << " sizes " << sizes[0] << ' ' << sizes[1] << ' ' << sizes[2] << ' '
                              << sizes[3]);
            const Problem q = problem_of(sizes, p, t, turned, d);
            check_forward(q);
            if (p > 0) check_backward(q);
          }
  }
}

TEST_CASE("cdist: a rung's gradient of points that are equal, or as near as f32 can tell") {
  for (const Device d : kernel_devices())
    for (const double p : {1.0, 2.0, double(INFINITY), 3.0}) {
      // 1e-18 apart: 1 / y is 1e18.
      const Tensor a = to_tensor({0, 1, 1e-18, 1}, {1, 2, 2}, f32, d);
      const Tensor b = to_tensor({0, 1, 2, 1, 0, 1}, {1, 3, 2}, f32, d);
      const Tensor y = empty({1, 2, 3}, {.device = d}), gy = ones({1, 2, 3}, {.device = d});
      Launch l;
      l.device = d;
      run(CdistForwardArgs{view(y), view(a), view(b), p}, l);
      Tensor ga = empty({1, 2, 2}, {.device = d});
      for_each_variant<CdistBackwardArgs>(
          d, {view(ga), {}, view(gy), view(y), view(a), view(b), p}, [&] {
            const std::vector<double> got = to_doubles(ga);
            // Of three others one lies apart by 2, two are at the point's place or beside it.
            const bool found = p < 3 || std::isinf(p);  // (1e-18)^3 is 0 in f32, and so is y
            CHECK(std::fabs(got[0] + 1) < 1e-6);
            CHECK(got[1] == 0);
            CHECK(std::fabs(got[2] - (found ? 1 : -1)) < 1e-6);
            CHECK(got[3] == 0);
            ga.fill_(7);
          });
    }
}

TEST_CASE("cdist: tiles of the gradient where they have lanes and blocks enough") {
  if (!ContractTable<CdistBackwardArgs>::rows[int(DeviceKind::simt)]) SKIP_TEST("no simt here");
  const Device d = Device::simt();
  const auto chosen = [&](i64 points, i64 others, i64 depth) {
    const Tensor a = empty({1, points, depth}, {.device = d});
    const Tensor b = empty({1, others, depth}, {.device = d});
    const Tensor y = empty({1, points, others}, {.device = d});
    const CdistBackwardArgs both{view(a), view(b), view(y), view(y), view(a), view(b), 2};
    return std::string(choose(both, d).name);
  };
  CHECK(chosen(1024, 1024, 64) == "tiles");
  CHECK(chosen(1024, 992, 64) == "naive");
  CHECK(chosen(992, 1024, 64) == "naive");
  CHECK(chosen(9000, 9000, 15) == "naive");
}

TEST_CASE("cdist: the same bits with one thread and with several") {
  if (!walks_cpu()) return;
  const Problem q = problem_of({2, 210, 530, 40}, 2, f32, false);
  const int before = num_threads();
  std::vector<double> first;
  for (const int threads : {1, 3}) {
    set_num_threads(threads);
    const Tensor y = empty({2, 210, 530}), ga = empty({2, 210, 40}), gb = empty({2, 530, 40});
    const auto run_on_cpu = [](const auto& args) {
      Launch l;
      l.device = Device::cpu();
      run(args, l);
    };
    run_on_cpu(CdistForwardArgs{view(y), view(q.a), view(q.b), 2});
    run_on_cpu(CdistBackwardArgs{view(ga), view(gb), view(q.gy), view(y), view(q.a), view(q.b), 2});
    std::vector<double> all = to_doubles(y);
    for (const Tensor& t : {ga, gb})
      for (const double v : to_doubles(t)) all.push_back(v);
    if (first.empty())
      first = all;
    else
      CHECK(all == first);
  }
  set_num_threads(before);
}
