-- Make a sequence for a column of a new table, under the name that serial would choose, and have defaults call it.
-- The body of a DO, because the name depends on those that are taken. Placeholders are replaced by literals.
DECLARE
    home CONSTANT text := $schema;
    bearer CONSTANT text := $table;
    owner CONSTANT text := $column;
    attempt int := 0;
    label text;
    one int;
    two int;
    name text;
    called text;
    part text[];
BEGIN
    -- as where the defaults were written out
    PERFORM set_config('standard_conforming_strings', 'on', true);
    LOOP
        label := '_seq' || CASE WHEN attempt > 0 THEN attempt::text ELSE '' END;
        one := octet_length(bearer);
        two := octet_length(owner);
        -- the longer part is shortened until 63 bytes hold all, never inside a character
        WHILE one + two > 62 - octet_length(label) LOOP
            IF one > two THEN
                one := one - 1;
            ELSE
                two := two - 1;
            END IF;
        END LOOP;
        name := (SELECT left(bearer, n) FROM generate_series(length(bearer), 0, -1) n
                 WHERE octet_length(left(bearer, n)) <= one LIMIT 1)
            || '_'
            || (SELECT left(owner, n) FROM generate_series(length(owner), 0, -1) n
                WHERE octet_length(left(owner, n)) <= two LIMIT 1)
            || label;
        EXIT WHEN NOT EXISTS (
            SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
            WHERE c.relname = name AND n.nspname = home
        );
        attempt := attempt + 1;
    END LOOP;
    EXECUTE format('CREATE %s %I.%I %s OWNED BY %I.%I.%I', $kind, home, name, $options, home, bearer, owner);
    called := quote_literal(format('%I.%I', home, name)) || '::regclass';
    -- each a column and its default, which has the template's sequence
    FOREACH part SLICE 1 IN ARRAY $defaults::text[] LOOP
        EXECUTE format('ALTER TABLE %I.%I ALTER COLUMN %I SET DEFAULT %s', home, bearer, part[1],
                       replace(part[2], $sequence, called));
    END LOOP;
END
