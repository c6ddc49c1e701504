// A profile's table: columns, order, groups, nesting, sums; JSON and CSV.
#include <algorithm>

#include "warptape/autograd/ops/loss.h"
#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/core/factories.h"
#include "warptape/core/files/json.h"
#include "warptape/core/machine.h"
#include "warptape/core/profile.h"
#include "warptape/nn/layers.h"
#include "warptape/tests/support/ambient.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/temp_dir.h"

using namespace wt;
using profiler::Profile;
using profiler::Row;
using profiler::TableOptions;
using wt_test::Environment;

namespace {

struct Model : nn::Module<Model> {
  nn::Linear fc1 = add("fc1", nn::Linear{32, 64});
  nn::Sequential head = add("head", nn::Sequential{nn::Linear{64, 16}, nn::Linear{16, 4}});
  Tensor forward(const Tensor& x) { return head(relu(fc1(x))); }
};

Profile profile_of_steps(Device d, int steps, profiler::ProfileOptions o = {}) {
  Model net;
  net.to(d);
  const Tensor x = ones({16, 32}, {.device = d});
  profiler::Scope scope(o, Frame{});
  for (int i = 0; i < steps; ++i) {
    if (i) scope.step();
    const auto r = profiler::range("step");
    net(x).sum().backward();
  }
  return scope.stop();
}

const Row* find(const std::vector<Row>& rows, std::string_view name) {
  for (const Row& r : rows)
    if (r.name == name) return &r;
  return nullptr;
}

}  // namespace

TEST_CASE("row 107: the columns of the articles' table are there, and what it has not") {
  const Environment none("WT_MACHINE", "off");
  for (const Device d : wt_test::kernel_devices()) {
    const Profile p = profile_of_steps(d, 2, {.shapes = true});
    const std::string table = p.table();
    std::vector<std::string> heads = {"Name",      "Self CPU %",    "Self CPU",    "CPU total %",
                                      "CPU total", "CPU time avg",  "# of Calls",  "FLOPs",
                                      "FLOPs %",   "FLOPs total %", "FLOPs total", "Inputs",
                                      "Bytes",     "FLOP/byte",     "Bound by",    "Line"};
    if (d.kind != DeviceKind::cpu) {
      const std::string of = d.kind == DeviceKind::simt ? "simt" : "CUDA";
      for (const char* end : {" %", "", " total %", " total", " time avg"})
        heads.push_back((std::string(end).size() < 3 ? "Self " : "") + of + end);
    }
    for (const std::string& h : heads) CHECK(mentions(table, h));
    CHECK(mentions(table, "linear.backward"));
    CHECK(mentions(table, "[16, 32] [64, 32]"));
    CHECK(mentions(table, "Self CPU time total: "));
    CHECK(mentions(table, ", 2 steps of "));
    CHECK(table.find('\x1b') == std::string::npos);
    CHECK(mentions(table,
                   d.kind == DeviceKind::cpu ? "No % of roof: " : "host time of the executor"));
  }
}

TEST_CASE("row 107: linear > matmul is shown nested, under its module and the user's range") {
  const Profile p = profile_of_steps(Device::cpu(), 1);
  const std::vector<Row> rows = p.rows({.nested = true});
  const auto at = [&](std::string_view name, int depth, size_t from = 0) {
    for (size_t i = from; i < rows.size(); ++i)
      if (rows[i].depth == depth && rows[i].name == name) return i;
    return size_t(0);
  };
  const auto step =
      std::find_if(rows.begin(), rows.end(), [](const Row& r) { return r.name == "step"; });
  REQUIRE(step != rows.end());
  CHECK(step->depth == 0);
  const size_t first = size_t(step - rows.begin());
  const size_t module = at("fc1", 1, first);
  REQUIRE(module > first);
  const size_t linear = at("linear", 2, module);
  REQUIRE(linear > module);
  CHECK(rows[linear + 1].depth == 3);  // the kernels in it
  CHECK(mentions(rows[linear + 1].name, "matmul:"));
  CHECK(rows[linear].total_ns >= rows[linear + 1].total_ns);
  CHECK(rows[module].total_ns >= rows[linear].total_ns);
  CHECK(rows[module].self_ns == 0);
  CHECK(at("linear.backward", 2, module) > module);  // beside its forward
  CHECK(at("0", 2, first) > first);                  // head.0
  const std::string table = p.table({.nested = true});
  CHECK(mentions(table, "\n    linear "));
}

TEST_CASE("row 106: rows are sorted by torch's keys, and unknown ones have a near name") {
  const Profile p = profile_of_steps(Device::simt(), 2);
  const auto sorted = [&](const char* key, auto value) {
    const std::vector<Row> rows = p.rows({.sort_by = key});
    for (size_t i = 1; i < rows.size(); ++i) CHECK(value(rows[i - 1]) >= value(rows[i]));
  };
  sorted("self_cpu_time_total", [](const Row& r) { return double(r.self_ns); });
  sorted("cpu_time_total", [](const Row& r) { return double(r.total_ns); });
  sorted("self_cuda_time_total", [](const Row& r) { return double(r.device_self_ns); });
  sorted("cuda_time_total", [](const Row& r) { return double(r.device_total_ns); });
  sorted("device_time_total", [](const Row& r) { return double(r.device_total_ns); });
  sorted("cpu_memory_usage", [](const Row& r) { return double(r.memory_total); });
  sorted("count", [](const Row& r) { return double(r.calls); });
  sorted("flops", [](const Row& r) { return r.flops; });
  sorted("bytes", [](const Row& r) { return r.bytes; });
  std::vector<Row> names = p.rows({.sort_by = "name"});
  CHECK(std::is_sorted(names.begin(), names.end(),
                       [](const Row& a, const Row& b) { return a.name < b.name; }));
  CHECK(p.rows({.rows = 2}).size() == 2);
  CHECK(mentions(p.table({.rows = 2}), " more rows"));

  const std::string text = message_of([&] { (void)p.table({.sort_by = "cuda_time_totl"}); });
  CHECK(mentions(text, "did you mean 'cuda_time_total'?"));
  CHECK(mentions(text, "self_cpu_time_total, "));
  CHECK(
      mentions(message_of([&] { (void)p.rows({.group_by = "modul"}); }), "did you mean 'module'?"));
  CHECK_THROWS_AS(p.table({.width = -1}), UsageError);
}

TEST_CASE("row 106: self times of every grouping add up to the profiled time") {
  for (const Device d : wt_test::kernel_devices()) {
    const Profile p = profile_of_steps(d, 3, {.shapes = true});
    double kernels = 0;
    for (const profiler::Event& e : p.events())
      if (e.kind == profiler::Kind::kernel) kernels += e.flops;
    for (const TableOptions& o :
         {TableOptions{}, TableOptions{.shapes = true}, TableOptions{.group_by = "module"},
          TableOptions{.group_by = "kernel"}, TableOptions{.group_by = "line"},
          TableOptions{.nested = true}}) {
      CAPTURE(o.group_by, o.nested, o.shapes);
      const std::vector<Row> rows = p.rows(o);
      double self = 0, flops = 0, share = 0;
      for (const Row& r : rows) {
        self += double(r.self_ns) * 1e-9;
        flops += r.flops;
        CHECK(r.self_ns >= 0);
        CHECK(r.total_ns >= r.self_ns);
        CHECK(r.flops_total >= r.flops);
        share += r.outside ? double(r.self_ns) * 1e-9 : 0;
      }
      CHECK(std::abs(self - p.seconds()) <= 0.02 * p.seconds());
      CHECK(flops == kernels);
      CHECK(share < p.seconds());
    }
    const std::vector<Row> modules = p.rows({.group_by = "module"});
    const Row *head = find(modules, "head"), *first = find(modules, "head.0"),
              *second = find(modules, "head.1");
    REQUIRE(head);
    REQUIRE(first);
    REQUIRE(second);
    CHECK(head->total_ns >= first->total_ns + second->total_ns);
    CHECK(head->flops_total == first->flops_total + second->flops_total);
    CHECK(find(modules, "head.0.backward") != nullptr);
    const std::vector<Row> operators = p.rows();
    const Row* linear = find(operators, "linear");
    REQUIRE(linear);
    CHECK(linear->calls == 9);
    CHECK(find(operators, "step")->total_ns >= linear->total_ns);
    int shapes = 0;
    for (const Row& r : p.rows({.shapes = true})) shapes += r.name == "linear";
    CHECK(shapes == 3);
  }
}

TEST_CASE("row 111: a row says what bounds it, beside this machine's measured roof") {
  const TempDir dir;
  const Environment file("WT_MACHINE", (dir / "m.tsv").c_str());
  machine::Measured m = machine::this_machine();
  m.devices = {{"cpu", "cpu", false}};
  // So slow a machine that its roof is far below what happens here.
  m.figures = {{"cpu", "copy", "1 thread", "", 1e-3, 0, "GB/s", 1 << 27, ""},
               {"cpu", "product", "exact", "f32", 1e-3, 0, "GFLOP/s", 1024, ""}};
  machine::keep_measured(m);
  const Tensor a = ones({128, 128});
  const Profile p = profiler::profile([&] {
    (void)matmul(a, a);
    (void)exp(a);
    (void)a.view({-1});
  });
  const std::vector<Row> rows = p.rows();
  const Row *product = find(rows, "matmul"), *pass = find(rows, "exp"), *view = find(rows, "view");
  REQUIRE(product);
  REQUIRE(pass);
  REQUIRE(view);
  CHECK(view->bound == "host");
  CHECK(view->roof == 0);
  CHECK(product->roof > 1);
  CHECK(pass->roof > 1);
  // Where the kernels are most of the row's time, as they should be.
  CHECK((product->bound == "arithmetic" || product->bound == "host"));
  CHECK((pass->bound == "memory" || pass->bound == "host"));
  CHECK(mentions(p.table(), "% of roof"));
  CHECK(p.table().find("No % of roof") == std::string::npos);
}

TEST_CASE("row 106: the table fits into a width, and JSON and CSV have all of it") {
  const Profile p = profile_of_steps(Device::cpu(), 2, {.shapes = true});
  for (const int width : {200, 120, 80, 60}) {
    const std::string table = p.table({.width = width});
    for (size_t begin = 0; begin < table.find("Self CPU time total");) {
      const size_t end = table.find('\n', begin);
      CHECK(end - begin <= size_t(width));
      begin = end + 1;
    }
    CHECK(mentions(table, "Self CPU"));
    CHECK(mentions(table, "linear"));
  }
  const std::vector<Row> rows = p.rows();
  const std::string json = p.json(), csv = p.csv();
  JsonReader reader(json, "profile.json");
  reader.skip_value();
  reader.finish();
  for (const char* key : {"\"self_cpu_ns\"", "\"flops\"", "\"steps\":2", "\"total\"", "\"notes\""})
    CHECK(mentions(json, key));
  CHECK(std::count(csv.begin(), csv.end(), '\n') == i64(rows.size()) + 1);
  CHECK(mentions(csv, "\"[16, 32] [64, 32] "));
  CHECK(Profile().rows().size() == 1);
  CHECK(mentions(Profile().table(), "Total"));
}
