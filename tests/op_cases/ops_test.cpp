// The operator matrix. The cases are the rows of op_case.h; how to rerun one is in runner.h.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "warptape/autograd/op_list.h"
#include "warptape/kernels/run.h"
#include "warptape/kernels/simt/executor.h"
#include "warptape/tests/op_cases/runner.h"
#include "warptape/tests/op_cases/support.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tools/wt/training/factories.h"

using namespace wt;
using namespace wt_test;

namespace {

// WT_SHARD=i/n: every n-th row.
bool in_shard(size_t row) {
  const char* text = std::getenv("WT_SHARD");
  int i = 1, n = 1;
  if (text) std::sscanf(text, "%d/%d", &i, &n);
  return row % size_t(n) == size_t(i - 1);
}
std::vector<const OpCase*> rows() {
  std::vector<const OpCase*> r;
  for (size_t k = 0; k < op_cases().size(); ++k)
    if (in_shard(k) && selection().fits("op", op_cases()[k].name)) r.push_back(&op_cases()[k]);
  return r;
}
bool walks(DeviceKind k) {
  for (const Device& d : test_devices())
    if (d.kind == k) return true;
  return false;
}
bool is_plain() { return simt_flavour() == std::string("plain"); }
// What is read from lists and sources is the same in every shard and every other run of this file
// (asan, race, ptx).
bool is_first_of_all() { return in_shard(0) && is_plain() && walks(DeviceKind::cpu); }
// Sanitizers look at addresses and orders, not at values: there one dtype of a size stands for the
// others, the first of the row.
bool same_accesses_as_another(const Case& c) {
  static const bool plain = is_plain();
  if (plain || !selection().all() || c.layout != 'c') return false;
  for (const DType t : c.row->dtypes) {
    if (t == c.dtype) return false;
    if (item_size(t) == item_size(c.dtype) && (is_floating(t) || c.call().integers)) return true;
  }
  return false;
}
bool wanted(const Case& c) {
  const Selection& s = selection();
  std::string shape;
  for (i64 size : c.call().inputs[0].shape)
    shape += (shape.empty() ? "" : ",") + std::to_string(size);
  return s.fits("sample", std::to_string(c.sample)) && s.fits("dtype", dtype_name(c.dtype)) &&
         s.fits("layout", std::string(1, c.layout)) && s.fits("shape", shape.empty() ? "-" : shape);
}

// Makes what is made once, a mailbox, which may be the gradient's.
void warm_up(const OpCase& row, const Device& d) {
  const std::vector<Case> cases = all_cases(row);
  (void)run_case(cases[0], {d, ""});
  for (const Case& c : cases)
    if (c.call().gradients) return (void)run_case(c, {d, ""});
}

// Winograd's tiles are of two axes.
bool has_its_axes(const OpCase& row, const std::string& variant) {
  const std::string name = row.name;
  return !variant.ends_with(":winograd") || !(name.ends_with("1d") || name.ends_with("3d"));
}

std::filesystem::path source_root() { return std::filesystem::path(WT_SOURCE_DIR); }
std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}
// Every first group of `pattern` in the files of a folder and its rooms that end with `ending`.
std::set<std::string> matches(const char* folder, const std::string& ending, const char* pattern) {
  std::set<std::string> found;
  const std::regex regex(pattern);
  for (const auto& f : std::filesystem::recursive_directory_iterator(source_root() / folder)) {
    if (!f.path().string().ends_with(ending)) continue;
    const std::string text = text_of(f.path());
    for (std::sregex_iterator m(text.begin(), text.end(), regex), end; m != end; ++m)
      found.insert((*m)[1]);
  }
  return found;
}

}  // namespace

TEST_CASE("operators: values and gradients on every device and variant", "[ops]") {
  // Families without a .cu yet run on the cpu alone: matrix_test.cpp counts what runs where.
  std::set<std::string> incomplete;
  for (const OpCase* row : rows()) {
    for (const Device& d : test_devices()) {
      if (!has_kernels(*row, d)) continue;
      warm_up(*row, d);
      for (const std::string& variant : variants_of(*row, d)) {
        if (!selection().fits("variant", variant)) continue;
        const Place place{d, variant};
        int ran = 0;
        bool lacks = false;
        const auto run_those = [&](bool same_as_another) {
          for (const Case& c : all_cases(*row)) {
            if (!wanted(c) || !runs_on(c, d) || same_accesses_as_another(c) != same_as_another)
              continue;
            const LeakGuard guard;
            const Outcome o = run_case(c, place);
            ran += !o.refused && !o.missing;
            lacks |= o.lacks;
            if (o.missing) incomplete.insert(str(" ", device_kind_name(d.kind), ":", row->name));
            if (o.wrong.empty()) continue;
            UNSCOPED_INFO(o.wrong);
            FAIL_CHECK(reproducer(c, place));
          }
        };
        run_those(false);
        if (ran == 0) run_those(true);  // a variant for one dtype
        INFO(row->name << " " << device_kind_name(d.kind) << ":" << variant);
        // What needs a driver's own functions cannot run on an emulated device, which has no
        // driver. Whether there is a cuDNN, and what it takes of a row, is not the build's to say:
        // cuda_cudnn_rows_test.cpp has one that takes all.
        if (selection().all() && !lacks && !variant.ends_with(":cudnn") &&
            has_its_axes(*row, variant))
          CHECK(ran > 0);
      }
    }
  }
  std::string missing;
  for (const std::string& name : incomplete) missing += name;
  if (!missing.empty())
    std::printf("samples that need a kernel of the cpu alone:%s\n", missing.c_str());
  if (const std::string why = missing_on_cpu(); !why.empty()) SKIP_TEST(why.c_str());
}

// On the cpu, where the other runs of this file (race, ptx) would find the same. asan takes one
// sample of a row: a difference is one call hundreds of times with other numbers.
TEST_CASE("operators: first and second derivatives by finite differences", "[ops]") {
  if (!walks(DeviceKind::cpu)) return;
  const int most = is_plain() ? kAllSamples : 1;
  for (const OpCase* row : rows()) {
    if (!has_kernels(*row, Device::cpu())) continue;
    const LeakGuard guard;
    const Derivatives d = check_derivatives(*row, most);
    INFO(row->name);
    CHECK(d.wrong == "");
  }
  if (const std::string why = missing_on_cpu(); !why.empty()) SKIP_TEST(why.c_str());
}

TEST_CASE("operators: error inputs", "[ops]") {
  for (const OpCase* row : rows()) {
    INFO(row->name);
    CHECK(row->errors.size() >= 2);
    for (const Device& d : test_devices()) {
      if (!has_kernels(*row, d)) continue;
      for (const ErrorInput& e : row->errors) {
        try {
          e.call(d);  // makes what is made once, a mailbox
        } catch (const Error&) {}
        const LeakGuard guard;
        INFO(row->name << ", error input \"" << e.label << "\" on " << device_kind_name(d.kind));
        try {
          e.call(d);
          FAIL_CHECK("nothing was thrown");
        } catch (const Error& error) {
          INFO(error.what());
          CHECK(e.is_type(error));
          CHECK(std::string(error.what()).find(e.text) != std::string::npos);
        }
      }
    }
  }
}

TEST_CASE("operators: each has exactly one row", "[ops]") {
  if (!is_first_of_all()) return;
  std::set<std::string> listed, rows;
  for (const OpInfo* i : all_ops()) CHECK(listed.insert(i->name).second);
  for (const OpCase& c : op_cases()) CHECK(rows.insert(c.name).second);
  for (const std::string& name : listed) {
    INFO("add a row for it in tests/op_cases: " << name);
    CHECK(rows.count(name) == 1);
  }
  CHECK(rows.size() == listed.size());
}

TEST_CASE("operators: those of the sources are in the list", "[wall][prologue][ops]") {
  if (!is_first_of_all()) return;
  // These have no row: they give no tensor, are a whole program, or part of a transformation.
  std::set<std::string> listed{"leaf",       "equal",      "allclose",
                               "SavedGraph", "vmap_split", "vmap_join"};
  for (const OpInfo* i : all_ops()) listed.insert(i->name);
  for (const std::string& name :
       matches("autograd", ".cpp", R"re(OpInfo \w+\{\s*\.name = "(\w+)")re")) {
    INFO("not in its family's list at the end of the file: " << name);
    CHECK(listed.count(name) == 1);
  }
}

// Whoever looks for an operator greps for its name: "Tensor exp(", "WT_IN_PLACE(relu_,",
// "WT_WRITES(add_,".
TEST_CASE("operators: each is declared in plain text in a header", "[wall][ops]") {
  if (!is_first_of_all()) return;
  const char* const function = R"re(\nWT_API [\w:<>]+ (\w+)\()re";
  std::set<std::string> declared = matches("autograd/ops", ".h", function), listed;
  declared.merge(matches("core", "tensor.h", R"re(\n  WT_(?:IN_PLACE|WRITES)\((\w+),)re"));
  for (const OpInfo* i : all_ops()) {
    INFO("declared in no header of autograd/ops, nor in core/tensor.h: " << i->name);
    CHECK(declared.count(i->name) == 1);
    listed.insert(i->name);
  }
  for (const std::string& name : matches("autograd/ops", "/pointwise.h", function)) {
    INFO("declared, but not in kernels/pointwise/pointwise_list.h: " << name);
    CHECK(listed.count(name) == 1);
  }
}

// Which of the operators without a contract of their own are views, OpInfo says.
TEST_CASE("operators: views are those that launch nothing and lie in their operand", "[ops]") {
  if (!is_plain() || !walks(DeviceKind::cpu)) return;
  for (const OpCase* row : rows()) {
    if (!has_kernels(*row, Device::cpu())) continue;
    const OpInfo& info = *info_of(row->name);
    const Support& s = support_on(*row, Device::cpu());
    const bool in_operand = s.contracts.empty() && s.aliases;
    INFO(row->name << " launches " << s.contracts.size() << " kernels");
    if (row->contracts.empty()) CHECK(in_operand == info.view);
    if (info.view && !info.composite) CHECK(in_operand);
  }
}

TEST_CASE("operators: what lacks a kernel on simt is said to") {
  if (!is_first_of_all()) return;
  const auto of = [](const std::string& name) -> const Support& {
    for (const OpCase& row : op_cases())
      if (row.name == name) return support_on(row, Device::simt());
    throw UsageError("no row of " + name);
  };
  const auto runs = [](const std::string& contract) {
    for (const ContractInfo& c : all_contracts())
      if (c.name == contract) return c.count(DeviceKind::simt) > 0;
    throw UsageError("no contract " + contract);
  };
  CHECK(of("bmm").extent == std::string("all"));
  CHECK(of("eigh").extent == std::string(runs("eigh") ? "all" : "none"));
  CHECK(of("ctc_loss").extent == std::string(runs("ctc_forward") ? "all" : "none"));
  // The composite of class weights and nll_loss has a part with a kernel of its own.
  CHECK(of("cross_entropy").extent == std::string(runs("nll_forward") ? "all" : "part"));
}

// WT_WRITE_OP_FACTS=1 writes the table instead of comparing it.
TEST_CASE("operators: what wt ops prints is what the checks prove", "[ops]") {
  if (!is_first_of_all()) return;
  if (const std::string why = missing_on_cpu(); !why.empty()) SKIP_TEST(why.c_str());
  const std::filesystem::path file = source_root() / "tools/op_facts.inc";
  const std::string facts = op_facts();
  if (std::getenv("WT_WRITE_OP_FACTS")) std::ofstream(file) << facts;
  INFO("run wt_tests '[ops]' with WT_WRITE_OP_FACTS=1 and look at the difference");
  CHECK(text_of(file) == facts);
}

TEST_CASE("factories: wt ops lists those of the header", "[ops]") {
  if (!is_first_of_all()) return;
  std::set<std::string> listed, contracts;
  for (const tools::Factory& f : tools::kFactories) {
    CHECK(listed.insert(f.name).second);
    if (f.contract && *f.contract) contracts.insert(f.contract);
  }
  CHECK(listed == matches("core", "factories.h",
                          R"re(\nWT_API Tensor (?!from_values|from_rows|from_matrices)(\w+)\()re"));
  for (const ContractInfo& c : all_contracts()) contracts.erase(c.name);
  CHECK(contracts.empty());  // each is one
}

TEST_CASE("contracts: those of the headers are in the list", "[wall][run][ops]") {
  if (!is_first_of_all()) return;
  std::set<std::string> listed;
  for (const ContractInfo& c : all_contracts()) {
    CHECK(listed.insert(c.name).second);
    INFO(c.name << " has no reference on cpu");
    CHECK(c.count(DeviceKind::cpu) > 0);
  }
  for (const std::string& name : matches("kernels", ".h", R"re(\nWT_CONTRACT\((\w+),)re")) {
    INFO("it has no .cpp of its header's name in kernels/: " << name);
    CHECK(listed.count(name) == 1);
  }
}

TEST_CASE("contracts: each belongs to an operator's row", "[ops]") {
  if (!is_first_of_all()) return;
  // Kernels of the optimizers, which tests/optim covers, of the save policies, which
  // tests/autograd/saving/save_policy_test.cpp does, and of factories, which
  // tests/kernels/random/random_kernels_test.cpp and sequence_kernels_test.cpp do.
  std::set<std::string> covered{
      "sgd_step",          "adamw_step",         "step_advance",    "step_restore", "grad_norm",
      "step_decide",       "grad_scale",         "loss_add",        "bit_pack",     "bit_gate",
      "adam_step",         "adagrad_step",       "lion_step",       "rmsprop_step", "ema_step",
      "random_fill",       "sequence",           "nadam_step",      "radam_step",   "muon_step",
      "muon_direction",    "muon_normalize",     "muon_polynomial", "loss_seed",    "grad_unscale",
      "loss_scale_update", "activation_inverse", "exponent_counts", "image_batch",  "image_color",
      "image_erase",       "image_mix",          "image_warp",      "row_batch",    "token_batch",
      "batch_cursor",      "adamax_step",        "adadelta_step",   "rprop_step"};
  std::set<std::string> listed;
  for (const ContractInfo& c : all_contracts()) listed.insert(c.name);
  for (const OpCase& row : op_cases())
    for (const std::string& contract : row.contracts) {
      INFO(row.name << " names the contract " << contract);
      CHECK(listed.count(contract) == 1);
      covered.insert(contract);
    }
  for (const std::string& name : listed) {
    INFO("no row of tests/op_cases names the contract " << name);
    CHECK(covered.count(name) == 1);
  }
}
