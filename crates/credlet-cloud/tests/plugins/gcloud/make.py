"""Makes the two files that gcloud keeps logins in, with its own tables (googlecloudsdk/core/credentials/creds.py).

On the smallest pages there are, so that a few rows need inner and overflow pages as a large file does.
"""
import json
import os
import sqlite3


def database(name, table):
    if os.path.exists(name):
        os.remove(name)
    connection = sqlite3.connect(name, isolation_level=None)
    connection.execute("PRAGMA page_size=512")
    connection.execute(table)
    return connection


tokens = database(
    "access_tokens.db",
    'CREATE TABLE IF NOT EXISTS "access_tokens" (account_id TEXT PRIMARY KEY, access_token TEXT, '
    "token_expiry TIMESTAMP, rapt_token TEXT, id_token TEXT)",
)
for n in range(30):
    row = (f"user{n:02}@example.test", f"ya29.other-{n:02}-" + "x" * 40, "2026-11-15 20:00:00.123456", None, None)
    tokens.execute('REPLACE INTO "access_tokens" VALUES (?,?,?,?,?)', row)
for row in [
    ("ada@example.test", "ya29.adas-stored-token-" + "a" * 1500, "2026-11-15 20:00:00.123456", None, "id"),
    ("bob@example.test", "ya29.bobs-stored-token", "2026-11-15 19:00:00", None, None),
    ("eve@example.test", "ya29.eves-stored-token", "2026-11-15 20:00:00", "rapt", None),
    ("rapt@example.test", None, None, "rapt", None),
]:
    tokens.execute('REPLACE INTO "access_tokens" VALUES (?,?,?,?,?)', row)
tokens.close()

logins = database(
    "credentials.db", 'CREATE TABLE IF NOT EXISTS "credentials" (account_id TEXT PRIMARY KEY, value BLOB)'
)
bob = {
    "type": "authorized_user",
    "client_id": "1.apps.googleusercontent.com",
    "client_secret": "bobs-client-secret",
    "refresh_token": "1//bobs-refresh-token" + "r" * 900,
    "token_uri": "",
}
for n in range(10):
    logins.execute('REPLACE INTO "credentials" VALUES (?,?)', (f"user{n:02}@example.test", "{}"))
for account, value in [
    ("bob@example.test", json.dumps(bob, indent=2)),
    ("odd@example.test", json.dumps({"type": "service_account_p12"})),
    ("broken@example.test", "not json"),
]:
    logins.execute('REPLACE INTO "credentials" VALUES (?,?)', (account, value))
logins.close()
