// printf on the device. What it wrote is read back from a file that stands in for stdout.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#define CHECK(call)                                            \
  if (const cudaError_t e = (call); e != cudaSuccess) {        \
    std::printf("device_printf: %s\n", cudaGetErrorString(e)); \
    return 1;                                                  \
  }

__global__ void speak(const char* word) {
  if (threadIdx.x % 2 == 0) {
    printf("thread %d of %u\n", int(threadIdx.x), blockDim.x);
  } else {
    printf("%c|%5.2f|%-6s|%08x|%lld|%%|%e\n", 'a' + threadIdx.x, threadIdx.x / 8.0, word,
           threadIdx.x * 4096, -5000000000ll * threadIdx.x, 1.5);
  }
}

__global__ void plain() { printf("no arguments\n"); }

int main() {
  std::fflush(stdout);
  const int terminal = dup(1);
  std::FILE* file = std::tmpfile();
  if (!file || dup2(fileno(file), 1) < 0) return 1;
  char* word;
  CHECK(cudaMalloc(&word, 8));
  CHECK(cudaMemcpy(word, "word", 5, cudaMemcpyHostToDevice));
  speak<<<1, 4>>>(word);
  plain<<<2, 1>>>();
  const cudaError_t result = cudaDeviceSynchronize();
  std::fflush(stdout);
  dup2(terminal, 1);
  CHECK(result);
  std::rewind(file);
  std::vector<std::string> lines;
  for (char line[200]; std::fgets(line, sizeof line, file);) lines.push_back(line);
  std::sort(lines.begin(), lines.end());  // threads speak in any order
  const std::vector<std::string> expected = {
      "b| 0.12|word  |00001000|-5000000000|%|1.500000e+00\n",
      "d| 0.38|word  |00003000|-15000000000|%|1.500000e+00\n",
      "no arguments\n",
      "no arguments\n",
      "thread 0 of 4\n",
      "thread 2 of 4\n"};
  if (lines != expected) {
    std::printf("device_printf: %d lines, not those expected:\n", int(lines.size()));
    for (const std::string& line : lines) std::printf("  %s", line.c_str());
    return 1;
  }
  std::printf("device_printf: ok\n");
}
