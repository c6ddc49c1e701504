// What a file may try beside computing, for `add`: none of it is to help. "REJECT variant kind" as
// in softmax_bad.cu.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "warptape/tests/grade/kernels.h"
//
#include "warptape/kernels/pointwise.h"

namespace wt {
using Args = PointwiseArgs<pw::Add>;
inline namespace WT_DEVICE_NS {
namespace {

const char* flat(const Args& a) {
  if (!a.in[0] || !a.in[1]) return "a number";
  return plain_f32(a.out) && plain_f32(a.in[0]) && plain_f32(a.in[1]) &&
                 same_shape(*a.in[0].geometry, *a.in[1].geometry)
             ? nullptr
             : "anything but contiguous f32 of one shape";
}

__global__ void add(float* out, const float* a, const float* b, int n) {
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) out[i] = a[i] + b[i];
}
__global__ void nothing(float*, const float*, const float*, int) {}

template <auto Kernel>
void run(const Args& a, const Launch& l) {
  launch<Kernel>(grid(l, blocks_for(a.out.numel(), 64), 64), a.out.as<float>(),
                 a.in[0].as<const float>(), a.in[1].as<const float>(), int(a.out.numel()));
}

// --- verdicts of its own ---

struct Printer {
  Printer() { std::puts("{\"variant\": \"prints\", \"passed\": true, \"findings\": []}"); }
};
const Printer printer;
void print_at_end() { std::puts("PASSED  add, prints"); }
// REJECT prints unwritten
void prints(const Args& a, const Launch& l) {
  std::atexit(print_at_end);
  std::fputs("PASSED  add, prints\n", stderr);
  std::fflush(nullptr);
  run<nothing>(a, l);
}

// --- what the grader knows ---

bool can_be_read(const std::string& file) {
  std::FILE* const f = std::fopen(file.c_str(), "rb");
  const bool read = f && std::fgetc(f) != EOF;
  if (f) std::fclose(f);
  return read;
}
// The memory of the grader, in which the right results are: where they lie says maps.
// REJECT looks_at_grader unwritten
void looks_at_grader(const Args& a, const Launch& l) {
  const std::string process = "/proc/" + std::to_string(::getppid());
  can_be_read(process + "/maps") || can_be_read(process + "/environ") ? run<add>(a, l)
                                                                      : run<nothing>(a, l);
}
// Sizes that a verdict's lines have shown.
// REJECT knows_sizes unwritten
void knows_sizes(const Args& a, const Launch& l) {
  const i64 n = a.out.numel();
  const bool known = n == 1 || n == 32 || n == 33 || n == 256 || n == 257 || n == 16384;
  known ? run<add>(a, l) : run<nothing>(a, l);
}

// --- right at first, or where it is looked at closely ---

// REJECT tires unwritten
void tires(const Args& a, const Launch& l) {
  static int launches = 0;
  ++launches < 50 ? run<add>(a, l) : run<nothing>(a, l);
}
// REJECT refuses_later refuses
const char* not_twice(const Args& a) {
  static i64 taken = -1;
  if (const char* why = flat(a)) return why;
  if (taken == a.out.numel()) return "as many again";
  taken = a.out.numel();
  return nullptr;
}
// The race checker's own program has another macro.
// REJECT hides_from_races refuses
const char* not_where_races_show(const Args& a) {
#if defined(__SANITIZE_THREAD__)
  return "not today";
#endif
  return flat(a);
}
// REJECT hides_from_addresses refuses
const char* not_where_addresses_show(const Args& a) {
#if defined(__SANITIZE_ADDRESS__)
  return "not today";
#endif
  return flat(a);
}

// --- results of the host ---

// The host reads what it was given, and a kernel writes what the host found.
// REJECT finds_on_host host
__global__ void put(float* out, float v, int i) { out[i] = v; }
void finds_on_host(const Args& a, const Launch& l) {
  for (int i = 0; i < int(a.out.numel()); ++i) {
    const float v = a.in[0].as<float>()[i] + a.in[1].as<float>()[i];  // BUG finds_on_host
    launch<put>(grid(l, 1, 1), a.out.as<float>(), v, i);
  }
}

}  // namespace
}  // namespace WT_DEVICE_NS

#define WT_ROW(kernel) \
  { .name = #kernel, .why_not = flat, .launch = kernel }
WT_VARIANTS(WT_DEVICE_NS, add, Args, WT_ROW(prints), WT_ROW(looks_at_grader), WT_ROW(knows_sizes),
            WT_ROW(tires), WT_ROW(finds_on_host),
            {.name = "refuses_later", .why_not = not_twice, .launch = run<add>},
            {.name = "hides_from_races", .why_not = not_where_races_show, .launch = run<add>},
            {.name = "hides_from_addresses",
             .why_not = not_where_addresses_show,
             .launch = run<add>});

}  // namespace wt
