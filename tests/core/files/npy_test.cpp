#include "warptape/core/npy.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "warptape/core/error.h"
#include "warptape/tests/fuzz/readers.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/mutate.h"
#include "warptape/tests/support/temp_dir.h"
#include "warptape/tests/support/test_data.h"

using wt::DType;
using wt::NpyFile;

namespace {

// A version 1.0 file made by hand, not by the writer.
std::string npy_file(const std::string& header, const std::string& data) {
  return std::string("\x93NUMPY\1\0", 8) + char(header.size() & 255) + char(header.size() >> 8) +
         header + data;
}

std::string npy_refusal(const std::string& file) {
  const TempDir dir;
  spit(dir / "f", file);
  try {
    auto npy = NpyFile::open(dir / "f");
    std::string bytes(npy.bytes(), '\0');
    npy.read(bytes.data());
    return "";
  } catch (const wt::DataError& e) {
    return e.what();
  }
}

const std::string kHeader = "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }";

}  // namespace

TEST_CASE("npy: a hand-made file is read, keys in any order") {
  const TempDir dir;
  const std::string header =
      GENERATE(std::string("{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }    \n"),
               std::string("{\"shape\":(2,3),\"fortran_order\":False,\"descr\":\"<i2\"}"));
  spit(dir / "f", npy_file(header, std::string("\1\0\2\0\3\0\4\0\5\0\6\1", 12)));
  const auto npy = NpyFile::open(dir / "f");
  CHECK(npy.dtype() == DType::i16);
  CHECK(npy.shape() == std::vector<wt::i64>{2, 3});
  CHECK(npy.strides() == std::vector<wt::i64>{3, 1});
  short values[6];
  npy.read(values);
  CHECK(values[0] == 1);
  CHECK(values[5] == 262);
}

TEST_CASE("npy: big-endian elements are swapped, Fortran order shows in the strides") {
  const TempDir dir;
  spit(dir / "f", npy_file("{'descr': '>i4', 'fortran_order': True, 'shape': (2, 1), }",
                           std::string("\0\0\1\2\xff\xff\xff\xfe", 8)));
  const auto npy = NpyFile::open(dir / "f");
  int values[2];
  npy.read(values);
  CHECK(values[0] == 258);
  CHECK(values[1] == -2);
  CHECK(npy.fortran_order());
  CHECK(npy.strides() == std::vector<wt::i64>{1, 2});
}

TEST_CASE("npy: Python 2's long integers, tabs and line ends, as NumPy reads them") {
  const TempDir dir;
  for (const char* header :
       {"{'descr': '<i2', 'fortran_order': False, 'shape': (2L, 3L), }",
        "{'descr':\t'<i2',\t'fortran_order': False, 'shape':\t(2,\t3L)\t}\t",
        "{\n'descr': '<i2',\r\n'fortran_order': False, 'shape': (2 ,\n3)}\n \n"}) {
    spit(dir / "f", npy_file(header, std::string(12, 'x')));
    CHECK(NpyFile::open(dir / "f").shape() == std::vector<wt::i64>{2, 3});
  }
  spit(dir / "f", npy_file("{'descr': '<i2', 'fortran_order': False, 'shape': (6L,), }",
                           std::string(12, 'x')));
  CHECK(NpyFile::open(dir / "f").shape() == std::vector<wt::i64>{6});
}

TEST_CASE("npy: versions 2 and 3 have a longer header length") {
  for (const char version : {'\2', '\3'}) {
    std::string file = std::string("\x93NUMPY") + version + '\0';
    file += char(kHeader.size());
    file += std::string(3, '\0') + kHeader + std::string(12, 'x');
    CHECK(npy_refusal(file) == "");
  }
}

TEST_CASE("npy: what is written is read back, and looks as NumPy writes it") {
  const TempDir dir;
  for (int t = 0; t < wt::kNumDTypes; ++t) {
    const DType dtype = DType(t);
    const std::string data(static_cast<std::size_t>(wt::item_size(dtype)) * 6, '\1');
    if (dtype == DType::bf16 || dtype == DType::f8_e4m3 || dtype == DType::f8_e5m2) {
      CHECK_THROWS_AS(wt::write_npy(dir / "f", dtype, std::vector<wt::i64>{6}, data.data()),
                      wt::DtypeError);
      continue;
    }
    for (const std::vector<wt::i64>& shape : {std::vector<wt::i64>{6}, {2, 3}, {1, 6, 1}}) {
      wt::write_npy(dir / "f", dtype, shape, data.data());
      const auto npy = NpyFile::open(dir / "f");
      CHECK(npy.dtype() == dtype);
      CHECK(npy.shape() == shape);
      std::string back(npy.bytes(), '\0');
      npy.read(back.data());
      CHECK(back == data);
    }
  }
  const double x = 1.5;
  wt::write_npy(dir / "f", DType::f64, {}, &x);
  const std::string text = slurp(dir / "f");
  CHECK(text.size() == 128 + 8);
  CHECK(text.substr(8, 60) ==
        std::string("v\0", 2) + "{'descr': '<f8', 'fortran_order': False, 'shape': (), }   ");
  CHECK(text[127] == '\n');
  wt::write_npy(dir / "f", DType::f64, std::vector<wt::i64>{0, 3}, nullptr);
  CHECK(NpyFile::open(dir / "f").bytes() == 0);
  CHECK_THROWS_AS(wt::write_npy(dir / "f", DType::f64, std::vector<wt::i64>{-1}, &x),
                  wt::ShapeError);
}

TEST_CASE("npy: cut at any byte, a file is refused; so is one with a flipped bit or it is equal") {
  const std::string golden = npy_file(kHeader, std::string(12, 'x'));
  REQUIRE(npy_refusal(golden) == "");
  for (std::size_t n = 0; n < golden.size(); ++n) {
    CAPTURE(n);
    CHECK(npy_refusal(golden.substr(0, n)) != "");
  }
  for (std::size_t bit = 0; bit < (golden.size() - 12) * 8; ++bit) {
    std::string damaged = golden;
    damaged[bit / 8] ^= static_cast<char>(1 << bit % 8);
    if (npy_refusal(damaged) != "") continue;
    // Still a file of 12 bytes of data: '<' became '=' or the kind i became another of two bytes.
    CAPTURE(bit, damaged);
    const std::size_t at = bit / 8 - 10;
    CHECK((at == kHeader.find('<') || at == kHeader.find("i2")));
  }
}

TEST_CASE("npy: whatever is done to a file, the reader refuses it or reads what is there") {
  FuzzPlan plan(10'000, 5);
  const std::vector<std::string_view> words{
      "'",      "(",       ")",     ",",    "{",
      "}",      "True",    "False", "0",    "9223372036854775807",
      "-1",     "'descr'", "'>f8'", "'|O'", "'shape'",
      "(2, 3)", "\n",      "\xff"};
  long long accepted = 0;
  for (long long i = 0; i < plan.cases; ++i) {
    const std::string text =
        i % 4 == 0 ? mutated(npy_file(kHeader, std::string(12, 'x')), plan.random, words)
                   : npy_file(mutated(kHeader, plan.random, words), std::string(12, 'x'));
    accepted += wt_test::takes_npy(text);
  }
  CHECK(accepted > 0);
  CHECK(accepted < plan.cases / 4);
}

TEST_CASE("npy: every foreign or damaged header has its refusal") {
  const std::pair<std::string, std::string> cases[] = {
      {"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", "never loaded"},
      {"{'descr': '<U4', 'fortran_order': False, 'shape': (1,), }", "'<U4' is not supported"},
      {"{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", "'<c8' is not supported"},
      {"{'descr': 'i2', 'fortran_order': False, 'shape': (1,), }", "not supported"},
      {"{'descr': '|i2', 'fortran_order': False, 'shape': (1,), }", "no byte order"},
      {"{'descr': [('a', '<i2')], 'fortran_order': False, 'shape': (1,), }", "structured"},
      {"{'descr': '<i2', 'fortran_order': 0, 'shape': (1,), }", "True or False"},
      {"{'descr': '<i2', 'fortran_order': False, 'shape': (1), }", "needs a comma"},
      {"{'descr': '<i2', 'fortran_order': False, 'shape': 1, }", "expected '('"},
      {"{'descr': '<i2', 'fortran_order': False, 'shape': (-1,), }", "not an integer"},
      {"{'descr': '<i2', 'fortran_order': False, 'shape': (01,), }", "not an integer"},
      {"{'descr': '<i2', 'fortran_order': False, 'shape': (1 1), }", "expected ','"},
      {"{'descr': '<i2', 'fortran_order': False, 'shape': (99999999999999999999,), }",
       "not an integer"},
      {"{'descr': '<i8', 'fortran_order': False, 'shape': (4611686018427387904, 4), }",
       "too large"},
      {"{'descr': '<i2', 'fortran_order': False, 'shape': (2,), }",
       "needs 4 bytes, the file has 2"},
      {"{'descr': '<i2', 'fortran_order': False, }", "needs descr"},
      {"{'descr': '<i2', 'descr': '<i2', 'shape': (1,), }", "'descr' twice"},
      {"{'descr': '<i2', 'fortran_order': False, 'shape': (1,), 'x': 1}", "unknown key 'x'"},
      {"{'descr': '<i2', 'fortran_order': False, 'shape': (1LL,)}", "expected ',' in the shape"},
      {"{'descr': '<i2', 'fortran_order': False, 'shape': (L,)}", "not an integer"},
      {"{'descr': '<i2', 'fortran_order': False, 'shape': (1,), } x", "after the header"},
      {"__import__('os')", "expected '{'"},
      {"", "expected '{'"},
  };
  for (const auto& [header, message] : cases) {
    CAPTURE(header, message);
    const std::string text = npy_refusal(npy_file(header, "xx"));
    INFO(text);
    CHECK(text.find(message) != text.npos);
    CHECK(text.find(": at byte ") != text.npos);
  }
  CHECK(npy_refusal("PK\3\4 a zip file").find("does not start with") != std::string::npos);
  std::string file = npy_file(kHeader, std::string(12, 'x'));
  file[6] = 4;
  CHECK(npy_refusal(file).find("version 4.0") != std::string::npos);
  CHECK(npy_refusal(npy_file("{'descr': '|b1', 'fortran_order': False, 'shape': (2,)}", "\1\2"))
            .find("a bool holds 2") != std::string::npos);
}

TEST_CASE("npy: NumPy's own files are read, Fortran order included") {
  const std::string path = test_data("burgers/u.npy");
  if (path.empty()) SKIP_TEST("no shared/data/burgers; set WT_TEST_DATA");
  const auto u = NpyFile::open(path);
  CHECK(u.dtype() == DType::f64);
  CHECK(u.shape() == std::vector<wt::i64>{256, 100});
  CHECK(u.strides() == std::vector<wt::i64>{1, 256});
  const auto x = NpyFile::open(test_data("burgers/x.npy"));
  std::vector<double> us(25600), xs(256);
  u.read(us.data());
  x.read(xs.data());
  // u(x, 0) = -sin(pi x): the first column.
  for (std::size_t i = 0; i < 256; ++i) CHECK(std::abs(us[i] + std::sin(M_PI * xs[i])) < 1e-12);
}
