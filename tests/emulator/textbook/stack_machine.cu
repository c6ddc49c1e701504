// An interpreter of a little language, a program a thread: a large switch in a loop, at which the
// lanes of a warp seldom agree, and a stack whose places are known at run time only.
#include <cstdio>
#include <initializer_list>
#include <vector>

#define CHECK(call)                                            \
  if (const cudaError_t e = (call); e != cudaSuccess) {        \
    std::printf("stack_machine: %s\n", cudaGetErrorString(e)); \
    return 1;                                                  \
  }

enum Code {  // first those that take two values from the stack and leave one
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kModulo,
  kAnd,
  kOr,
  kXor,
  kShift,
  kLess,
  kEqual,
  kMost,
  kSwap,
  kNot,
  kNegate,
  kDuplicate,
  kPush,
  kLoad,
  kStore,
  kJump,
  kJumpIfZero,
  kHalt
};

constexpr int kDepth = 16, kMostSteps = 5000;

__host__ __device__ int interpret(const signed char* program, int argument) {
  unsigned int stack[kDepth], variable[2] = {unsigned(argument), 0};
  int top = 0, at = 0;
  for (int steps = 0; steps < kMostSteps; ++steps) {
    const int code = program[at++];
    const unsigned int y = top > 0 ? stack[top - 1] : 0;
    unsigned int& x = stack[top > 1 ? top - 2 : 0];
    switch (code) {
      case kAdd:
        x += y;
        --top;
        break;
      case kSubtract:
        x -= y;
        --top;
        break;
      case kMultiply:
        x *= y;
        --top;
        break;
      case kDivide:
        x = unsigned(int(x) / int(y % 16 + 1));
        --top;
        break;
      case kModulo:
        x = unsigned(int(x) % int(y % 16 + 1));
        --top;
        break;
      case kAnd:
        x &= y;
        --top;
        break;
      case kOr:
        x |= y;
        --top;
        break;
      case kXor:
        x ^= y;
        --top;
        break;
      case kShift:
        x = unsigned(int(x) >> (y & 31));
        --top;
        break;
      case kLess:
        x = int(x) < int(y);
        --top;
        break;
      case kEqual:
        x = x == y;
        --top;
        break;
      case kMost:
        x = x > y ? x : y;
        --top;
        break;
      case kSwap:
        stack[top - 1] = x;
        x = y;
        break;
      case kNot:
        stack[top - 1] = ~y;
        break;
      case kNegate:
        stack[top - 1] = 0 - y;
        break;
      case kDuplicate:
        stack[top++] = y;
        break;
      case kPush:
        stack[top++] = unsigned(int(program[at++]));
        break;
      case kLoad:
        stack[top++] = variable[program[at++]];
        break;
      case kStore:
        variable[program[at++]] = y;
        --top;
        break;
      case kJump:
        at = program[at];
        break;
      case kJumpIfZero:
        at = y == 0 ? program[at] : at + 1;
        --top;
        break;
      case kHalt:
        return int(y);
      default:
        return -1;
    }
  }
  return -2;
}

__global__ void run(const signed char* programs, int length, int count, int n, int* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = interpret(programs + i % count * length, i);
}

// Variable 1 counts down; the round between works on variable 0, as chance has it.
std::vector<signed char> random_program(unsigned int seed, int length) {
  const auto chance = [&](int n) {
    seed = seed * 1664525u + 1013904223u;
    return int((seed >> 16) % unsigned(n));
  };
  std::vector<signed char> p;
  const auto put = [&](std::initializer_list<int> codes) {
    for (int c : codes) p.push_back((signed char)c);
  };
  put({kPush, 2 + chance(9), kStore, 1, kLoad, 0});
  const int start = 4;
  int depth = 1;
  while (int(p.size()) < 60) {
    if (depth < 2 || (depth < 8 && chance(2))) {
      const int how = chance(3);
      if (how == 0) put({kPush, chance(100) - 50});
      if (how == 1) put({kLoad, chance(2)});
      if (how == 2) put({kDuplicate});
      ++depth;
    } else {
      const int code = chance(kDuplicate);
      put({code});
      depth -= code < kSwap;
    }
  }
  while (depth-- > 1) put({kXor});
  put({kStore, 0, kLoad, 1, kPush, 1, kSubtract, kDuplicate, kStore, 1});
  put({kJumpIfZero, int(p.size()) + 4, kJump, start, kLoad, 0, kHalt});
  p.resize(length, 99);
  return p;
}

int main() {
  const int n = 384, count = 24, length = 100;
  std::vector<signed char> programs;
  for (int k = 0; k < count; ++k) {
    const std::vector<signed char> p = random_program(k, length);
    programs.insert(programs.end(), p.begin(), p.end());
  }
  programs[length * 5] = 77;  // no such code
  signed char* dprograms;
  int* dout;
  std::vector<int> out(n);
  CHECK(cudaMalloc(&dprograms, programs.size()));
  CHECK(cudaMalloc(&dout, n * sizeof(int)));
  CHECK(cudaMemcpy(dprograms, programs.data(), programs.size(), cudaMemcpyHostToDevice));
  run<<<(n + 127) / 128, 128>>>(dprograms, length, count, n, dout);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(out.data(), dout, n * sizeof(int), cudaMemcpyDeviceToHost));
  for (int i = 0; i < n; ++i) {
    const int expected = interpret(&programs[i % count * length], i);
    if (out[i] != expected || expected == -2 || (i % count == 5 && expected != -1)) {
      std::printf("stack_machine: %d instead of %d for program %d\n", out[i], expected, i);
      return 1;
    }
  }
  std::printf("stack_machine: ok\n");
}
