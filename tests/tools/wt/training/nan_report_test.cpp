#include "warptape/tools/wt/training/nan_report.h"

#include <cmath>
#include <filesystem>

#include "warptape/core/factories.h"
#include "warptape/core/files/json.h"
#include "warptape/tests/support/captured_output.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/tiny_data.h"
#include "warptape/tools/wt/training/train.h"

using namespace wt;
using namespace wt::tools;

namespace {

Tensor with(double v, i64 at) {
  std::vector<float> values(6, 1);
  values[std::size_t(at)] = float(v);
  return tensor(values).reshape({2, 3});
}

}  // namespace

TEST_CASE("nan report: a census counts, and names what is not finite") {
  FiniteCensus c =
      finite_census({{"a", ones({2})}, {"b", with(NAN, 4)}, {"c", with(-INFINITY, 1)}});
  c.add("labels", tensor(std::vector<i64>{1 << 20}));
  c.add("d", with(-7, 0));
  CHECK(c.tensors == 5);
  CHECK(c.largest == 7);
  CHECK(c.largest_in == "d");
  REQUIRE(c.not_finite.size() == 2);
  CHECK(c.not_finite[0].name == "b");
  CHECK(c.not_finite[0].nan == 1);
  CHECK(c.not_finite[0].first == 4);
  CHECK(c.not_finite[1].infinite == 1);
}

TEST_CASE("nan report: the cause comes before what follows from it") {
  NanReport r;
  CHECK(first_non_finite(r) == "nothing that is still there");
  r.refused =
      RefusedStep{.loss = 1, .grad_norm = NAN, .gradients = finite_census({{"w", with(NAN, 0)}})};
  CHECK(first_non_finite(r) == "gradient w");
  r.refused->loss = NAN;
  CHECK(first_non_finite(r) == "loss");
  r.buffers = finite_census({{"mean", with(NAN, 0)}});
  CHECK(first_non_finite(r) == "buffer mean");
  r.parameters = finite_census({{"w", with(INFINITY, 0)}});
  CHECK(first_non_finite(r) == "parameter w");
  r.inputs = finite_census({{"x", with(NAN, 0)}});
  CHECK(first_non_finite(r) == "batch.x");
}

TEST_CASE("nan report: the text is strict JSON whatever the names and numbers are") {
  NanReport r{.step = 3, .recipe = "r", .device = "cpu", .error = "a\n\"b\"", .last_loss = NAN};
  r.refused = RefusedStep{.loss = NAN, .grad_norm = INFINITY, .gradients = {}};
  r.parameters = finite_census({{"w\x1b[2J", with(NAN, 0)}});
  const std::string text = to_json(r);
  JsonReader reader(text, "text");
  reader.skip_value();
  reader.finish();
  CHECK(text.find("\"step\":3") != std::string::npos);
  CHECK(text.find("\"loss\":\"NaN\",\"grad_norm\":\"Infinity\",\"last_loss\":null") !=
        std::string::npos);
  CHECK(text.find("\"shape\":[2,3],\"nan\":1,\"infinite\":0,\"first\":0") != std::string::npos);
  CHECK(text.find("\"inputs\":null") != std::string::npos);
}

TEST_CASE("nan report: a run that a step ends says which step, and what was not finite in it") {
  const TempDir dir;
  wt_test::write_tiny_fashion(dir, 64, 16);
  TrainOptions o;
  o.recipe = "fashion";
  o.set = {"model=mlp"};
  o.data = dir.path;
  o.out = dir / "run";
  o.batch = 8;
  o.steps = 16;
  o.lr = 1e30;  // no float survives it
  o.clip = o.warmup = 0;
  o.on_nan = GENERATE("stop", "skip");
  o.micro_batches = GENERATE(1, 2);
  o.quiet = true;
  bool stopped = false;
  std::string said;
  {
    const CapturedOutput output;
    try {
      train(o);
    } catch (const NumericError&) {
      stopped = true;
    }
    said = output.text();
  }
  REQUIRE(stopped == (o.on_nan == "stop"));
  if (!stopped) {
    CHECK_FALSE(std::filesystem::exists(o.out + "/nan-report.json"));
    return;
  }
  const std::string text = slurp(o.out + "/nan-report.json");
  CAPTURE(text);
  JsonReader reader(text, "nan-report.json");
  reader.skip_value();
  reader.finish();
  CHECK(text.ends_with("}\n"));
  const auto has = [&](const std::string& part) { return text.find(part) != std::string::npos; };
  CHECK(has(
      "\"recipe\":\"fashion\",\"device\":\"cpu\",\"seed\":1,\"step\":2,\"epoch\":0,\"batch\":1"));
  CHECK(has("\"inputs\":{\"tensors\":2,"));
  CHECK(has("\"gradients\":{\"tensors\":6,"));
  CHECK(has("\"error\":\"NumericError"));
  CHECK(said.find("nan-report.json says what was not finite: first ") != std::string::npos);
}
