"""The corpus that comes with the project: sentences of two invented languages, Lumi and Qorun.

It is generated, seeded, and small, but asks of a translator what real languages ask:

- agreement: of article, noun and adjective in gender, number and case; of the verb with its
  subject in person, number and, in the past, gender. Lumi shows only number.
- another word order: adjectives follow the noun in Qorun, adverbs move to the front and draw
  the verb after them, and the verb of a subordinate clause comes last.
- inflection: Qorun glues prefixes and endings to its stems, so the test set has word forms
  that the training set does not have, made of parts that it has.
- context: homonyms of Lumi have two translations, and the rest of the sentence decides; a
  pronoun takes its gender from a noun in another clause.

"fegen" is an animal or a tool, as the verb will have it::

    la fegeno datos un fegalo.     hu  wuyög-e  vü-dirulm-it       ek-an jond-an.
    the fegen will-dat a fegal     the fegen.N  will-dat-it        a     fegal.F.acc

    la fegeno nunis bedike.        qöjush-li ge-wöghüth-ia   hia biqüd-a.
    the fegen did-nun bedik-ly     bedik-ly  did-nun-she     the fegen.F

"ze" is feminine here because "fiko" is, and "zem" masculine because "mero" is::

    la fiko sezos la mero kar ze kunis zem.
    hia kühitha vübroshulmit hon beqöben, vol sia son gejoqedia.
    the fik.F   will-sez-it  the mer.M    because she him did-kun-she

(Real text has no hyphens.) :mod:`~diverse_mha.corpora.demo.sampling` draws meanings from
:mod:`~diverse_mha.corpora.demo.lexicon`; :mod:`~diverse_mha.corpora.demo.lumi` and
:mod:`~diverse_mha.corpora.demo.qorun` put each into words, independently of each other.
"""
