// The page of `wt look`, of kernels whose sectors, conflicts and lanes are known by hand.
#include "warptape/tools/wt/look/look_page.h"

#include <bit>

#include "warptape/core/str.h"
#include "warptape/tests/simt/access_patterns.h"
#include "warptape/tests/simt/device_memory.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tools/wt/lab/json_value.h"
#include "warptape/tools/wt/look/access_picture.h"
#include "warptape/tools/wt/look/look_json.h"
#include "warptape/tools/wt/look/phase_picture.h"
#include "warptape/tools/wt/look/roof_picture.h"

using namespace wt;
using namespace wt::tools;

namespace {

template <class F>
SimtKernelCounts counted(F launch) {
  simt_start_counting();
  launch();
  const std::vector<SimtKernelCounts> all = simt_stop_counting();
  REQUIRE(all.size() == 1);
  return all[0];
}

// The accesses of one kind; of all lines.
std::vector<LineAccess> accesses(const SimtKernelCounts& k, SimtAccess::Kind kind, bool shared) {
  std::vector<LineAccess> found;
  for (const CountedFile& f : counts_by_line(k))
    for (const CountedLine& l : f.lines)
      for (const LineAccess& a : l.accesses)
        if (a.kind == kind && a.shared == shared) found.push_back(a);
  return found;
}

int times(const std::string& text, const std::string& part) {
  int n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

SimtRequest strided_request(unsigned lanes, u64 stride) {
  SimtRequest r{.lanes = lanes};
  for (unsigned i = 0; i < 32; ++i) r.offset[i] = i * stride;
  return r;
}

std::string page_of(SimtKernelCounts k, const FindSource& find) {
  Look look{.contract = "test", .variant = "v", .shape = "32x32", .dtype = "f32"};
  look.bytes = 8192, look.flops = 1024;
  look.kernels.push_back({std::move(k)});
  return look_page(look, find);
}
std::vector<std::string> no_source(const std::string&) { return {}; }

const std::vector<std::string>& patterns_source() {
  static const std::vector<std::string> lines = [] {
    std::vector<std::string> all(200, "");
    for (size_t i = 0; i < all.size(); ++i) all[i] = str("line ", i + 1, " <&>");
    return all;
  }();
  return lines;
}

}  // namespace

TEST_CASE("look: the sectors of a request are drawn with the bytes that are asked for") {
  for (const auto& [stride, sectors, bytes] :
       {std::tuple{4, 4, 32}, {8, 8, 16}, {32, 32, 4}, {128, 32, 4}, {0, 1, 4}}) {
    CAPTURE(stride);
    const std::vector<PicturedSector> found = sectors_of(strided_request(~0u, u64(stride)), 4);
    REQUIRE(int(found.size()) == sectors);
    for (const PicturedSector& s : found) CHECK(std::popcount(s.bytes) == bytes);
  }
  // Of two lanes that straddle a sector's end each is in both sectors.
  const std::vector<PicturedSector> two = sectors_of(strided_request(3, 4), 32);
  REQUIRE(two.size() == 2);
  CHECK(two[0].lanes == 3);
  CHECK(two[1].lanes == 2);
  CHECK(std::popcount(two[1].bytes) == 4);
}

TEST_CASE("look: passes over the banks are as many as the counters say") {
  const auto passes = [](u64 stride, unsigned bytes, bool atomic = false) {
    return passes_of(strided_request(~0u, stride), bytes, atomic).size();
  };
  CHECK(passes(4, 4) == 1);
  CHECK(passes(8, 4) == 2);
  CHECK(passes(128, 4) == 32);  // a column of [32][32]
  CHECK(passes(132, 4) == 1);   // of [32][33]
  CHECK(passes(0, 4) == 1);     // one word for all
  CHECK(passes(0, 4, true) == 32);
  CHECK(passes(8, 8) == 2);    // by half warps
  CHECK(passes(16, 16) == 4);  // by quarters
  const auto column = passes_of(strided_request(~0u, 128), 4, false);
  CHECK(column[5].banks[0].lanes == 1u << 5);
  CHECK(column[5].banks[1].lanes == 0);
  CHECK_FALSE(column[0].conflict);
  CHECK(column[1].conflict);
  for (const PicturedPass& quarter : passes_of(strided_request(~0u, 16), 16, false))
    CHECK_FALSE(quarter.conflict);
}

TEST_CASE("look: pictures and counters of the textbook's kernels agree", "[simt]") {
  if (!simt_can_count()) return;
  const DeviceArray<float> x(std::vector<float>(2048, 1.0f)), out(1024);
  for (const auto& [stride, sectors] : {std::pair{1, 4}, {2, 8}, {32, 32}}) {
    const SimtKernelCounts k = counted([&] { test_strided(out, x, stride, 0); });
    const auto loads = accesses(k, SimtAccess::Kind::load, false);
    REQUIRE(loads.size() == 1);
    CHECK(loads[0].first.lanes == ~0u);
    CHECK(loads[0].units == sectors);
    CHECK(int(sectors_of(loads[0].first, 4).size()) == sectors);
    CHECK(loads[0].wasteful() == (sectors > 4));
    CHECK(times(access_picture(loads[0]), "class=\"sector\"") == sectors);
  }
  for (const bool padded : {false, true}) {
    const SimtKernelCounts k = counted([&] { test_transpose_shared(out, x, padded); });
    CHECK(k.shared_bytes == (padded ? 4 * 32 * 33 : 4 * 32 * 32));
    const auto loads = accesses(k, SimtAccess::Kind::load, true);
    REQUIRE(loads.size() == 1);
    CHECK(passes_of(loads[0].first, 4, false).size() == (padded ? 1 : 32));
    CHECK(times(access_picture(loads[0]), "class=\"bank later\"") == (padded ? 0 : 31));
    // 32 stores to shared memory and 32 loads of device memory, a barrier, and the same again.
    REQUIRE(k.phases.size() == 2);
    CHECK(k.all_phases == 2);
    for (const SimtPhase& p : k.phases) {
      REQUIRE(p.warps.size() == 1);
      CHECK(p.warps[0].device == 32);
      CHECK(p.warps[0].shared == 32);
      CHECK(p.warps[0].exchanges == 0);
    }
    CHECK(k.phases[0].barrier.starts_with("access_patterns.cu:"));
    CHECK(k.phases[1].barrier.empty());
    REQUIRE(k.waits.size() == 1);
    CHECK(k.waits[0].what == "__syncthreads");
    CHECK(k.waits[0].warps == 1);
    CHECK(times(phase_picture(k), "class=\"barrier\"") == 1);
  }
  const SimtKernelCounts odd = counted([&] { test_odd_lanes(out, x); });
  CHECK(accesses(odd, SimtAccess::Kind::load, false)[0].first.lanes == 0xaaaaaaaau);
}

TEST_CASE("look: the page has the numbers beside their lines, and asks no network", "[simt]") {
  if (!simt_can_count()) return;
  const DeviceArray<float> x(std::vector<float>(1024, 1.0f)), out(1024);
  const SimtKernelCounts k = counted([&] { test_transpose_shared(out, x, false); });
  const std::string page = page_of(k, [](const std::string&) { return patterns_source(); });
  CHECK(page.find("transpose_shared&lt;32&gt;") != std::string::npos);
  CHECK(page.find("<tr data-total=\"shared loads\"><td>shared loads</td><td>32</td><td>32.0</td>"
                  "<td class=\"waste\">32.00</td><td>1.00</td>") != std::string::npos);
  CHECK(page.find("<tr data-total=\"device stores\"><td>device stores</td><td>32</td><td>32.0</td>"
                  "<td>4.00</td><td>4.00</td>") != std::string::npos);
  CHECK(page.find("&lt;&amp;&gt;") != std::string::npos);  // the source, escaped
  CHECK(page.find("__syncthreads</td><td>1</td>") != std::string::npos);
  CHECK(page.find("Registers are not known") != std::string::npos);
  CHECK(page.find("0.125 a byte") != std::string::npos);
  for (const char* part : {"http:", "https:", "src=", "url(", "@import", "<script"})
    CHECK(page.find(part) == std::string::npos);
  // Each count leads to a picture that is there.
  for (size_t at = page.find("href=\"#"); at != std::string::npos;
       at = page.find("href=\"#", at + 1)) {
    const std::string id = page.substr(at + 7, page.find('"', at + 7) - at - 7);
    CAPTURE(id);
    CHECK(page.find("id=\"" + id + "\"") != std::string::npos);
  }
  CHECK(page_of(k, no_source).find("--source names the folder") != std::string::npos);
}

TEST_CASE("look: the JSON document is one whatever texts and counts there are") {
  Look look{.contract = "a \"b\"", .variant = "\xff\n", .shape = "", .dtype = "f32"};
  SimtKernelCounts k;
  k.kernel = "k<a, \"b\">";
  SimtAccess load;
  load.bytes = 4, load.requests = load.lanes = load.units = load.least = 1;
  load.first = strided_request(4, 36), load.where = {"/a\tb.cu:3"};
  k.accesses.push_back(load);
  SimtAccess conflict;
  conflict.shared = true, conflict.bytes = 4, conflict.requests = conflict.least = 1;
  conflict.lanes = conflict.units = 2, conflict.first = strided_request(3, 128);
  k.accesses.push_back(conflict);
  k.waits.push_back({"__syncthreads", "/a\tb.cu:4", 2});
  k.phases.push_back({.warps = {{1, 2, 3}, {1, 0, 0}}, .barrier = "b.cu:4"});
  look.kernels.push_back({k, LookCode{.kernel = "k", .pipe = "alu", .mix = "alu:12,lsu:2.5"}});
  look.kernels.push_back({});
  const auto found = [](const std::string&) { return std::vector<std::string>(9, "x\r \"<"); };
  const labs::Json all = labs::read_json(look_json(look, found), "look");
  CHECK(all.string("contract") == look.contract);
  CHECK(all.string("variant") == "\uFFFD\n");
  CHECK(all.find("roofline")->find("contract")->kind == labs::Json::Kind::null);
  CHECK(all.find("no_ptx")->kind == labs::Json::Kind::null);
  REQUIRE(all.items("kernels").size() == 2);
  const labs::Json& one = all.items("kernels")[0];
  CHECK(one.find("occupancy")->kind == labs::Json::Kind::null);  // no block
  CHECK(one.find("machine_code")->find("mix")->find("lsu")->text == "2.5");
  const labs::Json& warp = one.items("timeline")[0].items("warps")[1];
  CHECK(warp.whole("fewer") == 5);
  const std::vector<labs::Json>& files = one.items("source");
  REQUIRE(files.size() == 2);
  const auto line_of = [](const labs::Json& f, i64 number) {
    for (const labs::Json& l : f.items("lines"))
      if (l.whole("line") == number) return l;
    return labs::Json{};
  };
  // An access without a place comes to a line without a number; a wait's file is that of an access.
  const labs::Json third = line_of(files[0], 3);
  CHECK(files[0].string("path") == "/a\tb.cu");
  CHECK(third.string("text") == "x\r \"<");
  REQUIRE(third.items("accesses").size() == 1);
  const labs::Json& sector = third.items("accesses")[0].items("first_sectors")[0];
  CHECK(sector.whole("offset") == 64);
  CHECK(sector.items("lanes")[0].text == "2");
  CHECK(line_of(files[0], 4).items("accesses").empty());
  const labs::Json placeless = line_of(files[1], 0);
  const labs::Json& passes = placeless.items("accesses")[0];
  CHECK(passes.items("first_passes").size() == 2);
  CHECK(passes.items("first_passes")[1].flag("conflict"));
  CHECK(passes.flag("waste"));
}

TEST_CASE("look: kernels have the names of the table of machine code") {
  for (const auto& [title, name] : std::vector<std::pair<std::string, std::string>>{
           {"softmax_warp<float, 1, 8> [softmax]", "softmax_warp<f32,1,8>"},
           {"pointwise<pw::Add, float>", "add<f32>"},
           {"pointwise_naive<pw::IsNan, double>", "isnan_naive<f64>"},
           {"pointwise<pw::Grad<pw::Mul, 1>, float>", "mul_backward_b<f32>"},
           {"reduce_columns<red::Sum, Typed<float>, 1>", "reduce_columns<sum,f32,1>"},
           {"layer_norm_block<NormForward<float> >", "layer_norm_block<NormForward<f32>>"},
           {"rule_kernel<detail::AdamRule, float, NoHalf, 4>", "adam_step<f32,NoHalf,4>"},
           {"matmul_tiled<float, 64, false>", "matmul_tiled<f32,64,false>"},
           {"printer", "printer"}})
    CHECK(machine_code_name(title) == name);
}

TEST_CASE("look: a launch lies under the roof that binds it") {
  const LookGpu gpu;
  CHECK(under_roof(1000, 1000, "f32", false).gflop_s == gpu.memory_gb_s);
  CHECK(under_roof(1000, 1000, "f32", false).by_memory);
  CHECK(under_roof(1e6, 1000, "f32", false).gflop_s == gpu.f32_gflop_s);
  CHECK(under_roof(1e6, 1000, "bf16", true).gflop_s == gpu.tensor_gflop_s);
  CHECK(!under_roof(1e6, 1000, "f64", false).by_memory);
  CHECK(under_roof(0, 1000, "f32", false).intensity == 0);
  Look copy;
  copy.bytes = 8;
  CHECK(roof_picture(copy).empty());
}
