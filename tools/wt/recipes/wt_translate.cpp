// wt translate RUN [FILE...]: lines in another language.
#include <unistd.h>

#include <cstdio>
#include <iostream>

#include "warptape/core/files/json.h"
#include "warptape/core/input_file.h"
#include "warptape/nn/bleu.h"
#include "warptape/tools/wt/model_options.h"
#include "warptape/tools/wt/recipes/recipe_device.h"
#include "warptape/tools/wt/recipes/translator.h"
#include "warptape/tools/wt/std_output.h"
#include "warptape/tools/wt/wt.h"

namespace wt::tools {
namespace {

struct LinesOptions : ModelOptions {
  std::vector<std::string> files, references;
  TranslateOptions translate{.beam = 4};
  std::string penalty = "wu";
};

// Of the files one after the other, else of stdin.
std::vector<std::string> lines_of(const std::vector<std::string>& files) {
  std::vector<std::string> lines;
  for (const std::string& f : files)
    for (std::string& line : data::read_lines(f)) lines.push_back(std::move(line));
  if (!files.empty()) return lines;
  for (std::string line; std::getline(std::cin, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (!is_utf8(line)) throw DataError(str("stdin: line ", lines.size() + 1, " is not UTF-8"));
    lines.push_back(std::move(line));
  }
  return lines;
}

std::vector<std::vector<std::string>> references_of(const LinesOptions& o, size_t lines) {
  std::vector<std::vector<std::string>> sets;
  std::string wrong;
  for (const std::string& f : o.references) {
    sets.push_back(data::read_lines(f));
    if (sets.back().size() != lines)
      wrong += str(wrong.empty() ? "" : ", ", printable_path(f), " has ", sets.back().size());
  }
  if (!wrong.empty())
    throw DataError(str("there are ", lines, " lines to translate, and of references ", wrong));
  return sets;
}

void print(const LinesOptions& o, const std::vector<std::string>& lines,
           const std::vector<Translation>& made) {
  const bool terminal = ::isatty(STDOUT_FILENO) != 0;  // of a stranger's model
  for (size_t i = 0; i < lines.size(); ++i) {
    if (!o.json) {
      const std::string text = terminal ? printable_lines(made[i].text) : made[i].text;
      std::printf("%s\n", text.c_str());
      continue;
    }
    JsonObject j;
    j.add("line", i64(i + 1)).add("source", lines[i]).add("translation", made[i].text);
    o.translate.beam > 1 ? j.add("score", made[i].score) : j.add_null("score");
    j.add("cut", made[i].cut);
    std::printf("%s\n", j.str().c_str());
  }
  flush_stdout();
}

void say_cut(const std::vector<Translation>& made) {
  size_t cut = 0, first = 0;
  for (size_t i = made.size(); i-- > 0;)
    if (made[i].cut > 0) ++cut, first = i;
  if (cut > 0)
    std::fprintf(
        stderr,
        "%zu of %zu lines are longer than those of the training and were cut; the first is "
        "line %zu, by %lld tokens\n",
        cut, made.size(), first + 1, static_cast<long long>(made[first].cut));
}

int run(LinesOptions o) {
  const TrainedModel t = load_model(o);
  if (!t.recipe->translates())
    throw UsageError(str(printable_path(t.path), " is a model of ", t.name, ", and no translator"));
  o.translate.penalty =
      o.penalty == "wu" ? models::LengthPenalty::wu : models::LengthPenalty::power;
  const std::vector<std::string> lines = lines_of(o.files);
  const auto references = references_of(o, lines.size());
  const std::vector<Translation> made = t.recipe->translator()->translate(lines, o.translate);
  print(o, lines, made);
  say_cut(made);
  if (references.empty() || lines.empty()) return 0;
  std::vector<std::string> texts;
  for (const Translation& m : made) texts.push_back(m.text);
  std::fprintf(stderr, "%s\n", metrics::bleu(texts, references).text().c_str());
  return 0;
}

}  // namespace

void add_translate(Command app, int& code) {
  const Command c =
      app.add_subcommand("translate", "translate lines with a trained model (translate)");
  auto o = std::make_shared<LinesOptions>();
  add_model_options(c, *o, "one JSON object a line");
  c.add_option("files", o->files, "UTF-8 lines, plain, .gz or .xz; default: stdin");
  c.add_option("--beam", o->translate.beam, "sentences followed at a time; 1: greedy")
      .check(from_to(1, 1000))
      .show_default();
  c.add_option("--length-penalty", o->translate.length_penalty,
               "alpha of a beam's scores; 0: short sentences win")
      .check(not_negative())
      .show_default();
  c.add_option("--penalty", o->penalty, "wu: ((5 + tokens) / 6)^alpha; power: tokens^alpha")
      .check(one_of({"wu", "power"}))
      .show_default();
  c.add_option("--max-length", o->translate.max_length,
               "tokens of a translation; default: as many as in training")
      .check(at_least(1));
  c.add_option("--batch", o->translate.batch, "lines at a time").check(at_least(1)).show_default();
  c.add_option("--references", o->references,
               "a file of the same number of lines: BLEU is printed to stderr; may be repeated")
      .one_value_each_time();
  c.callback([o, &code] {
    take_cheap_kernels_on_simt();
    code = run(*o);
  });
}

}  // namespace wt::tools
