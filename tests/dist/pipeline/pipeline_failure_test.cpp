// What goes wrong in one stage of a pipeline ends the others, and what is wrong with a batch is
// refused by all before anything was sent.
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>

#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/error.h"
#include "warptape/tests/dist/pipeline/pipeline_net.h"
#include "warptape/tests/optim/devices.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"

using namespace wt;
using namespace wt_test;
using dist::PipelineSchedule;

namespace {

Loss plain_loss(const Tensor& out, const Tensor& t) { return Loss(sum(out), double(t.size(0))); }

struct Broken : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::string what_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

// A stage whose n-th call throws.
auto throwing_at(i64 n) {
  return [n, calls = i64(0)](Tensor t) mutable {
    if (calls++ == n) throw Broken("the stage broke");
    return t * 1.0;
  };
}

}  // namespace

TEST_CASE("Pipeline: what a stage throws goes on from there, the others get PeerFailure") {
  const LeakGuard guard;
  const int broken = GENERATE(0, 1, 2);
  const i64 call = GENERATE(0, 3);
  const auto schedule = GENERATE(PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b);
  CAPTURE(broken, call, to_string(schedule));
  Expect expect;
  const auto run = [&] {
    dist::spawn(3, [&](dist::Communicator& comm) {
      const Tensor w = ones({2}, {.requires_grad = true}), x = ones({4, 2});
      const dist::PipelineOptions options{.schedule = schedule, .micro_batches = 4};
      dist::Pipeline pipe = comm.rank() == broken
                                ? dist::Pipeline{throwing_at(call), comm, options}
                                : dist::Pipeline{[&](Tensor t) { return t * w; }, comm, options};
      try {
        (void)pipe.backward(x, x, plain_loss);
        expect(false, "no rank goes on");
      } catch (const PeerFailure& e) {
        expect(comm.rank() != broken, "the others hear of it");
        const std::string text = e.what();
        expect(text.find("the stage broke") != text.npos, "with its reason: " + text);
        expect(message_of([&] { (void)pipe.forward(x); }).find("PeerFailure") == 0,
               "every later call throws it, too");
        throw;
      } catch (const Broken&) {
        expect(comm.rank() == broken, "what the user threw, as it was");
        throw;
      }
    });
  };
  CHECK_THROWS(run());
  expect.report();
}

TEST_CASE("Pipeline: what the loss throws ends all stages") {
  const LeakGuard guard;
  Expect expect;
  CHECK_THROWS(dist::spawn(2, [&](dist::Communicator& comm) {
    const Tensor w = ones({2}, {.requires_grad = true}), x = ones({4, 2});
    dist::Pipeline pipe{[&](Tensor t) { return t * w; }, comm, {.micro_batches = 2}};
    try {
      (void)pipe.backward(
          x, x, [](const Tensor&, const Tensor&) -> Loss { throw Broken("no loss today"); });
    } catch (const PeerFailure&) {
      expect(comm.rank() == 0, "the first stage hears of it");
      throw;
    } catch (const Broken&) {
      expect(comm.rank() == 1, "the last stage threw it");
      throw;
    }
  }));
  expect.report();
}

TEST_CASE("Pipeline: the others hear who broke and when, while the broken rank still lives") {
  const LeakGuard guard;
  Expect expect;
  std::mutex mutex;
  std::condition_variable changed;
  int heard = 0;
  const auto second_step = [&](dist::Pipeline& pipe, const Tensor& x) {
    try {
      (void)pipe.backward(x, x, plain_loss);
    } catch (const PeerFailure& e) {
      expect(e.rank == 1 && e.last_step == 1, str("who and when: ", e.what()));
      throw;
    }
  };
  const auto rank = [&](dist::Communicator& comm) {
    const Tensor w = ones({2}, {.requires_grad = true}), x = ones({4, 2});
    const dist::PipelineOptions options{.micro_batches = 4};
    dist::Pipeline pipe = comm.rank() == 1
                              ? dist::Pipeline{throwing_at(6), comm, options}
                              : dist::Pipeline{[&](Tensor t) { return t * w; }, comm, options};
    (void)pipe.backward(x, x, plain_loss);
    const std::string text = what_of([&] { second_step(pipe, x); });
    expect(text.find("the stage broke") != text.npos, text);
    std::unique_lock lock(mutex);
    ++heard;
    changed.notify_all();
    changed.wait(lock, [&] { return heard == 3; });
  };
  dist::spawn(3, rank, {.local = {.deadline = std::chrono::seconds(30)}});
  expect.report();
}

TEST_CASE("Pipeline: a label that is not there is found before anybody steps") {
  const Device d = ready(GENERATE(Device::cpu(), Device::simt()));
  NEEDS_OPERATORS(d);
  CAPTURE(to_string(d));
  Expect expect;
  const std::string text = message_of([&] {
    dist::spawn(2, [&](dist::Communicator& comm) {
      nn::Sequential net = mlp();
      net.to(d);
      nn::Sequential stage = dist::partition(net, 2)[size_t(comm.rank())];
      optim::Sgd opt{stage, {.lr = 0.1}};
      const Samples s = samples(4);
      dist::Pipeline pipe{stage, comm, {.micro_batches = 2}};
      try {
        const Loss loss = pipe.backward(s.x, full_like(s.y, 9), class_loss);
        opt.step(dist::agree_on_step(&opt, comm, loss).options);
        expect(opt.applied() == 0, "nobody steps, where the device is behind the host");
        (void)loss.item();
        comm.barrier();
        expect(false, "no rank goes on");
      } catch (const PeerFailure& e) {
        expect(comm.rank() == 0 && e.rank == 1, str("rank 0 hears of it: ", e.what()));
        expect(mentions(e.what(), "label 9 at sample 0"), e.what());
        throw;
      } catch (const IndexError& e) {
        expect(comm.rank() == 1, str("it is the last stage's error: ", e.what()));
        throw;
      }
    });
  });
  CHECK(mentions(text, "IndexError: "));
  CHECK(mentions(text, "label 9 at sample 0 is outside [0, 4)"));
  CHECK(mentions(text, "on rank 1"));
  expect.report();
}

TEST_CASE("Pipeline: what is wrong with a batch is refused by every rank, and the next one goes") {
  const LeakGuard guard;
  Expect expect;
  dist::spawn(3, [&](dist::Communicator& comm) {
    const Tensor w = ones({2}, {.requires_grad = true}), x = ones({4, 2}), none;
    dist::Pipeline pipe{[&](Tensor t) { return t * w; }, comm, {.micro_batches = 2}};
    const auto refused = [&](const Tensor& in, const Tensor& targets, const std::string& part) {
      const std::string text = message_of([&] { (void)pipe.backward(in, targets, plain_loss); });
      expect(text.find(part) != text.npos, part + " in: " + text);
    };
    refused(none, x, "[Pipeline] x is undefined on rank 0");
    refused(x, none, "[Pipeline] y is undefined on rank 2");
    refused(x, ones({3, 2}), "[Pipeline] x has 4 samples on rank 0, y 3 on rank 2");
    refused(zeros({0, 2}), zeros({0, 2}), "[Pipeline] the batch is empty");
    refused(ones({}), ones({}), "[Pipeline] the batch is empty");
    refused(x, ones({3, 2}), "pipeline_failure_test.cpp:");
    {
      const NoGrad no_grad;
      refused(x, x, "[Pipeline] backward() under NoGrad");
    }
    expect(pipe.backward(x, x, plain_loss).sum.item() == 8, "then one that is right");
  });
  expect.report();
}

TEST_CASE("Pipeline: options that differ from rank to rank, or that cannot be, are refused") {
  const LeakGuard guard;
  Expect expect;
  dist::spawn(2, [&](dist::Communicator& comm) {
    const auto make = [&](const dist::PipelineOptions& options) {
      return message_of([&] { dist::Pipeline{[](Tensor t) { return t; }, comm, options}; });
    };
    const auto says = [&](const std::string& text, const std::string& part) {
      expect(text.find(part) != text.npos, part + " in: " + text);
    };
    says(make({.micro_batches = 2 + comm.rank()}),
         "[Pipeline] micro_batches must be the same on every rank: from 2 to 3");
    says(make({.schedule = PipelineSchedule(comm.rank())}),
         "[Pipeline] the schedule must be the same on every rank: both gpipe and one_f_one_b");
    says(make({.micro_batches = 0}), "[Pipeline] micro_batches must be at least 1, got 0");
    says(make({.device = Device::meta(DeviceKind::cpu)}), "does not send");
  });
  expect.report();
}

TEST_CASE("Pipeline: errors of stage and loss name the lines where the user computes") {
  const LeakGuard guard;
  const auto text_of = [](auto stage, auto loss_of) {
    return message_of([&] {
      dist::spawn(1, [&](dist::Communicator& comm) {
        dist::Pipeline pipe{stage, comm};
        (void)pipe.backward(ones({2, 2}), ones({2, 2}), loss_of);
      });
    });
  };
  const auto line = [](int n) { return "pipeline_failure_test.cpp:" + std::to_string(n) + "\n"; };
  const Tensor three = ones({3});
  const auto loss = [&](const Tensor& o, const Tensor&) { return Loss(sum(o + three), 1.0); };
  CHECK(mentions(text_of([](Tensor t) { return t; }, loss) + "\n", line(__LINE__ - 1)));
  const auto stage = [&](Tensor t) { return t + three; };
  CHECK(mentions(text_of(stage, plain_loss) + "\n", line(__LINE__ - 1)));
}

TEST_CASE("Pipeline: stages and losses that return what cannot go on") {
  const LeakGuard guard;
  const auto text_of = [](auto stage, auto loss_of) {
    return message_of([&] {
      dist::spawn(1, [&](dist::Communicator& comm) {
        dist::Pipeline pipe{stage, comm};
        (void)pipe.backward(ones({2, 2}), ones({2, 2}), loss_of);
      });
    });
  };
  const auto same = [](Tensor t) { return t; };
  CHECK(mentions(text_of([](Tensor) { return Tensor(); }, plain_loss),
                 "[Pipeline] the stage of rank 0 returned an undefined tensor"));
  CHECK(mentions(text_of([](Tensor t) { return t.to(Device::simt()); }, plain_loss),
                 "[Pipeline] the stage of rank 0 computes on cpu and returned"));
  CHECK(mentions(text_of(same, [](const Tensor& out, const Tensor&) { return Loss(out, 1.0); }),
                 "[Pipeline] the sum of the loss must be one element on cpu, got"));
}
