// The collectives of local ranks against sums in f64: every algorithm, dtype, number of ranks and
// kind of size.
#include "warptape/dist/local.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "warptape/core/half.h"
#include "warptape/tests/dist/on_ranks.h"
#include "warptape/tests/support/devices.h"

using namespace wt;
using namespace wt::dist;
using namespace wt_test;

namespace {

constexpr DType kReduced[] = {f64,        f32,        f16,       bf16,
                              DType::i64, DType::i32, DType::u8, DType::boolean};
constexpr DType kMoved[] = {DType::i8,  DType::i16,     DType::u16,    DType::u32,
                            DType::u64, DType::f8_e4m3, DType::f8_e5m2};
constexpr i64 kSizes[] = {0, 1, 2, 3, 7, 255, 1023, 65537};
constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::mean, ReduceOp::min, ReduceOp::max};

bool has(ReduceOp op, DType t) {
  if (op == ReduceOp::mean) return is_floating(t);
  return op != ReduceOp::sum || t != DType::boolean;
}

// Small whole numbers, whose sums every dtype holds: the result is the same in any order. They come
// again after 16 elements.
double value(DType t, int rank, i64 i) {
  const i64 v = (i * 7 + rank * 5 + i * rank) % 16;
  if (t == DType::boolean) return double(v % 3 == 0);
  return double(t == DType::u8 ? v : v - 8);
}

double rounded(DType t, double v) {
  if (t == f32) return double(float(v));
  if (t == f16) return double(float(Half(float(v))));
  if (t == bf16) return double(float(BFloat16(float(v))));
  return v;
}

// Element i of the reduction over n ranks.
double reduced(ReduceOp op, DType t, int n, i64 i) {
  double r = value(t, 0, i);
  for (int k = 1; k < n; ++k) {
    const double v = value(t, k, i);
    r = op == ReduceOp::min ? std::min(r, v) : op == ReduceOp::max ? std::max(r, v) : r + v;
  }
  return op == ReduceOp::mean ? rounded(t, r / n) : r;
}

// n elements f(begin), f(begin + 1), ... of an f that comes again after 16.
template <class F>
Tensor tiled(DType t, i64 begin, i64 n, F&& f) {
  Values period;
  for (i64 i = 0; i < 16; ++i) period.push_back(f(begin + i));
  const std::vector<unsigned char> bytes = bytes_in(tensor(period, {.dtype = t}));
  const Tensor out = empty({n}, {.dtype = t});
  auto* const to = static_cast<unsigned char*>(out.impl()->data);
  const size_t all = size_t(n * item_size(t));
  for (size_t at = 0; at < all; at += bytes.size())
    std::memcpy(to + at, bytes.data(), std::min(bytes.size(), all - at));
  return out;
}
Tensor made(DType t, int rank, i64 begin, i64 n) {
  return tiled(t, begin, n, [&](i64 i) { return value(t, rank, i); });
}
Tensor made_reduced(ReduceOp op, DType t, int ranks, i64 begin, i64 n) {
  return tiled(t, begin, n, [&](i64 i) { return reduced(op, t, ranks, i); });
}

// Calls fn(comm, wrong) on each rank; what it adds to `wrong` are elements. Under a sanitizer one
// number of ranks of each kind: alone, odd, a power of two.
template <class F>
void check_ranks(F fn) {
  const int ranks = GENERATE(1, 2, 3, 4, 5, 8);
  if (!whole_walk() && ranks != 1 && ranks != 3 && ranks != 4) return;
  const Algorithm algorithm =
      GENERATE(Algorithm::automatic, Algorithm::ring, Algorithm::tree, Algorithm::chain);
  std::vector<std::string> wrong{size_t(ranks)};
  spawn(ranks, [&](Communicator& comm) { fn(comm, wrong[size_t(comm.rank())]); },
        {.local = {.algorithm = algorithm}});
  CAPTURE(ranks, to_string(algorithm));
  for (int r = 0; r < ranks; ++r) CHECK(wrong[size_t(r)] == "");
}

void note(std::string& wrong, const Tensor& got, const Tensor& expected, const char* what) {
  if (bytes_in(got) != bytes_in(expected))
    wrong += str(what, " of ", got.numel(), " ", dtype_name(got.dtype()), "; ");
}

}  // namespace

TEST_CASE("local all_reduce gives the reduction on every rank") {
  check_ranks([](Communicator& comm, std::string& wrong) {
    for (const DType t : kReduced)
      for (const i64 n : kSizes)
        for (const ReduceOp op : kOps) {
          if (!has(op, t) || (n > 2000 && op != ReduceOp::sum)) continue;
          const Tensor x = made(t, comm.rank(), 0, n);
          comm.all_reduce(x, op);
          note(wrong, x, made_reduced(op, t, comm.size(), 0, n), to_string(op));
        }
  });
}

TEST_CASE("local reduce_scatter gives each rank its part and leaves the input alone") {
  check_ranks([](Communicator& comm, std::string& wrong) {
    for (const DType t : kReduced)
      for (const i64 n : {0, 1, 3, 255, 20001})
        for (const ReduceOp op : kOps) {
          if (!has(op, t) || (n > 2000 && op != ReduceOp::sum)) continue;
          const Tensor in = made(t, comm.rank(), 0, n * comm.size()), before = in.clone();
          const Tensor out = made(t, 0, 5, n);
          comm.reduce_scatter(out, in, op);
          note(wrong, out, made_reduced(op, t, comm.size(), n * comm.rank(), n), to_string(op));
          note(wrong, in, before, "changed input");
        }
  });
}

TEST_CASE("local all_gather and broadcast move bytes of any dtype") {
  check_ranks([](Communicator& comm, std::string& wrong) {
    std::vector<DType> all(std::begin(kReduced), std::end(kReduced));
    all.insert(all.end(), std::begin(kMoved), std::end(kMoved));
    for (const DType t : all)
      for (const i64 n : {0, 1, 2, 7, 1023, 70001}) {
        if (n > 2000 && t != f32) continue;
        const bool stored = !computes(t);  // as bytes: what holds 16 small numbers depends on it
        const DType fill = stored ? DType::u8 : t;
        const auto tensor_of = [&](int rank, i64 count) {
          Tensor v = made(fill, rank, 0, stored ? count * item_size(t) : count);
          if (!stored) return v;
          Tensor as = empty({count}, {.dtype = t});
          std::copy_n(v.data<u8>(), v.numel(), static_cast<u8*>(as.impl()->data));
          return as;
        };
        const Tensor in = tensor_of(comm.rank(), n);
        const Tensor out = tensor_of(0, n * comm.size());
        comm.all_gather(out, in);
        for (int r = 0; r < comm.size(); ++r)
          note(wrong, out.narrow(0, r * n, n), tensor_of(r, n), "all_gather");
        const Tensor own = tensor_of(comm.rank(), n * comm.size());  // in its own part
        comm.all_gather(own, own.narrow(0, comm.rank() * n, n));
        for (int r = 0; r < comm.size(); ++r)
          note(wrong, own.narrow(0, r * n, n), tensor_of(r, n * comm.size()).narrow(0, r * n, n),
               "all_gather in place");
        for (int root = 0; root < comm.size(); root += 3) {
          const Tensor b = tensor_of(comm.rank(), n);
          comm.broadcast(b, root);
          note(wrong, b, tensor_of(root, n), "broadcast");
        }
      }
  });
}

namespace {

// Numbers whose sums depend on the order.
float uneven(int rank, i64 i) {
  return std::sin(float(i) * 1.7f + float(rank) * 0.9f) * std::exp2(float((i + rank * 3) % 9));
}
Tensor uneven_tensor(int rank, i64 n) {
  Tensor t = empty({n});
  float* const p = t.mutable_data<float>();
  for (i64 i = 0; i < n; ++i) p[i] = uneven(rank, i);
  return t;
}
std::vector<Tensor> reductions(int ranks, Algorithm a, DType t, i64 n, ReduceOp op) {
  std::vector<Tensor> out{size_t(ranks)};
  spawn(ranks,
        [&](Communicator& comm) {
          const Tensor x = uneven_tensor(comm.rank(), n).to(t).clone();
          comm.all_reduce(x, op);
          out[size_t(comm.rank())] = x;
        },
        {.local = {.algorithm = a}});
  return out;
}

}  // namespace

TEST_CASE("local ranks and runs end with the same bits") {
  const int ranks = GENERATE(3, 8);
  const Algorithm a =
      GENERATE(Algorithm::automatic, Algorithm::ring, Algorithm::tree, Algorithm::chain);
  const DType t = GENERATE(f32, f16, bf16);
  CAPTURE(ranks, to_string(a), dtype_name(t));
  const i64 n = 9001;
  const auto first = reductions(ranks, a, t, n, ReduceOp::mean);
  const auto again = reductions(ranks, a, t, n, ReduceOp::mean);
  for (const auto* run : {&first, &again})
    for (const Tensor& x : *run) CHECK(bytes_in(x) == bytes_in(first[0]));
  double worst = 0;  // against f64, in units of the sum of magnitudes
  const Values got = values(first[0]);
  for (i64 i = 0; i < n; ++i) {
    double sum = 0, size = 0;
    for (int r = 0; r < ranks; ++r) {
      const double v = rounded(t, double(uneven(r, i)));
      sum += v, size += std::abs(v);
    }
    worst = std::max(worst, std::abs(got[size_t(i)] - sum / ranks) * ranks / size);
  }
  // Each addition rounds by half a unit of f32 at most, the last step once in the dtype.
  const double unit = t == f32 ? std::exp2(-24) : t == f16 ? std::exp2(-11) : std::exp2(-8);
  CHECK(worst <= unit + (ranks + 1) * std::exp2(-24));
}

TEST_CASE("chain adds in the order of the ranks, halves in f32") {
  const DType t = GENERATE(f32, f16, bf16);
  const int ranks = GENERATE(2, 5, 8);
  CAPTURE(dtype_name(t), ranks);
  const i64 n = 1023;
  const auto got = reductions(ranks, Algorithm::chain, t, n, ReduceOp::sum);
  Values expected;
  for (i64 i = 0; i < n; ++i) {
    float sum = float(rounded(t, double(uneven(0, i))));
    for (int r = 1; r < ranks; ++r) sum += float(rounded(t, double(uneven(r, i))));
    expected.push_back(rounded(t, double(sum)));
  }
  for (const Tensor& x : got) CHECK(values(x) == expected);
}

TEST_CASE("NaN and infinities pass through reductions, integers wrap around") {
  const Algorithm a = GENERATE(Algorithm::ring, Algorithm::tree, Algorithm::chain);
  const DType t = GENERATE(f64, f32, f16, bf16);
  const ReduceOp op = GENERATE(ReduceOp::sum, ReduceOp::mean, ReduceOp::min, ReduceOp::max);
  CAPTURE(to_string(a), dtype_name(t), to_string(op));
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  std::vector<Values> got(3);
  spawn(3,
        [&](Communicator& comm) {
          // NaN from each rank in turn, an infinity, two that cancel, a plain number.
          const bool at[] = {comm.rank() == 0, comm.rank() == 1, comm.rank() == 2};
          const Tensor x =
              tensor({at[0] ? nan : 1, at[1] ? nan : 1, at[2] ? nan : 1, at[1] ? inf : 1,
                      at[0]   ? inf
                      : at[2] ? -inf
                              : 1,
                      2},
                     {.dtype = t});
          comm.all_reduce(x, op);
          got[size_t(comm.rank())] = values(x);
        },
        {.local = {.algorithm = a}});
  const bool sums = op == ReduceOp::sum || op == ReduceOp::mean;
  for (const Values& v : got) {
    for (size_t i = 0; i < 3; ++i) CHECK(std::isnan(v[i]));
    CHECK(v[3] == (op == ReduceOp::min ? 1 : inf));
    if (sums)
      CHECK(std::isnan(v[4]));
    else
      CHECK(v[4] == (op == ReduceOp::min ? -inf : inf));
    CHECK(v[5] == (op == ReduceOp::sum ? 6 : 2));
  }
}

TEST_CASE("sums of integers wrap around") {
  const Algorithm a = GENERATE(Algorithm::ring, Algorithm::tree, Algorithm::chain);
  std::vector<i64> big(3);
  std::vector<i64> small(3), byte(3);
  spawn(3,
        [&](Communicator& comm) {
          const Tensor x = full({4}, INT64_MAX, {.dtype = DType::i64});
          const Tensor y = full({4}, INT32_MAX, {.dtype = DType::i32});
          const Tensor z = full({4}, 200, {.dtype = DType::u8});
          comm.all_reduce(x), comm.all_reduce(y), comm.all_reduce(z);
          big[size_t(comm.rank())] = x[3].item<i64>();
          small[size_t(comm.rank())] = y[3].item<i64>();
          byte[size_t(comm.rank())] = z[3].item<i64>();
        },
        {.local = {.algorithm = a}});
  for (size_t r = 0; r < 3; ++r) {
    CHECK(big[r] == INT64_MAX - 2);
    CHECK(small[r] == INT32_MAX - 2);
    CHECK(byte[r] == 600 % 256);
  }
}

TEST_CASE("a sum of halves is rounded once") {
  // In f16 each addition of 1 to 2048 would be lost.
  std::vector<Values> got(4);
  spawn(4, [&](Communicator& comm) {
    const Tensor x = full({3}, comm.rank() == 0 ? 2048 : 1, {.dtype = f16});
    comm.all_reduce(x);
    got[size_t(comm.rank())] = values(x);
  });
  for (const Values& v : got) CHECK(v == Values(3, 2052));  // 2051 to even
}

TEST_CASE("send and recv keep the order between two ranks") {
  std::vector<Values> got;
  spawn(3, [&](Communicator& comm) {
    if (comm.rank() == 2) {
      for (const i64 n : {0, 1, 70001})
        for (const int from : {1, 0}) {
          const Tensor x = zeros({n});
          comm.recv(x, from);
          got.push_back(n ? Values{x[0].item(), x[n - 1].item()} : Values{});
        }
      return;
    }
    for (const i64 n : {0, 1, 70001}) {
      Tensor x = full({n}, double(n) + comm.rank());
      comm.send(x, 2);
      x.zero_();  // it may be written again
    }
  });
  CHECK(got == std::vector<Values>{{}, {}, {2, 2}, {1, 1}, {70002, 70002}, {70001, 70001}});
}

TEST_CASE("two ranks that both send first do not wait for each other") {
  std::vector<double> got(2);
  spawn(2, [&](Communicator& comm) {
    const Tensor x = full({100000}, double(comm.rank())), y = zeros({100000});
    comm.send(x, 1 - comm.rank());
    comm.recv(y, 1 - comm.rank());
    got[size_t(comm.rank())] = y[99999].item();
  });
  CHECK(got == std::vector<double>{1, 0});
}

TEST_CASE("tensors of simt are sent where they lie") {
  std::vector<Values> got(2);
  spawn(2, [&](Communicator& comm) {
    const Tensor x = full({5}, double(comm.rank() + 1), {.device = Device::simt()});
    comm.all_reduce(x);
    got[size_t(comm.rank())] = values(x);
  });
  for (const Values& v : got) CHECK(v == Values(5, 3));
}
