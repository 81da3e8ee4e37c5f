"""From a character of a scalar's decoded text back to the character of the file that wrote it."""

from __future__ import annotations

from collections.abc import Iterator

_HEX_DIGITS = {"x": 2, "u": 4, "U": 8}


def character(text: str, start: int, end: int, decoded: str, offset: int) -> int:
    """The index in `text` of character `offset` of the scalar that spans `start` to `end` there.

    Walks the text as written beside the decoded one. Folding and indentation change white space only, so a space may
    match any white space, and any other character the next one that is not. One past the end is allowed.
    """
    walk = _written(text, start, end)
    index = start + (text[start : start + 1] in ("'", '"'))
    for wanted in decoded[: offset + 1]:
        index = next((i for i, char in walk if wanted.isspace() or not char.isspace()), index)
    return index + (offset >= len(decoded) > 0)


def _written(text: str, index: int, end: int) -> Iterator[tuple[int, str]]:
    """The characters of a scalar as written, an escape as one (any white space where it stands for white space)."""
    quote = text[index : index + 1]
    if quote in ("|", ">"):
        index = text.find("\n", index, end) + 1 or end
    elif quote in ("'", '"'):
        index, end = index + 1, end - 1
    while index < end:
        char, length = text[index], 1
        if quote == "'" and char == "'":
            length = 2
        elif quote == '"' and char == "\\":
            char, length = _escape(text, index)
        yield index, char
        index += length


def _escape(text: str, index: int) -> tuple[str, int]:
    code = text[index + 1]
    if code in _HEX_DIGITS:
        length = 2 + _HEX_DIGITS[code]
        return chr(int(text[index + 2 : index + length], 16)), length
    return " " if code in " \t\ntnrvfN_LP" else code, 2
