#include "warptape/core/files/crc32c.h"

#include <random>
#include <string>

#include "warptape/tests/support/catch.h"

TEST_CASE("crc32c has the published check values") {
  CHECK(wt::crc32c("123456789", 9) == 0xE3069283u);
  CHECK(wt::crc32c("", 0) == 0);
  CHECK(wt::crc32c(std::string(32, '\0').data(), 32) == 0x8A9136AAu);  // RFC 3720, B.4
  CHECK(wt::crc32c(std::string(32, '\xff').data(), 32) == 0x62A8AB43u);
}

TEST_CASE("crc32c: the instruction and the tables agree, in one piece and in two") {
  std::mt19937 random(1);
  std::string data(1000, '\0');
  for (char& c : data) c = static_cast<char>(random());
  for (std::size_t n = 0; n < 64; ++n) {
    for (std::size_t offset = 0; offset < 9; ++offset) {
      const char* const p = data.data() + offset;
      REQUIRE(wt::crc32c(p, n) == wt::detail::crc32c_portable(p, n, 0));
      REQUIRE(wt::crc32c(p + n / 3, n - n / 3, wt::crc32c(p, n / 3)) == wt::crc32c(p, n));
    }
  }
}
