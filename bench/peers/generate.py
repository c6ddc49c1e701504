#!/usr/bin/env python3
"""Text token by token with a cache, on the cpu: `wt bench generate` beside Hugging Face's transformers, in turns.

    generate.py build/release/wt [--model gpt2] [--precision f32,bf16] [--threads 1,2] [--batch 1]
                [--prompt 64] [--tokens 64] [--windows 5] [--weights FILE] [--modes eager,generate,compile]
                [--python PYTHON] [--rows FILE] [--once]
    generate.py --serve WEIGHTS MODEL
        the other side: answers a request a line, {"precision": .., "mode": .., "prompt": .., ..}

Both sides have the same weights: those of --weights, else the made-up ones that ours saves first. Each
precision is measured ours, theirs, theirs, ours (--once: ours, theirs), one process a side, on the same
cores. Theirs are a loop over the model's forward, eager and compiled, and generate(); the
fastest counts. Greedy; in f32 the first 16 new tokens must agree or the row is void. stdout: a
Markdown table for each number of threads; --rows keeps the JSON lines.
Exit code 1: void rows; 77: PYTHON has no torch or no transformers; 7: a side failed.
"""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import model_steps

HERE = pathlib.Path(__file__).resolve().parent
MODES = ("eager", "generate", "compile")
SIZES = {"gpt2": {}, "gpt2_medium": {"n_embd": 1024, "n_layer": 24, "n_head": 16}}
SAME = 16  # tokens that must agree


# --- theirs ---


def read_safetensors(torch, path):
    """{name: f32 tensor}: eight bytes of the header's length, the header, the numbers."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = bytearray(file.read())
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        if entry["dtype"] != "F32":
            raise ValueError(f"{name} is {entry['dtype']}, not F32")
        begin, end = entry["data_offsets"]
        flat = torch.frombuffer(data, dtype=torch.float32, count=(end - begin) // 4, offset=begin)
        tensors[name] = flat.reshape(entry["shape"])
    return tensors


def load_model(torch, transformers, path, name):
    net = transformers.GPT2LMHeadModel(transformers.GPT2Config(**SIZES[name]))
    state = read_safetensors(torch, path)
    body = "transformer."
    state = {n if n.startswith((body, "lm_head")) else body + n: t for n, t in state.items()}
    missing, unexpected = net.load_state_dict(state, strict=False)
    missing = [n for n in missing if n != "lm_head.weight" and not n.endswith(("attn.bias", "masked_bias"))]
    unexpected = [n for n in unexpected if not n.endswith(("attn.bias", "masked_bias"))]
    if missing or unexpected:
        raise ValueError(f"missing {missing}, unexpected {unexpected}")
    net.tie_weights()
    return net.eval()


class Text:
    """One way of writing the text; of each call the prompt's time and that of the steps behind it."""

    def __init__(self, torch, net, mode):
        self.torch, self.net, self.mode = torch, net, mode
        self.forward = torch.compile(net, dynamic=True) if mode == "compile" else net

    def prompts(self, batch, length):
        n = self.torch.arange(batch * length).reshape(batch, length)
        return (7 + 7919 * n) % self.net.config.vocab_size

    def loop(self, ids, tokens):
        start, new, past = time.perf_counter(), [], None
        for i in range(tokens):
            out = self.forward(ids, past_key_values=past, use_cache=True)
            past, ids = out.past_key_values, out.logits[:, -1].argmax(-1, keepdim=True)
            new.append(ids.flatten().tolist())
            if i == 0:
                first = time.perf_counter()
        return new, first - start, time.perf_counter() - first

    def generate(self, ids, tokens):
        def of(n):
            start = time.perf_counter()
            out = self.net.generate(
                ids, attention_mask=self.torch.ones_like(ids), do_sample=False, max_new_tokens=n,
                eos_token_id=None, pad_token_id=0,
            )  # fmt: skip
            return out[:, ids.shape[1] :].T.tolist(), time.perf_counter() - start

        new, whole = of(tokens)
        prompt = of(1)[1]
        return new, prompt, whole - prompt

    def __call__(self, batch, prompt, tokens):
        write = self.generate if self.mode == "generate" else self.loop
        new, prompt_s, rest_s = write(self.prompts(batch, prompt), tokens)
        rows = [token for row in zip(*new) for token in row]
        return rows, prompt_s * 1e6, rest_s * 1e6 / (tokens - 1)


class Server:
    def __init__(self, torch, transformers, path, name):
        self.torch, self.name = torch, name
        self.made = lambda: load_model(torch, transformers, path, name)
        self.net, self.precision, self.texts = None, None, {}

    def text(self, precision, mode):
        if self.precision != precision:
            self.net, self.texts = None, {}
            dtype = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}[precision]
            self.net, self.precision = self.made().to(getattr(self.torch, dtype)), precision
        if mode not in self.texts:
            self.texts[mode] = Text(self.torch, self.net, mode)
            self.texts[mode](*self.sizes)  # warm, or compiled
        return self.texts[mode]

    def answer(self, request):
        self.sizes = [request[k] for k in ("batch", "prompt", "tokens")]
        with self.torch.inference_mode():
            text = self.text(request["precision"], request["mode"])
            runs = [text(*self.sizes) for _ in range(request["windows"])]
        steps = [run[2] for run in runs]
        return {"bench": self.name, "impl": "transformers " + request["mode"],
                "dtype": request["precision"], "median_us": statistics.median(steps),
                "min_us": min(steps), "prompt_us": statistics.median(run[1] for run in runs),
                "new_tokens": " ".join(map(str, runs[-1][0]))}  # fmt: skip


def serve(path, name):
    try:
        import torch
        import transformers
    except ImportError as e:
        print(f"SKIPPED: {e}", flush=True)
        return 77
    # Libraries print what they like: that is no answer.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    server = Server(torch, transformers, path, name)

    def say(line):
        out.write(json.dumps(line) + "\n")
        out.flush()

    say({"ready": True, "torch": torch.__version__, "transformers": transformers.__version__})
    for line in sys.stdin:
        request = json.loads(line)
        try:
            say(server.answer(request))
        except Exception as e:  # what this torch cannot do is a row less, said aloud
            say({**request, "failed": f"{type(e).__name__}: {' '.join(str(e).split())[:300]}"})
    return 0


# --- both ---


class Peer(model_steps.Peer):
    def __init__(self, args, weights, threads):
        prefix, env = model_steps.pinned(threads)
        self.start([*prefix, args.python, str(HERE / "generate.py"), "--serve", weights, args.model], env)


def ours(args, weights, precision, threads, options=()):
    prefix, env = model_steps.pinned(threads)
    command = [args.wt, "bench", "generate", "--json", "--model", args.model, "--precision", precision,
               "--batch", str(args.batch), "--prompt", str(args.prompt), "--tokens", str(args.tokens),
               "--windows", str(args.windows), *options]  # fmt: skip
    command += ["--weights", weights] * bool(weights)
    got = subprocess.run([*prefix, *command], env=env, capture_output=True, text=True, check=False)
    if got.returncode:
        print(f"{args.wt} failed: {got.stderr.strip()}", file=sys.stderr)
        sys.exit(7)
    return [{**json.loads(line), "threads": threads} for line in got.stdout.splitlines()]


def theirs(args, peer, precision, threads):
    rows = []
    for mode in args.modes.split(","):
        got = peer.ask({"precision": precision, "mode": mode, "batch": args.batch, "prompt": args.prompt,
                        "tokens": args.tokens, "windows": args.windows})  # fmt: skip
        if "failed" in got:
            print(f"transformers {mode} {precision}: {got['failed']}", file=sys.stderr)
        else:
            rows.append({**got, "threads": threads})
    if not rows:
        sys.exit(7)
    return rows


def measure(args, weights, threads):
    rows, peer = [], Peer(args, weights, threads)
    for precision in args.precision.split(","):
        for who in ("ours", "theirs") if args.once else ("ours", "theirs", "theirs", "ours"):
            if who == "ours":
                rows += ours(args, weights, precision, threads)
            else:
                rows += theirs(args, peer, precision, threads)
    peer.close()
    return rows


def same_tokens(row, other):
    """How many of the first new tokens of all rows agree, from the first on."""
    a, b = row["new_tokens"].split(), other["new_tokens"].split()
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))


def table(rows, batch):
    """Markdown, and the precisions whose tokens disagree where they must not."""
    lines = ["| model | precision | who | tokens/s | at most | prompt, ms | tokens/s beside ours | "
             "tokens as ours |", "|---|---|---|---|---|---|---|---|"]  # fmt: skip
    ends, void = [], []
    for precision in dict.fromkeys(row["dtype"] for row in rows):
        impls = {}
        for row in rows:
            if row["dtype"] == precision:
                impls.setdefault(row["impl"], []).append(row)

        def rate(name, key="median_us", of=statistics.median, impls=impls):
            return 1e6 * batch / of([row[key] for row in impls[name]])

        mine = next(name for name in impls if name.startswith("warptape"))
        model = impls[mine][0]["bench"]
        good = []
        for name, of in impls.items():
            same = min(same_tokens(row, impls[mine][0]) for row in of)
            needed = min(SAME, len(impls[mine][0]["new_tokens"].split()))
            bad = precision == "f32" and same < needed
            good += [name] * (name != mine and not bad)
            void += [f"{precision} {name}"] * bad
            prompt = statistics.median(row["prompt_us"] for row in of) / 1e3
            lines.append(
                f"| {model} | {precision} | {name} | {rate(name):.2f} | {rate(name, 'min_us', min):.2f} "
                f"| {prompt:.1f} | {rate(name) / rate(mine):.2f} | {same}{', void' if bad else ''} |"
            )
        if good:
            best, peak = max(good, key=rate), max(good, key=lambda n: rate(n, "min_us", min))
            ends.append(
                f"- {model} {precision}: {rate(mine) / rate(best):.2f} times the tokens a second of "
                f"{best}; best windows "
                f"{rate(mine, 'min_us', min) / rate(peak, 'min_us', min):.2f} times {peak}"
            )
    return "\n".join([*lines, "", *ends]), void


def compare(args, weights):
    void = []
    for threads in map(int, args.threads.split(",")):
        load = os.getloadavg()[0]
        rows = measure(args, weights, threads)
        if args.rows:
            with open(args.rows, "a", encoding="utf-8") as file:
                file.writelines(json.dumps(row) + "\n" for row in rows)
        text, bad = table(rows, args.batch)
        void += bad
        print(f"## {threads} thread{'s' * (threads > 1)}; load average {load:.2f} before\n")
        print(text + "\n", flush=True)
    return 1 if void else 0


def main():
    if sys.argv[1:2] == ["--serve"] and len(sys.argv) == 4:
        return serve(*sys.argv[2:])
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("wt")
    parser.add_argument("--model", default="gpt2", choices=SIZES)
    parser.add_argument("--precision", default="f32,bf16")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--prompt", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--windows", type=int, default=5)
    parser.add_argument("--weights")
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--python", default=str(HERE / ".venv" / "bin" / "python"))
    parser.add_argument("--rows")
    parser.add_argument("--once", action="store_true")
    args = parser.parse_args()
    with contextlib.ExitStack() as end:
        weights = args.weights
        if not weights:
            folder = end.enter_context(tempfile.TemporaryDirectory())
            weights = os.path.join(folder, "weights.safetensors")
            short = argparse.Namespace(**{**vars(args), "windows": 1, "tokens": 2})
            ours(short, None, "f32", 1, ["--save", weights])
        return compare(args, weights)


if __name__ == "__main__":
    sys.exit(main())
