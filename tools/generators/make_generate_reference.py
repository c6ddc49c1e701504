#!/usr/bin/env python3
"""Writes tests/reference/models/generate.txt: what transformers makes of logits, and what it writes.

    tools/generators/make_generate_reference.py [FOLDER]

needs torch and transformers. `logits` are hashed, some of them equal; after each processor alone (its number
in the name), and after all in generate()'s order, -inf is written as -1e308. `greedy` and `penalized` are
GPT2LMHeadModel.generate() of the small model of make_models_reference.py without drawing, from two prompts.
"""

import usage

usage.answer(__doc__)

import make_models_reference as models  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from transformers.generation import logits_process as lp  # noqa: E402

VOCABULARY, PROMPTS, NEW = 51, ((5, 17, 3), (40, 2, 2, 9, 33, 1)), 10


def processed():
    logits = 4 * models.hashed((1, VOCABULARY), "logits")
    logits[0, 7] = logits[0, 20] = logits[0, 33]  # equal ones, for the edges of top_k
    text = models.ids((1, 12), "text", VOCABULARY)
    kth = int((logits > logits[0, 7]).sum()) + 2  # the k-th largest is one of the three
    one = {
        "penalty_1.3": lp.RepetitionPenaltyLogitsProcessor(1.3),
        "penalty_0.8": lp.RepetitionPenaltyLogitsProcessor(0.8),
        "temperature_0.7": lp.TemperatureLogitsWarper(0.7),
        "top_k_5": lp.TopKLogitsWarper(5),
        "top_k_equal": lp.TopKLogitsWarper(kth),
        "top_p_0.6": lp.TopPLogitsWarper(0.6),
        "top_p_0.01": lp.TopPLogitsWarper(0.01),
    }
    arrays = {"logits": logits, "text": text, "equal_k": torch.tensor(kth)}
    arrays |= {name: process(text, logits.clone()) for name, process in one.items()}
    y = logits.clone()
    for process in (lp.RepetitionPenaltyLogitsProcessor(1.2), lp.TemperatureLogitsWarper(1.5),
                    lp.TopKLogitsWarper(20), lp.TopPLogitsWarper(0.9)):
        y = process(text, y)
    arrays["all"] = y
    return {name: torch.where(torch.isinf(v), -1e308, v) if v.is_floating_point() else v
            for name, v in arrays.items()}


def written():
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY, n_positions=16, n_embd=24, n_layer=2, n_head=3, eos_token_id=None
    )
    net = transformers.GPT2LMHeadModel(config).double().eval()
    models.fill(net)
    arrays = {}
    for name, penalty in ("greedy", 1.0), ("penalized", 1.4):
        for row, prompt in enumerate(PROMPTS):
            x = torch.tensor([prompt])
            y = net.generate(x, attention_mask=torch.ones_like(x), max_new_tokens=NEW, do_sample=False,
                             repetition_penalty=penalty, pad_token_id=0)
            arrays[f"{name}_{row}"] = y[0]
    return arrays


if __name__ == "__main__":
    models.write("generate", processed() | written(), by="make_generate_reference.py")
