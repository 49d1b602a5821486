"""Words to be told from those before them: the help texts that come with Python."""

import re
from collections import Counter

import numpy as np

from lab.arrays import IntArray

VOCABULARY, CONTEXT, LENGTH = 1000, 6, 60_000  # words known, words to tell the next one from, words of the text


def words() -> tuple[IntArray, IntArray]:
    """Give all stretches of six words, and the word behind each, by number; 0 stands for all rare words.

    The text differs a little from one version of Python to the next.

    Examples
    --------
    >>> X, y = words()
    >>> X.shape == (len(y), CONTEXT), bool((X[CONTEXT] == y[:CONTEXT]).all()), int(y.max()) < VOCABULARY
    (True, True, True)
    """
    from pydoc_data.topics import topics

    found = re.findall(r"\w+|[^\w\s]", " ".join(topics[name] for name in sorted(topics)).lower())[:LENGTH]
    common = [word for word, _ in Counter(found).most_common(VOCABULARY - 1)]
    numbers = {word: number for number, word in enumerate(common, 1)}
    text = np.array([numbers.get(word, 0) for word in found])
    return np.lib.stride_tricks.sliding_window_view(text, CONTEXT)[:-1].copy(), text[CONTEXT:]
