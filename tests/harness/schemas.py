"""Schemas to be cloned: a small application's, and one for each kind of object. Each is made in its own search_path.

``outside`` is a schema that is there already, with a table, a type and a function to refer to.
"""

from __future__ import annotations

from collections.abc import Mapping

from psycopg import sql

from pgbillion.common.connection import Connection

OUTSIDE = """
CREATE SCHEMA outside;
CREATE TABLE outside.country (code char(2) PRIMARY KEY, name text);
CREATE TYPE outside.size AS ENUM ('small', 'large');
CREATE FUNCTION outside.twice(integer) RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT 2 * $1';
CREATE FUNCTION outside.noted() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TABLE outside.ancestor (born date);
GRANT USAGE ON SCHEMA outside TO PUBLIC;
GRANT ALL ON outside.country TO PUBLIC;
"""

APPLICATION = """
CREATE TYPE state AS ENUM ('new', 'paid', 'it''s sent');
CREATE DOMAIN amount AS numeric(12,2) DEFAULT 0 NOT NULL CONSTRAINT not_negative CHECK (VALUE >= 0);
CREATE TYPE address AS (street text COLLATE "C", code varchar(8));
CREATE FUNCTION rounded(numeric, digits integer DEFAULT 2) RETURNS numeric LANGUAGE sql IMMUTABLE
    AS 'SELECT round($1, $2)';
CREATE TABLE customer (
    id bigint GENERATED ALWAYS AS IDENTITY (START WITH 100 INCREMENT BY 10) PRIMARY KEY,
    name text NOT NULL COLLATE "C",
    country char(2) REFERENCES outside.country,
    home address,
    size outside.size DEFAULT 'small',
    referrer bigint REFERENCES customer,
    seen timestamptz DEFAULT '2020-01-02 03:04:05+00',
    CONSTRAINT named CHECK (name <> '')
);
CREATE SEQUENCE number START WITH 1000 INCREMENT BY 5 CACHE 3 CYCLE MAXVALUE 99999;
CREATE TABLE invoice (
    id serial PRIMARY KEY,
    customer bigint NOT NULL REFERENCES customer ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
    number integer DEFAULT nextval('number') UNIQUE,
    state state DEFAULT 'new',
    net amount,
    tax numeric GENERATED ALWAYS AS (rounded(net * 0.2)) STORED,
    note text,
    EXCLUDE USING btree (number WITH =) WHERE (state <> 'new')
) WITH (fillfactor = 70, toast.autovacuum_enabled = off);
CREATE INDEX invoice_open ON invoice (customer, lower(note) DESC NULLS LAST) INCLUDE (net) WHERE
    state = 'new' AND note > 'a';
CREATE INDEX ON invoice ((net + tax), (outside.twice(id))) WITH (fillfactor = 50);
CREATE TABLE log (at timestamptz DEFAULT now(), what text, was invoice);
CREATE FUNCTION logged() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('INSERT INTO %I.log (what) VALUES ($1)', TG_TABLE_SCHEMA) USING TG_OP;
    RETURN NEW;
END $$;
CREATE TRIGGER log_change AFTER INSERT OR UPDATE OF net ON invoice
    FOR EACH ROW WHEN (NEW.net > 0) EXECUTE FUNCTION logged('it''s');
CREATE TRIGGER noted BEFORE UPDATE ON invoice FOR EACH ROW EXECUTE FUNCTION outside.noted();
ALTER TABLE invoice DISABLE TRIGGER noted;
CREATE VIEW unpaid (number, who, total) WITH (security_barrier) AS
    SELECT i.number, c.name, i.net + i.tax FROM invoice i JOIN customer c ON c.id = i.customer WHERE i.state < 'paid';
CREATE VIEW sums AS SELECT c.*, sum(i.net) AS net FROM customer c LEFT JOIN invoice i ON i.customer = c.id
    GROUP BY c.id;
CREATE FUNCTION of_view() RETURNS SETOF unpaid LANGUAGE sql STABLE BEGIN ATOMIC SELECT * FROM unpaid; END;
CREATE MATERIALIZED VIEW totals AS SELECT count(*) AS customers FROM customer;
CREATE UNIQUE INDEX totals_key ON totals (customers);
CREATE POLICY own ON invoice FOR SELECT TO reader, maker USING (customer IN (SELECT id FROM customer WHERE
    name = current_user));
CREATE POLICY strict ON invoice AS RESTRICTIVE USING (net > 0) WITH CHECK (net < 1000);
ALTER TABLE invoice ENABLE ROW LEVEL SECURITY;
CREATE PROCEDURE pay(which integer) LANGUAGE sql AS 'UPDATE invoice SET state = ''paid'' WHERE id = which';
CREATE STATISTICS pair (dependencies) ON customer, state FROM invoice;
COMMENT ON TABLE invoice IS 'what''s owed';
COMMENT ON COLUMN invoice.net IS 'without tax';
COMMENT ON CONSTRAINT named ON customer IS 'not empty';
COMMENT ON FUNCTION rounded(numeric, integer) IS 'as in books';
COMMENT ON TRIGGER log_change ON invoice IS 'a trigger';
COMMENT ON INDEX invoice_open IS 'an index';
COMMENT ON TYPE state IS 'a type';
COMMENT ON POLICY own ON invoice IS 'a policy';
GRANT SELECT ON invoice, unpaid TO reader;
GRANT SELECT (name), UPDATE (name, size) ON customer TO reader WITH GRANT OPTION;
GRANT USAGE ON SEQUENCE number TO reader;
REVOKE EXECUTE ON FUNCTION rounded FROM PUBLIC;
GRANT EXECUTE ON FUNCTION rounded TO maker;
GRANT INSERT ON log TO PUBLIC;
"""

# of which PostgreSQL shows something else once they are made of what it shows
WORDED = """
CREATE DOMAIN short AS varchar(5) CHECK (VALUE IN ('a', 'b'));
CREATE TABLE t (
    id integer PRIMARY KEY,
    kind varchar(10) DEFAULT 'a' CHECK (kind IN ('a', 'b')),
    other varchar(10) CHECK (other NOT IN ('a', 'it''s ARRAY[1])::text[]', E'b\\\\')),
    x integer CHECK (x BETWEEN 1 AND 10 AND id > 0 AND id <> 7),
    y integer CHECK (y NOT BETWEEN 1 AND 10 OR id > 0),
    z numeric CHECK (z > -1::integer AND z <> -1.5::numeric),
    known boolean GENERATED ALWAYS AS (kind IN ('a', 'c')) STORED,
    "Odd ""Name" varchar(3) CHECK ("Odd ""Name" IN ('a', kind)),
    low text[] DEFAULT (ARRAY['a'::varchar, 'b']::varchar[])::text[],
    nested text[] DEFAULT (ARRAY[ARRAY['a'::varchar, 'b'], ARRAY['c'::varchar, 'd']]),
    CHECK (lower(kind)::varchar IN ('a', 'b') OR (kind || 'x')::varchar(20) IN ('c'::varchar, other))
);
CREATE TABLE q (kind varchar(9), d integer) PARTITION BY LIST ((kind IN ('a', 'b')));
CREATE TABLE q1 PARTITION OF q FOR VALUES IN (true);
CREATE INDEX partial ON t (id) WHERE kind IN ('a', 'b');
CREATE INDEX expression ON t ((kind IN ('a', 'b')), id) WHERE x BETWEEN 1 AND 2 AND y > 1;
CREATE STATISTICS worded ON (kind IN ('a', 'b')), (x BETWEEN 1 AND 2 AND y > 1) FROM t;
CREATE VIEW v AS SELECT *, kind IN ('x', 'y') AS xy, -1::integer AS minus FROM t
    WHERE kind NOT IN ('a', 'b') AND x BETWEEN 1 AND 2 AND (SELECT count(*) FROM t u WHERE u.x > 1 AND u.y > 1) > 0;
CREATE MATERIALIZED VIEW m AS SELECT id FROM t WHERE other IN ('a', 'b');
CREATE VIEW u AS SELECT a, b, c, d, e, f, (SELECT 'x' LIMIT 1) AS g FROM (
    SELECT id AS a, kind AS b, z AS c, now() AS d, NULL::short AS e, kind::char(3) AS f FROM t
    UNION ALL SELECT NULL, 'none', -1::integer, NULL, NULL, 'x' FROM t
    UNION SELECT NULL::integer AS int4, 'x', NULL, NULL::timestamptz, NULL, NULL) q;
CREATE POLICY p ON t USING (kind IN ('a', 'b') AND x BETWEEN 1 AND 2) WITH CHECK (x BETWEEN 1 AND 2 AND y > 1);
ALTER TABLE t ENABLE ROW LEVEL SECURITY;
CREATE RULE r AS ON INSERT TO t WHERE NEW.kind IN ('a', 'b') AND NEW.x BETWEEN 1 AND 2 AND NEW.y = 1 DO ALSO
    DELETE FROM t WHERE other IN ('b', 'c') AND x BETWEEN 1 AND 3 AND y = 2;
CREATE RULE s AS ON UPDATE TO t DO ALSO INSERT INTO q SELECT NULL, -1::integer FROM t;
CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TRIGGER g BEFORE UPDATE ON t FOR EACH ROW WHEN (NEW.kind IN ('a', 'b') AND NEW.x BETWEEN 1 AND 2 AND NEW.y = 1)
    EXECUTE FUNCTION f();
CREATE FUNCTION a(k varchar DEFAULT 'a', b boolean DEFAULT 'x'::varchar IN ('a', 'b')) RETURNS boolean
    BEGIN ATOMIC SELECT k IN ('a', 'b') AND 1 BETWEEN 1 AND 2 AND b; END;
"""

# views whose stored queries take several pages, with constants that hold OIDs
_CASES = ", ".join(
    f"CASE s WHEN 'new' THEN n + {number} WHEN 'done' THEN 2 ELSE length('é\" {{ ( \\ {number}') END AS c{number}"
    for number in range(40)
)
LONG_VIEWS = f"""
    CREATE TYPE state AS ENUM ('new', 'done');
    CREATE TABLE a (s state, t text, n bigint);
    CREATE VIEW long_view AS SELECT sum(n) AS total, max(s) AS last,
        (SELECT count(*) FROM (SELECT {_CASES} FROM a b WHERE b.s <> 'done') c) AS others FROM a;
    CREATE VIEW of_view AS SELECT x.total, y.others, {", ".join(f"x.total + y.total + {n} AS d{n}" for n in range(40))}
        FROM long_view x JOIN long_view y ON x.last IS NOT DISTINCT FROM y.last AND y.last IN ('new', 'done');
"""

KINDS: Mapping[str, str] = {
    "long views": LONG_VIEWS,
    "application": APPLICATION,
    "nothing": "",
    "types": """
        CREATE TYPE no_label AS ENUM ();
        CREATE TYPE "Odd ""Name" AS ENUM ('a');
        CREATE TYPE pair AS (one "Odd ""Name", other "Odd ""Name"[]);
        CREATE DOMAIN pairs AS pair[] CHECK (array_length(VALUE, 1) < 3) CONSTRAINT two CHECK (VALUE IS NOT NULL);
        CREATE DOMAIN word AS text COLLATE "C" DEFAULT 'it''s' CHECK (VALUE <> 'a' OR VALUE IS NULL);
        CREATE DOMAIN short AS word DEFAULT 'x' CHECK (length(VALUE) < 9);
        CREATE FUNCTION difference(double precision, double precision) RETURNS double precision LANGUAGE sql IMMUTABLE
            AS 'SELECT $1 - $2';
        CREATE TYPE stretch AS RANGE (subtype = double precision, subtype_diff = difference,
            multirange_type_name = stretches);
        CREATE TYPE words AS RANGE (subtype = text, collation = "C");
        CREATE TABLE typed (a no_label, b "Odd ""Name"[] DEFAULT '{a}', c pairs, d short, e stretch
            DEFAULT '[1,2.5)', f stretches,
            g words, h pair DEFAULT ROW('a', '{a}'), i bit varying(7) DEFAULT B'101', j interval
                DEFAULT '1 day 02:03:04.5',
            k double precision DEFAULT 0.1 + 1e-17, l date DEFAULT '2001-02-03', m regclass DEFAULT 'typed',
                n "char" DEFAULT 'x',
            o timestamp(3) with time zone, p numeric(4,2)[]);
        COMMENT ON DOMAIN word IS 'a domain';
        COMMENT ON CONSTRAINT two ON DOMAIN pairs IS 'a constraint';
        COMMENT ON COLUMN pair.one IS 'an attribute';
        GRANT USAGE ON TYPE pair TO reader;
        REVOKE USAGE ON TYPE word FROM PUBLIC;
    """,
    "partitions": """
        CREATE TABLE event (id bigint NOT NULL, at date NOT NULL DEFAULT '2020-01-01', kind integer CHECK
            (kind > 0), note text,
            PRIMARY KEY (id, at), CONSTRAINT noted CHECK (note <> '')) PARTITION BY RANGE (at);
        CREATE TABLE event_2020 PARTITION OF event FOR VALUES FROM (MINVALUE) TO ('2021-01-01');
        CREATE TABLE event_2021 PARTITION OF event (note DEFAULT 'x') FOR VALUES FROM ('2021-01-01') TO ('2022-01-01')
            PARTITION BY LIST (id);
        CREATE TABLE event_2021_a PARTITION OF event_2021 FOR VALUES IN (1, 2);
        CREATE TABLE event_2021_rest PARTITION OF event_2021 DEFAULT;
        CREATE TABLE event_old (note text, dropped integer, at date NOT NULL, kind integer CHECK (kind > 0),
            id bigint NOT NULL,
            CONSTRAINT noted CHECK (note <> ''), CONSTRAINT event_kind_check CHECK (kind > 0), PRIMARY KEY (id, at));
        ALTER TABLE event_old DROP COLUMN dropped;
        ALTER TABLE event ATTACH PARTITION event_old FOR VALUES FROM ('2022-01-01') TO (MAXVALUE);
        CREATE INDEX by_kind ON event (kind) WHERE kind > 2;
        CREATE UNIQUE INDEX one_more ON event_2020 (kind);
        CREATE TABLE detail (id bigint, at date, FOREIGN KEY (id, at) REFERENCES event) PARTITION BY HASH (id);
        CREATE TABLE detail_0 PARTITION OF detail FOR VALUES WITH (MODULUS 2, REMAINDER 0);
        CREATE TABLE detail_1 PARTITION OF detail FOR VALUES WITH (MODULUS 2, REMAINDER 1);
        CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
        CREATE TRIGGER t AFTER INSERT ON event FOR EACH ROW EXECUTE FUNCTION f();
        ALTER TABLE event_2020 DISABLE TRIGGER t;
        CREATE TRIGGER always AFTER DELETE ON event FOR EACH ROW EXECUTE FUNCTION f();
        ALTER TABLE event ENABLE ALWAYS TRIGGER always;
        CREATE TRIGGER parent_only AFTER UPDATE ON event FOR EACH ROW EXECUTE FUNCTION f();
        ALTER TABLE ONLY event DISABLE TRIGGER parent_only;
        CREATE TABLE keyed (a integer, b text) PARTITION BY RANGE ((a / 10), lower(b) COLLATE "C");
        CREATE TABLE parts (a integer, b integer, CONSTRAINT parts_key UNIQUE (a, b) WITH (fillfactor = 60)
            DEFERRABLE INITIALLY DEFERRED) PARTITION BY LIST (a);
        CREATE TABLE part PARTITION OF parts FOR VALUES IN (1);
        CREATE TABLE keyed_1 PARTITION OF keyed FOR VALUES FROM (0, 'it''s') TO (10, MAXVALUE);
    """,
    "foreign keys": """
        CREATE TABLE a (i integer PRIMARY KEY) PARTITION BY RANGE (i);
        CREATE TABLE a1 (i integer PRIMARY KEY);
        ALTER TABLE a ATTACH PARTITION a1 FOR VALUES FROM (0) TO (10);
        CREATE TABLE b (i integer PRIMARY KEY);
        CREATE TABLE p (i integer PRIMARY KEY, a integer CONSTRAINT to_a REFERENCES a, p integer REFERENCES p,
            b integer CONSTRAINT b REFERENCES b ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED) PARTITION BY LIST (i);
        CREATE TABLE p1 (i integer PRIMARY KEY, a integer, p integer, b integer);
        ALTER TABLE p ATTACH PARTITION p1 FOR VALUES IN (1);
        CREATE TABLE p2 (b integer REFERENCES b ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED, p integer,
            i integer PRIMARY KEY, a integer CONSTRAINT "To a" REFERENCES a);
        ALTER TABLE p ATTACH PARTITION p2 FOR VALUES IN (2);
        CREATE TABLE p3 (i integer PRIMARY KEY, a integer, p integer CONSTRAINT "to" REFERENCES p,
            b integer CONSTRAINT c REFERENCES b ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED) PARTITION BY LIST (i);
        CREATE TABLE p31 (i integer PRIMARY KEY, a integer, p integer CONSTRAINT p31 REFERENCES p,
            b integer CONSTRAINT d REFERENCES b ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED);
        ALTER TABLE p3 ATTACH PARTITION p31 FOR VALUES IN (3);
        ALTER TABLE p ATTACH PARTITION p3 FOR VALUES IN (3, 4);
        COMMENT ON CONSTRAINT d ON p31 IS 'by its own name';
    """,
    "inheritance": """
        CREATE TABLE parent (a integer NOT NULL, b text DEFAULT 'p', CONSTRAINT positive CHECK (a > 0));
        CREATE TABLE other (b text, c integer, CONSTRAINT mine CHECK (c > 0) NO INHERIT);
        CREATE TABLE child (d integer UNIQUE, CHECK (d > a)) INHERITS (parent, other);
        CREATE TABLE local (a integer, e integer) INHERITS (parent);
        CREATE TABLE of_outside (f integer) INHERITS (outside.ancestor);
        ALTER TABLE child ALTER COLUMN b SET DEFAULT 'c';
        ALTER TABLE parent ADD CONSTRAINT unchecked CHECK (a < 99) NOT VALID;
        CREATE TABLE later () INHERITS (parent);
        CREATE TABLE latest () INHERITS (later);
    """,
    "constraints": """
        CREATE TABLE one (a integer, b integer NOT NULL, c text,
            CONSTRAINT pk PRIMARY KEY (a) INCLUDE (c) WITH (fillfactor = 60),
            CONSTRAINT late UNIQUE (b) DEFERRABLE INITIALLY DEFERRED);
        CREATE TABLE three (a integer PRIMARY KEY, b integer NOT NULL);
        CREATE TABLE two (a integer CONSTRAINT fk REFERENCES one (a) MATCH FULL ON UPDATE CASCADE ON DELETE SET NULL,
            b integer CONSTRAINT fk2 REFERENCES three DEFERRABLE, c outside.size);
        ALTER TABLE two ADD CONSTRAINT unchecked CHECK (a > 0) NOT VALID;
        ALTER TABLE two ADD CONSTRAINT unheld FOREIGN KEY (b) REFERENCES one NOT VALID;
        ALTER TABLE one ADD COLUMN again integer CONSTRAINT circle REFERENCES three;
        CREATE UNIQUE INDEX nulls ON two (a, b) NULLS NOT DISTINCT;
        ALTER TABLE two ADD CONSTRAINT nulls_too UNIQUE NULLS NOT DISTINCT (b);
        CREATE TABLE apart (a integer, EXCLUDE (a WITH =) WITH (fillfactor = 60) WHERE (a > 0) DEFERRABLE);
        ALTER TABLE one CLUSTER ON pk;
        ALTER TABLE one REPLICA IDENTITY USING INDEX pk;
        CREATE UNIQUE INDEX identity ON three (b);
        ALTER TABLE three REPLICA IDENTITY USING INDEX identity;
        ALTER TABLE three CLUSTER ON identity;
        ALTER TABLE two REPLICA IDENTITY FULL;
    """,
    "storage": """
        CREATE UNLOGGED TABLE fast (id serial, t text, u text, v integer, drop_me integer, w text);
        ALTER TABLE fast DROP COLUMN drop_me;
        ALTER TABLE fast ALTER COLUMN t SET STORAGE EXTERNAL, ALTER COLUMN u SET COMPRESSION pglz,
            ALTER COLUMN v SET STATISTICS 7, ALTER COLUMN v SET (n_distinct = -0.5, n_distinct_inherited = 3);
        ALTER TABLE fast SET (autovacuum_enabled = off, toast.autovacuum_vacuum_threshold = 9);
        CREATE TABLE spaced (a integer, CONSTRAINT spaced_key UNIQUE (a) USING INDEX TABLESPACE space2)
            TABLESPACE space1;
        CREATE INDEX spaced_index ON spaced ((a + 1)) TABLESPACE space3;
        ALTER INDEX spaced_index ALTER COLUMN 1 SET STATISTICS 11;
        CREATE INDEX trees ON spaced USING brin (a) WITH (pages_per_range = 4);
        CREATE TABLE lazy (a integer PRIMARY KEY, b text) USING lazy_heap;
        CREATE STATISTICS s (ndistinct, mcv) ON a, (a % 10) FROM spaced;
        ALTER STATISTICS s SET STATISTICS 5;
        COMMENT ON STATISTICS s IS 'statistics';
        CREATE UNLOGGED SEQUENCE quick AS smallint INCREMENT BY -1;
        CREATE UNLOGGED TABLE unlogged (i integer GENERATED ALWAYS AS IDENTITY);
        ALTER SEQUENCE unlogged_i_seq SET LOGGED;
        CREATE TABLE logged (i integer GENERATED ALWAYS AS IDENTITY);
        ALTER SEQUENCE logged_i_seq SET UNLOGGED;
        CREATE TABLE of_like (LIKE logged INCLUDING ALL);
        ALTER SEQUENCE of_like_i_seq MAXVALUE 9223372036854775806 MINVALUE 70 START 77 RESTART;
    """,
    "rules": """
        CREATE TABLE target (a integer, b text);
        CREATE VIEW seen AS SELECT a, b FROM target WHERE a > 0 WITH LOCAL CHECK OPTION;
        ALTER VIEW seen ALTER COLUMN b SET DEFAULT 'seen';
        CREATE RULE written AS ON INSERT TO seen DO INSTEAD INSERT INTO target VALUES (NEW.a, NEW.b) RETURNING target.*;
        CREATE RULE kept AS ON DELETE TO target WHERE OLD.a = 1 DO INSTEAD NOTHING;
        ALTER TABLE target DISABLE RULE kept;
        COMMENT ON RULE kept ON target IS 'a rule';
        CREATE RECURSIVE VIEW numbers (n) AS VALUES (1) UNION ALL SELECT n + 1 FROM numbers WHERE n < 5;
        CREATE VIEW over_view AS SELECT s.*, n FROM seen s, LATERAL (SELECT n FROM numbers WHERE n = s.a) x;
        CREATE FUNCTION instead() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
        CREATE TRIGGER instead INSTEAD OF UPDATE ON over_view FOR EACH ROW EXECUTE FUNCTION instead();
        CREATE CONSTRAINT TRIGGER later AFTER INSERT ON target DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
            EXECUTE FUNCTION instead();
        CREATE TRIGGER whole AFTER DELETE ON target REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE
            FUNCTION instead();
        ALTER TABLE target ENABLE ALWAYS TRIGGER whole, FORCE ROW LEVEL SECURITY;
        CREATE MATERIALIZED VIEW below AS SELECT a FROM target;
        CREATE VIEW between_them AS SELECT a FROM below;
        CREATE MATERIALIZED VIEW above AS SELECT count(*) FROM between_them;
        CREATE MATERIALIZED VIEW not_yet AS SELECT 1 AS one WITH NO DATA;
        ALTER MATERIALIZED VIEW not_yet ALTER COLUMN one SET STATISTICS 7;
    """,
    "functions": """
        CREATE TYPE mood AS ENUM ('sad');
        CREATE TABLE t (a integer, m mood);
        CREATE FUNCTION f(t) RETURNS t LANGUAGE sql AS 'SELECT $1';
        CREATE FUNCTION f(integer, VARIADIC text[]) RETURNS SETOF mood LANGUAGE sql STRICT STABLE COST 7
            ROWS 3 SECURITY DEFINER
            SET work_mem = '1MB' SET DateStyle = 'ISO, MDY' AS $$SELECT 'sad'::mood$$;
        CREATE FUNCTION g(a integer DEFAULT 1, OUT b t, INOUT c mood DEFAULT 'sad') LANGUAGE plpgsql AS 'BEGIN END';
        CREATE FUNCTION h(x integer) RETURNS TABLE (y integer, z mood) LANGUAGE sql
            BEGIN ATOMIC SELECT x, 'sad'::mood; END;
        CREATE PROCEDURE p(INOUT x mood, y integer DEFAULT outside.twice(2)) LANGUAGE plpgsql AS 'BEGIN END';
        CREATE VIEW v AS SELECT (g()).c, f(1, 'a', 'b'), outside.twice(a) FROM t;
        CREATE TABLE by_function (x mood DEFAULT (g()).c, y integer CHECK ((f(ROW(y, 'sad')::t)).a > 0));
    """,
    "operators": """
        CREATE TYPE mood AS ENUM ('sad', 'ok');
        CREATE FUNCTION same(mood, mood) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT $1 IS NOT DISTINCT FROM $2';
        CREATE FUNCTION same(integer, mood) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT $1 = 1';
        CREATE FUNCTION other(mood, mood) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT $1 IS DISTINCT FROM $2';
        CREATE FUNCTION is_sad(mood) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$SELECT $1::text = 'sad'$$;
        CREATE OPERATOR === (FUNCTION = same, LEFTARG = mood, RIGHTARG = mood, COMMUTATOR = ===, NEGATOR = !==,
            RESTRICT = eqsel, JOIN = eqjoinsel, HASHES, MERGES);
        CREATE OPERATOR !== (FUNCTION = other, LEFTARG = mood, RIGHTARG = mood, COMMUTATOR = !==, NEGATOR = ===);
        CREATE OPERATOR @# (FUNCTION = same, LEFTARG = integer, RIGHTARG = mood);
        CREATE OPERATOR |? (FUNCTION = is_sad, RIGHTARG = mood);
        CREATE OPERATOR <<< (FUNCTION = same, LEFTARG = integer, RIGHTARG = mood, COMMUTATOR = >>>, NEGATOR = !<<<);
        CREATE OPERATOR <~ (FUNCTION = same, LEFTARG = mood, RIGHTARG = mood, COMMUTATOR = ~>, NEGATOR = !<~);
        CREATE OPERATOR ~> (FUNCTION = same, LEFTARG = mood, RIGHTARG = mood);
        CREATE FUNCTION added(integer, integer) RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT $1 + $2';
        CREATE FUNCTION finished(integer) RETURNS mood LANGUAGE sql IMMUTABLE AS $$SELECT 'ok'::mood$$;
        CREATE AGGREGATE total(integer) (SFUNC = added, STYPE = integer, SSPACE = 99, FINALFUNC = finished,
            FINALFUNC_MODIFY = SHAREABLE, COMBINEFUNC = added, INITCOND = '0', PARALLEL = SAFE);
        CREATE AGGREGATE moods(mood) (SFUNC = array_append, STYPE = mood[], INITCOND = '{sad}');
        CREATE AGGREGATE "Odd" (*) (SFUNC = int8inc, STYPE = bigint, INITCOND = '7');
        CREATE AGGREGATE most(integer) (SFUNC = int4larger, STYPE = integer, SORTOP = >);
        CREATE AGGREGATE moving(double precision) (SFUNC = float8pl, STYPE = float8, MSFUNC = float8pl,
            MINVFUNC = float8mi, MSTYPE = float8, MSSPACE = 8, MINITCOND = '0', INITCOND = '1');
        CREATE AGGREGATE ranked(double precision ORDER BY anyelement) (SFUNC = ordered_set_transition,
            STYPE = internal, FINALFUNC = percentile_disc_final, FINALFUNC_EXTRA);
        CREATE AGGREGATE placed(VARIADIC "any" ORDER BY VARIADIC "any") (SFUNC = ordered_set_transition_multi,
            STYPE = internal, FINALFUNC = rank_final, FINALFUNC_EXTRA, HYPOTHETICAL);
        CREATE COLLATION "Mine" (PROVIDER = libc, LOCALE = 'C');
        CREATE TEXT SEARCH DICTIONARY stems (TEMPLATE = snowball, LANGUAGE = english, STOPWORDS = english);
        CREATE TEXT SEARCH DICTIONARY "It's" (TEMPLATE = pg_catalog.simple, ACCEPT = false);
        CREATE TEXT SEARCH CONFIGURATION plain (PARSER = "default");
        ALTER TEXT SEARCH CONFIGURATION plain ADD MAPPING FOR asciiword, word WITH "It's", stems, simple;
        ALTER TEXT SEARCH CONFIGURATION plain ADD MAPPING FOR url, numword WITH simple;
        CREATE TABLE t (a mood CHECK (a === 'ok' OR |? a), b text COLLATE "Mine", c integer,
            d tsvector GENERATED ALWAYS AS (to_tsvector('plain', b)) STORED, CHECK (b < 'x' COLLATE "Mine"));
        CREATE INDEX ON t (b, lower(b) COLLATE "Mine");
        CREATE INDEX ON t USING gin (to_tsvector('plain', b));
        CREATE VIEW v AS SELECT total(c), moods(a), "Odd"(*), most(c) FILTER (WHERE 1 @# a) AS most,
            ranked(0.5) WITHIN GROUP (ORDER BY c), placed(1) WITHIN GROUP (ORDER BY c), bool_or(a !== 'sad') AS any
            FROM t WHERE d @@ to_tsquery('plain', 'x');
        CREATE VIEW moved AS SELECT moving(c) OVER (ORDER BY c ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t;
        COMMENT ON OPERATOR |? (NONE, mood) IS 'an operator';
        COMMENT ON OPERATOR >>> (mood, integer) IS 'only the commutator of another';
        ALTER OPERATOR !<<< (integer, mood) OWNER TO maker;
        COMMENT ON AGGREGATE total(integer) IS 'an aggregate';
        COMMENT ON COLLATION "Mine" IS 'a collation';
        COMMENT ON TEXT SEARCH DICTIONARY "It's" IS 'a dictionary';
        COMMENT ON TEXT SEARCH CONFIGURATION plain IS 'a configuration';
        REVOKE EXECUTE ON FUNCTION total(integer) FROM PUBLIC;
        ALTER AGGREGATE ranked(double precision ORDER BY anyelement) OWNER TO maker;
        ALTER OPERATOR @# (integer, mood) OWNER TO maker;
        ALTER COLLATION "Mine" OWNER TO maker;
        ALTER TEXT SEARCH DICTIONARY "It's" OWNER TO maker;
        ALTER TEXT SEARCH CONFIGURATION plain OWNER TO maker;
    """,
    "casts": """
        CREATE TYPE mood AS ENUM ('sad', 'ok');
        CREATE TYPE pair AS (one integer, other text COLLATE "C");
        CREATE TYPE span AS RANGE (subtype = date);
        CREATE FUNCTION mood(integer) RETURNS mood LANGUAGE sql IMMUTABLE AS $$SELECT 'ok'::mood$$;
        CREATE FUNCTION number(mood, integer, boolean) RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT 1';
        CREATE CAST (integer AS mood) WITH FUNCTION mood(integer) AS IMPLICIT;
        CREATE CAST (mood AS integer) WITH FUNCTION number AS ASSIGNMENT;
        CREATE CAST (varchar AS mood) WITH INOUT AS IMPLICIT;
        CREATE CAST (mood[] AS text) WITH INOUT;
        CREATE CAST (outside.size AS mood) WITH INOUT AS IMPLICIT;
        CREATE CAST (pair AS outside.country) WITH INOUT;
        CREATE TABLE of_pair OF pair (PRIMARY KEY (one), other WITH OPTIONS NOT NULL DEFAULT 'x' CHECK (other <> ''));
        CREATE TABLE "Of mood" (m mood DEFAULT 1, s varchar);
        CREATE CAST ("Of mood" AS text) WITH INOUT AS ASSIGNMENT;
        CREATE FUNCTION is_ok(mood) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$SELECT $1 = 'ok'$$;
        CREATE VIEW told AS SELECT m, s, is_ok(1) AS one, is_ok(s) AS same, 1::mood FROM "Of mood" WHERE is_ok(2);
        CREATE FUNCTION of_pair(pair) RETURNS mood LANGUAGE sql IMMUTABLE RETURN $1.one;
        CREATE INDEX ON of_pair (other DESC);
        COMMENT ON CAST (integer AS mood) IS 'a cast';
        COMMENT ON COLUMN of_pair.one IS 'a column';
    """,
    "remarks": """
        CREATE TABLE a (i integer PRIMARY KEY, t text);
        CREATE VIEW v AS SELECT i FROM a;
        CREATE TYPE span AS RANGE (subtype = date, multirange_type_name = spans);
        CREATE FUNCTION f(i integer) RETURNS integer LANGUAGE sql AS 'SELECT 1';
        COMMENT ON TYPE a IS 'of rows';
        COMMENT ON TYPE v IS 'of a view''s rows';
        COMMENT ON TYPE spans IS 'of several ranges';
        COMMENT ON TYPE span IS 'a range';
        COMMENT ON COLUMN v.i IS 'of a view';
        COMMENT ON RULE "_RETURN" ON v IS 'a view''s rule';
        COMMENT ON INDEX a_pkey IS 'a key''s index';
        COMMENT ON CONSTRAINT a_pkey ON a IS 'a key';
        GRANT USAGE ON TYPE a TO reader;
        REVOKE USAGE ON TYPE span FROM PUBLIC;
    """,
    "privileges": """
        CREATE TABLE theirs (id serial, a integer);
        CREATE FUNCTION theirs() RETURNS integer LANGUAGE sql AS 'SELECT 1';
        CREATE TYPE theirs_too AS ENUM ('a');
        CREATE VIEW of_theirs AS SELECT a FROM theirs;
        CREATE STATISTICS st ON id, a FROM theirs;
        GRANT SELECT, INSERT ON theirs TO maker WITH GRANT OPTION;
        GRANT ALL ON theirs TO reader;
        GRANT UPDATE ON SEQUENCE theirs_id_seq TO reader;
        REVOKE ALL ON of_theirs FROM CURRENT_USER;
        ALTER TABLE theirs OWNER TO maker;
        ALTER FUNCTION theirs() OWNER TO maker;
        ALTER TYPE theirs_too OWNER TO maker;
        ALTER STATISTICS st OWNER TO maker;
        DO $$ BEGIN
            EXECUTE format('GRANT USAGE, CREATE ON SCHEMA %I TO maker', current_schema());
            EXECUTE format('GRANT USAGE ON SCHEMA %I TO reader WITH GRANT OPTION', current_schema());
            EXECUTE format('COMMENT ON SCHEMA %I IS %L', current_schema(), 'it''s ours');
            EXECUTE
                format('ALTER DEFAULT PRIVILEGES FOR ROLE maker IN SCHEMA %I GRANT SELECT, INSERT ON TABLES TO reader',
                current_schema());
            EXECUTE
                format('ALTER DEFAULT PRIVILEGES IN SCHEMA %I GRANT EXECUTE ON FUNCTIONS TO reader WITH GRANT OPTION',
                current_schema());
        END $$;
    """,
}


def make_outside(conn: Connection) -> None:
    conn.execute(OUTSIDE.encode())


def make_schema(conn: Connection, name: str, commands: str) -> None:
    """A schema of the library."""
    with conn.transaction():
        conn.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(name)))
        conn.execute(sql.SQL("SET LOCAL search_path = {}").format(sql.Identifier(name)))
        conn.execute(commands.encode())
