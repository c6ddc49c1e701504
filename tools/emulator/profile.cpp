#include "profile.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>

#include "exec/kernel.h"
#include "profile_page.h"

namespace emu {
namespace {

std::mutex& lock() {
  static auto* m = new std::mutex;
  return *m;
}
std::map<std::string, KernelProfile>& profiles() {
  static auto* p = new std::map<std::string, KernelProfile>;
  return *p;
}

std::string demangled(const std::string& name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  std::string result = status == 0 && text ? text : name;
  std::free(text);
  return result;
}

// "wt::cuda::(anonymous namespace)::softmax_warp<float, 8>(...)" to "softmax_warp<float, 8>".
std::string short_name(const std::string& mangled) {
  std::string s = demangled(mangled);
  int depth = 0;
  size_t begin = 0, end = s.size();
  for (size_t i = 0; i < s.size(); ++i) {
    if (s.compare(i, 21, "(anonymous namespace)") == 0) {
      i += 20;
      continue;
    }
    if (s[i] == '<') ++depth;
    if (s[i] == '>') --depth;
    if (depth) continue;
    if (s[i] == '(') {
      end = i;
      break;
    }
    if (s[i] == ':' || s[i] == ' ') begin = i + 1;
  }
  return s.substr(begin, end - begin);
}

void add(LaunchCounts& to, const LaunchCounts& from) {
  to.warp_instructions += from.warp_instructions;
  to.lane_instructions += from.lane_instructions;
  to.global_requests += from.global_requests;
  to.global_sectors += from.global_sectors;
  to.shared_requests += from.shared_requests;
  to.shared_wavefronts += from.shared_wavefronts;
  to.barriers += from.barriers;
  to.atomics += from.atomics;
}

double ratio(u64 a, u64 b) { return b ? double(a) / double(b) : 0; }

void print_table(const std::vector<const KernelProfile*>& kernels, u64 all) {
  std::fprintf(
      stderr,
      "emulator: what ran, by warp instructions (lanes: active ones of 32; sectors: 32-byte "
      "ones a\nrequest to global memory; wavefronts: turns a request to shared memory)\n"
      "%6s %8s %14s %6s %8s %11s  %s\n",
      "share", "launches", "instructions", "lanes", "sectors", "wavefronts", "kernel");
  for (const KernelProfile* k : kernels)
    std::fprintf(stderr, "%5.1f%% %8llu %14llu %6.1f %8.1f %11.1f  %s\n",
                 100 * ratio(k->counts.warp_instructions, all),
                 static_cast<unsigned long long>(k->launches),
                 static_cast<unsigned long long>(k->counts.warp_instructions),
                 ratio(k->counts.lane_instructions, k->counts.warp_instructions),
                 ratio(k->counts.global_sectors, k->counts.global_requests),
                 ratio(k->counts.shared_wavefronts, k->counts.shared_requests), k->name.c_str());
}

}  // namespace

size_t profile_lines(const Program::Kernel& k) { return k.body.code.size(); }

void profile_launch(const Program::Kernel& k, Dim3 grid, Dim3 block, const LaunchCounts& counts,
                    const std::vector<LineCounts>& lines) {
  const std::lock_guard guard(lock());
  KernelProfile& p = profiles()[k.info.name];
  if (p.launches == 0) {
    p.kernel = &k;
    p.name = short_name(k.info.name);
    p.full_name = demangled(k.info.name);
    p.lines.resize(lines.size());
  }
  ++p.launches;
  p.grid = grid;
  p.block = block;
  add(p.counts, counts);
  for (size_t i = 0; i < lines.size(); ++i) {
    p.lines[i].executed += lines[i].executed;
    p.lines[i].lanes += lines[i].lanes;
    p.lines[i].requests += lines[i].requests;
    p.lines[i].units += lines[i].units;
  }
}

void profile_write(const std::string& file) {
  const std::lock_guard guard(lock());
  std::vector<const KernelProfile*> kernels;
  u64 all = 0;
  for (const auto& [name, p] : profiles()) {
    kernels.push_back(&p);
    all += p.counts.warp_instructions;
  }
  if (kernels.empty()) {
    std::fprintf(stderr, "emulator: no kernel was launched, so there is no profile\n");
    return;
  }
  std::sort(kernels.begin(), kernels.end(), [](const auto* a, const auto* b) {
    return a->counts.warp_instructions > b->counts.warp_instructions;
  });
  print_table(kernels, all);
  const std::string half = file + ".part";
  {
    std::ofstream out(half);
    out << (file.ends_with(".tsv") ? profile_table(kernels) : profile_page(kernels, all));
    if (!out.flush()) {
      std::fprintf(stderr, "emulator: the profile cannot be written to %s\n", file.c_str());
      return;
    }
  }
  if (std::rename(half.c_str(), file.c_str()) != 0)
    std::fprintf(stderr, "emulator: the profile cannot be written to %s\n", file.c_str());
  else
    std::fprintf(stderr, "emulator: source, PTX and counts side by side: %s\n", file.c_str());
}

}  // namespace emu
