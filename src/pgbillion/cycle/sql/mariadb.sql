-- MariaDB: one phase for all tables in the server itself, as a DO block is for PostgreSQL.
-- Parts: count, statement (an expression of i), begin and end of a transaction. A DDL statement is one by itself.
BEGIN NOT ATOMIC
    DECLARE i INT DEFAULT 1;
    {begin}
    WHILE i <= {count} DO
        EXECUTE IMMEDIATE {statement};
        {check}
        SET i = i + 1;
    END WHILE;
    {end}
END
