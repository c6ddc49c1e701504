// Folders that go whatever happens.
#include "warptape/tools/wt/confined/scratch.h"

#include <signal.h>

#include <fstream>
#include <thread>

#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/child.h"
#include "warptape/tests/support/temp_dir.h"

using namespace wt;

TEST_CASE("a signal removes every folder, whichever thread gets it", "[tools]") {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    CAPTURE(signal);
    const TempDir dir;
    const int code = wt_test::in_child([&]() -> int {
      ::signal(signal, SIG_DFL);
      ::setenv("TMPDIR", dir.path.c_str(), 1);
      // One that was there before, as a library's threads are: it blocks no signal.
      std::thread([] { ::sleep(60); }).detach();
      const confined::CleanEnd clean;
      const confined::Scratch one, other(dir / "wanted");
      std::ofstream(one.path() + "/file") << "half";
      ::kill(::getpid(), signal);
      ::sleep(60);
      return 1;
    });
    CHECK(code == 128 + signal);
    CHECK(dir.count() == 0);
  }
}

TEST_CASE("who is started with a signal ignored goes on, and afterwards all is as before",
          "[tools]") {
  const TempDir dir;
  const int code = wt_test::in_child([&] {
    ::signal(SIGHUP, SIG_IGN);
    ::signal(SIGTERM, SIG_DFL);
    {
      const confined::CleanEnd clean;
      const confined::Scratch made(dir / "made");
      ::kill(::getpid(), SIGHUP);
      ::usleep(20'000);
    }
    struct sigaction now {};
    ::sigaction(SIGTERM, nullptr, &now);
    return now.sa_handler == SIG_DFL && dir.count() == 0 ? 0 : 1;
  });
  CHECK(code == 0);
}
