// wt ops: one row an operator, and one a factory.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "warptape/autograd/op_list.h"
#include "warptape/autograd/op_saving.h"
#include "warptape/core/error.h"
#include "warptape/core/files/json.h"
#include "warptape/kernels/run.h"
#include "warptape/tools/wt/measure/op_facts.h"
#include "warptape/tools/wt/training/factories.h"
#include "warptape/tools/wt/wt.h"

namespace wt::tools {
namespace {

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

bool is_built(DeviceKind d) {
  for (const ContractInfo& c : all_contracts())
    if (c.count(d) > 0) return true;
  return false;
}

const char* support(const OpFacts& f, DeviceKind d) {
  return d == DeviceKind::cpu ? "all" : is_built(d) ? f.on_simt : "none";
}

// Of all these contracts, in the order in which the device lists them.
std::vector<std::string> variants_of(const std::vector<std::string>& contracts, DeviceKind d) {
  std::vector<std::string> names;
  for (const std::string& contract : contracts)
    for (const ContractInfo& c : all_contracts()) {
      if (contract != c.name) continue;
      for (int i = 0; i < c.count(d); ++i) {
        const std::string name = c.variant(d, i).name;
        if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
      }
    }
  return names;
}

// None where the operator does not run, although a part that it is made of may.
std::vector<std::string> variants(const OpFacts& f, DeviceKind d) {
  if (support(f, d) == std::string_view("none")) return {};
  return variants_of(words(f.contracts), d);
}

std::vector<std::string> lacking(const OpFacts& f) {
  std::vector<std::string> list;
  std::string rest = f.lacking;
  for (size_t end; !rest.empty(); rest.erase(0, end == rest.npos ? end : end + 2)) {
    end = rest.find("; ");
    list.push_back(rest.substr(0, end));
  }
  return list;
}

const OpInfo& info_of(const OpFacts& f) {
  for (const OpInfo* i : all_ops())
    if (std::string_view(i->name) == f.name) return *i;
  throw InternalError(std::string("tools/op_facts.inc names ") + f.name + ", which is no operator");
}

// view: the result lies in the operand's memory. composite: made of other operators. host: computed
// on the cpu by no kernel, and copied to the device.
const char* kind_of(const OpFacts& f) {
  const OpInfo& info = info_of(f);
  return info.view ? "view" : !*f.contracts ? "host" : info.composite ? "composite" : "kernel";
}

// The policies of SaveScope under which less is held, but for offload, which takes everything:
// bit_mask, a bit an element; recompute, the result is made again; invert, from the result.
std::vector<std::string> policies_of(const OpInfo& op) {
  std::vector<std::string> names;
  const OpSaving* saving = saving_of(&op);
  if (op.sign_of_output) names.push_back("bit_mask");
  if (saving && saving->again) names.push_back("recompute");
  if (saving && saving->inverse) names.push_back("invert");
  return names;
}

std::string json_list(const std::vector<std::string>& texts) {
  std::string list;
  for (const std::string& t : texts) list += (list.empty() ? "" : ",") + json_quote(t);
  return "[" + list + "]";
}

// An object with value(kind), which is JSON, of each kind of device.
template <class F>
std::string json_by_device(const F& value) {
  JsonObject row;
  for (int d = 0; d < kNumDeviceKinds; ++d)
    row.add_raw(device_kind_name(DeviceKind(d)), value(DeviceKind(d)));
  return row.str();
}

void print_ops_as_json() {
  for (const OpFacts& f : op_facts()) {
    JsonObject row;
    row.add("name", f.name).add_raw("dtypes", json_list(words(f.dtypes)));
    row.add("derivatives", f.derivatives).add("autocast", autocast_name(info_of(f).autocast));
    row.add("cases", f.cases);
    row.add_raw("variants",
                json_by_device([&](DeviceKind d) { return json_list(variants(f, d)); }));
    row.add("kind", kind_of(f));
    row.add_raw("devices", json_by_device([&](DeviceKind d) { return json_quote(support(f, d)); }));
    row.add_raw("lacking_on_simt", json_list(lacking(f))).add("held", f.held);
    row.add_raw("policies", json_list(policies_of(info_of(f))));
    std::printf("%s\n", row.str().c_str());
  }
}

std::vector<std::string> variants(const Factory& f, DeviceKind d) {
  return f.contract ? variants_of(words(f.contract), d) : std::vector<std::string>{};
}

void print_factories_as_json() {
  for (const Factory& f : kFactories) {
    JsonObject row;
    row.add("name", f.name).add("kind", f.contract ? "factory" : "host");
    row.add_raw("variants",
                json_by_device([&](DeviceKind d) { return json_list(variants(f, d)); }));
    row.add_raw("devices", json_by_device([](DeviceKind d) {
                  return json_quote(d == DeviceKind::cpu || is_built(d) ? "all" : "none");
                }));
    std::printf("%s\n", row.str().c_str());
  }
}

// "  cpu: a,b  simt: c"
template <class F>
std::string listed_variants(const F& f) {
  std::string text;
  for (int d = 0; d < kNumDeviceKinds; ++d) {
    const std::vector<std::string> names = variants(f, DeviceKind(d));
    if (!names.empty()) text += str("  ", device_kind_name(DeviceKind(d)), ": ", joined(names));
  }
  return text;
}

void print_factories_as_table() {
  std::printf("\n%-20s%s\n", "factory", "made by, and variants");
  for (const Factory& f : kFactories)
    std::printf("%-20s%s%s\n", f.name,
                !f.contract    ? "the host, and copied"
                : !*f.contract ? "nothing: no element is written"
                               : f.contract,
                listed_variants(f).c_str());
}

void print_ops_as_table() {
  std::printf("%-20s%-36s%6s  %-9s%5s  %-24s%-20s%s\n", "operator", "dtypes", "deriv.", "autocast",
              "cases", "held for backward", "less under", "variants");
  for (const OpFacts& f : op_facts()) {
    const std::string kind = kind_of(f);
    std::string devices = kind == "kernel" ? "" : kind;
    for (int d = 0; d < kNumDeviceKinds; ++d) {
      const std::vector<std::string> names = variants(f, DeviceKind(d));
      if (names.empty()) continue;
      const bool part = support(f, DeviceKind(d)) == std::string_view("part");
      devices += str(devices.empty() ? "" : "  ", device_kind_name(DeviceKind(d)),
                     part ? " (in part)" : "", ": ", joined(names));
    }
    std::printf("%-20s%-36s%6d  %-9s%5d  %-22s  %-18s  %s\n", f.name, f.dtypes, f.derivatives,
                autocast_name(info_of(f).autocast), f.cases, f.held,
                joined(policies_of(info_of(f))).c_str(), devices.c_str());
  }
}

}  // namespace

std::string joined(const std::vector<std::string>& list) {
  std::string text;
  for (const std::string& s : list) text += (text.empty() ? "" : ",") + s;
  return text.empty() ? "-" : text;
}

void add_ops(Command app, int& code) {
  const Command c =
      app.add_subcommand("ops",
                         "operators: dtypes, derivatives, autocast class, test cases, "
                         "what backward holds and which save "
                         "policies make that less, kernel variants; factories");
  auto json = std::make_shared<bool>(false);
  c.add_flag("--json", *json, "one JSON object a line");
  c.callback([json, &code] {
    if (*json) {
      print_ops_as_json();
      print_factories_as_json();
    } else {
      print_ops_as_table();
      print_factories_as_table();
    }
    code = 0;
  });
}

}  // namespace wt::tools
