#!/usr/bin/env python3
"""Writes tests/reference/images/*.txt: what torchvision makes of a small image.

    pip install torchvision    # into an environment with PyTorch
    python tools/generators/make_image_reference.py [FOLDER]

They are checked in, so no test needs Python. The format is that of tests/reference/reader.h, in f32:
floats in [0, 1], as after v2.ToDtype(torch.float32, scale=True). `x` is the image [3, H, W], the
other arrays are what the operation of that name makes of it. tests/kernels/image/image_warp_test.cpp
and image_color_test.cpp have the parameters too.
"""

import pathlib
import sys

import usage

usage.answer(__doc__)

import torch  # noqa: E402
import torchvision  # noqa: E402
from torchvision.transforms import InterpolationMode, v2  # noqa: E402
from torchvision.transforms.v2 import functional as F  # noqa: E402

FOLDER = pathlib.Path(
    sys.argv[1]
    if len(sys.argv) > 1
    else pathlib.Path(__file__).resolve().parents[2] / "tests" / "reference" / "images"
)
NEAREST, BILINEAR = InterpolationMode.NEAREST, InterpolationMode.BILINEAR


def image(height, width):
    """Multiples of 1 / 256 in [0, 1): a hash of the index."""
    n = 3 * height * width
    values = [((i + 1) * 2654435761 % 2**32) >> 24 for i in range(n)]
    return torch.tensor(values, dtype=torch.float32).reshape(3, height, width) / 256


def write(case, arrays):
    lines = [
        f"# {case}: made by tools/generators/make_image_reference.py with torchvision "
        f"{torchvision.__version__}"
    ]
    for name, value in arrays.items():
        lines.append(f"{name} f32 {'x'.join(map(str, value.shape))}")
        values = ["%.9g" % v for v in value.reshape(-1).tolist()]
        lines += [" ".join(values[i : i + 8]) for i in range(0, len(values), 8)]
    (FOLDER / f"{case}.txt").write_text("\n".join(lines) + "\n")


def warps():
    x = image(7, 10)
    out = {"x": x}
    for name, mode in (("nearest", NEAREST), ("bilinear", BILINEAR)):
        # Between pixels and a fill torchvision weights what is seen of the image twice (img * mask of
        # an img that grid_sample has weighted already); without a fill it does not.
        fill = [0.25, 0.5, 0.75] if mode is NEAREST else None
        out[f"rotate_{name}"] = F.rotate(x, 33.0, interpolation=mode, fill=fill)
        out[f"affine_{name}"] = F.affine(
            x, angle=17.0, translate=[0, 0], scale=1.3, shear=[11.0, -6.0], interpolation=mode,
            fill=fill,
        )
        out[f"shrink_{name}"] = F.affine(
            x, angle=-140.0, translate=[0, 0], scale=0.6, shear=[0.0, 20.0], interpolation=mode,
            fill=fill,
        )
    augment = v2.RandAugment()
    for name in ("ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate"):
        magnitudes, signed = augment._AUGMENTATION_SPACE[name]
        level = float(magnitudes(31, 7, 10)[20])
        for sign, which in ((1, "more"), (-1, "less")):
            out[f"{name}_{which}"] = augment._apply_image_or_video_transform(
                x, name, sign * level, interpolation=BILINEAR, fill={"others": None}
            )
    write("warps", out)


def colors():
    x = image(6, 9)
    out = {"x": x, "grey_x": x[:1]}
    for name, f, values in (
        ("brightness", F.adjust_brightness, (0.4, 1.7)),
        ("contrast", F.adjust_contrast, (0.3, 2.1)),
        ("saturation", F.adjust_saturation, (0.2, 1.9)),
        ("hue", F.adjust_hue, (-0.45, -0.1, 0.2, 0.5)),
        ("posterize", F.posterize, (2, 4)),
        ("solarize", F.solarize, (0.3, 0.8)),
    ):
        for k, value in enumerate(values):
            out[f"{name}_{k}"] = f(x, value)
    out["grayscale_0"] = F.rgb_to_grayscale(x, num_output_channels=3)
    narrow = x * 0.5 + 0.2
    narrow[1] = 0.3  # a channel without a range
    out["narrow_x"] = narrow
    out["autocontrast_0"] = F.autocontrast(narrow)
    out["grey_contrast"] = F.adjust_contrast(x[:1], 2.1)
    chain = F.adjust_hue(F.adjust_contrast(F.adjust_brightness(x, 1.2), 0.7), 0.15)
    out["chain"] = F.adjust_saturation(chain, 1.4)
    write("colors", out)


FOLDER.mkdir(parents=True, exist_ok=True)
warps()
colors()
