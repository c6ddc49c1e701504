// Curves as pictures and tables.
#include "warptape/core/plot.h"

#include <cmath>
#include <limits>

#include "warptape/core/error.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/temp_dir.h"

using namespace wt;

namespace {

int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++n;
  return n;
}

// Every tag is closed, no attribute holds a quote or a bracket that is not escaped.
bool well_formed(const std::string& xml) {
  std::vector<std::string> open;
  for (size_t at = 0; at < xml.size();) {
    if (xml[at] != '<') {
      ++at;
      continue;
    }
    const size_t end = xml.find('>', at);
    if (end == xml.npos) return false;
    const std::string tag = xml.substr(at + 1, end - at - 1);
    if (tag.find('<') != tag.npos || count(tag, "\"") % 2) return false;
    const std::string name = tag.substr(0, tag.find_first_of(" /"));
    if (tag[0] == '/') {
      if (open.empty() || "/" + open.back() != tag) return false;
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(name);
    }
    at = end + 1;
  }
  return open.empty();
}

const std::vector<double> kFalling{8, 4, 2, 1};

}  // namespace

TEST_CASE("plot: a picture with a curve for each series, their names and both schemes") {
  const std::vector<float> a{3, 2, 1};
  const std::vector<std::pair<double, double>> b{{0, 4}, {1, 1}};
  const std::string svg = plot({{"Adam", a}, {"SGD", b}}, {.title = "Loss", .y = "nats"}).svg();
  CHECK(well_formed(svg));
  CHECK(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  for (const char* part :
       {">Adam<", ">SGD<", ">Loss<", ">nats<", ">step<", "prefers-color-scheme:dark",
        "class=\"line c0 d0\"", "class=\"line c1 d1\""})
    CHECK(mentions(svg, part));
  CHECK(count(svg, "class=\"line c0") == 2);                 // the key and the curve
  CHECK(count(svg, "http") == 1);                            // nothing is fetched
  CHECK(count(plot({{"", a}}).svg(), "class=\"line") == 1);  // one without a name needs no key
  CHECK(count(plot({{"a", a}}, {.markers = true}).svg(), "<circle") == 3);
}

TEST_CASE("plot: the curve's ends lie where the axes say") {
  // x from 60 to 760 - 16, y downwards; the legend takes one row.
  const std::string svg = plot({{"a", std::vector<int>{0, 1}}}, {.from_zero = true}).svg();
  const size_t at = svg.rfind(" d=\"M");
  const std::string path = svg.substr(at + 5, svg.find('"', at + 5) - at - 5);
  CHECK(path.starts_with("60.0 372.0L744.0 "));  // (0, 0) in the corner, 1 at the right
  const double top = std::stod(path.substr(path.rfind(' ') + 1));
  CHECK(std::abs(top - (372 - (372 - 52) / 1.06)) < 0.06);
  CHECK(mentions(plot({{"a", std::vector<double>{1, 1000}}}).svg(), ">log scale<"));
  CHECK(!mentions(plot({{"a", std::vector<double>{1, 1000}}}, {.from_zero = true}).svg(), "log"));
}

TEST_CASE("plot: what cannot be drawn leaves a gap, and nothing hangs or overflows") {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const std::string svg = plot({{"a", std::vector<double>{1, 2, nan, 3, inf, -inf, 2}}}).svg();
  const size_t at = svg.rfind(" d=\"M");
  CHECK(count(svg.substr(at, svg.find('"', at + 5) - at), "M") == 3);
  CHECK(mentions(plot({{"a", std::vector<double>{nan, inf}}}).svg(), "no finite value"));
  CHECK(mentions(plot({{"a", std::vector<double>{}}}).svg(), "no finite value"));
  for (const std::vector<double>& y : {std::vector<double>{1e18, 1e18 + 512},
                                       {1e308, -1e308, 0},
                                       {5e-324, 1e300, 1e140},
                                       {1e-300, 1e140},
                                       {7},
                                       {-1e-300, 1e-300},
                                       {0.1 + 0.2, 0.3}}) {
    for (const bool as_x : {false, true}) {
      chart::Points points;
      for (double v : y) as_x ? points.emplace_back(v, 1.0) : points.emplace_back(1.0, v);
      const std::string picture = plot({{"a", points}}).svg();
      CHECK(well_formed(picture));
      CHECK(picture.find("nan") == picture.npos);
      CHECK(picture.find("\"inf") == picture.npos);
      CHECK(picture.size() < 20'000);
    }
  }
}

TEST_CASE("plot: many points are thinned and spikes stay; names of strangers do no harm") {
  std::vector<double> y(100'000, 1.0);
  y[54'321] = 3;
  const std::string svg = plot({{"a", y}}).svg();
  CHECK(svg.size() < 40'000);
  const size_t at = svg.rfind(" d=\"M");
  double least = 1e9;
  for (size_t i = at; (i = svg.find_first_of("ML", i)) < svg.find('"', at + 4); ++i)
    least = std::min(least, std::stod(svg.substr(svg.find(' ', i) + 1)));
  CHECK(least < 80);  // near the top margin
  const std::string bad = plot({{"<script>\"&\x01\xff", kFalling}, {"b", kFalling}},
                               {.title = "</svg>", .x = "<x>", .y = "\"y\""})
                              .svg();
  CHECK(well_formed(bad));
  CHECK(bad.find("<script") == bad.npos);
  CHECK(bad.find('\xff') == bad.npos);
  std::vector<PlotSeries> many;
  for (int i = 0; i < 20; ++i) many.push_back({"series number " + std::to_string(i), kFalling});
  const std::string crowd = plot(many, {.width = 200, .height = 150}).svg();
  CHECK(well_formed(crowd));
  for (size_t i = 0; i < 20; ++i)  // no two alike
    for (size_t k = 0; k < i; ++k) {
      const auto style = [](size_t n) {
        return "c" + std::to_string(n % 8) + " d" + std::to_string((n + n / 8) % 4);
      };
      CHECK(style(i) != style(k));
    }
}

TEST_CASE("plot: the numbers as a table") {
  const std::string csv = plot({{"a,b", std::vector<double>{0.1, std::nan("")}},
                                {"c \"d\"", chart::Points{{0.5, 2}, {1, 1e-7}}}},
                               {.x = "epoch"})
                              .csv();
  CHECK(csv == "epoch,\"a,b\",\"c \"\"d\"\"\"\n0,0.1,\n0.5,,2\n1,nan,1e-07\n");
}

TEST_CASE("plot: files, and what is refused") {
  const TempDir dir;
  const Plot p = plot({{"a", kFalling}});
  p.svg(dir / "a.svg");
  p.csv(dir / "a.csv");
  CHECK(slurp(dir / "a.svg") == p.svg());
  CHECK(slurp(dir / "a.csv") == p.csv());
  CHECK_THROWS_AS(p.svg(dir / "no/a.svg"), CheckpointError);
  CHECK_THROWS_AS(plot({}), UsageError);
  CHECK_THROWS_AS(plot({{"a", kFalling}}, {.width = 100}), UsageError);
}

TEST_CASE("plot: a logarithmic x axis has a decade everywhere as wide, and no place for 0") {
  const chart::Points rates{{0, 5}, {1e-4, 4}, {1e-3, 3}, {1e-2, 2}};
  const std::string svg = plot({{"", rates}}, {.markers = true, .log_x = true}).svg();
  CHECK(well_formed(svg));
  for (const char* tick : {">1e-4<", ">0.001<", ">0.01<"}) CHECK(mentions(svg, tick));
  std::vector<double> x;
  for (size_t at = 0; (at = svg.find("cx=\"", at)) != svg.npos; at += 4)
    x.push_back(std::stod(svg.substr(at + 4)));
  REQUIRE(x.size() == 3);
  CHECK(std::fabs((x[2] - x[1]) - (x[1] - x[0])) < 0.2);  // of coordinates with one digit
  // One rate alone, and none that has a place.
  CHECK(well_formed(plot({{"", chart::Points{{1e-3, 1}}}}, {.log_x = true}).svg()));
  CHECK(well_formed(plot({{"", chart::Points{{0, 1}, {-1, 2}}}}, {.log_x = true}).svg()));
}

TEST_CASE("plot: ticks that lie close together have the digits that tell them apart") {
  const std::string svg =
      plot({{"", chart::Points{{1, 2.30801}, {2, 2.30804}, {3, 2.30809}}}}).svg();
  for (const char* tick : {">2.30802<", ">2.30804<", ">2.30806<"}) CHECK(mentions(svg, tick));
  CHECK_FALSE(mentions(svg, ">2.308<"));
}
