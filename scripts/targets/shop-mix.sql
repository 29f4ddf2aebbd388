-- What a shop asks of its database, a little of each.
PRAGMA cache_size = -8192;
-- Point selects, all over the table.
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
SELECT count(*), sum(cents) FROM n JOIN sale ON sale.id = 1 + (i * 75577) % 200000;
-- Range scans through an index.
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3)
SELECT i, (SELECT sum(cents) FROM sale
    WHERE day BETWEEN (i * 61) % 3600 AND (i * 61) % 3600 + 10) FROM n;
-- Joins with grouping and order.
SELECT region, count(*), sum(cents) AS total
    FROM customer JOIN sale ON sale.customer = customer.id
    WHERE region = 3 GROUP BY region ORDER BY total DESC;
SELECT name, max(length(note)) FROM customer JOIN sale ON sale.customer = customer.id
    WHERE customer.id < 60 GROUP BY customer.id ORDER BY name LIMIT 20;
-- A bulk insert that is taken back: the database is the same for every run.
-- The journal in memory keeps the disk out of it.
PRAGMA journal_mode = MEMORY;
BEGIN;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 750)
INSERT INTO sale (customer, day, cents, note)
    SELECT 1 + (i * 48271) % 5000, (i * 16807) % 3650, i, printf('new %x', i) FROM n;
ROLLBACK;
