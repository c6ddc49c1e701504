// The options of `wt bench` that say on which ranks, and by which algorithm, it runs. Internal.
#pragma once
#include "warptape/bench/comm_world.h"
#include "warptape/bench/perceptron_options.h"
#include "warptape/tools/wt/wt.h"

namespace wt::tools {

std::vector<std::string> algorithm_names();
dist::Algorithm algorithm_named(const std::string& name);  // of algorithm_names()
DType dtype_named(const std::string& name);                // any that computes

// --latency, --bandwidth; they exclude `other` where it is there.
void add_link_options(Command c, bench::WorldOptions& o, Option other = Option());
// The same and --ranks.
void add_world_options(Command c, bench::WorldOptions& o, Option other = Option());
// --width, --layers, --batch, --bucket.
void add_perceptron_options(Command c, bench::PerceptronOptions& o);

}  // namespace wt::tools
