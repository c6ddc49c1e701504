// Threads with a mailbox of their own.
#include "warptape/core/memory/mailbox_lane.h"

#include <deque>
#include <thread>

#include "warptape/autograd/ops/index.h"
#include "warptape/autograd/ops/loss.h"
#include "warptape/autograd/saved_graph.h"
#include "warptape/core/factories.h"
#include "warptape/core/mode.h"
#include "warptape/core/random.h"
#include "warptape/nn/linear.h"
#include "warptape/tests/optim/devices.h"
#include "warptape/tests/optim/train_step_net.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/temp_dir.h"

using namespace wt;
using namespace wt_test;
using wt::detail::MailboxLane;

namespace {

bool is_raised(Device d) {
  MailboxRecord r;
  return read_mailbox(d, r);
}
// In a thread of its own.
template <class F>
void elsewhere(F f) {
  std::thread(f).join();
}
Device any_device() { return ready(GENERATE(Device::cpu(), Device::simt())); }

}  // namespace

TEST_CASE("what a lane holds is raised there alone") {
  const Device d = any_device();
  NEEDS_OPERATORS(d);
  const LeakGuard guard;
  bool in_common = true, in_other = true, own = false;
  std::string text;
  {
    const MailboxLane lane;
    raise_mailbox(d);
    elsewhere([&] {
      in_common = is_raised(d);
      const MailboxLane other;
      in_other = is_raised(d);
    });
    own = is_raised(d);
    text = message_of([&] { check_mailbox(d); });
    CHECK(!is_raised(d));
  }
  CHECK(!in_common);
  CHECK(!in_other);
  CHECK(own);
  CHECK(mentions(text, "label 17 at sample 3 is outside [0, 10)"));
}

TEST_CASE("a lane that is given back raised is lent out lowered") {
  const Device d = any_device();
  NEEDS_OPERATORS(d);
  {
    const MailboxLane lane;
    raise_mailbox(d);
  }
  CHECK(!is_raised(d));
  const MailboxLane again;
  CHECK(!is_raised(d));
}

TEST_CASE("the common mailbox is what it was when a lane ends") {
  const Device d = any_device();
  NEEDS_OPERATORS(d);
  raise_mailbox(d);
  {
    const MailboxLane lane;
    CHECK(!is_raised(d));
  }
  CHECK(is_raised(d));
  clear_mailbox(d);
}

TEST_CASE("a thread with a ModeCopy has its parent's lane") {
  const Device d = any_device();
  NEEDS_OPERATORS(d);
  const MailboxLane lane;
  elsewhere([copy = ModeCopy(), d] {
    copy.adopt();
    raise_mailbox(d);
  });
  CHECK(is_raised(d));
  CHECK(generator().rank() == 0);
  elsewhere([d] { CHECK(!is_raised(d)); });
}

TEST_CASE("threads beyond the lanes there are share the common one") {
  std::deque<MailboxLane> all;
  for (u32 i = 1; i < detail::kMailboxLanes; ++i) {
    all.emplace_back();
    CHECK(detail::mailbox_lane() == i);
  }
  for (int i = 0; i < 2; ++i) {
    all.emplace_back();
    CHECK(detail::mailbox_lane() == 0);
  }
  while (!all.empty()) all.pop_back();
  CHECK(detail::mailbox_lane() == 0);
  const MailboxLane lane;
  CHECK(detail::mailbox_lane() == 1);
}

namespace {

// Labels of a lane's thread, on parameters and a step that another thread has made.
struct Labels : nn::Module<Labels> {
  nn::Linear fc = add("fc", nn::Linear{6, 3});
  Tensor forward(Tensor x) { return fc(std::move(x)); }
};
Pair labelled(Device d, i64 label) {
  return {ones({4, 6}).to(d), tensor({i64(0), i64(1), i64(2), label}).to(d)};
}
Loss label_loss(Labels& net, const Pair& p) { return cross_entropy(net(p.x), p.y); }

}  // namespace

TEST_CASE("an optimizer that another thread has made asks the mailbox of the one that steps") {
  const Device d = any_device();
  NEEDS_OPERATORS(d);
  Labels net;
  net.to(d);
  optim::Sgd opt{net, {.lr = 0.1}};
  const auto step = [&] {
    opt.zero_grad();
    label_loss(net, labelled(d, 0)).sum.backward();
    opt.step();
  };
  step();
  {
    const MailboxLane lane;
    raise_mailbox(d);
    step();
    clear_mailbox(d);
    CHECK(opt.applied() == 1);
  }
  step();
  CHECK(opt.applied() == 2);
}

TEST_CASE("steps that were captured outside a lane report inside it") {
  const Device d = ready(Device::simt());
  NEEDS_OPERATORS(d);
  Labels net;
  net.to(d);
  optim::Sgd opt{net, {.lr = 0.1}};
  TrainStep step{net, opt, {.graph = true}};
  const auto go = [&](i64 label) {
    return step(labelled(d, label), [&](const Pair& p) { return label_loss(net, p); }).skipped();
  };
  for (int i = 0; i < 5; ++i) CHECK(!go(0));
  REQUIRE(step.captures() == 1);
  elsewhere([&] {
    const MailboxLane lane;
    for (int i = 0; i < 5; ++i) {  // eagerly, and captured anew
      CHECK(mentions(message_of([&] { go(7); }), "label 7 at sample 3 is outside [0, 3)"));
      CHECK(!go(1));
    }
  });
  CHECK(step.captures() == 1);
  CHECK(mentions(message_of([&] { go(8); }), "label 8 at sample 3"));
  CHECK(!go(1));
}

TEST_CASE("a saved graph reports to the thread that runs it") {
  const Device d = any_device();
  NEEDS_OPERATORS(d);
  const TempDir dir;
  const std::string path = dir / "rows";
  const Tensor table = rand({5, 3}).to(d);
  save_graph(
      path, [&](const Tensor& i) { return embedding(i, table); }, tensor({i64(0), i64(4)}).to(d));
  const SavedGraph graph = SavedGraph::load(path, d);
  const Tensor good = tensor({i64(1), i64(2)}).to(d), bad = tensor({i64(1), i64(9)}).to(d);
  const auto rows = [&](const Tensor& i) { return graph(i).to_vector<float>().size(); };
  for (int i = 0; i < 4; ++i) CHECK(rows(good) == 6);  // replays by now, where there are graphs
  elsewhere([&] {
    const MailboxLane lane;
    for (int i = 0; i < 4; ++i) {
      CHECK(mentions(message_of([&] { rows(bad); }), "9 at position 1 is outside [0, 5)"));
      CHECK(rows(good) == 6);
    }
  });
  CHECK(mentions(message_of([&] { rows(bad); }), "9 at position 1 is outside [0, 5)"));
}
