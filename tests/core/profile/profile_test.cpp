// What a profile keeps of a program: ranges inside of each other, steps, threads, memory, nodes.
#include "warptape/core/profile.h"

#include <map>
#include <thread>

#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/async_copy.h"
#include "warptape/core/factories.h"
#include "warptape/core/memory.h"
#include "warptape/core/profile/data.h"
#include "warptape/nn/layers.h"
#include "warptape/tests/simt/device_memory.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/child.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/fake_cuda.h"

using namespace wt;
using profiler::Event;
using profiler::Kind;
using profiler::Profile;

namespace {

struct Net : nn::Module<Net> {
  nn::Linear fc1 = add("fc1", nn::Linear{6, 5});
  nn::Linear fc2 = add("fc2", nn::Linear{5, 3});
  Tensor forward(const Tensor& x) { return fc2(relu(fc1(x))); }
};

const Event* find(const Profile& p, Kind k, std::string_view name, int skip = 0) {
  for (const Event& e : p.events())
    if (e.kind == k && e.name == name && skip-- == 0) return &e;
  return nullptr;
}
int count(const Profile& p, Kind k, std::string_view name) {
  int n = 0;
  for (const Event& e : p.events()) n += e.kind == k && e.name == name;
  return n;
}
bool notes_mention(const Profile& p, const std::string& text) {
  for (const std::string& n : p.notes())
    if (n.find(text) != std::string::npos) return true;
  UNSCOPED_INFO("notes: " << p.notes().size() << (p.notes().empty() ? "" : p.notes()[0]));
  return false;
}

}  // namespace

TEST_CASE("row 105: a profile keeps operators, kernels, backward and memory of each device") {
  for (const Device d : wt_test::kernel_devices()) {
    CAPTURE(to_string(d));
    const Tensor a = ones({8, 8}, {.device = d, .requires_grad = true});
    const Tensor seed = ones({8, 8}, {.device = d});
    const Profile p = profiler::profile([&] { matmul(a, a).backward(seed); });
    const Event* op = find(p, Kind::op, "matmul");
    REQUIRE(op != nullptr);
    CHECK(op->device == d);
    CHECK(op->dtype == f32);
    const Event* backward = find(p, Kind::backward, "matmul");
    REQUIRE(backward != nullptr);
    u32 id = 0;
    std::map<u32, i64> inside;
    for (const Event& e : p.events()) {
      CHECK(e.id > id);
      id = e.id;
      CHECK(e.begin_ns <= e.end_ns);
      CHECK(e.end_ns <= i64(1e9 * p.seconds()) + 1);
      CHECK(e.self_ns() >= 0);
      if (e.parent) inside[e.parent] += e.host_ns();
    }
    for (const Event& e : p.events()) CHECK(e.inside_ns == inside[e.id]);
    bool launched = false;
    for (const Event& e : p.events())
      launched |= e.kind == Kind::kernel && e.parent == op->id && e.flops == 2 * 8 * 8 * 8;
    CHECK(launched);
  }
}

TEST_CASE("row 105: what ranges allocate and release adds up to what is there") {
  const Tensor a = ones({64, 64});
  const i64 before = memory::stats(Device::cpu()).live;
  Tensor kept;
  const Profile p = profiler::profile([&] {
    const Tensor b = exp(a) + a;
    kept = matmul(b, a);
  });
  i64 sum = 0;
  for (const profiler::Row& r : p.rows()) sum += r.allocated - r.released;
  CHECK(sum == memory::stats(Device::cpu()).live - before);
  CHECK(sum == kept.numel() * 4);
  const Event* op = find(p, Kind::op, "exp");
  REQUIRE(op != nullptr);
  CHECK(op->allocated == 64 * 64 * 4);
  const Profile without = profiler::profile([&] { (void)exp(a); }, {.memory = false});
  CHECK(find(without, Kind::op, "exp")->allocated == 0);
}

TEST_CASE("row 108: users' ranges are inside of each other, and their times add up") {
  const Tensor x = ones({32, 32});
  const Profile p = profiler::profile(
      [&] {
        const auto outer = profiler::range("model_inference");
        for (int i = 0; i < 3; ++i) {
          const auto inner = profiler::range("layer");
          (void)matmul(x, x);
        }
        profiler::range_push("loss");
        (void)exp(x);
        profiler::range_pop();
      },
      {.shapes = true});
  const Event* outer = find(p, Kind::user, "model_inference");
  REQUIRE(outer != nullptr);
  CHECK(outer->parent == 0);
  CHECK(count(p, Kind::user, "layer") == 3);
  i64 inside = 0;
  for (const Event& e : p.events())
    if (e.kind == Kind::user && e.parent == outer->id) inside += e.host_ns();
  CHECK(outer->inside_ns == inside);
  CHECK(find(p, Kind::op, "matmul")->parent == find(p, Kind::user, "layer")->id);
  CHECK(find(p, Kind::op, "exp")->parent == find(p, Kind::user, "loss")->id);
  CHECK(p.shapes()[find(p, Kind::op, "matmul")->shapes] == "[32, 32] [32, 32]");
  CHECK(p.notes().empty());
}

TEST_CASE("row 105: each backward names the line of its forward") {
  Net net;
  const Tensor x = ones({4, 6});
  const int line = __LINE__ + 1;
  const Profile p = profiler::profile([&] { net(x).sum().backward(); });
  int backwards = 0;
  for (const Event& e : p.events()) {
    if (e.kind != Kind::backward) continue;
    ++backwards;
    const Event* forward = p.forward_of(e);
    REQUIRE(forward != nullptr);
    CHECK(forward->kind == Kind::op);
    CHECK(std::string(forward->name) == e.name);
    CHECK(forward->node == e.node);
    CHECK(describe_frame(e.frame) == describe_frame(forward->frame));
    CHECK(module_path_of(e.mode_id) == module_path_of(forward->mode_id));
  }
  CHECK(backwards == 4);  // linear, relu, linear, sum
  for (const profiler::Row& r : p.rows())
    if (r.backward) CHECK(mentions(r.line, "profile_test.cpp:" + std::to_string(line)));
  for (const profiler::Row& r : p.rows({.group_by = "line"}))
    if (r.backward) CHECK(mentions(r.name, "profile_test.cpp:"));
}

TEST_CASE("profile: a range that is left open is named with its line") {
  const int line = __LINE__ + 3;
  const Profile p = profiler::profile([&] {
    const auto step = profiler::range("step");
    profiler::range_push("forgotten");
    (void)exp(ones({4}));
  });
  CHECK(notes_mention(p, "range \"forgotten\" of profile_test.cpp:" + std::to_string(line)));
  CHECK(p.notes().size() == 1);  // "step" has ended
  profiler::range_pop();
  const std::string text = message_of([] { profiler::range_pop(); });
  CHECK(mentions(text, "range_pop() without a range_push() on this thread"));
  CHECK(mentions(text, "profile_test.cpp:"));

  profiler::Scope scope;  // and one that is open at the end
  profiler::range_push("open");
  const Profile q = scope.stop();
  profiler::range_pop();
  CHECK(notes_mention(q, "range \"open\""));
  CHECK(find(q, Kind::user, "open")->left_open);
  CHECK_FALSE((process_slow.load() & kSlowObserved));
  (void)exp(ones({4}));
  CHECK_FALSE((mode.slow & kSlowProfile));
}

TEST_CASE("profile: a range that is left open ends with the operators around it alone") {
  const Tensor x = ones({4});
  const Profile p = profiler::profile([&] {
    profiler::range_push("a");
    {
      const auto b = profiler::range("b");
      profiler::range_push("c");
    }
    profiler::range_pop();  // c, which has ended
    profiler::range_pop();  // a
    (void)exp(x);
  });
  CHECK(find(p, Kind::user, "c")->left_open);
  CHECK_FALSE(find(p, Kind::user, "a")->left_open);
  CHECK_FALSE(find(p, Kind::user, "b")->left_open);
  CHECK(find(p, Kind::op, "exp")->parent == 0);
}

TEST_CASE("profile: two threads have their own ranges, rows and names") {
  const Tensor x = ones({16, 16});
  const Profile p = profiler::profile([&] {
    (void)exp(x);
    std::thread other([&] {
      const auto r = profiler::range("worker");
      (void)exp(x);
      (void)matmul(x, x);
    });
    other.join();
  });
  REQUIRE(p.threads().size() == 2);
  CHECK(p.threads()[0] == "main");
  CHECK(find(p, Kind::op, "exp", 0)->thread == 0);
  CHECK(find(p, Kind::op, "exp", 1)->thread == 1);
  CHECK(find(p, Kind::op, "exp", 1)->parent == find(p, Kind::user, "worker")->id);
  i64 own = 0;
  int rows = 0;
  for (const profiler::Row& r : p.rows())
    if (r.other_thread)
      ++rows;
    else
      own += r.self_ns;
  CHECK(rows == 3);
  CHECK(double(own) * 1e-9 == p.seconds());
}

TEST_CASE("profile: profiles inside of profiles, and one too many") {
  const Tensor x = ones({4});
  Profile inner;
  const Profile outer = profiler::profile([&] {
    (void)exp(x);
    inner = profiler::profile([&] { (void)tanh(x); });
    (void)exp(x);
  });
  CHECK(count(inner, Kind::op, "exp") == 0);
  CHECK(count(inner, Kind::op, "tanh") == 1);
  CHECK(count(outer, Kind::op, "exp") == 2);
  CHECK(count(outer, Kind::op, "tanh") == 1);

  profiler::Scope a, b, c, d;
  CHECK_THROWS_AS(profiler::profile([] {}), UsageError);
  (void)exp(x);
  CHECK(count(d.stop(), Kind::op, "exp") == 1);
  CHECK_THROWS_AS(d.stop(), UsageError);
  CHECK_THROWS_AS(d.step(), UsageError);
  CHECK(count(a.stop(), Kind::op, "exp") == 1);
}

TEST_CASE("profile: a ring of ranges keeps the newest, and the sums") {
  const Tensor x = ones({4});
  const Profile p = profiler::profile(
      [&] {
        for (int i = 0; i < 50; ++i) (void)exp(x);
        (void)tanh(x);
      },
      {.max_events = 10});
  CHECK(p.events().size() == 10);
  CHECK(p.dropped() == 2 * 51 - 10);
  CHECK(find(p, Kind::op, "tanh") != nullptr);
  CHECK(notes_mention(p, "92 of 102 ranges are not in the rows"));
  i64 sum = 0;
  for (const profiler::Row& r : p.rows()) sum += r.self_ns;
  CHECK(double(sum) * 1e-9 == p.seconds());
  CHECK_THROWS_AS(profiler::profile([] {}, {.max_events = 0}), UsageError);
}

TEST_CASE("profile: a thread that comes when there is no room keeps a sixteenth") {
  const Tensor x = ones({4});
  const Profile p = profiler::profile(
      [&] {
        for (int i = 0; i < 50; ++i) (void)exp(x);
        std::thread([&] {
          for (int i = 0; i < 50; ++i) (void)tanh(x);
        }).join();
      },
      {.max_events = 32});
  CHECK(p.events().size() == 34);
  i64 late = 0;
  for (const Event& e : p.events()) late += e.thread == 1;
  CHECK(late == 2);
  CHECK(find(p, Kind::op, "tanh") != nullptr);
}

TEST_CASE("profile: a program that throws leaves what it has done") {
  const Tensor x = ones({2, 3});
  const auto program = [&] {
    const auto r = profiler::range("step");
    (void)exp(x);
    (void)matmul(x, x);  // 3 and 2
  };
  Profile kept;
  const auto keep = [&](const Profile& p) { kept = p; };
  CHECK_THROWS_AS(profiler::profile(program, {.on_throw = keep}), ShapeError);
  CHECK(count(kept, Kind::op, "exp") == 1);
  CHECK(count(kept, Kind::user, "step") == 1);
  CHECK_FALSE(find(kept, Kind::user, "step")->left_open);
  CHECK_THROWS_AS(profiler::profile(program), ShapeError);
  profiler::Scope scope;
  CHECK_THROWS_AS(program(), ShapeError);
  CHECK(mentions(scope.stop().table(), "exp"));
}

TEST_CASE("profile: across a fork the child has its own") {
  const Tensor x = ones({4});
  profiler::Scope scope;
  (void)exp(x);
  const int code = wt_test::in_child([&] {
    (void)tanh(x);
    const Profile p = scope.stop();
    const Profile again = profiler::profile([&] { (void)exp(x); });
    return count(p, Kind::op, "exp") == 1 && count(p, Kind::op, "tanh") == 1 &&
                   count(again, Kind::op, "exp") == 1
               ? 0
               : 1;
  });
  CHECK(code == 0);
  const Profile p = scope.stop();
  CHECK(count(p, Kind::op, "tanh") == 0);
  CHECK(count(p, Kind::op, "exp") == 1);
}

TEST_CASE("trap T4: a schedule profiles some steps of a long run") {
  const Tensor x = ones({4});
  std::vector<Profile> cycles;
  std::vector<bool> active;
  {
    profiler::Schedule s{
        .wait = 2, .warmup = 1, .active = 3, .repeat = 2, .done = [&](const Profile& p) {
          cycles.push_back(p);
        }};
    for (int step = 0; step < 20; ++step) {
      active.push_back(s.is_active());
      (void)exp(x);
      s.step();
    }
    CHECK(s.cycles() == 2);
  }
  REQUIRE(cycles.size() == 2);
  for (const Profile& p : cycles) {
    CHECK(p.steps() == 3);
    CHECK(count(p, Kind::op, "exp") == 3);
    CHECK(find(p, Kind::op, "exp", 0)->step == 0);
    CHECK(find(p, Kind::op, "exp", 2)->step == 2);
    CHECK(p.notes().empty());
  }
  for (int step = 0; step < 20; ++step) CHECK(active[size_t(step)] == (step < 12 && step % 6 >= 3));
  CHECK_THROWS_AS((profiler::Schedule{.active = 0}), UsageError);
  CHECK_THROWS_AS((profiler::Schedule{.wait = -1}), UsageError);
}

TEST_CASE("profile: a schedule that could not begin goes on when it can") {
  const Tensor x = ones({4});
  profiler::Schedule s{.wait = 1, .active = 1, .done = [](const Profile&) {}};
  {
    const profiler::Scope a, b, c, d;  // all that there can be
    CHECK_THROWS_AS(s.step(), UsageError);
    s.step();
    CHECK(s.cycles() == 0);
  }
  s.step();
  s.step();
  CHECK(s.cycles() == 1);
}

TEST_CASE("profile: a device that turns out to have failed leaves the profile, and its error") {
  wt_test::FakeCuda fake;
  const Device d = Device::cuda();
  const Tensor host = pin(zeros({4}), d);
  Profile kept;
  const auto keep = [&](const Profile& p) { kept = p; };
  const std::string error = message_of([&] {
    profiler::profile(
        [&] {
          const auto r = profiler::range("step");
          (void)copy_async(host, d);
          fake.fail("wait_stream", 1);
        },
        {.on_throw = keep});
  });
  fake.fail("wait_stream", 0);
  CHECK(mentions(error, "cudaStreamSynchronize"));
  CHECK(count(kept, Kind::user, "step") == 1);
}

TEST_CASE("trap T4: profiling every step of a long run gives a line of advice") {
  const Tensor x = ones({4});
  profiler::Scope scope;
  for (int step = 0; step < 120; ++step) {
    if (step) scope.step();
    (void)exp(x);
  }
  const Profile p = scope.stop();
  CHECK(p.steps() == 120);
  CHECK(notes_mention(p, "120 steps in one profile"));
  CHECK(p.notes().size() == 1);
  Profile last;
  for (int step = 0; step < 25; ++step) last = profiler::profile([&] { (void)exp(x); });
  CHECK(notes_mention(last, "this is profile 25 of profile_test.cpp:"));
  CHECK(last.notes().size() == 1);
  CHECK(mentions(last.table(), "profiler::Schedule{.wait = 10"));
}

TEST_CASE("trap T4: a second forward in training mode that nothing back-propagates is told") {
  // Of two operators, with so many microseconds each; `walked` of them had a backward.
  static const OpInfo info{.name = "linear"};
  const FrameId line = intern_frame(Frame::here());
  const auto notes_of = [&](int forwards, int walked, i64 us, i64 whole_us) {
    Profile::Data d;
    const auto add = [&](Kind kind, u64 node) {
      Event e;
      e.kind = kind, e.name = "linear", e.op = &info, e.mode_id = 1, e.frame = line;
      e.id = u32(d.events.size() + 1), e.node = node;
      e.end_ns = 1000 * us;
      d.events.push_back(e);
    };
    for (int f = 0; f < forwards; ++f)
      for (int op = 0; op < 2; ++op) add(Kind::op, u64(2 * f + op + 1));
    for (int f = 0; f < walked; ++f)
      for (int op = 0; op < 2; ++op) add(Kind::backward, u64(2 * f + op + 1));
    d.length_ns = 1000 * whole_us;
    d.tie();
    profiler::advise(d, 0, Frame{});
    return d.notes;
  };
  CHECK(notes_of(1, 1, 10, 100).empty());
  const std::vector<std::string> twice = notes_of(2, 1, 10, 100);
  REQUIRE(twice.size() == 1);
  CHECK(mentions(twice[0], "2 operators from profile_test.cpp:"));
  CHECK(mentions(twice[0], "recorded for a backward that never comes, 20 % of the time: a second"));
  CHECK(notes_of(2, 1, 1, 100).empty());  // not worth a line
  const std::vector<std::string> alone = notes_of(1, 0, 40, 100);
  REQUIRE(alone.size() == 1);
  CHECK(mentions(alone[0], "a backward that is not in this profile, 80 % of the time: where none"));

  // What real programs record is looked at so.
  Net net;
  const Tensor x = ones({64, 6});
  CHECK(profiler::profile([&] { net(x).sum().backward(); }).notes().empty());
  CHECK(profiler::profile([&] {
          const NoGrad no;
          (void)net(x);
        })
            .notes()
            .empty());
  const Profile p = profiler::profile([&] {
    const Tensor loss = net(x).sum();
    (void)net(x);
    loss.backward();
  });
  int recorded = 0, walked = 0;
  for (const Event& e : p.events()) {
    recorded += e.kind == Kind::op && e.node && !e.parent;
    walked += p.forward_of(e) != nullptr;
  }
  CHECK(recorded == 7);
  CHECK(walked == 4);
}

TEST_CASE("row 105: devices that queue have the times of their launches, on the host's clock") {
  const WithStreams lazy(SimtStreams::lazy);
  const Tensor x = ones({256}, {.device = Device::simt()});
  const Profile p = profiler::profile([&] { (void)exp(exp(x)); });
  int launches = 0;
  i64 last = 0;
  for (const Event& e : p.events()) {
    if (e.kind != Kind::kernel) continue;
    ++launches;
    CHECK(e.device_ns() > 0);
    CHECK(e.device_begin_ns >= last);
    last = e.device_begin_ns;
    CHECK(e.device_end_ns <= i64(1e9 * p.seconds()) + 1'000'000);
  }
  CHECK(launches == 2);
  for (const profiler::Row& r : p.rows())
    if (r.name == "exp") CHECK(r.device_self_ns > 0);
  const Profile without = profiler::profile([&] { (void)exp(x); }, {.device_times = false});
  for (const Event& e : without.events()) CHECK(e.device_ns() == 0);
}

TEST_CASE("row 22: copies and waits are counted by the line that asked for them") {
  const Tensor host = ones({256});
  const Device d = Device::simt();
  const Tensor there = ones({4}, {.device = d});
  const int line = __LINE__ + 3;
  const Profile p = profiler::profile([&] {
    for (int i = 0; i < 3; ++i) {
      const Tensor x = host.to(d);
      (void)exp(x);
      (void)there.sum().item();
    }
  });
  const auto copies = [&](profiler::Transfer::Kind kind, int of_line) {
    for (const profiler::Transfer& t : p.transfers())
      if (t.kind == kind && frame_of(t.frame).line == u32(of_line)) return t;
    return profiler::Transfer{};
  };
  const profiler::Transfer in = copies(profiler::Transfer::Kind::to_device, line);
  CHECK(in.count == 3);
  CHECK(in.bytes == 3 * 256 * 4);
  CHECK(in.pageable);
  CHECK(in.device == d);
  CHECK(copies(profiler::Transfer::Kind::to_host, line + 2).count == 3);
  CHECK(mentions(p.table(), "to device, simt, pageable"));
  CHECK(mentions(p.table(), "profile_test.cpp:" + std::to_string(line)));
  CHECK(mentions(p.json(), "\"what\":\"to device\",\"pageable\":true"));

  // A step whose data is on the device copies nothing.
  const Tensor x = ones({256}, {.device = d});
  const Profile resident = profiler::profile([&] { (void)exp(x); });
  CHECK(resident.transfers().empty());
  CHECK(resident.table().find("Copies and waits") == std::string::npos);
}
