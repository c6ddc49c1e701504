#include "warptape/nn/functional_call.h"

#include <algorithm>

#include "warptape/core/error.h"
#include "warptape/core/str.h"
#include "warptape/core/suggest.h"
#include "warptape/nn/module_state.h"

namespace wt::nn::detail {
namespace {

const Tensor* named(std::span<const NamedTensor> list, const std::string& name) {
  for (const NamedTensor& t : list)
    if (t.name == name) return &t.tensor;
  return nullptr;
}

void check_defined(const Tensor& t, const std::string& name, Frame at) {
  if (!t.defined())
    throw UsageError(
        str("[functional_call] the tensor for '", name, "' is undefined\n  at ", describe(at)));
}

// All that is wrong in one message: nothing has been swapped yet.
class Complaints {
 public:
  void missing(const std::string& name) { add("missing", name); }
  void unexpected(const std::string& name, const std::vector<NamedTensor>& known) {
    std::vector<std::string> names;
    for (const NamedTensor& t : known) names.push_back(t.name);
    add("unexpected", name + did_you_mean(name, names));
  }
  void misshapen(const std::string& name, const Tensor& here, const Tensor& there) {
    add("misshapen", str(name, ": ", there.shape(), " for ", here.shape()));
  }
  void throw_if_any(const ModuleBase& net, Frame at) const {
    if (!text_.empty())
      throw UsageError(str("[functional_call] the tensors are not those of ", net.type(), text_,
                           "\n  at ", describe(at)));
  }

 private:
  void add(const char* what, const std::string& which) { text_ += str("\n  ", what, ": ", which); }
  std::string text_;
};

}  // namespace

struct SwappedTensors::Swapped {
  std::vector<std::pair<std::shared_ptr<ParamSlot>, Tensor>> list{};
};

void SwappedTensors::put(const std::shared_ptr<ModuleState>& root, const Tensor& own,
                         const Tensor& other) {
  visit_modules(root, "", [&](const std::shared_ptr<ModuleState>& m, const std::string&) {
    for (const auto& slot : m->slots)
      if (slot->tensor.same_as(own)) own_->list.emplace_back(slot, other);
  });
}

SwappedTensors::SwappedTensors(const ModuleBase& net, std::span<const Tensor> parameters, Frame at)
    : own_(new Swapped) {
  const std::vector<NamedTensor> here = net.named_parameters();
  if (here.size() != parameters.size())
    throw UsageError(str("[functional_call] ", net.type(), " has ", here.size(),
                         " parameters, these are ", parameters.size(), " tensors\n  at ",
                         describe(at)));
  Complaints wrong;
  for (size_t i = 0; i < here.size(); ++i) {
    check_defined(parameters[i], here[i].name, at);
    if (parameters[i].shape() != here[i].tensor.shape())
      wrong.misshapen(here[i].name, here[i].tensor, parameters[i]);
  }
  wrong.throw_if_any(net, at);
  for (size_t i = 0; i < here.size(); ++i) put(net.state(), here[i].tensor, parameters[i]);
  for (auto& [slot, t] : own_->list) std::swap(slot->tensor, t);
}

SwappedTensors::SwappedTensors(const ModuleBase& net, std::span<const NamedTensor> tensors,
                               Frame at)
    : own_(new Swapped) {
  const std::vector<NamedTensor> parameters = net.named_parameters(), all = net.state_dict();
  Complaints wrong;
  for (const NamedTensor& p : parameters)
    if (!named(tensors, p.name)) wrong.missing(p.name);
  for (const NamedTensor& t : tensors) {
    check_defined(t.tensor, t.name, at);
    const Tensor* here = named(all, t.name);
    if (!here)
      wrong.unexpected(t.name, all);
    else if (here->shape() != t.tensor.shape())
      wrong.misshapen(t.name, *here, t.tensor);
  }
  wrong.throw_if_any(net, at);
  for (const NamedTensor& t : tensors) put(net.state(), *named(all, t.name), t.tensor);
  for (auto& [slot, t] : own_->list) std::swap(slot->tensor, t);
}

SwappedTensors::~SwappedTensors() {
  auto& list = own_->list;
  for (auto it = list.rbegin(); it != list.rend(); ++it) std::swap(it->first->tensor, it->second);
}

}  // namespace wt::nn::detail
