#include "warptape/tools/wt/model_options.h"

#include "warptape/tools/wt/wt.h"

namespace wt::tools {

void add_model_options(Command command, ModelOptions& o, const char* json_help) {
  command.add_option("checkpoint", o.checkpoint, "a checkpoint, or a run folder: its best one")
      .required();
  command.add_option("--device", o.device, "auto, cpu, simt, cuda:N").show_default();
  command.add_option("--threads", o.threads, "default: OMP_NUM_THREADS, else one a processor")
      .check(at_least(1));
  command.add_flag("--json", o.json, json_help);
}

TrainedModel load_model(const ModelOptions& o) {
  if (o.threads > 0) set_num_threads(o.threads);
  return load_trained(o.checkpoint, o.device);
}

}  // namespace wt::tools
