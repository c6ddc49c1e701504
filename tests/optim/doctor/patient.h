// What the tests of the doctor look at: a small program that learns, with a clock of its own.
#pragma once
#include <array>

#include "warptape/optim/doctor.h"
#include "warptape/tests/optim/scaled_net.h"
#include "warptape/tests/support/catch.h"

namespace wt_test {

// Time that passes when the program says so, and a machine without faults.
struct Ward {
  double us = 0;
  machine::State machine;
  doctor::Options options() {
    return {.warmup = 3,
            .steps = 12,
            .clock_us = [this] { return us; },
            .machine = [this] { return machine; }};
  }
};

// A program of the tests' net, optimizer and batches.
struct Patient {
  ScaledNet net = scaled_net(Device::cpu());
  optim::Sgd opt{net, {.lr = 0.1}};
  u64 seed = 100;
  i64 samples = 32;

  doctor::Subject subject() { return {.net = &net, .optimizers = {&opt}}; }
  Labelled next() { return labelled(samples, Device::cpu(), seed++); }
  Loss loss(const Labelled& b) { return cross_entropy(net(b.x), b.y); }
  // A loop without TrainStep.
  Loss raw_step(const Labelled& b) {
    opt.zero_grad();
    Loss l = loss(b);
    l.backward();
    opt.step();
    return l;
  }
  doctor::Report examine_raw(const doctor::Options& o) {
    return doctor::examine(
        subject(), [&] { return next(); }, [&](const Labelled& b) { return raw_step(b); }, o);
  }
};

// The ids of what was found.
inline std::vector<std::string> ids(const doctor::Report& r) {
  std::vector<std::string> list;
  for (const doctor::Finding& f : r.findings) list.push_back(f.rule);
  return list;
}
inline std::vector<std::string> only(const char* rule) { return {rule}; }

}  // namespace wt_test
