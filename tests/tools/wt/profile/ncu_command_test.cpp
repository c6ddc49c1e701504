// Rows 110 and 112: from operators to what Nsight Compute calls their kernels, and from nvprof's
// options to what there is now.
#include "warptape/tools/wt/profile/ncu_command.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <regex>

#include "warptape/kernels/run.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"

using namespace wt;
using namespace wt::tools;

namespace {

// As ncu prints a kernel of ours.
std::string printed(const std::string& function) {
  return "void wt::cuda::<unnamed>::" + function + "(int)";
}
bool matches(const std::string& contract, const std::string& function) {
  const std::string regex = kernel_regex(contract);
  INFO(regex);
  return std::regex_search(printed(function), std::regex(regex));
}

// "log_add_exp_backward_b" of "LogAddExp": without case, marks and what says which of its kernels.
std::string bare(std::string text) {
  text = std::regex_replace(text, std::regex("(_naive|_backward|_b|_cohorts|_step)"), "");
  std::string out;
  for (const char c : text)
    if (std::isalnum(static_cast<unsigned char>(c))) out += char(std::tolower(c));
  return out;
}

}  // namespace

TEST_CASE("row 110: every contract with kernels on the GPU has their names") {
  for (const ContractInfo& c : all_contracts()) {
    if (c.count(DeviceKind::simt) == 0) continue;
    INFO(c.name);
    CHECK_FALSE(kernel_regex(c.name).empty());
  }
  CHECK(kernel_regex("no_such_contract").empty());
}

TEST_CASE("row 110: every kernel of the committed machine code is some contract's") {
  std::vector<std::regex> all;
  std::string formulas;
  for (const ContractInfo& c : all_contracts()) {
    const std::string regex = kernel_regex(c.name);
    if (regex.empty()) continue;
    all.emplace_back(regex);
    formulas += bare(regex) + " ";
  }
  int kernels = 0;
  std::ifstream table(WT_SOURCE_DIR "/bench/sass/sm_90a.txt");
  for (std::string line; std::getline(table, line);) {
    const std::string family = line.substr(0, line.find_first_of("< "));
    if (family.empty() || family[0] == '#' || family == "kernel") continue;
    INFO(family);
    const std::string name =
        printed(family.starts_with("reduce_") ? family + "<wt::red::Sum, 1>" : family + "<float>");
    const bool found = std::any_of(all.begin(), all.end(),
                                   [&](const std::regex& r) { return std::regex_search(name, r); });
    // Pointwise kernels and updates are called by their formulas in that table.
    CHECK((found || mentions(formulas, bare(family))));
    ++kernels;
  }
  CHECK(kernels > 500);
}

TEST_CASE("row 110: names match the operator's kernels and not its neighbours'") {
  CHECK(matches("softmax_forward", "softmax_warp<float, (int)4, (int)32>"));
  CHECK_FALSE(matches("softmax_forward", "softmax_backward_warp<float, 4>"));
  CHECK(matches("softmax_backward", "softmax_backward_warp<float, 4>"));
  CHECK(matches("exp", "pointwise<wt::pw::Exp, float>"));
  CHECK(matches("exp", "pointwise_naive<wt::pw::Exp, __half>"));
  CHECK_FALSE(matches("exp", "pointwise<wt::pw::Expm1, float>"));
  CHECK_FALSE(matches("exp", "pointwise<wt::pw::Grad<wt::pw::Exp, 0>, float>"));
  CHECK(matches("exp_backward", "pointwise<wt::pw::Grad<wt::pw::Exp, 0>, float>"));
  CHECK(matches("pow_backward_b", "pointwise<wt::pw::Grad<wt::pw::Pow, (int)1>, float>"));
  CHECK_FALSE(matches("pow_backward_a", "pointwise<wt::pw::Grad<wt::pw::Pow, 1>, float>"));
  CHECK(matches("sum", "reduce_rows<wt::red::Sum, wt::cuda::<unnamed>::Typed<float>>"));
  CHECK_FALSE(matches("sum", "reduce_rows<wt::red::Extreme, float>"));
  CHECK(matches("adam_step", "rule_kernel<wt::detail::AdamRule, float, __half, 4>"));
  CHECK_FALSE(matches("adam_step", "rule_kernel<wt::detail::AdamaxRule, float, __half, 4>"));
  CHECK(matches("loss_seed", "seed_kernel"));
  CHECK(std::regex_search("sm90_xmma_gemm_f32f32_tf32f32_tn_n_tilesize128x128x32",
                          std::regex(kernel_regex("matmul"))));
}

TEST_CASE("row 110: the command for an operator, its backward, a variant, a row of a profile") {
  CHECK(ncu_command("relu.backward", {.program = "wt train fashion", .skip = 3, .count = 2}) ==
        "env WT_NVTX=1 ncu --set full --import-source yes --nvtx --target-processes all "
        "--kernel-name-base demangled --kernel-name 'regex:[ :](pointwise(_naive)?<[a-z:]*Grad<"
        "[a-z:]*Relu, *(\\(int\\))?0>,)' --launch-skip 3 --launch-count 2 --force-overwrite "
        "--export relu_backward wt train fashion");
  const std::string both = ncu_command("softmax");
  CHECK(mentions(both, "softmax_(naive|column|warp|block)"));
  CHECK(mentions(both, "softmax_backward_"));
  CHECK(mentions(both, "--export softmax ./program"));
  CHECK(ncu_command("net.head.softmax.backward <- net.cpp:57") == ncu_command("softmax.backward"));
  CHECK(
      mentions(ncu_command("matmul:tiled <- net.cpp:57"), "WT_NVTX=1 WT_KERNEL=matmul:tiled ncu"));
  CHECK(mentions(ncu_command("conv_forward"), "--export conv_forward"));
  CHECK(mentions(ncu_command("linear.backward"), "matmul_"));  // the same contract as forward
}

TEST_CASE("row 110: what is no operator gets the near name, what launches nothing is refused") {
  CHECK(message_of([] { ncu_command("sofmax"); }) ==
        "UsageError: [ncu] no operator is called 'sofmax'; did you mean 'softmax'?");
  CHECK(mentions(message_of([] { ncu_command("matmul:tild"); }), "did you mean 'tiled'?"));
  CHECK(message_of([] { ncu_command("view"); }) ==
        "UsageError: [ncu] view launches no kernel: there is nothing to look at");
  CHECK_THROWS_AS(ncu_command(""), UsageError);
  CHECK_THROWS_AS(ncu_command("x'; rm -rf y"), UsageError);
}

TEST_CASE("row 112: docs/traces.md says what has come of nvprof's options") {
  std::ifstream in(WT_SOURCE_DIR "/docs/traces.md");
  const std::string page{std::istreambuf_iterator<char>(in), {}};
  for (const char* option :
       {"--print-gpu-summary", "--print-gpu-trace", "--print-api-trace", "--metrics", "--events",
        "--kernels", "--analysis-metrics", "--export-profile", "--csv", "--profile-from-start",
        "--openacc-profiling", "--cpu-profiling", "--unified-memory-profiling"})
    CHECK(mentions(page, option));
}
