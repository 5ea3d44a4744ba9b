"""Everything that patches fairseq or works round it, one file a subject.

Each file says in its first lines what breaks without it, and the version of fairseq it was seen in.
``install`` puts all of them in place; importing ``diverse_mha`` with fairseq does so. Nothing here
is needed to understand or to extend a method.
"""
