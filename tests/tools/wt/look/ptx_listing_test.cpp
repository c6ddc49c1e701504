// PTX with counts on the page of `wt look`, from what the emulator writes.
#include "warptape/tools/wt/look/ptx_listing.h"

#include "warptape/core/error.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/temp_dir.h"

using namespace wt;
using namespace wt::tools;

namespace {

constexpr char kProfile[] =
    "kernel\tmine<float>\t2\t24\n"
    "8\t256\t0\t0\t/p/a.cu\t2\tld.param.u64 %rd1, [_ZN2wt4mineIfEEvPf_param_0];\n"
    "8\t40\t8\t40\t/p/a.cu\t3\t@%p2 ld.global.f32 %f1, [%rd1];\n"
    "0\t0\t0\t0\t/p/a.cu\t3\t@!%p2 fma.rn.f32 %f2, %f1, %f1, %f1;\n"
    "8\t256\t0\t0\t/p/a.cu\t4\tfma.rn.f32 %f3, %f1, %f1, %f1;\n"
    "kernel\tothers\t1\t10\n"
    "1\t32\t0\t0\t\t0\tret;\n";

std::vector<LookPtx> profile(const std::string& text) {
  const TempDir dir;
  spit(dir / "profile.tsv", text);
  return read_ptx_profile(dir / "profile.tsv");
}

Look look_of(const char* title, int launches) {
  Look look{.contract = "c", .variant = "v", .shape = "1", .dtype = "f32"};
  look.kernels.emplace_back();
  look.kernels[0].counts.kernel = title;
  look.kernels[0].counts.launches = uint64_t(launches);
  return look;
}

std::vector<std::string> source(const std::string&) { return {"", "", "y = a < b;"}; }
bool has(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("look, PTX: a kernel's counts are those of the look's launches") {
  Look look = look_of("mine<float> [c]", 1);
  take_ptx(look, profile(kProfile));
  REQUIRE(look.ptx.size() == 1);
  REQUIRE(look.ptx[0].lines.size() == 4);
  CHECK(look.ptx[0].registers == 24);
  const LookPtxLine& load = look.ptx[0].lines[1];
  CHECK((load.executed == 4 && load.lanes == 20 && load.requests == 4 && load.units == 20));
  CHECK((load.file == "/p/a.cu" && load.line == 3));
  CHECK(look.ptx[0].lines[0].text == "ld.param.u64 %rd1, [param_0];");

  const std::string cards = ptx_cards(look, source);
  CHECK(has(cards, "a.cu:3 <code>y = a &lt; b;</code>"));
  CHECK(has(cards, "<td>4</td><td>5</td><td>5</td><td><code>@%p2 ld.global.f32"));
  CHECK(has(cards, "<tr class=\"never\"><td></td><td></td><td></td><td><code>@!%p2 fma"));
  CHECK_FALSE(has(cards, "Not here"));
}

TEST_CASE("look, PTX: instructions by kind, guards aside") {
  Look look = look_of("mine<float> [c]", 2);
  take_ptx(look, profile(kProfile));
  const std::vector<PtxMix> mix = ptx_mix(look.ptx.at(0));
  REQUIRE(mix.size() == 3);
  CHECK((mix[0].kind == "global memory" && mix[0].executed == 8));
  CHECK((mix[1].kind == "parameters" && mix[1].executed == 8));
  CHECK((mix[2].kind == "fused multiply-add" && mix[2].executed == 8));
}

TEST_CASE("look, PTX: no such kernel is said, other text is refused") {
  Look look = look_of("theirs [c]", 1);
  take_ptx(look, profile(kProfile));
  CHECK(look.ptx.empty());
  CHECK(has(ptx_cards(look, source), "Not here: on cuda other kernels do this"));
  CHECK(profile("").empty());
  for (const char* text :
       {"1\t1\t0\t0\t\t0\tret;\n", "kernel\tk\t0\t1\n", "kernel\tk\t1\n",
        "kernel\tk\t1\t1\n1\tx\t0\t0\t\t0\tret;\n", "kernel\tk\t1\t1\n1\t1\t0\t0\t\t0\n"}) {
    INFO(text);
    CHECK_THROWS_AS(profile(text), DataError);
  }
  CHECK_THROWS_AS(read_ptx_profile("/no/such/file"), DataError);
}
