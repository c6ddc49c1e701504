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

TEST_CASE("build_info: a part that was switched off is not called not found, nor the other way") {
  using wt::why_without;
  CHECK(why_without({"cuda", "off", "", "configure with -DWARPTAPE_WITH_CUDA=AUTO"}) ==
        "it was switched off (-DWARPTAPE_WITH_CUDA=OFF): configure with -DWARPTAPE_WITH_CUDA=AUTO");
  CHECK(why_without({"zlib", "missing", "", "apt-get install zlib1g-dev"}) ==
        "configure found none that can be used: apt-get install zlib1g-dev");
  CHECK(why_without({"mpi", "on", "3.1", ""}) == "");
  CHECK(why_without("no such part") == "");
  for (const wt::Feature& feature : wt::build_info().features)
    CHECK(why_without(feature.name) == why_without(feature));
}
