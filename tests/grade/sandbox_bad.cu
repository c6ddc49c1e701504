// Host code that does what a kernel file has no business to, for `add`. Harmless where the sandbox
// holds, and nearly so where it does not. "REJECT variant kind" as in softmax_bad.cu.
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <thread>
#include <vector>

#include "warptape/tests/grade/kernels.h"
//
#include "warptape/kernels/pointwise.h"

namespace wt {
using Args = PointwiseArgs<pw::Add>;
inline namespace WT_DEVICE_NS {
namespace {

const char* flat(const Args& a) {
  return plain_f32(a.out) && plain_f32(a.in[0]) && plain_f32(a.in[1]) &&
                 same_shape(*a.in[0].geometry, *a.in[1].geometry)
             ? nullptr
             : "anything but contiguous f32";
}

__global__ void add(float* out, const float* a, const float* b, int n) {
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) out[i] = a[i] + b[i];
}
void right(const Args& a, const Launch& l) {
  launch<add>(grid(l, blocks_for(a.out.numel(), 64), 64), a.out.as<float>(),
              a.in[0].as<const float>(), a.in[1].as<const float>(), int(a.out.numel()));
}

// --- time ---

__global__ void for_ever(float* out, const float* a, const float* b, int n) {
  volatile int turn = 1;
  while (turn) turn = turn + 1 > 0 ? turn : 1;
  add(out, a, b, n);
}
// REJECT loops hang
void loops(const Args& a, const Launch& l) {
  launch<for_ever>(grid(l, 1, 32), a.out.as<float>(), a.in[0].as<const float>(),
                   a.in[1].as<const float>(), int(a.out.numel()));
}
// REJECT sleeps hang
void sleeps(const Args& a, const Launch& l) {
  std::this_thread::sleep_for(std::chrono::hours(1));
  right(a, l);
}
// Comes back from a limit's signal.
// REJECT holds_on hang
void holds_on(const Args&, const Launch&) {
  signal(SIGXCPU, SIG_IGN);
  signal(SIGTERM, SIG_IGN);
  for (volatile int turn = 1; turn;) {}
}

// --- memory ---

// REJECT takes_memory memory
void takes_memory(const Args& a, const Launch& l) {
  static std::vector<std::vector<char>> all;
  for (int i = 0; i < 4096; ++i) all.emplace_back(1 << 24, 'x');
  right(a, l);
}
// REJECT takes_address_space memory
void takes_address_space(const Args& a, const Launch& l) {
  for (int i = 0; i < 4096; ++i) {
    char* volatile block = new char[size_t(1) << 30];
    (void)block;
  }
  right(a, l);
}

// --- the end of the process ---

// REJECT leaves exit
void leaves(const Args&, const Launch&) { std::exit(0); }
// REJECT aborts crash
void aborts(const Args&, const Launch&) { std::abort(); }
// REJECT null crash
void null(const Args&, const Launch&) { *static_cast<volatile int*>(nullptr) = 1; }
// REJECT throws threw
void throws(const Args&, const Launch&) { throw std::runtime_error("not for these sizes"); }

// --- what lies outside ---

// REJECT writes_file sandbox
void writes_file(const Args& a, const Launch& l) {
  std::ofstream("/tmp/warptape-grade-test-outside") << "written";
  right(a, l);
}
// REJECT changes_file sandbox
void changes_file(const Args& a, const Launch& l) {
  (void)::unlink("/tmp/warptape-grade-test-outside");
  right(a, l);
}
// REJECT opens_socket sandbox
void opens_socket(const Args& a, const Launch& l) {
  (void)::socket(AF_INET, SOCK_STREAM, 0);
  right(a, l);
}
// REJECT starts_process sandbox
void starts_process(const Args& a, const Launch& l) {
  if (::fork() == 0) ::_exit(0);
  right(a, l);
}
// REJECT executes sandbox
void executes(const Args&, const Launch&) { ::execl("/bin/true", "true", nullptr); }
// REJECT ends_grader sandbox
void ends_grader(const Args& a, const Launch& l) {
  ::kill(::getppid(), SIGKILL);
  right(a, l);
}
// REJECT prints_much sandbox
void prints_much(const Args& a, const Launch& l) {
  for (int i = 0; i < 100000; ++i) std::puts("one line of very many, all of them the same");
  std::fflush(stdout);
  right(a, l);
}

// --- what a launch function leaves to the host ---

// REJECT adds_on_host host
void adds_on_host(const Args& a, const Launch&) {
  for (i64 i = 0; i < a.out.numel(); ++i)
    a.out.as<float>()[i] = a.in[0].as<float>()[i] + a.in[1].as<float>()[i];  // BUG adds_on_host
}

}  // namespace
}  // namespace WT_DEVICE_NS

#define WT_ROW(kernel) \
  { .name = #kernel, .why_not = flat, .launch = kernel }
WT_VARIANTS(WT_DEVICE_NS, add, Args, WT_ROW(loops), WT_ROW(sleeps), WT_ROW(holds_on),
            WT_ROW(takes_memory), WT_ROW(takes_address_space), WT_ROW(leaves), WT_ROW(aborts),
            WT_ROW(null), WT_ROW(throws), WT_ROW(writes_file), WT_ROW(changes_file),
            WT_ROW(opens_socket), WT_ROW(starts_process), WT_ROW(executes), WT_ROW(ends_grader),
            WT_ROW(prints_much), WT_ROW(adds_on_host));

}  // namespace wt
