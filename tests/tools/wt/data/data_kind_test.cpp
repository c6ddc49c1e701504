// What a file of data is said to be, and what is said of one that is another program's.
#include "warptape/tools/wt/data/data_kind.h"

#include "warptape/config.h"
#include "warptape/core/error.h"
#include "warptape/data/tfrecord.h"
#include "warptape/tests/reference/reader.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/temp_dir.h"
#include "warptape/tools/wt/data/data_info.h"

using namespace wt;
using namespace wt::tools;

namespace {

DataKind kind_of_content(const std::string& content) {
  const TempDir dir;
  spit(dir / "f", content);
  return data_kind_of(dir / "f");
}

}  // namespace

TEST_CASE("data kind: OFF files with letters before and a count behind their first word") {
  for (const char* head :
       {"OFF\n", "OFF 3 1 0", "OFF490 518 0", "COFF\n", "NOFF ", "STOFF\r\n", "CNOFF3", "OFF\t1"})
    CHECK(kind_of_content(head) == DataKind::mesh);
  for (const char* head : {"OFFICE hours", "OFF", "OFF-line", "COFFEE"})
    CHECK(kind_of_content(head) == DataKind::text);
  // Read, too, by its ending.
  const TempDir dir;
  spit(dir / "chair.off", "OFF3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n");
  CHECK(data_info(dir / "chair.off").parts.at(1).shape == "[1, 3]");
  spit(dir / "chair", "COFF\n3 1 0\n0 0 0 1 1 1\n1 0 0 1 1 1\n0 1 0 1 1 1\n3 0 1 2\n");
  CHECK(data_info(dir / "chair").parts == data_info(dir / "chair.off").parts);
}

TEST_CASE("data kind: a database of LMDB 1.0 is one, and cannot be read by 0.9") {
  std::string page(4096, '\0');
  page.replace(24, 8, std::string("\xde\xc0\xef\xbe\2\0\0\0", 8));
  CHECK(kind_of_content(page + page) == DataKind::lmdb);
#if WARPTAPE_HAS_LMDB
  const TempDir dir;
  spit(dir / "data.mdb", page + page);
  const std::string why = message_of([&] { (void)data_info(dir / "data.mdb"); });
  CHECK(mentions(why, "at byte 24: a file of LMDB 1.0 (format 2); those of 0.9 are read"));
  CHECK(mentions(why, "Try mdb_dump"));
#endif
}

TEST_CASE("data kind: what torch.save wrote is no damaged archive") {
  const TempDir dir;
  spit(dir / "model.bin", slurp(reference::reference_file("weights/tiny.pt")));
  const std::string why = message_of([&] { (void)data_info(dir / "model.bin"); });
  CHECK(mentions(why, "this is a PyTorch file (a zip archive with a pickle), not an npz archive"));
  CHECK(mentions(why, "Try tools/convert_pt.py"));
}

#if WARPTAPE_HAS_ZLIB
TEST_CASE("data kind: TFRecord files in zlib, and other files that begin like one") {
  const TempDir dir;
  // tf.io.TFRecordWriter(f, "ZLIB") of the records "one" and "three": zlib.compress of the plain
  // file.
  data::TfRecordWriter w(dir / "plain");
  w.add("one");
  w.add("three");
  w.finish();
  const std::string plain = slurp(dir / "plain");
  u32 a = 1, b = 0;
  for (const char c : plain) a = (a + u8(c)) % 65521, b = (b + a) % 65521;
  const std::string stored = std::string("\x78\x9c\x01", 3) + char(plain.size()) + '\0' +
                             char(~plain.size()) + '\xff' + plain + char(b >> 8) + char(b) +
                             char(a >> 8) + char(a);
  spit(dir / "packed", stored);
  CHECK(data_kind_of(dir / "packed") == DataKind::tfrecord);
  const DataInfo info = data_info(dir / "packed");
  CHECK(info.packed == "zlib");
  CHECK(info.samples == 2);
  CHECK(data_info(dir / "plain").packed.empty());
  // "x^" and zlib's second level have the same bytes.
  CHECK(kind_of_content("x^2 + y^2 = 1\n") == DataKind::text);
  spit(dir / "formula.txt", "x^2 + y^2 = 1\n");
  CHECK(data_info(dir / "formula.txt").packed.empty());
  CHECK(kind_of_content("x\xda\x80 and more\n") == DataKind::text);
}
#endif
