// The variant on the emulated cuda device (docs/emulator.md): what nvcc made of the same file.
#include "warptape/core/str.h"
#include "warptape/tools/wt/grade/checks.h"
#include "warptape/tools/wt/grade/device.h"
#include "warptape/tools/wt/grade/hints.h"

namespace wt::grade {
namespace {

constexpr u64 kDeviceSeeds = 2;

bool of_values(const Finding& f) {
  for (const char* const kind : {"values", "tail", "unwritten", "nan", "stale", "rounding"})
    if (f.kind == kind) return true;
  return false;
}

// "sm_90a" of what nvcc was told.
std::string machine_code(const std::vector<std::string>& options) {
  for (const std::string& option : options)
    if (option.starts_with("-arch=")) return option.substr(6);
  return "";
}

}  // namespace

// Every kind of launch that the variant takes, each once, and the required ones in another order of
// blocks and warps. Half of the time that the runs on simt may take is for this; what is not begun
// in half of that is left out.
bool Checks::device() {
  const Compiled& c = build_.in(Flavour::nvcc);
  if (c.program.empty() && c.absent) {
    v_.notes.push_back("not judged as nvcc compiles it: " +
                       c.output.substr(0, c.output.find('\n')));
    return true;
  }
  if (c.program.empty()) return fail(of_nvcc(c, o_.file));
  v_.device.code = machine_code(build_.support().flavour_options.at(Flavour::nvcc));
  const confined::Clock::time_point begin = confined::Clock::now();
  bool judged = true;
  for (u64 seed = 1; judged && seed <= kDeviceSeeds; ++seed)
    if (!device_session(o_.seed * kDeviceSeeds + seed, seed == 1, begin, judged)) return false;
  if (v_.device.launches)
    v_.flavours.push_back(flavour_name(Flavour::nvcc));
  else if (judged)
    v_.notes.push_back(v_.device.left_out
                           ? "not judged on the emulated device: no time was left"
                           : "not judged on the emulated device: it refuses all launches there");
  return true;
}

bool Checks::device_session(u64 seed, bool all, confined::Clock::time_point begin, bool& judged) {
  const std::chrono::milliseconds limit(i64(o_.seconds * 500));
  Session s({.program = build_.in(Flavour::nvcc).program,
             .folder = build_.folder(),
             .flavour = Flavour::nvcc,
             .trace = all,
             .seed = seed % 1000000007,
             .cpu_seconds = o_.seconds / 2,
             .deadline = begin + limit});
  for (const size_t plan : taken_) {
    if (!all && !plans_[plan].required) continue;
    if (confined::Clock::now() > begin + limit / 2) {
      ++v_.device.left_out;
      continue;
    }
    if (!device_launch(s, plan, judged)) return false;
    if (!judged) return true;  // what comes next is not known
  }
  return device_end(s);
}

bool Checks::device_launch(Session& s, size_t plan, bool& judged) {
  Draws draws = draws_of(plan);
  const Problem p = problem(plan, draws);
  Launched l = launch(s, p, request(p), kPoisonNaN, {}, plans_[plan].required);
  const Emulated said = emulated(s.output());
  std::string why = l.reply.status == Status::refused ? "" : l.reply.text;
  for (const std::string& n : said.notes) why += "\n" + n;
  for (const std::string& f : said.findings) why += "\n" + f;
  if (l.finding && not_emulated(why)) {
    judged = false;
    v_.notes.push_back(
        "not judged on the emulated device, which does not have all that a GPU has (" + p.label +
        ")");
    return true;
  }
  if (!said.findings.empty()) {
    Finding f = of_emulated(said.findings.front(), o_.file);
    f.sentence += " (" + p.label + ")";
    return fail(std::move(f));
  }
  if (l.finding) {
    if (l.finding->kind == "hang")
      l.finding->sentence = str("it does not come back: ended after ", o_.seconds / 2, " s");
    l.finding->sentence += of_values(*l.finding) ? "; right on simt, wrong on the emulated device"
                                                 : "; on the emulated device";
    if (of_values(*l.finding))
      l.finding->hint =
          "what differs there: lanes of a warp do not wait for each other without __syncwarp(), "
          "__expf() and its like are approximate, and __CUDACC__ is defined";
    return fail(std::move(*l.finding));
  }
  if (l.reply.status == Status::refused)
    ++v_.device.refused;
  else
    ++v_.device.launches;
  return true;
}

// What is only told at the end; and the kernels that ran, with what ptxas made of them.
bool Checks::device_end(Session& s) {
  const confined::Ended end = s.finish();
  const Emulated said = emulated(s.output());
  if (!said.findings.empty()) return fail(of_emulated(said.findings.front(), o_.file));
  if (end.how != confined::Ended::How::exited || end.code != 0) {
    Session::Reply ended;
    ended.ended = end, ended.text = s.output();
    Finding f = of_failure(ended, o_.file, o_.seconds / 2);
    f.sentence += "; on the emulated device, at its end";
    return fail(std::move(f));
  }
  for (DeviceKernel& k : ptxas_kernels(build_.in(Flavour::nvcc).output))
    if (said.kernels.count(k.name)) v_.device.kernels.push_back(std::move(k));
  return true;
}

}  // namespace wt::grade
