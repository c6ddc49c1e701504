// Takes the place of libtsan behind -fsanitize=thread in kernel files: what the compiler's
// instrumentation calls goes to the race checker.
#include "warptape/kernels/simt/race_shadow.h"

namespace {
using wt::simt_runtime::Touch;
inline __attribute__((always_inline)) void on_access(const volatile void* p, size_t bytes,
                                                     Touch kind, const void* code) {
  wt::simt_runtime::race_access(const_cast<const void*>(p), bytes, kind, code);
}
}  // namespace

#define WT_CODE __builtin_return_address(0)
#define WT_ACCESS(n)                                                                           \
  void __tsan_read##n(void* p) { on_access(p, n, Touch::read, WT_CODE); }                      \
  void __tsan_write##n(void* p) { on_access(p, n, Touch::write, WT_CODE); }                    \
  void __tsan_unaligned_read##n(void* p) { on_access(p, n, Touch::read, WT_CODE); }            \
  void __tsan_unaligned_write##n(void* p) { on_access(p, n, Touch::write, WT_CODE); }          \
  void __tsan_volatile_read##n(void* p) { on_access(p, n, Touch::read, WT_CODE); }             \
  void __tsan_volatile_write##n(void* p) { on_access(p, n, Touch::write, WT_CODE); }           \
  void __tsan_unaligned_volatile_read##n(void* p) { on_access(p, n, Touch::read, WT_CODE); }   \
  void __tsan_unaligned_volatile_write##n(void* p) { on_access(p, n, Touch::write, WT_CODE); } \
  void __tsan_read_write##n(void* p) { on_access(p, n, Touch::write, WT_CODE); }               \
  void __tsan_unaligned_read_write##n(void* p) { on_access(p, n, Touch::write, WT_CODE); }

#define WT_ATOMIC_OP(bits, T, op)                               \
  T __tsan_atomic##bits##_fetch_##op(volatile T* p, T v, int) { \
    on_access(p, sizeof(T), Touch::atomic, WT_CODE);            \
    return __atomic_fetch_##op(p, v, __ATOMIC_SEQ_CST);         \
  }
#define WT_ATOMICS(bits, T)                                                                 \
  WT_ATOMIC_OP(bits, T, add)                                                                \
  WT_ATOMIC_OP(bits, T, sub)                                                                \
  WT_ATOMIC_OP(bits, T, and)                                                                \
  WT_ATOMIC_OP(bits, T, or)                                                                 \
  WT_ATOMIC_OP(bits, T, xor)                                                                \
  T __tsan_atomic##bits##_load(const volatile T* p, int) {                                  \
    on_access(p, sizeof(T), Touch::atomic, WT_CODE);                                        \
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                            \
  }                                                                                         \
  void __tsan_atomic##bits##_store(volatile T* p, T v, int) {                               \
    on_access(p, sizeof(T), Touch::atomic, WT_CODE);                                        \
    __atomic_store_n(p, v, __ATOMIC_SEQ_CST);                                               \
  }                                                                                         \
  T __tsan_atomic##bits##_exchange(volatile T* p, T v, int) {                               \
    on_access(p, sizeof(T), Touch::atomic, WT_CODE);                                        \
    return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);                                     \
  }                                                                                         \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile T* p, T* e, T v, int, int) {   \
    on_access(p, sizeof(T), Touch::atomic, WT_CODE);                                        \
    return __atomic_compare_exchange_n(p, e, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
  }                                                                                         \
  int __tsan_atomic##bits##_compare_exchange_weak(volatile T* p, T* e, T v, int, int) {     \
    on_access(p, sizeof(T), Touch::atomic, WT_CODE);                                        \
    return __atomic_compare_exchange_n(p, e, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
  }                                                                                         \
  T __tsan_atomic##bits##_compare_exchange_val(volatile T* p, T e, T v, int, int) {         \
    on_access(p, sizeof(T), Touch::atomic, WT_CODE);                                        \
    __atomic_compare_exchange_n(p, &e, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);       \
    return e;                                                                               \
  }

extern "C" {
// Called by a constructor of every instrumented file.
void __tsan_init() { wt::simt_runtime::install_race_checker(); }
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
WT_ACCESS(1)
WT_ACCESS(2)
WT_ACCESS(4)
WT_ACCESS(8)
WT_ACCESS(16)
void __tsan_read_range(void* p, size_t n) { on_access(p, n, Touch::read, WT_CODE); }
void __tsan_write_range(void* p, size_t n) { on_access(p, n, Touch::write, WT_CODE); }
void* __tsan_memcpy(void* to, const void* from, size_t n) {
  on_access(from, n, Touch::read, WT_CODE);
  on_access(to, n, Touch::write, WT_CODE);
  return __builtin_memcpy(to, from, n);
}
void* __tsan_memmove(void* to, const void* from, size_t n) {
  on_access(from, n, Touch::read, WT_CODE);
  on_access(to, n, Touch::write, WT_CODE);
  return __builtin_memmove(to, from, n);
}
void* __tsan_memset(void* p, int v, size_t n) {
  on_access(p, n, Touch::write, WT_CODE);
  return __builtin_memset(p, v, n);
}
WT_ATOMICS(8, unsigned char)
WT_ATOMICS(16, unsigned short)
WT_ATOMICS(32, unsigned)
WT_ATOMICS(64, unsigned long)
void __tsan_atomic_thread_fence(int) {}
void __tsan_atomic_signal_fence(int) {}
}
