#include "warptape/core/error.h"
#include "warptape/tools/wt/comm_options.h"
#include "warptape/tools/wt/number_text.h"

namespace wt::tools {
namespace {

constexpr dist::Algorithm kAlgorithms[] = {dist::Algorithm::automatic, dist::Algorithm::ring,
                                           dist::Algorithm::tree, dist::Algorithm::chain};

}  // namespace

std::vector<std::string> algorithm_names() {
  std::vector<std::string> names;
  for (const dist::Algorithm a : kAlgorithms) names.push_back(to_string(a));
  return names;
}

dist::Algorithm algorithm_named(const std::string& name) {
  for (const dist::Algorithm a : kAlgorithms)
    if (name == to_string(a)) return a;
  throw UsageError(str("no algorithm \"", name, "\""));
}

DType dtype_named(const std::string& name) {
  for (int t = 0; t < kNumComputeDTypes; ++t)
    if (name == dtype_name(DType(t))) return DType(t);
  throw UsageError(str("no dtype \"", name, "\""));
}

void add_link_options(Command c, bench::WorldOptions& o, Option other) {
  const Option options[] = {
      c.add_option("--latency", o.latency_us,
                   "microseconds that each message between threads takes")
          .check(not_negative()),
      c.add_option("--bandwidth", o.gb_s, "GB/s that each link between threads has; 0: no limit")
          .check(not_negative())};
  for (const Option& option : options) {
    option.show_default();
    if (other) option.excludes(other);
  }
}

void add_world_options(Command c, bench::WorldOptions& o, Option other) {
  const Option ranks =
      c.add_option("--ranks", o.ranks, "threads of this process; of mpirun's processes it decides")
          .check(from_to(1, 256))
          .show_default();
  if (other) ranks.excludes(other);
  add_link_options(c, o, other);
}

void add_perceptron_options(Command c, bench::PerceptronOptions& o) {
  c.add_option("--width", o.width, "of hidden layers").check(at_least(1)).show_default();
  c.add_option("--layers", o.layers, "hidden ones").check(at_least(1)).show_default();
  c.add_option("--batch", o.batch, "of a rank").check(at_least(1)).show_default();
  c.add_option_function(
      "--bucket", [&o](const std::string& t) { o.bucket_bytes = bytes_of_text(t, "--bucket"); },
      "bytes of gradients that are added up at once, as 1MiB; default: 1.25 MiB");
}

}  // namespace wt::tools
