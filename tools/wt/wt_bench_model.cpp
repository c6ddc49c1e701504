// wt bench model
#include <algorithm>
#include <cstdio>
#include <map>

#include "warptape/bench/gpu/measure.h"
#include "warptape/bench/model.h"
#include "warptape/core/input_file.h"
#include "warptape/tools/wt/std_output.h"
#include "warptape/tools/wt/wt.h"

namespace wt::tools {
namespace {

struct PredictionOptions {
  bool json = false, all = false;
  std::vector<std::string> only;
  std::string dtype, before;
};

struct Prediction {
  const bench::MachineCode* code;
  std::vector<bench::Modelled> on;  // modelled_gpus()
};

// A family in a dtype is one row: the form for large aligned tensors, which is that of the widest
// loads, and of several such the one that is predicted to be slowest.
std::vector<Prediction> one_each(std::vector<Prediction> rows) {
  std::map<std::pair<std::string, std::string>, Prediction> best;
  for (Prediction& p : rows) {
    const auto key = std::make_pair(p.code->family(), p.code->dtype());
    const auto [at, added] = best.try_emplace(key, p);
    if (added) continue;
    const bench::MachineCode& old = *at->second.code;
    const bool wider = p.code->load > old.load;
    const bool slower =
        p.code->load == old.load && p.on.back().fraction < at->second.on.back().fraction;
    if (wider || slower) at->second = p;
  }
  std::vector<Prediction> kept;
  for (const auto& [key, p] : best) kept.push_back(p);
  return kept;
}

// The form for tensors of 2^31 elements and more.
bool for_huge_tensors(const bench::MachineCode& code) {
  const auto has = [&](const char* part) { return code.kernel.find(part) != std::string::npos; };
  return has("IndexMap64") || (has("pool") && has(",i64>"));
}

std::vector<Prediction> predict(const PredictionOptions& o,
                                const std::vector<bench::MachineCode>& table) {
  std::vector<Prediction> rows;
  for (const bench::MachineCode& code : table) {
    const std::string family = code.family();
    if (!o.only.empty() && std::find(o.only.begin(), o.only.end(), family) == o.only.end())
      continue;
    if (!o.dtype.empty() && code.dtype() != o.dtype) continue;
    if (!o.all && o.dtype.empty() && code.dtype() != "f32" && code.dtype() != "bf16") continue;
    if (code.reads + code.writes == 0) continue;
    if (!o.all && for_huge_tensors(code)) continue;
    Prediction p{&code, {}};
    for (const bench::Gpu& gpu : bench::modelled_gpus()) p.on.push_back(model(code, gpu));
    rows.push_back(std::move(p));
  }
  if (!o.all) rows = one_each(std::move(rows));
  std::stable_sort(rows.begin(), rows.end(), [](const Prediction& a, const Prediction& b) {
    return a.on.back().fraction < b.on.back().fraction;
  });
  return rows;
}

std::vector<std::string> families() {
  std::vector<std::string> names;
  for (const bench::MachineCode& code : bench::committed_machine_code())
    if (names.empty() || names.back() != code.family()) names.push_back(code.family());
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

void print_json(const Prediction& p) {
  const bench::Machine machine = bench::describe_machine(Device::cpu());
  for (size_t g = 0; g < p.on.size(); ++g) {
    bench::Row row{.bench = p.code->kernel,
                   .impl = "modelled",
                   .shape = bench::modelled_gpus()[g].name,
                   .dtype = p.code->dtype()};
    row.ratio = p.on[g].fraction;
    row.bound = p.on[g].bound;
    row.more = {{"of_product", p.on[g].of_product ? 1 : 0}};
    std::printf("%s\n", to_json(row, machine).c_str());
  }
}

std::string two_digits(double x) {
  char text[16];
  std::snprintf(text, sizeof text, "%.2f", x);
  return text;
}

std::vector<bench::MachineCode> table_of(const std::string& path) {
  const InputFile file(path);
  std::string text(size_t(file.size()), '\0');
  file.read(0, text.data(), file.size(), "the table");
  std::vector<bench::MachineCode> rows = bench::machine_code(text);
  if (rows.empty()) data_error(path, 0, "no row of a kernel, as bench/sass/sm_90a.txt has them");
  return rows;
}

// Rows of two tables side by side: a kernel's, or, of one a family, those of its dtype, whose
// kernels may have other names.
void print_before_and_after(const PredictionOptions& o, const std::vector<Prediction>& now) {
  const auto key = [&](const Prediction& p) {
    return o.all ? p.code->kernel : p.code->family() + " " + p.code->dtype();
  };
  const std::vector<bench::MachineCode> table = table_of(o.before);
  std::map<std::string, Prediction> before;
  for (Prediction& p : predict(o, table)) before.emplace(key(p), p);
  std::printf("%-46s", "kernel");
  for (const bench::Gpu& gpu : bench::modelled_gpus())
    std::printf("  %8s %6s  %-16s", gpu.name, "before", "bound by now");
  std::printf("\n");
  int added = 0, better = 0, worse = 0;
  for (const Prediction& p : now) {
    const auto old = before.find(key(p));
    const bool there = old != before.end();
    std::printf("%-46s", p.code->kernel.c_str());
    for (size_t g = 0; g < p.on.size(); ++g) {
      const bench::Modelled& m = p.on[g];
      std::printf("  %6.2f %s %6s  %-16s", m.fraction, m.of_product ? "x" : " ",
                  there ? two_digits(old->second.on[g].fraction).c_str() : "-", m.bound.c_str());
    }
    std::printf("\n");
    const double gain = there ? p.on.back().fraction - old->second.on.back().fraction : 0;
    added += !there, better += gain > 0.01, worse += gain < -0.01;
    if (there) before.erase(old);
  }
  std::printf("\n%zu rows: %d new, %d better and %d worse by more than 0.01 on %s (modelled)\n",
              now.size(), added, better, worse, bench::modelled_gpus().back().name);
  if (!before.empty()) {
    std::printf("gone:");
    for (const auto& [name, p] : before) std::printf(" %s", p.code->kernel.c_str());
    std::printf("\n");
  }
}

void print_model(const PredictionOptions& o) {
  const std::vector<Prediction> rows = predict(o, bench::committed_machine_code());
  if (o.json) {
    for (const Prediction& p : rows) print_json(p);
    return;
  }
  std::printf(
      "modelled, not measured: fractions of a copy, or of the peak where the kernel is a\n"
      "product (x), that the machine code allows for large dense tensors (docs/gpu_model.md)\n\n");
  if (!o.before.empty()) return print_before_and_after(o, rows);
  std::printf("%-46s", "kernel");
  for (const bench::Gpu& gpu : bench::modelled_gpus())
    std::printf("  %8s %-16s", gpu.name, "bound by");
  std::printf("\n");
  int copies = 0;
  for (const Prediction& p : rows) {
    std::printf("%-46s", p.code->kernel.c_str());
    for (const bench::Modelled& m : p.on)
      std::printf("  %6.2f %s %-16s", m.fraction, m.of_product ? "x" : " ", m.bound.c_str());
    std::printf("\n");
    copies += p.on.back().bound == "copy";
  }
  std::printf("\n%d of %zu rows reach a copy's rate on %s (modelled)\n", copies, rows.size(),
              bench::modelled_gpus().back().name);
}

}  // namespace

void add_bench_model(Command bench, int& code) {
  const Command c = bench.add_subcommand(
      "model",
      "no measurement: what fraction of a copy, or of the peak for products, the machine code of "
      "each cuda kernel allows on an H100 and an H200, and what bounds it");
  auto o = std::make_shared<PredictionOptions>();
  const Option json = c.add_flag("--json", o->json, "one JSON object a line");
  c.add_flag("--all", o->all, "every kernel, not one a family for f32 and bf16");
  c.add_option("--dtype", o->dtype, "kernels of this dtype")
      .check(one_of({"f32", "f16", "bf16", "f64"}));
  // Asked for when it is given: reading the table would cost every start of wt.
  c.add_option("--only", o->only, "this family (softmax_warp, add), and those of further --only")
      .check(one_of(families));
  c.add_option("--before", o->before,
               "an earlier bench/sass/sm_90a.txt: its fractions beside those of today")
      .excludes(json);
  c.callback([o, &code] {
    print_model(*o);
    flush_stdout();
    code = 0;
  });
}

}  // namespace wt::tools
