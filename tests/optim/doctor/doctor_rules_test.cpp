// Each rule of the doctor over evidence made by hand: what it finds, and a sibling that it must not
// accuse. Programs with planted faults: doctor_loop_test.cpp, doctor_data_test.cpp.
#include <algorithm>
#include <set>

#include "warptape/optim/doctor/rule.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"

using namespace wt;
using namespace wt::doctor;

namespace {

// Of a program that has nothing.
Evidence healthy() {
  Evidence e;
  for (int i = 0; i < 12; ++i)
    e.steps.push_back({.us = 10000,
                       .data_us = 100,
                       .launches = 50,
                       .launched_bytes = 50e6,
                       .recorded = 40,
                       .walked = 40,
                       .updates = 1,
                       .live_bytes = 1000000,
                       .live_nodes = 3,
                       .loss = 2 - 0.1 * i,
                       .scale = 1,
                       .rate = 0.1,
                       .told_loss = true});
  e.batches = {.count = 12,
               .samples = 32,
               .floating = true,
               .elements = 12 * 32 * 8,
               .mean = 0.1,
               .deviation = 1,
               .labels = true,
               .label_count = 12 * 32,
               .distinct = 10,
               .least = 0,
               .most = 9};
  e.classes = 10, e.class_items = 32, e.class_losses = 1;
  e.has_net = true;
  e.walks = e.updates = 12;
  e.parameters = {{.name = "fc1.weight",
                   .elements = 64,
                   .axes = 2,
                   .reached = true,
                   .gradient_rms = 0.1,
                   .optimizers = 1},
                  {.name = "fc2.weight",
                   .elements = 64,
                   .axes = 2,
                   .reached = true,
                   .gradient_rms = 0.2,
                   .optimizers = 1},
                  {.name = "fc3.weight",
                   .elements = 64,
                   .axes = 2,
                   .reached = true,
                   .gradient_rms = 0.3,
                   .optimizers = 1}};
  e.relus = {{.place = "relu at net.cpp:5", .alive = std::vector<char>(16, 1)}};
  e.first_loss = 2, e.first_loss_again = 1;
  e.products = {.f32 = 1e7};
  e.machine = {.processors = 4, .threads = 4, .swapped_bytes_s = 0, .slowed = 0};
  return e;
}

struct Case {
  const char* rule;
  void (*plant)(Evidence&);
  const char* text;            // of the finding
  void (*sibling)(Evidence&);  // none of any rule
};

const Case kCases[] = {
    {"step-fails", [](Evidence& e) { e.failure = "step 13: ShapeError: [matmul] 3 and 4"; },
     "step 13: ShapeError: [matmul] 3 and 4", [](Evidence&) {}},
    {"data-wait",
     [](Evidence& e) {
       for (auto& s : e.steps) s.data_us = 4000;
     },
     "waiting for data: 4 ms of a step's 10 ms, 40 %",
     [](Evidence& e) {
       for (auto& s : e.steps) s.data_us = 1900;
     }},
    {"workers-few",
     [](Evidence& e) {
       for (auto& s : e.steps) s.data_us = 4000;
       e.workers = 1;
     },
     "1 workers on 4 processors", [](Evidence& e) { e.workers = 1; }},
    {"workers-many", [](Evidence& e) { e.workers = 16; }, "16 workers on 4 processors",
     [](Evidence& e) { e.workers = 4; }},
    {"pageable-copies",
     [](Evidence& e) { e.device = Device::cuda(), e.batches.pageable_bytes = 1 << 20; },
     "1048576 bytes a step",
     [](Evidence& e) { e.batches.pageable_bytes = 1 << 20; }},  // for cpu there is no copy
    {"batch-repeats", [](Evidence& e) { e.batches.repeated = 11; },
     "11 of 12 batches are the one before", [](Evidence& e) { e.batches.repeated = 2; }},
    {"inputs-not-finite", [](Evidence& e) { e.batches.not_finite = 3; }, "3 of 3072 elements",
     [](Evidence& e) { e.batches.floating = false, e.batches.elements = 0; }},
    {"inputs-not-standardised", [](Evidence& e) { e.batches.mean = 72, e.batches.deviation = 90; },
     "mean 72, standard deviation 90",
     [](Evidence& e) { e.batches.mean = 0.28, e.batches.deviation = 0.35; }},
    {"inputs-constant", [](Evidence& e) { e.batches.rows_alike = true; },
     "each of 32 samples a batch", [](Evidence& e) { e.batches.deviation = 0.5; }},
    {"inputs-upscaled", [](Evidence& e) { e.upscaled = 49, e.upscaled_at = "net.cpp:9"; },
     "49 pixels of the resized image", [](Evidence& e) { e.upscaled = 2; }},
    {"labels-outside", [](Evidence& e) { e.batches.least = 1, e.batches.most = 10; },
     "labels from 1 to 10, the loss has 10 classes",
     // The loss was read, and ignores them:
     [](Evidence& e) { e.batches.most = 255, e.outside.read = true; }},
    {"labels-all-alike",
     [](Evidence& e) { e.batches.distinct = 1, e.batches.most = 0, e.classes = 2; },
     "all 384 labels are 0",
     [](Evidence& e) { e.batches.distinct = 1, e.batches.label_count = 8; }},  // too few to tell
    {"labels-sorted", [](Evidence& e) { e.batches.of_one_class = 11, e.batches.filling = 5; },
     "11 of 12 batches, of 10 classes",  // one class is much more frequent:
     [](Evidence& e) { e.batches.of_one_class = 11, e.batches.filling = 1; }},
    {"head-wide", [](Evidence& e) { e.classes = 1000; }, "labels use 10 of 1000 classes",
     [](Evidence& e) { e.classes = 64; }},
    {"zero-grad-missing", [](Evidence& e) { e.not_zeroed = 11; }, "11 of 12 updates",
     [](Evidence& e) { e.walks = 24, e.updates = 24; }},
    {"no-step", [](Evidence& e) { e.updates = 0; }, "12 backwards, no update",
     [](Evidence& e) { e.updates = 0, e.captures = true; }},
    {"forward-unused",
     [](Evidence& e) {
       for (auto& s : e.steps) s.recorded = 60;
     },
     "of 60 operators that a step records 20 (33 %)",
     [](Evidence& e) {
       for (auto& s : e.steps) s.recorded = 45;
     }},
    {"accumulation-sum", [](Evidence& e) { e.walks = e.added_up = 48, e.class_items = 8; },
     "4 backwards an update",  // of two losses of the whole batch each:
     [](Evidence& e) { e.walks = e.added_up = 24; }},
    {"trains-in-eval-mode", [](Evidence& e) { e.net_training = false, e.dropout_modules = 2; },
     "2 dropouts drop nothing", [](Evidence& e) { e.net_training = false; }},
    {"eval-records", [](Evidence& e) { e.evaluation = {.there = true, .recorded = 40}; },
     "40 operators are recorded", [](Evidence& e) { e.evaluation.there = true; }},
    {"eval-in-train-mode",
     [](Evidence& e) { e.evaluation = {.there = true, .dropouts = 2, .statistics = 3}; },
     "2 dropouts drop, 3 running statistics move",
     [](Evidence& e) { e.evaluation.there = true, e.dropout_modules = 2; }},
    {"anomaly-mode", [](Evidence& e) { e.anomaly = true; }, "every gradient", [](Evidence&) {}},
    {"names-looked-up",
     [](Evidence& e) {
       for (auto& s : e.steps) s.lookups = 3, s.lookup_us = 300;
     },
     "3 look-ups and lists of names a step take 300 us, 3.0 %",
     [](Evidence& e) {
       for (auto& s : e.steps) s.lookups = 1, s.lookup_us = 20;
     }},
    {"kernels-forced", [](Evidence& e) { e.forced_kernels = true; }, "WT_KERNEL", [](Evidence&) {}},
    {"parameters-unreached", [](Evidence& e) { e.parameters[1].reached = false; },
     "no backward reached 1 of 3: fc2.weight",
     [](Evidence& e) { e.parameters[1].reached = e.parameters[1].wants_gradient = false; }},
    {"parameters-forgotten", [](Evidence& e) { e.parameters[2].optimizers = 0; },
     "1 want gradients and are never updated: fc3.weight",
     [](Evidence& e) { e.parameters[2].optimizers = 0, e.parameters[2].wants_gradient = false; }},
    {"parameters-shared", [](Evidence& e) { e.parameters[0].optimizers = 2; }, "fc1.weight",
     [](Evidence&) {}},
    {"rate-zero",
     [](Evidence& e) {
       for (auto& s : e.steps) s.rate = 0;
     },
     "in all of 12 steps", [](Evidence& e) { e.steps[0].rate = 0; }},
    {"schedule-ignored",
     [](Evidence& e) {
       for (int i = 0; i < 12; ++i) e.schedule.push_back(1 - 0.05 * i);
     },
     "the rate stays 0.1, the schedule goes from 1 to 0.45",
     [](Evidence& e) {
       for (int i = 0; i < 12; ++i)
         e.schedule.push_back(1 - 0.05 * i), e.steps[size_t(i)].rate = 0.1 * (1 - 0.05 * i);
     }},
    {"schedule-in-epochs",
     [](Evidence& e) {
       e.planned_steps = 6400, e.plan.assign(64, 0);
       e.plan[0] = 1;
     },
     "its factor stays 0 behind 3.1 % of 6400 steps",
     [](Evidence& e) {
       e.planned_steps = 6400, e.plan.assign(64, 1);  // a warm-up, then constant
       e.plan[0] = 0;
     }},
    {"relu-dead", [](Evidence& e) { std::fill_n(e.relus[0].alive.begin(), 12, char(0)); },
     "relu at net.cpp:5 (12 of 16)",
     [](Evidence& e) { std::fill_n(e.relus[0].alive.begin(), 5, char(0)); }},
    {"gradients-vanish", [](Evidence& e) { e.parameters[0].gradient_rms = 1e-9; },
     "fc1.weight gets 1e-09, fc3.weight 0.3",
     [](Evidence& e) { e.parameters[0].gradient_rms = 1e-9, e.parameters[0].axes = 1; }},
    {"gradients-explode", [](Evidence& e) { e.parameters[2].gradient_rms = 4e3; },
     "fc3.weight 4e+03",  // with a loss scale, which the update takes out:
     [](Evidence& e) {
       for (auto& p : e.parameters) p.gradient_rms *= 65536;
       e.factor = true, e.last_factor = 1.0 / 65536;
     }},
    {"batch-norm-of-one", [](Evidence& e) { e.batch_norm_modules = 2, e.batches.samples = 1; },
     "2 batch norms, 1 samples", [](Evidence& e) { e.batch_norm_modules = 2; }},
    {"softmax-twice", [](Evidence& e) { e.probabilities = true; }, "adds up to 1",
     [](Evidence&) {}},
    {"loss-not-finite", [](Evidence& e) { e.steps[5].loss = INFINITY; }, "in 1 of 12 steps",
     [](Evidence& e) {
       for (auto& s : e.steps) s.loss = NAN, s.told_loss = false;
     }},
    {"loss-rises", [](Evidence& e) { e.first_loss_again = 3; }, "2 -> 3 over 12 steps",
     [](Evidence& e) { e.first_loss = 1e-3, e.first_loss_again = 1.15e-3; }},
    {"loss-flat", [](Evidence& e) { e.first_loss_again = 1.9999; }, "2 -> 2 over 12 steps",
     [](Evidence& e) {
       e.first_loss_again = 1.9999;  // the rate is warming up
       for (size_t i = 0; i < 12; ++i) e.steps[i].rate = 1e-5 * double(i + 1);
     }},
    {"no-tensor-cores", [](Evidence& e) { e.device = Device::cuda(), e.products = {.f32 = 5e9}; },
     "5 GFLOP a step in f32, 100 %",
     [](Evidence& e) { e.device = Device::cuda(), e.products = {.f32 = 5e9}, e.tf32 = true; }},
    {"odd-sizes",
     [](Evidence& e) {
       e.device = Device::cuda();
       e.products = {.half = 5e9, .odd = 1e9, .odd_example = "128 x 10 x 51 at net.cpp:3"};
     },
     "20 % of their FLOPs, such as 128 x 10 x 51 at net.cpp:3",
     [](Evidence& e) { e.device = Device::cuda(), e.products = {.half = 5e9, .odd = 1e8}; }},
    {"double-precision", [](Evidence& e) { e.products.f64 = 1e9; }, "1 GFLOP a step, 99 %",
     [](Evidence& e) { e.products.f64 = 1e5; }},
    {"gradient-underflow",
     [](Evidence& e) { e.precision = DType::f16, e.scaled_underflow = 0.3, e.underflow = 0.7; },
     "30 % of the elements are 0 or lose digits with the loss scale, 70 % without one",
     [](Evidence& e) { e.precision = DType::f16, e.underflow = 0.7; }},
    {"steps-skipped",
     [](Evidence& e) {
       for (int i = 0; i < 4; ++i) e.steps[size_t(i)].skipped = true;
     },
     "4 of 12 steps change nothing", [](Evidence& e) { e.steps[0].skipped = true; }},
    {"scale-falls",
     [](Evidence& e) {
       e.precision = DType::f16;
       for (int i = 0; i < 12; ++i) e.steps[size_t(i)].scale = 65536 >> i;
     },
     "from 6.55e+04 to 32",
     [](Evidence& e) {
       e.precision = DType::f16;
       for (auto& s : e.steps) s.scale = 65536;
     }},
    {"host-waits",
     [](Evidence& e) {
       e.waits = {{.what = "item", .device = Device::simt(), .at = {"loop.cpp", 7}, .count = 12}};
     },
     "item at loop.cpp:7, 12 times",
     [](Evidence& e) {
       e.waits = {{.what = "item", .device = Device::simt(), .at = {"loop.cpp", 7}, .count = 2}};
     }},
    {"launch-bound", [](Evidence& e) { e.captured_us = 2500, e.eager_us = 9900; },
     "as one graph 2.5 ms", [](Evidence& e) { e.captured_us = 2500, e.eager_us = 2600; }},
    {"small-kernels",
     [](Evidence& e) {
       e.device = Device::cuda();
       for (auto& s : e.steps) s.launches = 1500;
     },
     "1.5e+03 launches a step",
     [](Evidence& e) {
       e.device = Device::cuda();
       for (auto& s : e.steps) s.launches = 1500, s.launched_bytes = 1e10;
     }},
    {"new-shapes",
     [](Evidence& e) {
       for (auto& s : e.steps) s.new_shapes = 3;
     },
     "18 shapes not seen before",
     [](Evidence& e) {
       for (int i = 0; i < 5; ++i) e.steps[size_t(i)].new_shapes = 3;
     }},
    {"device-idle", [](Evidence& e) { e.machine.cuda = true; }, "on cpu",
     [](Evidence& e) { e.machine.cuda = true, e.device = Device::simt(); }},
    {"step-jitter",
     [](Evidence& e) { e.steps[4].us = e.steps[8].us = 25000, e.steps[8].us = 40000; },
     "2 of 12 steps take more than twice the median 10 ms; the slowest 40 ms, step 9",
     [](Evidence& e) { e.steps[4].us = 40000; }},
    {"ranks-wait",
     [](Evidence& e) {
       e.waited_us = {4000, 3900, 100, 4100};
     },
     "rank 3 waits 4.1 ms of a step's 10 ms, rank 2 100 us",
     [](Evidence& e) {
       e.waited_us = {800, 900, 700, 850};
     }},
    {"memory-grows",
     [](Evidence& e) {
       for (int i = 0; i < 12; ++i)
         e.steps[size_t(i)].live_bytes += 4096 * i, e.steps[size_t(i)].live_nodes += 40 * i;
     },
     "4096 bytes and 40 nodes of the tape more a step",
     [](Evidence& e) {
       for (int i = 0; i < 12; ++i) e.steps[size_t(i)].live_bytes += 8 * i;  // losses that are kept
     }},
    {"machine-swaps", [](Evidence& e) { e.machine.swapped_bytes_s = 2e7; }, "20 MB a second",
     [](Evidence& e) { e.machine.swapped_bytes_s = 4096; }},
    {"clock-held-down",
     [](Evidence& e) {
       e.machine.gpus = {
           {.name = "H200", .why = "power: at its limit", .mhz = 1095, .most_mhz = 1980}};
     },
     "H200 at 1095 of 1980 MHz: power: at its limit", [](Evidence&) {}},
    {"threads-many", [](Evidence& e) { e.machine.threads = 16; }, "16 threads of kernels on 4",
     [](Evidence& e) { e.machine.threads = 3; }}};

}  // namespace

TEST_CASE("a healthy program has no findings", "[doctor]") {
  CHECK(findings_of(healthy()).empty());
  CHECK(findings_of(Evidence()).empty());  // and nothing is said of nothing
}

TEST_CASE("row 114: each rule of the doctor finds its fault and does not accuse its sibling",
          "[doctor]") {
  for (const Case& c : kCases) {
    INFO(c.rule);
    Evidence ill = healthy();
    c.plant(ill);
    const std::vector<Finding> found = findings_of(ill);
    const auto it = std::find_if(found.begin(), found.end(),
                                 [&](const Finding& f) { return f.rule == c.rule; });
    REQUIRE(it != found.end());
    CHECK(found.size() == 1);
    CHECK(mentions(it->evidence, c.text));
    CHECK(!it->fix.empty());
    Evidence well = healthy();
    c.sibling(well);
    CHECK(findings_of(well).empty());
  }
}

TEST_CASE("every rule of the doctor has a case, and an id of its own", "[doctor]") {
  std::set<std::string> cases, ids;
  for (const Case& c : kCases) cases.insert(c.rule);
  for (const RuleInfo& r : rules()) {
    INFO(r.id);
    CHECK(ids.insert(r.id).second);
    CHECK(cases.count(r.id) == 1);
  }
  CHECK(cases.size() == ids.size());
  CHECK(ids.size() >= 30);
}

TEST_CASE("findings: what is wrong comes first, then by cost; a failure stays in front",
          "[doctor]") {
  Evidence e = healthy();
  for (auto& s : e.steps) s.data_us = 4000;
  e.captured_us = 1000, e.eager_us = 9900;
  e.upscaled = 16, e.upscaled_at = "net.cpp:1";
  e.not_zeroed = 3;
  const auto order = [&] {
    std::string text;
    for (const Finding& f : findings_of(e)) text += f.rule + " ";
    return text;
  };
  CHECK(order() == "zero-grad-missing launch-bound data-wait inputs-upscaled ");
  e.failure = "IndexError: ...";
  CHECK(order() == "step-fails zero-grad-missing launch-bound data-wait inputs-upscaled ");
}

TEST_CASE("row 115: clocks and unequal steps are told with what they coincide with", "[doctor]") {
  Evidence e = healthy();
  e.steps[3].us = 30000;
  e.steps[7].us = 50000, e.steps[7].data_us = 41000;
  e.machine.slowed = 4;
  const std::vector<Finding> found = findings_of(e);
  REQUIRE(found.size() >= 2);
  Report r{.findings = found, .steps = 12, .step_us = 10000};
  REQUIRE(r.find("step-jitter"));
  CHECK(mentions(r.find("step-jitter")->evidence, "step 8, waited for data"));
  REQUIRE(r.find("clock-held-down"));
  CHECK(mentions(r.find("clock-held-down")->evidence, "heat slowed the processor 4 times"));
}

TEST_CASE("the doctor's report as text and JSON", "[doctor]") {
  Report r{.findings = {{.rule = "data-wait",
                         .severity = Severity::waste,
                         .title = "steps wait",
                         .evidence = "4 ms",
                         .cost_us = 4000,
                         .gain = "1.7 times",
                         .fix = "workers"},
                        {.rule = "rate-zero",
                         .severity = Severity::wrong,
                         .title = "rate",
                         .evidence = "0",
                         .fix = "set_lr()"}},
           .steps = 12,
           .step_us = 10000,
           .rate_curve = {{0.1, 2.5}}};
  CHECK(r.text() ==
        "1. waste [data-wait] steps wait\n   4 ms\n   cost: 4 ms a step, 40 %\n"
        "   gain: 1.7 times\n   fix:  workers\n2. wrong [rate-zero] rate\n   0\n   fix:  set_lr()\n"
        "loss by learning rate:  0.1 2.5\n2 findings in 12 steps of 10 ms\n");
  const std::string json =
      "{'steps':12,'step_us':10000,'findings':[{'rule':'data-wait','severity':'waste',"
      "'title':'steps wait','evidence':'4 ms','cost_us':4000,'gain':'1.7 times','fix':'workers'},"
      "{'rule':'rate-zero','severity':'wrong','title':'rate','evidence':'0','cost_us':null,"
      "'gain':'','fix':'set_lr()'}],'rate_curve':[[0.1,2.5]]}";
  std::string text = r.json();
  std::replace(text.begin(), text.end(), '"', '\'');
  CHECK(text == json);
  CHECK(Report().healthy());
}
