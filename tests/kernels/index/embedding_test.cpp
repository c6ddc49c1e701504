// Every variant of the embedding kernels against plain loops.
#include "warptape/kernels/embedding.h"

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/tests/support/variants.h"

using namespace wt_test;

namespace {

std::vector<i64> random_indices(i64 n, i64 limit, u64 seed) {
  std::vector<i64> v;
  for (double x : random_values(n, seed)) v.push_back(i64((x + 1) / 2 * double(limit)));
  return v;
}

// Look-up: exact. `weight` [V, D] in any layout.
void check_forward(const Tensor& weight, const Tensor& indices, i64 zero_index,
                   std::set<std::string>* ran) {
  const i64 width = weight.size(1);
  Shape shape = indices.shape();
  shape.push_back(width);
  const std::vector<double> table = to_doubles(weight);
  const std::vector<i64> at = indices.to_vector<i64>();
  std::vector<double> want;
  for (i64 i : at)
    for (i64 k = 0; k < width; ++k)
      want.push_back(i == zero_index ? 0 : table[size_t(i * width + k)]);
  Tensor out = full(shape, 7, {.dtype = weight.dtype(), .device = weight.device()});
  for_each_variant(
      weight.device(), EmbeddingForwardArgs{view(out), view(weight), view(indices), zero_index},
      [&] {
        CHECK(to_doubles(out) == want);
        out.fill_(7);
      },
      ran);
}

void check_backward(const Tensor& gout, const Tensor& indices, i64 limit, i64 skip,
                    std::set<std::string>* ran) {
  const DType t = gout.dtype();
  const i64 width = gout.size(-1);
  const std::vector<double> g = to_doubles(gout);
  const std::vector<i64> at = indices.to_vector<i64>();
  CAPTURE(gout.shape(), limit, skip, dtype_name(t));
  for (bool accumulate : {false, true}) {
    const double before = accumulate ? 0.5 : 0;
    std::vector<double> want(size_t(limit * width), before), magnitude(size_t(limit * width), 1);
    std::vector<int> uses(static_cast<size_t>(limit), 0);
    for (size_t i = 0; i < at.size(); ++i) {
      if (at[i] == skip || at[i] < 0 || at[i] >= limit) continue;
      ++uses[size_t(at[i])];
      for (i64 k = 0; k < width; ++k) {
        want[size_t(at[i] * width + k)] += g[i * size_t(width) + size_t(k)];
        magnitude[size_t(at[i] * width + k)] += std::fabs(g[i * size_t(width) + size_t(k)]);
      }
    }
    // NaN beforehand where the old contents must not be read.
    const TensorOptions on{.dtype = t, .device = gout.device()};
    const Tensor old = full({limit, width}, accumulate ? 0.5 : NAN, on);
    Tensor gw = old.clone();
    EmbeddingBackwardArgs a{view(gw), view(gout), view(indices), skip, accumulate};
    for_each_variant(
        gout.device(), a,
        [&] {
          const std::vector<double> got = to_doubles(gw);
          for (size_t i = 0; i < want.size(); ++i) {
            const int n = uses[i / size_t(width)];
            if (close(got[i], want[i], n ? error_bound(t, n, want[i], magnitude[i]) : 0)) continue;
            CAPTURE(i, got[i], want[i]);
            FAIL("gradient out of bounds");
          }
          gw.copy_(old);
        },
        ran);
  }
}

}  // namespace

TEST_CASE("embedding kernels: look-up, every variant and width") {
  std::set<std::string> ran;
  for (Device d : kernel_devices())
    for (DType t : {f32, f64, f16, bf16, DType::u8})
      for (i64 width : {1, 3, 8, 16, 33}) {
        std::vector<double> values = random_values(10 * width, 3, 100);
        for (double& v : values) v = std::floor(std::fabs(v));
        const Tensor weight = to_tensor(values, {10, width}, t, d);
        const Tensor indices = tensor(random_indices(12, 10, 4)).reshape({3, 4}).to(d);
        check_forward(weight, indices, -1, &ran);
        check_forward(weight, indices.to(DType::i32), 3, &ran);
        check_forward(weight, indices.transpose(0, 1), -1, &ran);
        check_forward(weight.slice(0, {0, 10, 2}), tensor({0, 4, 2}).to(d), -1, nullptr);
        check_forward(to_tensor(values, {width, 10}, t, d).transpose(0, 1), indices, -1, nullptr);
        check_forward(weight, tensor(7).to(d), -1, nullptr);
        check_forward(weight, zeros({0, 2}, {.dtype = DType::i64, .device = d}), -1, nullptr);
      }
  check_ran(ran, {"cpu:reference", "simt:naive", "simt:coalesced", "simt:vectorized"});
}

TEST_CASE("embedding kernels: gradient of the table, every variant") {
  std::set<std::string> ran;
  for (Device d : kernel_devices())
    for (DType t : {f32, f64, f16, bf16})
      for (i64 limit : {1, 10, 255, 256, 300})
        for (i64 n : {0, 1, 31, 100}) {
          const i64 width = n == 100 && limit < 20 ? 40 : 3;
          const Tensor gout = to_tensor(random_values(n * width, 5), {n, width}, t, d);
          const Tensor indices = tensor(random_indices(n, limit, 6)).to(d);
          check_backward(gout, indices, limit, limit > 1 ? 2 : -1, &ran);
        }
  check_ran(ran, {"cpu:reference", "cpu:direct", "simt:naive", "simt:sorted"});
}

TEST_CASE("embedding kernels: gradient with many positions and several digits") {
  for (Device d : kernel_devices()) {
    const i64 n = 1300;  // three runs of the sort
    std::vector<i64> at = random_indices(n, 70000, 6);
    for (i64 i = 0; i < n; i += 2) at[size_t(i)] = 17;  // one row gets half of all
    const Tensor gout = to_tensor(random_values(n * 2, 5), {n, 2}, f32, d);
    if (d.kind == DeviceKind::cpu) {
      check_backward(gout, tensor(at).to(d), 70000, -1, nullptr);
      continue;
    }
    for (i64& v : at) v %= 700;
    const Tensor indices = tensor(at).reshape({n / 2, 2}).to(d);
    check_backward(gout.reshape({n / 2, 2, 2}), indices, 700, 17, nullptr);
    check_backward(gout.reshape({n / 2, 2, 2}).transpose(0, 1), indices.transpose(0, 1), 700, -1,
                   nullptr);
  }
}

TEST_CASE("embedding kernels: gradient from strided and broadcast gout, bad indices add nothing") {
  for (Device d : kernel_devices()) {
    const Tensor g = to_tensor(random_values(6 * 5, 5), {5, 6}, f32, d);
    const Tensor indices = tensor({3, 0, 3, 99, -4, 1}).to(d);
    check_backward(g.transpose(0, 1), indices, 4, -1, nullptr);
    check_backward(ones({1, 5}, {.device = d}).expand({6, 5}), indices.to(DType::i32), 4, 3,
                   nullptr);
  }
}

TEST_CASE("embedding kernels: the sum of a row has one order") {
  // Values that give other bits in almost any other order.
  const i64 n = 200;
  std::vector<double> v = random_values(n, 11);
  for (i64 i = 0; i < n; ++i) v[size_t(i)] *= std::pow(2, double(i * 37 % 24));
  for (Device d : kernel_devices()) {
    const Tensor gout = to_tensor(v, {n, 1}, f32, d),
                 indices = zeros({n}, {.dtype = DType::i64, .device = d});
    Tensor gw = zeros({3, 1}, {.device = d});
    for (int repeat = 0; repeat < 2; ++repeat) {
      std::vector<double> first;
      for_each_variant(d, EmbeddingBackwardArgs{view(gw), view(gout), view(indices)},
                       [&] { first.push_back(gw.to_vector<double>()[0]); });
      static std::vector<double> before[3];
      std::vector<double>& kept = before[int(d.kind)];
      if (repeat == 0) kept = first;
      CHECK(first == kept);
    }
  }
}

TEST_CASE("embedding kernels: a bad index raises the mailbox and reads row 0") {
  static constexpr OpInfo info{.name = "embedding_test"};
  for (Device d : kernel_devices())
    for (const auto& [width, value] :
         std::vector<std::pair<i64, i64>>{{3, 4}, {8, -1}, {8, INT64_MAX}}) {
      const i64 bad = value;
      const Tensor weight = to_tensor(random_values(4 * width, 2), {4, width}, f32, d);
      const Tensor indices = tensor({{1, 2, 3}, {0, bad, 1}}).to(d);
      const Tensor stand_in = tensor({{1, 2, 3}, {0, 0, 1}}).to(d);
      Tensor out = zeros({2, 3, width}, {.device = d}), want = out.clone();
      EmbeddingForwardArgs a{view(want), view(weight), view(stand_in)};
      a.mailbox = mailbox_of(d);
      a.op_id = mailbox_op_id(info);
      std::vector<double> expected;
      for_each_variant(d, a, [&] { expected = to_doubles(want); });
      MailboxRecord r{};
      CHECK(!read_mailbox(d, r));
      a.out = view(out), a.indices = view(indices);
      for_each_variant(d, a, [&] {
        CHECK(read_mailbox(d, r));
        clear_mailbox(d);
        CHECK(r.raised == i32(MailboxCode::token_out_of_range));
        CHECK(r.op_id == a.op_id);
        CHECK(r.position == 4);
        CHECK(r.value == bad);
        CHECK(r.limit == 4);
        CHECK(to_doubles(out) == expected);
        out.fill_(0);
      });
    }
}
