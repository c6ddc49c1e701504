// The file of `wt bench machine`: read as it was written, refused when it is damaged or another's.
#include "warptape/core/machine.h"

#include <filesystem>

#include "warptape/data/plan.h"
#include "warptape/tests/support/ambient.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/temp_dir.h"

using namespace wt;
using machine::Figure;
using machine::Measured;
using wt_test::Environment;

namespace {

Measured figures_of_here() {
  Measured m = machine::this_machine();
  m.devices = {{"cpu", "cpu", false}, {"simt", "simt", true}};
  m.figures = {
      {"disk", "write", "synchronised", "", 1.0 / 3, 0, "GB/s", 1 << 30, "/data\tof \"mine\""},
      {"disk", "read", "cold", "", 2, 0, "GB/s", 1 << 30, "past the system's memory"},
      {"disk", "read", "warm", "", 9, 0, "GB/s", 1 << 30, ""},
      {"cpu", "copy", "2 threads", "", 20.25, 0.125, "GB/s", 1 << 27, ""},
      {"cpu", "copy", "1 thread", "", 11, 0.125, "GB/s", 1 << 27, ""},
      {"cpu", "product", "exact", "f32", 150, 0, "GFLOP/s", 1024, ""},
      {"cpu", "launch", "issue", "", 0.5, 0, "us", 1, ""},
      {"cpu", "launch", "back to back", "", 0.25, 0, "us", 1, ""},
      {"simt", "to device", "pinned", "", 3, 0, "GB/s", 1 << 20, "host time of the executor"},
      {"simt", "to device", "pageable", "", 2, 0, "GB/s", 1 << 20, "host time of the executor"},
      {"cuda:7", "to device", "pinned", "", 50, 0, "GB/s", 1 << 28, ""}};
  return m;
}

}  // namespace

TEST_CASE("row 119: what was measured is read as it was written") {
  const Measured m = figures_of_here();
  const Measured back = Measured::parse(m.text(), "m.tsv");
  CHECK(back.text() == m.text());
  CHECK(back.processor == m.processor);
  CHECK(back.processors == m.processors);
  CHECK(back.memory_bytes == m.memory_bytes);
  CHECK(back.date == m.date);
  REQUIRE(back.figures.size() == m.figures.size());
  CHECK(back.figures[0].value == 1.0 / 3);
  CHECK(back.figures[0].note == "/data of \"mine\"");  // no tabs within a field
  CHECK(back.copy_gb_s(Device::cpu()) == 20.25);
  CHECK(back.product_gflop_s(Device::cpu(), DType::f32) == 150);
  CHECK(back.product_gflop_s(Device::cpu(), DType::f32, true) == 0);
  CHECK(back.product_gflop_s(Device::cpu(), DType::f16) == 0);
  CHECK(back.launch_us(Device::cpu()) == 0.25);
  CHECK(back.to_device_gb_s(Device::simt(), true) == 3);
  CHECK(back.to_device_gb_s(Device::simt(), false) == 2);
  CHECK(back.to_host_gb_s(Device::simt(), true) == 0);
  CHECK(back.disk_read_gb_s(true) == 2);
  CHECK(back.disk_read_gb_s(false) == 9);
  CHECK(back.stands_in(Device::simt()));
  CHECK_FALSE(back.stands_in(Device::cpu()));
}

TEST_CASE("row 119: every damaged file is refused, with its line") {
  const std::string text = figures_of_here().text();
  const auto refusal = [](const std::string& t) {
    return message_of([&] { (void)Measured::parse(t, "m.tsv"); });
  };
  for (size_t cut = 0; cut < text.size(); cut += 7) {
    CAPTURE(cut);
    CHECK(mentions(refusal(text.substr(0, cut)), "m.tsv"));
  }
  for (size_t at = 0; at < text.size(); at += 5) {
    std::string changed = text;
    changed[at] ^= 1;
    CAPTURE(at);
    CHECK(mentions(refusal(changed), "m.tsv"));
  }
  CHECK(mentions(refusal(text + "x"), "is not the last one"));
  CHECK(mentions(refusal("warptape tune 1\n"), "m.tsv is no file of wt bench machine"));
  std::string later = text;
  later.replace(later.find("machine 1"), 9, "machine 2");
  CHECK(mentions(refusal(later), "line 1 of a file of wt bench machine is of another version"));
  std::string edited = text;
  edited.replace(edited.find("20.25"), 5, "99.25");
  CHECK(mentions(refusal(edited), "check sum"));
}

TEST_CASE("row 119: measured() finds the file, or says why it is not used") {
  const TempDir folder;
  const std::string path = folder / "sub/m.tsv";
  const Environment file("WT_MACHINE", path.c_str());
  const wt_test::Warnings warnings;
  CHECK(mentions(machine::measured().why_not, "wt bench machine makes it"));
  CHECK(wt_test::warnings().empty());
  const Measured m = figures_of_here();
  machine::keep_measured(m);  // makes the folder too
  CHECK(machine::measured().there());
  CHECK(machine::measured().path == path);
  CHECK(machine::measured().figures.text() == m.text());

  spit(path, m.text().substr(0, 100));
  CHECK(mentions(machine::measured().why_not, "of a file of wt bench machine is missing"));
  CHECK(machine::measured().figures.figures.empty());
  CHECK(wt_test::warnings().size() == 1);  // once, whoever asks

  const auto of_another = [&](const std::function<void(Measured&)>& change) {
    Measured other = m;
    change(other);
    spit(path, other.text());
    return machine::measured().why_not;
  };
  CHECK(mentions(of_another([](Measured& o) { o.processor = "Z80"; }),
                 "is not used: it is of a machine with the processor Z80"));
  CHECK(mentions(of_another([](Measured& o) { o.processors += 1; }), "processors, here there are"));
  CHECK(mentions(of_another([](Measured& o) { o.memory_bytes *= 2; }), "MiB of memory"));
  CHECK(of_another([](Measured& o) { o.memory_bytes += o.memory_bytes / 50; }).empty());

  spit_sparse(path, m.text(), i64{2} << 20);
  CHECK(mentions(machine::measured().why_not, "is no file of wt bench machine"));
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  CHECK_FALSE(machine::measured().there());
}

TEST_CASE("row 119: where the file lies") {
  {
    const Environment off("WT_MACHINE", "off");
    CHECK(machine::measured_file().empty());
    CHECK(machine::measured().why_not == "off (WT_MACHINE)");
    CHECK(
        mentions(message_of([] { machine::keep_measured(figures_of_here()); }), "WT_MACHINE=off"));
  }
  const Environment unset("WT_MACHINE", nullptr), cache("XDG_CACHE_HOME", "/c");
  const std::string path = machine::measured_file();
  CHECK(path.starts_with("/c/warptape/machine-"));
  CHECK(path.ends_with(str("-", machine::this_machine().processors, ".tsv")));
}

TEST_CASE("row 119: data::plan says how long an epoch's bytes take here") {
  const TempDir folder;
  const std::string path = folder / "m.tsv";
  const Environment file("WT_MACHINE", path.c_str());
  constexpr i64 GB = 1'000'000'000;
  const auto why = [&](const char* device, bool plain_file) {
    return data::plan(100 * GB, {.device = 80 * GB, .host = 90 * GB, .device_name = device},
                      {.plain_file = plain_file})
        .why;
  };
  CHECK(why("cuda:7", false).ends_with("; it is read again each epoch"));
  machine::keep_measured(figures_of_here());
  CHECK(why("cuda:7", false)
            .ends_with("; it is read again each epoch; at the 2 GB/s that wt bench machine "
                       "measured of the disk an epoch takes 50 s at least"));
  CHECK(mentions(why("cuda:7", true), "of the disk an epoch takes 50 s at least"));
  const auto to_device = [](const char* device) {
    return data::plan(100 * GB, {.device = 80 * GB, .host = 900 * GB, .device_name = device}).why;
  };
  CHECK(mentions(to_device("cuda:7"),
                 "at the 50 GB/s that wt bench machine measured from "
                 "page-locked memory an epoch takes 2 s at least"));
  CHECK(to_device("simt").find("wt bench machine") == std::string::npos);  // the executor's time
}
