// Text of the executor's messages: cold, and the only part that formats.
#include <fcntl.h>
#include <link.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "warptape/kernels/simt/scheduler.h"

extern char** environ;

namespace wt::simt_runtime {

std::string strf(const char* format, ...) {
  va_list args;
  va_start(args, format);
  char buffer[1024];
  std::vsnprintf(buffer, sizeof buffer, format, args);
  va_end(args);
  return buffer;
}

std::string dim_text(dim3 d) { return strf("(%u,%u,%u)", d.x, d.y, d.z); }

namespace {
const char* base_name(const char* path) {
  const char* slash = std::strrchr(path, '/');
  return slash ? slash + 1 : path;
}
}  // namespace

std::string at(Loc loc) {
  return loc.file ? strf("%s:%u", base_name(loc.file), loc.line) : std::string("?");
}

// From "... [with auto Kernel = wt::simt::softmax<256>; Args = ...]" (g++) or "... [Kernel =
// &wt::softmax<256>, Args = ...]" (clang).
std::string kernel_name(const char* pretty) {
  std::string s = pretty;
  const size_t key = s.find("Kernel = ");
  if (key == s.npos) return s;
  size_t end = key + 9;
  for (int depth = 0; end < s.size(); ++end) {
    const char c = s[end];
    if (c == '<' || c == '(' || c == '{') ++depth;
    if (c == '>' || c == ')' || c == '}') --depth;
    if (depth <= 0 && (c == ';' || c == ']' || (c == ',' && depth == 0))) break;
  }
  s = s.substr(key + 9, end - key - 9);
  for (const char* noise : {"wt::simt::", "wt::cuda::", "wt::", "{anonymous}::", "&"})
    for (size_t i; (i = s.find(noise)) != s.npos;) s.erase(i, std::strlen(noise));
  return s;
}

const char* op_name(unsigned op) {
  static const char* const shuffles[] = {"__shfl_sync", "__shfl_up_sync", "__shfl_down_sync",
                                         "__shfl_xor_sync"};
  static const char* const votes[] = {"__ballot_sync", "__any_sync", "__all_sync"};
  static const char* const barriers[] = {"__syncthreads_count", "__syncthreads_and",
                                         "__syncthreads_or"};
  switch (Wait(op >> 4)) {
    case Wait::barrier:
      return "__syncthreads";
    case Wait::barrier_vote:
      return barriers[op & 3];
    case Wait::shfl:
      return shuffles[op & 3];
    case Wait::vote:
      return votes[op & 3];
    case Wait::syncwarp:
      return "__syncwarp";
    case Wait::mma:
      return "mma_m16n8k16";
    case Wait::ldmatrix:
      return "ldmatrix";
    case Wait::butterfly:
      return "a reduction of the warp";
    case Wait::poll:
      return "a poll";
    case Wait::mbarrier:
      return "mbarrier_wait";
    case Wait::wgmma:
      return "wgmma";
    case Wait::none:
      break;
  }
  return "nothing";
}

std::string thread_text(const Exec& x, unsigned thread) {
  const uint3 t = x.tid[thread];
  return strf("thread (%u,%u,%u) of block (%u,%u,%u)", t.x, t.y, t.z, ::blockIdx.x, ::blockIdx.y,
              ::blockIdx.z);
}

std::string group_text(const Exec& x, unsigned warp, const Group& g) {
  const unsigned lane = unsigned(__builtin_ctz(g.arrived));
  return strf("%s at %s, for example lane %u", op_name(g.op),
              at(parked_at(x, warp * 32 + lane)).c_str(), lane);
}

namespace {
std::string ranges(const std::vector<unsigned>& v) {
  std::string s;
  for (size_t i = 0, shown = 0; i < v.size(); ++shown) {
    if (shown == 12) return s + ",...";
    size_t j = i;
    while (j + 1 < v.size() && v[j + 1] == v[j] + 1) ++j;
    if (i) s += ",";
    s += j > i ? strf("%u-%u", v[i], v[j]) : strf("%u", v[i]);
    i = j + 1;
  }
  return s;
}

unsigned mask_of(const Exec& x, unsigned thread) {
  for (const Group& g : x.warps[thread / 32].groups)
    if (g.arrived >> (thread % 32) & 1) return g.mask;
  return 0;
}
}  // namespace

// Threads grouped by what they wait for.
std::string deadlock_text(const Exec& x, Loc here, unsigned op) {
  std::map<std::string, std::vector<unsigned>> states;
  for (unsigned t = 0; t < x.n; ++t) {
    if (x.warps[t / 32].exited >> (t % 32) & 1) {
      states["returned from the kernel"].push_back(t);
      continue;
    }
    const bool current = t == x.cur && op != 0;
    const unsigned code = current ? op : parked_op(x, t);
    std::string s =
        strf("waiting in %s at %s", op_name(code), at(current ? here : parked_at(x, t)).c_str());
    if (const unsigned mask = mask_of(x, t)) s += strf(" mask 0x%08x", mask);
    states[s].push_back(t);
  }
  std::string text = strf("deadlock in block %s of %u threads:",
                          dim_text({::blockIdx.x, ::blockIdx.y, ::blockIdx.z}).c_str(), x.n);
  for (const auto& [state, threads] : states)
    text += strf("\n  %zu thread(s) %s: ", threads.size(), state.c_str()) + ranges(threads);
  return text + units_text(x);
}

// --- Source lines of code addresses ---
namespace {

struct Module {
  uintptr_t code;
  uintptr_t base = 0;
  char path[512] = "";
};

int find_module(dl_phdr_info* info, size_t, void* data) {
  auto& m = *static_cast<Module*>(data);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& ph = info->dlpi_phdr[i];
    const uintptr_t begin = info->dlpi_addr + ph.p_vaddr;
    if (ph.p_type != PT_LOAD || m.code < begin || m.code >= begin + ph.p_memsz) continue;
    m.base = info->dlpi_addr;
    std::snprintf(m.path, sizeof m.path, "%s", info->dlpi_name);
    if (!m.path[0])
      if (const ssize_t n = readlink("/proc/self/exe", m.path, sizeof m.path - 1); n > 0)
        m.path[n] = 0;
    return 1;
  }
  return 0;
}

// Output of `addr2line -i` for addresses of the module: "file:line" of the innermost inlined
// function first. Of several, each begins with a line of its address.
std::string run_addr2line(const Module& m, const std::vector<uintptr_t>& codes) {
  std::vector<std::string> words{"addr2line", codes.size() > 1 ? "-ia" : "-i", "-e", m.path};
  for (const uintptr_t code : codes) words.push_back(strf("0x%zx", size_t(code - m.base)));
  std::vector<char*> argv;
  for (std::string& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  int out[2];
  if (pipe2(out, O_CLOEXEC) != 0) return {};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out[1], 1);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  pid_t child;
  const int failed = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(out[1]);
  std::string text;
  char buffer[1024];
  for (ssize_t n; (n = read(out[0], buffer, sizeof buffer)) > 0;) text.append(buffer, size_t(n));
  close(out[0]);
  if (!failed) waitpid(child, nullptr, 0);
  return text;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t i = 0; i < text.size();) {
    size_t end = text.find('\n', i);
    if (end == text.npos) end = text.size();
    const std::string line = text.substr(i, end - i);
    lines.push_back(line.substr(0, line.find(" (disc")));
    i = end + 1;
  }
  return lines;
}

// Whether a line of addr2line is one of the user's.
bool says_something(const std::string& line) {
  if (line.empty() || line[0] == '?') return false;
  for (const char* own : {"kernels/simt/host_", "core/half.h", "kernels/device/launch.cuh"})
    if (line.find(own) != line.npos) return false;
  return true;
}

// What can still be looked up where this process may start no other.
std::string address_text(const Module& m, uintptr_t code) {
  return strf("%s+0x%zx", base_name(m.path), size_t(code - m.base));
}

std::string look_up_line(const void* code) {
  Module m{reinterpret_cast<uintptr_t>(code)};
  if (!dl_iterate_phdr(find_module, &m)) return "?";
  for (const std::string& line : lines_of(run_addr2line(m, {m.code})))
    if (says_something(line)) return base_name(line.c_str());
  return address_text(m, m.code);
}

}  // namespace

std::vector<std::vector<std::string>> source_frames(const std::vector<const void*>& codes) {
  std::vector<std::vector<std::string>> frames(codes.size());
  // By module: one process reads its debug information for all addresses.
  std::map<std::string, std::pair<Module, std::vector<size_t>>> modules;
  for (size_t i = 0; i < codes.size(); ++i) {
    Module m{reinterpret_cast<uintptr_t>(codes[i]) - 1};
    if (!codes[i] || !dl_iterate_phdr(find_module, &m)) continue;
    modules.try_emplace(m.path, m, std::vector<size_t>{}).first->second.second.push_back(i);
  }
  for (const auto& [path, module] : modules) {
    const auto& [m, members] = module;
    std::vector<uintptr_t> addresses;
    for (const size_t i : members) addresses.push_back(reinterpret_cast<uintptr_t>(codes[i]) - 1);
    addresses.push_back(addresses.back());  // at least two, which are told apart
    const std::string text = run_addr2line(m, addresses);
    for (size_t i = 0; text.empty() && i < members.size(); ++i)
      frames[members[i]] = {address_text(m, addresses[i])};
    size_t at = 0;
    for (const std::string& line : lines_of(text)) {
      if (line.starts_with("0x"))
        ++at;
      else if (at <= members.size() && at > 0 && says_something(line))
        frames[members[at - 1]].push_back(line);
    }
  }
  return frames;
}

// A look-up starts a process that reads all debug information: each address once.
std::string source_line(const void* code) {
  static std::mutex mutex;
  static std::map<const void*, std::string> known;
  const std::lock_guard lock(mutex);
  std::string& line = known[code];
  if (line.empty()) line = look_up_line(code);
  return line;
}

}  // namespace wt::simt_runtime
