// `wt doctor`: a recipe's training, examined.
#pragma once
#include "warptape/optim/doctor.h"
#include "warptape/tools/wt/training/train.h"

namespace wt::tools {

struct RecipeExam {
  std::string device{};
  i64 batch = 0;  // samples a step
  doctor::Report report{};
};
// Some steps of the training that the options name, on synthetic data where they name none, and an
// evaluation of a few held-out samples; on cuda the step as a graph too. What keeps the training
// from beginning (data that cannot be read, no memory) is a finding, step-fails. Throws UsageError
// for options that cannot be meant.
RecipeExam examine_recipe(const TrainOptions& o, const doctor::Options& how);

}  // namespace wt::tools
