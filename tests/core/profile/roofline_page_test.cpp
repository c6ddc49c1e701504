// The roofline page: rows of a profile beside the roofs of the file of wt bench machine, data that
// is safe in a script, and what is said where there is no such file.
#include "warptape/core/profile_roofline.h"

#include "warptape/autograd/ops/matmul.h"
#include "warptape/core/factories.h"
#include "warptape/core/files/json.h"
#include "warptape/core/machine.h"
#include "warptape/core/profile/data.h"
#include "warptape/tests/support/ambient.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/temp_dir.h"

using namespace wt;
using profiler::Event;
using profiler::Kind;
using profiler::Profile;
using wt_test::Environment;

namespace {

constexpr char kBad[] = "</script><img src=x>&\"\\\n\xff";

int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++n;
  return n;
}

std::string page_of(const Profile& p, const profiler::RooflineOptions& o = {}) {
  const TempDir dir;
  profiler::write_roofline(dir / "page.html", p, o);
  return slurp(dir / "page.html");
}

// Between the tags of the data, which must be JSON.
std::string data_of(const std::string& page) {
  const std::string begin = "<script type=\"application/json\" id=\"data\">";
  const size_t at = page.find(begin) + begin.size();
  const std::string data = page.substr(at, page.find("</script>", at) - at);
  JsonReader in(data, "data");
  in.skip_value();
  in.finish();
  return data;
}

Event kernel(const char* name, u32 id, double bytes, double flops, Device d = Device::cpu()) {
  Event e;
  e.kind = Kind::kernel, e.name = name, e.variant = "tiled", e.id = id, e.dtype = f32;
  e.begin_ns = 1000 * id, e.end_ns = 1000 * id + 500;
  e.bytes = bytes, e.flops = flops, e.device = d;
  return e;
}
Profile profile_of(std::vector<Event> events) {
  auto d = std::make_shared<Profile::Data>();
  d->events = std::move(events);
  d->threads = {"main"};
  d->length_ns = 1'000'000, d->steps = 1;
  d->tie();
  return Profile(d);
}

// 100 GB/s and 1,000 GFLOP/s of f32; of simt nothing that counts.
void keep_figures() {
  machine::Measured m = machine::this_machine();
  m.devices = {{"cpu", "a processor", false}, {"simt", "a stand-in", true}};
  m.figures = {{"cpu", "copy", "", "", 100, 0, "GB/s", 1 << 20},
               {"cpu", "product", "exact", "f32", 1000, 0, "GFLOP/s", 512},
               {"simt", "copy", "", "", 7, 0, "GB/s", 1 << 20}};
  machine::keep_measured(m);
}

}  // namespace

TEST_CASE("roofline page: rows by operator, kernel, module and line beside the measured roofs") {
  const TempDir dir;
  const Environment file("WT_MACHINE", (dir / "m.tsv").c_str());
  keep_figures();
  const std::string data =
      data_of(page_of(profile_of({kernel("matmul", 1, 1000, 20'000), kernel("copy", 2, 4000, 0)})));
  CHECK(mentions(data, R"({"name":"copy","gb":100,"gf":0},{"name":"f32","gb":100,"gf":1000})"));
  CHECK(mentions(data, R"("why":"","steps":1,"dropped":0)"));
  // 500 ns for 1,000 bytes and 20,000 FLOPs, which take 10 and 20 ns at these rates.
  CHECK(mentions(data, R"(["matmul:tiled","","",2,1,500,1000,20000,0.04,"arithmetic"])"));
  CHECK(mentions(data, R"(["copy:tiled","","",2,1,500,4000,0,0.08,"memory"])"));
  for (const char* group : {"operator", "kernel", "module", "line"})
    CHECK(count(data, str("[\"", group, "\",[[")) == 1);
}

TEST_CASE("roofline page: without a file of this machine it says how to get one") {
  const TempDir dir;
  const Environment file("WT_MACHINE", (dir / "none.tsv").c_str());
  const std::string data = data_of(page_of(profile_of({kernel("matmul", 1, 1000, 20'000)})));
  CHECK(mentions(data, R"("roofs":[])"));
  CHECK(mentions(data, "none.tsv: wt bench machine makes it"));
  CHECK(mentions(data, R"("matmul:tiled")"));  // the points are there all the same
}

TEST_CASE("roofline page: what stands in for a GPU has no roof") {
  const TempDir dir;
  const Environment file("WT_MACHINE", (dir / "m.tsv").c_str());
  keep_figures();
  const std::string data =
      data_of(page_of(profile_of({kernel("matmul", 1, 1000, 20'000, Device::simt())})));
  CHECK(mentions(data, R"("roofs":[])"));
  CHECK(mentions(data, "simt stands in for a GPU"));
}

TEST_CASE("roofline page: two devices have a roof each, and what was not measured is named") {
  const TempDir dir;
  const Environment file("WT_MACHINE", (dir / "m.tsv").c_str());
  keep_figures();
  const std::string data = data_of(page_of(profile_of(
      {kernel("matmul", 1, 1000, 20'000), kernel("matmul", 2, 1000, 20'000, Device::cuda(0))})));
  CHECK(mentions(data, R"("name":"copy of cpu","gb":100)"));
  CHECK(mentions(data, R"("name":"f32 of cpu","gb":100,"gf":1000)"));
  CHECK(mentions(data, "m.tsv says nothing of cuda:0: wt bench machine measures it"));
}

TEST_CASE("roofline page: names of the program are text, and the data cannot end its script") {
  const Environment none("WT_MACHINE", "off");
  const std::string page =
      page_of(profile_of({kernel(kBad, 1, 1000, 20'000)}), {.title = kBad, .subtitle = kBad});
  CHECK(count(data_of(page), "<") == 0);
  CHECK(count(page, "<img") == 0);
  CHECK(count(page, "<script") == 2);
  CHECK(count(page, "</script>") == 2);
  const std::string plain = page_of(profile_of({kernel("matmul", 1, 1000, 20'000)}));
  CHECK(mentions(plain, "default-src 'none'"));
  for (const char* part : {"https://", " src=", "@import", "url(", "fetch("})
    CHECK(count(plain, part) == 0);
}

TEST_CASE("roofline page: a profile without kernels is a page without rows") {
  const Environment none("WT_MACHINE", "off");
  CHECK(mentions(data_of(page_of(Profile())),
                 R"("groups":[["operator",[]],["kernel",[]],["module",[]],["line",[]]])"));
}

TEST_CASE("roofline page: operators have their module and line, and backward is told apart") {
  const Environment none("WT_MACHINE", "off");
  const Tensor a = ones({64, 64}, {.requires_grad = true});
  const Profile p = profiler::profile([&] { matmul(a, a).backward(ones({64, 64})); });
  const std::string data = data_of(page_of(p, {.title = "t", .subtitle = "one product"}));
  CHECK(mentions(data, "[\"matmul\",\"\",\"roofline_page_test.cpp:"));
  CHECK(data.find("\",0,1,", data.find("[\"matmul\"")) != data.npos);
  CHECK(mentions(data, "[\"matmul.backward\",\"\",\"roofline_page_test.cpp:"));
  CHECK(data.find("\",1,1,", data.find("[\"matmul.backward\"")) != data.npos);
}
