#include "warptape/tools/wt/recipes/picture_models.h"

#include <algorithm>

#include "warptape/core/error.h"
#include "warptape/core/memory_fit.h"
#include "warptape/tools/wt/reports/error_words.h"

namespace wt::tools {
namespace {

bool classifies_pictures(const models::ModelInfo& m) {
  return m.output == models::ModelOutput::logits && m.inputs.size() == 1 &&
         m.inputs[0].shape.ndim() == 3;
}

// By a forward that computes nothing.
void check_size(const models::ModelInfo& m, i64 size, i64 own) {
  try {
    (void)memory::predict(Device::cpu(), [&] {
      const NoGrad no_grad;
      const models::AnyModel net = m.make(m.classes);
      net.eval();
      (void)net(m.made_up_inputs(1));
    });
  } catch (const ShapeError& e) {
    throw UsageError(str("pictures of ", size, " x ", size, " do not go through ", m.name,
                         ", whose own are ", own, " x ", own, "\n  ", without_kind(e)));
  }
}

}  // namespace

std::vector<std::string> picture_model_names() {
  std::vector<std::string> names;
  for (const models::ModelInfo& m : models::all_models())
    if (classifies_pictures(m)) names.push_back(m.name);
  return names;
}

models::ModelInfo picture_model(const std::string& name, i64 size) {
  models::ModelInfo m = models::find_model(name);
  if (!classifies_pictures(m)) throw UsageError(name + " does not classify pictures");
  Shape& shape = m.inputs[0].shape;
  const i64 own = shape[1];
  shape[1] = shape[2] = size;
  if (size != own) check_size(m, size, own);
  return m;
}

}  // namespace wt::tools
