#!/usr/bin/env python3
"""Writes tests/reference/weights/gpt2.gguf, a small GPT-2 as llama.cpp's converter writes it, and
gpt2_gguf_io.safetensors, what is in it.

    pip install gguf safetensors torch transformers
    tools/generators/make_gguf_reference.py [FOLDER]

The file is made by the package gguf, with tensors in f32, f16, bf16 and q8_0 and metadata of every kind. Beside it,
by Hugging Face's names, are the numbers of some tensors as gguf unpacks them, token ids and the logits that
transformers' GPT2LMHeadModel makes of them with all unpacked numbers. gpt2_v2.gguf has two tensors, version 2 of the
format and an alignment of 64.
"""

import pathlib
import struct
import sys

import usage

usage.answer(__doc__)

import gguf  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
from safetensors.torch import save_file  # noqa: E402
from transformers import GPT2Config, GPT2LMHeadModel  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "tests" / "reference" / "weights")
Q = gguf.GGMLQuantizationType
BLOCK = {
    "ln_1": "attn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output",
    "ln_2": "ffn_norm", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down",
}  # fmt: skip
ENDS = {"wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm"}
TYPES = {"token_embd": Q.F16, "position_embd": Q.BF16, "attn_qkv": Q.BF16, "attn_output": Q.F16, "ffn_up": Q.Q8_0,
         "ffn_down": Q.Q8_0}  # fmt: skip
TOLD = ("h.0.attn.c_attn.weight", "h.0.attn.c_proj.weight", "h.0.mlp.c_fc.weight", "h.0.mlp.c_proj.weight", "wpe.weight")


def names_of(name):
    """llama.cpp's name of a tensor of transformers', the part of it that says what it is, and whether it is transposed."""
    stem, ending = name.rsplit(".", 1)
    parts = stem.split(".", 2)
    if parts[0] == "h":
        kind = BLOCK[parts[2]]
        return f"blk.{parts[1]}.{kind}.{ending}", kind, "c_" in parts[2] and ending == "weight"
    return f"{ENDS[stem]}.{ending}", ENDS[stem], False


def add_kinds(writer):
    writer.add_uint8("test.u8", 200)
    writer.add_int8("test.i8", -100)
    writer.add_uint16("test.u16", 60000)
    writer.add_int16("test.i16", -30000)
    writer.add_int32("test.i32", -2000000000)
    writer.add_uint64("test.u64", 2**64 - 1)
    writer.add_int64("test.i64", -(2**62))
    writer.add_float64("test.f64", 0.1)
    writer.add_bool("test.bool", True)
    writer.add_array("test.numbers", [1, 2, 3])
    writer.add_token_list([f"token {i}" for i in range(40)])


def main():
    torch.manual_seed(1)
    config = GPT2Config(vocab_size=40, n_positions=16, n_embd=32, n_layer=2, n_head=2,
                        resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)  # fmt: skip
    net = GPT2LMHeadModel(config).eval()
    for p in net.parameters():
        torch.nn.init.normal_(p, 0.1, 0.5)
    path = FOLDER / "gpt2.gguf"
    writer = gguf.GGUFWriter(path, "gpt2")
    writer.add_context_length(config.n_positions)
    writer.add_embedding_length(config.n_embd)
    writer.add_feed_forward_length(4 * config.n_embd)
    writer.add_block_count(config.n_layer)
    writer.add_head_count(config.n_head)
    writer.add_layer_norm_eps(config.layer_norm_epsilon)
    add_kinds(writer)
    told = {}
    for name, p in net.transformer.state_dict().items():
        stored, kind, transposed = names_of(name)
        numbers = (p.T if transposed else p).contiguous().numpy()
        qtype = TYPES.get(kind, Q.F32) if name.endswith("weight") else Q.F32
        packed = gguf.quants.quantize(numbers, qtype)
        writer.add_tensor(stored, packed, raw_dtype=qtype)
        unpacked = torch.from_numpy(np.array(gguf.quants.dequantize(packed, qtype)))
        p.copy_(unpacked.T if transposed else unpacked)
        if name in TOLD:
            told["transformer." + name] = p.clone()
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    net.tie_weights()
    ids = torch.randint(0, 40, (2, 9))
    with torch.no_grad():
        told["logits"] = net(ids).logits
    save_file({"ids": ids, **told}, FOLDER / "gpt2_gguf_io.safetensors")

    writer = gguf.GGUFWriter(FOLDER / "gpt2_v2.gguf", "gpt2")
    writer.add_custom_alignment(64)
    writer.add_tensor("position_embd.weight", np.arange(6, dtype=np.float32).reshape(2, 3))
    writer.add_tensor("output_norm.bias", np.arange(3, dtype=np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with open(FOLDER / "gpt2_v2.gguf", "r+b") as file:  # little-endian files of the two differ in the number alone
        file.seek(4)
        file.write(struct.pack("<I", 2))


with torch.no_grad():
    main()
