// wt ops: one row an operator.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "warptape/autograd/op_list.h"
#include "warptape/core/error.h"
#include "warptape/kernels/run.h"
#include "warptape/tools/wt.h"

namespace wt::tools {
namespace {

// What the operator tests proved; they write the file and compare it.
struct OpFacts {
  const char *name, *dtypes;
  int derivatives, cases;
  const char* contracts;  // forward first
};
constexpr OpFacts kFacts[] = {
#include "warptape/tools/op_facts.inc"
};

std::vector<std::string> words(const char* text) {
  std::istringstream in(text);
  std::vector<std::string> r;
  for (std::string word; in >> word;) r.push_back(word);
  return r;
}

const char* autocast_name(Autocast a) {
  switch (a) {
    case Autocast::lower:
      return "lower";
    case Autocast::f32:
      return "f32";
    case Autocast::promote:
      return "promote";
    case Autocast::none:
      break;
  }
  return "-";
}

// Of all the operator's contracts, in the order in which the device lists them.
std::vector<std::string> variants(const OpFacts& f, DeviceKind d) {
  std::vector<std::string> names;
  for (const std::string& contract : words(f.contracts))
    for (const ContractInfo& c : all_contracts()) {
      if (contract != c.name) continue;
      for (int i = 0; i < c.count(d); ++i) {
        const std::string name = c.variant(d, i).name;
        if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
      }
    }
  return names;
}

std::string joined(const std::vector<std::string>& list) {
  std::string text;
  for (const std::string& s : list) text += (text.empty() ? "" : ",") + s;
  return text.empty() ? "-" : text;
}

const OpInfo& info_of(const OpFacts& f) {
  for (const OpInfo* i : all_ops())
    if (std::string_view(i->name) == f.name) return *i;
  throw InternalError(std::string("tools/op_facts.inc names ") + f.name + ", which is no operator");
}

void print_ops_as_json() {
  for (const OpFacts& f : kFacts) {
    nlohmann::ordered_json row;
    row["name"] = f.name;
    row["dtypes"] = words(f.dtypes);
    row["derivatives"] = f.derivatives;
    row["autocast"] = autocast_name(info_of(f).autocast);
    row["cases"] = f.cases;
    for (int d = 0; d < kNumDeviceKinds; ++d)
      row["variants"][device_kind_name(DeviceKind(d))] = variants(f, DeviceKind(d));
    fmt::print("{}\n", row.dump());
  }
}

void print_ops_as_table() {
  fmt::print("{:<20}{:<36}{:>6}  {:<9}{:>5}  {}\n", "operator", "dtypes", "deriv.", "autocast",
             "cases", "variants");
  for (const OpFacts& f : kFacts) {
    std::string devices;
    for (int d = 0; d < kNumDeviceKinds; ++d) {
      const std::vector<std::string> names = variants(f, DeviceKind(d));
      if (!names.empty())
        devices += fmt::format("{}{}: {}", devices.empty() ? "" : "  ",
                               device_kind_name(DeviceKind(d)), joined(names));
    }
    fmt::print("{:<20}{:<36}{:>6}  {:<9}{:>5}  {}\n", f.name, f.dtypes, f.derivatives,
               autocast_name(info_of(f).autocast), f.cases, devices.empty() ? "view" : devices);
  }
}

}  // namespace

void add_ops(CLI::App& app, int& code) {
  CLI::App* c = app.add_subcommand(
      "ops", "operators: dtypes, derivatives, autocast class, test cases, kernel variants");
  auto json = std::make_shared<bool>(false);
  c->add_flag("--json", *json, "one JSON object a line");
  c->callback([json, &code] {
    if (*json)
      print_ops_as_json();
    else
      print_ops_as_table();
    code = 0;
  });
}

}  // namespace wt::tools
