#include "warptape/data/mixes.h"

#include "warptape/core/factories.h"
#include "warptape/core/str.h"
#include "warptape/data/launch_parts.h"

namespace wt::data {
namespace {

constexpr OpInfo kMixUpInfo{.name = "MixUp", .derivative = Derivative::none},
    kCutMixInfo{.name = "CutMix", .derivative = Derivative::none},
    kBothInfo{.name = "MixUpOrCutMix", .derivative = Derivative::none};

struct Mix {
  const OpInfo& info;
  MixRule rule;
  i64 classes;
  double smoothing;

  template <class E>
  [[noreturn]] void fail(const std::string& why) const {
    throw E(str("[", info.name, "] ", why));
  }

  void check(const Tensor& images, const Tensor& labels, const MixCall& call) const {
    if (const char* why = bad_mix_rule(rule)) fail<UsageError>(why);
    if (!(smoothing >= 0 && smoothing <= 1))
      fail<UsageError>(str("label_smoothing must be in [0, 1], got ", smoothing));
    if (classes < 1)
      fail<UsageError>(
          str("classes must be the number of classes, got ", classes, "\n  Try {.classes = 10}"));
    if (images.ndim() != 4)
      fail<ShapeError>(str("expected a batch of images [N, C, H, W], got ", describe(images)));
    if (images.dtype() != DType::f32 && !is_half(images.dtype()))
      fail<DtypeError>(str("images must be f32, f16 or bf16, got ", dtype_name(images.dtype()),
                           "\n  Try Compose{ToTensor{}} before it"));
    if (labels.dtype() != DType::i64)
      fail<DtypeError>(str("labels must be i64, got ", dtype_name(labels.dtype())));
    if (labels.ndim() != 1 || labels.size(0) != images.size(0))
      fail<ShapeError>(
          str("expected a label for each of ", images.size(0), " images, got ", describe(labels)));
    if (labels.device() != images.device())
      fail<PlacementError>(str("images on ", to_string(images.device()), ", labels on ",
                               to_string(labels.device())));
    if (!call.cursor.defined()) return;
    if (call.cursor.dtype() != DType::i64 || call.cursor.numel() != 2 ||
        !call.cursor.is_contiguous() || call.cursor.device() != images.device())
      fail<UsageError>(str("the cursor must be i64 [2] on ", to_string(images.device()), ", got ",
                           describe(call.cursor)));
  }

  Mixed operator()(const Tensor& given, const Tensor& labels, const MixCall& call) const {
    check(given, labels, call);
    const Device d = given.device();
    const ImageLayout layout = image_layout(view_of(given.impl()));
    const Tensor images = layout == ImageLayout::other ? given.contiguous() : given;
    const i64 n = images.size(0), c = images.size(1), h = images.size(2), w = images.size(3);
    const TensorOptions options{.dtype = images.dtype(), .device = d};
    Mixed out{layout == ImageLayout::channels_last
                  ? empty({n, h, w, c}, options).permute({0, 3, 1, 2})
                  : empty({n, c, h, w}, options),
              empty({n, classes}, {.dtype = DType::f32, .device = d})};
    if (d.is_meta) return out;
    ImageMixArgs a{};
    a.out = view_of(out.images.impl());
    a.images = view_of(images.impl());
    a.targets = view_of(out.targets.impl());
    a.labels = view_of(labels.impl());
    if (call.cursor.defined()) a.cursor = static_cast<const i64*>(call.cursor.impl()->data);
    a.rule = rule, a.smoothing = float(smoothing);
    a.seed = call.seed, a.epoch = call.epoch, a.batch = call.batch;
    MailboxRecord own{};
    a.mailbox = d == Device::cpu() ? &own : mailbox_of(d);
    a.op_id = mailbox_op_id(info);
    detail::uses({&images, &labels, &call.cursor});
    wt::run(a, detail::launch_on(info, d));
    if (own.raised)
      fail<IndexError>(str("label ", own.value, " of sample ", own.position, " is outside [0, ",
                           own.limit, ")"));
    return out;
  }
};

}  // namespace

Mixed MixUp::operator()(const Tensor& images, const Tensor& labels, const MixCall& call) const {
  const MixRule rule{.mixup_alpha = alpha, .p = float(p), .per_sample = per_sample};
  return Mix{kMixUpInfo, rule, classes, label_smoothing}(images, labels, call);
}

Mixed CutMix::operator()(const Tensor& images, const Tensor& labels, const MixCall& call) const {
  const MixRule rule{
      .cutmix_alpha = alpha, .p = float(p), .cut_share = 1, .per_sample = per_sample};
  return Mix{kCutMixInfo, rule, classes, label_smoothing}(images, labels, call);
}

Mixed MixUpOrCutMix::operator()(const Tensor& images, const Tensor& labels,
                                const MixCall& call) const {
  const MixRule rule{.mixup_alpha = mixup_alpha,
                     .cutmix_alpha = cutmix_alpha,
                     .p = float(p),
                     .cut_share = float(switch_p),
                     .per_sample = per_sample};
  return Mix{kBothInfo, rule, classes, label_smoothing}(images, labels, call);
}

}  // namespace wt::data
