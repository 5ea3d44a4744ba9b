"""Patches of fairseq; you need none of it to understand or extend a method.

Importing ``diverse_mha`` with fairseq applies all of them (``install``). What breaks without them,
with fairseq-fixed 0.12.3.1:

| file | fix | without it |
|---|---|---|
| ``checkpoints`` | safe loading | from torch 2.6 on no checkpoint of fairseq's loads |
| | options of checkpoints | are evaluated as Python, and name files that are opened |
| | atomic writes | a killed run or a full disk leaves a broken checkpoint |
| | update checkpoints | none is written for an update at the end of an epoch (fairseq#2230) |
| ``status`` | status.json | the end of a training is a line in its log |
| ``resuming`` | position in the epoch | other processes or batches skip or repeat data |
| | end of training | a complete run makes one update more |
| | starting point | a missing checkpoint trains from scratch |
| | same run | another method, seed or corpus is resumed silently |
| ``batches`` | whole splits | the last sentences of a split are skipped |
| | whole epochs | the longest examples are never trained on |
| | scored blocks | ``fairseq-eval-lm`` skips long blocks and prints the perplexity of the rest |
| | diverse beams | ``--diverse-beam-groups`` is an IndexError |
| ``command_line`` | missing options | a hundred lines of usage and "unrecognized arguments" |
| | tasks, Ctrl-C | fairseq-validate without ``--task`` and interruptions are tracebacks |
| | alignment options | ``--replace-unk``, ``--print-alignment soft`` fail |
| | ``--fp16`` on a CPU | the save folder is made, then a traceback of torch's |
| | values with ``${`` | a folder named ``a${b}`` is a traceback |
| | ``--use-plasma-view`` | is a traceback, as pyarrow has no Plasma any more |
| ``__init__`` above | root logger | libraries print debug messages: a module of fairseq's asks |
| ``log`` | time left | is not logged |
| | divergence | ``StopIteration`` of torch's hooks, and all gradients in the log |
| | warnings | of fairseq's own use of Hydra and torch are printed |
| | bar of a training | is invisible on a terminal that reports 0 columns |
| ``numpy_2`` | removed names | ``sample_break_mode=eos`` and ``num_batch_buckets`` fail |
| ``moving_average`` | tied embeddings | decay by the third power of ``--ema-decay`` |
| ``speed`` | ``fused_adam`` | a thousand launches copy half-precision tensors one by one |
| | cuDNN's attention | takes part of a second for every new shape |
| | oneDNN's cache | takes a gigabyte of a bfloat16 training on a CPU |
"""
