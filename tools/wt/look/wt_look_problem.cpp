#include <algorithm>
#include <charconv>

#include "warptape/core/suggest.h"
#include "warptape/tools/wt/look/kernel_names.h"
#include "warptape/tools/wt/look/look.h"
#include "warptape/tools/wt/look/look_problem.h"
#include "warptape/tools/wt/measure/op_facts.h"
#include "warptape/tools/wt/wt.h"

namespace wt::tools {
namespace {

// f32 where there is, unless another is asked for.
DType dtype_of(const std::string& contract, const std::string& asked) {
  if (!asked.empty()) return float_named(asked);
  std::vector<DType> all;
  for (const bench::ProblemRow& row : bench::problem_rows())
    if (row.contract == contract) all.insert(all.end(), row.dtypes.begin(), row.dtypes.end());
  const bool single = std::find(all.begin(), all.end(), DType::f32) != all.end();
  return single || all.empty() ? DType::f32 : all.front();
}

bool is_number(const std::string& text, int& n) {
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, n);
  return error == std::errc() && at == end && n >= 0;
}

// The problem of --op: the n-th of the contract's shapes, the one of this text, or one of these
// sizes.
bench::Problem problem_at(const std::string& contract, DType t, const std::string& shape,
                          Device device) {
  std::vector<std::string> texts;
  int n = -1, seen = 0;
  const bool by_number = shape.empty() || is_number(shape, n);
  if (shape.empty()) n = 0;
  for (const bench::ProblemRow& row : bench::problem_rows()) {
    if (row.contract != contract) continue;
    if (std::find(row.dtypes.begin(), row.dtypes.end(), t) == row.dtypes.end()) continue;
    for (int i = 0; i < row.shapes; ++i, ++seen) {
      if (by_number && seen != n) continue;
      bench::Problem p = row.make(device, t, bench::Scale::small, i, 1);
      if (by_number || p.shape == shape) return p;
      texts.push_back(p.shape);
    }
  }
  if (seen == 0)
    throw UsageError(str(contract, " has no kernels of ", dtype_name(t), " to look at"));
  if (by_number) throw UsageError(str("--op ", n, ": ", contract, " has shapes 0 to ", seen - 1));
  std::string why;  // what the operator has against these sizes
  for (const bench::ProblemRow& row : bench::problem_rows()) {
    if (row.contract != contract || !row.make_sized) continue;
    try {
      return row.make_sized(device, t, shape, 1);
    } catch (const UsageError& e) {
      // The form of another row, or of none.
      if (const std::string said = e.what(); said.find("is no shape of") == said.npos) why = said;
    }
  }
  if (!why.empty()) throw UsageError(str("--op ", shape, ": ", why));
  throw UsageError(str("--op: '", shape, "' is no shape of ", contract, ", which has the form of ",
                       joined(texts), did_you_mean(shape, texts)));
}

Wanted wanted_function(const std::string& kernel, std::vector<std::string> names) {
  const std::vector<KernelLaunch> all = launches_of(kernel);
  if (all.empty()) {
    const std::string name = kernel.substr(0, kernel.find_first_of("<[ "));
    const std::vector<std::string> functions = function_names();
    names.insert(names.end(), functions.begin(), functions.end());
    throw UsageError(str("no kernel or operator is called '", printable(name), "'",
                         did_you_mean(name, names), " (wt ops lists them)"));
  }
  const KernelLaunch& l = all.front();
  Wanted w{.contract = l.contract,
           .variant = l.variant,
           .function = l.function,
           .dtype = l.dtype,
           .shape = l.shape};
  for (size_t i = 1; i < all.size(); ++i)
    w.beside.push_back(all[i].contract + ":" + all[i].variant);
  return w;
}

}  // namespace

void add_look_options(Command c, LookRequest& r) {
  c.add_option("kernel", r.kernel,
               "a contract (softmax_forward), with a variant of it (softmax_forward:naive), an "
               "operator (softmax), or a device function by the name that reports have for it "
               "(softmax_block)")
      .required();
  c.add_option("--op", r.shape,
               "the operands: sizes (64x1000), the text of one of the benchmark's shapes, or its "
               "number from 0; without it the first");
  c.add_option("--dtype", r.dtype, "without it f32, or what the kernel takes")
      .check(one_of({"f32", "f16", "bf16", "f64"}));
  c.add_option("--source", r.source, "folder of warptape's sources").show_default();
}

Wanted wanted_of(const std::string& kernel) {
  const size_t colon = kernel.find(':');
  const std::string name = kernel.substr(0, colon);
  Wanted w{.contract = name, .variant = colon == std::string::npos ? "" : kernel.substr(colon + 1)};
  const std::vector<std::string> benched = benched_contracts();
  const auto has = [&](const std::string& c) {
    return std::find(benched.begin(), benched.end(), c) != benched.end();
  };
  if (has(name)) return w;
  if (kernel.find_first_of("<[") != kernel.npos) {  // as a report has a pointwise kernel: add<f32>
    const std::string family = function_of(machine_code_name(kernel));
    if (has(family)) return {.contract = family, .dtype = dtype_of_title(kernel)};
  }
  // An operator stands for what it launches, the forward first.
  std::vector<std::string> run;
  for (const std::string& c : benched)
    if (c.starts_with(name + "_")) run.push_back(c);
  if (run.empty())
    for (const std::string& c : contracts_of_operator(name))
      if (has(c)) run.push_back(c);
  if (run.empty()) return wanted_function(kernel, benched);
  w.contract = run.front();
  w.beside.assign(run.begin() + 1, run.end());
  return w;
}

bench::Problem problem_of(const LookRequest& r, const Wanted& w, Device device) {
  return problem_at(w.contract, dtype_of(w.contract, r.dtype.empty() ? w.dtype : r.dtype),
                    r.shape.empty() ? w.shape : r.shape, device);
}

void check_launched(const Wanted& w, const bench::Problem& p, const std::string& variant,
                    const std::vector<std::string>& titles) {
  if (w.function.empty()) return;
  for (const std::string& title : titles)
    if (function_of(title) == w.function) return;
  throw UsageError(str("with ", p.shape, " in ", dtype_name(p.dtype), " ", p.contract, ":", variant,
                       " launches ", joined(titles), ", and not ", w.function,
                       ", which it does with ", w.shape, " in ", w.dtype));
}

const bench::VariantRun& variant_of(const bench::Problem& p, const std::string& name) {
  std::vector<std::string> names;
  for (const bench::VariantRun& v : p.variants) {
    if (v.name == (name.empty() ? p.chosen : name)) {
      if (const char* why = v.why_not())
        throw UsageError(str(p.contract, ":", v.name, " does not take ", p.shape, " in ",
                             dtype_name(p.dtype), ": ", why));
      return v;
    }
    names.push_back(v.name);
  }
  if (names.empty()) throw UsageError(str(p.contract, " has no kernels on simt"));
  throw UsageError(str(p.contract, " has no variant '", name, "' on simt (", joined(names), ")",
                       did_you_mean(name, names)));
}

}  // namespace wt::tools
