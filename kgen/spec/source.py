"""YAML with positions: text -> plain data, and the place in the file of every key and value.

Built on PyYAML's event stream instead of its constructor, for three reasons. Every key and scalar keeps its place.
What PyYAML does silently is an error here: it keeps the last of duplicate keys, and reads `no` as False, `12:30` as
750, `010` as 8 and `1_000` as 1000 (YAML 1.1), where an editor that speaks YAML 1.2 shows strings or other numbers.
And nothing recurses over the input, so depth and aliases are bounded before they cost anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from kgen.spec.diagnostic import Diagnostic, Source
from kgen.spec.problem import Path
from kgen.spec.scalar import character

MAX_BYTES = 1 << 20
"""Largest spec file."""
MAX_DEPTH = 32
"""Deepest nesting of lists and mappings (a spec needs 5)."""
MAX_NODES = 50_000
"""Most values after aliases are expanded."""

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]{0,17})")
_FLOAT = re.compile(r"[-+]?[0-9]+\.[0-9]*([eE][-+]?[0-9]+)?")
_TRAPS = (
    (re.compile(r"(?i)yes|no|on|off"), "is a boolean in YAML 1.1 and a string in YAML 1.2"),
    (re.compile(r"[-+]?[0-9]+(:[0-5]?[0-9])+(\.[0-9]*)?"), "is a number to base 60 in YAML 1.1"),
    (re.compile(r"[-+]?0[0-9_]+"), "is an octal number in YAML 1.1"),
    (re.compile(r"[-+]?0[bxo][0-9a-fA-F_]+"), "is read differently by YAML 1.1 and 1.2"),
    (re.compile(r"[-+]?[0-9][0-9_]*_[0-9_]*(\.[0-9_]*)?"), "is a number in YAML 1.1 and a string in YAML 1.2"),
    (re.compile(r"[-+]?(\.[0-9]+|[0-9]+)([eE][-+]?[0-9]+)?"), "is read differently by YAML 1.1 and 1.2"),
    (re.compile(r"(?i)[-+]?\.(inf|nan)"), "is a floating-point number in YAML"),
    (re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt \t].*)?"), "is a date in YAML"),
    (re.compile(r"="), "is a special value in YAML 1.1"),
)
_NOTHING = ("", "~", "null", "Null", "NULL")
_BOOLEANS: Mapping[str, bool] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_CONFLICT = re.compile(r"^(<{7}|={7}|>{7})( |$)", re.MULTILINE)
_UNPRINTABLE = re.compile(r"[^\t\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")


@dataclass
class _Node:
    """A scalar, list or mapping, with the span of characters it takes in the file."""

    kind: str
    start: int
    end: int = 0
    text: str = ""
    plain: bool = False
    tag: str | None = None
    items: list[_Node] = field(default_factory=list)
    pairs: list[tuple[_Node, _Node]] = field(default_factory=list)
    open: bool = True
    key: _Node | None = None


@dataclass(frozen=True)
class Place:
    """Where a value stands: the index of its key (or of itself, in a list), its span, and its decoded text."""

    key: int
    start: int
    end: int
    text: str | None


@dataclass
class Tree:
    """A file as plain data with places. `poisoned` are the paths whose value is a guess after a reported error."""

    source: Source
    data: Any = None
    places: dict[Path, Place] = field(default_factory=dict)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    poisoned: set[Path] = field(default_factory=set)

    def index(self, path: Path, offset: int = 0, on_key: bool = False) -> int:
        """The character a problem at `path` points to; a path that is not in the file falls back to its ancestor."""
        exact = True
        while path and path not in self.places:
            path, exact = path[:-1], False
        place = self.places.get(path)
        if place is None:
            return 0
        if place.text is not None and exact and not on_key:
            return character(self.source.text, place.start, place.end, place.text, offset)
        return place.key if on_key or not exact else place.start


def read_text(raw: bytes, file: str) -> Source | Diagnostic:
    """Decode a file, or say why it is not one: too large, not UTF-8, control characters, odd line ends."""
    if len(raw) > MAX_BYTES:
        return Diagnostic(
            file, 0, 0, "too-large", f"more than {MAX_BYTES} bytes", f"a spec has at most {MAX_BYTES} bytes"
        )
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        col = len(raw[raw.rfind(b"\n", 0, error.start) + 1 : error.start].decode("utf-8", "replace")) + 1
        message = f"byte 0x{raw[error.start]:02x} is not UTF-8"
        return Diagnostic(file, line, col, "encoding", message, "save the file as UTF-8")
    source = Source(file, text.replace("\r\n", "\n"))
    if found := _UNPRINTABLE.search(source.text):
        message = f"character U+{ord(found[0]):04X} is not allowed in a spec"
        return source.diagnostic(found.start(), "encoding", message, "use printable text with LF or CRLF line ends")
    return source


def parse(source: Source) -> Tree:
    """Parse one document. Errors of YAML itself leave `data` None; the rest leave a best guess to go on with."""
    tree = Tree(source)
    composer = _Composer(tree)
    try:
        root = composer.compose()
    except yaml.MarkedYAMLError as error:
        tree.diagnostics.append(_syntax(source, error))
        return tree
    except _Refused as refusal:
        tree.diagnostics.append(source.diagnostic(refusal.index, refusal.clause, refusal.message, refusal.fix))
        return tree
    if root is None:
        tree.diagnostics.append(source.diagnostic(0, "empty-file", "there is no document in the file"))
        return tree
    _Expansion(tree).run(root)
    return tree


class _Refused(Exception):
    """An input that is not worth going on with."""

    def __init__(self, index: int, clause: str, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.index, self.clause, self.message, self.fix = index, clause, message, fix


def _syntax(source: Source, error: yaml.MarkedYAMLError) -> Diagnostic:
    mark = error.problem_mark or error.context_mark
    index = min(mark.index, len(source.text)) if mark else 0
    if source.text[index : index + 1] == "\t":
        return source.diagnostic(index, "syntax", "a tab in the indentation", "YAML indents with spaces")
    if conflict := _CONFLICT.search(source.text, 0, source.text.find("\n", index) + 1 or len(source.text)):
        return source.diagnostic(conflict.start(), "syntax", "a merge conflict marker", "resolve the merge")
    context = f" {error.context}" if error.context else ""
    return source.diagnostic(index, "syntax", f"{error.problem or 'not YAML'}{context}")


def _start(event: yaml.Event) -> int:
    """The first character of an event; parsed events always have marks."""
    return event.start_mark.index if event.start_mark else 0


def _end(event: yaml.Event) -> int:
    return event.end_mark.index if event.end_mark else 0


class _Composer:
    """Events -> nodes of the first document. An alias is the very node its anchor names."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.root: _Node | None = None
        self.stack: list[_Node] = []
        self.anchors: dict[str, _Node] = {}

    def compose(self) -> _Node | None:
        """The root node, or None for a file without a document."""
        documents = 0
        for event in yaml.parse(self.tree.source.text, Loader=_LOADER):
            documents += isinstance(event, yaml.DocumentStartEvent)
            if documents > 1:
                fix = "put each spec in a file of its own"
                self._report(_start(event), "several-documents", "a second document starts here", fix)
                break
            self._take(event)
        return self.root

    def _take(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.ScalarEvent):
            node = self._node(event, "scalar")
            node.end, node.text, node.open = _end(event), event.value, False
            node.plain = event.style in (None, "") and event.implicit[0]
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            self.stack.append(self._node(event, "map" if isinstance(event, yaml.MappingStartEvent) else "list"))
            if len(self.stack) > MAX_DEPTH:
                raise _Refused(_start(event), "too-deep", f"nested deeper than {MAX_DEPTH} levels")
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            node = self.stack.pop()
            node.end, node.open = _end(event), False
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event)

    def _node(self, event: Any, kind: str) -> _Node:
        start = _after_properties(self.tree.source.text, _start(event))
        node = _Node(kind, start, tag=event.tag)
        if event.anchor is not None:
            self.anchors[event.anchor] = node
        self._attach(node)
        return node

    def _alias(self, event: yaml.AliasEvent) -> None:
        node = self.anchors.get(event.anchor or "")
        index = _start(event)
        if node is None:
            raise _Refused(index, "unknown-alias", f"*{event.anchor} has no anchor &{event.anchor} before it")
        if node.open:
            raise _Refused(index, "recursive-alias", f"*{event.anchor} stands inside its own anchor")
        self._attach(node)

    def _attach(self, node: _Node) -> None:
        if not self.stack:
            self.root = node
            return
        parent = self.stack[-1]
        if parent.kind == "list":
            parent.items.append(node)
        elif parent.key is None:
            parent.key = node
        else:
            parent.pairs.append((parent.key, node))
            parent.key = None

    def _report(self, index: int, clause: str, message: str, fix: str) -> None:
        self.tree.diagnostics.append(self.tree.source.diagnostic(index, clause, message, fix))


class _Expansion:
    """Nodes -> plain data and places, with aliases expanded under a budget."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.nodes = 0
        self.seen: set[tuple[int, str]] = set()

    def run(self, root: _Node) -> None:
        """Fill in the tree's data and places."""
        try:
            self.tree.data = self._value(root, (), root.start)
        except _Refused as refusal:
            self.tree.data = None
            self._report((), refusal.index, refusal.clause, refusal.message, refusal.fix)

    def _value(self, node: _Node, path: Path, key: int) -> Any:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise _Refused(key, "too-large", f"over {MAX_NODES} values once aliases are expanded")
        if len(path) > MAX_DEPTH:
            raise _Refused(key, "too-deep", f"nested deeper than {MAX_DEPTH} levels once aliases are expanded")
        if node.tag is not None:
            tag = node.tag.replace("tag:yaml.org,2002:", "!!")
            self._report(path, node.start, "yaml-tag", f"tag {tag} is not allowed", "leave the tag out")
        self.tree.places[path] = Place(key, node.start, node.end, node.text if node.kind == "scalar" else None)
        if node.kind == "list":
            return [self._value(item, (*path, i), item.start) for i, item in enumerate(node.items)]
        if node.kind == "map":
            return self._mapping(node, path)
        return self._scalar(node, path)

    def _mapping(self, node: _Node, path: Path) -> dict[str, Any]:
        data: dict[str, Any] = {}
        first: dict[str, int] = {}
        for key, value in node.pairs:
            name = self._key(key, path)
            if name is None:
                continue
            if name in first:
                line, _ = self.tree.source.place(first[name])
                message = f"{name} is given twice, first in line {line}"
                self._report((*path, name), key.start, "duplicate-key", message, "keep one of them")
                continue
            first[name] = key.start
            if value.end == value.start <= key.end and value.plain:
                message = f"{name} is a key without a value: inside braces a comma ends a text"
                self._report((*path, name), key.start, "comma", message, "quote the whole text before it")
                self.tree.poisoned.update((*path, before) for before in data)
                continue
            data[name] = self._value(value, (*path, name), key.start)
        return data

    def _key(self, key: _Node, path: Path) -> str | None:
        """The key's name, or None (reported) where it cannot be one."""
        if key.kind != "scalar":
            self._report(path, key.start, "key", "a list or mapping as a key", "keys are names")
            return None
        if key.plain and key.text == "<<":
            fix = "write the fields out, or repeat a whole value by its anchor"
            self._report(path, key.start, "merge-key", "merge keys are not allowed", fix)
            return None
        value = self._scalar(key, (*path, key.text))
        if not isinstance(value, str):
            self._report(path, key.start, "key", f"{key.text or 'nothing'} as a key", "keys are names")
            return None
        return value

    def _scalar(self, node: _Node, path: Path) -> Any:
        if not node.plain:
            return node.text
        if node.text in _NOTHING:
            message = f"{path[-1] if path else 'the file'} has no value"
            self._report(path, node.start, "no-value", message, "give one, or leave the field out")
            return None
        if node.text in _BOOLEANS:
            return _BOOLEANS[node.text]
        if _INTEGER.fullmatch(node.text):
            return int(node.text)
        if _FLOAT.fullmatch(node.text):
            return float(node.text)
        if trap := next((why for pattern, why in _TRAPS if pattern.fullmatch(node.text)), None):
            number = node.text[0] in "+-.0123456789"
            fix = "write a plain decimal number, or quote a string" if number else f'quote it: "{node.text}"'
            self._report(path, node.start, "yaml-trap", f"{node.text} {trap}", fix)
        return node.text

    def _report(self, path: Path, index: int, clause: str, message: str, fix: str = "") -> None:
        self.tree.poisoned.add(path)
        if (index, clause) not in self.seen:  # an alias meets the same node again
            self.seen.add((index, clause))
            self.tree.diagnostics.append(self.tree.source.diagnostic(index, clause, message, fix))


_PROPERTY = re.compile(r"[&!][^\s,\[\]{}]*[ \t]*\n?[ \t]*")


def _after_properties(text: str, index: int) -> int:
    """Skip anchors and tags: a node starts at its first own character."""
    while found := _PROPERTY.match(text, index):
        index = found.end()
    return index
