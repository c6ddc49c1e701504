#include "report.h"

#include <execinfo.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <set>

#include "device/errors.h"
#include "device/lock.h"
#include "device/op.h"
#include "device/settings.h"
#include "profile.h"

namespace emu {
namespace {

constexpr int kExitCode = 86;  // of a program with findings
constexpr u64 kPrintedOfAKind = 2;
constexpr size_t kLongestName = 140;

// Frames that are in every launch, or of the signal: nothing the reader wrote.
bool is_stub(const Frame& f) {
  return f.name.starts_with("__cudaLaunchKernel_helper") || f.name.starts_with("__device_stub__") ||
         (f.name.empty() && f.file.starts_with("libc.so"));
}

struct Reports {
  std::map<std::string, u64> heads;
  std::set<std::string> notes;
  u64 count = 0;
  Totals totals;
  std::FILE* trace = nullptr;
  bool trace_opened = false;
};
Reports& reports() {
  static Reports* r = new Reports;
  return *r;
}

std::string shortened(std::string text) {
  if (text.size() > kLongestName) text.replace(kLongestName - 3, std::string::npos, "...");
  return text;
}

const char* text_of(KernelFault::Kind kind) {
  switch (kind) {
    case KernelFault::Kind::illegal_address:
      return "illegal address";
    case KernelFault::Kind::misaligned:
      return "misaligned address";
    case KernelFault::Kind::illegal_instruction:
      return "illegal instruction";
    case KernelFault::Kind::assertion:
      return "assertion failed";
    case KernelFault::Kind::barrier:
      return "barrier not met by all threads";
    case KernelFault::Kind::race:
      return "race";
    case KernelFault::Kind::order:
      return "access that nothing orders";
    case KernelFault::Kind::limit:
      return "limit";
  }
  return "fault";
}

std::string source_of(const KernelFault& f) {
  if (f.file.empty()) return {};
  std::string text = "\n  source " + f.file + ":" + std::to_string(f.line);
  if (!f.outer_file.empty())
    text += "\n  inlined at " + f.outer_file + ":" + std::to_string(f.outer_line);
  return text;
}

std::string triple(const u32 (&x)[3]) {
  return "(" + std::to_string(x[0]) + ", " + std::to_string(x[1]) + ", " + std::to_string(x[2]) +
         ")";
}

void print_leaks() {
  u64 blocks = 0, bytes = 0;
  std::string text;
  for_each_block([&](Block& b) {
    if (b.internal || b.registered) return;
    ++blocks;
    bytes += b.bytes();
    if (blocks <= 8)
      text += (blocks > 1 ? "\n  " : "") + describe_address(b.begin) + describe(b.from);
  });
  if (blocks)
    finding(
        std::to_string(blocks) + " blocks were never freed: " + std::to_string(bytes) + " bytes",
        text);
}

// Runs after the program's own handlers and destructors, which may still use the runtime.
__attribute__((destructor)) void at_end() {
  if (is_forked_child()) return;
  const Locked lock;
  const Settings& s = settings();
  report_unseen_error();
  if (s.leaks) print_leaks();
  if (!s.profile.empty()) profile_write(s.profile);
  if (s.summary) {
    const Totals& t = totals();
    std::fprintf(stderr,
                 "emulator: %" PRIu64 " launches of %" PRIu64 " kernels, %" PRIu64
                 " warp instructions, %" PRIu64 " lane instructions, %" PRIu64 " copies, seed ",
                 t.launches, t.kernels, t.warp_instructions, t.lane_instructions, t.copies);
    if (s.eager)
      std::fprintf(stderr, "none (eager)\n");
    else
      std::fprintf(stderr, "%" PRIu64 "\n", s.seed);
  }
  if (reports().trace) std::fflush(reports().trace);
  if (!findings()) return;
  std::fprintf(stderr, "emulator: %" PRIu64 " findings, %zu different\n", findings(),
               reports().heads.size());
  if (s.check != Settings::Check::fail) return;
  std::cout.flush();
  std::fflush(nullptr);
  _exit(kExitCode);
}

}  // namespace

CallSite CallSite::here() {
  CallSite site;
  if (settings().check == Settings::Check::off) return site;
  void* all[kFrames + 10];
  const int n = backtrace(all, kFrames + 10);
  int first = 1;
  while (first < n && is_own_code(all[first])) ++first;
  for (int i = first; i < n && site.count < kFrames; ++i) site.frames[site.count++] = all[i];
  return site;
}

std::string describe(const CallSite& site) {
  std::string text;
  for (int i = 0; i < site.count; ++i) {
    const Frame f = name_frame(site.frames[i]);
    if (f.file.empty() || is_stub(f)) continue;
    char offset[32];
    std::snprintf(offset, sizeof offset, " + 0x%" PRIx64, f.offset);
    text += "\n      at " +
            (f.name.empty() ? f.file + offset : shortened(f.name) + offset + " (" + f.file + ")");
    if (f.name == "main") break;
  }
  return text;
}

void finding(const std::string& head, const std::string& more) {
  if (settings().check == Settings::Check::off) return;
  Reports& r = reports();
  ++r.count;
  const u64 seen = ++r.heads[head];
  if (seen > kPrintedOfAKind) return;
  std::fflush(stdout);
  std::fprintf(stderr, "emulator: %s\n  %s\n", head.c_str(), more.c_str());
  if (seen == kPrintedOfAKind)
    std::fprintf(stderr, "  (the next of this kind are counted, not printed)\n");
}

void finding(const KernelFault& f, const QueuedOp& op) {
  const std::string place = f.ptx_line ? ", PTX line " + std::to_string(f.ptx_line) : "";
  std::string more = f.what + "\n  block " + triple(f.block) + ", thread " + triple(f.thread);
  if (f.ptx_line) {
    const size_t at = f.ptx.find_first_not_of(" \t");
    more += "\n " + place.substr(1) + ": " + (at == std::string::npos ? f.ptx : f.ptx.substr(at));
  }
  more += source_of(f) + "\n  launched as " + describe_op(&op);
  finding(std::string(text_of(f.kind)) + " in kernel " + shortened(demangled(f.kernel)) + place,
          more);
}

void note(const std::string& text) {
  Reports& r = reports();
  if (!r.notes.insert(text).second) return;
  std::fflush(stdout);
  std::fprintf(stderr, "emulator: note: %s\n", text.c_str());
}

bool tracing() { return !settings().trace.empty(); }
void trace(const std::string& line) {
  Reports& r = reports();
  if (!r.trace_opened) {
    r.trace_opened = true;
    r.trace = settings().trace == "-" ? stderr : std::fopen(settings().trace.c_str(), "w");
    if (!r.trace) note("WT_EMU_TRACE=" + settings().trace + " cannot be written");
  }
  if (r.trace) std::fprintf(r.trace, "%s\n", line.c_str());
}

Totals& totals() { return reports().totals; }
u64 findings() { return reports().count; }
void forget_findings() {
  reports().count = 0;
  reports().heads.clear();
}

}  // namespace emu
