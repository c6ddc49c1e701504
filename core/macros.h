// Function attributes used across the library. No STL: device code includes this.
#pragma once

// Hot path pieces that must be inlined whatever the optimisation level (the tape's cost is counted
// in nanoseconds an operator), and cold ones that must stay out of line (error text, slow paths).
#define WT_HOT inline __attribute__((always_inline))
#define WT_COLD __attribute__((noinline, cold))
// Forces inlining of a lambda body; written after the parameter list.
#define WT_INLINE_LAMBDA __attribute__((always_inline))

// Symbols are hidden by default in a shared build; what users call is exported.
#define WT_API __attribute__((visibility("default")))

// Functions that run on the device and on the host.
#if defined(__CUDACC__)
#define WT_HD __host__ __device__
#else
#define WT_HD
#endif

// An exported class whose unnamed temporary is a mistake: `NoGrad{};` warns.
#define WT_GUARD [[nodiscard, gnu::visibility("default")]]
