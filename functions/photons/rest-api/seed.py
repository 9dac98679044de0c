"""Makes the table of users, the same ones every time. POSTGRES_URL says where; run it with the function's own Python."""

import os
from urllib.parse import urlsplit

import pg8000.native

USERS = 1000

if __name__ == "__main__":
    place = urlsplit(os.environ["POSTGRES_URL"])
    database = pg8000.native.Connection(
        place.username, host=place.hostname, port=place.port, password=place.password, database=place.path[1:]
    )
    database.run("DROP TABLE IF EXISTS users")
    database.run("CREATE TABLE users (username text PRIMARY KEY, password text NOT NULL)")
    database.run("INSERT INTO users VALUES ('first', 'strongpassword')")
    database.run("INSERT INTO users SELECT 'user-' || n, md5(n::text) FROM generate_series(1, :count) AS n", count=USERS)
