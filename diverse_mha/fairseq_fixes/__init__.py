"""Patches of fairseq. You need not read them to understand or extend a method.

Importing ``diverse_mha`` with fairseq applies all of them (``install``). The tables say what
fairseq-fixed 0.12.3.1 does without them.

Mends change what fairseq does:

| file | what is patched | fairseq without the patch |
|---|---|---|
| ``checkpoints`` | safe loading | cannot load its checkpoints with torch 2.6 or later |
| | options of checkpoints | evaluates them as Python, and opens files that they name |
| | atomic writes | leaves a broken checkpoint if killed or if the disk is full |
| | update checkpoints | skips one that is due at the end of an epoch (fairseq#2230) |
| ``dictionaries`` | vocabulary | takes another one of the same size for the model's, silently |
| ``status`` | status.json | reports the end of training only in its log |
| ``resuming`` | position in the epoch | skips or repeats data if processes or batches change |
| | state of the task | drops float32 weights with ``--reset-dataloader`` |
| | end of training | makes one more update in a run that is complete |
| | sweeps | keeps the best score and the patience of the training before |
| ``batches`` | whole splits | may skip the last sentences of a split |
| | whole epochs | may never train on the longest examples |
| | diverse beams | fails with an IndexError for ``--diverse-beam-groups`` |
| ``empty_batches`` | end of an epoch | has too large a gradient there (several processes) |
| | dummy batch | takes it from validation, where it may be too large for training |
| | fairseq-validate | fails with a KeyError if processes do not divide the batches |
| ``__init__`` above | root logger | turns on the debug messages of all libraries |
| ``log`` | time left | does not log it |
| | invalid gradients | logs all gradients and fails with ``StopIteration`` in torch's hooks |
| | warnings | triggers warnings of Hydra and torch |
| ``loss_scale`` | overflows on a CPU | ends a training in float16 with a traceback of torch |
| ``numpy_2`` | removed names | fails with ``sample_break_mode=eos`` and ``num_batch_buckets`` |
| ``plasma`` | Plasma | cannot evaluate a language model trained with ``--use-plasma-view`` |
| ``moving_average`` | tied embeddings | averages them with the third power of ``--ema-decay`` |
| | checkpoint without an average | fails with a KeyError for ``--store-ema`` |
| ``speed`` | ``fused_adam`` | copies half-precision tensors one by one: a thousand launches |
| | cuDNN's attention | uses it, although it takes part of a second for every new shape |
| | oneDNN's cache | lets it grow to a gigabyte in bfloat16 training on a CPU |
| ``slow_calls`` | Hydra's caller | looks for it in all source files of the stack |
| ``startup`` | unused libraries | imports scikit-learn, scipy.stats, torch.onnx: half its start |
| | Hydra's store | builds a hundred configurations, of which a command reads none |

Guards report a mistake in one line. Each hook in ``guards`` has one wrapper with a list of checks:

| file | what is checked | fairseq without the check |
|---|---|---|
| ``guards`` | unknown options | prints a hundred lines of usage, "unrecognized arguments" |
| | missing options | prints a traceback without ``--arch``, ``--optimizer`` or batch size |
| | save folder in use | lets two trainings overwrite each other's checkpoints |
| | tasks, Ctrl-C | prints tracebacks for fairseq-validate without ``--task``, and for Ctrl-C |
| | alignment options | fails with ``--replace-unk`` and ``--print-alignment soft`` |
| | ``--fp16`` on a CPU | creates the save folder, then prints a traceback of torch |
| | memory-efficient | prints a traceback with another optimizer's class for ``fused_adam`` |
| | divergence | prints a traceback |
| ``best_metric`` | missing metric | ends the first validation with a KeyError |
| ``long_examples`` | limits | prints a traceback for an example longer than ``--max-tokens`` |
| | scored blocks | skips long blocks in ``fairseq-eval-lm``, and scores only the others |
| ``save_folder`` | new save folder | leaves it if the training is refused |
| ``same_run`` | starting point | trains from scratch if the checkpoint is missing |
| | same run | silently resumes with another method, seed or corpus |
"""
