// The parser of PTX: what nvcc and inline assembly write, and what it refuses.
#include <cstring>
#include <stdexcept>

#include "../support/catch.h"
#include "ptx/syntax.h"

using namespace emu;
using namespace emu::ptx;

namespace {

using Kind = Operand::Kind;

const std::string kHead = ".version 9.0\n.target sm_90a\n.address_size 64\n";  // three lines

std::unique_ptr<Module> module_of(const std::string& text) { return parse_module(kHead + text); }

// A kernel with the body given, parsed. Keeps the module, whose text the opcodes point into.
struct Body {
  explicit Body(const std::string& body, const std::string& before = "")
      : module(
            module_of(before + ".visible .entry k(.param .u64 k_param_0)\n{\n" + body + "\n}\n")) {
    Function* found = module->find("k");
    REQUIRE(found != nullptr);
    parse_body(*module, *found);
    f = found;
  }
  const Instruction& operator[](size_t i) const { return f->code.at(i); }
  const std::string& register_of(const Operand& o) const { return f->registers.at(o.index).name; }

  std::unique_ptr<Module> module;
  const Function* f = nullptr;
};

// Registers that most bodies here use.
const std::string kRegs =
    ".reg .pred %p<4>; .reg .b16 %rs<5>; .reg .b32 %r<20>; .reg .f32 %f<9>; .reg .b64 %rd<9>;\n";

std::string joined(const Instruction& in) {
  std::string s;
  for (const auto part : in.opcode) s += (s.empty() ? "" : ".") + std::string(part);
  return s;
}

std::string error_of(const std::string& text) {
  try {
    const auto m = parse_module(text);
    for (const auto& f : m->functions) {
      if (!f->is_declaration) parse_body(*m, *f);
    }
  } catch (const std::runtime_error& e) {
    return e.what();
  }
  return "no error";
}

std::string body_error(const std::string& body) {
  return error_of(kHead + ".entry k()\n{\n" + body + "\n}\n");  // the body begins in line 6
}

u64 word_at(const Variable& v, size_t at) {
  u64 x = 0;
  std::memcpy(&x, v.initial.data() + at, 8);
  return x;
}

}  // namespace

TEST_CASE("ptx types have names and sizes", "[ptx]") {
  Type t = Type::none;
  CHECK((parse_type("u32", &t) && t == Type::u32));
  CHECK((parse_type("bf16x2", &t) && t == Type::bf16x2));
  CHECK((parse_type("pred", &t) && t == Type::pred));
  CHECK(!parse_type("v2", &t));
  CHECK(!parse_type("", &t));
  CHECK(type_bytes(Type::none) == 0);
  CHECK(type_bytes(Type::pred) == 0);
  CHECK(type_bytes(Type::s8) == 1);
  CHECK(type_bytes(Type::bf16) == 2);
  CHECK(type_bytes(Type::f16x2) == 4);
  CHECK(type_bytes(Type::f64) == 8);
  CHECK(type_bytes(Type::b128) == 16);
}

TEST_CASE("ptx module: header, files and sections", "[ptx]") {
  const auto m = parse_module(
      "\n\n// a comment\n.version 8.7 /* of\nthe compiler */\n.target sm_80, debug\n"
      ".address_size 64\n.file 2 \"b.cu\", 1234, 99\n\t.file\t1 \"a.cu\"\n"
      ".section .debug_str\n{\n$L__info_string0:\n.b8 95,90,0\n}\n.global .u32 after;\n");
  CHECK(m->version_major == 8);
  CHECK(m->version_minor == 7);
  CHECK(m->target == "sm_80");
  CHECK(m->address_bits == 64);
  REQUIRE(m->files.size() == 3);
  CHECK(m->files[1] == "a.cu");
  CHECK(m->files[2] == "b.cu");
  REQUIRE(m->variables.size() == 1);
  CHECK(m->variables[0].name == "after");
}

TEST_CASE("ptx module: a zero byte ends the text, even within a section", "[ptx]") {
  const std::string text = kHead + ".global .u32 x;\n.section .debug_str\n{\n.b8 1" +
                           std::string(1, '\0') + "}\nnonsense";
  const auto m = parse_module(text);
  CHECK(m->variables.size() == 1);
  CHECK(m->text.find("nonsense") == std::string::npos);
}

TEST_CASE("ptx variables: spaces, sizes and alignment", "[ptx]") {
  const auto m = module_of(
      ".visible .global .align 16 .b8 a[12];\n.const .f64 b[2][3];\n.shared .v4 .f32 c;\n"
      ".extern .shared .align 128 .b8 d[];\n.weak .global .s16 e, f[4];\n"
      ".common .global .u64 g;\n.global .attribute(.managed) .align 4 .u32 h;\n");
  const auto& v = m->variables;
  REQUIRE(v.size() == 8);
  CHECK((v[0].space == Space::global && v[0].align == 16 && v[0].bytes == 12));
  CHECK((v[1].space == Space::constant && v[1].align == 8 && v[1].bytes == 48));
  CHECK((v[2].space == Space::shared && v[2].align == 16 && v[2].bytes == 16));
  CHECK((v[3].is_extern && v[3].bytes == 0 && v[3].align == 128));
  CHECK((v[4].name == "e" && v[4].bytes == 2 && v[4].align == 2));
  CHECK((v[5].name == "f" && v[5].bytes == 8 && v[5].space == Space::global));
  CHECK((v[6].bytes == 8 && !v[6].is_extern));
  CHECK((v[7].bytes == 4 && v[7].align == 4));
  for (const Variable& each : v) CHECK(each.initial.empty());
}

TEST_CASE("ptx variables: initial values", "[ptx]") {
  const auto m = module_of(
      ".global .align 4 .u32 a[4] = {1, 0x10, -1};\n.const .f32 b[2] = {0f3F800000, 2.5};\n"
      ".global .f64 c = 0d4000000000000000;\n.global .b8 d[] = {104, 105, 0};\n"
      ".global .u16 e[2][2] = {{1}, {3, 4}};\n.global .s64 f = -2;\n.global .b8 g[4] = \"hi\";\n"
      ".global .f32 h = 3;\n.global .u8 i = 0x1FF;\n");
  const auto& v = m->variables;
  REQUIRE(v.size() == 9);
  CHECK(v[0].initial ==
        std::vector<emu::u8>{1, 0, 0, 0, 16, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 0});
  CHECK(v[1].initial == std::vector<emu::u8>{0, 0, 0x80, 0x3F, 0, 0, 0x20, 0x40});
  CHECK(word_at(v[2], 0) == 0x4000000000000000);
  CHECK((v[3].bytes == 3 && v[3].initial == std::vector<emu::u8>{104, 105, 0}));
  CHECK(v[4].initial == std::vector<emu::u8>{1, 0, 0, 0, 3, 0, 4, 0});
  CHECK(word_at(v[5], 0) == ~emu::u64(1));
  CHECK(v[6].initial == std::vector<emu::u8>{'h', 'i', 0, 0});
  CHECK(v[7].initial == std::vector<emu::u8>{0, 0, 0x40, 0x40});
  CHECK(v[8].initial == std::vector<emu::u8>{255});
}

TEST_CASE("ptx variables: addresses as initial values", "[ptx]") {
  const auto m = module_of(
      ".global .u32 x[4];\n.global .u64 p[3] = {x, generic(x)+4, x-8};\n"
      ".global .align 8 .b8 q[9] = {7, 0xFF(x+2), 0xFF00(x+2), 0xFF0000(x+2), 0xFF000000(x+2), "
      "0xFF00000000(x+2), 0xFF0000000000(x+2), 0xFF000000000000(x+2), 0xFF00000000000000(x+2)};\n");
  const Variable& p = m->variables.at(1);
  REQUIRE(p.addresses.size() == 3);
  CHECK((p.addresses[0].at == 0 && p.addresses[0].symbol == "x" && !p.addresses[0].generic));
  CHECK((p.addresses[1].at == 8 && p.addresses[1].offset == 4 && p.addresses[1].generic));
  CHECK((p.addresses[2].at == 16 && p.addresses[2].offset == -8));
  CHECK(p.initial.size() == 24);
  const Variable& q = m->variables.at(2);
  REQUIRE(q.addresses.size() == 1);
  CHECK((q.addresses[0].at == 1 && q.addresses[0].offset == 2 && q.initial[0] == 7));
}

TEST_CASE("ptx functions: parameters, limits, declarations", "[ptx]") {
  const auto m = module_of(
      ".extern .func (.param .b32 func_retval0) vprintf\n(\n.param .b64 a,\n.param .b64 b\n)\n;\n"
      ".extern .func trap_here (.param .b32 why) .noreturn;\n"
      ".func (.param .align 8 .b8 r[16]) twice(.param .f64 x);\n"
      ".visible .entry k(\n.param .u64 .ptr .global .align 16 k_0,\n"
      ".param .align 8 .b8 k_1[88],\n.param .u8 k_2\n)\n.maxntid 16, 4\n.minnctapersm 2\n"
      ".maxnreg 64\n.explicitcluster\n.reqnctapercluster 2, 1, 1\n{\nret;\n}\n"
      ".entry bare .reqntid 32\n{\n}\n"
      ".func (.param .align 8 .b8 r[16]) twice(.param .f64 x)\n{\nret;\n}\n");
  REQUIRE(m->functions.size() == 5);
  const Function& print = *m->find("vprintf");
  CHECK((print.is_declaration && !print.is_entry));
  CHECK((print.params.size() == 2 && print.returns.size() == 1 && print.returns[0].bytes == 4));
  CHECK(m->find("trap_here")->is_declaration);
  const Function& k = *m->find("k");
  CHECK((k.is_entry && !k.is_declaration && !k.has_body));
  REQUIRE(k.params.size() == 3);
  CHECK((k.params[0].bytes == 8 && k.params[0].align == 8 && k.params[0].space == Space::param));
  CHECK((k.params[1].bytes == 88 && k.params[1].align == 8));
  CHECK((k.params[2].bytes == 1 && k.params[2].name == "k_2"));
  CHECK((k.max_threads[0] == 16 && k.max_threads[1] == 4 && k.max_threads[2] == 1));
  CHECK((!k.threads_required && k.min_blocks == 2 && k.cluster[0] == 2));
  CHECK((m->find("bare")->threads_required && m->find("bare")->max_threads[0] == 32));
  CHECK(!m->find("twice")->is_declaration);  // the definition, in the declaration's place
  CHECK(m->find("nothing") == nullptr);
}

TEST_CASE("ptx body: opcodes, guards and registers", "[ptx]") {
  const Body b(
      kRegs +
      "@%p1 add.s32 %r1, %r2, %r3;\n@!%p2 ld.global.nc.L1::no_allocate.v2.f32 "
      "{%f1, %f2}, [%rd1];\nret;\nmbarrier.try_wait.parity.shared::cta.b64 %p1, [%rd1], %r1;");
  REQUIRE(b.f->code.size() == 4);
  CHECK(joined(b[0]) == "add.s32");
  REQUIRE(b[0].guard >= 0);
  CHECK((b.f->registers[size_t(b[0].guard)].name == "%p1" && !b[0].guard_negated));
  REQUIRE(b[0].operands.size() == 3);
  CHECK(b.register_of(b[0].operands[2]) == "%r3");
  CHECK(b.f->registers[b[0].operands[2].index].type == Type::b32);
  CHECK(b[1].guard_negated);
  CHECK(b[1].opcode[3] == "L1::no_allocate");
  CHECK(b[1].opcode.size() == 6);
  CHECK((b[2].guard == -1 && b[2].operands.empty()));
  CHECK(joined(b[3]) == "mbarrier.try_wait.parity.shared::cta.b64");
}

TEST_CASE("ptx body: immediates", "[ptx]") {
  const Body b(kRegs +
               "add.s32 %r1, %r2, -7;\nadd.u32 %r1, 7U, 0x1F;\nor.b32 %r1, 0b101, 017;\n"
               "add.f32 %f1, 0f3F800000, 0F80000000;\nmov.f64 %rd1, 0dBFF0000000000000;\n"
               "mov.u64 %rd1, 0xFFFFFFFFFFFFFFFF;\nmov.u32 %r1, WARP_SZ;\nmov.f32 %f1, -1.5;\n"
               "mov.u64 %rd1, -9223372036854775808;\nmov.u32 %r1, 0;");
  const auto is = [&](size_t i, size_t operand, Type t, emu::u64 bits) {
    const Operand& o = b[i].operands.at(operand);
    return o.kind == Kind::immediate && o.type == t && o.bits == bits;
  };
  CHECK(is(0, 2, Type::s64, ~emu::u64(6)));
  CHECK(is(1, 1, Type::u64, 7));
  CHECK(is(1, 2, Type::s64, 31));
  CHECK(is(2, 1, Type::s64, 5));
  CHECK(is(2, 2, Type::s64, 15));
  CHECK(is(3, 1, Type::f32, 0x3F800000));
  CHECK(is(3, 2, Type::f32, 0x80000000));
  CHECK(is(4, 1, Type::f64, 0xBFF0000000000000));
  CHECK(is(5, 1, Type::u64, ~emu::u64(0)));
  CHECK(is(6, 1, Type::s64, 32));
  CHECK(is(7, 1, Type::f64, 0xBFF8000000000000));
  CHECK(is(8, 1, Type::s64, emu::u64(1) << 63));
  CHECK(is(9, 1, Type::s64, 0));
}

TEST_CASE("ptx body: operands of every kind", "[ptx]") {
  const Body b(
      kRegs +
          "setp.lt.and.u32 %p1|%p2, %r1, %r2, !%p3;\nshfl.sync.down.b32 _|%p1, %r1, 1, 31, -1;\n"
          "st.global.u32 [%rd1+-4], %r1;\nst.global.u32 [%rd1 - 8], %r1;\n"
          "ld.global.u32 %r1, [table+8];\nld.global.u32 %r1, [4096];\nld.param.u64 %rd1, "
          "[k_param_0];\n"
          "mov.u64 %rd1, table+4;\nmov.u32 %r1, %tid.x;\nmov.u64 %rd1, %clock64;\nmov.u32 %r1, "
          "%envreg3;\n"
          "mov.b32 {%rs1, _}, %r1;\nfma.rn.f32 %f1, %f2, -%f3, %f4;\n"
          "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
          "[%r1], [%rd1, {%r2, 3}], [%r4];",
      ".global .u32 table[9];\n");
  const auto& setp = b[0].operands;
  CHECK(b.register_of(setp[0]) == "%p1");
  CHECK(b.f->registers[size_t(setp[0].second)].name == "%p2");
  CHECK((setp[3].negated && !setp[2].negated && setp[1].second == -1));
  CHECK((b[1].operands[0].kind == Kind::sink && b[1].operands[0].second >= 0));
  const Operand& minus = b[2].operands[0];
  CHECK((minus.kind == Kind::address && minus.has_base && minus.offset == -4));
  CHECK(b.register_of(minus) == "%rd1");
  CHECK(b[3].operands[0].offset == -8);
  const Operand& table = b[4].operands[1];
  CHECK((!table.has_base && table.name == "table" && table.offset == 8));
  const Operand& fixed = b[5].operands[1];
  CHECK((!fixed.has_base && fixed.name.empty() && fixed.offset == 4096));
  CHECK(b[6].operands[1].name == "k_param_0");
  const Operand& symbol = b[7].operands[1];
  CHECK((symbol.kind == Kind::symbol && symbol.name == "table" && symbol.offset == 4));
  CHECK((b[8].operands[1].kind == Kind::special && b[8].operands[1].name == "%tid.x"));
  CHECK((b[9].operands[1].kind == Kind::special && b[9].operands[1].name == "%clock64"));
  CHECK(b[10].operands[1].name == "%envreg3");
  const Operand& halves = b[11].operands[0];
  CHECK((halves.kind == Kind::vector && halves.elements.size() == 2));
  CHECK(halves.elements[1].kind == Kind::sink);
  CHECK(b[12].operands[2].negated);
  const Operand& tensor = b[13].operands[1];
  REQUIRE((tensor.kind == Kind::list && tensor.elements.size() == 2));
  CHECK((tensor.elements[0].kind == Kind::address && tensor.elements[0].has_base));
  CHECK((tensor.elements[1].kind == Kind::vector && tensor.elements[1].elements[1].bits == 3));
}

TEST_CASE("ptx body: labels are instructions, before and after their use", "[ptx]") {
  const Body b(kRegs +
               "bra $L_end;\n$L_loop:\n.loc 1 2 3\nadd.s32 %r1, %r1, 1;\n@%p1 bra $L_loop;\n"
               "bra.uni %odd;\n%odd: ret;\n$L_end:");
  REQUIRE(b.f->code.size() == 5);
  CHECK((b[0].operands[0].kind == Kind::label && b[0].operands[0].index == 5));  // past the last
  CHECK(b[2].operands[0].index == 1);
  CHECK(b[3].operands[0].index == 4);
}

TEST_CASE("ptx body: branch tables", "[ptx]") {
  const Body before(kRegs +
                    "$ts: .branchtargets\n$A,\n$B, $A;\nbrx.idx %r1, $ts;\n$A: ret;\n$B: ret;");
  const Body after(kRegs +
                   "brx.idx.uni %r1, $ts;\n$A: ret;\n$B: ret;\n$ts: .branchtargets $A, $B, $A;");
  for (const Body* b : {&before, &after}) {
    const Operand& table = (*b)[0].operands.at(1);
    REQUIRE((table.kind == Kind::list && table.elements.size() == 3));
    CHECK((table.elements[0].kind == Kind::label && table.elements[0].index == 1));
    CHECK(table.elements[1].index == 2);
    CHECK(table.elements[2].index == 1);
  }
}

TEST_CASE("ptx body: scopes have registers, labels and variables of their own", "[ptx]") {
  const Body b(
      kRegs +
      "{\n.reg .pred %p<2>;\n.reg .b32 t;\nmov.u32 t, %r1;\n@%p1 bra L;\nL: ret;\n}\n"
      "{ .reg .f64 t; mov.f64 t, 0d0000000000000000; L: bra $out; }\n@%p1 bra $out;\n$out: ret;");
  CHECK((b[0].operands[0].index != b[3].operands[0].index));
  CHECK(b.f->registers[b[0].operands[0].index].type == Type::b32);
  CHECK(b.f->registers[b[3].operands[0].index].type == Type::f64);
  CHECK(b[1].guard != b[5].guard);
  CHECK(b[1].operands[0].index == 2);
  CHECK(b[4].operands[0].index == 6);  // to a label of the scope around
}

TEST_CASE("ptx body: calls and their parameters", "[ptx]") {
  const std::string callee =
      ".func (.param .b32 r) f(.param .b32 a)\n{\nret;\n}\n.extern .func g;\n";
  const std::string call =
      "{ // callseq 0, 0\n.param .b32 param0;\nst.param.b32 [param0+0], %r1;\n"
      ".param .b32 retval0;\ncall.uni (retval0),\nf,\n(\nparam0\n);\n"
      "ld.param.b32 %r2, [retval0+0];\n} // callseq 0\n";
  const Body b(kRegs + call + call + "call g;", callee);
  REQUIRE(b.f->code.size() == 7);
  const auto& o = b[1].operands;
  REQUIRE(o.size() == 3);
  CHECK((o[0].kind == Kind::list && o[0].elements.at(0).name == "retval0"));
  CHECK((o[1].kind == Kind::symbol && o[1].name == "f"));
  CHECK((o[2].kind == Kind::list && o[2].elements.at(0).kind == Kind::symbol));
  REQUIRE(b.f->variables.size() == 4);
  CHECK(b.f->variables[0].space == Space::param);
  CHECK(b.f->variables[0].name == "param0");
  CHECK(b.f->variables[2].name != "param0");  // the second call's, which has memory of its own
  CHECK(b[4].operands[2].elements.at(0).name == b.f->variables[2].name);
  CHECK(b[3].operands[0].name == b.f->variables[2].name);
  CHECK(b[6].operands.at(0).name == "g");
}

TEST_CASE("ptx body: calls through pointers", "[ptx]") {
  const Body b(kRegs +
               "{ .param .b64 p; .param .b32 q;\n"
               "proto : .callprototype (.param .b32 _) _ (.param .b64 _) .noreturn;\n"
               "call (q), %rd1, (p), proto; }\nlist: .calltargets k, k;\n");
  const auto& o = b[0].operands;
  REQUIRE(o.size() == 4);
  CHECK(o[1].kind == Kind::reg);
  CHECK((o[3].kind == Kind::symbol && o[3].name == "proto"));
}

TEST_CASE("ptx body: a variable that hides the module's gets a name of its own", "[ptx]") {
  const Body b(kRegs + ".local .align 8 .b8 table[16];\nld.local.u32 %r1, [table+4];",
               ".global .u32 table;\n");
  REQUIRE(b.f->variables.size() == 1);
  CHECK(b.f->variables[0].name != "table");
  CHECK(b[0].operands[1].name == b.f->variables[0].name);
  CHECK((b.f->variables[0].bytes == 16 && b.f->variables[0].space == Space::local));
}

TEST_CASE("ptx body: source lines", "[ptx]") {
  const Body b(
      ".reg .b32 %r<9>;\n.loc 1 73 0\nmov.u32 %r1, 0;\n\n"
      ".loc\t2 20 53, function_name $L__info_string0, inlined_at 1 75 3\nmov.u32 %r2, 0;\n"
      ".loc 3 8 1, function_name $L__info_string0+12, inlined_at 2 20 53\n"
      "{ mov.u32 %r3,\n0; }\n.pragma \"nounroll\";\nret;");
  // Three lines of the head, two of the entry.
  CHECK((b[0].at.file == 1 && b[0].at.line == 73 && b[0].at.outer_line == 0));
  CHECK(b[0].ptx_line == 8);
  CHECK((b[1].at.file == 2 && b[1].at.line == 20));
  CHECK((b[1].at.outer_file == 1 && b[1].at.outer_line == 75));
  CHECK(b[1].ptx_line == 11);
  CHECK((b[2].at.file == 3 && b[2].at.outer_file == 2 && b[2].ptx_line == 13));
  CHECK((b[3].at.line == 8 && b[3].ptx_line == 16));
}

TEST_CASE("ptx body: is read once, and again after an error", "[ptx]") {
  const auto m = module_of(".entry k()\n{\n.reg .b32 %r<2>;\nret;\n}\n.entry bad()\n{\nret\n}\n");
  Function& k = *m->find("k");
  parse_body(*m, k);
  parse_body(*m, k);
  CHECK((k.code.size() == 1 && k.registers.size() == 2 && k.has_body));
  Function& bad = *m->find("bad");
  for (int i = 0; i < 2; ++i) CHECK_THROWS_AS(parse_body(*m, bad), std::runtime_error);
  CHECK((!bad.has_body && bad.code.size() <= 1));
}

TEST_CASE("ptx body: register names whose prefix ends in digits", "[ptx]") {
  const Body b(".reg .b16 %h16<3>;\n.reg .b32 %h<12>;\nmov.b16 %h162, %h161;\nmov.u32 %h11, %h0;");
  CHECK(b.register_of(b[0].operands[0]) == "%h162");
  CHECK(b.f->registers[b[0].operands[0].index].type == Type::b16);
  CHECK(b.register_of(b[1].operands[0]) == "%h11");
}

TEST_CASE("ptx errors name the line and what is wrong", "[ptx]") {
  CHECK(error_of("") == "PTX line 1: no .version: this is not PTX");
  CHECK(error_of("hello") == "PTX line 1: expected a directive, got 'hello'");
  CHECK(error_of(".version 9.0\n.address_size 32\n") ==
        "PTX line 2: only 64-bit addresses are known");
  CHECK(error_of(kHead + ".wonder 3;") == "PTX line 4: unknown directive .wonder");
  CHECK(error_of(kHead + ".global .u32 x\n.global .u32 y;") ==
        "PTX line 5: expected ';', got '.global'");
  CHECK(error_of(kHead + ".global .u32 x[1] = {1, 2};") ==
        "PTX line 4: too many initial values: x");
  CHECK(error_of(kHead + ".global .u32 x = y;") ==
        "PTX line 4: an address in a variable of less than 64 bits");
  CHECK(error_of(kHead + ".global .pred x;") == "PTX line 4: a variable of type .pred");
  CHECK(error_of(kHead + ".global .align 3 .u32 x;") ==
        "PTX line 4: an alignment that is no power of two");
  CHECK(error_of(kHead + ".global .b8 x[99999999][999999];") ==
        "PTX line 4: a variable too large: x");
  CHECK(error_of(kHead + ".global .u32 x = 09;") == "PTX line 4: not a number: 09");
  CHECK(error_of(kHead + "/* open") == "PTX line 4: a comment without its end");
  CHECK(error_of(kHead + ".entry k()\n{\nret;\n") == "PTX line 5: a { without its }");
  CHECK(error_of(kHead + ".entry k()\n.surprise\n{\n}\n") ==
        "PTX line 5: unknown directive .surprise of k");
  CHECK(error_of(kHead + ".entry k() { }\n.entry k() { }\n") == "PTX line 5: k is defined twice");
  CHECK(error_of(kHead + ".func f(.reg .b32 x);") == "PTX line 4: a parameter in .reg");
}

TEST_CASE("ptx errors within a body", "[ptx]") {
  CHECK(body_error("\nmov.u32 %r1, 0;") == "PTX line 7: %r1 is not declared");
  CHECK(body_error(".reg .b32 %r<3>;\nmov.u32 %r3, 0;") == "PTX line 7: %r3 is not declared");
  CHECK(body_error("ret;\n\nbra nowhere;\nret;") == "PTX line 8: nowhere is not declared");
  CHECK(body_error("call f;") == "PTX line 6: f is not declared");
  CHECK(body_error("L: ret;\nL: ret;") == "PTX line 7: label L stands twice");
  CHECK(body_error("{ L: ret; }\nbra L;") == "PTX line 7: L is not declared");
  CHECK(body_error(".reg .b32 a;\n.reg .b32 a;") == "PTX line 7: a is declared twice");
  CHECK(body_error(".reg .b32 a;\n@a ret;") == "PTX line 7: the guard a is no predicate");
  CHECK(body_error("ret") == "PTX line 7: expected a name, got '}'");
  CHECK(body_error(".reg .b32 a;\nmov.u32 a, 1 2;") == "PTX line 7: expected ',' or ';', got '2'");
  CHECK(body_error(".reg .b32 a;\nmov.u32 a, {b};") == "PTX line 7: b is not declared");
  CHECK(body_error(".reg .b32 a;\nld.global.u32 a, [b];") == "PTX line 7: b is not declared");
  CHECK(body_error(".reg .b32 a;\nld.global.u32 a, [a+0f00000000];") ==
        "PTX line 7: expected an integer, got a float");
  CHECK(body_error(".reg .v2 .b32 a;") == "PTX line 6: registers of type .v2");
  CHECK(body_error(".reg .b32 %r<99999999>;") == "PTX line 6: too many registers: 99999999");
  CHECK(body_error(".magic;") == "PTX line 6: unknown directive .magic");
  const auto m = module_of(".extern .func f;\n");
  CHECK_THROWS_AS(parse_body(*m, *m->find("f")), std::runtime_error);
}
