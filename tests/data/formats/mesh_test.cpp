// Meshes: what is read, where what is not stands, points on their surface.
#include "warptape/data/mesh.h"

#include <cmath>
#include <cstring>

#include "warptape/core/factories.h"
#include "warptape/tests/fuzz/readers.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/mutate.h"
#include "warptape/tests/support/temp_dir.h"
#include "warptape/tests/support/test_data.h"

using namespace wt;
using namespace wt::data;
using Floats = std::vector<float>;
using Ids = std::vector<i64>;

namespace {

Mesh parse(const std::string& name, const std::string& content) {
  const TempDir dir;
  spit(dir / name, content);
  return read_mesh(dir / name);
}
std::string refusal(const std::string& name, const std::string& content) {
  const std::string m = message_of([&] { parse(name, content); });
  const size_t at = m.find(name + ": ");
  return at == m.npos ? m : m.substr(at + name.size() + 2);
}
Floats points(const Mesh& m) { return m.vertices.to_vector<float>(); }
Ids faces(const Mesh& m) { return m.faces.to_vector<i64>(); }

template <class T>
std::string raw(T v, bool big) {
  std::string s(sizeof v, '\0');
  std::memcpy(s.data(), &v, sizeof v);
  return big ? std::string(s.rbegin(), s.rend()) : s;
}

const std::string kSquare = "0 0 0\n1 0 0\n1 1 0\n0 1 0\n";
const std::string kPlyHeader =
    " 1.0\ncomment a square\nelement vertex 4\nproperty float x\nproperty double y\n"
    "property uchar red\nproperty float z\nelement edge 1\nproperty list uchar short ends\n"
    "property int id\nelement face 1\nproperty list uchar int vertex_indices\nend_header\n";
const std::string kPlyText = "ply\nformat ascii" + kPlyHeader +
                             "0 0 9 0\n1 0 9 0\n1 1 9 0\n0 1 9 0\n3 -1 2 3 7\n4 0 1 2 3\n";

std::string ply_binary(bool big) {
  std::string s =
      std::string("ply\nformat binary_") + (big ? "big" : "little") + "_endian" + kPlyHeader;
  for (const auto& [x, y] : {std::pair{0, 0}, {1, 0}, {1, 1}, {0, 1}})
    s += raw(float(x), big) + raw(double(y), big) + '\x09' + raw(0.0f, big);
  s += '\x03' + raw(i16(-1), big) + raw(i16(2), big) + raw(i16(3), big) + raw(i32(7), big);
  s += '\x04';
  for (const i32 i : {0, 1, 2, 3}) s += raw(i, big);
  return s;
}
const Floats kSquarePoints{0, 0, 0, 1, 0, 0, 1, 1, 0, 0, 1, 0};
const Ids kFan{0, 1, 2, 0, 2, 3};

}  // namespace

TEST_CASE("mesh: OBJ in its forms") {
  const std::string v = "v 0 0 0\nv 1 0 0 1\nv 1 1 0 0.1 0.2 0.3\nv\t0 1 0 # the last\n";
  const std::string vt = "vt 0 0\nvt 1\nvn 0 0 1\n";
  for (const std::string f :
       {"f 1 2 3 4", "f -4 -3 -2 -1", "f 1/1 2/2 3/1 4/-1", "f 1//1 2//1 3//1 4//-1",
        "f 1/1/1 2/2/1 3/1/1 4/2/1", "f 1/ 2/ 3/ 4/", "f 1// 2// 3// 4//", "f 1/1/ 2/2/ 3/1/ 4/2/",
        "vp 0.5\nvp 0.5 0.25\nvp 0 0 1\nlod 3\nf 1 2 3 4"}) {
    const Mesh m = parse(
        "m.obj", "\xef\xbb\xbf# x\nmtllib a\no b\n" + v + vt + "g\ns off\nusemtl c\n" + f + "\r\n");
    CAPTURE(f);
    CHECK(points(m) == kSquarePoints);
    CHECK(faces(m) == kFan);
    CHECK(m.degenerate == 0);
  }
  const Mesh flat = parse("m.obj", v + "f 1 2 2\nf 1 2 3\nv 2 0 0\nf 1 2 5\n");
  CHECK(flat.degenerate == 2);
  CHECK(flat.faces.shape() == Shape{3, 3});
  CHECK(parse("m.obj", "").vertices.shape() == Shape{0, 3});
  CHECK(parse("m.obj", v).faces.shape() == Shape{0, 3});
  CHECK(refusal("m.obj", "v 1 2\n") == "at byte 0: line 1: 2 numbers, expected 3 to 7");
  CHECK(refusal("m.obj", "\nv 1 2 x\n") == "at byte 1: line 2: value 'x' is not a number");
  CHECK(mentions(refusal("m.obj", "v 1 2 1e39\n"), "is not finite in f32"));
  CHECK(mentions(refusal("m.obj", "v 1 2 nan\n"), "is not finite in f32"));
  CHECK(mentions(refusal("m.obj", "v 1 2 1e999\n"), "is beyond its type"));
  CHECK(mentions(refusal("m.obj", v + "f 1 2\n"), "line 5: a face of 2 vertices, 3 are needed"));
  CHECK(mentions(refusal("m.obj", v + "f 1 2 5\n"), "vertex 5 of a face, there are 4 before it"));
  CHECK(mentions(refusal("m.obj", v + "f 1 2 0\n"), "vertex 0 of a face"));
  CHECK(mentions(refusal("m.obj", v + "f 1 2 -5\n"), "vertex -5 of a face"));
  CHECK(mentions(refusal("m.obj", v + vt + "f 1/3 2/1 3/1\n"),
                 "texture vertex 3 of a face, there are 2"));
  CHECK(
      mentions(refusal("m.obj", v + vt + "f 1//2 2//1 3//1\n"), "normal 2 of a face, there are 1"));
  CHECK(mentions(refusal("m.obj", v + vt + "f 1/1/1/1 2 3\n"), "normal '1/1' is not a number"));
  CHECK(mentions(refusal("m.obj", v + "f 1 2 \\\n3\n"), "line 5: a line that goes on"));
  CHECK(mentions(refusal("m.obj", v + "f 1 2 /3\n"), "vertex '' is not a number"));
  CHECK(mentions(refusal("m.obj", "vp 1 2 3 4\n"), "4 numbers, expected 1 to 3"));
  CHECK(mentions(refusal("m.obj", "curv 1\n"), "'curv' is not read"));
  CHECK(refusal("m.obj", "\xef\xbb\xbfv 1 2\n") == "at byte 3: line 1: 2 numbers, expected 3 to 7");
  CHECK(points(parse("m.obj", "v 1e-400 -1e-400 -2.5e-4000\n")) == Floats{0, -0.f, -0.f});
}

TEST_CASE("mesh: OFF and XYZ") {
  for (const std::string head :
       {"OFF\n4 1 0\n", "OFF 4 1\n", "# a\nOFF # b\n\n4 1 4 # c\n", "OFF4 1 0\n", "OFF4 1\n",
        "\xef\xbb\xbfOFF\n4 1 0\n", "COFF\n4 1 0\n", "STCNOFF4 1 0\n"}) {
    const Mesh m = parse("m.off", head + kSquare + "4 0 1 2 3 0.5 0.5 0.5\n\n# end\n");
    CHECK(points(m) == kSquarePoints);
    CHECK(faces(m) == kFan);
  }
  // Colours (whole or parts), normals, texture coordinates behind the coordinates.
  for (const std::string head : {"COFF", "NOFF", "STOFF", "CNOFF", "NCOFF", "STCNOFF", "OFF"})
    for (const std::string more :
         {" 255 0 0 255", " 0 0 1", " 0.5 0.25", " 0 0 1 0.1 0.2 0.3 1 0 1"}) {
      std::string text;
      for (const char* p : {"0 0 0", "1 0 0", "1 1 0", "0 1 0"}) text += p + more + "\n";
      const Mesh m = parse("m.off", head + "\n4 1 0\n" + text + "4 0 1 2 3 9\n");
      CHECK(points(m) == kSquarePoints);
      CHECK(faces(m) == kFan);
    }
  CHECK(mentions(refusal("m.off", "COFF\n1 0 0\n0 0 0 red\n"), "value 'red' is not a number"));
  CHECK(mentions(refusal("m.off", "COFF\n1 0 0\n0 0\n"), "2 numbers, a vertex has 3"));
  CHECK(mentions(refusal("m.off", "4OFF\n"), "only vertices of three coordinates are read"));
  CHECK(mentions(refusal("m.off", "CnOFF\n5\n"), "only vertices of three coordinates are read"));
  CHECK(mentions(refusal("m.off", "OFF BINARY\n"), "binary OFF is not read"));
  for (const char* head : {"off", "OFFICE", "XOFF", "OFF-1"})
    CHECK(mentions(refusal("m.off", head + std::string(" 1 0\n")),
                   "OFF is read, also with ST, C and N"));
  CHECK(mentions(refusal("m.off", "OFF\n4\n"), "1 numbers, expected 2 to 3"));
  CHECK(
      mentions(refusal("m.off", "OFF\n5 0 0\n" + kSquare), "the file ends before the last vertex"));
  CHECK(mentions(refusal("m.off", "OFF\n4 1 0\n" + kSquare + "3 0 1\n"),
                 "line 7: a face of 3 vertices has 2 numbers"));
  CHECK(mentions(refusal("m.off", "OFF\n4 1 0\n" + kSquare + "3 0 1 4\n"),
                 "line 7: vertex 4 of a face is outside [0, 4)"));
  CHECK(mentions(refusal("m.off", "OFF\n4 0 0\n" + kSquare + "1\n"), "text after the last face"));
  CHECK(mentions(refusal("m.off", "OFF\n99999999999999999 0 0\n"), "ends before the last vertex"));
  CHECK(points(parse("m.xyz", "# a\n" + kSquare)) == kSquarePoints);
  CHECK(points(parse("m.xyz", "1 2 3 0 0 1\n\n4 5 6 0 1 0")) == Floats{1, 2, 3, 4, 5, 6});
  CHECK(mentions(refusal("m.xyz", "1 2 3\n1 2 3 4\n"), "line 2: 4 numbers, the first point has 3"));
  CHECK(mentions(refusal("m.xyz", "1 2\n"), "2 numbers, a point has 3"));
  CHECK(mentions(message_of([&] { parse("m.stl", ""); }), "ends in neither .obj"));
}

TEST_CASE("mesh: PLY in text and both byte orders, other elements and properties skipped") {
  for (const std::string& text : {kPlyText, ply_binary(false), ply_binary(true)}) {
    const Mesh m = parse("m.ply", text);
    CHECK(points(m) == kSquarePoints);
    CHECK(faces(m) == kFan);
    for (size_t n = 0; n < text.size() - 1; ++n) {
      const std::string said = refusal("m.ply", text.substr(0, n));
      CAPTURE(n, said);
      CHECK(said.starts_with("at byte "));
    }
    CHECK(mentions(refusal("m.ply", text + "1"), "behind the last element"));
    for (size_t bit = 0; bit < text.find("end_header") * 8; ++bit) {
      std::string bad = text;
      bad[bit / 8] ^= char(1 << bit % 8);
      (void)wt_test::takes_ply(bad);  // refused with its place or read as something else
    }
  }
  CHECK(
      mentions(refusal("m.ply", ply_binary(true).substr(0, ply_binary(true).find("header\n") + 6)),
               "the file ends before its last element"));  // not even the line's end is there
  const auto edited = [](const std::string& from, const std::string& to) {
    std::string text = kPlyText;
    return refusal("m.ply", text.replace(text.find(from), from.size(), to));
  };
  CHECK(mentions(edited("1.0", "2.0"), "line 2: only version 1.0 is read"));
  CHECK(mentions(edited("ascii", "binary"), "'binary' is no format of version 1.0"));
  CHECK(mentions(edited("format ascii 1.0\n", ""), "the header has no format"));
  CHECK(mentions(edited("float x", "real x"), "'real' is no type"));
  CHECK(mentions(edited("list uchar int", "list float int"), "length of a list must be a whole"));
  CHECK(mentions(edited("float z", "float w"), "element 'vertex' has no property 'z'"));
  CHECK(mentions(edited("float z", "float x"), "line 8: a property is there twice"));
  CHECK(mentions(edited("vertex_indices", "corners"), "has no list vertex_indices"));
  CHECK(mentions(edited("element edge 1\n", "element none 9999999999999\nelement edge 1\n"),
                 "element 'none' has no properties"));
  CHECK(
      mentions(edited("4 0 1 2 3", "4 0 1 2 4"), "line 20: vertex 4 of a face is outside [0, 4)"));
  CHECK(mentions(edited("4 0 1 2 3", "5 0 1 2 3"), "more than the 5 numbers of this line"));
  CHECK(mentions(edited("4 0 1 2 3", "3 0 1 2 3"), "line 20: 5 numbers, expected 4"));
  CHECK(mentions(edited("3 -1 2 3 7", "-1 7"), "line 19: a list of -1 numbers"));
  CHECK(mentions(edited("vertex 4", "vertex 4000000000000"), "line 19: 5 numbers, expected 4"));
}

TEST_CASE("mesh: PLY's strips of triangles, elements without rows, line ends behind binary data") {
  const std::string vertices =
      "element vertex 6\nproperty float x\nproperty float y\nproperty float z\n";
  const auto header = [&](const char* format, const std::string& more) {
    return std::string("ply\nformat ") + format + " 1.0\n" + vertices + more + "end_header\n";
  };
  const std::string strips = "element tristrips 1\nproperty list int int vertex_indices\n",
                    text = "0 0 0\n1 0 0\n0 1 0\n1 1 0\n0 2 0\n1 2 0\n";
  const auto of_strip = [&](const std::string& row) {
    return faces(parse("m.ply", header("ascii", strips) + text + row + "\n"));
  };
  CHECK(of_strip("4 0 1 2 3") == Ids{0, 1, 2, 2, 1, 3});
  CHECK(of_strip("6 0 1 2 3 4 5") == Ids{0, 1, 2, 2, 1, 3, 2, 3, 4, 4, 3, 5});
  // -1 begins a new one, also at the end; a vertex that is named twice joins two.
  CHECK(of_strip("8 0 1 2 -1 3 2 5 -1") == Ids{0, 1, 2, 3, 2, 5});
  CHECK(of_strip("8 0 1 2 2 3 3 4 5") == Ids{0, 1, 2, 4, 3, 5});
  CHECK(of_strip("0").empty());
  // All have their normal along z.
  const Mesh m = parse("m.ply", header("ascii", strips) + text + "6 0 1 2 3 4 5\n");
  const SurfacePoints p = sample_surface(m, 50);
  for (i64 i = 0; i < 50; ++i) CHECK(p.normals.data<float>()[3 * i + 2] == 1);
  const auto refused = [&](const std::string& row) {
    return refusal("m.ply", header("ascii", strips) + text + row + "\n");
  };
  CHECK(mentions(refused("5 0 1 2 -1 3"), "line 16: a strip of 1 vertices, 3 are needed"));
  CHECK(mentions(refused("3 0 1 6"), "vertex 6 of a face is outside [0, 6)"));
  CHECK(mentions(refused("3 0 0 -2"), "vertex -2 of a face is outside [0, 6)"));
  CHECK(mentions(
      refusal("m.ply",
              header("ascii", "element tristrips 1\nproperty int vertex_indices\n") + text + "1\n"),
      "element 'tristrips' has no list vertex_indices"));
  for (const bool big : {false, true}) {
    std::string binary = header(big ? "binary_big_endian" : "binary_little_endian", strips);
    for (const float x : {0, 0, 0, 1, 0, 0, 0, 1, 0, 1, 1, 0, 0, 2, 0, 1, 2, 0})
      binary += raw(x, big);
    for (const i32 i : {4, 0, 1, 2, 3}) binary += raw(i, big);
    for (const char* end : {"", "\n", "\r\n"})
      CHECK(faces(parse("m.ply", binary + end)) == Ids{0, 1, 2, 2, 1, 3});
    CHECK(mentions(refusal("m.ply", binary + "\n "), "2 bytes behind the last element"));
  }
  // A cloud of points of a program that always names faces.
  const Mesh cloud = parse("m.ply", header("ascii", "element face 0\n") + text);
  CHECK(cloud.vertices.shape() == Shape{6, 3});
  CHECK(cloud.faces.shape() == Shape{0, 3});
  CHECK(mentions(refusal("m.ply", header("ascii", "element face 1\n") + text),
                 "element 'face' has no properties"));
  CHECK(parse("m.ply", "ply\nformat ascii 1.0\nelement vertex 0\nend_header\n").vertices.shape() ==
        Shape{0, 3});
}

TEST_CASE("mesh: the seven real ones") {
  struct Known {
    const char* name;
    i64 vertices, faces;
  };
  const Known known[] = {
      {"cow", 2903, 5804},   {"fandisk", 6475, 12946},         {"rocker-arm", 10044, 20088},
      {"spot", 2930, 5856},  {"stanford-bunny", 35947, 69451}, {"suzanne", 507, 968},
      {"teapot", 3644, 6320}};
  if (test_data("meshes").empty()) SKIP_TEST("no meshes in WT_TEST_DATA or shared/data");
  for (const Known& k : known) {
    const Mesh m = read_mesh(test_data("meshes") + "/" + k.name + ".obj");
    CAPTURE(k.name);
    CHECK(m.vertices.shape() == Shape{k.vertices, 3});
    CHECK(m.faces.shape() == Shape{k.faces, 3});
    const SurfacePoints s = sample_surface(m, 2000, 7);
    const Floats p = s.points.to_vector<float>(), n = s.normals.to_vector<float>();
    const Floats v = points(m);
    const Ids f = faces(m), at = s.faces.to_vector<i64>();
    double scale = 0;
    for (const float x : v) scale = std::max(scale, double(std::abs(x)));
    for (size_t i = 0; i < at.size(); ++i) {
      double length = 0, off = 0;  // from the face's plane
      for (size_t c = 0; c < 3; ++c) {
        length += double(n[3 * i + c]) * n[3 * i + c];
        off += n[3 * i + c] * double(p[3 * i + c] - v[size_t(3 * f[size_t(3 * at[i])]) + c]);
      }
      REQUIRE(std::abs(length - 1) < 1e-5);
      REQUIRE(std::abs(off) < 1e-5 * scale);
    }
    const Floats ball = to_unit_sphere(s.points).to_vector<float>();
    double farthest = 0;
    for (size_t i = 0; i < ball.size(); i += 3)
      farthest = std::max(farthest, double(std::hypot(ball[i], ball[i + 1], ball[i + 2])));
    CHECK(std::abs(farthest - 1) < 1e-6);
  }
}

TEST_CASE("mesh: points are uniform over the area, and the same for a seed") {
  // Areas 1, 3 and 0; the normals look up and to -y.
  const Mesh m = parse("m.obj", "v 0 0 0\nv 2 0 0\nv 0 1 0\nv 0 0 3\nf 1 2 3\nf 1 2 4\nf 1 1 2\n");
  CHECK(m.degenerate == 1);
  const i64 n = 40'000;
  const SurfacePoints s = sample_surface(m, n, 11);
  const Floats p = s.points.to_vector<float>(), normal = s.normals.to_vector<float>();
  i64 first = 0, halves[2] = {};
  double x = 0, y = 0;
  for (i64 i = 0; i < n; ++i) {
    const float* at = p.data() + 3 * i;
    if (at[2] == 0 && normal[size_t(3 * i + 2)] == 1) {
      ++first;
      x += at[0];
      y += at[1];
      REQUIRE((at[0] >= 0 && at[1] >= 0 && at[0] / 2 + at[1] <= 1 + 1e-6f));
      ++halves[at[0] / 2 < at[1]];  // two halves of one area
    } else {
      REQUIRE(normal[size_t(3 * i + 1)] == -1);
    }
  }
  // Five deviations: of a binomial with p = 1/4, and of means of 10,000 points.
  CHECK(std::abs(double(first) - n / 4.0) < 5 * std::sqrt(n * 0.25 * 0.75));
  CHECK(std::abs(x / double(first) - 2.0 / 3) < 5 * 2 * std::sqrt(1.0 / 18 / double(first)));
  CHECK(std::abs(y / double(first) - 1.0 / 3) < 5 * std::sqrt(1.0 / 18 / double(first)));
  CHECK(std::abs(double(halves[0] - halves[1])) < 5 * std::sqrt(double(first)));
  const Floats fewer = sample_surface(m, 100, 11).points.to_vector<float>();
  CHECK(fewer == Floats(p.begin(), p.begin() + 300));
  CHECK(fewer != sample_surface(m, 100, 12).points.to_vector<float>());
  CHECK(sample_surface(m, 0).points.shape() == Shape{0, 3});
  CHECK_THROWS_AS(sample_surface(m, -1), UsageError);
  CHECK_THROWS_AS(sample_surface(parse("m.xyz", kSquare), 1), UsageError);
}

TEST_CASE("mesh: the unit cube and the unit sphere") {
  const Mesh m = parse("m.xyz", "1 2 3\n3 2 4\n2 2.5 3\n");
  CHECK(to_unit_cube(m.vertices).to_vector<float>() ==
        Floats{-0.5f, -0.125f, -0.25f, 0.5f, -0.125f, 0.25f, 0, 0.125f, -0.25f});
  CHECK(to_unit_sphere(parse("m.xyz", "4 0 0\n8 0 0\n").vertices).to_vector<float>() ==
        Floats{-1, 0, 0, 1, 0, 0});
  const Tensor same = parse("m.xyz", "1 2 3\n1 2 3\n").vertices;
  CHECK(to_unit_cube(same).to_vector<float>() == Floats(6, 0));
  CHECK(to_unit_sphere(same).to_vector<float>() == Floats(6, 0));
  CHECK(to_unit_cube(m.vertices.narrow(0, 0, 0)).shape() == Shape{0, 3});
  CHECK(to_unit_sphere(m.vertices.narrow(0, 0, 0)).shape() == Shape{0, 3});
  CHECK_THROWS_AS(to_unit_cube(m.faces), DtypeError);
  CHECK_THROWS_AS(to_unit_cube(m.vertices.view({9})), ShapeError);
}

TEST_CASE("mesh: points on the surface of what is no mesh are refused") {
  const Tensor square = tensor({{0.f, 0.f, 0.f}, {1.f, 0.f, 0.f}, {1.f, 1.f, 0.f}}),
               faces = tensor(std::vector<i64>{0, 1, 2}).view({1, 3});
  CHECK(sample_surface({square, faces}, 3).points.shape() == Shape{3, 3});
  const auto refused = [](const Mesh& m) {
    return message_of([&] { (void)sample_surface(m, 3); });
  };
  CHECK(mentions(refused({square, tensor(std::vector<i64>{0, 1, 3}).view({1, 3})}),
                 "vertex 3 of face 0 is outside [0, 3)"));
  CHECK(mentions(refused({square.to(DType::f64), faces}), "vertices f32 [V, 3]"));
  CHECK(mentions(refused({square, faces.view({3, 1})}), "faces i64 [F, 3]"));
  CHECK(mentions(refused({}), "needs vertices"));
}

TEST_CASE("mesh: whatever is done to a file, it is read or refused with its place") {
  FuzzPlan plan(1'500, 47);
  const std::string obj = "v 0 0 0\nv 1 0 0\nv 1 1 0\nvt 0 0\nvn 0 0 1\nf 1/1/1 2/1/1 -1//1\n";
  const std::string off = "OFF\n4 1 0\n" + kSquare + "4 0 1 2 3\n";
  const std::vector<std::string_view> words{"-",   "/", "\n", " ",  "1e39",
                                            "nan", "#", "v ", "f ", "999999999999"};
  const std::vector<std::string_view> ply_words{
      "\n", "list ", "uchar", "element face 1\n", "4000000000", "\xff\xff", "double", "-1", " "};
  long long taken[4] = {};
  for (long long i = 0; i < plan.cases; ++i) {
    taken[0] += wt_test::takes_obj(mutated(obj, plan.random, words));
    taken[1] += wt_test::takes_off(mutated(off, plan.random, words));
    taken[2] += wt_test::takes_xyz(mutated(kSquare, plan.random, words));
    const std::string& ply = i % 3 == 0   ? kPlyText
                             : i % 3 == 1 ? ply_binary(true)
                                          : ply_binary(false);
    taken[3] += wt_test::takes_ply(mutated(ply, plan.random, ply_words));
  }
  for (const long long n : taken) {
    CHECK(n > 0);
    CHECK(n < plan.cases);
  }
  for (const std::string& text : {obj, off})
    for (size_t n = 0; n < text.size(); ++n) {
      (void)wt_test::takes_obj(text.substr(0, n));
      CHECK((n + 1 == text.size() ||
             !wt_test::takes_off(off.substr(0, std::min(n, off.size() - 2)))));
    }
}
