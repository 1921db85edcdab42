"""Options as getopt reads them: bundled, glued to their value, shortened, anywhere before `--`."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from lembasd.engine.native.core.shell.reading import UNKNOWN, Word


def basename(path: str) -> str:
    """The last part of a path."""
    return path.rsplit("/", 1)[-1]


class Found(Struct):
    """A wrapper's own words, read. `unknown`: an option that it is not known to have; `asks`: it runs nothing."""

    rest: tuple[Word, ...] = ()
    options: list[str] = []
    values: list[tuple[str, Word]] = []
    texts: list[Word] = []
    unknown: bool = False
    asks: bool = False


class Options(Struct, frozen=True):
    """The options of a command that stand before its operands."""

    alone: Sequence[str] = ()
    value: Sequence[str] = ()
    query: Sequence[str] = ()
    #: options whose value is a line of words
    text: Sequence[str] = ()
    #: `-5` is an option too
    numbers: bool = False

    def read(self, words: Sequence[Word]) -> Found:
        """The options in front, and the words behind them."""
        found = Found()
        at = 0
        while at < len(words):
            one = words[at]
            text = one.text
            if not text.startswith("-") or (text == "-" and "-" not in self.alone):
                break
            at += 1
            if text == "--":
                break
            if not one.known:
                found.unknown = True
            at += self._option(text, words[at:], found)
        found.rest = tuple(words[at:])
        return found

    def _option(self, text: str, after: Sequence[Word], found: Found) -> int:
        """Note one option; how many words its value takes."""
        if self.numbers and text[1:].lstrip("-+").isdigit():
            return 0
        if text.startswith("--") or text in self.alone or text in self.value or text in self.query:
            return self._whole(text, after, found)
        for number, letter in enumerate(text[1:], 1):
            name = f"-{letter}"
            if name in self.query:
                found.asks = True
            elif name in self.alone:
                found.options.append(name)
            elif name in self.value or name in self.text:
                return self._valued(name, text[number + 1 :], after, found)
            else:
                found.unknown = True
        return 0

    def _whole(self, text: str, after: Sequence[Word], found: Found) -> int:
        name, glued, value = text.partition("=")
        known = [*self.alone, *self.value, *self.query, *self.text]
        if name not in known and len(name) > 3:
            # GNU takes the beginning of a long option for the whole
            full = [one for one in known if one.startswith(name)]
            name = full[0] if len(full) == 1 else name
        if name in self.query:
            found.asks = True
        elif name in self.value or name in self.text:
            return self._valued(name, value, after, found)
        elif name in self.alone:
            found.options.append(name)
            if glued:
                # its value may be left out
                found.values.append((name, Word(value)))
        else:
            found.unknown = True
        return 0

    def _valued(self, name: str, glued: str, after: Sequence[Word], found: Found) -> int:
        value = Word(glued) if glued else after[0] if after else Word("")
        found.options.append(name)
        found.values.append((name, value))
        if name in self.text:
            found.texts.append(value)
        return 0 if glued or not after else 1


def has_option(words: Sequence[Word], wanted: Sequence[str]) -> bool | None:
    """Whether words have one of these options; None when a word that is not known yet may be one.

    `-x` may be bundled, `--long` shortened to four letters or more; what is longer than `-x` and has one dash stands as
    it is (find's).
    """
    maybe = False
    for one in words:
        text = one.text
        if one.known and text == "--":
            break
        if is_option(text, wanted):
            return True
        if (not one.known and text[:1] in ("", "-")) or (one.glob and text[:1] in "-*?["):
            # a file may have an option's name
            maybe = True
    return None if maybe else False


def is_option(text: str, wanted: Sequence[str]) -> bool:
    """Whether a word is, or holds, one of the wanted options."""
    if not text.startswith("-") or text == "-":
        return False
    name = text.partition("=")[0]
    if text.startswith("--"):
        return any(
            one == name or (len(name) > 3 and one.startswith(name))
            for one in wanted
            if one.startswith("--")
        )
    return any(
        one == name or (len(one) == 2 and one[1] in text[1:])
        for one in wanted
        if not one.startswith("--")
    )


def values_of(words: Sequence[Word], wanted: Sequence[str]) -> Iterator[Word]:
    """The values of these options: the next word, or what is glued to them. Bundles end in the option."""
    for at, one in enumerate(words):
        text = one.text
        if text == "--":
            return
        name, glued, value = text.partition("=")
        if text.startswith("--"):
            if is_option(name, wanted):
                yield Word(value, one.known) if glued else _at(words, at + 1)
        elif name in wanted and len(name) > 2:
            yield Word(value, one.known) if glued else _at(words, at + 1)
        elif is_option(text, wanted):
            letter = next(option[1] for option in wanted if option[1] in text[1:])
            rest = text[text.index(letter, 1) + 1 :]
            yield Word(rest, one.known) if rest else _at(words, at + 1)


def _at(words: Sequence[Word], at: int) -> Word:
    return words[at] if at < len(words) else UNKNOWN


def operands(words: Sequence[Word]) -> list[Word]:
    """The words that are no options."""
    found: list[Word] = []
    ended = False
    for one in words:
        if not ended and one.text == "--":
            ended = True
        elif ended or not one.text.startswith("-") or one.text == "-":
            found.append(one)
    return found
