"""Ends a training whose gradients are NaN or infinite in one line.

fairseq-fixed 0.12.3.1 runs the batch once more, with hooks that name the first wrong module. Those
of the backward pass end at an encoder's output, a dict of lists, in torch's ``StopIteration``, and
all gradients are written to the log.
"""

from fairseq.nan_detector import NanDetector, logger
from fairseq.trainer import Trainer

from diverse_mha.common.errors import OptionError
from diverse_mha.fairseq_fixes.replacing import in_place_of

SHOWN = 3  # names of parameters


@in_place_of(NanDetector, "add_hooks")
def look_at_the_forward_pass(_, self, module):
    """Let the hooks name what is wrong in the forward pass alone."""
    self.fhooks.append(module.register_forward_hook(self.fhook_fn))


@in_place_of(NanDetector, "__exit__")
def name_the_gradients(_, self, *error):
    """Log whose gradients are wrong, and not their values."""
    grads = [(name, p.grad) for name, p in self.named_parameters if p.grad is not None]
    wrong = [name for name, grad in grads if not grad.isfinite().all()]
    if wrong:
        names = ", ".join(wrong[:SHOWN]) + (", ..." if wrong[SHOWN:] else "")
        logger.warning("NaN or Inf in %s gradients of %s: %s", len(wrong), len(grads), names)
    self.close()


@in_place_of(Trainer, "train_step")
def say_diverged(step, self, *args, **kwargs):
    """Turn fairseq's error into one line; its others, such as of fp16's scale, name a cure."""
    try:
        return step(self, *args, **kwargs)
    except FloatingPointError as error:
        if "gradients are Nan/Inf" not in str(error):
            raise
        raise OptionError(
            f"update {self.get_num_updates() + 1}: the gradients are NaN or infinite; lower the "
            "learning rate, warm up longer, or give --clip-norm"
        ) from error
