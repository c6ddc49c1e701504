// Times of the device from CUPTI's records: a library of the tests' over the fake runtime.
#include <dlfcn.h>

#include <chrono>
#include <thread>

#include "warptape/core/cupti/function_name.h"
#include "warptape/core/cupti/library.h"
#include "warptape/core/factories.h"
#include "warptape/core/graph.h"
#include "warptape/core/memory.h"
#include "warptape/core/memory/copy_bytes.h"
#include "warptape/core/profile.h"
#include "warptape/core/profile_trace.h"
#include "warptape/core/stream.h"
#include "warptape/tests/support/ambient.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/fake_cuda.h"
#include "warptape/tests/support/fake_cupti/fake_cupti.h"
#include "warptape/tests/support/temp_dir.h"

using namespace wt;
using Done = profiler::Event;
using profiler::Kind;
using profiler::Profile;
using profiler::Row;
using wt_test::Environment;
using wt_test::FakeCuda;

namespace {

const Device kCuda = Device::cuda(0);
constexpr OpInfo kExp{.name = "exp"}, kMatmul{.name = "matmul"};

// WT_CUPTI names the library, which pretends something.
struct Cupti {
  Environment library{"WT_CUPTI", WT_FAKE_CUPTI}, pretend;
  decltype(&fake_cupti_call) call;
  decltype(&fake_cupti_count) count;
  explicit Cupti(const char* pretends = "") : pretend("FAKE_CUPTI", pretends) {
    void* const handle = ::dlopen(WT_FAKE_CUPTI, RTLD_NOW);
    REQUIRE(handle);
    call = reinterpret_cast<decltype(call)>(::dlsym(handle, "fake_cupti_call"));
    count = reinterpret_cast<decltype(count)>(::dlsym(handle, "fake_cupti_count"));
  }
  void kernel(const char* function, i64 ns, unsigned stream = 7) const {
    const FakeNode node{function, 0, 0, ns};
    call(&node, 1, stream);
  }
  void copy(int kind, i64 bytes, i64 ns) const {
    const FakeNode node{nullptr, kind, bytes, ns};
    call(&node, 1, 7);
  }
  // Nothing of it is left on.
  void check_off() const {
    CHECK(count("subscribers") == 0);
    CHECK(count("enabled") == 0);
    CHECK(count("buffers") == 0);
    CHECK(count("ids") == 0);
  }
};

// What operators and launches tell observers.
profiler::RangeScope op(const OpInfo& info, Kind kind = Kind::op) {
  profiler::follow_observers();
  return profiler::RangeScope(
      {kind, info.name, nullptr, &info, 0, mode.id, kCuda, detail::native_stream(kCuda)});
}
profiler::RangeScope launch(const char* contract, const char* variant, const OpInfo* info,
                            double flops = 0) {
  profiler::follow_observers();
  return profiler::RangeScope({Kind::kernel, contract, variant, info, 0, mode.id, kCuda,
                               detail::native_stream(kCuda), 0, flops});
}

const Done* find(const Profile& p, std::string_view name, std::string_view variant = "") {
  for (const Done& e : p.events())
    if (e.name == name && (variant.empty() || (e.variant && e.variant == variant))) return &e;
  return nullptr;
}
const Row* row(const std::vector<Row>& rows, std::string_view name) {
  for (const Row& r : rows)
    if (r.name == name) return &r;
  return nullptr;
}
bool mentions(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}
std::string all_notes(const Profile& p) {
  std::string all;
  for (const std::string& n : p.notes()) all += n + "\n";
  return all;
}
Tensor floats(i64 n) { return empty({n}, {.device = kCuda}); }
void copy(const Tensor& to, const Tensor& from) {
  copy_bytes(to.impl()->data, kCuda, from.impl()->data, kCuda, to.numel() * 4);
}

}  // namespace

TEST_CASE("cupti: launches have the times of their records, and the rest has its own") {
  FakeCuda fake;
  const Cupti cupti;
  const Tensor there = floats(4);
  const int events_before = fake.calls("record");
  const Profile p = profiler::profile([&] {
    {
      const auto operation = op(kMatmul);
      {
        const auto kernel = launch("matmul", "tiled", &kMatmul, 100);
        cupti.kernel("_ZN2wt4gemmIfLi4EEEvPf", 1000);
        cupti.kernel("_ZN2wt4gemmIfLi4EEEvPf", 2000);
      }
      cupti.copy(1, 4096, 500);
    }
    cupti.kernel("_Z6othersPf", 300, 9);
  });
  CHECK(fake.calls("record") == events_before);  // nothing is queued beside the program's work
  CHECK(p.device_times_from() == "cupti");
  const Done* kernel = find(p, "matmul", "tiled");
  REQUIRE(kernel);
  CHECK(kernel->device_ns() >= 3000);
  CHECK(kernel->device_ns() < 1'000'000'000);
  // On the host's clock: CUPTI's is 54 years off. Its reading takes some time.
  CHECK(kernel->device_begin_ns > kernel->begin_ns - 10'000'000);
  CHECK(kernel->device_begin_ns < kernel->end_ns + 10'000'000);
  CHECK_FALSE(kernel->device_only);
  const Done* copied = find(p, "memcpy to device");
  REQUIRE(copied);
  CHECK(copied->device_only);
  CHECK(copied->device_ns() == 500);
  CHECK(copied->bytes == 4096);
  CHECK(copied->host_ns() == 0);
  REQUIRE(find(p, "matmul"));
  CHECK(copied->parent == find(p, "matmul")->id);
  CHECK(copied->stream == kernel->stream);
  const Done* others = find(p, "others");
  REQUIRE(others);
  CHECK(others->parent == 0);
  CHECK(others->stream != kernel->stream);
  const std::vector<Row> rows = p.rows();
  REQUIRE(row(rows, "matmul"));
  CHECK(row(rows, "matmul")->device_self_ns == kernel->device_ns() + 500);
  CHECK(row(rows, "matmul")->calls == 1);
  REQUIRE(row(rows, "others"));
  CHECK(row(rows, "others")->device_self_ns == 300);
  CHECK(mentions(p.table(), "Times of the device: CUPTI's records"));
  CHECK(mentions(p.json(), "\"device_times_from\":\"cupti\""));
  cupti.check_off();
}

TEST_CASE("cupti: what the readings of the clocks leave open is no difference of speeds") {
  FakeCuda fake;
  const Tensor there = floats(4);
  const auto two_kernels = [&](const Cupti& cupti) {
    const Profile p = profiler::profile([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      const auto kernel = launch("exp", "rows", &kExp);
      const FakeNode both[] = {{"_Z4expAPf", 0, 0, 100'000}, {"_Z4expBPf", 0, 0, 200'000}};
      cupti.call(both, 2, 7);
    });
    const Done* const kernel = find(p, "exp");
    REQUIRE(kernel);
    return *kernel;
  };
  {
    const Cupti cupti("late");
    CHECK(two_kernels(cupti).device_ns() == 300'000);
  }
  const Cupti cupti("fast");
  const Done kernel = two_kernels(cupti);
  CHECK(kernel.device_begin_ns > kernel.begin_ns - 5'000'000);
  CHECK(kernel.device_begin_ns < kernel.end_ns + 5'000'000);
}

TEST_CASE("cupti: what a graph's replay runs appears under its operators") {
  FakeCuda fake;
  const Cupti cupti;
  {
    const Tensor a = floats(4), b = floats(4);
    Graph graph{kCuda};
    const auto work = [&] {
      copy(b, a);  // node 0 is nobody's
      {
        const auto operation = op(kExp);
        const auto kernel = launch("exp", "rows", &kExp, 64);
        copy(a, b);
        copy(b, a);
      }
      const auto backward = op(kMatmul, Kind::backward);
      const auto kernel = launch("matmul", "tiled", &kMatmul);
      copy(a, b);
    };
    graph.warm_up(work);
    graph.capture(work);
    REQUIRE(graph.size() == 4);
    int lost = 0;
    fake.launching = [&](size_t nodes) {
      CHECK(nodes == 4);
      const FakeNode all[] = {{nullptr, 8, 16, 100},
                              {"_Z4expAPf", 0, 0, 200},
                              {"_Z4expBPf", 0, 0, 300},
                              {"_Z4gemmPf", 0, 0, 400}};
      cupti.call(all, int(nodes) - lost, 13);
    };
    const int line = __LINE__ + 3;
    const Profile p = profiler::profile([&] {
      const auto step = profiler::range("step");
      graph.replay();
      graph.replay();
    });
    const Done* replay = find(p, "graph");
    REQUIRE(replay);
    CHECK(replay->kind == Kind::kernel);
    CHECK(mentions(describe_frame(replay->frame), str("cupti_test.cpp:", line)));
    CHECK(replay->device_ns() == 0);  // its kernels have it
    i64 inside = 0, count = 0;
    for (const Done& e : p.events())
      if (e.parent == replay->id) {
        CHECK(e.device_only);
        CHECK(e.id > replay->id);
        CHECK(e.stream == graph.stream().native());
        inside += e.device_ns();
        ++count;
      }
    CHECK(count == 4);
    CHECK(inside == 1000);
    std::vector<Row> rows = p.rows();
    REQUIRE(row(rows, "graph"));
    CHECK(row(rows, "graph")->calls == 2);
    CHECK(row(rows, "graph")->device_self_ns == 0);
    CHECK(row(rows, "graph")->device_total_ns == 2000);
    REQUIRE(row(rows, "exp"));
    CHECK(row(rows, "exp")->device_self_ns == 2 * 500);
    CHECK(row(rows, "exp")->flops == 2 * 64);
    CHECK_FALSE(row(rows, "exp")->backward);
    REQUIRE(row(rows, "matmul.backward"));
    CHECK(row(rows, "matmul.backward")->device_self_ns == 2 * 400);
    CHECK(row(rows, "matmul.backward")->backward);
    REQUIRE(row(rows, "memcpy within"));
    rows = p.rows({.group_by = "kernel"});
    REQUIRE(row(rows, "exp:rows"));
    CHECK(row(rows, "exp:rows")->device_self_ns == 2 * 500);
    rows = p.rows({.nested = true});
    REQUIRE(row(rows, "step"));
    CHECK(row(rows, "step")->device_total_ns == 2000);
    for (const char* group : {"operator", "kernel", "line", "module"}) {
      i64 sum = 0;
      for (const Row& r : p.rows({.group_by = group})) sum += r.device_self_ns;
      CHECK(sum == 2000);
    }

    const TempDir dir;
    profiler::write_trace(dir / "trace.json", p);
    profiler::write_timeline(dir / "page.html", p);
    const std::string trace = slurp(dir / "trace.json");
    size_t kernels = 0;
    for (size_t at = 0; (at = trace.find("\"name\":\"exp:rows", at)) != std::string::npos; ++at)
      ++kernels;
    CHECK(kernels == 4);  // on the stream's track alone
    CHECK(mentions(trace, "\"name\":\"graph <- cupti_test.cpp:"));

    // One record is missing: nobody knows which, so functions are all that is said.
    lost = 1;
    const Profile less = profiler::profile([&] { graph.replay(); });
    CHECK_FALSE(find(less, "exp"));
    REQUIRE(find(less, "expA"));
    CHECK(row(less.rows(), "expA")->device_self_ns == 200);
    fake.launching = nullptr;
  }
  cupti.check_off();
  memory::empty_cache();
}

TEST_CASE("cupti: a graph's row has the time of events where there are no records") {
  FakeCuda fake;
  const Environment off("WT_CUPTI", "off");
  const Tensor a = floats(4), b = floats(4);
  Graph graph{kCuda};
  const auto work = [&] { copy(a, b); };
  graph.warm_up(work);
  graph.capture(work);
  const Profile p = profiler::profile([&] { graph.replay(); });
  REQUIRE(find(p, "graph"));
  CHECK(find(p, "graph")->device_ns() > 0);
  CHECK(p.device_times_from() == "events");
  CHECK(p.notes().empty());
  CHECK(
      mentions(p.table(), "Times of the device: events around launches (no CUPTI: WT_CUPTI=off)"));
  CHECK(mentions(p.json(), "\"device_times_from\":\"events\",\"no_cupti\":\"WT_CUPTI=off\""));
}

TEST_CASE("cupti: one that refuses leaves the profile with events, and a note") {
  FakeCuda fake;
  const Tensor there = floats(4);
  struct Refusal {
    const char* pretends;
    const char* note;
  };
  for (const Refusal& r : {Refusal{"taken", "another tool uses CUPTI in this process: nsys, ncu"},
                           Refusal{"denied", "ERR_NVGPUCTRPERM"},
                           Refusal{"old", "cuptiActivityEnable: CUPTI_ERROR_INVALID_KIND"}}) {
    const Cupti cupti(r.pretends);
    const Profile p = profiler::profile([&] { const auto kernel = launch("exp", "rows", &kExp); });
    CHECK(p.device_times_from() == "events");
    REQUIRE(find(p, "exp"));
    CHECK(find(p, "exp")->device_ns() > 0);
    CHECK(p.notes().size() == 1);
    CHECK(mentions(all_notes(p), r.note));
    cupti.check_off();
  }
  const Environment wrong("WT_CUPTI", "/no/such/libcupti.so");
  const Profile p = profiler::profile([&] { const auto kernel = launch("exp", "rows", &kExp); });
  CHECK(p.device_times_from() == "events");
  CHECK(mentions(p.table(), "(no CUPTI: WT_CUPTI: /no/such/libcupti.so cannot be loaded"));
}

TEST_CASE("cupti: records that there was no room for are said") {
  FakeCuda fake;
  const Cupti cupti;
  const Tensor there = floats(4);
  const auto kernels = [&](int n) {
    const std::vector<FakeNode> nodes(size_t(n), FakeNode{"_Z4gemmPf", 0, 0, 1});
    return [&cupti, nodes] { cupti.call(nodes.data(), int(nodes.size()), 7); };
  };
  const Profile few = profiler::profile(kernels(100), {.max_events = 30});
  CHECK(few.dropped() == 70);
  CHECK(few.events().size() == 30);
  CHECK(mentions(all_notes(few), "70 of the device's records were lost"));
  // What CUPTI has for buffers is bounded, too: 64 of a MiB.
  const Profile many = profiler::profile(kernels(400'000));
  CHECK(cupti.count("most buffers") == 64);
  CHECK(many.dropped() > 0);
  CHECK(many.dropped() + i64(many.events().size()) == 400'000);
  const Profile all = profiler::profile(kernels(100));
  CHECK(all.dropped() == 0);
  CHECK(all.notes().empty());
  cupti.check_off();
}

TEST_CASE("cupti: profiles inside of each other, and ranges that are left open") {
  FakeCuda fake;
  const Cupti cupti;
  const Tensor there = floats(4);
  Profile inner;
  const Profile outer = profiler::profile([&] {
    {
      const auto kernel = launch("exp", "first", &kExp);
      cupti.kernel("_Z4expAPf", 100);
    }
    inner = profiler::profile([&] {
      profiler::range_push("open");
      const auto kernel = launch("exp", "second", &kExp);
      cupti.kernel("_Z4expAPf", 200);
    });
    CHECK(cupti.count("subscribers") == 1);
    const auto kernel = launch("exp", "third", &kExp);
    cupti.kernel("_Z4expAPf", 300);
  });
  profiler::range_pop();
  const std::pair<const char*, i64> times[] = {{"first", 100}, {"second", 200}, {"third", 300}};
  for (const auto& [variant, ns] : times) {
    REQUIRE(find(outer, "exp", variant));
    CHECK(find(outer, "exp", variant)->device_ns() == ns);
  }
  CHECK(find(inner, "exp", "second")->device_ns() == 200);
  CHECK_FALSE(find(inner, "expA"));  // others' launches are not in it
  cupti.check_off();
}

TEST_CASE("cupti: a profile of the cpu, and one without times, load nothing") {
  FakeCuda fake;
  const Cupti cupti;
  const Tensor x = empty({4});
  (void)profiler::profile([&] {
    const auto r = profiler::range("cpu");
    CHECK(cupti.count("subscribers") == 0);
  });
  const Tensor there = floats(4);
  (void)profiler::profile([&] { CHECK(cupti.count("subscribers") == 0); }, {.device_times = false});
  const Profile events = profiler::profile(
      [&] {
        CHECK(cupti.count("subscribers") == 0);
        const auto kernel = launch("exp", "rows", &kExp);
      },
      {.device_records = false});
  CHECK(events.device_times_from() == "events");
  {
    const profiler::Scope dropped;  // without stop()
    CHECK(cupti.count("subscribers") == 1);
  }
  cupti.check_off();
}

TEST_CASE("cupti: names of kernels' functions are short") {
  using profiler::function_name;
  CHECK(function_name("_ZN2wt4gemmIfLi4EEEvPf") == "gemm<float, 4>");
  CHECK(function_name("_Z4gemmPf") == "gemm");
  CHECK(function_name("_ZN2wt12_GLOBAL__N_14rowsIfEEvPKfPf") == "rows<float>");
  CHECK(function_name("sm90_xmma_gemm_f32f32_tn_n") == "sm90_xmma_gemm_f32f32_tn_n");
  CHECK(function_name("_Z5largeISt4pairIS0_IS0_IffES1_ES2_IS1_S1_EEEvv").substr(0, 5) == "large");
  CHECK(function_name(nullptr) == "(a kernel without a name)");
}

TEST_CASE("cupti: it is looked for by version, in the toolkit's places") {
  static std::vector<std::string> asked;
  asked.clear();
  const LibraryLoader nothing{[](const char* file) -> void* {
                                asked.push_back(file);
                                return nullptr;
                              },
                              [](void*, const char*) -> void* { return nullptr; }};
  const Environment none("WT_CUPTI", nullptr), home("CUDA_HOME", "/cuda"),
      path("CUDA_PATH", nullptr), venv("VIRTUAL_ENV", nullptr), conda("CONDA_PREFIX", nullptr);
  const auto loaded = profiler::cupti::load(nothing);
  CHECK(loaded.api == nullptr);
  CHECK_FALSE(loaded.broken);
  CHECK(mentions(loaded.why_not, "there is no libcupti.so.13"));
  std::vector<std::string> expected;
  for (const std::string file : {"libcupti.so.13", "libcupti.so.12", "libcupti.so"})
    for (const char* folder : {"", "/cuda/lib/", "/cuda/lib64/", "/cuda/extras/CUPTI/lib64/",
                               "/usr/local/cuda/extras/CUPTI/lib64/", "/usr/local/cuda/lib64/"})
      expected.push_back(folder + file);
  CHECK(asked == expected);
  // Another library by that name.
  const LibraryLoader wrong{[](const char*) -> void* { return &asked; },
                            [](void*, const char*) -> void* { return nullptr; }};
  CHECK(mentions(profiler::cupti::load(wrong).why_not, "lacks cuptiSubscribe"));
}
