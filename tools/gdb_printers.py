"""Shows tensors, parameters, shapes and devices in gdb, values included.

    (gdb) print x
    $1 = tensor [2, 3] f32 cpu = {{1, 2, 3}, {4, 5, 6}}

Every program with the library in it carries this file (section .debug_gdb_scripts, core/print.cpp), so
gdb finds it by itself where it trusts the program:

    add-auto-load-safe-path /path/of/the/program       in ~/.config/gdb/gdbinit

`set print elements N` says how many values are read. Memory of a GPU is not read: x.to(Device::cpu()) has
its values.
"""

import struct

import gdb

# dtype: (bytes, struct format); bf16 and the 8-bit floats are decoded below.
FORMATS = {
    "f64": (8, "d"), "f32": (4, "f"), "f16": (2, "e"), "bf16": (2, "H"), "i64": (8, "q"), "i32": (4, "i"),
    "u8": (1, "B"), "boolean": (1, "?"), "i8": (1, "b"), "i16": (2, "h"), "u16": (2, "H"), "u32": (4, "I"),
    "u64": (8, "Q"), "f8_e4m3": (1, "B"), "f8_e5m2": (1, "B"),
}  # fmt: skip
DIGITS = {"f64": "%.16g", "f32": "%.7g", "f16": "%.4g", "bf16": "%.3g"}


def enumerator(value):
    """'f32' of wt::DType::f32."""
    return str(value).split("::")[-1]


def device_name(device):
    kind = enumerator(device["kind"])
    if device["is_meta"]:
        return "meta" if kind == "cpu" else "meta:" + kind
    return "%s:%d" % (kind, int(device["index"])) if kind == "cuda" else kind


def device_of_key(key):
    """The bits of a Device above the dtype in TensorImpl::key."""
    bits = int(key) >> 8
    kind = ("cpu", "simt", "cuda")[bits & 0xFF] if bits & 0xFF < 3 else "?"
    if bits >> 8 & 0xFF:
        return "meta" if kind == "cpu" else "meta:" + kind
    return "%s:%d" % (kind, bits >> 16 & 0xFF) if kind == "cuda" else kind


def text_of(dtype, raw):
    size, form = FORMATS[dtype]
    value = struct.unpack(form, raw)[0]
    if dtype == "bf16":
        value = struct.unpack("f", struct.pack("I", value << 16))[0]
    elif dtype == "f8_e5m2":
        value = struct.unpack("e", struct.pack("H", value << 8))[0]
    elif dtype == "f8_e4m3":
        return "0x%02x" % value
    if dtype == "boolean":
        return "true" if value else "false"
    return DIGITS[dtype] % value if dtype in DIGITS else "%s" % value


class Values:
    """The elements of a tensor as nested braces, up to a number of them."""

    def __init__(self, impl, dtype, limit):
        geometry = impl["geometry"]
        dims = int(geometry["ndim"])
        self.sizes = [int(geometry["shape"][d]) for d in range(dims)]
        self.strides = [int(geometry["strides"][d]) for d in range(dims)]
        self.base, self.dtype, self.left = int(impl["data"]), dtype, limit
        self.memory = gdb.selected_inferior()

    def text(self, axis=0, offset=0):
        if axis == len(self.sizes):
            self.left -= 1
            size = FORMATS[self.dtype][0]
            return text_of(self.dtype, bytes(self.memory.read_memory(self.base + offset * size, size)))
        parts = []
        for i in range(self.sizes[axis]):
            if self.left <= 0:
                parts.append("...")
                break
            parts.append(self.text(axis + 1, offset + i * self.strides[axis]))
        return "{" + ", ".join(parts) + "}"


def tensor_text(tensor):
    pointer = tensor["p_"]
    if not int(pointer):
        return "undefined tensor"
    impl = pointer.dereference()
    geometry = impl["geometry"]
    shape = [int(geometry["shape"][d]) for d in range(int(geometry["ndim"]))]
    dtype, device = enumerator(geometry["dtype"]), device_of_key(impl["key"])
    text = "tensor %s %s %s" % (shape, "bool" if dtype == "boolean" else dtype, device)
    if int(impl["node"]):
        text += " requires_grad"
    if device.startswith(("meta", "cuda")):
        return text
    try:
        return text + " = " + Values(impl, dtype, gdb.parameter("print elements") or 1 << 62).text()
    except gdb.MemoryError as error:
        return text + " (%s)" % error


class Text:
    """A printer of one line."""

    def __init__(self, value, make):
        self.value, self.make = value, make

    def to_string(self):
        return self.make(self.value)


def shape_text(shape):
    values = shape["list_"]["values"]
    return "[" + ", ".join(str(int(values[i])) for i in range(int(shape["list_"]["count"]))) + "]"


def param_text(param):
    pointer = param["slot_"]["_M_ptr"]
    if not int(pointer):
        return "no parameter"
    slot = pointer.dereference()
    return "%s: %s" % (slot["name"]["_M_dataplus"]["_M_p"].string(), tensor_text(slot["tensor"]))


PRINTERS = {
    "wt::Tensor": tensor_text,
    "wt::Written": tensor_text,
    "wt::Shape": shape_text,
    "wt::Device": device_name,
    "wt::nn::Param": param_text,
}


def lookup(value):
    kind = value.type.strip_typedefs().unqualified()
    if kind.code in (gdb.TYPE_CODE_REF, gdb.TYPE_CODE_RVALUE_REF):
        kind = kind.target().strip_typedefs().unqualified()
        value = value.referenced_value()
    make = PRINTERS.get(str(kind))
    return Text(value, make) if make else None


lookup.__name__ = "warptape"
if not any(getattr(p, "__name__", "") == "warptape" for p in gdb.pretty_printers):
    gdb.pretty_printers.append(lookup)
