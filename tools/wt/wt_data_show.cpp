// wt data show: pictures of a data set side by side, as they are and as a network sees them.
#include <cstdio>
#include <memory>

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/core/error.h"
#include "warptape/core/files/atomic_file.h"
#include "warptape/core/input_file.h"
#include "warptape/data/image.h"
#include "warptape/tools/wt/data/contact_sheet.h"
#include "warptape/tools/wt/data/transform_text.h"
#include "warptape/tools/wt/wt.h"

namespace wt::tools {
namespace {

struct ShowOptions {
  std::string path, out = "sheet.html", augment;
  i64 count = 48, side = 96, epoch = 0;
  u64 seed = 0;
  bool first = false;
  std::string classes = "fashion";
};

std::vector<SheetCell> cells_of(const PictureSet& set, const ShowOptions& o) {
  const NoGrad no_grad;
  const data::Compose compose(transforms_of(o.augment));
  std::vector<SheetCell> cells;
  for (const Picture& p : set.pictures) {
    cells.push_back({p.label, {p.pixels}});
    if (o.augment.empty()) continue;
    const Tensor made =
        compose(p.pixels, {.samples = {&p.sample, 1}, .epoch = o.epoch, .seed = o.seed});
    cells.back().pixels.push_back(clamp(round(made), 0, 255).to(DType::u8));
  }
  return cells;
}

int show(const ShowOptions& o) {
  const bool page = o.out.ends_with(".html");
  if (!page && !o.out.ends_with(".png"))
    throw UsageError(str("--out ", printable_path(o.out), ": a name that ends in .html or .png"));
  (void)transforms_of(o.augment);  // before anything is read
  const PictureSet set = read_pictures(
      o.path,
      {.count = o.count, .shuffle = !o.first, .seed = o.seed, .digits = o.classes == "digits"});
  const std::vector<SheetCell> cells = cells_of(set, o);
  for (const std::string& why : set.refused) std::fprintf(stderr, "left out: %s\n", why.c_str());
  std::string drawn = str(cells.size(), " of ", set.what);
  if (!o.first) drawn += str(", seed ", o.seed);
  if (page) {
    std::vector<std::string> notes{drawn};
    if (!o.augment.empty())
      notes.push_back(str("left as it is, right after ",
                          data::Compose(transforms_of(o.augment)).text(), " in epoch ", o.epoch));
    if (!set.refused.empty()) notes.push_back(str(set.refused.size(), " files could not be read"));
    write_file_atomically(o.out, contact_page(o.path, notes, cells, o.side));
  } else {
    data::write_png(o.out, contact_sheet(cells, o.side));
  }
  std::printf("%s: %s\n", o.out.c_str(), drawn.c_str());
  return 0;
}

}  // namespace

void add_data_show(Command data, int& code) {
  const Command c = data.add_subcommand("show", "pictures side by side, as a page or a PNG");
  auto o = std::make_shared<ShowOptions>();
  c.add_option("path", o->path,
               "a folder of Fashion-MNIST, MNIST, CIFAR-10 or image files, or one file: IDX, "
               "CIFAR-10, .npy, PNG, JPEG, WebP, PPM")
      .required();
  c.add_option("--out", o->out, "the page (.html) or picture (.png)").show_default();
  c.add_option("--count", o->count, "pictures").check(at_least(1)).show_default();
  c.add_option("--side", o->side, "pixels of a picture on the sheet, at most")
      .check(from_to(8, 1024))
      .show_default();
  c.add_flag("--first", o->first, "the first ones, instead of some by --seed");
  c.add_option("--seed", o->seed, "which ones, and what is drawn for them")
      .check(a_seed())
      .show_default();
  c.add_option("--classes", o->classes, "digits: the files with Fashion-MNIST's names are MNIST's")
      .check(one_of({"fashion", "digits"}))
      .show_default();
  c.add_option("--augment", o->augment,
               "also show what becomes of them, \"RandomCrop(32, 4), RandomHorizontalFlip\"");
  c.add_option("--epoch", o->epoch, "of the augmentation's draws")
      .check(at_least(0))
      .show_default();
  c.callback([o, &code] { code = show(*o); });
}

}  // namespace wt::tools
