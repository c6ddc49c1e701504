#include "warptape/tools/wt/profile/profile_steps.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <utility>

#include "warptape/core/error.h"
#include "warptape/core/files/atomic_file.h"
#include "warptape/core/input_file.h"
#include "warptape/core/profile_roofline.h"
#include "warptape/core/profile_trace.h"
#include "warptape/core/progress.h"
#include "warptape/tools/wt/std_output.h"

namespace wt::tools {
namespace {

constexpr i64 kWarmup = 2;  // allocations, choices of kernels

void make_folder(const std::string& path) {
  std::error_code failed;
  std::filesystem::create_directories(path, failed);
  if (failed)
    throw CheckpointError(str("cannot create ", printable_path(path), ": ", failed.message()));
}

}  // namespace

profiler::TableOptions table_options(const ProfileRequest& r) {
  profiler::TableOptions t;
  t.sort_by = r.sort_by;
  t.group_by = r.group_by;
  t.shapes = r.shapes;
  t.nested = r.nested;
  t.rows = r.rows;
  return t;
}

StepProfiler::StepProfiler(const ProfileRequest& r, std::string run, i64 steps)
    : request_(r), run_(std::move(run)), left_out_(std::clamp<i64>(steps - r.steps, 0, kWarmup)) {
  (void)profiler::Profile().rows(table_options(r));
}

StepProfiler::~StepProfiler() {
  try {
    finish();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "wt: the profile: %s\n", e.what());
  }
}

void StepProfiler::begin_step() {
  const i64 n = step_++ - left_out_;
  if (n < 0 || n >= request_.steps) return;
  if (scope_)
    scope_->step();
  else
    scope_.emplace(
        profiler::ProfileOptions{.shapes = request_.shapes, .counters = request_.counters},
        Frame{});
}

void StepProfiler::end_step() {
  if (!scope_ || step_ - left_out_ < request_.steps) return;
  profile_ = scope_->stop();
  scope_.reset();
}

void StepProfiler::finish() {
  if (finished_) return;
  finished_ = true;
  if (scope_) {
    profile_ = scope_->stop();
    scope_.reset();
  }
  if (!profile_) return;
  const profiler::TableOptions shown = table_options(request_);
  if (!request_.out.empty()) {
    make_folder(request_.out);
    profiler::TableOptions all = shown;
    all.rows = 0;
    all.width = 100'000;
    write_file_atomically(request_.out + "/table.txt", profile_->table(all));
    write_file_atomically(request_.out + "/profile.json", profile_->json(all));
    write_file_atomically(request_.out + "/profile.csv", profile_->csv(all));
    const std::string steps = str(profile_->steps(), " steps");
    profiler::write_trace(request_.out + "/trace.json", *profile_);
    profiler::write_timeline(request_.out + "/timeline.html", *profile_,
                             {.title = run_, .subtitle = steps});
    profiler::write_roofline(request_.out + "/roofline.html", *profile_,
                             {.title = run_, .subtitle = steps});
  }
  end_progress_line();
  std::fputs(profile_->table(shown).c_str(), stdout);
  flush_stdout();
}

}  // namespace wt::tools
