// Rows of the table of operators by the variants named `cudnn`, through a fake cuDNN. Needs a GPU
// or an emulated one.
#include <map>

#include "warptape/core/device.h"
#include "warptape/core/mode.h"
#include "warptape/tests/kernels/cuda/cudnn_support.h"
#include "warptape/tests/op_cases/runner.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/fake_cudnn.h"

using namespace wt;
using namespace wt_test;

TEST_CASE("cudnn: rows of the table reach every variant") {
  if (!cuda::is_available()) SKIP_TEST(cuda::why_not().c_str());
  const Environment off("WT_CUDNN_PLANS", "off");
  const Warnings heard;
  FakeCudnn cudnn;
  const Device d = Device::cuda(0);
  std::map<std::string, int> graphs;  // that were run, by variant
  for (const OpCase& row : op_cases()) {
    if (!has_kernels(row, d)) continue;
    for (const std::string& variant : variants_of(row, d)) {
      if (!variant.ends_with(":cudnn")) continue;
      const int before = cudnn.calls("execute");
      for (const Case& c : all_cases(row)) {
        if (!runs_on(c, d)) continue;
        for (const bool recording : {true, false}) {  // what is saved, cuDNN may not have
          // The same calls of a dtype's size, but for what they save.
          if (!recording && (c.layout != 'c' || (c.dtype != f16 && c.dtype != f32))) continue;
          std::optional<NoGrad> values_only;
          if (!recording) values_only.emplace();
          const Outcome o = run_case(c, {d, variant});
          if (o.wrong.empty()) continue;
          UNSCOPED_INFO(o.wrong);
          FAIL_CHECK(reproducer(c, {d, variant}));
        }
      }
      graphs[variant] += cudnn.calls("execute") - before;
    }
  }
  CHECK(graphs.size() == 10);
  for (const auto& [variant, count] : graphs) {
    INFO(variant << " " << count);
    CHECK(count > 0);
  }
  // The rows have more shapes than a program should: that is said, and nothing else.
  std::vector<std::string> said = warnings();
  std::erase_if(said, [](const std::string& w) {
    return w.find("different shapes: each new one costs a search") != w.npos;
  });
  CHECK(said == std::vector<std::string>{});
  CHECK(cudnn.violations() == std::vector<std::string>{});
}
