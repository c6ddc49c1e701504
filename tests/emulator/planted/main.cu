// planted NAME: runs one program with a known fault. "planted: its own check says N" is the last
// line, where the program lives as long.
#include <cstring>

#include "faults.h"

int main(int count, char** words) {
  for (const Fault* list : {memory_faults, order_faults, sync_faults, host_faults})
    for (const Fault* f = list; f->name; ++f) {
      if (count < 2) std::printf("%s\n", f->name);
      if (count < 2 || std::strcmp(words[1], f->name)) continue;
      const int bad = f->run();
      std::printf("planted: its own check says %d\n", bad);
      return bad;
    }
  return count < 2 ? 0 : 3;
}
