-- TPC-H's lineitem, the orders from %(first)s to %(last)s: values drawn as its specification says (4.2.3), so that
-- queries 1 and 6 read and keep the shares they are meant to. There are four lines an order on average.
INSERT INTO lineitem
SELECT orderkey, partkey, 1 + (partkey + n * 2501) %% 10000, n, quantity,
       quantity * (90000 + partkey / 10 %% 20001 + 100 * (partkey %% 1000))::numeric / 100,
       discount::numeric / 100, tax::numeric / 100,
       CASE WHEN receiptdate > date '1995-06-17' THEN 'N' WHEN coin < 0.5 THEN 'R' ELSE 'A' END,
       CASE WHEN shipdate > date '1995-06-17' THEN 'O' ELSE 'F' END,
       shipdate, commitdate, receiptdate,
       ('{DELIVER IN PERSON,COLLECT COD,NONE,TAKE BACK RETURN}'::text[])[1 + instruct],
       ('{REG AIR,AIR,RAIL,SHIP,TRUCK,MAIL,FOB}'::text[])[1 + mode],
       substr(repeat('carefully final deposits sleep quickly among the ironic requests; ', 2), place, length)
FROM (
    SELECT *, orderdate + 1 + ship AS shipdate, orderdate + 30 + commit AS commitdate,
           orderdate + 1 + ship + 1 + receipt AS receiptdate
    FROM (
        SELECT orderkey, orderdate, n,
               1 + floor(random() * 200000)::integer AS partkey,
               1 + floor(random() * 50)::integer AS quantity,
               floor(random() * 11)::integer AS discount,
               floor(random() * 9)::integer AS tax,
               floor(random() * 121)::integer AS ship,
               floor(random() * 61)::integer AS commit,
               floor(random() * 30)::integer AS receipt,
               floor(random() * 4)::integer AS instruct,
               floor(random() * 7)::integer AS mode,
               1 + floor(random() * 66)::integer AS place,
               10 + floor(random() * 34)::integer AS length,
               random() AS coin
        FROM (
            SELECT orderkey, date '1992-01-01' + floor(random() * 2406)::integer AS orderdate,
                   1 + floor(random() * 7)::integer AS lines
            FROM generate_series(%(first)s::integer, %(last)s::integer) AS orderkey
        ) AS orders, generate_series(1, lines) AS n
    ) AS drawn
) AS dated
