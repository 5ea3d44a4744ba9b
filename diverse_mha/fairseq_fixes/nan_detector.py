"""The module in which a NaN arises, named.

fairseq-fixed 0.12.3.1 looks for it with backward hooks that today's torch refuses, and dies of that
(torch 2.13). Of the forward pass alone it says what it had to say.
"""

from fairseq import nan_detector

nan_detector.NanDetector.__init__.__defaults__ = (True, False)
