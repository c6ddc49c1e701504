// Event files, read back by a decoder that shares no code with the writer.
#include "warptape/tools/wt/training/tensorboard.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <stdexcept>

#include "warptape/core/error.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/faulty_files.h"
#include "warptape/tests/support/temp_dir.h"

using namespace wt::tools;

namespace {

// CRC-32C bit by bit.
std::uint32_t slow_crc(std::string_view data) {
  std::uint32_t crc = ~0u;
  for (const unsigned char byte : data) {
    crc ^= byte;
    for (int k = 0; k < 8; ++k) crc = (crc >> 1) ^ (crc & 1 ? 0x82f63b78u : 0);
  }
  return ~crc;
}

std::uint32_t masked(std::string_view data) {
  const std::uint32_t crc = slow_crc(data);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

class Bytes {
 public:
  explicit Bytes(std::string_view data) : data_(data) {}
  bool empty() const { return data_.empty(); }
  std::string_view take(std::size_t n) {
    if (n > data_.size()) throw std::runtime_error("cut");
    const std::string_view out = data_.substr(0, n);
    data_.remove_prefix(n);
    return out;
  }
  template <class T>
  T fixed() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= std::uint64_t(byte & 0x7f) << shift;
      if (!(byte & 0x80)) return value;
    }
  }
  std::string_view bytes() { return take(varint()); }

 private:
  std::string_view data_;
};

struct Event {
  double time = 0;
  std::int64_t step = 0;
  std::string version;
  int session = 0;
  std::vector<std::pair<std::string, float>> scalars;
};

std::pair<std::string, float> decode_scalar(std::string_view data) {
  std::pair<std::string, float> out;
  for (Bytes in(data); !in.empty();) {
    switch (in.varint()) {
      case 1 << 3 | 2:
        out.first = in.bytes();
        break;
      case 2 << 3 | 5:
        out.second = in.fixed<float>();
        break;
      default:
        throw std::runtime_error("unknown field of a value");
    }
  }
  return out;
}

Event decode_event(std::string_view data) {
  Event out;
  for (Bytes in(data); !in.empty();) {
    switch (in.varint()) {
      case 1 << 3 | 1:
        out.time = in.fixed<double>();
        break;
      case 2 << 3 | 0:
        out.step = static_cast<std::int64_t>(in.varint());
        break;
      case 3 << 3 | 2:
        out.version = in.bytes();
        break;
      case 5 << 3 | 2:
        for (Bytes summary(in.bytes()); !summary.empty();) {
          if (summary.varint() != (1 << 3 | 2)) throw std::runtime_error("no value");
          out.scalars.push_back(decode_scalar(summary.bytes()));
        }
        break;
      case 7 << 3 | 2: {
        Bytes log(in.bytes());
        if (log.varint() != (1 << 3 | 0)) throw std::runtime_error("no status");
        out.session = static_cast<int>(log.varint());
        break;
      }
      default:
        throw std::runtime_error("unknown field of an event");
    }
  }
  return out;
}

std::vector<Event> decode(const std::string& file) {
  std::vector<Event> out;
  for (Bytes in(file); !in.empty();) {
    const std::string_view length = in.take(8);
    if (in.fixed<std::uint32_t>() != masked(length)) throw std::runtime_error("length's checksum");
    const std::string_view data = in.take(Bytes(length).fixed<std::uint64_t>());
    if (in.fixed<std::uint32_t>() != masked(data)) throw std::runtime_error("data's checksum");
    out.push_back(decode_event(data));
  }
  return out;
}

std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

TEST_CASE("tensorboard: the checksums are those of the published files") {
  CHECK(slow_crc("123456789") == 0xe3069283u);
  const TempDir dir;
  const TensorBoardWriter writer(dir.path);
  const std::string file = slurp(writer.path());
  // Every event file of TensorFlow begins so: a record of 24 bytes, its length's checksum,
  // wall_time.
  CHECK(file.substr(0, 13) == std::string("\x18\0\0\0\0\0\0\0\xa3\x7f\x4b\x22\x09", 13));
  CHECK(file.substr(21, 15) ==
        "\x1a\x0d"
        "brain.Event:2");
}

TEST_CASE("tensorboard: the records of a run have the documented tags and values") {
  const TempDir dir;
  TensorBoardWriter writer(dir / "a/tb");
  StepRecord step{300, 0.5, 2.25, 1e-3};
  writer.log(step);
  step.step = 1'000'000'000'000, step.grad_norm = 1.5, step.scale = 65536;
  step.items_per_second = 1e4, step.bytes = wt::u64{3} << 29;
  writer.log(step, 12.5);
  writer.log(EvalRecord{0, 0, 5.5, {}});
  writer.log(EvalRecord{7, 1, std::nan(""), 0.75});
  writer.add(-1, "x", std::numeric_limits<double>::infinity());
  writer.flush();
  const auto events = decode(slurp(writer.path()));
  REQUIRE(events.size() == 7);
  CHECK(events[0].version == "brain.Event:2");
  CHECK(events[0].time > 1.6e9);
  CHECK(events[1].session == 1);
  CHECK(events[1].step == 0);
  CHECK(events[2].step == 300);
  CHECK(events[2].scalars ==
        std::vector<std::pair<std::string, float>>{{"train/loss", 2.25f}, {"opt/lr", 1e-3f}});
  CHECK(events[3].step == 1'000'000'000'000);
  CHECK(events[3].scalars ==
        std::vector<std::pair<std::string, float>>{{"train/loss", 2.25f},
                                                   {"opt/lr", 1e-3f},
                                                   {"opt/grad_norm", 1.5f},
                                                   {"amp/scale", 65536},
                                                   {"sys/items_per_second", 1e4},
                                                   {"sys/mem_gib", 1.5f},
                                                   {"sys/step_ms", 12.5f}});
  CHECK(events[4].scalars == std::vector<std::pair<std::string, float>>{{"val/loss", 5.5f}});
  REQUIRE(events[5].scalars.size() == 2);
  CHECK(std::isnan(events[5].scalars[0].second));
  CHECK(events[5].scalars[1] == std::pair<std::string, float>{"val/acc", 0.75f});
  CHECK(events[6].step == -1);
  CHECK(std::isinf(events[6].scalars.at(0).second));
}

TEST_CASE("tensorboard: a tag of any bytes becomes one that TensorBoard takes") {
  const TempDir dir;
  TensorBoardWriter writer(dir.path);
  writer.add(1, "a b/c-d_e.f9", 1);
  writer.add(1, "<script>\"x\"&\n", 1);
  writer.add(1, "G\xc3\xbcte", 1);  // a letter beyond ASCII
  writer.add(1, "\xff\xc3", 1);     // not UTF-8
  writer.add(1, std::string_view("a\0b", 3), 1);
  const auto events = decode(slurp(writer.path()));
  REQUIRE(events.size() == 7);
  CHECK(events[2].scalars[0].first == "a b/c-d_e.f9");
  CHECK(events[3].scalars[0].first == "_script__x___");
  CHECK(events[4].scalars[0].first == "G\xc3\xbcte");
  CHECK(events[5].scalars[0].first == "__");
  CHECK(events[6].scalars[0].first == "a_b");
  const std::string before = slurp(writer.path());
  CHECK_THROWS_AS(writer.add(1, "", 1), wt::UsageError);
  writer.add(1, std::span<const TensorBoardScalar>());
  CHECK(slurp(writer.path()) == before);
}

TEST_CASE("tensorboard: a resumed run begins a file that sorts last and takes back later steps") {
  const TempDir dir;
  TensorBoardWriter first(dir.path);
  first.add(11, "a", 1);
  spit(dir / "events.out.tfevents.9999999990.elsewhere", "");  // by a clock that runs ahead
  const TensorBoardWriter resumed(dir.path, 11);
  const TensorBoardWriter again(dir.path, 11);
  const auto names = names_in(dir.path);
  REQUIRE(names.size() == 4);
  CHECK(dir / names[0] == first.path());
  CHECK(dir / names[2] == resumed.path());
  CHECK(dir / names[3] == again.path());
  CHECK(names[2].starts_with("events.out.tfevents.9999999991."));
  const auto events = decode(slurp(resumed.path()));
  REQUIRE(events.size() == 2);
  CHECK(events[1].session == 1);
  CHECK(events[1].step == 11);
}

// The default server of TensorBoard takes no notice of a start: what drops old points of a scalar
// is a point of it at or before their step.
TEST_CASE("tensorboard: a resumed run says the last points before its first step once more") {
  using Scalars = std::vector<std::pair<std::string, float>>;
  const TempDir dir;
  TensorBoardWriter first(dir.path);
  for (const int step : {1, 3, 5, 6}) first.add(step, "train/loss", 10 + step);
  first.add(2, "val/loss", 2);  // has nothing to drop
  first.add(6, "val/acc", 6);   // has nothing to say before
  spit(dir / "events.out.tfevents.1.torn", slurp(first.path()).substr(0, 70));
  spit(dir / "events.out.tfevents.2.other", "no events");
  TensorBoardWriter resumed(dir.path, 4);
  const auto before = decode(slurp(first.path())), events = decode(slurp(resumed.path()));
  REQUIRE(events.size() == 3);
  CHECK(events[1].session == 1);
  CHECK(events[1].step == 4);
  CHECK(events[2].step == 3);
  CHECK(events[2].scalars == Scalars{{"train/loss", 13}});
  CHECK(events[2].time == before[3].time);

  // What the second one took back does not come again.
  resumed.add(4, "train/loss", 24);
  const TensorBoardWriter third(dir.path, 4);
  const auto again = decode(slurp(third.path()));
  REQUIRE(again.size() == 3);
  CHECK(again[2].step == 3);
  const TensorBoardWriter fourth(dir.path, 3);
  const auto earlier = decode(slurp(fourth.path()));
  REQUIRE(earlier.size() == 3);
  CHECK(earlier[2].step == 1);
  CHECK(earlier[2].scalars == Scalars{{"train/loss", 11}});
  CHECK(decode(slurp(TensorBoardWriter(dir.path, 3).path())).size() == 2);  // nothing is later now
  CHECK(decode(slurp(TensorBoardWriter(dir.path, 0).path())).size() == 2);
}

TEST_CASE("tensorboard: when the Nth system call fails, whole records stay and go on, for all N") {
  for (const int error : {ENOSPC, EIO, EDQUOT}) {
    int failures = 0;
    for (int nth = 1;; ++nth) {
      CAPTURE(error, nth);
      const TempDir dir;
      std::optional<TensorBoardWriter> writer;
      bool reached = false;
      std::size_t records = 0;
      {
        const FaultyFiles faults(nth, error);
        const auto tried = [&](auto call) {
          try {
            call();
            return true;
          } catch (const wt::CheckpointError& e) {
            CHECK(std::string(e.what()).find("cannot be written") != std::string::npos);
            ++failures;
            return false;
          }
        };
        if (tried([&] { writer.emplace(dir.path); })) {
          tried([&] { writer->add(1, "a", 1); });
          tried([&] { writer->flush(); });  // a record that could not be written comes now
          records = 3;
          records += tried([&] { writer->add(2, "a", 2); });
        }
        reached = faults.reached();
      }
      CHECK(dir.count() == (writer ? 1 : 0));
      if (writer) CHECK(decode(slurp(writer->path())).size() == records);
      if (!reached) break;
    }
    CHECK(failures == 5);  // open, write of the head, write, fsync, write
  }
}

TEST_CASE("tensorboard: a record that only partly fits is cut off") {
  const TempDir dir;
  TensorBoardWriter writer(dir.path);
  const std::string before = slurp(writer.path());
  {
    const FaultyFiles faults(9, ENOSPC, true);  // eight bytes of the record get there
    CHECK_THROWS_AS(writer.add(1, "a", 1), wt::CheckpointError);
  }
  CHECK(slurp(writer.path()) == before);
  writer.add(2, "b", 1);  // brings the other one along
  CHECK(decode(slurp(writer.path())).at(2).step == 1);
  CHECK(decode(slurp(writer.path())).at(3).step == 2);
}

TEST_CASE("tensorboard: a folder that cannot be is an error that names the file") {
  const TempDir dir;
  spit(dir / "plain", "");
  try {
    const TensorBoardWriter writer(dir / "plain/tb");
    FAIL("must throw");
  } catch (const wt::CheckpointError& e) {
    CHECK(std::string(e.what()).find("plain/tb/events.out.tfevents.") != std::string::npos);
  }
}
