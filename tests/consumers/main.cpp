// What somebody else's project does first: include, link, run.
#include <cstdio>

#include "warptape/core/build_info.h"
#include "warptape/core/error.h"
#include "warptape/version.h"

int main() {
  try {
    throw wt::ShapeError("thrown across the library's border");
  } catch (const wt::Error& error) {
    std::printf("%s %s\n", wt::build_info().version, error.what());
  }
  return wt::version() == WARPTAPE_VERSION ? 0 : 1;
}
