-- A shop with 5,000 customers and 200,000 sales, the same every time.
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT, region INTEGER);
CREATE TABLE sale (
    id INTEGER PRIMARY KEY, customer INTEGER, day INTEGER, cents INTEGER, note TEXT
);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
INSERT INTO customer
    SELECT i, printf('customer %08d', (i * 7919) % 1000003), i % 40 FROM n;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000)
INSERT INTO sale
    SELECT i, 1 + (i * 48271) % 5000, (i * 16807) % 3650, (i * 69621) % 100000,
        printf('note %x %x', (i * 2654435761) % 4294967296, i) FROM n;
CREATE INDEX sale_customer ON sale (customer);
CREATE INDEX sale_day ON sale (day);
ANALYZE;
