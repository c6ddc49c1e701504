// What each rank of a job runs: hidden cases that tests/dist/mpi/mpi_test.sh starts under mpirun,
// and tests/dist/tcp/tcp_test.sh as processes of their own.
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "warptape/autograd/ops.h"
#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/core/files/crc32c.h"
#include "warptape/core/mode.h"
#include "warptape/core/tensor_impl.h"
#include "warptape/dist/init.h"
#include "warptape/dist/launcher.h"
#include "warptape/tests/dist/data_parallel/data_parallel_ranks.h"
#include "warptape/tests/optim/devices.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/values.h"

using namespace wt;
using namespace std::chrono_literals;
using dist::ReduceOp;

namespace {

// One job, one world: the cases take it in turns.
dist::Communicator& world() {
  static const std::unique_ptr<dist::Communicator> comm = dist::init({.deadline = 60s});
  return *comm;
}

// All in the blocks that begin a call, trees, rings; and of several messages a part.
constexpr i64 kSizes[] = {0, 1, 2, 3, 7, 28, 29, 255, 1023, 20011};
constexpr i64 kLarge = 700001;

// Element i of rank r: whole numbers whose sums every dtype holds, or any.
double value(int rank, i64 i, DType t) {
  if (t == DType::boolean) return double((i * 7 + rank * 3) % 5 != 0);
  return double((i * 31 + rank * 17) % 23) - (t == DType::u8 ? 0 : 11);
}

Tensor make(int rank, i64 n, DType t, Device d) {
  std::vector<double> v(static_cast<size_t>(n));
  for (i64 i = 0; i < n; ++i) v[size_t(i)] = value(rank, i, t);
  return tensor(v, {.dtype = wt::f64}).to(t).to(d);
}

double reduced(ReduceOp op, int ranks, i64 i, DType t) {
  double r = value(0, i, t);
  for (int k = 1; k < ranks; ++k) {
    const double v = value(k, i, t);
    r = op == ReduceOp::min ? std::min(r, v) : op == ReduceOp::max ? std::max(r, v) : r + v;
  }
  return op == ReduceOp::mean ? r / ranks : r;
}

// The mean of whole numbers rounds once: in the sum's precision, then to the tensor's.
double rounded(double v, DType t) {
  if (is_half(t)) return tensor(Scalar(double(float(v))), {.dtype = t}).item<double>();
  return t == wt::f32 ? double(float(v)) : v;
}

// How many elements differ from what they should be.
template <class F>
i64 wrong(const Tensor& t, F should) {
  const Values v = values(t.to(Device::cpu()).to(wt::f64));
  i64 bad = 0;
  for (size_t i = 0; i < v.size(); ++i) bad += !(v[i] == should(i64(i)));
  return bad;
}

u32 crc_of(const Tensor& t) {
  return crc32c(t.impl()->data, size_t(t.numel() * item_size(t.dtype())));
}

bool same_everywhere(dist::Communicator& comm, const Tensor& t) {
  const Tensor mine = full({1}, i64(crc_of(t)));
  const Tensor all = zeros({comm.size()}, {.dtype = DType::i64});
  comm.all_gather(all, mine);
  for (const double v : values(all))
    if (v != double(crc_of(t))) return false;
  return true;
}

std::vector<ReduceOp> ops_of(DType t) {
  if (t == DType::boolean) return {ReduceOp::min, ReduceOp::max};
  if (!is_floating(t)) return {ReduceOp::sum, ReduceOp::min, ReduceOp::max};
  return {ReduceOp::sum, ReduceOp::mean, ReduceOp::min, ReduceOp::max};
}

constexpr DType kComputing[] = {wt::f64,    wt::f32,    wt::f16,   wt::bf16,
                                DType::i64, DType::i32, DType::u8, DType::boolean};

}  // namespace

TEST_CASE("ranks: reductions", "[.][rank_values]") {
  dist::Communicator& comm = world();
  const int n = comm.size(), rank = comm.rank();
  for (const DType t : kComputing) {
    std::vector<i64> sizes(std::begin(kSizes), std::end(kSizes));
    if (t == wt::f32 || t == wt::bf16 || t == DType::boolean) sizes.push_back(kLarge);
    for (const i64 size : sizes)
      for (const ReduceOp op : ops_of(t)) {
        const bool sums = t != DType::boolean;
        if (size == kLarge && op != (sums ? ReduceOp::sum : ReduceOp::max)) continue;
        INFO(dtype_name(t) << " x " << size << " " << to_string(op));
        const Device d = size % 2 ? Device::cpu() : Device::simt();
        const auto should = [&](i64 i) { return rounded(reduced(op, n, i, t), t); };
        const Tensor all = make(rank, size, t, d);
        comm.all_reduce(all, op);
        CHECK(wrong(all, should) == 0);
        CHECK(same_everywhere(comm, all));
        const Tensor part = zeros({size}, {.dtype = t, .device = d});
        comm.reduce_scatter(part, make(rank, size * n, t, d), op);
        CHECK(wrong(part, [&](i64 i) { return should(i + rank * size); }) == 0);
      }
  }
}

TEST_CASE("ranks: copies", "[.][rank_values]") {
  dist::Communicator& comm = world();
  const int n = comm.size(), rank = comm.rank();
  for (int k = 0; k < kNumDTypes; ++k)
    for (const i64 size : kSizes) {
      const DType t = DType(k);
      if (t == DType::f8_e4m3 || t == DType::f8_e5m2) continue;  // moved as u8 is
      INFO(dtype_name(t) << " x " << size);
      const Tensor all = zeros({size * n}, {.dtype = t});
      comm.all_gather(all, make(rank, size, t, Device::cpu()));
      Tensor whole = make(0, size, t, Device::cpu());
      for (int r = 1; r < n; ++r) whole = cat({whole, make(r, size, t, Device::cpu())}, 0);
      CHECK(crc_of(all) == crc_of(whole));
      // `in` is its own part of `out`.
      const Tensor own = zeros({size * n}, {.dtype = t});
      Tensor mine = own.narrow(0, rank * size, size);
      mine.copy_(make(rank, size, t, Device::cpu()));
      comm.all_gather(own, mine);
      CHECK(crc_of(own) == crc_of(whole));
      for (int root = 0; root < n && size < 5000; ++root) {
        const Tensor b = make(rank, size, t, Device::cpu());
        comm.broadcast(b, root);
        CHECK(crc_of(b) == crc_of(make(root, size, t, Device::cpu())));
      }
    }
}

TEST_CASE("ranks: a large broadcast from every rank", "[.][rank_values]") {
  dist::Communicator& comm = world();
  for (int root = 0; root < comm.size(); ++root) {
    const Tensor b = make(comm.rank(), kLarge, wt::f32, Device::cpu());
    comm.broadcast(b, root);
    CHECK(crc_of(b) == crc_of(make(root, kLarge, wt::f32, Device::cpu())));
  }
}

TEST_CASE("ranks: sums that round have the same bits everywhere", "[.][rank_values]") {
  dist::Communicator& comm = world();
  for (const DType t : {wt::f64, wt::f32, wt::f16, wt::bf16})
    for (const i64 size : {5, 40, 1000, 16385, 140001}) {
      INFO(dtype_name(t) << " x " << size);
      std::vector<double> v(static_cast<size_t>(size)), sum(v), scale(v);
      for (int r = 0; r < comm.size(); ++r)
        for (i64 i = 0; i < size; ++i) {
          const double x = rounded(std::sin(double(i * 7 + r * 1001)), t);
          if (r == comm.rank()) v[size_t(i)] = x;
          sum[size_t(i)] += x;
          scale[size_t(i)] += std::abs(x);
        }
      const Tensor a = tensor(v, {.dtype = wt::f64}).to(t), b = a.clone();
      comm.all_reduce(a);
      comm.all_reduce(b);
      CHECK(crc_of(a) == crc_of(b));
      CHECK(same_everywhere(comm, a));
      // A rounding an addition, in the dtype that sums are made in; and one at the end.
      const double eps = t == wt::f64 ? 0x1p-53 : 0x1p-24;
      const double end = t == wt::f16 ? 0x1p-11 : t == wt::bf16 ? 0x1p-8 : 0;
      const Values got = values(a.to(wt::f64));
      i64 bad = 0;
      for (size_t i = 0; i < got.size(); ++i)
        bad += !(std::abs(got[i] - sum[i]) <=
                 comm.size() * eps * scale[i] + end * std::abs(sum[i]) * 1.001 + 0x1p-25);
      CHECK(bad == 0);
    }
}

TEST_CASE("ranks: NaN and inf go through", "[.][rank_values]") {
  dist::Communicator& comm = world();
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean, ReduceOp::min, ReduceOp::max})
    for (const i64 size : {3, 100000}) {
      const Tensor t = full({size}, double(comm.rank()));
      if (comm.rank() == comm.size() - 1) t.mutable_data<float>()[1] = NAN;
      comm.all_reduce(t, op);
      CHECK(std::isnan(t.data<float>()[1]));
      CHECK(!std::isnan(t.data<float>()[0]));
    }
}

TEST_CASE("ranks: letters", "[.][rank_values]") {
  dist::Communicator& comm = world();
  const int n = comm.size(), next = (comm.rank() + 1) % n, before = (comm.rank() + n - 1) % n;
  if (n == 1) SKIP_TEST("one rank");
  // All send before any receives: a send waits for nobody.
  for (const i64 size : {0, 1, 1000, 300001}) {
    comm.send(make(comm.rank(), size, wt::f32, Device::cpu()), next);
    comm.send(make(comm.rank(), size, DType::u8, Device::cpu()), next);
    const Tensor a = zeros({size}), b = zeros({size}, {.dtype = DType::u8});
    comm.recv(a, before);
    comm.recv(b, before);
    CHECK(crc_of(a) == crc_of(make(before, size, wt::f32, Device::cpu())));
    CHECK(crc_of(b) == crc_of(make(before, size, DType::u8, Device::cpu())));
  }
  // A large one on its way while its sender has nothing else to do.
  if (comm.rank() == 0) comm.send(make(0, 1000001, wt::f64, Device::cpu()), n - 1);
  if (comm.rank() == n - 1) {
    std::this_thread::sleep_for(20ms);
    const Tensor big = zeros({1000001}, {.dtype = wt::f64});
    comm.recv(big, 0);
    CHECK(crc_of(big) == crc_of(make(0, 1000001, wt::f64, Device::cpu())));
  }
  comm.barrier();
}

TEST_CASE("ranks: what was begun runs in its order", "[.][rank_values]") {
  dist::Communicator& comm = world();
  std::vector<Tensor> t;
  std::vector<dist::Work> w;
  for (int i = 0; i < 50; ++i) {
    t.push_back(full({i % 2 ? 20000 : 3}, double(i + comm.rank())));
    w.push_back(comm.start_all_reduce(t.back(), i % 3 ? ReduceOp::max : ReduceOp::sum));
  }
  w.back().wait();
  const int n = comm.size();
  for (int i = 0; i < 50; ++i) {
    CHECK(w[size_t(i)].done());
    const double should = i % 3 ? i + n - 1 : i * n + n * (n - 1) / 2;
    CHECK(wrong(t[size_t(i)], [&](i64) { return should; }) == 0);
  }
}

TEST_CASE("ranks: groups", "[.][rank_values]") {
  dist::Communicator& comm = world();
  const int n = comm.size(), rank = comm.rank();
  for (int i = 0; i < 3; ++i) {
    const auto half = comm.split(rank % 2, -rank);
    const int size = (n + 1 - rank % 2) / 2;
    CHECK(half->size() == size);
    CHECK(half->rank() == size - 1 - rank / 2);
    CHECK(half->deadline() == comm.deadline());
    double sum = 0;
    for (int r = rank % 2; r < n; r += 2) sum += r;
    // Calls of a group beside those of all.
    const Tensor own = full({70000}, double(rank)), all = full({5}, 1.0);
    const dist::Work both[] = {half->start_all_reduce(own), comm.start_all_reduce(all)};
    both[1].wait();
    both[0].wait();
    CHECK(wrong(own, [&](i64) { return sum; }) == 0);
    CHECK(wrong(all, [&](i64) { return n; }) == 0);
  }
  CHECK((comm.split(rank == 0 ? -1 : 0) == nullptr) == (rank == 0));
  const auto all = comm.split(0), alone = all->split(rank);
  CHECK(all->rank() == rank);
  CHECK(alone->size() == 1);
  alone->barrier();
}

TEST_CASE("ranks: arguments", "[.][rank_values]") {
  dist::Communicator& comm = world();
  CHECK(std::string(comm.backend()) == (dist::launched_by_mpi() ? "mpi" : "tcp"));
  CHECK(&comm.control() == &comm);
  const Tensor t = zeros({4});
  CHECK_THROWS_AS(comm.broadcast(t, comm.size()), UsageError);
  CHECK_THROWS_AS(comm.send(t, comm.rank()), UsageError);
  CHECK_THROWS_AS(comm.all_reduce(Tensor()), UsageError);
  CHECK_THROWS_AS(comm.set_deadline(0ms), UsageError);
  CHECK_THROWS_AS(dist::init({.deadline = 0ms}), UsageError);
  comm.barrier();  // no refused call was counted
}

TEST_CASE("ranks: captured steps have the bits of eager ones", "[.][rank_values]") {
  NEEDS_OPERATORS(Device::simt());
  const Device d = ready(Device::simt());
  dist::Communicator& comm = world();
  const auto train = [&](bool graph) {
    manual_seed(7);
    wt_test::Mlp net;
    net.to(d);
    optim::AdamW opt{net, {.lr = 0.02}};
    dist::DataParallel ddp{
        net,
        opt,
        comm,
        {.bucket_bytes = 256, .first_bucket_bytes = 64, .unused = dist::Unused::fixed}};
    TrainStep step{net, opt, {.clip_norm = 1, .graph = graph, .reducer = &ddp}};
    for (int i = 0; i < 6; ++i) {
      const wt_test::Batch b =
          wt_test::part_of(wt_test::Mlp::data(3 * comm.size(), i), comm.rank(), comm.size());
      step(wt_test::Batch{b.x.to(d), b.y.to(d)},
           [&](const wt_test::Batch& p) { return wt_test::squares(net, p); });
    }
    CHECK(step.why_eager() == "");
    CHECK(step.captures() == (graph ? 1 : 0));
    return wt_test::weights_of(net);
  };
  const wt_test::Weights eager = train(false);
  CHECK(train(true) == eager);
}
