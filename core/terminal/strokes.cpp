#include "warptape/core/terminal/strokes.h"

#include <algorithm>

namespace wt::chart {
namespace {

// From the blank to the tilde. Two characters are a point, x from '0' and y from 'A', which is the
// lowest, -4; strokes are parted by blanks.
constexpr const char* kStrokes[] = {
    "",                                            // blank
    "0Q0I 0E0F",                                   // !
    "0Q0N 2Q2N",                                   // "
    "2Q1E 6Q5E 0M7M 0I7I",                         // #
    "6N4O2O0N0L2J4J6H6G4F2F0G 3Q3D",               // $
    "1Q0P0N1M2M3N3P2Q1Q 8Q0E 7I6I5H5F6E7E8F8H7I",  // %
    "7E1M1O2Q4Q5O5M0H0G2E4E7I",                    // &
    "0Q0N",                                        // '
    "3Q1O0L0H1E3C",                                // (
    "0Q2O3L3H2E0C",                                // )
    "3O3I 0N6J 6N0J",                              // *
    "3L3F 0I6I",                                   // +
    "1F1E0C",                                      // ,
    "0I4I",                                        // -
    "0E0F",                                        // .
    "0C5Q",                                        // /
    "2Q4Q6O6G4E2E0G0O2Q",                          // 0
    "0N2Q2E",                                      // 1
    "0O2Q4Q6O6L0E6E",                              // 2
    "0P2Q4Q6O6M4K2K 4K6I6G4E2E0F",                 // 3
    "5E5Q0I7I",                                    // 4
    "6Q1Q0K2L4L6J6G4E2E0F",                        // 5
    "5Q3Q1O0L0G2E4E6G6J4L2L0J",                    // 6
    "0Q6Q2E",                                      // 7
    "2K0M0O2Q4Q6O6M4K2K0I0G2E4E6G6I4K",            // 8
    "6L4J2J0L0O2Q4Q6O6J5G3E1E",                    // 9
    "0E0F 0L0M",                                   // :
    "1L1M 1F1E0C",                                 // ;
    "6M0I6E",                                      // <
    "0K6K 0G6G",                                   // =
    "0M6I0E",                                      // >
    "0O2Q4Q5O5M3K3I 3E3F",                         // ?
    "6H5G3G2I2K3M5M6K6H7G8I8L6O3O0L0G2D6D",        // @
    "0E4Q8E 1I7I",                                 // A
    "0E0Q4Q6O6M4K0K 4K6I6G4E0E",                   // B
    "7O5Q2Q0O0G2E5E7G",                            // C
    "0E0Q4Q7N7H4E0E",                              // D
    "6Q0Q0E6E 0K5K",                               // E
    "6Q0Q0E 0K5K",                                 // F
    "7O5Q2Q0O0G2E5E7G7K4K",                        // G
    "0E0Q 7E7Q 0K7K",                              // H
    "0E0Q",                                        // I
    "4Q4G3E1E0G",                                  // J
    "0E0Q 6Q0J 2L6E",                              // K
    "0Q0E5E",                                      // L
    "0E0Q4I8Q8E",                                  // M
    "0E0Q7E7Q",                                    // N
    "2Q5Q7O7G5E2E0G0O2Q",                          // O
    "0E0Q4Q6O6L4J0J",                              // P
    "2Q5Q7O7G5E2E0G0O2Q 4H8D",                     // Q
    "0E0Q4Q6O6L4J0J 3J6E",                         // R
    "6O4Q2Q0O0M2K4K6I6G4E2E0G",                    // S
    "0Q8Q 4Q4E",                                   // T
    "0Q0G2E5E7G7Q",                                // U
    "0Q4E8Q",                                      // V
    "0Q2E5O8E:Q",                                  // W
    "0Q7E 7Q0E",                                   // X
    "0Q4K8Q 4K4E",                                 // Y
    "0Q7Q0E7E",                                    // Z
    "2Q0Q0C2C",                                    // [
    "0Q5C",                                        // backslash
    "0Q2Q2C0C",                                    // ]
    "0L3Q6L",                                      // ^
    "0C7C",                                        // _
    "0Q2O",                                        // `
    "5M5E 5K3M2M0K0G2E3E5G",                       // a
    "0Q0E 0K2M3M5K5G3E2E0G",                       // b
    "5L3M2M0K0G2E3E5F",                            // c
    "5Q5E 5K3M2M0K0G2E3E5G",                       // d
    "0I5I5K3M2M0K0G2E3E5F",                        // e
    "4Q3Q1O1E 0M4M",                               // f
    "5M5C3A2A0B 5K3M2M0K0G2E3E5G",                 // g
    "0Q0E 0K2M3M5K5E",                             // h
    "0M0E 0P0Q",                                   // i
    "2M2C1A0A 2P2Q",                               // j
    "0Q0E 4M0I 1J5E",                              // k
    "0Q0E",                                        // l
    "0M0E 0K1M3M4K4E 4K5M7M8K8E",                  // m
    "0M0E 0K2M3M5K5E",                             // n
    "2M3M5K5G3E2E0G0K2M",                          // o
    "0M0A 0K2M3M5K5G3E2E0G",                       // p
    "5M5A 5K3M2M0K0G2E3E5G",                       // q
    "0M0E 0K2M4M",                                 // r
    "5L3M1M0L0K1J4I5H5F4E1E0F",                    // s
    "1P1F2E3E 0M3M",                               // t
    "0M0G2E3E5G 5M5E",                             // u
    "0M3E6M",                                      // v
    "0M2E4L6E8M",                                  // w
    "0M5E 5M0E",                                   // x
    "0M3E 6M2A0A",                                 // y
    "0M5M0E5E",                                    // z
    "3Q2P2K0J2I2D3C",                              // {
    "0Q0C",                                        // |
    "0Q1P1K3J1I1D0C",                              // }
    "0H2J4H6J",                                    // ~
};
constexpr const char* kBox = "0E0M5M5E0E";

}  // namespace

Glyph glyph_of(char32_t c) {
  Glyph g;
  if (c == U' ') {
    g.width = 3;
    return g;
  }
  const char* const strokes = c > U' ' && c <= U'~' ? kStrokes[c - U' '] : kBox;
  bool begun = false;
  for (const char* p = strokes; *p;) {
    if (*p == ' ') {
      begun = false;
      ++p;
      continue;
    }
    if (!begun) g.strokes.emplace_back();
    begun = true;
    g.strokes.back().emplace_back(p[0] - '0', p[1] - 'E');
    g.width = std::max(g.width, double(p[0] - '0'));
    p += 2;
  }
  return g;
}

std::vector<char32_t> characters_of(std::string_view text) {
  std::vector<char32_t> out;
  for (const char b : text) {
    const auto byte = static_cast<unsigned char>(b);
    if ((byte & 0xC0) == 0x80 && !out.empty() && out.back() > 0x7F)
      continue;  // which character it is does not count: all are boxes
    out.push_back(byte < 0x20 ? U' ' : byte);
  }
  return out;
}

double text_length(std::string_view text) {
  double length = 0;
  for (const char32_t c : characters_of(text)) length += glyph_of(c).width + kLetterGap;
  return length > 0 ? length - kLetterGap : 0;
}

}  // namespace wt::chart
