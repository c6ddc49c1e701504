// Sixels: a character is a column of six pixels of one colour (DEC STD 070, VT330/340 Programmer
// Reference Manual).
#include <algorithm>
#include <map>

#include "warptape/core/terminal/raster.h"

namespace wt::chart {
namespace {

constexpr std::size_t kRegisters = 250;  // terminals have 256 registers

// A number for each pixel, and the colours of the numbers.
struct Indexed {
  std::vector<u8> pixels;
  std::vector<u32> colors;
};
// With each channel rounded to one of `levels`; no more numbers than there are registers.
bool index_colors(const Pixels& p, u32 levels, Indexed& out) {
  std::map<u32, u8> known;
  out = {};
  for (std::size_t i = 0; i < p.rgb.size(); i += 3) {
    u32 color = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      const u32 level = (p.rgb[i + k] * (levels - 1) + 127) / 255;
      color = color << 8 | level * 255 / (levels - 1);
    }
    const auto [at, fresh] = known.try_emplace(color, u8(out.colors.size()));
    if (fresh) out.colors.push_back(color);
    if (out.colors.size() > kRegisters) return false;
    out.pixels.push_back(at->second);
  }
  return true;
}

void put_run(std::string& to, char sixel, int n) {
  if (n > 3)
    to += "!" + std::to_string(n) + sixel;
  else
    to.append(std::size_t(n), sixel);
}

// The pixels of one colour among six rows.
void put_color(std::string& to, const Pixels& p, const Indexed& image, int top, u8 color) {
  char last = 0;
  int run = 0;
  for (int x = 0; x < p.width; ++x) {
    int bits = 0;
    for (int k = 0; k < std::min(6, p.height - top); ++k) {
      const std::size_t at = std::size_t(top + k) * std::size_t(p.width) + std::size_t(x);
      bits |= int(image.pixels[at] == color) << k;
    }
    const char sixel = char('?' + bits);
    if (run > 0 && sixel != last) put_run(to, last, std::exchange(run, 0));
    last = sixel;
    ++run;
  }
  if (last != '?') put_run(to, last, run);
}

}  // namespace

std::string sixels(const Pixels& p) {
  Indexed image;
  for (const u32 levels : {256u, 32u, 16u, 6u})
    if (index_colors(p, levels, image)) break;
  std::string out = "\x1bP0;1q\"1;1;" + std::to_string(p.width) + ";" + std::to_string(p.height);
  for (std::size_t i = 0; i < image.colors.size(); ++i) {
    out += "#" + std::to_string(i) + ";2";
    for (const int shift : {16, 8, 0})  // per cent
      out += ";" + std::to_string(((image.colors[i] >> shift & 255) * 100 + 127) / 255);
  }
  for (int top = 0; top < p.height; top += 6) {
    std::vector<bool> there(image.colors.size());
    const std::size_t begin = std::size_t(top) * std::size_t(p.width),
                      end = std::size_t(std::min(top + 6, p.height)) * std::size_t(p.width);
    for (std::size_t i = begin; i < end; ++i) there[image.pixels[i]] = true;
    for (std::size_t c = 0; c < there.size(); ++c) {
      if (!there[c]) continue;
      out += "#" + std::to_string(c);
      put_color(out, p, image, top, u8(c));
      out += '$';
    }
    out.back() = '-';
  }
  return out + "\x1b\\";
}

}  // namespace wt::chart
