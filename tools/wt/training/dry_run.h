// `wt train --dry-run`: what a run would take.
#pragma once
#include "warptape/tools/wt/training/train.h"

namespace wt::tools {

// Three steps on the meta device: no tensor gets bytes, of the data only headers are read. Prints
// the model's summary on stderr and {"recipe", "device", "precision", "batch", "predicted_bytes",
// "measured_bytes", "categories"} on stdout.
void dry_run(const TrainOptions& o);

}  // namespace wt::tools
