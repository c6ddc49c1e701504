// The backend tcp: what it computes, and what ends it. Worlds that do not come together:
// tcp_rendezvous_test.cpp; processes: tcp_test.sh.
#include "warptape/core/factories.h"
#include "warptape/core/mode.h"
#include "warptape/dist/data_parallel.h"
#include "warptape/dist/spawn.h"
#include "warptape/tests/dist/data_parallel/data_parallel_ranks.h"
#include "warptape/tests/dist/expect.h"
#include "warptape/tests/dist/tcp/tcp_threads.h"
#include "warptape/tests/support/values.h"

using namespace wt;
using namespace wt_test;
using namespace std::chrono_literals;
using dist::Communicator;
using dist::ReduceOp;

TEST_CASE("tcp: every collective") {
  Expect expect;
  check_quiet(tcp_ranks(3, 60s, [&](Communicator& comm) {
    const int r = comm.rank();
    expect(std::string(comm.backend()) == "tcp" && &comm.control() == &comm, "backend");
    // In the blocks, by trees and by rings; the last in several parts.
    for (const i64 n : {0, 1, 40, 3000, 60000, 700001}) {
      const Tensor sum = full({n}, double(r + 1));
      comm.all_reduce(sum);
      expect(values(sum) == Values(size_t(n), 6), str("all_reduce of ", n));
      const Tensor part = zeros({n}), all = zeros({3 * n});
      comm.reduce_scatter(part, full({3 * n}, double(r)), ReduceOp::mean);
      expect(values(part) == Values(size_t(n), 1), str("reduce_scatter of ", n));
      comm.all_gather(all, full({n}, double(r)));
      Values should(size_t(n), 0);
      should.insert(should.end(), size_t(n), 1);
      should.insert(should.end(), size_t(n), 2);
      expect(values(all) == should, str("all_gather of ", n));
      for (int root = 0; root < 3; ++root) {
        const Tensor t = full({n}, double(r));
        comm.broadcast(t, root);
        expect(values(t) == Values(size_t(n), root), str("broadcast of ", n));
      }
    }
    comm.barrier();
  }));
  expect.report();
}

TEST_CASE("tcp: letters beside collectives") {
  Expect expect;
  check_quiet(tcp_ranks(3, 60s, [&](Communicator& comm) {
    const int r = comm.rank(), next = (r + 1) % 3, before = (r + 2) % 3;
    for (const i64 n : {0, 5, 900001}) {
      // All send before any receives, and meet in a collective meanwhile.
      comm.send(full({n}, double(r)), next);
      comm.send(full({2}, double(10 * r)), next);
      comm.barrier();
      const Tensor large = zeros({n}), small = zeros({2});
      comm.recv(large, before);
      comm.recv(small, before);
      expect(values(large) == Values(size_t(n), before), "the first letter");
      expect(values(small) == Values{10.0 * before, 10.0 * before}, "the second one");
    }
  }));
  expect.report();
}

TEST_CASE("tcp: what was begun runs in its order, beside the rank") {
  Expect expect;
  check_quiet(tcp_ranks(2, 60s, [&](Communicator& comm) {
    std::vector<Tensor> t;
    std::vector<dist::Work> w;
    for (int i = 0; i < 30; ++i) {
      t.push_back(full({i % 2 ? 40000 : 3}, double(i + comm.rank())));
      w.push_back(comm.start_all_reduce(t.back(), i % 3 ? ReduceOp::max : ReduceOp::sum));
    }
    w.back().wait();
    for (int i = 0; i < 30; ++i)
      expect(w[size_t(i)].done() && t[size_t(i)][2].item<double>() == (i % 3 ? i + 1 : 2 * i + 1),
             str("call ", i));
  }));
  expect.report();
}

TEST_CASE("tcp: groups, and groups of groups") {
  Expect expect;
  check_quiet(tcp_ranks(4, 60s, [&](Communicator& comm) {
    const int r = comm.rank();
    for (int i = 0; i < 3; ++i) {
      const auto half = comm.split(r % 2, -r);
      expect(half->size() == 2 && half->rank() == (r < 2 ? 1 : 0), "place");
      expect(std::string(half->backend()) == "tcp" && half->deadline() == 60s, "as its parent");
      const Tensor own = full({70000}, double(r)), all = full({5}, 1.0);
      const dist::Work both[] = {half->start_all_reduce(own), comm.start_all_reduce(all)};
      both[1].wait();
      both[0].wait();
      expect(own[69999].item<double>() == (r % 2 ? 4 : 2), "the group's sum");
      expect(all[0].item<double>() == 4, "the sum of all");
    }
    expect((comm.split(r == 0 ? -1 : 0) == nullptr) == (r == 0), "no color");
    const auto all = comm.split(0), pair = all->split(r / 2);
    pair->barrier();
    expect(all->rank() == r && pair->size() == 2, "of a group");
  }));
  expect.report();
}

TEST_CASE("tcp: a world of one needs no address") {
  const auto comm = dist::tcp_world({.rank = 0, .world_size = 1});
  const Tensor t = full({3}, 2.0);
  comm->all_reduce(t, ReduceOp::mean);
  CHECK(values(t) == Values{2, 2, 2});
  comm->barrier();
  CHECK(comm->split(0)->size() == 1);
}

TEST_CASE("tcp: several worlds at once, and one after the other at one port") {
  Expect expect;
  const std::string address = loopback(free_port());
  const auto options = [&](int r) {
    return dist::TcpOptions{.rank = r, .world_size = 2, .address = address, .deadline = 60s};
  };
  for (int i = 0; i < 3; ++i)
    check_quiet(tcp_ranks(2, options, [&](Communicator& comm) {
      auto more = options(comm.rank());
      const auto second = dist::tcp_world(more);  // the port is free again
      const Tensor t = full({1}, double(comm.rank()));
      second->all_reduce(t);
      comm.all_reduce(t);
      expect(t.item<double>() == 2, "sum");
    }));
  expect.report();
}

TEST_CASE("tcp: a step of DataParallel has the bits of a step over local ranks") {
  const auto train = [](Communicator& comm) {
    manual_seed(7);
    Mlp net;
    optim::AdamW opt{net, {.lr = 0.02}};
    dist::DataParallel ddp{net, opt, comm, {.bucket_bytes = 256, .first_bucket_bytes = 64}};
    TrainStep step{net, opt, {.clip_norm = 1, .reducer = &ddp}};
    for (int i = 0; i < 4; ++i)
      step(part_of(Mlp::data(6, i), comm.rank(), 2),
           [&](const Batch& b) { return squares(net, b); });
    ddp.check_replicas();
    return weights_of(net);
  };
  Weights over_tcp[2], over_threads[2];
  check_quiet(tcp_ranks(2, 60s, [&](Communicator& comm) { over_tcp[comm.rank()] = train(comm); }));
  dist::spawn(2, [&](Communicator& comm) { over_threads[comm.rank()] = train(comm); });
  CHECK(!over_tcp[0].empty());
  CHECK(over_tcp[0] == over_tcp[1]);
  CHECK(over_tcp[0] == over_threads[0]);  // of two ranks there is one order to add in
}

TEST_CASE("tcp: who ends, gives up or calls something else is named to all") {
  struct Broken {};
  const auto ends = [](int who, const std::function<void(Communicator&)>& instead) {
    return tcp_ranks(3, 60s, [&](Communicator& comm) {
      for (int step = 0; step < 6; ++step) {
        comm.at_step(step);
        if (step == 3 && comm.rank() == who) return instead(comm);
        comm.all_reduce(zeros({step % 2 ? 300000 : 100}));
      }
    });
  };
  const auto check = [](const std::vector<TcpEnd>& ends, int who, bool itself,
                        const std::string& text) {
    for (int r = 0; r < 3; ++r) {
      if (r == who && !itself) continue;
      const TcpEnd& e = ends[size_t(r)];
      INFO("rank " << r << ": " << e.text);
      CHECK(e.rank == who);
      CHECK(e.exit_code == 7);
      CHECK(e.step == 3);
      CHECK(e.text.find(text) != std::string::npos);
    }
  };
  for (const int who : {0, 2}) {
    check(ends(who, [](Communicator&) {}), who, false, "has left");
    check(ends(who, [](Communicator&) { throw DataError("a torn page"); }), who, false,
          "gave up: ended by an exception");
    check(ends(who,
               [](Communicator& c) {
                 c.abort("no more disk");
                 c.barrier();
               }),
          who, true, "gave up: no more disk");
    check(ends(who, [](Communicator& c) { c.all_reduce(zeros({99})); }), who, true,
          "called all_reduce (sum) of 99 f32 where rank ");
  }
}

TEST_CASE("tcp: a rank that does not come to a call is named at the deadline") {
  const auto ends = tcp_ranks(3, 60s, [](Communicator& comm) {
    comm.barrier();
    comm.set_deadline(400ms);
    comm.at_step(5);
    if (comm.rank() == 1)
      while (!comm.failed()) std::this_thread::sleep_for(1ms);
    comm.barrier();
  });
  for (const TcpEnd& e : ends) {
    INFO(e.text);
    CHECK(e.rank == 1);
    CHECK(e.text.find("did not come to barrier (collective 2) within 400 ms") != std::string::npos);
  }
}

TEST_CASE("tcp: a rank that ends while others are in a split") {
  const auto ends = tcp_ranks(3, 60s, [](Communicator& comm) {
    comm.barrier();
    if (comm.rank() == 1) throw DataError("a torn page");
    comm.split(0);
  });
  CHECK(ends[0].rank == 1);
  CHECK(ends[2].rank == 1);
  CHECK(ends[2].text.find("gave up: ended by an exception") != std::string::npos);
}
