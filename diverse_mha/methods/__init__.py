"""The papers' methods, one file each: equation, function on tensors, options, registration.

| file | method | seam |
|---|---|---|
| ``disagreement/`` | disagreement of subspaces, positions, outputs (Li et al. 2018) | loss term |
| ``hsic.py`` | HSIC between head outputs (Yun et al. 2021) | loss term |
| ``cka.py`` | CKA between head outputs, minimised or held at a value | loss term |
| ``orthogonality.py`` | SRIP and cosine of projections (Yun et al. 2021) | loss term |
| ``drophead.py`` | dropped heads (Yun et al. 2021) | Drophead |
| ``routing/`` | simple and EM routing (Li et al. 2021) | aggregation |
| ``headwise_gate.py`` | a gate per head or element (Qiu et al. 2025) | aggregation |
| ``exclusive.py`` | outputs without the position's own value (Zhai 2026) | aggregation |
| ``coda/`` | cascaded logits (Zheng et al. 2021), residual ones (He et al. 2020) | logits |
| ``talking_heads.py`` | mixed logits and weights (Shazeer et al. 2020) | logits |
| ``sink.py`` | a learnt sink per head (Xiao et al. 2024) | logits |
| ``qk_norm.py`` | queries and keys of length 1 (Henry et al. 2020) | projections |
| ``knocking_heads.py`` | one matrix for all values (Zhou et al. 2025) | projections |
| ``value_residual.py`` | values of layer 1 (Zhou et al. 2024) | projections |

Importing this package imports all files, and each registers its methods. No file imports fairseq.
The seams are in ``diverse_mha.attention.registries``, the base class of loss terms in ``term.py``,
and the sum of the terms in ``diversity.py``.
"""

from diverse_mha.common.options import import_siblings

import_siblings(__name__, __path__)
