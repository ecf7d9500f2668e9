"""Create, insert, read, drop: the cycle of many small tables, under each durability profile and by each method."""
