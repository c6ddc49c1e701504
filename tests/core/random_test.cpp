// Random numbers: Philox by logical element and call, the same on every device.
#include "warptape/core/random.h"

#include <algorithm>
#include <cmath>
#include <thread>

#include "warptape/autograd/ops/dropout.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/random.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/memory.h"
#include "warptape/nn/init.h"
#include "warptape/nn/layers.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/values.h"

using namespace wt;

namespace {
// f under a generator of its own.
template <class F>
auto seeded(u64 seed, F f) {
  Generator own(seed);
  Generator* const before = mode.generator;
  mode.generator = &own;
  auto result = f();
  mode.generator = before;
  return result;
}
}  // namespace

TEST_CASE("Random: Philox4x32-10 gives the published known answers", "[wall][random]") {
  // Random123's kat_vectors.
  struct Known {
    u64 block, call;
    PhiloxKey key;
    u32 want[4];
  };
  constexpr Known kKnown[] = {
      {0, 0, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {~0ull, ~0ull, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {0x85a308d3243f6a88,
       0x0370734413198a2e,
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}};
  for (const Known& k : kKnown) {
    const PhiloxBlock b = philox(k.key, k.block, k.call);
    for (int i = 0; i < 4; ++i) CHECK(b.v[i] == k.want[i]);
  }
}

TEST_CASE("Random: of ranks with one seed each draws dropout of its own, and all else alike",
          "[random]") {
  const auto as_rank = [](u64 rank, const auto& f) {
    return seeded(7, [&] {
      generator().set_rank(rank);
      return values(f());
    });
  };
  const Tensor x = ones({64});
  const auto drop = [&] { return dropout(x, 0.5); };
  const auto draw = [] { return rand({64}); };
  CHECK(as_rank(0, drop) == seeded(7, [&] { return values(drop()); }));
  CHECK(as_rank(1, drop) != as_rank(0, drop));
  CHECK(as_rank(1, drop) != as_rank(2, drop));
  CHECK(as_rank(1, drop) == as_rank(1, drop));
  CHECK(as_rank(1, draw) == as_rank(0, draw));
  // What a rank's generator makes is of that rank, and seeding it anew changes no rank.
  Generator of_rank(7);
  of_rank.set_rank(3);
  CHECK(of_rank.next_child().rank() == 3);
  seeded(1, [] {
    generator().set_rank(2);
    manual_seed(5);
    CHECK(generator().rank() == 2);
    std::thread worker([copy = ModeCopy()] {
      copy.adopt();
      CHECK(generator().rank() == 2);
    });
    worker.join();
    return 0;
  });
}

TEST_CASE("Random: a draw depends on seed, stream, fork, element and call, and on nothing else",
          "[wall][random]") {
  const Values first = seeded(1, [] { return values(rand({10})); });
  CHECK(seeded(1, [] { return values(rand({10})); }) == first);
  CHECK(seeded(2, [] { return values(rand({10})); }) != first);
  // The logical element: another shape, the same numbers.
  CHECK(seeded(1, [] { return values(rand({5, 2})); }) == first);
  Values longer = seeded(1, [] { return values(rand({100})); });
  longer.resize(10);
  CHECK(longer == first);
  // The call.
  seeded(1, [&] {
    CHECK(values(rand({10})) == first);
    CHECK(values(rand({10})) != first);
    return 0;
  });
  const Generator g(1);
  const PhiloxKey user = g.key(RandomStream::user), init = g.key(RandomStream::init),
                  child = g.child(0).key(RandomStream::user);
  CHECK((user.lo != init.lo || user.hi != init.hi));
  CHECK((user.lo != child.lo || user.hi != child.hi));
}

TEST_CASE("Random: every device draws the same bits", "[wall][random]") {
  const auto draw = [](Device d) {
    return seeded(7, [d] {
      const TensorOptions o{.device = d};
      std::vector<Values> all{values(rand({33}, o)),
                              values(randn({33}, o)),
                              values(randint(-5, 5, {33}, o)),
                              values(randperm(33, o)),
                              values(rand({9}, {.dtype = bf16, .device = d})),
                              values(normal(2, 3, {33}, o)),
                              values(bernoulli(0.5, {33}, o)),
                              values(bernoulli(full({33}, 0.5, o)))};
      const DefaultDevice here(d);
      const nn::Linear fc{4, 3};  // initialisers draw on the cpu
      all.push_back(values(fc.weight));
      all.push_back(values(dropout(ones({37}), 0.5)));
      return all;
    });
  };
  const std::vector<Values> cpu = draw(Device::cpu());
  for (const Device d : wt_test::kernel_devices()) CHECK(draw(d) == cpu);
}

TEST_CASE("Random: values lie where they should", "[wall][random]") {
  seeded(3, [] {
    for (const DType t : {f64, f32, f16, bf16}) {
      CAPTURE(dtype_name(t));
      const Values u = values(rand({20000}, {.dtype = t}));
      CHECK(*std::min_element(u.begin(), u.end()) >= 0);
      CHECK(*std::max_element(u.begin(), u.end()) < 1);  // 1 is not among them, in 16 bits too
      double m = 0;
      for (const double v : u) m += v / 20000;
      CHECK(std::abs(m - 0.5) < 0.01);  // 5 standard deviations
    }
    const Values n = values(randn({20000}, {.dtype = f64}));
    double m = 0, s = 0;
    for (const double v : n) m += v / 20000, s += v * v / 20000;
    CHECK(std::abs(m) < 0.036);
    CHECK(std::abs(s - 1) < 0.05);
    std::vector<i64> seen(6);
    for (const i64 v : randint(-3, 3, {600}).to_vector<i64>()) ++seen.at(size_t(v + 3));
    CHECK(*std::min_element(seen.begin(), seen.end()) > 60);
    std::vector<i64> order = randperm(50).to_vector<i64>();
    CHECK_FALSE(std::is_sorted(order.begin(), order.end()));
    std::sort(order.begin(), order.end());
    for (i64 i = 0; i < 50; ++i) CHECK(order[size_t(i)] == i);
    return 0;
  });
}

TEST_CASE("Random: a generator is plain data: saved, restored, compared", "[wall][random]") {
  seeded(5, [] {
    (void)rand({3});
    const Generator saved = generator();
    const Values next = values(rand({3}));
    CHECK_FALSE(generator() == saved);
    generator() = saved;
    CHECK(values(rand({3})) == next);
    manual_seed(5);
    CHECK(generator() == Generator(5));
    return 0;
  });
}

TEST_CASE("Random: a copied Mode forks the generator", "[wall][random][mode]") {
  const auto worker = [](const ModeCopy& copy) {
    Values drawn;
    std::thread([&] {
      copy.adopt();
      drawn = values(rand({4}));
    }).join();
    return drawn;
  };
  const auto all = [&] {
    return seeded(11, [&] {
      const Generator before = generator();
      const ModeCopy a, b;
      const Values of_a = worker(a), of_b = worker(b), own = values(rand({4}));
      CHECK(of_a != own);
      CHECK(of_b != own);
      CHECK(of_a != of_b);
      // The parent goes on as if there had been no worker.
      generator() = before;
      CHECK(values(rand({4})) == own);
      return std::vector<Values>{of_a, of_b, own};
    });
  };
  CHECK(all() == all());  // and which number the workers get does not depend on luck
}

TEST_CASE("Random: an operator that fails draws nothing", "[wall][random]") {
  seeded(13, [] {
    const Generator before = generator();
    CHECK_THROWS_AS((void)randint(2, 1, {3}), UsageError);
    CHECK_THROWS_AS((void)rand({2}, {.dtype = DType::i32}), DtypeError);
    CHECK_THROWS_AS((void)rand({-1}), ShapeError);
    CHECK_THROWS_AS((void)normal(0, -1, {2}), UsageError);
    CHECK_THROWS_AS((void)normal(0, 1, {2}, {.dtype = DType::i64}), DtypeError);
    CHECK_THROWS_AS((void)bernoulli(1.5, {2}), UsageError);
    CHECK_THROWS_AS((void)bernoulli(tensor({0.5, NAN})), UsageError);
    CHECK_THROWS_AS((void)randint(0, 2, {2}, {.dtype = DType::f8_e4m3}), DtypeError);
    const Tensor p = full({64}, 0.5);
    // Its numbers, where they are below p, and the result: each may find no room.
    int refused = 0;
    for (i64 n = 1; n < 20; ++n) {
      memory::fail_nth_request(n);
      try {
        (void)bernoulli(p);
      } catch (const OutOfMemory&) {
        ++refused;
        CHECK(generator() == before);
        continue;
      }
      break;
    }
    memory::fail_nth_request(0);
    CHECK(refused > 2);
    generator() = before;
    CHECK_THROWS_AS((void)dropout(ones({2}), 1.5), UsageError);
    CHECK(generator() == before);
    return 0;
  });
}

TEST_CASE("Random: bernoulli and normal", "[random]") {
  seeded(17, [] {
    CHECK(values(bernoulli(0, {1000})) == Values(1000, 0));
    CHECK(values(bernoulli(1, {1000})) == Values(1000, 1));
    CHECK(values(bernoulli(zeros({1000}))) == Values(1000, 0));
    CHECK(values(bernoulli(ones({1000}))) == Values(1000, 1));
    CHECK(bernoulli(0.5, {2, 3}).dtype() == f32);
    CHECK(bernoulli(0.5, {3}, {.dtype = DType::boolean}).dtype() == DType::boolean);
    CHECK(bernoulli(full({2, 3}, 0.5, {.dtype = bf16})).dtype() == bf16);
    CHECK(bernoulli(0.5, {3}, {.requires_grad = true}).requires_grad());
    // No gradient comes from the probabilities.
    CHECK_FALSE(bernoulli(full({3}, 0.5, {.requires_grad = true})).requires_grad());
    CHECK(bernoulli(full({3}, 2.0, {.device = Device::meta()})).shape() == Shape{3});
    double sum = 0;
    for (const double v : values(bernoulli(0.3, {100000}))) sum += v;
    CHECK(std::abs(sum - 30000) < 5 * std::sqrt(100000 * 0.3 * 0.7));
    CHECK(values(normal(2.5, 0, {3})) == Values(3, 2.5));
    return 0;
  });
  // The number and the tensor of it ask the same numbers.
  const Values below = seeded(18, [] { return values(bernoulli(0.375, {200})); });
  for (const DType t : {f64, f32, f16, bf16})
    CHECK(below == seeded(18, [t] { return values(bernoulli(full({200}, 0.375, {.dtype = t}))); }));
  // Those of rand() in f64, to the last bit.
  const Values u = seeded(18, [] { return values(rand({9}, {.dtype = f64})); });
  for (size_t i = 0; i < u.size(); ++i) {
    const auto drawn = [&](double p) {
      return seeded(18, [p] { return values(bernoulli(p, {9})); })[i];
    };
    CHECK(drawn(u[i]) == 0);
    CHECK(drawn(std::nextafter(u[i], 1)) == 1);
  }
  CHECK(mentions(message_of([] {
                   (void)bernoulli(tensor({0.5, -0.1, 2.0}));
                 }),
                 "[bernoulli] p must be in [0, 1]: 2 of 3 elements are outside"));
  CHECK(mentions(message_of([] { (void)bernoulli(NAN, {2}); }), "[bernoulli] p must be in [0, 1]"));
  CHECK(mentions(message_of([] { (void)normal(0, -1, {2}); }),
                 "[normal] std must not be negative, got -1\n  at "));
}

TEST_CASE("Random: every thread has a generator of its own", "[wall][random]") {
  const Generator before = generator();
  const auto drawn = [](auto&&... seed) {
    std::vector<float> v;
    std::thread([&] {
      (manual_seed(seed), ...);
      v = rand({8}).to_vector<float>();
    }).join();
    return v;
  };
  const auto a = drawn(), b = drawn();
  CHECK(a != b);
  CHECK(generator() == before);  // nobody drew from this one
  CHECK(rand({8}).to_vector<float>() != a);
  generator() = before;
  CHECK(drawn(7) == drawn(7));
  CHECK(generator() == before);
  manual_seed(7);
  CHECK(rand({8}).to_vector<float>() == drawn(7));
  // A thread that has not drawn yet forks from the main thread's seed.
  manual_seed(8);
  std::thread([] { CHECK(generator().seed() == 8); }).join();
  generator() = before;
}
