// Faults of kernel code: stack overflow, wild pointers, host code that touches device memory.
//
// A fault inside a kernel becomes an error of its launch: the signal handler, on a stack of its
// own, lets the thread return from the signal into the code that leaves the block. All else goes to
// the handler that was there before. Under AddressSanitizer its report is better: only the message
// about device memory is ours.
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstring>
#include <mutex>

#include "warptape/kernels/simt/scheduler.h"

extern "C" char wt_fiber_resume[];

namespace wt::simt_runtime {
namespace {

constexpr size_t kAltStack = 64 * 1024, kGuard = 4096;
struct sigaction previous;
std::mutex previous_mutex;

bool in_stack_guard(const Exec& x, const char* p) {
  const Fiber* f = x.fiber[x.cur];
  return p >= f->low - kGuard && p < f->low;
}

void print(const std::string& s) {
  if (write(2, s.data(), s.size()) < 0) return;
}

// Makes the interrupted thread continue on the launch's own stack, after its wt_fiber_switch.
void leave_from_signal(Exec& x, const char* address, ucontext_t* context) {
  auto* regs = context->uc_mcontext.gregs;
  x.failed = true;
  x.fault_code = reinterpret_cast<const void*>(regs[REG_RIP]);
  if (in_stack_guard(x, address))
    x.error = strf("stack overflow in %s: more than %zu KiB of local variables and calls",
                   thread_text(x, x.cur).c_str(), x.stack_bytes / 1024);
  else
    x.error = strf("invalid memory access to address %p by %s", static_cast<const void*>(address),
                   thread_text(x, x.cur).c_str());
  regs[REG_RSI] = reinterpret_cast<greg_t>(x.main_sp);
  regs[REG_RIP] = reinterpret_cast<greg_t>(wt_fiber_resume);
}

void on_fault(int signal, siginfo_t* info, void* context) {
  const char* address = static_cast<const char*>(info->si_addr);
  Exec* x = current_exec;
  if (x && x->running && !x->asan)
    return leave_from_signal(*x, address, static_cast<ucontext_t*>(context));
  if (!(x && x->running) && address >= arena_base() && address < arena_base() + kArenaBytes) {
    const auto* regs = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
    print(
        strf("warptape: host code touched device memory of simt at %p: it must be copied first "
             "(simt_protect is on)",
             static_cast<const void*>(address)));
    print(", at " + source_line(reinterpret_cast<const void*>(regs[REG_RIP])) + "\n");
  }
  if (previous.sa_flags & SA_SIGINFO) return previous.sa_sigaction(signal, info, context);
  if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN)
    return previous.sa_handler(signal);
  sigaction(signal, &previous, nullptr);  // the access faults again and ends the process
}

}  // namespace

void ensure_fault_handler() {
  struct sigaction action {
  }, before;
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sigaction(SIGSEGV, &action, &before);
  if (before.sa_flags & SA_SIGINFO && before.sa_sigaction == on_fault) return;
  const std::lock_guard lock(previous_mutex);
  previous = before;
}

// The handler needs a stack that is not the one that overflowed; one that is there already (a
// sanitizer's) does.
void install_signal_stack(Exec& x) {
  stack_t now{};
  sigaltstack(nullptr, &now);
  if (!(now.ss_flags & SS_DISABLE)) return;
  void* p = mmap(nullptr, kAltStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) throw OutOfMemory("simt: no memory for a signal stack");
  stack_t mine{};
  mine.ss_sp = x.signal_stack = p;
  mine.ss_size = kAltStack;
  sigaltstack(&mine, nullptr);
}

void remove_signal_stack(Exec& x) {
  if (!x.signal_stack) return;
  stack_t none{};
  none.ss_flags = SS_DISABLE;
  sigaltstack(&none, nullptr);
  munmap(x.signal_stack, kAltStack);
}

}  // namespace wt::simt_runtime
