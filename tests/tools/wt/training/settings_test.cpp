#include "warptape/tools/wt/training/settings.h"

#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"

using namespace wt;
using tools::Settings;

TEST_CASE("settings are what was given, else the defaults, and print so that they parse again") {
  Settings s({"layers=3", "rate=1e-2", "flip=false", "model=mlp"});
  CHECK(s.integer("layers", 4, 1, 64) == 3);
  CHECK(s.integer("heads", 4, 1, 64) == 4);
  CHECK(s.real("rate", 0.5, 0, 1) == 0.01);
  CHECK(s.flag("flip", true) == false);
  CHECK(s.flag("pad", false) == false);
  CHECK(s.choice("model", {"cnn", "mlp"}) == "mlp");
  s.finish("test");
  CHECK(s.text() == "layers=3 heads=4 rate=0.01 flip=false pad=false model=mlp");
  Settings again = Settings::parse(s.text());
  CHECK(again.integer("layers", 9, 1, 64) == 3);
  CHECK(again.real("rate", 9, 0, 10) == 0.01);
}

TEST_CASE("settings that make no sense are refused by name") {
  CHECK(message_of([] { Settings({"layers"}); }) == "UsageError: --set layers is not KEY=VALUE");
  CHECK_THROWS_AS(Settings({"=3"}), UsageError);
  CHECK_THROWS_AS(Settings({"a="}), UsageError);
  CHECK(message_of([] { Settings({"a=1", "a=2"}); }) == "UsageError: --set a is given twice");
  const auto integer = [](const char* text) {
    return message_of([&] { Settings({text}).integer("layers", 4, 1, 64); });
  };
  for (const char* bad : {"layers=0", "layers=65", "layers=2.5", "layers=two", "layers=3x",
                          "layers=99999999999999999999"})
    CHECK(integer(bad) == str("UsageError: --set ", bad, ": expected an integer from 1 to 64"));
  for (const char* bad : {"p=nan", "p=2", "p=-1", "p=half"})
    CHECK_THROWS_AS(Settings({bad}).real("p", 0, 0, 1), UsageError);
  CHECK(message_of([] {
          Settings({"model=ccn"}).choice("model", {"cnn", "mlp"});
        }) == "UsageError: --set model=ccn: expected one of cnn, mlp; did you mean 'cnn'?");
  CHECK(message_of([] { Settings({"\x1b[31m"}); }) ==
        "UsageError: --set \\x1b[31m is not KEY=VALUE");
  Settings s({"layer=3"});
  s.integer("layers", 4, 1, 64);
  CHECK(message_of([&] { s.finish("charlm"); }) ==
        "UsageError: charlm has no setting 'layer'; did you mean 'layers'? (layers=4)");
}
