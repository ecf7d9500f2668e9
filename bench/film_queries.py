"""Queries by chance over a catalog of films, of which few are in most rows.

A film that everybody knows has many actors, keywords, companies and facts, and the same goes for people, companies and
keywords: all tables are skewed, and in the same direction, as no statistics tell. Queries join films with up to four of
these tables, these with the tables that they name, and compare names, years and notes.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

# rows at scale 1
COUNTS = {
    "films": 500_000,
    "people": 500_000,
    "companies": 50_000,
    "keywords": 30_000,
    "characters": 300_000,
    "n_firms": 520_000,
    "n_tags": 900_000,
    "n_facts": 3_000_000,
    "n_ratings": 400_000,
    "n_casts": 4_000_000,
    "n_links": 15_000,
    "n_complete": 60_000,
    "n_aliases": 120_000,
}
# keys by chance: of which table, and to which power the chance, so that the first ones are the most common
SKEWED = {
    "film": ("films", 2),
    "person": ("people", 2),
    "company": ("companies", 3),
    "keyword": ("keywords", 4),
    "character": ("characters", 2),
}
SMALL = """
CREATE TABLE kinds AS SELECT i AS id, (array['movie', 'series', 'short', 'video', 'game', 'stage', 'episode'])[i]
    AS kind FROM generate_series(1, 7) i;
CREATE TABLE firm_kinds AS SELECT i AS id, (array['distributor', 'producer', 'effects', 'others'])[i] AS kind
    FROM generate_series(1, 4) i;
CREATE TABLE fact_kinds AS SELECT i AS id, CASE i WHEN 3 THEN 'genre' WHEN 8 THEN 'country' WHEN 16 THEN 'release'
    WHEN 99 THEN 'votes' WHEN 100 THEN 'rating' WHEN 101 THEN 'top 250' ELSE 'fact ' || i END AS kind
    FROM generate_series(1, 113) i;
CREATE TABLE jobs AS SELECT i AS id, (array['actor', 'actress', 'producer', 'writer', 'camera', 'composer', 'costumes',
    'director', 'editor', 'others', 'designer', 'guest'])[i] AS job FROM generate_series(1, 12) i;
CREATE TABLE link_kinds AS SELECT i AS id, (array['follows', 'followed by', 'remake of', 'remade as', 'refers to',
    'referred to in', 'spoofs', 'spoofed in', 'features', 'featured in', 'spin-off of', 'spun off', 'version of',
    'similar to', 'edited into', 'edited from', 'translation of', 'others'])[i] AS kind FROM generate_series(1, 18) i;
CREATE TABLE completeness AS SELECT i AS id, (array['cast', 'crew', 'complete', 'verified'])[i] AS kind
    FROM generate_series(1, 4) i
"""
LARGE = {
    "keywords": "SELECT i AS id, CASE WHEN i % 97 = 0 THEN 'sequel ' || i WHEN i % 1000 = 1 THEN 'murder ' || i"
    " ELSE md5(i::text) END AS keyword FROM generate_series(1, {keywords}) i",
    "companies": "SELECT i AS id, 'Company ' || md5(i::text) AS name,"
    " (array['us', 'us', 'us', 'gb', 'de', 'fr', 'jp', 'in', 'pl', NULL])[1 + i % 10] AS country"
    " FROM generate_series(1, {companies}) i",
    "people": "SELECT i AS id, chr(65 + i % 26) || md5(i::text) || CASE i % 5 WHEN 0 THEN ' Tim' ELSE ' X' || i END"
    " AS name, (array['f', 'm', NULL])[1 + i % 3] AS gender, chr(65 + i % 26) || i % 600 AS code"
    " FROM generate_series(1, {people}) i",
    "characters": "SELECT i AS id, 'character ' || md5(i::text) AS name FROM generate_series(1, {characters}) i",
    "films": "SELECT i AS id, CASE WHEN i % 50 = 0 THEN 'Champion ' WHEN i % 70 = 0 THEN 'Money ' ELSE '' END"
    " || md5(i::text) AS title, CASE WHEN i % 10 < 4 THEN 7 WHEN i % 10 < 8 THEN 1 ELSE 1 + i % 6 END AS kind_id,"
    " CASE WHEN i % 13 > 0 THEN 2020 - floor(random() ^ 3 * 110)::int END AS year,"
    " CASE WHEN i % 10 < 4 THEN 1 + i % 300 END AS episode FROM generate_series(1, {films}) i",
    "firms": "SELECT i AS id, {film} AS film_id, {company} AS company_id, 1 + i % 2 AS kind_id,"
    " CASE WHEN i % 5 = 0 THEN '(2005) (USA)' WHEN i % 7 = 0 THEN '(co-production)' WHEN i % 3 > 0 THEN '(worldwide) '"
    " || i % 100 END AS note FROM generate_series(1, {n_firms}) i",
    "tags": "SELECT i AS id, {film} AS film_id, {keyword} AS keyword_id FROM generate_series(1, {n_tags}) i",
    "facts": "SELECT i AS id, film_id, CASE WHEN k < 3 THEN 3 WHEN k < 6 THEN 8 WHEN k < 12 THEN 16 ELSE 1 + i % 98 END"
    " AS kind_id, CASE WHEN k < 3 THEN (array['Drama', 'Horror', 'Comedy', 'Action', 'Short'])[1 + (film_id + i) % 5]"
    " WHEN k < 6 THEN (array['USA', 'UK', 'Germany', 'Japan'])[1 + film_id % 4] WHEN k < 12 THEN 'USA:'"
    " || 1950 + film_id % 70 ELSE md5(i::text) END AS fact, CASE WHEN i % 9 = 0 THEN 'internet' END AS note"
    " FROM (SELECT i, i % 20 AS k, {film} AS film_id FROM generate_series(1, {n_facts}) i) q",
    "ratings": "SELECT i AS id, 1 + i / 3 % {films} AS film_id, 99 + i % 3 AS kind_id, CASE i % 3"
    " WHEN 0 THEN (i % 100000)::text WHEN 1 THEN round((random() * 10)::numeric, 1)::text ELSE '1000' END AS fact"
    " FROM generate_series(1, {n_ratings}) i",
    "casts": "SELECT i AS id, {person} AS person_id, {film} AS film_id,"
    " CASE WHEN i % 4 > 0 THEN {character} END AS character_id, CASE WHEN i % 17 = 0 THEN '(voice)' WHEN i % 19 = 0"
    " THEN '(producer)' WHEN i % 23 = 0 THEN '(writer)' END AS note, 1 + i % 50 AS place,"
    " CASE WHEN i % 10 < 4 THEN 1 WHEN i % 10 < 7 THEN 2 ELSE 1 + i % 11 END AS job_id"
    " FROM generate_series(1, {n_casts}) i",
    "links": "SELECT i AS id, {film} AS film_id, 1 + i % 16 AS kind_id FROM generate_series(1, {n_links}) i",
    "complete": "SELECT i AS id, 1 + floor(random() * {films})::int AS film_id, 1 + i % 2 AS completeness_id"
    " FROM generate_series(1, {n_complete}) i",
    "aliases": "SELECT i AS id, {person} AS person_id, 'alias ' || md5(i::text) AS name"
    " FROM generate_series(1, {n_aliases}) i",
}
# of the tables that have rows about films: what they name, by which column
ABOUT_FILMS = {
    "firms": (("companies", "company_id"), ("firm_kinds", "kind_id")),
    "tags": (("keywords", "keyword_id"),),
    "facts": (("fact_kinds", "kind_id"),),
    "ratings": (("fact_kinds", "kind_id"),),
    "casts": (("people", "person_id"), ("jobs", "job_id"), ("characters", "character_id")),
    "links": (("link_kinds", "kind_id"),),
    "complete": (("completeness", "completeness_id"),),
}
# {year} and {later} are years
CONDITIONS = {
    "films": (
        "year > {year}", "year BETWEEN {year} AND {later}", "title LIKE 'Champion%'", "title LIKE '%Money%'",
        "episode < 50", "kind_id = 1",
    ),
    "kinds": ("kind = 'movie'", "kind IN ('movie', 'episode')"),
    "companies": ("country = 'us'", "country <> 'pl'", "country = 'de'", "name LIKE '%aa%'"),
    "firm_kinds": ("kind = 'producer'",),
    "firms": ("note LIKE '%(USA)%'", "note IS NULL", "note NOT LIKE '%(co-production)%'"),
    "keywords": ("keyword LIKE '%sequel%'", "keyword = 'murder 1'", "keyword IN ('murder 1', 'murder 1001')"),
    "facts": (
        "fact IN ('Drama', 'Horror')", "fact IN ('USA', 'Germany')", "fact LIKE 'USA:%199%'", "note LIKE '%internet%'",
    ),
    "ratings": ("fact > '8.0'", "fact < '3.5'"),
    "fact_kinds": ("kind = 'rating'", "kind = 'genre'", "kind = 'release'", "kind = 'top 250'", "kind = 'votes'"),
    "casts": ("note IN ('(voice)', '(writer)')", "note LIKE '%(producer)%'", "place < 3"),
    "people": ("gender = 'f'", "name LIKE '%Tim%'", "name LIKE 'B%'", "code LIKE 'D1%'"),
    "jobs": ("job = 'actress'", "job = 'director'"),
    "characters": ("name LIKE '%abc%'",),
    "link_kinds": ("kind LIKE '%follow%'", "kind = 'features'"),
    "completeness": ("kind = 'cast'",),
    "aliases": ("name LIKE '%a%'",),
}  # fmt: skip
SHOWN = {
    "films": "title",
    "people": "name",
    "companies": "name",
    "keywords": "keyword",
    "facts": "fact",
    "ratings": "fact",
    "characters": "name",
    "link_kinds": "kind",
}


def statements(scale: float) -> list[str]:
    """What makes the tables, with indexes on all keys."""
    counts = {name: max(int(count * scale), 100) for name, count in COUNTS.items()}
    values = {name: str(count) for name, count in counts.items()}
    for name, (table, power) in SKEWED.items():
        values[name] = f"1 + floor(random() ^ {power} * {counts[table]})::int"
    made = [*filter(None, map(str.strip, SMALL.split(";"))), "SELECT setseed(0.5)"]
    made += [f"CREATE TABLE {table} AS {query.format_map(values)}" for table, query in LARGE.items()]
    tables = [line.split()[2] for line in made if line.startswith("CREATE TABLE")]
    made += [f"ALTER TABLE {table} ADD PRIMARY KEY (id)" for table in tables]
    for table, others in ABOUT_FILMS.items():
        made += [f"CREATE INDEX ON {table} ({column})" for column in ("film_id", *(column for _, column in others))]
    made += ["CREATE INDEX ON films (kind_id)", "CREATE INDEX ON aliases (person_id)"]
    return [*made, f"VACUUM ANALYZE {', '.join(tables)}"]


@dataclass
class _Query:
    chance: random.Random
    sources: list[str] = field(default_factory=lambda: ["films f"])
    conditions: list[str] = field(default_factory=list)
    tables: list[tuple[str, str]] = field(default_factory=lambda: [("films", "f")])  # each with its alias

    def likely(self, probability: float) -> bool:
        return self.chance.random() < probability

    def join(self, table: str, alias: str, condition: str) -> None:
        self.sources.append(f"{table} {alias}")
        self.tables.append((table, alias))
        self.conditions.append(condition)

    def compare(self, table: str, alias: str) -> None:
        year = self.chance.randrange(1950, 2019)
        condition = self.chance.choice(CONDITIONS[table]).format(year=year, later=year + self.chance.randrange(1, 20))
        self.conditions.append(f"{alias}.{condition}")


def generate(seed: int) -> str:
    """A query; the same for the same seed."""
    query = _Query(random.Random(seed))
    chance = query.chance
    if query.likely(0.3):
        query.join("kinds", "k", "k.id = f.kind_id")
    for number, table in enumerate(chance.sample(list(ABOUT_FILMS), chance.choice((1, 2, 2, 3, 3, 4)))):
        alias = f"a{number}"
        query.join(table, alias, f"{alias}.film_id = f.id")
        if number > 0 and query.likely(0.6):
            query.conditions.append(f"{alias}.film_id = a0.film_id")
        for place, (other, column) in enumerate(ABOUT_FILMS[table]):
            name = f"{alias}{place}"
            if not query.likely(0.75 if place == 0 else 0.4):
                continue
            query.join(other, name, f"{name}.id = {alias}.{column}")
            if other == "people" and query.likely(0.2):
                query.join("aliases", f"{name}a", f"{name}a.person_id = {name}.id")
    comparable = [(table, alias) for table, alias in query.tables if table in CONDITIONS]
    for table, alias in chance.sample(comparable, max(1, round(len(comparable) * chance.uniform(0.4, 0.9)))):
        query.compare(table, alias)
    if query.likely(0.15):
        query.conditions.append(
            f"{chance.choice(('EXISTS', 'NOT EXISTS'))} (SELECT FROM ratings x WHERE x.film_id = f.id"
            " AND x.kind_id = 100 AND x.fact > '9')"
        )
    return _select(query)


def _select(query: _Query) -> str:
    columns = [f"{alias}.{SHOWN[table]}" for table, alias in query.tables if table in SHOWN]
    shown = query.chance.sample(columns, min(len(columns), query.chance.choice((1, 2, 3))))
    source = f"FROM {', '.join(query.sources)} WHERE {' AND '.join(query.conditions)}"
    form = query.chance.random()
    if form < 0.6:
        return f"SELECT {', '.join(f'min({column})' for column in shown)} {source}"
    if form < 0.8:
        return f"SELECT f.year, count(*), count(DISTINCT f.id) {source} GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 20"
    order = ", ".join(str(number + 1) for number in range(len(shown)))
    return f"SELECT {', '.join(shown)} {source} ORDER BY {order} LIMIT 50"
