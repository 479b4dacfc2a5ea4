"""No chapter is longer than a reader can finish, and each says honestly how long it takes."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "book/_ext"))

import reading  # noqa: E402

#: The front page is for finding one's way.
FRONT = next(iter(reading.chapters()))

CHAPTER = """---
kernelspec:
  display_name: Python 3
  name: python3
---

# Two words

```{admonition} Before you start
Here are five more {term}`words <word>`. **It takes** about 10 minutes.
```

Inline $a + b$ is one word, `f(x, y)` are two.

```{math}
:label: eq-one
a = b
```

$$
c = d
$$

````{prf:theorem} A title
:label: thm-one
Three words inside.
```{math}
e = f
```
````

```{prf:proof}
:class: dropdown
Folded: $$x = y$$ counts.
```

Seen again.

```{code-cell} ipython3
a = 1

assert a == 1
```

```{code-cell} ipython3
:tags: [hide-input]

figures.show(fig, "fig-one", caption="Four words in " f"the caption {a}", alt="Not.", data=data)
assert a
```

```{exercise}
:label: ex-one
Do it.
```

```{solution-start} ex-one
:class: dropdown
```

Not this.

```{code-cell} ipython3
assert True
```

```{solution-end}
```

The end.
"""


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    file = tmp_path_factory.mktemp("reading") / "chapter.md"
    file.write_text(CHAPTER)
    return reading.counts_of(file)


def test_all_text_is_counted_and_code_in_view(counted):
    title, box, theorem = 2, 3 + 5 + 5, 2 + 3
    inline, again, caption, exercise, end = 4 + 4 + 1, 2, 5, 2, 2
    proof, solution = 2, 2
    words = title + box + theorem + proof + inline + again + caption + exercise + solution + end
    assert counted.words == words
    assert counted.formulas == 4
    assert counted.lines == 2
    assert counted.figures == 1
    assert counted.assertions == 1
    assert counted.open == []


def test_minutes_are_words_and_formulas_rounded_up_to_five(counted):
    assert counted.stated == 10
    assert counted.minutes == 5
    assert reading.Counts(words=1000, formulas=0).minutes == 5
    assert reading.Counts(words=1001, formulas=0).minutes == 10
    assert reading.Counts(words=1000, formulas=6).minutes == 15


def test_no_chapter_is_above_the_limits_and_each_states_its_time():
    for chapter, part in reading.chapters().items():
        counts = reading.counts_of(ROOT / f"{chapter}.md")
        assert counts.open == [], chapter
        if part != reading.WITHOUT_LIMITS:
            for name, most in reading.LIMITS.items():
                assert getattr(counts, name) <= most, (chapter, name)
        assert counts.stated == (None if chapter == FRONT else counts.minutes), chapter


def test_the_whole_book_takes_the_sum_of_its_chapters():
    each = [reading.minutes_of([Path(chapter).name]) for chapter in reading.chapters()]
    assert reading.minutes_of(["all"]) == sum(each)
    assert reading.in_words(85) == "85 minutes"
    assert reading.in_words(105) in ("1½ hours", "2 hours")
