// Where charlm's text comes from: folders with whatever lies in them.
#include <filesystem>

#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/tiny_data.h"
#include "warptape/tools/wt/recipes/recipes.h"

using namespace wt;
namespace fs = std::filesystem;

TEST_CASE("charlm: of a folder the regular files are read, and a link in a circle is named") {
  const TempDir dir;
  const auto recipe = tools::find_recipe("charlm").make(
      tools::Settings::parse("layers=1 heads=2 channels=8 context=8"));
  CHECK(mentions(message_of([&] { (void)recipe->load(dir.path); }), "the folder has no files"));
  wt_test::write_tiny_text(dir / "a.txt", 100);
  fs::create_directory(dir / "sub");
  fs::create_symlink("nowhere", dir / "gone");
  const i64 bytes = i64(fs::file_size(dir / "a.txt"));
  CHECK(recipe->dataset_bytes(dir.path) == bytes);
  fs::create_symlink("a.txt", dir / "again.txt");
  CHECK(recipe->dataset_bytes(dir.path) == 2 * bytes);
  fs::create_symlink("loop", dir / "loop");
  for (const std::string& path : {dir.path, dir / "loop"}) {
    const std::string text = message_of([&] { (void)recipe->load(path); });
    CHECK(mentions(text, "DataError: " + dir / "loop" + ": cannot be read: Too many levels"));
  }
}
