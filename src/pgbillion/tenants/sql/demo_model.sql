-- The schema of a shop, as an application's migrations leave it: the demo's model of a tenant.
CREATE TYPE order_state AS ENUM ('new', 'paid', 'sent', 'returned');
CREATE DOMAIN email AS text CHECK (VALUE ~ '^[^@\s]+@[^@\s]+$');

CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.changed := clock_timestamp();
    RETURN NEW;
END
$$;

CREATE TABLE account (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, email email NOT NULL UNIQUE, password_hash text NOT NULL,
    is_admin boolean NOT NULL DEFAULT false, changed timestamptz NOT NULL DEFAULT now());
CREATE TABLE session (
    token uuid PRIMARY KEY DEFAULT gen_random_uuid(), account bigint NOT NULL REFERENCES account ON DELETE CASCADE,
    expires timestamptz NOT NULL);
CREATE TABLE country (code char(2) PRIMARY KEY, name text NOT NULL);
CREATE TABLE address (
    id bigserial PRIMARY KEY, account bigint NOT NULL REFERENCES account ON DELETE CASCADE, street text NOT NULL,
    town text NOT NULL, country char(2) NOT NULL REFERENCES country);
CREATE TABLE category (
    id serial PRIMARY KEY, parent integer REFERENCES category, name text NOT NULL, UNIQUE (parent, name));
CREATE TABLE supplier (id serial PRIMARY KEY, name text NOT NULL, country char(2) NOT NULL REFERENCES country);
CREATE TABLE product (
    id bigserial PRIMARY KEY, supplier integer NOT NULL REFERENCES supplier, sku text NOT NULL UNIQUE,
    name text NOT NULL, price numeric(12, 2) NOT NULL CHECK (price >= 0), attributes jsonb NOT NULL DEFAULT '{}',
    words tsvector GENERATED ALWAYS AS (to_tsvector('simple', name)) STORED, changed timestamptz);
CREATE TABLE product_category (
    product bigint NOT NULL REFERENCES product ON DELETE CASCADE, category integer NOT NULL REFERENCES category,
    PRIMARY KEY (product, category));
CREATE TABLE stock (
    product bigint PRIMARY KEY REFERENCES product, pieces integer NOT NULL DEFAULT 0 CHECK (pieces >= 0));
CREATE TABLE cart (
    id bigserial PRIMARY KEY, account bigint NOT NULL UNIQUE REFERENCES account ON DELETE CASCADE,
    changed timestamptz);
CREATE TABLE cart_line (
    cart bigint NOT NULL REFERENCES cart ON DELETE CASCADE, product bigint NOT NULL REFERENCES product,
    pieces integer NOT NULL CHECK (pieces > 0), PRIMARY KEY (cart, product));
CREATE TABLE orders (
    id bigserial PRIMARY KEY, account bigint NOT NULL REFERENCES account, ship_to bigint NOT NULL REFERENCES address,
    state order_state NOT NULL DEFAULT 'new', placed timestamptz NOT NULL DEFAULT now(), changed timestamptz);
CREATE TABLE order_line (
    "order" bigint NOT NULL REFERENCES orders ON DELETE CASCADE, number smallint NOT NULL,
    product bigint NOT NULL REFERENCES product, pieces integer NOT NULL CHECK (pieces > 0),
    price numeric(12, 2) NOT NULL, PRIMARY KEY ("order", number));
CREATE TABLE payment (
    id bigserial PRIMARY KEY, "order" bigint NOT NULL REFERENCES orders, amount numeric(12, 2) NOT NULL,
    provider text NOT NULL, received timestamptz NOT NULL DEFAULT now());
CREATE TABLE review (
    product bigint NOT NULL REFERENCES product ON DELETE CASCADE, account bigint NOT NULL REFERENCES account,
    stars smallint NOT NULL CHECK (stars BETWEEN 1 AND 5), words text, PRIMARY KEY (product, account));
CREATE TABLE event (id bigserial, happened timestamptz NOT NULL DEFAULT now(), what text NOT NULL, detail jsonb)
    PARTITION BY RANGE (happened);
CREATE TABLE event_2026 PARTITION OF event FOR VALUES FROM ('2026-01-01') TO ('2027-01-01');
CREATE TABLE event_2027 PARTITION OF event FOR VALUES FROM ('2027-01-01') TO ('2028-01-01');

CREATE INDEX ON session (account);
CREATE INDEX ON session (expires);
CREATE INDEX ON address (account);
CREATE INDEX ON product (supplier);
CREATE INDEX ON product (lower(name));
CREATE INDEX ON product USING gin (words);
CREATE INDEX ON product USING gin (attributes jsonb_path_ops);
CREATE INDEX ON product_category (category);
CREATE INDEX ON cart_line (product);
CREATE INDEX ON orders (account, placed DESC);
CREATE INDEX ON orders (placed) WHERE state = 'new';
CREATE INDEX ON order_line (product);
CREATE INDEX ON payment ("order");
CREATE INDEX ON review (account);
CREATE INDEX ON event (happened);

CREATE TRIGGER touch BEFORE UPDATE ON account FOR EACH ROW EXECUTE FUNCTION touch();
CREATE TRIGGER touch BEFORE UPDATE ON product FOR EACH ROW EXECUTE FUNCTION touch();
CREATE TRIGGER touch BEFORE UPDATE ON cart FOR EACH ROW EXECUTE FUNCTION touch();
CREATE TRIGGER touch BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION touch();

CREATE VIEW order_total AS
    SELECT o.id, o.account, o.state, sum(l.pieces * l.price) AS total
    FROM orders o JOIN order_line l ON l."order" = o.id GROUP BY o.id;
CREATE VIEW open_order AS SELECT * FROM order_total WHERE state IN ('new', 'paid');
CREATE MATERIALIZED VIEW best_seller AS
    SELECT p.id, p.name, sum(l.pieces) AS pieces FROM product p JOIN order_line l ON l.product = p.id GROUP BY p.id;
CREATE UNIQUE INDEX ON best_seller (id);

ALTER TABLE orders ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON orders USING (account = current_setting('shop.account', true)::bigint);
COMMENT ON TABLE orders IS 'Orders, from the cart to the return';
