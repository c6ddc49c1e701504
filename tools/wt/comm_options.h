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
void add_link_options(CLI::App& c, bench::WorldOptions& o, CLI::Option* other = nullptr);
// The same and --ranks.
void add_world_options(CLI::App& c, bench::WorldOptions& o, CLI::Option* other = nullptr);
// --width, --layers, --batch, --bucket.
void add_perceptron_options(CLI::App& c, bench::PerceptronOptions& o);

}  // namespace wt::tools
