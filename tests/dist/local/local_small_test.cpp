// Small collectives, which one rank carries out for all: the bits of the tree they stand for; and
// which calls say that they are waited for.
#include "warptape/dist/local/local_small.h"

#include "warptape/tests/dist/expect.h"
#include "warptape/tests/dist/on_ranks.h"

using namespace wt;
using namespace wt::dist;
using namespace wt_test;

namespace {

constexpr DType kDtypes[] = {f64, f32, f16, bf16, DType::i64, DType::i32, DType::u8};

// Numbers whose sums round, so that another order has other bits.
Tensor rough(DType t, int rank, i64 n) {
  Values v;
  for (i64 i = 0; i < n; ++i) v.push_back(double((i * 37 + rank * 101) % 997) / 7);
  return tensor(v).to(t);
}

// The bytes that each collective leaves on each rank, one after the other.
std::vector<std::vector<unsigned char>> results(int ranks, Algorithm a, DType t, i64 n) {
  std::vector<std::vector<unsigned char>> all(static_cast<size_t>(ranks));
  spawn(ranks,
        [&](Communicator& comm) {
          std::vector<unsigned char>& mine = all[size_t(comm.rank())];
          const auto keep = [&](const Tensor& r) {
            const auto bytes = bytes_in(r);
            mine.insert(mine.end(), bytes.begin(), bytes.end());
          };
          const Tensor part = rough(t, comm.rank(), n), whole = rough(t, comm.rank(), n * ranks);
          const Tensor out_part = empty({n}, {.dtype = t}),
                       out_whole = empty({n * ranks}, {.dtype = t});
          for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean, ReduceOp::min, ReduceOp::max}) {
            if (op == ReduceOp::mean && !is_floating(t)) continue;
            const Tensor in_place = whole.clone();
            comm.all_reduce(in_place, op), keep(in_place);
            comm.reduce_scatter(out_part, whole, op), keep(out_part);
          }
          comm.all_gather(out_whole, part), keep(out_whole);
          const Tensor own = out_whole.narrow(0, n * comm.rank(), n);  // its part is there already
          comm.all_gather(out_whole, own), keep(out_whole);
          const Tensor given = part.clone();
          comm.broadcast(given, ranks - 1), keep(given);
          comm.barrier();
        },
        {.local = {.algorithm = a}});
  return all;
}

// Writes down which calls its backend was told to be waited for.
class Listening : public Communicator {
 public:
  explicit Listening(std::vector<bool>& waited) : Communicator(0, 1), waited_(waited) {}
  const char* backend() const override { return "listening"; }
  bool takes(Device) const override { return true; }
  Communicator& control() override { return *this; }
  void at_step(i64) override {}
  void abort(const std::string&) noexcept override {}
  Work start(const Call& call) override {
    waited_.push_back(call.waited);
    return {};
  }

 private:
  std::vector<bool>& waited_;
};

}  // namespace

TEST_CASE("a small collective of local ranks has the bits of the tree") {
  const int ranks = GENERATE(2, 3, 4, 5, 8);
  for (const DType t : kDtypes)
    for (const i64 n : {0, 1, 3, 129}) {
      INFO(ranks << " ranks, " << dtype_name(t) << ", " << n);
      const auto tree = results(ranks, Algorithm::tree, t, n);
      CHECK((results(ranks, Algorithm::automatic, t, n) == tree));  // not printed: it is long
      CHECK((n == 0 || !tree[0].empty()));
    }
}

TEST_CASE("what is small is a matter of the larger tensor, and of bytes") {
  const i64 most = local::kTreeBytes / 4;
  const auto call = [](Call::Kind k, i64 in, i64 out) {
    Call c;
    c.kind = k, c.in = zeros({in}), c.out = zeros({out});
    return c;
  };
  CHECK(local::is_small(call(Call::Kind::all_reduce, most, most)));
  CHECK_FALSE(local::is_small(call(Call::Kind::all_reduce, most + 1, most + 1)));
  CHECK_FALSE(local::is_small(call(Call::Kind::all_gather, most / 2 + 1, most + 2)));
  CHECK_FALSE(local::is_small(call(Call::Kind::reduce_scatter, most + 2, most / 2 + 1)));
  CHECK(local::is_small(Call()));  // a barrier
}

TEST_CASE("calls that are waited for say so, those that are begun do not") {
  std::vector<bool> waited;
  Listening comm(waited);
  const Tensor t = zeros({4});
  comm.all_reduce(t), comm.reduce_scatter(t, t), comm.all_gather(t, t), comm.broadcast(t);
  comm.barrier();
  CHECK(waited == std::vector<bool>(5, true));
  waited.clear();
  comm.start_all_reduce(t), comm.start_reduce_scatter(t, t), comm.start_all_gather(t, t);
  comm.start_broadcast(t);
  CHECK(waited == std::vector<bool>(4, false));
}

TEST_CASE("what is waited for comes after what was begun, on however idle a communicator") {
  Expect expect;
  spawn(3, [&](Communicator& comm) {
    for (int i = 0; i < 200; ++i) {
      // Large enough to be under way still when the small one is called.
      const Tensor large = ones({i % 4 ? i64{1} : i64{20000}}), small = ones({1});
      const Work begun = comm.start_all_reduce(large);
      comm.all_reduce(small);
      expect(begun.done(), "the call that was begun first has ended");
      begun.wait();
      expect(small.item<float>() == 3 && large.sum().item<float>() == 3.0F * float(large.numel()),
             "their sums");
    }
  });
  expect.report();
}
