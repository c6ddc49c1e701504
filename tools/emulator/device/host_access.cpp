// Host code that touches device memory: the signal is explained, then passed on to whoever would
// have got it, as on a machine with a GPU.
#include <csignal>
#include <cstdio>
#include <cstring>

#include "device/memory.h"

namespace emu {
namespace {

struct sigaction before;
volatile bool explaining = false;

void pass_on(int number, siginfo_t* info, void* context) {
  if (before.sa_flags & SA_SIGINFO) {
    before.sa_sigaction(number, info, context);
  } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(number);
  } else {
    // The instruction runs again and meets the default action.
    signal(number, SIG_DFL);
  }
}

// Not safe by the letter: the process is at its end, and a finding without text helps nobody.
void handler(int number, siginfo_t* info, void* context) {
  const u64 address = reinterpret_cast<u64>(info->si_addr);
  const bool of_device = in_device_space(address);
  if (!explaining && info->si_code > 0 && (of_device || in_host_space(address))) {
    explaining = true;
    const CallSite site = CallSite::here();
    char text[64];
    std::snprintf(text, sizeof text, "address 0x%llx: ", static_cast<unsigned long long>(address));
    finding(of_device ? "host code reads or writes device memory"
                      : "host code reads or writes page-locked memory out of bounds or freed",
            text + describe_address(address) + "\n  host code" + describe(site));
  }
  pass_on(number, info, context);
}

}  // namespace

void watch_host_accesses() {
  struct sigaction now;
  if (sigaction(SIGSEGV, nullptr, &now) != 0) return;
  if (now.sa_flags & SA_SIGINFO && now.sa_sigaction == handler) return;
  struct sigaction ours;
  std::memset(&ours, 0, sizeof ours);
  ours.sa_sigaction = handler;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigemptyset(&ours.sa_mask);
  before = now;
  sigaction(SIGSEGV, &ours, nullptr);
}

}  // namespace emu
