// Whole models to files and back; weights of another architecture and PyTorch's own files are
// refused with what to do about it.
#include <algorithm>

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/safetensors.h"
#include "warptape/nn/checkpoint_file.h"
#include "warptape/nn/layers.h"
#include "warptape/optim/optimizer.h"
#include "warptape/tests/reference/reader.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/temp_dir.h"
#include "warptape/tests/support/values.h"

using namespace wt;

namespace {

struct Classifier : nn::Module<Classifier> {
  nn::Linear body = add("body", nn::Linear{2, 3});
  nn::BatchNorm1d norm = add("norm", nn::BatchNorm1d{3});
  nn::Linear head;
  explicit Classifier(i64 classes = 4) : head(add("head", nn::Linear{3, classes})) {}
  Tensor forward(Tensor x) { return head(norm(body(std::move(x)))); }
};
struct Tied : nn::Module<Tied> {
  nn::Linear one = add("one", nn::Linear{2, 2});
  nn::Linear two = add("two", nn::Linear{2, 2, {.bias = false}});
  Tied() { two.weight = one.weight; }
  Tensor forward(Tensor x) { return two(one(std::move(x))); }
};
struct Same : nn::Module<Same> {  // as Tied by names and shapes, not by what it does
  nn::Linear one = add("one", nn::Linear{2, 2});
  nn::Linear two = add("two", nn::Linear{2, 2, {.bias = false}});
  Tensor forward(Tensor x) { return one(two(std::move(x))); }
};
template <class M>
struct Wrapper : nn::Module<Wrapper<M>> {
  M inner = this->add("inner", M{2, 2});
};

std::vector<Values> all_of(const nn::ModuleBase& m) {
  std::vector<Values> v;
  for (const auto& t : m.state_dict()) v.push_back(values(t.tensor));
  return v;
}
std::string architecture_in(const std::string& path) {
  for (const auto& [key, value] : nn::load_tensors(path).metadata)
    if (key == "architecture") return value;
  return "none";
}
std::string weights(const std::string& name) {
  return reference::reference_file("weights/" + name);
}

}  // namespace

TEST_CASE("load_model: a saved model comes back, made anew or into one that is there",
          "[load_model][checkpoint]") {
  const LeakGuard guard;
  const TempDir dir;
  const std::string file = dir / "net.safetensors";
  const Classifier net{5};
  nn::save_model(net, file, {{"note", "of a test"}});
  const auto again = nn::load_model<Classifier>(file, 5);
  CHECK(all_of(again) == all_of(net));
  const Classifier other{5};
  CHECK(all_of(other) != all_of(net));
  CHECK(nn::load_model(other, file).complete());
  CHECK(all_of(other) == all_of(net));
  CHECK(nn::load_tensors(file).metadata ==
        nn::Metadata{{"format", "pt"}, {"architecture", "Classifier"}, {"note", "of a test"}});
  CHECK_THROWS_AS(nn::save_model(net, file, {{"architecture", "x"}}), UsageError);
}

TEST_CASE("load_model: the type's name is the class's, or what the module calls itself",
          "[load_model]") {
  const TempDir dir;
  const std::string file = dir / "m.safetensors";
  nn::save_model(nn::Sequential{nn::Linear{2, 2}}, file);
  CHECK(architecture_in(file) == "Sequential");
  nn::save_model(Wrapper<nn::Linear>{}, file);
  CHECK(architecture_in(file) == "Wrapper<wt::nn::Linear>");
  struct Local : nn::Module<Local> {
    nn::Linear a = add("a", nn::Linear{2, 2});
  };
  nn::save_model(Local{}, file);
  CHECK(architecture_in(file) == "Local");
}

TEST_CASE("load_model: weights of another architecture load nothing", "[load_model][checkpoint]") {
  const LeakGuard guard;
  const TempDir dir;
  const std::string file = dir / "net.safetensors";
  nn::save_model(Classifier{10}, file);
  const Tied tied;
  const std::vector<Values> before = all_of(tied);
  std::string text = message_of([&] { nn::load_model(tied, file); });
  CHECK(mentions(text, "UsageError: [load_model] " + file +
                           " holds weights of another architecture: of Classifier, this module is "
                           "Tied\n  Try {.strict = false}"));
  CHECK(all_of(tied) == before);
  // The same names and shapes, but the file says that they are of another type.
  nn::save_model(Same{}, file);
  CHECK(mentions(message_of([&] { nn::load_model(tied, file); }), "of Same, this module is Tied"));
  CHECK(all_of(tied) == before);
  // Of the type, but other sizes; and a file that does not say.
  nn::save_model(Classifier{10}, file);
  text = message_of([&] { nn::load_model<Classifier>(file); });
  CHECK(mentions(text,
                 "holds weights of another architecture: of a Classifier with "
                 "other names or shapes\n  head.weight is [4, 3] here and [10, 3] in the state"));
  nn::save_tensors(file, {{"x", ones({2})}});
  text = message_of([&] { nn::load_model(tied, file); });
  CHECK(
      mentions(text, file + " holds weights of another architecture\n  missing one.weight [2, 2]"));
  CHECK(mentions(text, "unexpected x"));
  CHECK(all_of(tied) == before);
}

TEST_CASE("load_model {.strict = false}: what fits, of any architecture", "[load_model]") {
  const LeakGuard guard;
  const TempDir dir;
  const std::string file = dir / "net.safetensors";
  const Classifier old{10}, net{4};
  nn::save_model(old, file);
  const Values head = values(net.head.weight);
  const nn::LoadStateResult rest = nn::load_model(net, file, {.strict = false});
  CHECK(rest.misshapen.size() == 2);
  CHECK(rest.missing.empty());
  CHECK(values(net.body.weight) == values(old.body.weight));
  CHECK(values(net.head.weight) == head);
  const Tied tied;
  CHECK(nn::load_model(tied, file, {.strict = false}).unexpected.size() == old.state_dict().size());
}

TEST_CASE("load_model: the weights of a run's checkpoint, and their average", "[load_model]") {
  const LeakGuard guard;
  const TempDir dir;
  const std::string file = dir / "step.safetensors";
  Tied net;
  optim::AdamW opt{net, {.lr = 0.1}};
  opt.track_ema(0.9);
  for (int i = 0; i < 3; ++i) {
    opt.zero_grad();
    sum(square(net(ones({2, 2})))).backward();
    opt.step();
  }
  std::vector<nn::NamedTensor> state = nn::add_prefix(net.state_dict(), "model.");
  for (auto& t : opt.state()) state.push_back(t);
  const bool in_state = std::any_of(state.begin(), state.end(),
                                    [](const auto& t) { return t.name.starts_with("ema."); });
  REQUIRE(in_state);
  const nn::Metadata metadata{{"format", "warptape.checkpoint.1"}};
  nn::save_tensors(file, state, metadata);
  CHECK(all_of(nn::load_model<Tied>(file)) == all_of(net));
  const Tied averaged;
  CHECK(nn::load_model(averaged, file, {.ema = true}).complete());
  CHECK(values(averaged.one.weight) == values(opt.ema()[0].tensor));
  CHECK(values(averaged.two.weight) == values(averaged.one.weight));  // under each of its names
  CHECK(values(averaged.one.weight) != values(net.one.weight));

  std::erase_if(state, [](const auto& t) { return t.name.starts_with("ema."); });
  nn::save_tensors(file, state, metadata);
  CHECK(mentions(message_of([&] { nn::load_model(averaged, file, {.ema = true}); }),
                 file + " has no averaged weights\n  Try {.ema = false}"));
  nn::save_model(net, file);
  CHECK_THROWS_AS(nn::load_model(averaged, file, {.ema = true}), UsageError);
}

namespace {

struct Reversed : nn::Module<Reversed> {  // the second name is the first in alphabetical order
  nn::Linear z = add("z", nn::Linear{2, 2, {.bias = false}});
  nn::Linear b = add("b", nn::Linear{2, 2, {.bias = false}});
  nn::Linear c = add("c", nn::Linear{2, 2, {.bias = false}});
  Reversed() { z.weight = c.weight, b.weight = c.weight; }
};

std::vector<std::string> names_in(const SafetensorsFile& file) {
  std::vector<std::string> names;
  for (const TensorEntry& e : file.entries()) names.push_back(e.name);
  return names;
}

}  // namespace

TEST_CASE("tied weights are saved once, in the way of safetensors' save_model", "[load_model]") {
  const TempDir dir;
  const std::string file = dir / "tied.safetensors";
  const Tied net;
  nn::save_model(net, file, {{"note", "x"}});
  const auto saved = SafetensorsFile::open(file);
  CHECK(names_in(saved) == std::vector<std::string>{"one.bias", "one.weight"});
  CHECK(*saved.find_metadata("two.weight") == "one.weight");
  CHECK(*saved.find_metadata("note") == "x");
  CHECK(all_of(nn::load_model<Tied>(file)) == all_of(net));
  // As much memory as the model has is enough.
  CHECK(nn::load_model(Tied{}, file, {.limits = {.max_bytes = 24}}).complete());

  const Reversed three;
  nn::save_model(three, file, {{"c.weight", "the caller's own"}});
  const auto reversed = SafetensorsFile::open(file);
  CHECK(names_in(reversed) == std::vector<std::string>{"b.weight"});
  CHECK(*reversed.find_metadata("z.weight") == "b.weight");
  CHECK(*reversed.find_metadata("c.weight") == "the caller's own");
  CHECK(all_of(nn::load_model<Reversed>(file)) == all_of(three));

  // A module that does not tie them has the values under both names.
  nn::save_tensors(file, {{"one.weight", net.one.weight}, {"one.bias", net.one.bias}},
                   {{"two.weight", "one.weight"}, {"other", "one.weight"}, {"a", "b"}});
  const Same untied;
  CHECK(nn::load_model(untied, file).complete());
  CHECK(all_of(untied) == all_of(net));
  nn::save_tensors(file, {{"one.weight", net.one.weight}, {"one.bias", net.one.bias}},
                   {{"two.weight", "nothing"}});
  CHECK(mentions(message_of([&] { nn::load_model(untied, file); }), "missing two.weight"));

  // A state as such keeps every name.
  nn::save_tensors(file, net.state_dict());
  CHECK(names_in(SafetensorsFile::open(file)).size() == 3);
  CHECK(all_of(nn::load_model<Tied>(file)) == all_of(net));
}

TEST_CASE("PyTorch's own files are refused by their content, with what to do", "[load_model]") {
  const TempDir dir;
  Tied net;
  const std::vector<Values> before = all_of(net);
  for (const char* name : {"tiny.pt", "tiny_legacy.pt"}) {
    CAPTURE(name);
    const std::string content = slurp(weights(name));
    REQUIRE(content.size() > 300);
    for (const char* as : {"a.pt", "b.safetensors", "pytorch_model.bin"}) {  // names do not count
      const std::string file = dir / as;
      spit(file, content);
      const std::string text = message_of([&] { nn::load_tensors(file); });
      CHECK(mentions(text, "DataError: " + file + ": at byte 0: this is a PyTorch file ("));
      CHECK(mentions(text,
                     "pickles are never read, for they can run code\n  Try "
                     "tools/convert_pt.py " +
                         file));
      CHECK(message_of([&] { nn::load_model(net, file); }) == text);
      CHECK(message_of([&] { (void)SafetensorsFile::open(file); }) == text);
    }
    // Cut anywhere it is no safetensors file either; from two bytes on it is known.
    for (size_t n = 0; n < content.size(); n += 7) {
      spit(dir / "cut.bin", content.substr(0, n));
      CHECK_THROWS_AS(nn::load_tensors(dir / "cut.bin"), DataError);
    }
  }
  CHECK(all_of(net) == before);
}

TEST_CASE("Files of other programs are called by what they are", "[load_model]") {
  const TempDir dir;
  const auto text_of = [&](const char* name, const std::string& content) {
    spit(dir / name, content);
    return message_of([&] { nn::load_tensors(dir / name); });
  };
  CHECK(mentions(text_of("a", "PK\3\4 and x.npy in it"), "this is an npz archive"));
  CHECK(mentions(text_of("a", "PK\3\4 and nothing that is known"), "this is a zip archive"));
  CHECK(mentions(text_of("a", "GGUF\3 and more"), "this is a GGUF file"));
  CHECK(mentions(text_of("a", "\x89HDF\r\n and more"), "this is an HDF5 file"));
  CHECK(mentions(text_of("a", "\x93NUMPY\1 and more"), "Try data::read_npy"));
  CHECK(mentions(text_of("a", "version https://git-lfs.github.com/spec/v1\n"), "Try git lfs pull"));
  CHECK(mentions(text_of("a", "\x80\4\x95 any other pickle"), "or another pickle"));
  // Known by nothing but its name, and not known at all.
  CHECK(mentions(text_of("a.pth", "something else"), "Try tools/convert_pt.py"));
  CHECK(mentions(text_of("a.pt", ""), "Try tools/convert_pt.py"));
  CHECK_FALSE(text_of("a", "something else").find("Try") != std::string::npos);
  // A safetensors file is one under any name.
  nn::save_model(Tied{}, dir / "model.pt");
  CHECK_NOTHROW(nn::load_model<Tied>(dir / "model.pt"));
}
