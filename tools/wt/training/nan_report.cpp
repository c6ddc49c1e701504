#include "warptape/tools/wt/training/nan_report.h"

#include <algorithm>
#include <cmath>

#include "warptape/core/files/json.h"
#include "warptape/version.h"

namespace wt::tools {
namespace {

std::string shape_json(const Shape& shape) {
  std::string out;
  for (const i64 n : shape) out += (out.empty() ? "" : ",") + std::to_string(n);
  return "[" + out + "]";
}

std::string census_json(const FiniteCensus& c) {
  std::string list;
  for (const NotFinite& t : c.not_finite) {
    JsonObject o;
    o.add("name", t.name).add_raw("shape", shape_json(t.shape));
    o.add("nan", t.nan).add("infinite", t.infinite).add("first", t.first);
    list += (list.empty() ? "" : ",") + o.str();
  }
  JsonObject o;
  o.add("tensors", c.tensors).add("largest", c.largest).add("largest_in", c.largest_in);
  return o.add_raw("not_finite", "[" + list + "]").str();
}

void add_census(JsonObject& o, const char* key, const FiniteCensus* c) {
  c ? o.add_raw(key, census_json(*c)) : o.add_null(key);
}

}  // namespace

void FiniteCensus::add(const std::string& name, const Tensor& t) {
  ++tensors;
  if (!is_floating(t.dtype())) return;
  const std::vector<double> values = t.to_vector<double>();
  NotFinite found{.name = name, .shape = t.shape(), .first = -1};
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double v = values[i];
    if (std::isfinite(v)) {
      if (std::abs(v) > largest) largest = std::abs(v), largest_in = name;
      continue;
    }
    if (found.first < 0) found.first = i64(i);
    ++(std::isnan(v) ? found.nan : found.infinite);
  }
  if (found.first >= 0) not_finite.push_back(std::move(found));
}

FiniteCensus finite_census(const std::vector<nn::NamedTensor>& tensors) {
  FiniteCensus c;
  for (const nn::NamedTensor& t : tensors) c.add(t.name, t.tensor);
  return c;
}

std::vector<nn::NamedTensor> buffers_of(const nn::ModuleBase& m) {
  const std::vector<nn::NamedTensor> parameters = m.named_parameters();
  std::vector<nn::NamedTensor> all = m.state_dict();
  std::erase_if(all, [&](const nn::NamedTensor& t) {
    return std::any_of(parameters.begin(), parameters.end(),
                       [&](const nn::NamedTensor& p) { return p.name == t.name; });
  });
  return all;
}

std::string first_non_finite(const NanReport& r) {
  const auto first_of = [](const char* kind, const FiniteCensus& c) {
    return c.not_finite.empty() ? std::string() : kind + c.not_finite.front().name;
  };
  std::string name = r.inputs ? first_of("batch.", *r.inputs) : "";
  if (name.empty()) name = first_of("parameter ", r.parameters);
  if (name.empty()) name = first_of("buffer ", r.buffers);
  if (name.empty() && r.refused && !std::isfinite(r.refused->loss)) name = "loss";
  if (name.empty() && r.refused) name = first_of("gradient ", r.refused->gradients);
  return name.empty() ? "nothing that is still there" : name;
}

std::string to_json(const NanReport& r) {
  JsonObject o;
  o.add("schema", 1).add("version", WARPTAPE_VERSION_STRING).add("recipe", r.recipe);
  o.add("device", r.device).add("seed", r.seed);
  o.add("step", r.step).add("epoch", r.epoch).add("batch", r.batch).add("lr", r.lr);
  r.refused ? o.add("loss", r.refused->loss) : o.add_null("loss");
  r.refused ? o.add("grad_norm", r.refused->grad_norm) : o.add_null("grad_norm");
  std::isnan(r.last_loss) ? o.add_null("last_loss") : o.add("last_loss", r.last_loss);
  o.add("first", first_non_finite(r)).add("error", r.error);
  add_census(o, "inputs", r.inputs ? &*r.inputs : nullptr);
  add_census(o, "parameters", &r.parameters);
  add_census(o, "buffers", &r.buffers);
  add_census(o, "gradients", r.refused ? &r.refused->gradients : nullptr);
  return o.str();
}

}  // namespace wt::tools
