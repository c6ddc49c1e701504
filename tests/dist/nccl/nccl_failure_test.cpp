// The nccl backend when a rank is late, lost or wrong, and when NCCL does not come back.
#include <chrono>

#include "warptape/core/stream.h"
#include "warptape/dist/spawn.h"
#include "warptape/tests/dist/nccl/nccl_world.h"
#include "warptape/tests/support/ambient.h"
#include "warptape/tests/support/errors.h"

using namespace wt;
using namespace wt::dist;
using namespace wt_test;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

const NcclOptions kLong = {.deadline = seconds(60)};
// From here on a rank waits for so long: connecting had the other limit.
void hurry(Communicator& c) { c.set_deadline(milliseconds(150)); }

void all_failed(const std::vector<Ended>& ended, const std::string& text) {
  for (const Ended& o : ended) {
    CHECK(o.kind == "PeerFailure");
    CHECK(o.code == 7);
    CHECK(mentions(o.text, text));
  }
}
// Asks until the failure is there, which throws.
void until_failed(const Work& w) {
  for (;;) {
    w.done();
    std::this_thread::yield();
  }
}
void until_failed(Communicator& c) {
  while (!c.failed()) std::this_thread::yield();
  c.barrier();
}

}  // namespace

TEST_CASE("nccl: a rank that never calls is a PeerFailure on all, and NCCL is aborted") {
  NcclWorld w;
  const auto ended = w.run(3, [&](Communicator& c) {
    const Tensor t = on_device(c, {1, 2, 3});
    hurry(c);
    if (c.rank() == 1) until_failed(c);
    until_failed(c.start_all_reduce(t));
  });
  all_failed(ended, "all_reduce (sum) of 3 f32, has not finished within 0.15 s");
  CHECK(w.nccl.calls("comm_abort") == 3);
  CHECK(w.nccl.calls("comm_finalize") == 0);
  w.check_clean();
}

TEST_CASE("nccl: every call throws the failure, from the first time on") {
  NcclWorld w;
  std::vector<std::string> texts;
  w.run(2, [&](Communicator& c) {
    const Tensor t = on_device(c, {1});
    Work work;
    if (c.rank() == 0) work = c.start_all_reduce(t);
    c.control().barrier();
    if (c.rank() == 1) return c.abort("lost its disk");
    for (const std::function<void()>& f : std::vector<std::function<void()>>{
             [&] { until_failed(work); }, [&] { work.wait(); }, [&] { c.all_reduce(t); },
             [&] { c.start_send(t, 1); }, [&] { c.barrier(); }, [&] { c.broadcast(t); }})
      texts.push_back(message_of(f));
  });
  REQUIRE(texts.size() == 6);
  for (const std::string& text : texts) CHECK(text == "PeerFailure: rank 1 gave up: lost its disk");
  w.check_clean();
}

TEST_CASE("nccl: the clock runs when the device has nothing else to wait for") {
  NcclWorld w{1};
  ThreadControl control(std::make_shared<ThreadControl::World>(1), 0);
  const auto comm =
      nccl_communicator(control, Device::cuda(0), {.always = true, .deadline = milliseconds(30)});
  const Tensor t = on_device(*comm, {1});
  std::atomic<bool> stuck{true};
  w.cuda.queue(nullptr, [&] { return FakeCuda::Kernel{[] {}, [&] { return !stuck.load(); }}; });
  const Work work = comm->start_all_reduce(t);
  std::this_thread::sleep_for(milliseconds(120));  // four deadlines of work of this rank's own
  CHECK_FALSE(work.done());
  CHECK_FALSE(comm->failed());
  stuck = false;
  comm->barrier();
  CHECK(work.done());
}

TEST_CASE("nccl: an asynchronous error of one rank is heard by all") {
  NcclWorld w;
  w.nccl.async_error_at = 1;
  w.nccl.async_error_rank = 1;
  const auto ended = w.run(
      2,
      [&](Communicator& c) {
        const Tensor t = on_device(c, {1});
        c.barrier();
        c.all_reduce(t);
        until_failed(c.start_all_reduce(t));
      },
      kLong);
  all_failed(ended, "ncclCommGetAsyncError: remote process exited (the fake says so)");
  CHECK(w.nccl.calls("comm_abort") == 2);
  w.check_clean();
}

TEST_CASE("nccl: a barrier that a rank does not come to ends at the deadline") {
  NcclWorld w;
  const auto ended = w.run(2, [&](Communicator& c) {
    hurry(c);
    if (c.rank() == 1) until_failed(c);
    c.barrier();
  });
  all_failed(ended, "the control ranks did not meet");
  w.check_clean();
}

TEST_CASE("nccl: a host that waits for the device comes back when a rank is lost") {
  NcclWorld w;
  const auto ended = w.run(2, [&](Communicator& c) {
    const Tensor t = on_device(c, {1});
    if (c.rank() == 0) c.all_reduce(t);
    c.control().barrier();
    if (c.rank() == 1) return c.abort("lost");
    back(t);  // as item() does; what it reads is undefined
    c.all_reduce(t);
  });
  CHECK(ended[0].text == "PeerFailure: rank 1 gave up: lost");
  w.check_clean();
}

TEST_CASE("nccl: a communicator that never connects, and one that NCCL refuses") {
  for (const bool hangs : {true, false}) {
    CAPTURE(hangs);
    NcclWorld w;
    w.nccl.init_hangs = hangs;
    if (!hangs) w.nccl.fail("comm_async_error", kNcclSystemError);
    const auto ended = w.run(2, [](Communicator&) {}, {.deadline = seconds(1)});
    bool first = false;
    for (const Ended& o : ended) {
      if (hangs) {
        CHECK(o.kind == "PeerFailure");
        CHECK(mentions(o.text, "NCCL has not connected 2 ranks within 1 s"));
      } else {
        first = first || o.kind == "DeviceError";
        CHECK((o.kind == "DeviceError" || o.kind == "PeerFailure"));
        CHECK(
            mentions(o.text, "ncclCommInitRankConfig: unhandled system error (the fake says so)"));
      }
    }
    CHECK(first == !hangs);
    w.check_clean();
  }
}

TEST_CASE("nccl: without an id nobody connects") {
  NcclWorld w;
  w.nccl.fail("unique_id", kNcclInternalError);
  const auto ended = w.run(2, [](Communicator&) {});
  CHECK(ended[0].kind == "DeviceError");
  CHECK(ended[1].kind == "PeerFailure");
  for (const Ended& o : ended) CHECK(mentions(o.text, "ncclGetUniqueId: internal error"));
  w.check_clean();
}

TEST_CASE("nccl: a call that NCCL refuses, or never takes, ends all ranks") {
  for (const char* call : {"all_reduce", "group_start", "send", "group_end", "hang"}) {
    CAPTURE(call);
    NcclWorld w;
    const bool hangs = std::string(call) == "hang";
    const auto ended = w.run(
        2,
        [&](Communicator& c) {
          const Tensor t = on_device(c, {1}), u = on_device(c, {1});
          c.barrier();
          if (c.rank() == 0) w.nccl.fail(call, kNcclInvalidUsage);
          if (c.rank() == 0) w.nccl.calls_hang = hangs;
          c.control().barrier();
          if (hangs) hurry(c);
          if (std::string(call) == "all_reduce" || hangs) c.all_reduce(t);
          const Work sent = c.start_send(t, 1 - c.rank()), got = c.start_recv(u, 1 - c.rank());
          got.wait();
          until_failed(got);
        },
        kLong);
    all_failed(ended, hangs ? "has not begun within 0.15 s" : "invalid usage (the fake says so)");
    w.check_clean();
  }
}

TEST_CASE("nccl: ranks that call different things") {
  for (const bool check : {false, true}) {
    CAPTURE(check);
    NcclWorld w;
    NcclOptions options = kLong;
    options.check_calls = check;
    const auto ended = w.run(
        2,
        [&](Communicator& c) {
          const Tensor t = on_device(c, std::vector<double>(size_t(c.rank() + 4), 1.));
          if (!check) hurry(c);
          until_failed(c.start_all_reduce(t));
        },
        options);
    if (check)
      all_failed(ended,
                 "ranks call different things: rank 0 all_reduce (sum) of 4 f32, rank 1 "
                 "all_reduce (sum) of 5 f32");
    else
      all_failed(ended, "another rank is late, hangs or called something else");
    CHECK((w.nccl.calls("all_reduce") == 0) == check);
    w.check_clean();
  }
}

TEST_CASE("nccl: calls that agree are let through, whatever they are") {
  NcclWorld w;
  NcclOptions options = kLong;
  options.check_calls = true;
  PerRank sums(2);
  check_quiet(w.run(
      2,
      [&](Communicator& c) {
        const Tensor t = on_device(c, {double(c.rank())}), u = on_device(c, {0});
        c.all_reduce(t);
        if (c.rank() == 0) c.send(t, 1);
        if (c.rank() == 1) c.recv(u, 0);
        c.broadcast(u, 1);
        c.barrier();
        sums[size_t(c.rank())] = back(u);
      },
      options));
  CHECK(sums == PerRank{{1}, {1}});
}

TEST_CASE("nccl: a communicator finishes what it began, then finalizes and goes") {
  NcclWorld w;
  PerRank sums(2);
  check_quiet(on_threads(2, [&](ThreadControl& control) {
    const Device d = Device::cuda(control.rank());
    auto comm = nccl_communicator(control, d, kLong);
    const Tensor t = on_device(*comm, {double(control.rank() + 1)}), u = on_device(*comm, {0});
    Work sent, received, reduced = comm->start_all_reduce(t);
    if (control.rank() == 0) sent = comm->start_send(t, 1);
    if (control.rank() == 1) received = comm->start_recv(u, 0);
    comm.reset();  // begins the exchange, too
    reduced.wait();
    sums[size_t(control.rank())] = back(control.rank() == 0 ? t : u);
  }));
  CHECK(sums == PerRank{{3}, {3}});
  CHECK(w.nccl.calls("comm_finalize") == 2);
  CHECK(w.nccl.calls("comm_destroy") == 2);
  CHECK(w.nccl.calls("comm_abort") == 0);
  w.check_clean();
}

TEST_CASE("nccl: an exception that leaves with calls under way aborts them") {
  NcclWorld w;
  const auto ended = w.run(2, [&](Communicator& c) {
    const Tensor t = on_device(c, {1});
    if (c.rank() == 1) until_failed(c);
    const Work work = c.start_all_reduce(t);
    c.abort("threw");
    throw UsageError("mine");
  });
  CHECK(ended[0].text == "UsageError: mine");
  CHECK(ended[1].text == "PeerFailure: rank 0 gave up: threw");
  CHECK(w.nccl.calls("comm_finalize") == 0);
  w.check_clean();
}

TEST_CASE("nccl: what hangs in NCCL on the way out is left behind, with its stream") {
  enum class Way { abort, finalize, destroy };
  for (const Way way : {Way::abort, Way::finalize, Way::destroy}) {
    CAPTURE(int(way));
    NcclWorld w{1};
    w.nccl.abort_hangs = way == Way::abort;
    w.nccl.finalize_hangs = way == Way::finalize;
    w.nccl.destroy_hangs = way == Way::destroy;
    void* stream = nullptr;
    {
      ThreadControl control(std::make_shared<ThreadControl::World>(1), 0);
      const auto comm = nccl_communicator(control, Device::cuda(0),
                                          {.always = true, .give_up = milliseconds(50)});
      comm->all_reduce(on_device(*comm, {1}));
      comm->barrier();
      w.nccl.take_journal();
      if (way == Way::abort) comm->abort("enough");
      if (way == Way::abort) CHECK_THROWS_AS(until_failed(*comm), PeerFailure);
    }
    CHECK(w.nccl.calls("comm_abort") == (way == Way::destroy ? 0 : 1));
    CHECK(w.nccl.calls("comm_destroy") == (way == Way::destroy ? 1 : 0));
    CHECK(w.nccl.live_comms() == (way == Way::finalize ? 0 : 1));
    const int before = w.cuda.calls("make_stream");
    const Stream next(Device::cuda(0));
    CHECK(w.cuda.calls("make_stream") == before + (way == Way::finalize ? 0 : 1));
    stream = next.native();
    CHECK(stream != nullptr);
    CHECK(w.nccl.violations() == std::vector<std::string>{});
  }
}

TEST_CASE("nccl: a Work that outlives its communicator") {
  NcclWorld w{1};
  Work kept;
  {
    ThreadControl control(std::make_shared<ThreadControl::World>(1), 0);
    const auto comm = nccl_communicator(control, Device::cuda(0), {.always = true});
    kept = comm->start_all_reduce(on_device(*comm, {1}));
  }
  CHECK(kept.done());
  kept.wait();
  w.check_clean();
}

TEST_CASE("nccl: two ranks on one GPU are refused, by the chip's number") {
  static char number;
  const auto uuid = [](char* to, int) {
    std::memset(to, number, 16);
    return 0;
  };
  const auto run = [](bool share, bool same_index) {
    return on_threads(2, [=](ThreadControl& control) {
      nccl_communicator(control, Device::cuda(same_index ? 0 : control.rank()),
                        {.share_device = share});
    });
  };
  NcclWorld w;
  const std::string text =
      "UsageError: [nccl_communicator] ranks 0 and 1 are on one GPU, and each needs its own: cuda:";
  for (const Ended& o : run(false, true)) CHECK(mentions(o.text, text + "0 of "));
  check_quiet(run(true, true));
  check_quiet(run(false, false));
  {
    const Environment enabled("NCCL_MULTI_RANK_GPU_ENABLE", "1");
    check_quiet(run(false, true));
  }
  // Two indices, and one chip behind both.
  w.cuda.driver_function = reinterpret_cast<void*>(+uuid);
  for (const Ended& o : run(false, false)) CHECK(mentions(o.text, text + "1 of "));
  w.check_clean();
}

TEST_CASE("nccl: where it cannot be, every rank says why") {
  {
    NcclWorld w;
    replace_nccl(nullptr, "there is none");
    for (const Ended& o : w.run(2, [](Communicator&) {})) {
      CHECK(o.kind == "NotAvailable");
      CHECK(mentions(o.text, "NCCL is not there: there is none"));
    }
    const auto elsewhere = on_threads(2, [](ThreadControl& control) {  // one of them has no device
      nccl_communicator(control, Device::cuda(control.rank() == 0 ? 0 : 9), {});
    });
    CHECK(mentions(elsewhere[1].text, "cuda:9"));
    CHECK(elsewhere[0].kind == "NotAvailable");
  }
  ThreadControl control(std::make_shared<ThreadControl::World>(1), 0);
  CHECK(message_of([&] { nccl_communicator(control, Device::cpu()); }) ==
        "PlacementError: [nccl_communicator] NCCL is for cuda devices, got cpu");
}

TEST_CASE("nccl: tensors of other devices are refused, and the log line says what it can") {
  NcclWorld w;
  check_quiet(w.run(2, [&](Communicator& c) {
    const std::string text = message_of([&] { c.all_reduce(tensor({1.0})); });
    if (text.find("whose memory the backend nccl does not send") == text.npos)
      throw InternalError(text);
    if (describe_transport(c) != "NCCL 2.28.9; NCCL_DEBUG=INFO shows the transport it takes")
      throw InternalError(describe_transport(c));
  }));
  w.check_clean();
}

TEST_CASE("nccl: over local ranks, whose failures it hears of") {
  NcclWorld w;
  PerRank sums(2);
  std::vector<std::string> texts(2);
  spawn(2, [&](Communicator& control) {
    const auto comm = nccl_communicator(control, Device::cuda(control.rank()));
    const Tensor t = on_device(*comm, {double(control.rank() + 1)});
    comm->all_reduce(t);
    comm->barrier();
    sums[size_t(control.rank())] = back(t);
    comm->at_step(7);
    texts[size_t(control.rank())] = message_of([&] {
      if (control.rank() == 1) control.abort("its disk is full");
      until_failed(comm->start_all_reduce(t));
    });
  });
  CHECK(sums == PerRank{{3}, {3}});
  for (const std::string& text : texts) {
    CHECK(mentions(text, "PeerFailure"));
    CHECK(mentions(text, "its disk is full"));
  }
  w.check_clean();
}
