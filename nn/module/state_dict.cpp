// What modules take from outside by name: values, and whether gradients are wanted.
#include <algorithm>
#include <map>
#include <set>

#include "warptape/autograd/node.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/core/at_line.h"
#include "warptape/core/input_file.h"
#include "warptape/core/memory/copy_bytes.h"
#include "warptape/core/suggest.h"
#include "warptape/nn/module/load_state.h"
#include "warptape/nn/name_pattern.h"
#include "warptape/nn/weight_source.h"

namespace wt::nn {
namespace {

using ByName = std::map<std::string_view, const Tensor*>;

ByName by_name(const std::vector<NamedTensor>& tensors) {
  ByName map;
  for (const NamedTensor& t : tensors) map.try_emplace(t.name, &t.tensor);
  return map;
}

// "model." when that is before every name of the state and what follows is a name of the module.
std::string common_prefix(const std::vector<NamedTensor>& values, const ByName& mine) {
  if (values.empty()) return "";
  const size_t dot = values[0].name.find('.');
  if (dot == std::string::npos) return "";
  const std::string prefix = values[0].name.substr(0, dot + 1);
  const bool all = std::all_of(values.begin(), values.end(), [&](const NamedTensor& v) {
    return v.name.starts_with(prefix) && mine.contains(v.name.substr(prefix.size()));
  });
  return all ? prefix : "";
}

struct Match {
  Tensor to;
  const Tensor* from;
};

// What fits, and what does not.
std::vector<Match> match(const std::vector<NamedTensor>& mine,
                         const std::vector<NamedTensor>& values, LoadStateResult& rest) {
  const ByName named = by_name(mine), given = by_name(values);
  std::vector<Match> matches;
  std::set<const TensorImpl*> there;  // tied tensors have a value when one name has
  for (const NamedTensor& m : mine) {
    const auto v = given.find(m.name);
    if (v == given.end()) continue;
    if (v->second->shape() == m.tensor.shape()) {
      matches.push_back({m.tensor, v->second});
      there.insert(m.tensor.impl());
    } else {
      rest.misshapen.push_back({m.name, m.tensor.shape(), v->second->shape()});
    }
  }
  for (const NamedTensor& m : mine)
    if (!given.contains(m.name) && !there.contains(m.tensor.impl())) rest.missing.push_back(m.name);
  for (const NamedTensor& v : values)
    if (!named.contains(v.name)) rest.unexpected.push_back(v.name);
  return matches;
}

// A state may come from a file, with any number of names of any length.
constexpr size_t kShownNames = 50;

template <class T, class F>
void show_some(std::string& text, const std::vector<T>& list, const char* what, F show) {
  for (size_t i = 0; i < std::min(list.size(), kShownNames); ++i) text += "\n  " + show(list[i]);
  if (list.size() > kShownNames) text += str("\n  and ", list.size() - kShownNames, " more ", what);
}

[[noreturn]] void refuse(const std::vector<NamedTensor>& mine,
                         const std::vector<NamedTensor>& values, const LoadStateResult& rest,
                         const std::string& headline) {
  const ByName named = by_name(mine);
  std::string problems;
  show_some(problems, rest.missing, "missing", [&](const std::string& name) {
    return str("missing ", name, " ", named.at(name)->shape());
  });
  show_some(problems, rest.misshapen, "of other shapes", [](const auto& m) {
    return str(m.name, " is ", m.here, " here and ", m.there, " in the state");
  });
  show_some(problems, rest.unexpected, "unexpected",
            [](const std::string& name) { return "unexpected " + printable(name); });
  const std::string prefix = common_prefix(values, named);
  problems += at_line();
  if (!prefix.empty()) problems += "\n  Try nn::with_prefix(state, \"" + printable(prefix) + "\")";
  throw UsageError(headline + problems);
}

// The value in the form in which `to` takes it. A meta tensor takes the bytes with the values.
Tensor converted(const Match& m) {
  const Tensor& from = *m.from;
  const bool becomes_real = m.to.device().is_meta && !from.device().is_meta;
  const CategoryScope scope(leaf_of(m.to.impl()) ? Category::parameter : Category::buffer);
  Device d = m.to.device();
  if (becomes_real) d.is_meta = false;
  Tensor there = from.to(m.to.dtype()).to(d);
  if (becomes_real) there = there.same_as(from) ? there.clone() : there.contiguous();
  return there;
}

}  // namespace

LoadStateResult detail::compare_state(const ModuleBase& m, const std::vector<NamedTensor>& values) {
  LoadStateResult rest;
  (void)match(m.state_dict(), values, rest);
  return rest;
}

void detail::refuse_state(const ModuleBase& m, const std::vector<NamedTensor>& values,
                          const LoadStateResult& rest, const std::string& headline) {
  refuse(m.state_dict(), values, rest, headline);
}

LoadStateResult detail::load_state(const ModuleBase& m, const std::vector<NamedTensor>& values,
                                   bool strict, const std::string& headline) {
  const std::vector<NamedTensor> mine = m.state_dict();
  LoadStateResult rest;
  const std::vector<Match> matches = match(mine, values, rest);
  if (strict && !rest.complete()) refuse(mine, values, rest, headline);
  // All that may fail comes first.
  const NoGrad no_grad;
  std::vector<Tensor> ready;
  for (const Match& m : matches) ready.push_back(converted(m));
  for (size_t i = 0; i < matches.size(); ++i) {
    Tensor to = matches[i].to;
    if (to.device() == ready[i].device())
      to.copy_(ready[i]);
    else
      wt::detail::replace_data(to.impl(), ready[i].impl());
  }
  return rest;
}

LoadStateResult ModuleBase::load_state_dict(const std::vector<NamedTensor>& values,
                                            const LoadStateOptions& options, Frame at) const {
  const FrameScope frame(at);
  return detail::load_state(*this, values, options.strict,
                            "[load_state_dict] the names or shapes do not fit");
}

i64 ModuleBase::set_requires_grad(std::string_view pattern, bool on) const {
  std::set<const TensorImpl*> parameters;
  for (const NamedTensor& p : named_parameters()) parameters.insert(p.tensor.impl());
  std::vector<Tensor> fit;
  std::set<const TensorImpl*> seen;
  std::vector<std::string> names;
  for (const NamedTensor& t : state_dict()) {  // every name of a tied parameter
    if (!parameters.contains(t.tensor.impl())) continue;
    names.push_back(t.name);
    if (fits_pattern(pattern, t.name) && seen.insert(t.tensor.impl()).second)
      fit.push_back(t.tensor);
  }
  if (fit.empty() && pattern != "*")
    throw UsageError(str("[requires_grad_] no parameter's name fits '", printable(pattern), "'",
                         did_you_mean(pattern, names), at_line()));
  for (Tensor& t : fit) t.set_requires_grad(on);
  return i64(fit.size());
}

}  // namespace wt::nn
