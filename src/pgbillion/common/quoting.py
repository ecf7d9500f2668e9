"""Names and texts in SQL that psycopg does not compose: that is printed, fed to psql or put into the user's own SQL."""

from __future__ import annotations

# words that are no names everywhere unless they are quoted, on any major version
_KEYWORDS = """
all analyse analyze and any array as asc asymmetric authorization binary both case cast check collate collation column
concurrently constraint create cross current_catalog current_date current_role current_schema current_time
current_timestamp current_user default deferrable desc distinct do else end except false fetch for foreign freeze from
full grant group having ilike in initially inner intersect into is isnull join lateral leading left like limit localtime
localtimestamp natural not notnull null offset on only or order outer overlaps placing primary references returning
right select session_user similar some symmetric system_user table tablesample then to trailing true union unique user
using variadic verbose when where window with between bigint bit boolean char character coalesce dec decimal exists
extract float greatest grouping inout int integer interval json json_array json_arrayagg json_exists json_object
json_objectagg json_query json_scalar json_serialize json_table json_value least merge_action national nchar none
normalize nullif numeric out overlay position precision real row setof smallint substring time timestamp treat trim
values varchar xmlattributes xmlconcat xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot xmlserialize
xmltable
"""
KEYWORDS = frozenset(_KEYWORDS.split())


def quote(identifier: str) -> str:
    """Return an identifier in double quotes, which psql does not search for variables."""
    return '"' + identifier.replace('"', '""') + '"'


def quoted(*names: str) -> str:
    """Return a qualified name as SQL has it, each part in quotes only where it needs them, as quote_ident() does it."""
    return ".".join(name if _is_plain(name) else quote(name) for name in names)


def _is_plain(name: str) -> bool:
    letters = name.isascii() and name.islower() and name.replace("_", "a").isalnum() and not name[0].isdigit()
    return letters and name not in KEYWORDS


def literal(text: str) -> str:
    """Return a string constant that means the same whatever standard_conforming_strings is."""
    doubled = text.replace("'", "''")
    return f" E'{doubled.replace(chr(92), chr(92) * 2)}'" if "\\" in text else f"'{doubled}'"
