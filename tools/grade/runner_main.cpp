// main() of the program that a student's kernel is linked into: launches what it is asked for and
// sends back what is then in memory. It judges nothing and knows no right result: whatever the
// student's code does to this process, the answer is not in it. `wt grade` starts it in a sandbox
// (tools/wt/confined/sandbox.h).
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <new>
#include <utility>

#include "warptape/kernels/simt/executor.h"
#include "warptape/tools/grade/launchers.h"
#include "warptape/tools/grade/runner.h"

namespace wt::grade {
namespace {

constexpr int kIn = 3, kOut = 4;

// End of file: the grader has gone, or has enough.
bool receive(void* to, size_t bytes) {
  for (char* p = static_cast<char*>(to); bytes;) {
    const ssize_t n = ::read(kIn, p, bytes);
    if (n <= 0) return false;
    p += n, bytes -= size_t(n);
  }
  return true;
}
void send(const void* from, size_t bytes) {
  for (const char* p = static_cast<const char*>(from); bytes;) {
    const ssize_t n = ::write(kOut, p, bytes);
    if (n <= 0) ::_exit(1);
    p += n, bytes -= size_t(n);
  }
}
void answer(Status status, const std::string& text,
            const std::vector<std::vector<u8>>* images = nullptr) {
  const Answer a{status, u32(text.size()), images != nullptr};
  send(&a, sizeof a);
  send(text.data(), text.size());
  if (!images) return;
  for (const std::vector<u8>& image : *images) send(image.data(), image.size());
}

// A system call that the sandbox has not.
void on_forbidden(int, siginfo_t* info, void*) {
  char digits[16];
  u32 n = 0;
  unsigned number = unsigned(info->si_syscall);
  do digits[n++] = char('0' + number % 10);
  while (number /= 10);
  for (u32 i = 0; i < n / 2; ++i) std::swap(digits[i], digits[n - 1 - i]);
  const Answer a{Status::forbidden, n, 0};
  send(&a, sizeof a);
  send(digits, n);
  ::_exit(0);
}

std::string list_text() {
  std::string text;
  for (int c = 0; c < launcher_count(); ++c) {
    const Launcher& l = launcher(c);
    for (int i = 0; i < l.count(); ++i) {
      const VariantFacts f = l.facts(i);
      text += str(l.contract, "\t", f.name, "\t", f.rank, "\t", f.deterministic, "\n");
    }
  }
  return text;
}

int serve() {
  struct sigaction action {};
  action.sa_sigaction = on_forbidden;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGSYS, &action, nullptr);
  const std::unique_ptr<Runner> runner = make_runner();
  Request r;
  while (receive(&r, sizeof r)) {
    if (r.ask == Ask::list) {
      answer(Status::done, list_text());
      continue;
    }
    std::vector<std::vector<u8>> images(size_t(r.data.operands));
    for (int i = 0; i < r.data.operands; ++i)
      if (r.data.operand[i].there()) {
        images[size_t(i)].resize(size_t(r.data.operand[i].bytes));
        if (!receive(images[size_t(i)].data(), images[size_t(i)].size())) return 0;
      }
    try {
      const Result done = runner->launch(r, images);
      answer(done.status, done.text, done.images);
      continue;
    } catch (const KernelError& e) {
      answer(Status::kernel_error, e.what());
    } catch (const std::bad_alloc&) {
      answer(Status::memory, "");
    } catch (const std::exception& e) {
      answer(Status::threw, e.what());
    } catch (...) {
      answer(Status::threw, "something that is no std::exception");
    }
    runner->forget();
  }
  return 0;
}

}  // namespace
}  // namespace wt::grade

int main() { return wt::grade::serve(); }
