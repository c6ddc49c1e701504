// Memory that host and device share: a list of nodes which point at each other, and a variable.
#include <cstdio>

#define CHECK(call)                                      \
  if (const cudaError_t e = (call); e != cudaSuccess) {  \
    std::printf("managed: %s\n", cudaGetErrorString(e)); \
    return 1;                                            \
  }

struct Node {
  int value;
  Node* next;
};

__managed__ int visited = 100;
__device__ int hidden[4] = {1, 2, 3, 4};

__global__ void visit(Node* first) {
  for (Node* n = first; n; n = n->next) {
    n->value *= 10;
    ++visited;
  }
}

__global__ void add_hidden(Node* nodes) { nodes[threadIdx.x].value += hidden[threadIdx.x]; }

int main() {
  const int n = 4;
  Node* nodes;
  CHECK(cudaMallocManaged(&nodes, n * sizeof(Node)));
  for (int i = 0; i < n; ++i) nodes[i] = {i + 1, i + 1 < n ? &nodes[i + 1] : nullptr};
  visited = 0;
  visit<<<1, 1>>>(nodes);
  CHECK(cudaDeviceSynchronize());
  if (visited != n) {
    std::printf("managed: visited %d nodes\n", visited);
    return 1;
  }
  nodes[0].value += 5;  // the host's turn
  add_hidden<<<1, n>>>(nodes);
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < n; ++i) {
    if (nodes[i].value != 11 * (i + 1) + (i == 0 ? 5 : 0)) {
      std::printf("managed: node %d holds %d\n", i, nodes[i].value);
      return 1;
    }
  }
  int* address;  // of an ordinary device variable
  CHECK(cudaGetSymbolAddress((void**)&address, hidden));
  size_t bytes = 0;
  CHECK(cudaGetSymbolSize(&bytes, hidden));
  CHECK(cudaMemset(address, 0, bytes));
  int back[4] = {9, 9, 9, 9};
  CHECK(cudaMemcpyFromSymbol(back, hidden, sizeof back));
  if (bytes != sizeof back || back[0] != 0 || back[3] != 0) {
    std::printf("managed: the variable of %d bytes holds %d\n", int(bytes), back[3]);
    return 1;
  }
  cudaPointerAttributes about;
  CHECK(cudaPointerGetAttributes(&about, nodes));
  if (about.type != cudaMemoryTypeManaged) {
    std::printf("managed: memory of type %d\n", int(about.type));
    return 1;
  }
  CHECK(cudaFree(nodes));
  std::printf("managed: ok\n");
}
