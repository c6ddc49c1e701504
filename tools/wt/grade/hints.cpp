#include "warptape/tools/wt/grade/hints.h"

#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "warptape/core/error.h"
#include "warptape/tools/wt/confined/sandbox.h"
#include "warptape/tools/wt/grade/lines.h"

namespace wt::grade {
namespace {

struct Rule {
  const char* words;  // of the executor's message, or a sanitizer's
  const char* kind;
  const char* hint;
};
// The first whose words are in the text.
constexpr Rule kRules[] = {
    {"race in global memory", "race",
     "two threads write, or write and read, one element without anything between them: give each "
     "element one thread, or use an atomic"},
    {"race in shared memory", "race",
     "put __syncthreads() between the write and the read of other threads (__syncwarp() is enough "
     "within a warp), and another one before the memory is used again"},
    {"already returned from the kernel", "barrier",
     "no thread may return before a barrier of its block: let it pass the barrier without work"},
    {"returned from the kernel while", "barrier",
     "no thread may return before a barrier of its block: let it pass the barrier without work"},
    {"divergent __syncthreads", "barrier",
     "all threads of a block have to come to the same __syncthreads(): move it out of the branch"},
    {"deadlock", "deadlock",
     "somebody waits for threads that never come: is the barrier, or the shuffle, in a branch or "
     "in "
     "a loop that only some of them are in?"},
    {"livelock", "deadlock",
     "a thread polls for what another one is to do, which cannot run: blocks do not wait for each "
     "other"},
    {"is not in mask", "warp", "the mask names the lanes that call: 0xffffffff only where all do"},
    {"collective", "warp", "all lanes of the mask call the same shuffle or vote"},
    {"wait in a different operation", "warp",
     "all lanes of the mask call the same shuffle or vote"},
    {"misaligned vload", "misaligned",
     "16 bytes at once need an address that is a multiple of 16: rows of odd length, and views, "
     "begin "
     "elsewhere"},
    {"misaligned vstore", "misaligned",
     "16 bytes at once need an address that is a multiple of 16: rows of odd length, and views, "
     "begin "
     "elsewhere"},
    {"misaligned", "misaligned", "the address is no multiple of what is accessed at once"},
    {"outside of shared array", "outside",
     "the index is beyond the shared array: is it as large as the block?"},
    {"outside live device memory", "outside",
     "the index is beyond the operand: the grid is rounded up, so each thread has to test its own "
     "index against the size"},
    {"invalid memory access", "outside",
     "the address is none: is an index negative, or far too large?"},
    {"AddressSanitizer", "outside", "the index is beyond the memory: test it against the size"},
    {"out of bounds for type", "outside",
     "the index is beyond a dimension of the array: is it as large as the block?"},
    {"runtime error", "arithmetic", "the operation has no defined result for these values"},
    {"stack overflow", "stack",
     "a thread has a few KiB of its own: large arrays go to shared memory"},
    {"not device memory", "host",
     "a kernel gets device memory alone: pass values by value, and workspace by Launch::workspace"},
    {"shared memory", "launch",
     "a block has at most 48 KiB of static shared memory, 227 KiB in all"},
    {"threads, (1024", "launch", "use at most 1024 threads a block, and more blocks"},
    {"wgmma", "async", "wait for what is under way before it is used"},
    {"mbarrier", "async", "count arrivals and bytes of each phase"},
    {"cp_async", "async", "check alignment, source and destination of the copy"},
};

// Whether the address of a message is that of an element of nothing.
bool near_null(const std::string& text) {
  constexpr const char* kBefore = "invalid memory access to address ";
  constexpr unsigned long long kNear = 1 << 16;
  const size_t at = text.find(kBefore);
  if (at == text.npos) return false;
  const char* const address = text.c_str() + at + std::strlen(kBefore);
  if (std::strncmp(address, "(nil)", 5) == 0) return true;
  return std::strncmp(address, "0x", 2) == 0 && std::strtoull(address, nullptr, 16) < kNear;
}

// The first line that says something, without the class of the exception.
std::string head(const std::string& text) {
  std::string line = text.substr(0, text.find('\n'));
  for (const char* const kind : {"KernelError: ", "InternalError: "})
    if (line.starts_with(kind)) line = line.substr(std::strlen(kind));
  return line;
}

// What a sanitizer said before it ended the process; empty: it did not.
std::string sanitizer_report(const std::string& output) {
  for (const char* const mark : {"ERROR: AddressSanitizer", "runtime error:"}) {
    const size_t at = output.find(mark);
    if (at == output.npos) continue;
    const size_t line = output.rfind('\n', at);
    return output.substr(line == output.npos ? 0 : line + 1);
  }
  return "";
}

// "... ==1==ERROR: AddressSanitizer: heap-buffer-overflow on address ..." without addresses.
std::string sanitizer_sentence(const std::string& report) {
  std::string line = head(report);
  const size_t at = line.find("AddressSanitizer: ");
  if (at == line.npos) return line.substr(line.find("runtime error:"));
  line = line.substr(at);
  return line.substr(0, line.find(" on "));
}

Finding ended(const Session::Reply& r, const std::string& own, double seconds) {
  Finding f{.file = own};
  if (const std::string report = sanitizer_report(r.text); !report.empty()) {
    f = of_kernel_error(report, own);
    f.sentence = sanitizer_sentence(report);
    return f;
  }
  using confined::Ended;
  const Ended& e = r.ended;
  const bool over = e.how == Ended::How::killed && (e.code == SIGXCPU || e.code == SIGKILL);
  if (e.how == Ended::How::late || over) {
    f.kind = "hang";
    f.sentence = str("it does not come back: ended after ", seconds, " s");
    f.hint = "does a loop wait for what never changes?";
  } else if (e.how == Ended::How::memory) {
    f.kind = "memory";
    f.sentence = "it takes more memory than it may have: ended at 1 GiB";
    f.hint = "a variant's memory is what workspace() asks for";
  } else if (e.how == Ended::How::killed && e.code == SIGSYS) {
    f.kind = "sandbox";
    f.sentence = "it made a system call that the sandbox has not, before the grader could look";
    f.hint = "kernels and launch functions compute; they need no files, sockets or processes";
  } else if (e.how == Ended::How::killed && e.code == SIGXFSZ) {
    f.kind = "sandbox";
    f.sentence = "it printed more than 1 MiB";
    f.hint = "print less, or for one thread only";
  } else if (r.text.find("host code touched device memory") != r.text.npos) {
    f.kind = "host";
    f.sentence = "its host code reads or writes device memory, which a GPU's host cannot";
    f.line = first_line(r.text, own);
    f.hint = "what is to be done with elements has to be done in a kernel";
  } else if (e.how == Ended::How::killed) {
    f.kind = "crash";
    f.sentence = str("it ended the process by signal ", e.code, " (", ::strsignal(e.code), ")");
    f.hint = "host code of the launch function is the place to look: kernels' faults have lines";
  } else {
    f.kind = "exit";
    f.sentence = str("it ended the process with exit code ", e.code, " in the middle of a launch");
    f.hint = "a launch function returns; it does not exit";
  }
  return f;
}

}  // namespace

Finding of_compiler(const Compiled& c, const std::string& file) {
  Finding f{.kind = "compile", .file = file};
  if (!c.borrowed.empty()) {
    f.kind = "borrowed";
    f.sentence = "it includes " + c.borrowed + ", a kernel file that is not its own";
    f.hint =
        "headers of kernels/device and contracts are there to be used; kernels are to be written";
    return f;
  }
  if (!c.reach.empty()) {
    f.kind = "reach";
    f.sentence = c.reach;
    f.hint =
        "give the file's functions names of their own, in an anonymous namespace; system calls and "
        "what the program around it has are not for the file";
    return f;
  }
  f.hint = "it compiles with warptape's headers as a file of kernels/ does (docs/simt.md)";
  if (c.late) {
    f.sentence = "the compiler did not come to an end";
    return f;
  }
  std::istringstream lines(c.output);
  for (std::string line; std::getline(lines, line);)
    for (const char* const mark : {"error: ", "undefined reference", "multiple definition"})
      if (const size_t at = line.find(mark); at != line.npos) {
        f.sentence = line.substr(at);
        f.line = first_line(line, file);
        return f;
      }
  f.sentence = c.output.empty() ? "the compiler failed" : c.output.substr(0, c.output.find('\n'));
  return f;
}

Finding of_kernel_error(const std::string& text, const std::string& own) {
  Finding f{.kind = "kernel", .sentence = head(text), .file = own, .line = first_line(text, own)};
  for (const Rule& r : kRules)
    if (text.find(r.words) != text.npos) {
      f.kind = r.kind, f.hint = r.hint;
      break;
    }
  if (near_null(text)) {
    f.kind = "null";
    f.hint =
        "an operand that is absent, or has no elements, has no memory: test the pointer before it "
        "is used, or refuse the launch in why_not";
  }
  return f;
}

Finding of_fault(const Fault& fault, const std::string& label, bool required) {
  static const struct {
    const char *kind, *hint;
  } said[] = {
      {"values", "work the first wrong element out by hand: which of its terms is not in it?"},
      {"tail",
       "the last elements are left out, or taken twice: round the grid, or the loop, up, and "
       "test the index"},
      {"unwritten", "nobody writes there: does the grid cover all elements, for these sizes too?"},
      {"stale", "these are the values of an earlier launch: every launch computes anew"},
      {"nan",
       "memory that nobody has written reads as NaN, shared memory too: what is read before it "
       "is written? Or is it inf - inf, or 0 * inf?"},
      {"nan",
       "a comparison with NaN is false, and fmaxf returns the other operand: NaN has to be "
       "carried on"},
      {"rounding", "sums belong into a float, whatever the elements are stored in"},
      {"input", "an operand that is only read belongs to somebody else"},
      {"outside",
       "the index is beyond the operand: each thread has to test its own index against the "
       "size, and a view's elements lie where its strides say"},
  };
  Finding f{.kind = said[int(fault.wrong)].kind,
            .sentence = fault.text + " (" + label + ")",
            .hint = said[int(fault.wrong)].hint};
  if (!required)
    f.hint = "the contract has such launches: a variant that does not take them says so in why_not";
  return f;
}

std::optional<Finding> of_demands(const Demands& d, const Score& s, const std::string& label,
                                  const std::string& own) {
  Finding f{.kind = "traffic", .file = own, .line = first_line(s.busiest, own)};
  const auto beyond = [&](double bytes, double most, const char* does) {
    if (most == 0 || bytes <= most * s.contract_bytes) return false;
    char numbers[96];
    std::snprintf(numbers, sizeof numbers,
                  "%.3g times the contract's bytes, where %.3g is the most",
                  bytes / s.contract_bytes, most);
    f.sentence = str("it ", does, " ", numbers, " (", label, ")");
    return true;
  };
  if (beyond(s.touched, d.most_touched, "touches")) {
    f.kind = "copies";
    f.hint = "what lies in a workspace is written and read again: make it where it is used";
    return f;
  }
  if (beyond(s.asked, d.most_asked, "asks memory for")) {
    f.hint =
        "this line asks most: what many threads want again and again is read once a block, and "
        "kept in shared memory or registers";
    return f;
  }
  if (!d.tensor_cores || s.mma > 0) return std::nullopt;
  f.kind = "tensor_cores";
  f.sentence = "none of its products is made by tensor cores (" + label + ")";
  f.hint = "mma_m16n8k16<__half> multiplies 16 x 16 by 16 x 8, a warp at a time (docs/simt.md)";
  return f;
}

Finding of_failure(const Session::Reply& r, const std::string& own, double seconds) {
  if (!r.status) return ended(r, own, seconds);
  Finding f{.file = own};
  switch (*r.status) {
    case Status::kernel_error:
      return of_kernel_error(r.text, own);
    case Status::memory:
      f.kind = "memory";
      f.sentence =
          "it asks for more memory than it may have" + (r.text.empty() ? "" : ": " + r.text);
      f.hint = "a variant's memory is what workspace() asks for, 64 MiB at most here";
      break;
    case Status::forbidden:
      f.kind = "sandbox";
      f.sentence = "it tried to " + confined::forbidden_text(std::atoi(r.text.c_str()));
      f.hint = "kernels and launch functions compute; they need no files, sockets or processes";
      break;
    case Status::late:
      f.kind = "stream";
      f.sentence = "its results changed after its stream had done its work";
      f.hint = "launch on l.stream: other streams' work comes earlier or later";
      break;
    default:
      f.kind = "threw";
      f.sentence = "its launch function threw: " + head(r.text);
      f.hint = "what a variant does not take, it refuses in why_not";
  }
  return f;
}

}  // namespace wt::grade
