// The picture classifiers among the models by name, for pictures of any size.
#pragma once
#include <string>
#include <vector>

#include "warptape/nn/models.h"

namespace wt::tools {

std::vector<std::string> picture_model_names();
// The model called `name` with an input of size x size pixels. Throws UsageError where pictures of
// that size do not go through it, and for a name that is none of these.
models::ModelInfo picture_model(const std::string& name, i64 size);

}  // namespace wt::tools
