"""SQL of the user's, read as psql reads it and cut into statements.

Quotes, comments, dollar quotes and bodies of functions after BEGIN ATOMIC are psql's. The text is never changed, except
for `:'schema'`, which stands for a schema's name as a string, and `:schema` and `:"schema"`, which stand for it as an
identifier. All are put in quoted, whereas psql puts in the value of `:schema` as it is.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from pgbillion.common.errors import UserError
from pgbillion.common.quoting import literal, quote, quoted

_PARTS = {
    # what identifiers are made of: to PostgreSQL every character beyond ASCII is a letter
    "{start}": r"[A-Za-z_\x80-\U0010ffff]",
    "{part}": r"[A-Za-z0-9_$\x80-\U0010ffff]",
    "{escaped}": r"'(?:[^'\\]|''|\\.)*'",
    # a string goes on in the next line, in the way in which it began
    "{goes_on}": r"(?:[ \t\f\v]|--[^\n\r]*)*[\n\r](?:[ \t\f\v\n\r]|--[^\n\r]*[\n\r])*",
}
_TOKEN = re.compile(
    functools.reduce(
        lambda pattern, part: pattern.replace(*part),
        _PARTS.items(),
        r"""
      (?P<comment> --[^\n\r]* )
    | (?P<block> /\* )
    | (?P<escape> (?<!{part})[eE]{escaped}(?:{goes_on}{escaped})* )
    | (?P<string> '(?:[^']|'')*' )
    | (?P<identifier> "(?:[^"]|"")*" )
    | (?P<dollar> (?<!{part})\$(?P<tag>(?:{start}(?:(?!\$){part})*)?)\$ )
    # not beside what would become one word with the name in its quotes
    | (?P<variable> (?<![:'"&])(?<!{part}) : (?: schema(?!{part}) | 'schema' | "schema" ) (?!['"]) )
    | (?P<word> {start}{part}* )
    | (?P<open> [(\[] ) | (?P<close> [)\]] )
    | (?P<end> ; )
    | (?P<backslash> \\ )
    | (?P<unclosed> ['"] )
    """,
    ),
    re.VERBOSE | re.DOTALL,
)
_BLOCK = re.compile(r"/\*|\*/")


@dataclass(frozen=True)
class Statement:
    """A statement: its text without the semicolon, and where `:schema` stands in it, in which form."""

    text: str
    variables: tuple[tuple[int, int], ...]
    line: int

    def for_schema(self, schema: str) -> str:
        """Return the statement with the schema's name put in."""
        result, last = "", 0
        for start, end in self.variables:
            # any role that may create a schema chooses its name: it must never be more than a name
            put_in = literal(schema) if self.text[start + 1] == "'" else quote(schema)
            result += self.text[last:start] + put_in
            last = end
        return result + self.text[last:]


def split(text: str, where: str = "the text") -> list[Statement]:
    """Cut a text into statements, empty ones left out. Raises UserError for psql's commands and open quotes."""
    found: list[Statement] = []
    start = position = depth = body = 0
    words: list[str] = []
    variables: list[tuple[int, int]] = []
    solid = False  # is there anything but comments?

    def line(at: int) -> int:
        return text.count("\n", 0, at) + 1

    def finish(end: int) -> None:
        raw = text[start:end]
        if solid:
            lead = len(raw) - len(raw.lstrip())
            places = tuple((first - start - lead, last - start - lead) for first, last in variables)
            found.append(Statement(raw.strip(), places, line(start + lead)))

    while token := _TOKEN.search(text, position):
        silent = token.lastgroup in ("comment", "block", "end") and not text[position : token.start()].strip()
        solid = solid or not silent
        position = token.end()
        match token.lastgroup:
            case "block":
                position = _block_end(text, position, where, line(token.start()))
            case "dollar" | "tag":
                mark = token["dollar"]
                end = text.find(mark, position)
                if end < 0:
                    raise UserError(
                        f"{where}, line {line(token.start())}: {mark} is not closed", "close it, as psql wants it, too"
                    )
                position = end + len(mark)
            case "unclosed":
                raise UserError(
                    f"{where}, line {line(token.start())}: the quote is not closed", "close it, as psql wants it, too"
                )
            case "backslash":
                raise UserError(
                    f"{where}, line {line(token.start())}: psql's commands cannot be run here",
                    "leave out what begins with a backslash",
                )
            case "variable":
                variables.append((token.start(), token.end()))
            case "word":
                word = token["word"].lower()
                words.append(word)
                if _makes_function(words):
                    # as psql counts: CASE … END within the body, too
                    if body == 0:
                        body = words[-2:] == ["begin", "atomic"]
                    elif word == "case":
                        body += 1
                    elif word == "end":
                        body -= 1
            case "open":
                depth += 1
            case "close":
                depth = max(0, depth - 1)
            case "end" if depth == 0 and body == 0:
                finish(token.start())
                start, words, variables, solid = position, [], [], False
    solid = solid or text[position:].strip() != ""
    finish(len(text))
    return found


def _block_end(text: str, position: int, where: str, line: int) -> int:
    """Return where a comment ends; they nest."""
    depth = 1
    while depth:
        edge = _BLOCK.search(text, position)
        if edge is None:
            raise UserError(f"{where}, line {line}: the comment is not closed", "close it, as psql wants it, too")
        depth += 1 if edge[0] == "/*" else -1
        position = edge.end()
    return position


def _makes_function(words: list[str]) -> bool:
    rest = words[3:4] if words[1:3] == ["or", "replace"] else words[1:2]
    return words[:1] == ["create"] and rest in (["function"], ["procedure"])


def without_schema(body: str, schema: str, *, in_comments: Sequence[str] = ()) -> str:
    """Return code without a schema's name, where it stands before a dot, in front of what it qualifies.

    Comments lose other names. Strings stay, and so does all of it if the name is that of something else, too, or if the
    code cannot be read.
    """
    named = quoted(schema)
    pieces, last, position = [], 0, 0
    while token := _TOKEN.search(body, position):
        start, position = token.start(), token.end()
        try:
            match token.lastgroup:
                case "block" | "comment":
                    position = position if token.lastgroup == "comment" else _block_end(body, position, "", 0)
                    pieces += [body[last:start], _unnamed(body[start:position], in_comments)]
                    last = position
                case "dollar" | "tag":
                    position = body.index(token["dollar"], position) + len(token["dollar"])
                case "word" | "identifier" if _same_name(token[0], schema):
                    if not body.startswith(".", position):
                        return body
                    if token[0] == named and body[start - 1 : start] != ".":
                        pieces.append(body[last:start])
                        last = position = position + 1
        except (UserError, ValueError):
            return body
    return "".join([*pieces, body[last:]])


# the end of what comes before an operator that is qualified
_OPERATOR = re.compile(r"(?i)(?<![\w$])operator\s*\(\s*\Z")
_BEFORE_NAME = re.compile(r"\.\s*(?:[A-Za-z_\"\x80-\U0010ffff])")
_BEFORE_OPERATOR = re.compile(r"\.\s*[~!@#^&|`?+\-*/%<>=]")
# of PL/pgSQL, which quote_ident() does not know
_NO_SCHEMAS = frozenset(("begin", "by", "declare", "execute", "foreach", "if", "loop", "strict", "while"))


def can_be_named(schema: str) -> bool:
    """Tell whether the name can take another's place in code: a comment must end where it did."""
    return schema not in _NO_SCHEMAS and not any(part in schema for part in ("\r", "\n", "/*", "*/"))


def between_names(code: str, schema: str, named: str) -> list[str]:
    """Return the pieces of code between the places where it names a schema; all of it if it may mean something else.

    ``named`` is the name as quote_ident() writes it. It counts before a dot that something follows, and in comments.
    Where it stands by itself, or in another spelling, it is that of a table, an alias, a variable or a label.
    """
    pieces, last, position = [], 0, 0
    in_comment = re.compile(rf'(?<![\w$".]){re.escape(named)}(?=\.)')
    while token := _TOKEN.search(code, position):
        start, position = token.start(), token.end()
        match token.lastgroup:
            case "block" | "comment":
                if token.lastgroup == "block":
                    position = _end_or_all(code, position)
                for found in in_comment.finditer(code, start, position):
                    pieces.append(code[last : found.start()])
                    last = found.end()
            case "dollar" | "tag":
                end = code.find(token["dollar"], position)
                position = len(code) if end < 0 else end + len(token["dollar"])
            case "unclosed":
                # all that follows is the string's
                position = len(code)
            case "identifier" if code[max(0, start - 2) : start].lower() == "u&":
                # what that is only its escapes tell
                return [code]
            case "word" | "identifier" if _same_name(token[0], schema):
                operator = _OPERATOR.search(code, max(0, start - 100), start) is not None
                follows = _BEFORE_NAME.match(code, position) or (operator and _BEFORE_OPERATOR.match(code, position))
                if token[0] != named or not follows or code[start - 1 : start] == ".":
                    return [code]
                pieces.append(code[last:start])
                last = position
    return [*pieces, code[last:]] if can_be_named(schema) else [code]


def _end_or_all(code: str, position: int) -> int:
    try:
        return _block_end(code, position, "", 0)
    except UserError:
        return len(code)


def _unnamed(comment: str, names: Sequence[str]) -> str:
    for name in names:
        comment = re.sub(rf'(?<![\w$".]){re.escape(quoted(name))}\.(?=[\w"])', "", comment)
    return comment


def _same_name(identifier: str, name: str) -> bool:
    return identifier[1:-1].replace('""', '"') == name if identifier.startswith('"') else identifier.lower() == name


def words_of(statement: Statement) -> list[str]:
    """Return the words of a statement outside of quotes and comments, in lower case."""
    words, position = [], 0
    while token := _TOKEN.search(statement.text, position):
        position = token.end()
        if token.lastgroup == "block":
            position = _block_end(statement.text, position, "", 0)
        elif token.lastgroup in ("dollar", "tag"):
            position = statement.text.find(token["dollar"], position) + len(token["dollar"])
        elif token.lastgroup == "word":
            words.append(token["word"].lower())
    return words


def without_comment(statement: Statement) -> tuple[str, int]:
    """Return the text of a statement from its first word on, and the line of that."""
    position = 0
    while token := _TOKEN.search(statement.text, position):
        if token.lastgroup not in ("comment", "block"):
            # an operator may come before what is a token here
            start = position + len(statement.text[position:]) - len(statement.text[position:].lstrip())
            return statement.text[start:], statement.line + statement.text.count("\n", 0, start)
        position = token.end() if token.lastgroup == "comment" else _block_end(statement.text, token.end(), "", 0)
    return statement.text, statement.line
