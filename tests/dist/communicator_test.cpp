// What every backend's calls refuse, in which words; shown by local ranks.
#include "warptape/dist/communicator.h"

#include "warptape/core/mode.h"
#include "warptape/tests/dist/on_ranks.h"

using namespace wt;
using namespace wt::dist;
using namespace wt_test;

namespace {

// What each of two ranks throws.
void check_refused(const std::function<void(Communicator&)>& call, const std::string& text) {
  std::vector<std::string> said(2);
  spawn(2, [&](Communicator& comm) {
    said[size_t(comm.rank())] = message_of([&] { call(comm); });
    comm.barrier();  // a refused call was none
  });
  for (const std::string& s : said) CHECK(mentions(s, text));
}

}  // namespace

TEST_CASE("collectives refuse tensors that cannot be sent") {
  check_refused([](Communicator& c) { c.all_reduce(Tensor()); },
                "UsageError: [all_reduce] in is undefined");
  check_refused([](Communicator& c) { c.all_gather(Tensor(), ones({2})); },
                "UsageError: [all_gather] out is undefined");
  check_refused(
      [](Communicator& c) {
        c.all_reduce(ones({2, 3}).t());
      },
      "UsageError: [all_reduce] in must be contiguous: [3, 2] f32 cpu\n  Try a "
      "contiguous() copy of it");
  check_refused([](Communicator& c) { c.broadcast(ones({2}, {.device = Device::meta()})); },
                "PlacementError: [broadcast] in is on meta:cpu, whose memory the backend local "
                "does not send");
  check_refused(
      [](Communicator& c) {
        const Tensor x = Tensor(ones({2})).set_requires_grad();
        c.all_reduce(x);
      },
      "InplaceError: [all_reduce] out requires grad, and what other ranks write is not recorded");
}

TEST_CASE("a tensor that requires grad is taken under NoGrad, and counts as written") {
  std::vector<Values> got(2);
  u32 writes = 0;
  spawn(2, [&](Communicator& comm) {
    const Tensor x = Tensor(ones({2})).set_requires_grad();
    const u32 before = x.version();
    const NoGrad no_grad;
    comm.all_reduce(x);
    got[size_t(comm.rank())] = values(x);
    if (comm.rank() == 0) writes = x.version() - before;
  });
  for (const Values& v : got) CHECK(v == Values{2, 2});
  CHECK(writes == 1);
}

TEST_CASE("collectives refuse what has no such reduction") {
  check_refused([](Communicator& c) { c.all_reduce(ones({2}, {.dtype = DType::boolean})); },
                "DtypeError: [all_reduce] there is no sum of bool");
  check_refused(
      [](Communicator& c) { c.all_reduce(ones({2}, {.dtype = DType::i64}), ReduceOp::mean); },
      "DtypeError: [all_reduce] there is no mean of i64");
  check_refused(
      [](Communicator& c) {
        const Tensor x = empty({2}, {.dtype = DType::i8});
        c.all_reduce(x, ReduceOp::max);
      },
      "DtypeError: [all_reduce] there is no max of i8");
}

TEST_CASE("collectives refuse sizes and ranks that do not fit") {
  check_refused([](Communicator& c) { c.all_gather(ones({5}), ones({3})); },
                "ShapeError: [all_gather] the larger tensor must have 2 times the elements of the "
                "other one, a part a rank: 5 beside 3");
  check_refused([](Communicator& c) { c.reduce_scatter(ones({3}), ones({3})); },
                "ShapeError: [reduce_scatter] the larger tensor must have 2 times");
  check_refused([](Communicator& c) { c.all_gather(ones({2}, {.dtype = f64}), ones({1})); },
                "DtypeError: [all_gather] in and out must be of one dtype and device: [1] f32 cpu, "
                "[2] f64 cpu");
  check_refused([](Communicator& c) { c.broadcast(ones({1}), 2); },
                "UsageError: [broadcast] root must be a rank from 0 to 1, got 2");
  check_refused([](Communicator& c) { c.send(ones({1}), -1); },
                "UsageError: [send] to must be a rank from 0 to 1, got -1");
  check_refused([](Communicator& c) { c.recv(ones({1}), c.rank()); }, "UsageError: [recv] rank ");
  check_refused([](Communicator& c) { c.send(ones({1}), c.rank()); },
                "cannot exchange a tensor with itself");
  check_refused([](Communicator& c) { c.set_deadline(std::chrono::milliseconds(0)); },
                "UsageError: [set_deadline] must be at least 1 ms, got 0 ms");
}

TEST_CASE("local worlds refuse options that make no sense") {
  CHECK(mentions(message_of([] { local_world(0); }),
                 "UsageError: [local_world] must have at least 1 rank, got 0"));
  CHECK(mentions(message_of([] { local_world(2, {.latency = std::chrono::nanoseconds(-5)}); }),
                 "[local_world] latency must be at least 0, got -5 ns"));
  CHECK(mentions(message_of([] { local_world(2, {.bandwidth = -1}); }),
                 "[local_world] bandwidth must be at least 0 bytes a second, got -1"));
}

TEST_CASE("a local communicator says what it is") {
  const auto world = local_world(3);
  for (int r = 0; r < 3; ++r) {
    Communicator& c = *world[size_t(r)];
    CHECK(c.rank() == r);
    CHECK(c.size() == 3);
    CHECK(c.backend() == std::string("local"));
    CHECK(&c.control() == &c);
    CHECK(c.takes(Device::cpu()));
    CHECK(c.takes(Device::simt()));
    CHECK(!c.takes(Device::cuda()));
    CHECK(!c.failed());
    CHECK(c.deadline() == std::chrono::seconds(120));
  }
}
