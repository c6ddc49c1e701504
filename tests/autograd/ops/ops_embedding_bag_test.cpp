// What the rows of embedding_bag cannot say: offsets as the host checks them and as devices take
// them, rows that are not finite, and equal largest elements.
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/embedding_bag.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/factories.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/variants.h"

using namespace wt;
using wt_test::operator_devices;

namespace {

using Values = std::vector<double>;
Values values(const Tensor& t) { return t.to_vector<double>(); }
Tensor whole(const std::vector<i64>& v, Device d = {}) { return tensor(v).to(d); }
std::string headline(const std::string& text) { return text.substr(0, text.find('\n')); }
constexpr EmbeddingBagMode kModes[] = {EmbeddingBagMode::sum, EmbeddingBagMode::mean,
                                       EmbeddingBagMode::max};

}  // namespace

TEST_CASE("embedding_bag: offsets are checked by value on the cpu") {
  const Tensor at = whole({0, 1, 2}), w = ones({3, 2});
  const auto refusal = [&](const std::vector<i64>& offsets) {
    return headline(message_of([&] { (void)embedding_bag(at, w, {.offsets = whole(offsets)}); }));
  };
  CHECK(refusal({1, 2}) == "IndexError: [embedding_bag] offsets must begin with 0, got 1");
  CHECK(refusal({0, 2, 1}) ==
        "IndexError: [embedding_bag] offsets must ascend: 1 follows 2 at position 2");
  CHECK(refusal({0, 4}) == "IndexError: [embedding_bag] offset 4 at position 1 is outside [0, 3]");
  CHECK(embedding_bag(at, w, {.offsets = whole({0, 3, 3})}).shape() == Shape{3, 2});
  for (const EmbeddingBagMode mode : kModes)
    CHECK(embedding_bag(at, w, {.offsets = whole({}), .mode = mode}).shape() == Shape{0, 2});
}

TEST_CASE("embedding_bag: rows before the first and after the last offset are in no bag") {
  for (const Device d : operator_devices()) {
    const Tensor w = tensor({{1.0}, {10.0}, {100.0}}, {.dtype = f64, .device = d});
    for (const EmbeddingBagMode mode : kModes) {
      const auto of = [&](const std::vector<i64>& offsets, bool last) {
        return values(embedding_bag(
            whole({2, 0, 1, 2}, d), w,
            {.offsets = whole(offsets, d), .mode = mode, .include_last_offset = last}));
      };
      CAPTURE(to_string(d), int(mode));
      const double two = mode == EmbeddingBagMode::sum    ? 11
                         : mode == EmbeddingBagMode::mean ? 5.5
                                                          : 10;
      CHECK(of({0, 1, 3}, true) == Values{100, two});
      if (d != Device::cpu()) CHECK(of({1, 3}, true) == Values{two});
    }
  }
}

TEST_CASE("embedding_bag: what is passed over counts nothing, whatever it is") {
  for (const Device d : operator_devices())
    for (const EmbeddingBagMode mode : kModes)
      for (const bool listed : {false, true}) {
        CAPTURE(to_string(d), int(mode), listed);
        const Tensor w = tensor({{NAN, INFINITY}, {-INFINITY, 2.0}}, {.dtype = f64, .device = d});
        const Tensor leaf = w.clone().set_requires_grad();
        EmbeddingBagOptions o{.mode = mode, .padding_idx = 0};
        Tensor at = whole({0, 1, 0, 0, 0, 0}, d).reshape({2, 3});
        if (listed) at = at.reshape({6}), o.offsets = whole({0, 3}, d);
        const Tensor y = embedding_bag(at, leaf, o);
        CHECK(values(y) == Values{-INFINITY, 2, 0, 0});
        CHECK(values(grad(y.sum(), leaf)) == Values{0, 0, 1, 1});
        if (mode != EmbeddingBagMode::sum) continue;
        o.per_sample_weights =
            full(at.shape(), 3.0, {.dtype = f64, .device = d}).set_requires_grad();
        const Tensor z = embedding_bag(at, leaf, o);
        CHECK(values(z) == Values{-INFINITY, 6, 0, 0});
        const Values g = values(grad(z.sum(), o.per_sample_weights));
        CHECK(g == Values{0, -INFINITY, 0, 0, 0, 0});
      }
}

TEST_CASE(
    "embedding_bag: of equal largest elements the first has the gradient, NaN is the largest") {
  for (const Device d : operator_devices())
    for (const bool listed : {false, true}) {
      CAPTURE(to_string(d), listed);
      const Tensor w = tensor({{1.0, NAN}, {3.0, 2.0}, {3.0, 5.0}}, {.dtype = f64, .device = d})
                           .set_requires_grad();
      EmbeddingBagOptions o{.mode = EmbeddingBagMode::max};
      Tensor at = whole({1, 0, 2, 2, 1, 1}, d).reshape({2, 3});
      if (listed) at = at.reshape({6}), o.offsets = whole({0, 3}, d);
      const Tensor y = embedding_bag(at, w, o);
      const Values v = values(y);
      CHECK(v[0] == 3);
      CHECK(std::isnan(v[1]));
      CHECK(Values(v.begin() + 2, v.end()) == Values{3, 5});
      CHECK(values(grad(y.sum(), w)) == Values{0, 1, 1, 0, 1, 1});
    }
}

TEST_CASE("embedding_bag: a table of 16 bits is added up in f32") {
  for (const Device d : operator_devices())
    for (const bool listed : {false, true}) {
      // 2048 and 1 are 2048 in f16.
      const Tensor w = tensor({2048.0, 1.0}, {.dtype = f16, .device = d}).reshape({2, 1});
      EmbeddingBagOptions o{.mode = EmbeddingBagMode::sum};
      Tensor at = whole({0, 1, 1, 1, 1}, d).reshape({1, 5});
      if (listed) at = at.reshape({5}), o.offsets = whole({0}, d);
      CHECK(values(embedding_bag(at, w, o)) == Values{2052});
    }
}

TEST_CASE("embedding_bag: shapes on meta") {
  const TensorOptions meta{.device = Device::meta()},
      index{.dtype = DType::i64, .device = Device::meta()};
  for (const EmbeddingBagMode mode : kModes) {
    CHECK(embedding_bag(zeros({3, 4}, index), zeros({9, 5}, meta), {.mode = mode, .padding_idx = 1})
              .shape() == Shape{3, 5});
    CHECK(embedding_bag(zeros({7}, index), zeros({9, 5}, meta),
                        {.offsets = zeros({2}, index), .mode = mode})
              .shape() == Shape{2, 5});
  }
}
