// Hidden cases of the lab on allocators: a rule that is held beside it (watched.h), and what real
// training steps have asked for.
#include <map>
#include <utility>

#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/factories.h"
#include "warptape/core/mode.h"
#include "warptape/core/profiler.h"
#include "warptape/kernels/cuda/allocator.h"
#include "warptape/labs/support/cases.h"
#include "watched.h"

using namespace wt;
using namespace watched;
using wt::lab::Draws;

namespace {

i64 some_size(Draws& draws) {
  const i64 kind = draws.whole(0, 9);
  if (kind < 6) return draws.whole(0, 20000);
  return kind < 9 ? draws.whole(20000, MiB) : draws.whole(MiB, 5 * MiB);
}

}  // namespace

WT_LAB_CASE("blocks are aligned, lie in one segment, and do not overlap", 15) {
  for (const i64 gap : {i64(0), i64(4096)}) {
    Watched a(i64(1) << 40, gap);
    std::vector<char*> held;
    for (int i = 0; i < 1500; ++i) {
      if (held.size() < 40 || draws.whole(0, 1)) {
        char* const at = a.take(some_size(draws), int(draws.whole(0, 1)));
        expect(at, "take() returned null, and the system had room", "null");
        held.push_back(at);
      } else {
        std::swap(held[size_t(draws.whole(0, i64(held.size()) - 1))], held.back());
        a.give(held.back());
        held.pop_back();
      }
    }
  }
}

WT_LAB_CASE("a loop whose steps are alike asks the system for nothing", 15) {
  Watched a;
  std::vector<i64> sizes;
  for (int i = 0; i < 60; ++i) sizes.push_back(some_size(draws));
  i64 calls = 0;
  for (int step = 0; step < 5; ++step) {
    std::vector<char*> held;
    for (const i64 n : sizes) held.push_back(a.take(n));
    for (size_t i = held.size(); i-- > 0;) a.give(held[i]);
    if (step == 0) calls = a.memory.calls;
    expect(a.memory.calls == calls,
           str("step ", step, " of the same sizes made ", a.memory.calls - calls,
               " calls of the system"),
           "reuse");
  }
}

WT_LAB_CASE("a large free block serves many small requests", 15) {
  Watched a;
  const i64 count = draws.whole(20, 40), each = 2 * kSegment / count / kUnit * kUnit;
  char* const large = a.take(2 * kSegment);
  a.give(large);
  const i64 calls = a.memory.calls;
  for (i64 i = 0; i < count; ++i) a.take(each - draws.whole(0, kUnit - 1));
  expect(a.memory.calls == calls,
         str("4 MiB were free, and ", count, " blocks of ", each, " bytes made ",
             a.memory.calls - calls, " calls of the system"),
         "split");
  Watched b;
  for (i64 i = 0; i < 4096; ++i) b.take(0);
  expect(b.memory.reserved == kSegment,
         str("4096 blocks of no bytes took ", b.memory.reserved, " bytes, not one segment"),
         "split");
}

WT_LAB_CASE("free neighbours become one block, in any order, and never across segments", 20) {
  Watched a;  // segments lie side by side
  const i64 count = draws.whole(5, 9), each = kSegment / count / kUnit * kUnit;
  for (int round = 0; round < 6; ++round) {
    std::vector<char*> parts;
    for (i64 i = 0; i < count; ++i) parts.push_back(a.take(each));
    for (const i64 i : draws.order(count)) a.give(parts[size_t(i)]);
    char* const whole = a.take(kSegment);
    expect(a.memory.segments.size() == 1,
           str(count, " blocks of a segment were given back, and 2 MiB did not fit into it"),
           "merge");
    a.give(whole);
  }
  // Two segments, side by side by chance, are two.
  char *const x = a.take(kSegment), *const y = a.take(kSegment);
  a.give(x);
  a.give(y);
  char* const longer = a.take(kSegment + kUnit);
  expect(a.memory.segments.size() == 3,
         "a block lies in two segments that only happen to be neighbours", "segment");
  a.give(longer);
  a.trim();
  expect(a.memory.segments.empty(),
         str("everything is free, and after trim() ", a.memory.segments.size(),
             " segments are not back at the system"),
         "trim");
  char* const kept = a.take(100);
  a.give(a.take(3 * MiB));
  a.trim();
  expect(a.memory.segments.size() == 1 && a.memory.holder(kept, 100),
         "trim() gave the segment of a block back that is in use, or kept one that is free",
         "trim");
  a.end();
  expect(a.memory.segments.empty(), "the allocator has ended and kept segments", "trim");
}

WT_LAB_CASE("the smallest block that fits, the lowest of several, streams apart", 20) {
  Watched a(i64(1) << 40, 8192);
  Rule rule;
  std::map<i64, const char*> segments;  // of the rule's numbers
  std::vector<std::pair<char*, std::pair<i64, i64>>> held;
  for (int i = 0; i < 800; ++i) {
    if (held.size() > 60 || (!held.empty() && draws.whole(0, 2) == 0)) {
      std::swap(held[size_t(draws.whole(0, i64(held.size()) - 1))], held.back());
      a.give(held.back().first);
      rule.give(held.back().second);
      held.pop_back();
      continue;
    }
    const i64 bytes = draws.whole(0, 3) ? kUnit * draws.whole(1, 600) : some_size(draws);
    const int stream = int(draws.whole(0, 2));
    const i64 before = rule.segments;
    const auto want = rule.take(bytes, stream);
    char* const at = a.take(bytes, stream);
    expect(at, "take() returned null, and the system had room", "null");
    const std::string what = str("request ", i, ", of ", bytes, " bytes on stream ", stream, ", ");
    const i64 more = i64(a.memory.segments.size()) - rule.segments;
    if (more > 0 && rule.segments == before)
      wt::lab::fail(what + "took a segment, and a free block was large enough", "best");
    expect(more >= 0, what + "was served by a block of another stream, or none that was free",
           "stream");
    expect(a.memory.reserved == rule.reserved,
           str(what, "made the segments ", a.memory.reserved, " bytes, not ", rule.reserved),
           "size");
    const char* const segment = a.memory.holder(at, 1);
    if (rule.segments > before) segments[want.first] = segment;
    expect(
        segment == segments[want.first] && at - segment == want.second,
        what + "was not served by the smallest free block that fits, or not by the lowest of these",
        "best");
    held.push_back({at, want});
  }
}

WT_LAB_CASE("where the device is full, what is free goes back before anybody is refused", 10) {
  Watched a(8 * MiB);
  char *const x = a.take(2 * MiB, 1), *const y = a.take(2 * MiB, 2), *const z = a.take(100, 3);
  a.give(x);
  a.give(y);
  char* const large = a.take(6 * MiB, 4);
  expect(large, "6 MiB were refused while 4 MiB lay free in segments of other streams", "retry");
  expect(a.memory.holder(z, 100), "a segment with a block in use went back", "trim");
  expect(a.take(3 * MiB, 4) == nullptr, "3 MiB came out of a device that is full", "null");
  expect(a.take(1, 3), "after a refusal the allocator gives nothing any more", "null");
  a.give(large);
  expect(a.take(5 * MiB, 1), "5 MiB were refused, and 6 MiB were free", "retry");
}

namespace {

// What steps of a small network asked for and gave back, in order: > 0 a request, < 0 the number
// of the request that ends, from 1.
struct Recorder : profiler::Observer {
  std::vector<i64> events{}, sizes{};
  std::map<const void*, i64> open{};
  void allocated(const profiler::Memory& m) noexcept override {
    if (m.device != Device::cpu()) return;
    sizes.push_back(m.bytes);
    open[m.storage] = i64(sizes.size());
    events.push_back(i64(sizes.size()));
  }
  void released(const profiler::Memory& m) noexcept override {
    const auto o = open.find(m.storage);
    if (o == open.end()) return;
    events.push_back(-o->second);
    open.erase(o);
  }
};

// Steps of batches of these sizes.
Recorder record(Draws& draws, const std::vector<i64>& batches) {
  Recorder r;
  const Tensor w1 = tensor(draws.reals(96 * 256, -1, 1)).reshape({96, 256}).requires_grad_();
  const Tensor w2 = tensor(draws.reals(256 * 64, -1, 1)).reshape({256, 64}).requires_grad_();
  const profiler::ObserverScope watch(r);
  for (const i64 n : batches) {
    const Tensor x = full({n, 96}, 0.5);
    mean(square(matmul(tanh(matmul(x, w1)), w2))).backward();
    const NoGrad no_grad;
    for (Tensor w : {w1, w2}) {
      w -= w.grad() * 0.01;
      w.zero_grad();
    }
  }
  return r;
}

void replay(Watched& a, const Recorder& r) {
  std::vector<char*> at(r.sizes.size() + 1);
  for (const i64 e : r.events)
    if (e > 0)
      at[size_t(e)] = a.take(r.sizes[size_t(e) - 1]);
    else
      a.give(at[size_t(-e)]);
}

// The library's own allocator for cuda on the same requests, over a runtime that only counts.
CudaPoolStats library_pool(const Recorder& r) {
  static char* next = reinterpret_cast<char*>(0x200000000000);  // NOLINT: no memory is there
  CudaApi api{};
  api.memory_info = [](size_t* free, size_t* total) {
    *free = *total = size_t(1) << 40;
    return 0;
  };
  api.take_memory = [](void** at, size_t bytes) {
    *at = next;
    next += up_to(i64(bytes), kUnit);
    return 0;
  };
  api.free_memory = [](void*) { return 0; };
  api.device_synchronize = [] { return 0; };
  api.last_error = [] { return 0; };
  CudaPool pool(api, 0, false);
  std::vector<void*> at(r.sizes.size() + 1);
  for (const i64 e : r.events)
    if (e > 0)
      at[size_t(e)] = pool.take(r.sizes[size_t(e) - 1], nullptr);
    else
      pool.give(at[size_t(-e)]);
  return pool.stats();
}

std::string reserved_text(const Watched& a, const CudaPoolStats& library) {
  return str("of ", a.peak / 1024, " KiB that were in use at most the allocator reserved ",
             a.memory.peak / 1024, " KiB in ", a.memory.calls, " calls, and the library's own ",
             library.peak_reserved / 1024, " KiB in ", library.mallocs);
}

}  // namespace

WT_LAB_CASE("training steps of this library, replayed beside the library's own allocator", 5) {
  const Recorder steps = record(draws, {300, 300, 300, 300, 300, 300});
  const CudaPoolStats library = library_pool(steps);
  Watched a;
  replay(a, steps);
  expect(a.memory.calls <= i64(library.mallocs) + 2, reserved_text(a, library), "reuse");
  expect(a.memory.peak <= library.peak_reserved + kSegment, reserved_text(a, library), "best");
}

WT_LAB_CHALLENGE("steps whose batches grow: little more is reserved than is in use") {
  std::vector<i64> batches;
  for (i64 n = 200; n < 3000; n += draws.whole(150, 250)) batches.push_back(n);
  const Recorder steps = record(draws, batches);
  const CudaPoolStats library = library_pool(steps);
  Watched a(i64(1) << 40, 0, true);
  replay(a, steps);
  expect(a.memory.peak * 10 <= a.peak * 16,
         reserved_text(a, library) + ": more than 1.6 times what was in use", "grow");
  expect(a.memory.calls <= 2 * i64(batches.size()),
         str(batches.size(), " steps: ", reserved_text(a, library)), "grow");
}
