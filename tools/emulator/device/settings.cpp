#include "device/settings.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace emu {
namespace {

[[noreturn]] void bad(const char* name, const char* text, const char* allowed) {
  std::fprintf(stderr, "emulator: %s=%s: %s\n", name, text, allowed);
  std::fflush(nullptr);
  _exit(2);
}

const char* get(const char* name) {
  const char* text = std::getenv(name);
  return text && *text ? text : nullptr;
}

bool flag(const char* name, bool otherwise) {
  const char* text = get(name);
  if (!text) return otherwise;
  if (!std::strcmp(text, "0")) return false;
  if (!std::strcmp(text, "1")) return true;
  bad(name, text, "0 or 1");
}

u64 number(const char* name, const char* text, u64 least, const char* allowed) {
  char* end = nullptr;
  const u64 n = std::strtoull(text, &end, 10);
  if (end == text || *text == '-') bad(name, text, allowed);
  int shift = 0;
  if (*end == 'k' || *end == 'K') shift = 10;
  if (*end == 'm' || *end == 'M') shift = 20;
  if (*end == 'g' || *end == 'G') shift = 30;
  if (shift) ++end;
  if (*end || n > (~u64(0) >> (shift + 8)) || n << shift < least) bad(name, text, allowed);
  return n << shift;
}

void read_streams(Settings& s) {
  const char* text = get("WT_EMU_STREAMS");
  const char* allowed = "lazy, lazy:SEED or eager";
  if (!text) return;
  if (!std::strcmp(text, "eager")) {
    s.eager = true;
  } else if (!std::strncmp(text, "lazy:", 5)) {
    s.seed = number("WT_EMU_STREAMS", text + 5, 0, allowed);
  } else if (std::strcmp(text, "lazy")) {
    bad("WT_EMU_STREAMS", text, allowed);
  }
}

Settings read() {
  Settings s;
  if (const char* text = get("WT_EMU_CHECK")) {
    if (!std::strcmp(text, "off"))
      s.check = Settings::Check::off;
    else if (!std::strcmp(text, "report"))
      s.check = Settings::Check::report;
    else if (std::strcmp(text, "fail"))
      bad("WT_EMU_CHECK", text, "off, report or fail");
  }
  if (const char* text = get("WT_EMU_GPU")) s.gpu = text;
  if (const char* text = get("WT_EMU_DEVICES")) {
    s.devices = int(number("WT_EMU_DEVICES", text, 0, "0 to 16"));
    if (s.devices > 16) bad("WT_EMU_DEVICES", text, "0 to 16");
  }
  if (const char* text = get("WT_EMU_MEMORY"))
    s.memory = number("WT_EMU_MEMORY", text, 1 << 20, "bytes, at least 1M; 512M, 4G");
  if (const char* text = get("WT_EMU_SHARED"))
    s.shared = number("WT_EMU_SHARED", text, 48 << 10, "bytes, at least 48K; 99K, 163K");
  read_streams(s);
  s.order = flag("WT_EMU_ORDER", true);
  s.leaks = flag("WT_EMU_LEAKS", false);
  s.summary = flag("WT_EMU_SUMMARY", false);
  if (const char* text = get("WT_EMU_TRACE")) s.trace = text;
  if (const char* text = get("WT_EMU_PROFILE")) s.profile = text;
  return s;
}

}  // namespace

const Settings& settings() {
  static const Settings* s = new Settings(read());
  return *s;
}

}  // namespace emu
