"""What of the schemas of schemas.py pg_dump leaves out or makes otherwise."""

from __future__ import annotations

# pg_dump takes the sequence of an identity column for one of the column's type, and a constraint for as valid as its
# parent's; it leaves out comments on the rule of a view and on a type of several ranges, and says nothing of operators
# that are only the commutator or negator of another
UNKNOWN_TO_PG_DUMP = {
    "storage": "DROP TABLE of_like",
    "inheritance": "DROP TABLE latest, later",
    "operators": "COMMENT ON OPERATOR >>> (mood, integer) IS NULL;"
    "ALTER OPERATOR !<<< (integer, mood) OWNER TO CURRENT_USER",
    "remarks": 'COMMENT ON RULE "_RETURN" ON v IS NULL; COMMENT ON TYPE spans IS NULL',
}
# casts belong to no schema, so that pg_dump leaves them out of one, and move refuses; partitions' foreign keys get the
# names of their table's
REFUSED = {"casts": "cast from ", "foreign keys": r'the copy is not the same: .*constraint "To a" on p2'}
