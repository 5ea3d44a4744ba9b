"""Is one method better than another, over seeds and sentences?

``metrics`` has BLEU and chrF of sums of sentence statistics, ``resampling`` the error over
sentences and seeds, ``inference`` intervals over seeds and Holm's correction, ``runs`` what is
read from the folders of runs, ``systems`` puts them together, and ``tables`` lays the result out.
"""
