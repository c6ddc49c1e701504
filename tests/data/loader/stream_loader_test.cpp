// StreamLoader: the order of records, shares of processes, resuming, errors, what is held.
#include "warptape/data/stream_loader.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <set>
#include <thread>

#include "warptape/core/factories.h"
#include "warptape/data/stream_sources.h"
#include "warptape/tests/simt/device_memory.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"

using namespace wt;
using namespace wt::data;

namespace {

// What happened to the records of a source.
struct Ledger {
  std::atomic<i64> read = 0, skipped = 0, decoded = 0, live = 0, most = 0, open = 0, most_open = 0;
};
void raise_to(std::atomic<i64>& most, i64 now) {
  for (i64 was = most; was < now && !most.compare_exchange_weak(was, now);) {}
}

struct Counted {
  i64 value = -1;
  Ledger* ledger = nullptr;
  Counted() = default;
  Counted(i64 v, Ledger* l) : value(v), ledger(l) {
    if (l) raise_to(l->most, ++l->live);
  }
  Counted(Counted&& o) noexcept : value(o.value), ledger(std::exchange(o.ledger, nullptr)) {}
  Counted& operator=(Counted&& o) noexcept {
    std::swap(value, o.value);
    std::swap(ledger, o.ledger);
    return *this;
  }
  ~Counted() {
    if (ledger) --ledger->live;
  }
};

// Parts of lengths[p] records, each 1000 p + its number in the part.
template <bool kSkips>
struct Parts {
  using Record = Counted;
  std::vector<i64> lengths;
  std::shared_ptr<Ledger> ledger = std::make_shared<Ledger>();
  i64 torn = -1;    // its reading throws, as often as `times` says
  i64 rotten = -1;  // its decoding does
  std::shared_ptr<std::atomic<int>> times = std::make_shared<std::atomic<int>>(1);

  struct Plain {
    const Parts* of;
    i64 part, at = 0;
    Plain(const Parts* p, i64 k) : of(p), part(k) {
      raise_to(of->ledger->most_open, ++of->ledger->open);
    }
    Plain(Plain&& o) noexcept : of(std::exchange(o.of, nullptr)), part(o.part), at(o.at) {}
    ~Plain() {
      if (of) --of->ledger->open;
    }
    bool next(Counted& r) {
      if (at == of->lengths[size_t(part)]) return false;
      const i64 value = 1000 * part + at;
      if (value == of->torn && of->times->fetch_sub(1) > 0) throw DataError("torn\n  Try glue");
      r = Counted(value, of->ledger.get());
      ++of->ledger->read;
      ++at;
      return true;
    }
  };
  struct Skipping : Plain {
    using Plain::Plain;
    bool skip() {
      if (this->at == this->of->lengths[size_t(this->part)]) return false;
      ++this->at;
      ++this->of->ledger->skipped;
      return true;
    }
  };
  using Reader = std::conditional_t<kSkips, Skipping, Plain>;

  i64 parts() const { return i64(lengths.size()); }
  Reader open(i64 part) const {
    if (lengths[size_t(part)] < 0) throw std::runtime_error("no such part");
    return Reader(this, part);
  }
  std::string part_name(i64 part) const { return str("p", part); }
  std::pair<i64, i64> decode(Counted r, i64 epoch, i64 place) const {
    ++ledger->decoded;
    if (r.value == rotten && times->fetch_sub(1) > 0) throw std::runtime_error("rotten");
    return {r.value, 100'000 * epoch + place};
  }
};
using Counting = Parts<false>;

template <class L>
std::vector<i64> values(L& loader) {
  std::vector<i64> seen;
  for (auto& [x, y] : loader)
    for (const i64 v : x.template to_vector<i64>()) seen.push_back(v);
  return seen;
}
std::vector<i64> sorted(std::vector<i64> v) {
  std::sort(v.begin(), v.end());
  return v;
}
std::vector<i64> everything(const std::vector<i64>& lengths) {
  std::vector<i64> all;
  for (size_t p = 0; p < lengths.size(); ++p)
    for (i64 i = 0; i < lengths[p]; ++i) all.push_back(1000 * i64(p) + i);
  return all;
}

const std::vector<i64> kLengths{7, 0, 13, 1, 30, 5};

}  // namespace

TEST_CASE("stream loader: parts by turns, in their order") {
  const LeakGuard leaks;
  StreamLoader in_order{Counting{kLengths}, {.batch = 4}};
  CHECK(values(in_order) == everything(kLengths));
  CHECK(in_order.state() == StreamPosition{1, 0});
  // Two at a time: parts 0 and 1, then 2, 4 after the first and 3, 5 after the second.
  StreamLoader by_turns{Counting{{2, 1, 1, 2}}, {.batch = 4, .interleave = 2}};
  CHECK(values(by_turns) == std::vector<i64>{0, 1000, 1, 3000, 2000, 3001});
  Batch b;
  const Counting s{{3, 3, 3, 3, 3}};
  StreamLoader open{s, {.batch = 15, .interleave = 3}};
  REQUIRE(open.next(b));
  CHECK(s.ledger->most_open == 3);
  CHECK(b.y.to_vector<i64>()[14] == 14);  // its place in the epoch
}

TEST_CASE("stream loader: the same batches for any number of workers, another order each epoch") {
  const LeakGuard leaks;
  for (const i64 interleave : {1, 3, 100})
    for (const i64 buffer : {1, 8, 1000}) {
      CAPTURE(interleave, buffer);
      StreamOptions o{
          .batch = 4, .shuffle = true, .buffer = buffer, .seed = 5, .interleave = interleave};
      StreamLoader none{Counting{kLengths}, o};
      std::vector<std::vector<i64>> epochs;
      for (int e = 0; e < 3; ++e) epochs.push_back(values(none));
      CHECK(sorted(epochs[0]) == everything(kLengths));
      CHECK(sorted(epochs[2]) == everything(kLengths));
      CHECK(epochs[0] != epochs[1]);
      CHECK(epochs[1] != epochs[2]);
      for (const int workers : {1, 2, 5}) {
        o.workers = workers;
        StreamLoader some{Counting{kLengths}, o};
        for (int e = 0; e < 3; ++e) CHECK(values(some) == epochs[size_t(e)]);
      }
      o.seed = 6;
      StreamLoader other{Counting{kLengths}, o};
      CHECK(values(other) != epochs[0]);
    }
}

// Of one part, so that its order is not shuffled: a record comes at most a buffer too early, and
// over many seeds each of those held comes first equally often.
TEST_CASE("stream loader: a draw chooses among the records of the buffer") {
  std::map<i64, int> first;
  const i64 buffer = 8, n = 40;
  const int seeds = 2000;
  for (u64 seed = 0; seed < u64(seeds); ++seed) {
    StreamLoader loader{Counting{{n}},
                        {.batch = n, .shuffle = true, .buffer = buffer, .seed = seed}};
    const std::vector<i64> seen = values(loader);
    for (i64 place = 0; place < n; ++place)
      if (seen[size_t(place)] >= place + buffer) FAIL("a record that was not read yet");
    ++first[seen[0]];
  }
  CHECK(i64(first.size()) == buffer);
  for (const auto& [value, times] : first) {
    CAPTURE(value);
    // 250 of 2000, deviation 14.8.
    CHECK(times > 250 - 75);
    CHECK(times < 250 + 75);
  }
}

TEST_CASE("stream loader: the last batch, and drop_last") {
  for (const int workers : {0, 2})
    for (const bool drop : {false, true}) {
      CAPTURE(workers, drop);
      for (const i64 n : {8, 10}) {
        StreamLoader loader{Counting{{n}}, {.batch = 4, .drop_last = drop, .workers = workers}};
        std::vector<i64> sizes;
        for (auto& [x, y] : loader) sizes.push_back(x.size(0));
        std::vector<i64> expected{4, 4};
        if (n == 10 && !drop) expected.push_back(2);
        CHECK(sizes == expected);
      }
    }
}

TEST_CASE("stream loader: shares of processes by parts, of few parts by records") {
  for (const bool shuffle : {false, true})
    for (const i64 world : {2, 3, 6, 7, 20}) {
      CAPTURE(shuffle, world);
      std::vector<i64> all;
      i64 least = 1000, most = 0;
      for (i64 rank = 0; rank < world; ++rank) {
        StreamLoader mine{Counting{kLengths},
                          {.batch = 3,
                           .shuffle = shuffle,
                           .buffer = 5,
                           .interleave = 2,
                           .rank = rank,
                           .world = world}};
        std::vector<i64> part;
        try {
          part = values(mine);
        } catch (const UsageError&) {  // an empty part is all that it has
          CHECK(world == 6);
        }
        least = std::min(least, i64(part.size()));
        most = std::max(most, i64(part.size()));
        all.insert(all.end(), part.begin(), part.end());
      }
      CHECK(sorted(all) == everything(kLengths));
      if (world > 6) CHECK(most - least <= 1);
    }
}

namespace {

// Goes on from every batch of two epochs; `reads(state)` is the most that a resume may read.
template <class S, class F>
void resumes_everywhere(StreamOptions o, F reads) {
  for (const int workers : {0, 2}) {
    CAPTURE(workers, o.shuffle, o.drop_last, o.interleave);
    o.workers = workers;
    std::vector<std::pair<StreamPosition, std::vector<i64>>> whole;  // before each batch
    StreamLoader straight{S{kLengths}, o};
    Batch b;
    for (int epoch = 0; epoch < 2; ++epoch)
      for (;;) {
        const StreamPosition at = straight.state();
        const bool more = straight.next(b);
        whole.emplace_back(at, more ? b.x.template to_vector<i64>() : std::vector<i64>{});
        if (more) whole.back().second.push_back(b.y.template to_vector<i64>()[0]);
        if (!more) break;
      }
    for (size_t from = 0; from < whole.size(); ++from) {
      CAPTURE(from);
      const S source{kLengths};
      StreamLoader resumed{source, o};
      if (from % 2) REQUIRE(resumed.next(b));  // was in use before
      const i64 used = source.ledger->read;
      resumed.set_state(whole[from].first);
      for (size_t k = from; k < std::min(from + 3, whole.size()); ++k) {
        const bool more = resumed.next(b);
        REQUIRE(more == !whole[k].second.empty());
        if (k == from && workers == 0) {
          CHECK(source.ledger->read - used <= reads(whole[from].first));
          CHECK(source.ledger->decoded <= (from % 2 ? 8 : 4));
        }
        if (!more) continue;
        std::vector<i64> got = b.x.template to_vector<i64>();
        got.push_back(b.y.template to_vector<i64>()[0]);
        CHECK(got == whole[k].second);
      }
    }
  }
}

}  // namespace

TEST_CASE("stream loader: it goes on from every batch with the same bits") {
  const LeakGuard leaks;
  for (const bool shuffle : {false, true})
    for (const bool drop : {false, true})
      for (const i64 interleave : {1, 3}) {
        const StreamOptions o{.batch = 4,
                              .shuffle = shuffle,
                              .buffer = 9,
                              .seed = 2,
                              .drop_last = drop,
                              .interleave = interleave};
        resumes_everywhere<Parts<false>>(o, [](const StreamPosition&) { return i64(56); });
        // With skip() what is read is the buffer and one batch.
        resumes_everywhere<Parts<true>>(
            o, [&](const StreamPosition&) { return shuffle ? i64(9 + 4) : i64(4); });
      }
}

TEST_CASE("stream loader: a position that the epoch does not have is refused") {
  for (const int workers : {0, 2}) {
    StreamLoader loader{Counting{{10}}, {.batch = 4, .workers = workers}};
    Batch b;
    loader.set_state({0, 3});  // behind the last batch
    CHECK(!loader.next(b));
    CHECK(loader.state() == StreamPosition{1, 0});
    loader.set_state({0, 4});
    std::string text;
    try {
      loader.next(b);
    } catch (const UsageError& e) {
      text = e.what();
    }
    CHECK(text.find("there is no batch 4 in epoch 0 (10 records)") != text.npos);
    CHECK(loader.state() == StreamPosition{0, 4});
    CHECK_THROWS_AS(loader.set_state({-1, 0}), UsageError);
    CHECK_THROWS_AS(loader.set_state({0, -1}), UsageError);
    CHECK_THROWS_AS(loader.set_state({0, INT64_MAX}), UsageError);
    loader.set_state({0, 2});
    REQUIRE(loader.next(b));
    CHECK(b.x.to_vector<i64>() == std::vector<i64>{8, 9});
  }
}

TEST_CASE("stream loader: an error names part and record, and nothing is lost") {
  const LeakGuard leaks;
  for (const int workers : {0, 1, 3})
    for (const bool shuffle : {false, true})
      for (const bool reading : {true, false}) {
        CAPTURE(workers, shuffle, reading);
        const StreamOptions o{.batch = 4, .shuffle = shuffle, .buffer = 6, .workers = workers};
        StreamLoader good{Counting{kLengths}, o};
        Counting bad{kLengths};
        (reading ? bad.torn : bad.rotten) = 4011;
        StreamLoader loader{bad, o};
        std::vector<i64> seen;
        std::string text;
        int thrown = 0;
        for (Batch b;;) {
          const StreamPosition before = loader.state();
          try {
            if (!loader.next(b)) break;
          } catch (const std::exception& e) {
            text = e.what();
            ++thrown;
            CHECK(loader.state() == before);
            continue;
          }
          for (const i64 v : b.x.to_vector<i64>()) seen.push_back(v);
        }
        CHECK(seen == values(good));
        CHECK(thrown == 1);
        CHECK(text.find(reading ? "DataError: torn\n  in record 11 of part 4 (p4), batch "
                                : "rotten\n  in record 11 of part 4 (p4), batch ") == 0);
        CHECK(text.find(" of epoch 0, stream (anonymous namespace)::Parts<false>") != text.npos);
        CHECK((text.find(", worker ") != text.npos) == (workers > 0));
        if (reading) CHECK(text.ends_with("\n  Try glue"));
      }
}

TEST_CASE("stream loader: parts that cannot be opened, streams without records, wrong options") {
  const LeakGuard leaks;
  for (const int workers : {0, 2}) {
    StreamLoader closed{Counting{{4, -1}}, {.batch = 4, .workers = workers}};
    Batch b;
    REQUIRE(closed.next(b));
    std::string text;
    try {
      closed.next(b);
    } catch (const std::runtime_error& e) {
      text = e.what();
    }
    CHECK(text.find("no such part\n  in part 1 (p1), batch 1 of epoch 0") == 0);

    const StreamOptions few{.batch = 4, .drop_last = true, .workers = workers};
    CHECK_THROWS_AS((StreamLoader{Counting{{0, 0}}, few}.next(b)), UsageError);
    CHECK_THROWS_AS((StreamLoader{Counting{{2, 1}}, few}.next(b)), UsageError);
    CHECK_THROWS_AS((StreamLoader{Counting{{}}, few}.next(b)), UsageError);
  }
  for (const StreamOptions& o :
       {StreamOptions{.batch = 0}, StreamOptions{.buffer = 0}, StreamOptions{.interleave = 0},
        StreamOptions{.interleave = 4097}, StreamOptions{.rank = 1}, StreamOptions{.rank = -1},
        StreamOptions{.world = 0}, StreamOptions{.workers = -2}, StreamOptions{.prefetch = 0}})
    CHECK_THROWS_AS((StreamLoader{Counting{{4}}, o}), UsageError);
  StreamLoader automatic{Counting{{4}}, {.workers = kAuto}};
  CHECK(automatic.workers() >= 1);
}

TEST_CASE("stream loader: no more records are held than the buffer and the batches ahead") {
  const Counting source{{500, 500, 500, 500}};
  const i64 batch = 5, buffer = 40;
  StreamLoader loader{source,
                      {.batch = batch,
                       .shuffle = true,
                       .buffer = buffer,
                       .interleave = 2,
                       .workers = 2,
                       .prefetch = 1}};
  CHECK(values(loader).size() == 2000);
  // Decoded ones are gone; each worker may have a batch in its hands, and a record is on its way.
  CHECK(source.ledger->most <= buffer + 2 * batch + 1);
  CHECK(source.ledger->live == 0);
  CHECK(source.ledger->most_open == 2);
  CHECK(source.ledger->open == 0);
}

// The second batch would take a minute.
TEST_CASE("stream loader: it ends promptly while its workers read ahead", "[wall]") {
  const LeakGuard leaks;
  const auto begin = std::chrono::steady_clock::now();
  const auto slow = [](i64) {
    return [i = 0](i64& v) mutable {
      v = i++;
      if (i > 6000) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      return true;
    };
  };
  for (int i = 0; i < 4; ++i) {
    StreamLoader loader{generated<i64>(slow), {.batch = 6000, .workers = 3}};
    Tensor t;
    REQUIRE(loader.next(t));
    if (i % 2) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (i > 1) loader.set_state({0, 0});
  }
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(30));
}

TEST_CASE("stream loader: batches come to the device, the same in the same order", "[streams]") {
  const LeakGuard leaks;
  for (const int workers : {0, 2}) {
    CAPTURE(workers);
    const WithStreams on(SimtStreams::lazy, 1);
    StreamOptions o{.batch = 4, .shuffle = true, .buffer = 9, .workers = workers};
    StreamLoader plain{Counting{kLengths}, o};
    o.device = Device::simt();
    Counting torn{kLengths};
    torn.torn = 2005;
    StreamLoader moved{torn, o};
    int thrown = 0;
    for (int epoch = 0; epoch < 2; ++epoch) {
      std::vector<i64> seen;
      for (Batch b;;) try {
          if (!moved.next(b)) break;
          CHECK(b.x.device() == Device::simt());
          for (const i64 v : b.x.to_vector<i64>()) seen.push_back(v);
        } catch (const DataError&) {
          ++thrown;
        }
      CHECK(seen == values(plain));
    }
    CHECK(thrown == 1);
    CHECK(moved.state() == plain.state());
    CHECK(moved.stats().bytes_to_device == 2 * 56 * (8 + 8));
  }
}

TEST_CASE("stream loader: its statistics, and moving it") {
  StreamLoader a{Counting{kLengths}, {.batch = 4, .workers = 1}};
  Batch b;
  REQUIRE(a.next(b));
  StreamLoader c = std::move(a);
  for (auto& batch : c) b = batch;
  CHECK(c.stats().batches == 14);
  CHECK(c.stats().dataset > 0);
  CHECK(c.stats().next > 0);
  CHECK(c.source().lengths == kLengths);
  c.reset_stats();
  CHECK(c.stats().batches == 0);
}
