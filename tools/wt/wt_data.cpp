// wt data: data sets, looked at and prepared.
#include "warptape/tools/wt/wt.h"

namespace wt::tools {

void add_data(Command app, int& code) {
  const Command c = app.add_subcommand("data", "look at, check and pack data sets");
  c.require_subcommand();
  add_data_info(c, code);
  add_data_pack(c, code);
  add_data_show(c, code);
  add_data_verify(c, code);
}

}  // namespace wt::tools
