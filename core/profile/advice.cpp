#include <cstdio>
#include <set>
#include <tuple>
#include <unordered_set>
#include <vector>

#include "warptape/core/profile/data.h"
#include "warptape/core/str.h"

namespace wt::profiler {
namespace {

constexpr i64 kManySteps = 100;       // in one profile
constexpr i64 kManyProfiles = 20;     // by one line
constexpr double kWorthWhile = 0.05;  // of the time: less is not worth a line

void add_left_open(Profile::Data& d) {
  std::set<std::tuple<std::string, FrameId>> said;
  for (const Event& e : d.events)
    if (e.kind == Kind::user && e.left_open && said.emplace(e.name, e.frame).second)
      d.notes.push_back(str("range \"", e.name, "\" of ", describe_frame(e.frame),
                            " was not ended: is a range_pop() missing?"));
}

void add_lost(Profile::Data& d) {
  if (d.dropped > 0)
    d.notes.push_back(str(d.dropped, " of ", d.dropped + i64(d.events.size()),
                          " ranges are not in the rows, the oldest ones: "
                          "ProfileOptions.max_events is ",
                          d.options.max_events, ", of ", sizeof(Event), " bytes each"));
}

void add_lost_records(Profile::Data& d) {
  if (d.lost_records > 0)
    d.notes.push_back(str(d.lost_records,
                          " of the device's records were lost, and their kernels have no times: "
                          "profile fewer steps, or raise ProfileOptions.max_events (",
                          d.options.max_events, ")"));
}

void add_every_step(Profile::Data& d, i64 earlier, Frame at) {
  const bool many = earlier + 1 >= kManyProfiles;
  if (!many && d.steps < kManySteps) return;
  std::string what = many ? str("this is profile ", earlier + 1) : str(d.steps, " steps");
  if (many && is_users(at)) what += str(" of ", describe(at));
  d.notes.push_back(what + (many ? "" : " in one profile") +
                    ": a few steps say as much and cost less: "
                    "profiler::Schedule{.wait = 10, .warmup = 2, .active = 5, .repeat = 1}");
}

// What the two passes of one step through one module have in common.
using Place = std::tuple<const OpInfo*, u32>;

struct Unused {
  i64 count = 0, ns = 0;
  FrameId frame = 0;  // of the first one
  void add(const Event& e) {
    if (++count == 1) frame = e.frame;
    ns += e.host_ns();
  }
};

// Forwards that recorded for a backward that never came: beside others of the same modules whose
// backward did, or without any backward in the profile.
void add_unused_forward(Profile::Data& d) {
  std::unordered_set<u32> used;  // places of forwards
  u32 last_backward = 0;         // its id
  for (u32 i = 0; i < d.events.size(); ++i)
    if (d.events[i].kind == Kind::backward) {
      last_backward = d.events[i].id;
      if (d.forwards[i] != Profile::Data::kNone) used.insert(d.forwards[i]);
    }
  const auto recorded = [&](u32 i) {
    const Event& e = d.events[i];
    if (e.kind != Kind::op || !e.node) return false;
    const u32 p = d.parents[i];  // an operator of operators has the node of its last one
    return p == Profile::Data::kNone || d.events[p].kind == Kind::user;
  };
  std::set<Place> trained;
  for (const u32 i : std::vector<u32>(used.begin(), used.end())) {
    u32 outer = i;
    while (d.parents[outer] != Profile::Data::kNone &&
           d.events[d.parents[outer]].kind != Kind::user)
      outer = d.parents[outer];
    used.insert(outer);
    trained.emplace(d.events[outer].op, d.events[outer].mode_id);
  }
  Unused twice, alone;
  for (u32 i = 0; i < d.events.size(); ++i) {
    const Event& e = d.events[i];
    if (!recorded(i) || used.count(i)) continue;
    if (last_backward == 0 && e.mode_id != 0) alone.add(e);
    if (e.id < last_backward && trained.count({e.op, e.mode_id})) twice.add(e);
  }
  const Unused& u = last_backward ? twice : alone;
  if (u.count < 2 || double(u.ns) < kWorthWhile * double(d.length_ns)) return;
  char share[32];
  std::snprintf(share, sizeof share, "%.0f %%", 100.0 * double(u.ns) / double(d.length_ns));
  d.notes.push_back(
      str(u.count, " operators from ", describe_frame(u.frame),
          " on were recorded for a backward that ",
          last_backward ? "never comes, " : "is not in this profile, ", share, " of the time: ",
          last_backward
              ? "a second forward in training mode doubles its cost and moves the statistics of "
                "batch norm; use the step's own result, or eval() and NoGrad"
              : "where none is meant to come, NoGrad saves what recording costs"));
}

}  // namespace

void advise(Profile::Data& d, i64 earlier, Frame at) {
  add_left_open(d);
  add_lost(d);
  add_lost_records(d);
  add_every_step(d, earlier, at);
  add_unused_forward(d);
}

}  // namespace wt::profiler
