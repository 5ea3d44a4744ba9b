"""Shows in BertViz where the heads of an exported model attend in a sentence and its translation.

    python examples/bertviz_view.py MODEL SENTENCE > view.html

MODEL is a folder of `diverse-mha export --format transformers`. For the decoder, the page shows the
words that it predicts. Needs transformers, bertviz and ipython; the page downloads libraries.
"""

import logging
import sys

import torch


def main(folder, sentence):
    """Translate a sentence, and print the page."""
    from bertviz import head_view
    from transformers import AutoTokenizer, FSMTForConditionalGeneration

    logging.getLogger().setLevel(logging.WARNING)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = FSMTForConditionalGeneration.from_pretrained(folder).eval()
    source = tokenizer([sentence], return_tensors="pt")
    target = model.generate(**source, num_beams=5)
    with torch.no_grad():
        outputs = model(**source, decoder_input_ids=target[:, :-1], output_attentions=True)
    page = head_view(
        encoder_attention=outputs.encoder_attentions,
        decoder_attention=outputs.decoder_attentions,
        cross_attention=outputs.cross_attentions,
        encoder_tokens=tokenizer.convert_ids_to_tokens(source.input_ids[0]),
        decoder_tokens=[tokenizer.decode(token) for token in target[0, 1:]],
        html_action="return",
    )
    print(page.data)


if __name__ == "__main__":
    if len(sys.argv) != 3 or "--help" in sys.argv:
        sys.exit(print(__doc__) if {"-h", "--help"} & set(sys.argv) else __doc__)
    main(*sys.argv[1:])
