// SHA-256 (FIPS 180-4) and its keyed form, HMAC (RFC 2104), for the digests of reports. Internal.
#pragma once
#include <string>
#include <string_view>

namespace wt::labs {

std::string sha256(std::string_view text);  // 32 bytes
std::string hmac_sha256(std::string_view key, std::string_view text);
std::string hex_of(std::string_view bytes);

}  // namespace wt::labs
