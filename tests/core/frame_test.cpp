// Interned source lines.
#include "warptape/core/frame.h"

#include <set>
#include <string>

#include "warptape/tests/support/catch.h"

using namespace wt;

TEST_CASE("Node: a frame id stands for one file and line, however many share a slot of the cache",
          "[wall][node]") {
  constexpr u32 kLines = 4 * detail::kFrameCache;  // each slot is fought for
  const std::string file = "frame_test/net.cpp", same_text = file;
  std::set<FrameId> ids;
  for (u32 line = 1; line <= kLines; ++line) ids.insert(intern_frame({file.c_str(), line}));
  CHECK(ids.size() == kLines);
  for (u32 line = 1; line <= kLines; ++line) {
    const FrameId id = intern_frame({file.c_str(), line});
    CHECK(ids.count(id) == 1);
    CHECK(intern_frame({same_text.c_str(), line}) == id);  // the text counts, not its address
    CHECK(frame_of(id).line == line);
    CHECK(frame_of(id).file == file);
  }
  CHECK(intern_frame(Frame{}) == 0);
}

TEST_CASE("Node: other text at the address of a known file has an id of its own", "[wall][node]") {
  char file[] = "frame_test/a.cpp";
  const FrameId a = intern_frame({file, 7});
  // Out of the thread's cache: two lines that share its slot, wherever the addresses lie.
  int others = 0;
  for (u32 line = 1000; others < 2; ++line) {
    const Frame other{"frame_test/other.cpp", line};
    if (detail::frame_slot(other) != detail::frame_slot({file, 7})) continue;
    (void)intern_frame(other);
    ++others;
  }
  file[11] = 'b';
  const FrameId b = intern_frame({file, 7});
  CHECK(a != b);
  CHECK(describe_frame(a) == "a.cpp:7");
  CHECK(describe_frame(b) == "b.cpp:7");
}
