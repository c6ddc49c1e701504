// The nccl backend: values of every kind of call, and the order of streams, events and groups.
#include "warptape/core/graph.h"
#include "warptape/core/memory.h"
#include "warptape/core/memory/copy_bytes.h"
#include "warptape/core/stream.h"
#include "warptape/tests/dist/nccl/nccl_world.h"
#include "warptape/tests/support/ambient.h"
#include "warptape/tests/support/errors.h"

using namespace wt;
using namespace wt::dist;
using namespace wt_test;

namespace {

const std::vector<DType> kFloats = {f64, f32, f16, bf16};
using Strings = std::vector<std::string>;

// A world of one that asks NCCL all the same, on this thread.
struct One {
  NcclWorld world{1};
  std::shared_ptr<ThreadControl::World> threads = std::make_shared<ThreadControl::World>(1);
  ThreadControl control{threads, 0};
  std::unique_ptr<Communicator> comm =
      nccl_communicator(control, Device::cuda(0), {.always = true});
  Tensor t = on_device(*comm, {1, 2, 3});
  One() { world.nccl.take_journal(); }
  ~One() {
    comm.reset();
    world.check_clean();
  }
};

}  // namespace

TEST_CASE("nccl: reductions of every dtype and kind") {
  NcclWorld w;
  for (const int ranks : {2, 3})
    for (const DType t : {f64, f32, f16, bf16, DType::i64, DType::i32, DType::u8, DType::boolean})
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean, ReduceOp::min, ReduceOp::max}) {
        const bool sums = op == ReduceOp::sum || op == ReduceOp::mean;
        if ((t == DType::boolean && sums) || (op == ReduceOp::mean && !is_floating(t))) continue;
        CAPTURE(ranks, dtype_name(t), to_string(op));
        PerRank all(static_cast<size_t>(ranks)), part(all.size());
        const auto value = [&](int r, int i) {
          return t == DType::boolean ? double((r + i) % 2) : double((r + 1) * (i + 1));
        };
        check_quiet(w.run(ranks, [&](Communicator& c) {
          std::vector<double> v;
          for (int i = 0; i < 2 * ranks; ++i) v.push_back(value(c.rank(), i));
          const Tensor x = on_device(c, v, t), y = on_device(c, v, t),
                       out = on_device(c, {0, 0}, t);
          c.reduce_scatter(out, y, op);
          c.all_reduce(x, op);
          all[size_t(c.rank())] = back(x);
          part[size_t(c.rank())] = back(out);
        }));
        std::vector<double> expected;
        for (int i = 0; i < 2 * ranks; ++i) {
          double e = value(0, i);
          for (int r = 1; r < ranks; ++r) {
            const double v = value(r, i);
            e = op == ReduceOp::min ? std::min(e, v) : op == ReduceOp::max ? std::max(e, v) : e + v;
          }
          expected.push_back(op == ReduceOp::mean ? e / ranks : e);
        }
        for (size_t r = 0; r < all.size(); ++r) {
          CHECK(all[r] == expected);
          CHECK(part[r] == std::vector<double>{expected[2 * r], expected[2 * r + 1]});
        }
      }
  w.check_clean();
}

TEST_CASE("nccl: every dtype is gathered, broadcast and sent as it is") {
  NcclWorld w;
  for (int k = 0; k < kNumDTypes; ++k) {
    const DType t = DType(k);
    CAPTURE(dtype_name(t));
    PerRank gathered(3), given(3), received(3);
    check_quiet(w.run(3, [&](Communicator& c) {
      const double r = c.rank();
      const Tensor own = on_device(c, {r, 1, r > 0 ? 1. : 0.}, t);
      const Tensor all = empty({9}, {.dtype = t, .device = Device::cuda(c.rank())});
      c.all_gather(all, own);
      gathered[size_t(c.rank())] = back(all);
      if (c.rank() == 0) c.send(own, 2);
      const Tensor got = empty({3}, {.dtype = t, .device = Device::cuda(c.rank())});
      if (c.rank() == 2) c.recv(got, 0);
      if (c.rank() == 2) received[2] = back(got);
      c.broadcast(own, 1);
      given[size_t(c.rank())] = back(own);
    }));
    const double two = t == DType::boolean ? 1 : 2;
    for (int r = 0; r < 3; ++r) {
      CHECK(gathered[size_t(r)] == std::vector<double>{0, 1, 0, 1, 1, 1, two, 1, 1});
      CHECK(given[size_t(r)] == std::vector<double>{1, 1, 1});
    }
    CHECK(received[2] == std::vector<double>{0, 1, 0});
  }
  w.check_clean();
}

TEST_CASE("nccl: a rank's part of the whole may be where it belongs already") {
  NcclWorld w;
  PerRank all(2), part(2);
  check_quiet(w.run(2, [&](Communicator& c) {
    const double r = c.rank() + 1;
    const Tensor x = on_device(c, {r, r, r, r});
    c.all_gather(x, x.narrow(0, 2 * c.rank(), 2));
    all[size_t(c.rank())] = back(x);
    c.reduce_scatter(x.narrow(0, 2 * c.rank(), 2), x, ReduceOp::sum);
    part[size_t(c.rank())] = back(x.narrow(0, 2 * c.rank(), 2));
  }));
  CHECK(all == PerRank{{1, 1, 2, 2}, {1, 1, 2, 2}});
  CHECK(part == PerRank{{2, 2}, {4, 4}});
  w.check_clean();
}

TEST_CASE("nccl: a collective waits for the current stream, and the current stream for it") {
  One o;
  const Work work = o.comm->start_all_reduce(o.t);
  Strings journal = o.world.nccl.take_journal();
  REQUIRE(journal.size() == 4);
  const auto event = [](const std::string& record) {
    return record.substr(7, record.find(' ', 7) - 7);
  };
  const std::string begin = event(journal[0]), end = event(journal[3]);
  CHECK(begin != end);
  CHECK(journal == Strings{"record " + begin + " default", "s1 after " + begin,
                           "all_reduce f32 3 sum on s1", "record " + end + " s1"});
  work.wait();
  CHECK(o.world.nccl.take_journal() == Strings{"default after " + end});
  const Stream side(Device::cuda(0));
  {
    const StreamScope on(side);
    o.comm->all_reduce(o.t, ReduceOp::mean);
  }
  journal = o.world.nccl.take_journal();
  REQUIRE(journal.size() == 5);
  CHECK(mentions(journal[0], " s2"));
  CHECK(mentions(journal[1], "s1 after "));
  CHECK(journal[2] == "all_reduce f32 3 avg on s1");
  CHECK(mentions(journal[3], " s1"));
  CHECK(mentions(journal[4], "s2 after "));
}

TEST_CASE("nccl: a send and a receive are one group, begun by a wait") {
  NcclWorld w;
  PerRank got(2);
  std::vector<Strings> journals(2);
  check_quiet(w.run(2, [&](Communicator& c) {
    const Tensor own = on_device(c, {double(c.rank() + 5)}), other = on_device(c, {0});
    w.nccl.take_journal();
    const Work sent = c.start_send(own, 1 - c.rank());
    const Work received = c.start_recv(other, 1 - c.rank());
    const int begun = int(w.nccl.take_journal().size());
    received.wait();
    Strings journal = w.nccl.take_journal();
    journal.insert(journal.begin(), str(begun));
    sent.wait();
    journals[size_t(c.rank())] = journal;
    got[size_t(c.rank())] = back(other);
  }));
  CHECK(got == PerRank{{6}, {5}});
  for (size_t r = 0; r < 2; ++r) {
    Strings calls;  // events' numbers depend on the other rank
    for (const std::string& text : journals[r])
      calls.push_back(text.find(" after ") != text.npos  ? "after"
                      : text.find("record") != text.npos ? "record"
                                                         : text.substr(0, text.find(" on")));
    const std::string to = str(1 - r);
    CHECK(calls == Strings{"2", "after", "after", "group_start", "send f32 1 " + to,
                           "recv f32 1 " + to, "group_end", "record", "after"});
  }
  w.check_clean();
}

TEST_CASE("nccl: sends that nobody waits for begin with the next collective, done() or barrier") {
  NcclWorld w;
  std::vector<PerRank> got(4, PerRank(2));
  for (int way = 0; way < 4; ++way) {
    CAPTURE(way);
    check_quiet(w.run(2, [&](Communicator& c) {
      const Tensor own = on_device(c, {double(c.rank() + 5)}), other = on_device(c, {0});
      Work sent;
      if (c.rank() == 0) {
        sent = c.start_send(own, 1);
        if (way == 0) c.all_reduce(own);
        if (way == 1) sent.done();
        if (way == 2) c.barrier();
      } else {
        if (way == 0 || way == 2) {
          const Work received = c.start_recv(other, 0);
          if (way == 0) c.all_reduce(own);
          if (way == 2) c.barrier();
          received.wait();
        } else {
          c.recv(other, 0);
        }
        got[size_t(way)][1] = back(other);
      }
    }));
    CHECK(got[size_t(way)][1] == std::vector<double>{5});
  }
  w.check_clean();
}

TEST_CASE("nccl: the host goes on before the other rank has come, and done() tells") {
  NcclWorld w;
  std::atomic<bool> go{false};
  bool early = true, late = false;
  PerRank sums(2);
  check_quiet(w.run(2, [&](Communicator& c) {
    const Tensor t = on_device(c, {double(c.rank() + 1)});
    if (c.rank() == 1)
      while (!go) std::this_thread::yield();
    const Work work = c.start_all_reduce(t);
    if (c.rank() == 0) {
      early = work.done();
      work.wait();  // queued, no more
      early = early || work.done();
      go = true;
      while (!work.done()) std::this_thread::yield();
      late = true;
    } else {
      work.wait();
    }
    sums[size_t(c.rank())] = back(t);
  }));
  CHECK_FALSE(early);
  CHECK(late);
  CHECK(sums == PerRank{{3}, {3}});
  w.check_clean();
}

TEST_CASE("nccl: memory of a collective under way is not handed out again") {
  NcclWorld w;
  std::atomic<bool> go{false};
  bool same = true;
  check_quiet(w.run(2, [&](Communicator& c) {
    if (c.rank() == 1) {
      while (!go) std::this_thread::yield();
      c.all_reduce(on_device(c, std::vector<double>(5000, 1)));
      return;
    }
    Tensor t = on_device(c, std::vector<double>(5000, 1));
    const void* was = t.impl()->data;
    const Work work = c.start_all_reduce(t);
    t = Tensor();
    const Tensor next = empty({5000}, {.device = Device::cuda(0)});
    same = next.impl()->data == was;
    go = true;
    work.wait();
  }));
  CHECK_FALSE(same);
  w.check_clean();
}

TEST_CASE("nccl: nothing is asked of NCCL for tensors without elements") {
  One o;
  const Tensor none = empty({0}, {.device = Device::cuda(0)});
  o.comm->all_reduce(none);
  o.comm->reduce_scatter(none, none);
  o.comm->all_gather(none, none);
  o.comm->broadcast(none);
  CHECK(o.comm->start_all_reduce(none).done());
  CHECK(o.world.nccl.take_journal() == Strings{});
}

TEST_CASE("nccl: a world of one needs no library, no stream and no thread") {
  FakeCuda cuda;
  replace_nccl(nullptr, "there is none");
  {
    ThreadControl control(std::make_shared<ThreadControl::World>(1), 0);
    const auto comm = nccl_communicator(control, Device::cuda(0));
    const int streams = cuda.calls("make_stream");
    const Tensor t = on_device(*comm, {1, 2}), out = on_device(*comm, {0, 0});
    comm->all_reduce(t, ReduceOp::mean);
    CHECK(back(t) == std::vector<double>{1, 2});
    comm->reduce_scatter(out, t);
    CHECK(back(out) == std::vector<double>{1, 2});
    const Tensor again = on_device(*comm, {0, 0});
    comm->all_gather(again, t);
    CHECK(back(again) == std::vector<double>{1, 2});
    comm->broadcast(t);
    comm->barrier();
    CHECK(cuda.calls("make_stream") == streams);
    CHECK(describe_transport(*comm) == "NCCL: not needed by one rank");
    CHECK(message_of([&] { comm->send(t, 0); }) ==
          "UsageError: [send] rank 0 cannot exchange a tensor with itself");
  }
  restore_nccl();
  CHECK(cuda.violations() == Strings{});
}

TEST_CASE("nccl: barrier waits for the device, and SyncGuard knows") {
  NcclWorld w;
  std::vector<char> finished(2, 0), counted(2, 0);
  check_quiet(w.run(2, [&](Communicator& c) {
    const Tensor t = on_device(c, {1});
    const Work work = c.start_all_reduce(t);
    SyncGuard guard(OnSync::count);
    c.barrier();
    counted[size_t(c.rank())] = char(guard.count());
    finished[size_t(c.rank())] = work.done();
  }));
  CHECK(finished == std::vector<char>{1, 1});
  CHECK(counted == std::vector<char>{1, 1});
  w.check_clean();
}

TEST_CASE("nccl: calls that NCCL hands to a thread of its own are waited for") {
  NcclWorld w;
  w.nccl.call_polls = 3;
  PerRank sums(2);
  check_quiet(w.run(2, [&](Communicator& c) {
    const Tensor t = on_device(c, {double(c.rank())}), u = on_device(c, {2});
    c.all_reduce(t);
    const Work sent = c.start_send(t, 1 - c.rank()), got = c.start_recv(u, 1 - c.rank());
    got.wait();
    sums[size_t(c.rank())] = back(u);
  }));
  CHECK(sums == PerRank{{1}, {1}});
  w.check_clean();
}

TEST_CASE("nccl: collectives are nodes of a graph, and run with each replay") {
  NcclWorld w;
  PerRank sums(2);
  check_quiet(w.run(2, [&](Communicator& c) {
    const Device d = Device::cuda(c.rank());
    const Tensor t = on_device(c, {double(c.rank() + 1)}), u = on_device(c, {0}),
                 v = on_device(c, {7});
    Graph graph(d);
    const auto step = [&] {
      const Work reduced = c.start_all_reduce(t);
      const Work sent = c.start_send(v, 1 - c.rank()), got = c.start_recv(u, 1 - c.rank());
      reduced.wait();
      got.wait();
      sent.wait();
    };
    graph.warm_up(step);
    const u32 version = t.version();
    graph.capture(step);
    graph.replay();
    graph.replay();
    if (t.version() < version + 2) throw InternalError("a replay did not count as a write");
    c.barrier();
    sums[size_t(c.rank())] = back(t);
    if (back(u) != std::vector<double>{7}) throw InternalError("not received");
  }));
  CHECK(sums == PerRank{{12}, {12}});  // 3, 6, 12
  w.check_clean();
}

TEST_CASE("nccl: what a graph cannot hold is refused") {
  One o;
  Graph graph(Device::cuda(0));
  Work outside = o.comm->start_all_reduce(o.t), inside;
  const auto refused = [&](const std::function<void()>& f) {
    Graph g(Device::cuda(0));
    return message_of([&] { g.capture(f); });
  };
  CHECK(mentions(refused([&] { outside.wait(); }), "the call was begun outside of it"));
  CHECK(mentions(refused([&] { o.comm->barrier(); }), "the host waits for the device"));
  CHECK(mentions(refused([&] {
                   const Work w = o.comm->start_all_reduce(o.t);
                   w.wait();
                   w.done();
                 }),
                 "it asks the device"));
  graph.capture([&] {
    inside = o.comm->start_all_reduce(o.t);
    inside.wait();
  });
  CHECK(mentions(message_of([&] { inside.wait(); }), "was begun inside a graph, which has ended"));
  outside.wait();
}
