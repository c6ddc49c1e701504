// The options that every command on a trained model has.
#pragma once
#include <string>

#include "warptape/tools/wt/command_line.h"
#include "warptape/tools/wt/training/trained_model.h"

namespace wt::tools {

struct ModelOptions {
  std::string checkpoint, device = "auto";
  int threads = 0;
  bool json = false;
};
// The checkpoint comes before the command's own positionals. `json_help`: what --json prints.
void add_model_options(Command command, ModelOptions& o, const char* json_help);
// The model that they name, on their device.
TrainedModel load_model(const ModelOptions& o);

}  // namespace wt::tools
