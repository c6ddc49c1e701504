// wt data: data sets, looked at and prepared.
#include "warptape/tools/wt.h"

namespace wt::tools {

void add_data(CLI::App& app, int& code) {
  CLI::App* c = app.add_subcommand("data", "look at data sets");
  c->require_subcommand(1);
  add_data_show(*c, code);
}

}  // namespace wt::tools
