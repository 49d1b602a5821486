"""Words to be told from those before them: the help texts that come with Python."""

import re
from collections import Counter

import numpy as np

from lab.arrays import IntArray

VOCABULARY_SIZE, CONTEXT_WORDS, TEXT_WORDS = (
    1000,
    6,
    60_000,
)  # words known, words to tell the next one from, words of the text


def load_words() -> tuple[IntArray, IntArray]:
    """Give all stretches of six words, and the word behind each, by number; 0 stands for all rare words.

    The text differs a little from one version of Python to the next.

    Examples
    --------
    >>> X, y = load_words()
    >>> X.shape == (len(y), CONTEXT_WORDS), int(y.max()) < VOCABULARY_SIZE
    (True, True)
    >>> bool((X[CONTEXT_WORDS] == y[:CONTEXT_WORDS]).all())
    True
    """
    from pydoc_data.topics import topics

    found = re.findall(r"\w+|[^\w\s]", " ".join(topics[name] for name in sorted(topics)).lower())[:TEXT_WORDS]
    common = [word for word, _ in Counter(found).most_common(VOCABULARY_SIZE - 1)]
    numbers = {word: number for number, word in enumerate(common, 1)}
    text = np.array([numbers.get(word, 0) for word in found])
    return np.lib.stride_tricks.sliding_window_view(text, CONTEXT_WORDS)[:-1].copy(), text[CONTEXT_WORDS:]
