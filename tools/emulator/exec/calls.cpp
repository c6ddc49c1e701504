// Calls that have no body in PTX: printf and assert.
#include <cstdio>

#include "device/memory.h"
#include "exec/block.h"
#include "exec/lanes.h"

namespace emu {
namespace {

// Bytes behind a generic pointer of a lane; faults where there are none.
const u8* bytes_at(Warp& w, u32 lane, u64 address, u32 bytes) {
  if ((address & kWindowMask) == kLocalWindow) {
    const u64 offset = address & ~kWindowMask;
    if (offset + bytes <= w.block->kernel->info.local_bytes)
      return w.local + u64(lane) * w.block->kernel->info.local_bytes + offset;
  } else if (const Block* b = find_block(address); b && address + bytes <= b->end) {
    return reinterpret_cast<const u8*>(address + u64(b->alias));
  }
  fault(KernelFault::Kind::illegal_address, lane, "printf: " + describe_address(address));
}
std::string text_at(Warp& w, u32 lane, u64 address) {
  std::string text;
  for (;; ++address) {
    const char c = char(*bytes_at(w, lane, address, 1));
    if (!c || text.size() > 10000) return text;
    text += c;
  }
}

// One conversion with the argument as the host's printf takes it.
std::string converted(Warp& w, u32 lane, const std::string& spec, u64* arguments) {
  const char kind = spec.back();
  char out[512];
  const bool wide = spec.find('l') != std::string::npos || spec.find('z') != std::string::npos ||
                    spec.find('j') != std::string::npos || spec.find('t') != std::string::npos;
  const auto take = [&](u32 bytes) {
    *arguments = (*arguments + bytes - 1) / bytes * bytes;
    u64 x = 0;
    std::memcpy(&x, bytes_at(w, lane, *arguments, bytes), bytes);
    *arguments += bytes;
    return x;
  };
  std::string plain;  // without the length, which is put back as the host has it
  for (char c : spec) {
    if (c == '*')
      plain += std::to_string(i32(take(4)));
    else if (!std::strchr("hlzjt", c))
      plain += c;
  }
  switch (kind) {
    case 'd':
    case 'i':
    case 'o':
    case 'u':
    case 'x':
    case 'X': {
      const u64 x = take(wide ? 8 : 4);
      plain.insert(plain.size() - 1, "ll");
      const bool sign = kind == 'd' || kind == 'i';
      std::snprintf(out, sizeof out, plain.c_str(),
                    wide   ? static_cast<long long>(x)
                    : sign ? static_cast<long long>(i32(x))
                           : static_cast<long long>(u32(x)));
      return out;
    }
    case 'c':
      std::snprintf(out, sizeof out, plain.c_str(), int(take(4)));
      return out;
    case 's': {
      const std::string text = text_at(w, lane, take(8));
      if (plain.size() == 2) return text;
      const int length = std::snprintf(nullptr, 0, plain.c_str(), text.c_str());
      std::string padded(size_t(length) + 1, 0);
      std::snprintf(padded.data(), padded.size(), plain.c_str(), text.c_str());
      padded.pop_back();
      return padded;
    }
    case 'p':
      std::snprintf(out, sizeof out, "0x%llx", static_cast<unsigned long long>(take(8)));
      return out;
    default: {
      const u64 bits = take(8);
      double x;
      std::memcpy(&x, &bits, 8);
      std::snprintf(out, sizeof out, plain.c_str(), x);
      return out;
    }
  }
}

std::string formatted(Warp& w, u32 lane, const std::string& format, u64 arguments, i32* count) {
  std::string out;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') {
      out += format[i];
    } else if (i + 1 < format.size() && format[i + 1] == '%') {
      out += '%', ++i;
    } else {
      const size_t end = format.find_first_of("diouxXcspfFeEgGaA", i + 1);
      if (end == std::string::npos) return out + format.substr(i);
      out += converted(w, lane, format.substr(i, end - i + 1), &arguments);
      ++*count;
      i = end;
    }
  }
  return out;
}

u64 parameter(const Warp& w, u32 lane, const Op& op, u32 n) {
  u64 x;
  std::memcpy(
      &x,
      w.local + u64(lane) * w.block->kernel->info.local_bytes + w.block->kernel->lists[op.e + n],
      8);
  return x;
}

void print(Warp& w, const Op& op) {
  for_lanes(w.mask, [&](u32 l) {
    // CUDA's printf gives the number of its arguments, not of the bytes written.
    i32 result = 0;
    const u64 format = parameter(w, l, op, 1);
    const std::string text =
        format ? formatted(w, l, text_at(w, l, format), parameter(w, l, op, 2), &result) : "";
    if (!format) result = -1;
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::memcpy(w.local + u64(l) * w.block->kernel->info.local_bytes + w.block->kernel->lists[op.e],
                &result, 4);
  });
}

void assertion(Warp& w, const Op& op) {  // (message, file, line, function, size of a character)
  const u32 l = u32(__builtin_ctz(w.mask));
  u32 line;
  std::memcpy(
      &line,
      w.local + u64(l) * w.block->kernel->info.local_bytes + w.block->kernel->lists[op.e + 3], 4);
  fault(KernelFault::Kind::assertion, l,
        text_at(w, l, parameter(w, l, op, 2)) + ":" + std::to_string(line) + ": " +
            text_at(w, l, parameter(w, l, op, 4)) + ": assertion `" +
            text_at(w, l, parameter(w, l, op, 1)) + "` failed");
}

// The places of result and parameters, all in local memory: the list's first is the result.
void decode_call(Decoder& d) {
  Op& op = d.op();
  std::vector<Slot> places = {0};
  bool past = false, known = false;
  for (const ptx::Operand& o : d.in().operands) {
    if (o.kind == ptx::Operand::Kind::symbol) {
      past = true;
      known = o.name == "vprintf" || o.name == "__assertfail";
      op.run = o.name == "vprintf" ? print : assertion;
    } else if (o.kind == ptx::Operand::Kind::list) {
      for (const ptx::Operand& e : o.elements) {
        const Decoder::Place* p = d.place(e.name);
        if (!p) d.unknown("parameter of a call");
        if (past)
          places.push_back(u32(p->offset));
        else
          places[0] = u32(p->offset);
      }
    }
  }
  if (!known || places.size() < 3) d.unknown("call");
  op.e = d.list(places);
}

}  // namespace

std::vector<OpcodeEntry> call_opcodes() { return {{"call", decode_call}}; }

}  // namespace emu
