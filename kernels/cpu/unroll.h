// Register arrays stay in registers only when the loops over them are unrolled, which compilers
// leave undone where the loop's body is long.
#pragma once

#if defined(__clang__)
#define WT_UNROLL _Pragma("unroll")
#else
#define WT_UNROLL _Pragma("GCC unroll 32")
#endif
