'use strict';

// A login: the user's row by name, and whether the password is the right one. The connection is kept.

const { beforeSnapshot } = require('flint');
const { Client } = require('pg');

let connected;

function connection() {
  connected ??= (async () => {
    const client = new Client({ connectionString: process.env.POSTGRES_URL });
    client.on('error', () => { connected = undefined; });
    await client.connect();
    return client;
  })().catch((error) => {
    connected = undefined;
    throw error;
  });
  return connected;
}

// Clones cannot share the one of the warm-up: each opens its own in its first call.
beforeSnapshot(async () => {
  const open = await connected;
  connected = undefined;
  await open?.end();
});

exports.main = async ({ username, password }) => {
  const started = performance.now();
  const client = await connection();
  const { rows } = await client.query('SELECT password FROM users WHERE username = $1', [username]);
  return { succeeded: String(rows.length === 1 && rows[0].password === password), time: performance.now() - started };
};
