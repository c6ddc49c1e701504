#include "warptape/tools/wt/confined/sandbox.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>

#include "warptape/core/str.h"

namespace wt::confined {
namespace {

// What the C library, the sanitizers and the executor need.
constexpr int kAllowed[] = {SYS_read,
                            SYS_write,
                            SYS_readv,
                            SYS_writev,
                            SYS_pread64,
                            SYS_close,
                            SYS_lseek,
                            SYS_fstat,
                            SYS_stat,
                            SYS_lstat,
                            SYS_newfstatat,
                            SYS_statx,
                            SYS_access,
                            SYS_faccessat,
                            SYS_faccessat2,
                            SYS_readlink,
                            SYS_readlinkat,
                            SYS_getdents64,
                            SYS_getcwd,
                            SYS_pipe2,
                            SYS_poll,
                            SYS_ppoll,
                            SYS_mmap,
                            SYS_munmap,
                            SYS_mprotect,
                            SYS_mremap,
                            SYS_madvise,
                            SYS_mincore,
                            SYS_brk,
                            SYS_rt_sigaction,
                            SYS_rt_sigprocmask,
                            SYS_rt_sigreturn,
                            SYS_sigaltstack,
                            SYS_getpid,
                            SYS_gettid,
                            SYS_getppid,
                            SYS_getuid,
                            SYS_geteuid,
                            SYS_getgid,
                            SYS_getegid,
                            SYS_exit,
                            SYS_exit_group,
                            SYS_arch_prctl,
                            SYS_set_tid_address,
                            SYS_set_robust_list,
                            SYS_rseq,
                            SYS_futex,
                            SYS_sched_yield,
                            SYS_nanosleep,
                            SYS_clock_nanosleep,
                            SYS_clock_gettime,
                            SYS_clock_getres,
                            SYS_gettimeofday,
                            SYS_time,
                            SYS_times,
                            SYS_getrandom,
                            SYS_getrlimit,
                            SYS_getrusage,
                            SYS_uname,
                            SYS_sysinfo,
                            SYS_membarrier,
                            SYS_sched_getaffinity,
                            SYS_personality,
                            SYS_restart_syscall};

constexpr int kNetwork[] = {SYS_socket, SYS_socketpair, SYS_connect, SYS_bind,
                            SYS_listen, SYS_accept,     SYS_accept4};
constexpr int kFiles[] = {SYS_creat,     SYS_openat2,   SYS_truncate,  SYS_ftruncate, SYS_rename,
                          SYS_renameat,  SYS_renameat2, SYS_unlink,    SYS_unlinkat,  SYS_mkdir,
                          SYS_mkdirat,   SYS_rmdir,     SYS_link,      SYS_linkat,    SYS_symlink,
                          SYS_symlinkat, SYS_chmod,     SYS_fchmod,    SYS_fchmodat,  SYS_chown,
                          SYS_fchown,    SYS_lchown,    SYS_fchownat,  SYS_mknod,     SYS_mknodat,
                          SYS_mount,     SYS_umount2,   SYS_utimensat, SYS_setxattr};
constexpr int kProcesses[] = {SYS_fork, SYS_vfork, SYS_execveat};
constexpr int kOthers[] = {SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_tkill};

constexpr int kPipes[] = {3, 4};  // of Process

constexpr u32 kNumber = offsetof(seccomp_data, nr), kArch = offsetof(seccomp_data, arch);
// The lower half of an argument; x86-64 is little endian.
constexpr u32 argument(int i) { return u32(offsetof(seccomp_data, args)) + 8 * u32(i); }

// A program of Berkeley's packet filter, of at most so many instructions; between fork and exec
// nothing may be allocated.
class Filter {
 public:
  void load(u32 at) { add(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at)); }
  void give(u32 result) { add(BPF_STMT(BPF_RET | BPF_K, result)); }
  // What is loaded: gives `result` if it equals v, has a bit of v, or is above v; else goes on.
  void if_equal(u32 v, u32 result) { give_if(BPF_JEQ, v, result); }
  void if_bits(u32 v, u32 result) { give_if(BPF_JSET, v, result); }
  void if_above(u32 v, u32 result) { give_if(BPF_JGT, v, result); }
  void if_below(u32 v, u32 result) {
    add(BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, v, 1, 0));
    give(result);
  }
  template <size_t N>
  void if_among(const int (&calls)[N], u32 result) {
    for (const int call : calls) if_equal(u32(call), result);
  }
  // For one system call: `body` decides by its argument, and has to give something at last.
  template <class Body>
  void on(int call, int i, const Body& body) {
    const size_t jump = count_;
    add({});
    load(argument(i));
    body();
    code_[jump] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, u32(call), 0, u8(count_ - jump - 1));
  }
  bool install() {
    const sock_fprog program{u16(count_), code_};
    return count_ < std::size(code_) && ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
  }

 private:
  void give_if(u16 test, u32 v, u32 result) {
    add(BPF_JUMP(BPF_JMP | test | BPF_K, v, 0, 1));
    give(result);
  }
  void add(sock_filter f) {
    if (count_ < std::size(code_)) code_[count_++] = f;
  }
  sock_filter code_[512];
  size_t count_ = 0;
};

constexpr u32 kAllow = SECCOMP_RET_ALLOW, kTrap = SECCOMP_RET_TRAP,
              kDeny = SECCOMP_RET_ERRNO | EPERM, kNotThere = SECCOMP_RET_ERRNO | ENOSYS;

}  // namespace

// A user who may do everything looks into any process: after this nobody may, and executing gives
// nothing back (no_new_privs).
static bool drop_capabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  const __user_cap_data_struct none[2] = {};
  return ::syscall(SYS_capset, &header, none) == 0;
}

bool confine(const char* program) {
  if (!drop_capabilities()) return false;
  const u32 me = u32(::getpid());
  constexpr u32 kWriting = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND;
  constexpr u32 kX32 = 0x40000000;  // system calls of another ABI, under other numbers
  Filter f;
  f.load(kArch);
  f.if_above(AUDIT_ARCH_X86_64, SECCOMP_RET_KILL_PROCESS);
  f.if_below(AUDIT_ARCH_X86_64, SECCOMP_RET_KILL_PROCESS);
  f.load(kNumber);
  f.if_bits(kX32, SECCOMP_RET_KILL_PROCESS);
  f.if_among(kAllowed, kAllow);
  f.if_among(kNetwork, kTrap);
  f.if_among(kFiles, kTrap);
  f.if_among(kProcesses, kTrap);
  f.if_among(kOthers, kTrap);
  f.if_equal(SYS_clone3, kNotThere);  // its flags lie in memory; the C library goes on with clone
  f.on(SYS_clone, 0, [&] {
    f.if_bits(CLONE_THREAD, kAllow);
    f.if_bits(CLONE_VFORK, kDeny);  // the executor asks for addr2line, and can do without
    f.give(kTrap);
  });
  for (const auto& [call, flags] : {std::pair(SYS_open, 1), std::pair(SYS_openat, 2)})
    f.on(call, flags, [&] {
      f.if_bits(kWriting, kTrap);
      f.give(kAllow);
    });
  for (const int call : {SYS_kill, SYS_tgkill})
    f.on(call, 0, [&] {
      f.if_equal(me, kAllow);
      f.give(kTrap);
    });
  f.on(SYS_prlimit64, 0, [&] {
    f.if_equal(0, kAllow);
    f.give(kTrap);
  });
  f.on(SYS_fcntl, 1, [&] {       // beyond lie those that have signals sent to others
    f.if_equal(F_DUPFD, kDeny);  // the pipes are the runner's
    f.if_above(F_SETFL, kDeny);
    f.give(kAllow);
  });
  f.on(SYS_dup, 0, [&] {
    f.if_among(kPipes, kDeny);
    f.give(kAllow);
  });
  f.on(SYS_execve, 0, [&] {
    f.if_equal(u32(reinterpret_cast<uintptr_t>(program)), kAllow);
    f.give(kTrap);
  });
  f.on(SYS_prctl, 0, [&] {  // it ends with the grader
    f.if_equal(PR_SET_PDEATHSIG, kDeny);
    f.give(kAllow);
  });
  f.give(kDeny);
  return f.install();
}

std::string forbidden_text(int call) {
  const auto among = [&](const auto& list) {
    for (const int c : list)
      if (c == call) return true;
    return false;
  };
  if (among(kNetwork)) return "open a socket";
  if (call == SYS_open || call == SYS_openat || among(kFiles))
    return "open a file for writing, or change one";
  if (call == SYS_clone || call == SYS_execve || among(kProcesses)) return "start a process";
  if (call == SYS_kill || call == SYS_tgkill || call == SYS_prlimit64 || among(kOthers))
    return "reach another process";
  return str("make system call ", call);
}

}  // namespace wt::confined
