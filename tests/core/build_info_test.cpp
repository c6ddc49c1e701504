#include "warptape/core/build_info.h"

#include <string>

#include "warptape/tests/support/catch.h"
#include "warptape/version.h"

TEST_CASE("build_info names every optional part and how to get a missing one") {
  const wt::BuildInfo& info = wt::build_info();
  CHECK(std::string(info.version) == WARPTAPE_VERSION_STRING);
  CHECK(wt::version() == WARPTAPE_VERSION);
  REQUIRE(wt::find_feature("cuda") != nullptr);
  CHECK(wt::find_feature("no such part") == nullptr);
  for (const wt::Feature& feature : info.features) {
    CAPTURE(feature.name);
    CHECK(feature.on() == (std::string(feature.state) == "on"));
    CHECK(feature.on() == (std::string(feature.how_to_get).empty()));
  }
  CHECK(wt::find_feature("cuda")->on() == !std::string(info.cuda_archs).empty());
}
