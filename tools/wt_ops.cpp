// wt ops: one row an operator.
#include <cstdio>

#include "warptape/kernels/run.h"
#include "warptape/tools/wt.h"

namespace wt::tools {

void add_ops(CLI::App& app, int& code) {
  CLI::App* c = app.add_subcommand("ops", "operators, their kernels and variants");
  auto json = std::make_shared<bool>(false);
  c->add_flag("--json", *json, "one JSON object a line");
  c->callback([json, &code] {
    for (const ContractInfo& k : all_contracts()) {
      std::printf("%-28s", k.name);
      for (int d = 0; d < kNumDeviceKinds; ++d) {
        std::printf(" %s:", device_kind_name(DeviceKind(d)));
        for (int i = 0; i < k.count(DeviceKind(d)); ++i)
          std::printf("%s%s", i ? "," : "", k.variant(DeviceKind(d), i).name);
      }
      std::printf("\n");
    }
    code = 0;
  });
}

}  // namespace wt::tools
