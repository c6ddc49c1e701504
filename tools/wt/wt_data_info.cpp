// wt data info: what files and folders of data are, and what is in them.
#include <cstdio>
#include <memory>

#include "warptape/core/input_file.h"
#include "warptape/tools/wt/data/data_info.h"
#include "warptape/tools/wt/exit_codes.h"
#include "warptape/tools/wt/wt.h"

namespace wt::tools {
namespace {

struct InfoOptions {
  std::vector<std::string> paths;
  bool json = false;
};

// All paths are looked at; the first error is what the command ends with.
int info(const InfoOptions& o) {
  int code = 0;
  for (const std::string& path : o.paths) try {
      const DataInfo i = data_info(path);
      std::fputs(o.json ? (i.json() + "\n").c_str() : i.text().c_str(), stdout);
    } catch (const Error& e) {
      std::fflush(stdout);
      std::fprintf(stderr, "wt: %s\n", printable_lines(e.what()).c_str());
      if (code == 0) code = exit_code_of(e);
    }
  return code;
}

}  // namespace

void add_data_info(Command data, int& code) {
  const Command c = data.add_subcommand("info", "what files and folders are, and what is in them");
  auto o = std::make_shared<InfoOptions>();
  c.add_option("paths", o->paths, "files or folders; what they are is told by their content")
      .required();
  c.add_flag("--json", o->json, "an object a path");
  c.callback([o, &code] { code = info(*o); });
}

}  // namespace wt::tools
