// The real NCCL on the GPUs there are: one rank, and two where there are two. Skipped, visibly,
// without them.
#include <cstdlib>

#include "warptape/core/graph.h"
#include "warptape/tests/dist/nccl/nccl_world.h"

using namespace wt;
using namespace wt::dist;
using namespace wt_test;

// The emulated device has no driver that NCCL could ask.
#define NEED(gpus)                                                                 \
  if (std::getenv("WT_EMU_STREAMS")) SKIP_TEST("NCCL needs a real GPU");           \
  if (cuda::device_count() < (gpus))                                               \
    SKIP_TEST(cuda::is_available() ? "needs more GPUs" : cuda::why_not().c_str()); \
  if (nccl_why_not()) SKIP_TEST(nccl_why_not())

namespace {

// Integers and halves of them: sums are exact whatever their order.
void all_calls(Communicator& c) {
  const int n = c.size();
  const double r = c.rank(), sum = n * (n + 1) / 2.0;
  const auto expect = [](const char* what, const Tensor& t, const std::vector<double>& e) {
    if (back(t) != e) throw InternalError(str(what, " of ", dtype_name(t.dtype())));
  };
  for (const DType t : {f64, f32, f16, bf16, DType::i64, DType::i32, DType::u8}) {
    const Tensor x = on_device(c, {r + 1, 2 * (r + 1)}, t);
    c.all_reduce(x);
    expect("sum", x, {sum, 2 * sum});
    const Tensor y = on_device(c, {r + 1, r}, t);
    c.all_reduce(y, ReduceOp::max);
    expect("max", y, {double(n), n - 1.0});
    c.all_reduce(y, ReduceOp::min);
    expect("min", y, {double(n), n - 1.0});
    if (is_floating(t)) {
      const Tensor m = on_device(c, {2 * r}, t);
      c.all_reduce(m, ReduceOp::mean);
      expect("mean", m, {n - 1.0});
    }
    const Tensor all = on_device(c, std::vector<double>(size_t(n)), t);
    c.all_gather(all, on_device(c, {r}, t));
    std::vector<double> ranks;
    for (int i = 0; i < n; ++i) ranks.push_back(i);
    expect("all_gather", all, ranks);
    const Tensor part = on_device(c, {0}, t);
    c.reduce_scatter(part, all);
    expect("reduce_scatter", part, {r * n});
    c.broadcast(part, n - 1);
    expect("broadcast", part, {double((n - 1) * n)});
  }
  const Tensor any = on_device(c, {r == 0 ? 1. : 0., 0}, DType::boolean);
  c.all_reduce(any, ReduceOp::max);
  expect("any", any, {1, 0});
  c.barrier();
}

void replays(Communicator& c) {
  const Tensor t = on_device(c, {1});
  Graph graph(Device::cuda(c.rank()));
  const auto step = [&] { c.all_reduce(t); };
  graph.warm_up(step);
  graph.capture(step);
  for (int i = 0; i < 3; ++i) graph.replay();
  c.barrier();
  double e = 1;
  for (int i = 0; i < 4; ++i) e *= c.size();
  if (back(t) != std::vector<double>{e}) throw InternalError("replayed sums");
}

void on_gpus(int ranks, const std::function<void(Communicator&)>& f) {
  check_quiet(on_threads(ranks, [&](ThreadControl& control) {
    f(*nccl_communicator(control, Device::cuda(control.rank()), {.always = true}));
  }));
}

}  // namespace

TEST_CASE("nccl: one rank on a GPU") {
  NEED(1);
  on_gpus(1, all_calls);
  on_gpus(1, replays);
}

TEST_CASE("nccl: two ranks on two GPUs") {
  NEED(2);
  on_gpus(2, all_calls);
  on_gpus(2, replays);
  on_gpus(2, [](Communicator& c) {  // more than NCCL's buffers hold, both ways at once
    const std::vector<double> own(size_t{1} << 22, c.rank() + 1.0);
    const Tensor x = on_device(c, own), y = on_device(c, std::vector<double>(own.size()));
    const Work sent = c.start_send(x, 1 - c.rank()), got = c.start_recv(y, 1 - c.rank());
    got.wait();
    sent.wait();
    if (back(y) != std::vector<double>(own.size(), 2.0 - c.rank())) throw InternalError("exchange");
  });
}

TEST_CASE("nccl: a rank that does not come is a PeerFailure on real GPUs too") {
  NEED(2);
  const auto ended = on_threads(2, [](ThreadControl& control) {
    const auto comm = nccl_communicator(control, Device::cuda(control.rank()));
    const Tensor t = on_device(*comm, {1});
    comm->all_reduce(t);  // connects
    comm->barrier();
    comm->set_deadline(std::chrono::seconds(2));
    if (control.rank() == 1) {
      while (!comm->failed()) std::this_thread::yield();
      comm->barrier();
    }
    const Work work = comm->start_all_reduce(t);
    for (;;) work.done(), std::this_thread::yield();
  });
  for (const Ended& o : ended) CHECK(o.kind == "PeerFailure");
}
