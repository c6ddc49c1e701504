// What text from outside becomes on its way to a terminal, and what is opened as a file.
#include "warptape/core/input_file.h"

#include <sys/stat.h>

#include <filesystem>
#include <functional>

#include "warptape/autograd/onnx.h"
#include "warptape/core/npy.h"
#include "warptape/core/safetensors.h"
#include "warptape/data/bpe.h"
#include "warptape/data/cifar.h"
#include "warptape/data/csv.h"
#include "warptape/data/dataset.h"
#include "warptape/data/idx.h"
#include "warptape/data/image.h"
#include "warptape/data/mesh.h"
#include "warptape/data/npz.h"
#include "warptape/nn/checkpoint_file.h"
#include "warptape/nn/layers.h"
#include "warptape/nn/weights/weight_index.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/temp_dir.h"

using namespace wt;
using namespace std::string_literals;

TEST_CASE("printable: a name cannot move the cursor, ring, hide or end a line") {
  CHECK(printable("plain name-1.txt") == "plain name-1.txt");
  CHECK(printable("\x1b[31m\x07\r\n\t\x7f\0"s) == "\\x1b[31m\\x07\\x0d\\x0a\\x09\\x7f\\x00");
  CHECK(printable("\xc3\xbc\x9b") == "\\xc3\\xbc\\x9b");
  CHECK(printable("abcdef", 4) == "abcd...");
  CHECK(printable(std::string(100, 'x')).size() == 83);
}

TEST_CASE("printable lines: a text keeps its lines and letters, and nothing that controls") {
  CHECK(printable_lines("a\n  b\tc") == "a\n  b\tc");
  CHECK(printable_lines("B\xc3\xbc"
                        "cher \xe2\x82\xac \xf0\x9f\x98\x80") ==
        "B\xc3\xbc"
        "cher \xe2\x82\xac \xf0\x9f\x98\x80");
  CHECK(printable_lines("\x1b]0;x\x07\r\x7f") == "\\x1b]0;x\\x07\\x0d\\x7f");
  CHECK(printable_lines("\xc2\x9b"
                        "31m") == "\\xc2\\x9b31m");  // CSI as one character
  CHECK(printable_lines("\x9b"
                        "31m\xff") == "\\x9b31m\\xff");  // no UTF-8
  CHECK(printable_lines("") == "");
}

TEST_CASE("every reader shows the path it refuses escaped") {
  const TempDir dir;
  const std::string folder = dir / "\x1b[31m\x07", path = folder + "/\nx";
  std::filesystem::create_directory(folder);
  const nn::Linear net{2, 2};
  const std::pair<const char*, std::function<void()>> readers[] = {
      {"safetensors", [&] { (void)SafetensorsFile::open(path); }},
      {"load_tensors", [&] { (void)nn::load_tensors(path); }},
      {"load_model", [&] { (void)nn::load_model(net, path); }},
      {"weight index", [&] { (void)nn::detail::read_weight_index(path); }},
      {"onnx", [&] { (void)onnx::load(path); }},
      {"npy", [&] { (void)data::read_npy(path); }},
      {"NpyFile", [&] { (void)NpyFile::open(path); }},
      {"npz", [&] { data::NpzFile{path}; }},
      {"idx", [&] { (void)data::read_idx(path); }},
      {"idx_shape", [&] { (void)data::idx_shape(path); }},
      {"cifar", [&] { (void)data::read_cifar10(path); }},
      {"cifar100", [&] { (void)data::read_cifar100(path); }},
      {"bpe", [&] { (void)data::BpeTokenizer::load(path); }},
      {"off", [&] { (void)data::read_off(path); }},
      {"ply", [&] { (void)data::read_ply(path); }},
      {"csv", [&] { (void)data::read_csv(path, {.header = false}); }},
      {"image", [&] { (void)data::read_image(path); }},
      {"text", [&] { data::TextBytes({path}, {.context = 1000}); }},
      {"fashion", [&] { data::FashionMnist{folder}; }},
      {"no fashion", [&] { data::FashionMnist{path}; }},
      {"cifar folder", [&] { data::Cifar10{folder}; }},
      {"no cifar folder", [&] { data::Cifar10{path}; }}};
  for (const char* content : {"absent", "", "junk", "P5 1 1 255\n", "\x93NUMPY\1\0x", "PK\3\4"}) {
    if (content != "absent"s) spit(path, content);
    for (const auto& [name, read] : readers) {
      CAPTURE(name, content);
      const std::string text = message_of(read);
      CHECK(mentions(text, "DataError: "));
      CHECK(mentions(text, "\\x1b[31m\\x07"));
      CHECK(text.find_first_of("\x1b\x07\r") == text.npos);
      CHECK(text.find("/\nx") == text.npos);
    }
  }
}

TEST_CASE("input file: what is no regular file is refused, and nobody waits for a pipe") {
  const TempDir dir;
  REQUIRE(::mkfifo((dir / "fifo").c_str(), 0600) == 0);
  CHECK(mentions(message_of([&] { InputFile(dir / "fifo"); }), "it is not a regular file"));
  CHECK(mentions(message_of([&] { InputFile{dir.path}; }), "it is a directory"));
  CHECK(mentions(message_of([&] { InputFile("/dev/zero"); }), "it is not a regular file"));
  std::filesystem::create_symlink("loop", dir / "loop");
  CHECK(mentions(message_of([&] { InputFile(dir / "loop"); }), dir / "loop" + ": cannot be read"));
}
