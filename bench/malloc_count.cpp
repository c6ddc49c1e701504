// Counts heap allocations by taking the place of operator new and, in glibc, of malloc's kin.
#include <malloc.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <new>

#include "warptape/bench/overhead.h"

namespace {
constinit std::atomic<wt::i64> allocations{0};
}

// glibc lets a program define these; the real ones keep their internal names. Sanitizers define
// their own, so there nothing is counted.
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
void* malloc(size_t n) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(n);
}
void* calloc(size_t n, size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_calloc(n, size);
}
void* realloc(void* p, size_t n) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_realloc(p, n);
}
void* memalign(size_t align, size_t n) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_memalign(align, n);
}
int posix_memalign(void** p, size_t align, size_t n) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  *p = __libc_memalign(align, n);
  return *p ? 0 : ENOMEM;
}
void* aligned_alloc(size_t align, size_t n) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_memalign(align, n);
}
}
wt::i64 wt::bench::malloc_count() { return allocations.load(std::memory_order_relaxed); }
#else
wt::i64 wt::bench::malloc_count() { return -1; }
#endif
